"""Proposition "feasibility": which selections some cls embedding realises.

Oracles: Kahn's topological sort for cycles, and HiGHS for two linear programs: does a p exist, and is zero in
the hull of the differences?
"""

import numpy as np
import pytest
from scipy.optimize import linprog

from tokensel.corpus import Corpus
from tokensel.maxmargin import max_margin
from tokensel.selection import InfeasibleSelection, Selection

ORIGIN = "tool"
SETTING = r"""Any selection with at least one pair, in any corpus. Part 1 and the first half of part 2: any
embeddings."""
HYPOTHESES = {
    "no-cycle": r"For a $p$ to exist: the arrows from selected tokens to others have no cycle.",
    "independent": r"For every order to have one: the rows of $E$ are affinely independent.",
}


def random_selection(rng, n_tokens):
    sequences = [rng.integers(0, n_tokens, rng.integers(2, 5)) for _ in range(rng.integers(1, n_tokens))]
    corpus = Corpus.from_sequences(sequences, labels=np.ones(len(sequences)), n_tokens=n_tokens)
    return Selection(corpus, [rng.choice(sequence) for sequence in sequences])


def heights(pairs, n_tokens):
    """Longest descending path from each token, by Kahn's algorithm; None if there is a cycle."""
    above = {s: {t for t, other in pairs.tolist() if other == s} for s in range(n_tokens)}
    waiting = {t: sum(first == t for first in pairs[:, 0].tolist()) for t in range(n_tokens)}
    height = np.zeros(n_tokens)
    ready = [t for t in range(n_tokens) if waiting[t] == 0]
    done = 0
    while ready:
        s = ready.pop()
        done += 1
        for t in above[s]:
            height[t] = max(height[t], height[s] + 1)
            waiting[t] -= 1
            if waiting[t] == 0:
                ready.append(t)
    return height if done == n_tokens else None


def p_exists(z):
    """Is there a p with z_j.p >= 1 for all j?"""
    program = linprog(np.zeros(z.shape[1]), A_ub=-z, b_ub=-np.ones(len(z)), bounds=(None, None))
    assert program.status in (0, 2)  # solved, or infeasible
    return program.status == 0


def zero_in_hull(z):
    equations = np.vstack([z.T, np.ones(len(z))])
    program = linprog(
        np.zeros(len(z)), A_eq=equations, b_eq=np.append(np.zeros(z.shape[1]), 1), bounds=(0, None)
    )
    assert program.status in (0, 2)
    return program.status == 0


def is_feasible(embeddings, selection):
    try:
        max_margin(embeddings, selection)
    except InfeasibleSelection:
        return False
    return True


def differences(embeddings, pairs):
    return embeddings[pairs[:, 0]] - embeddings[pairs[:, 1]]


@pytest.mark.parametrize("spare", [-1, 0, 3])  # d = S - 1 is the least for affinely independent rows
def test_affinely_independent_rows_realise_exactly_the_orders_without_a_cycle(spare, evidence):
    outcomes = []
    for seed in range(60):
        rng = np.random.default_rng([seed, spare + 1])
        n_tokens = int(rng.integers(3, 9))
        selection = random_selection(rng, n_tokens)
        if len(selection.pairs) == 0:
            continue
        embeddings = rng.standard_normal((n_tokens, n_tokens + spare))
        height = heights(selection.pairs, n_tokens)
        z = differences(embeddings, selection.pairs)
        assert p_exists(z) == (height is not None)
        assert is_feasible(embeddings, selection) == (height is not None)
        assert (selection.cycle is None) == (height is not None)
        outcomes.append(height is not None)
        evidence.holds()
        if height is not None:
            # The proof's p: scores equal to the heights, up to a constant.
            system = np.column_stack([embeddings, np.ones(n_tokens)])
            p = np.linalg.lstsq(system, height, rcond=None)[0][:-1]
            # Rounding: 1e-16 times the condition, below 1e4, times heights below 10, and some room.
            assert np.linalg.cond(system) < 1e4
            assert (z @ p).min() >= 1 - 1e-10
    assert 10 < sum(outcomes) < len(outcomes) - 10


def test_for_any_embeddings_zero_in_the_hull_decides(evidence):
    outcomes = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n_tokens = int(rng.integers(3, 9))
        selection = random_selection(rng, n_tokens)
        if len(selection.pairs) == 0:
            continue
        embeddings = rng.standard_normal((n_tokens, int(rng.integers(1, 4))))
        z = differences(embeddings, selection.pairs)
        inside = zero_in_hull(z)
        assert p_exists(z) != inside
        assert is_feasible(embeddings, selection) != inside
        outcomes.append((inside, selection.cycle is None))
        evidence.holds()
    # All that can be: feasible; infeasible by a cycle; infeasible by the embeddings alone.
    for kind in ((False, True), (True, False), (True, True)):
        assert outcomes.count(kind) > 10
    assert (False, False) not in outcomes


@pytest.mark.drops("no-cycle")
def test_along_a_cycle_the_differences_sum_to_zero_whatever_the_embeddings():
    rng = np.random.default_rng(0)
    for length in range(2, 7):
        tokens = rng.permutation(length)
        sequences = [[a, b] for a, b in zip(tokens, np.roll(tokens, -1), strict=True)]
        selection = Selection(Corpus.from_sequences(sequences, labels=np.ones(length)), tokens)
        # Integers, so that sums are exact.
        embeddings = rng.integers(-9, 10, (length, 50)).astype(float)
        # Affinely independent: the cycle alone is to blame.
        assert np.linalg.matrix_rank(np.column_stack([embeddings, np.ones(length)])) == length
        assert np.array_equal(differences(embeddings, selection.pairs).sum(axis=0), np.zeros(50))
        with pytest.raises(InfeasibleSelection) as caught:
            max_margin(embeddings, selection)
        assert len(caught.value.cycle) == length


@pytest.mark.drops("independent")
def test_without_affine_independence_an_order_may_be_impossible():
    """The middle one of three points on a line is above neither side at once; off the line it is."""
    corpus = Corpus.from_sequences([[1, 0], [1, 2]], labels=[1, 1])
    selection = Selection(corpus, [1, 1])
    assert selection.cycle is None
    assert not is_feasible(np.array([[0.0], [1], [2]]), selection)
    assert not is_feasible(np.array([[0.0, 0], [1, 0], [2, 0]]), selection)
    bent = np.array([[0.0, 0], [1, 0.1], [2, 0]])
    assert np.linalg.matrix_rank(np.column_stack([bent, np.ones(3)])) == 3
    assert is_feasible(bent, selection)
