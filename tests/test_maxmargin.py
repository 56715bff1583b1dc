"""Max-margin solutions against closed forms, linear programs, SLSQP and the KKT conditions written out.

Multipliers are rarely unique, so they are never compared: they are put into the KKT conditions, which are
sufficient. The tolerances come from the two ways of solving. Small problems end with one triangular system
on the pairs in use: rounding, a few 1e-16, times its condition, below 1e4 here, so 1e-11 is allowed. Large
ones stop at a KKT residual of 1e-8. A p of residual r is within sqrt(2 r) of the solution, relative to its
norm: scaled up by 1/(1 - r) it is feasible, and no feasible p is shorter than the point of the hull that it
came from.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

from tokensel import maxmargin
from tokensel.corpus import Corpus
from tokensel.maxmargin import cosine, max_margin
from tokensel.model import AttentionClassifier
from tokensel.selection import InfeasibleSelection, Selection

SMALL, LARGE = 1e-11, 1e-8


@pytest.fixture(params=["cvxpy", "interior point"])
def accuracy(request, monkeypatch):
    """Run a test by both ways of solving, and say what KKT residual that one promises."""
    if request.param == "cvxpy":
        return SMALL
    monkeypatch.setattr(maxmargin, "_ORDINARY_PAIRS", 0)
    return LARGE


def select(sequences, tokens, n_tokens=None, **more):
    corpus = Corpus.from_sequences(
        sequences, labels=np.ones(len(sequences), dtype=int), n_tokens=n_tokens, **more
    )
    return Selection(corpus, tokens)


def differences(embeddings, pairs):
    return embeddings[pairs[:, 0]] - embeddings[pairs[:, 1]]


def check_kkt(solution, embeddings, pairs, allowed):
    """Stationary, feasible on all pairs, complementary, and what the fields promise besides."""
    p, duals = solution.cls, solution.duals
    norm = np.linalg.norm(p)
    z, tight = differences(embeddings, pairs), differences(embeddings, solution.support_pairs)
    assert np.all(duals >= 0)
    assert np.linalg.norm(p - duals @ tight) <= allowed * norm
    assert (z @ p).min() >= 1 - allowed
    assert duals @ np.abs(tight @ p - 1) <= allowed * duals.sum()
    assert np.abs(tight @ p - 1).max() <= 1.1e-6  # "tight" is 1e-6, and the test rounds too
    support = set(map(tuple, solution.support_pairs.tolist()))
    missed = [j for j, pair in enumerate(pairs.tolist()) if tuple(pair) not in support]
    assert np.all(z[missed] @ p > 1 + 0.9e-6)
    assert solution.margin == pytest.approx(1 / norm, rel=1e-14)
    assert duals.sum() == pytest.approx(norm**2, rel=2 * allowed)
    assert solution.kkt_residual <= allowed


def check_combination(error, embeddings, selection):
    """A Farkas certificate: a convex combination of pairs of the selection that is zero, up to rounding."""
    assert isinstance(error, ValueError)
    assert error.cycle is None
    assert set(map(tuple, error.pairs.tolist())) <= set(map(tuple, selection.pairs.tolist()))
    assert np.all(error.weights > 0)
    assert error.weights.sum() == pytest.approx(1, rel=1e-12)
    z = differences(embeddings, error.pairs)
    # Rounding of the embeddings' differences and of their sum: a few 1e-16 a term, with room for condition.
    assert np.linalg.norm(error.weights @ z) <= 1e-12 * np.abs(z).max()


def orthonormal(n_tokens, dim, rng):
    return np.linalg.qr(rng.standard_normal((dim, n_tokens)))[0].T


# --- The closed form of one important token per sequence, orthonormal embeddings ---


def windows(n_important, n_irrelevant, length):
    """Every important token with every run of ``length - 1`` neighbouring irrelevant ones, in a circle."""
    return [
        [k] + [n_important + (start + j) % n_irrelevant for j in range(length - 1)]
        for k in range(n_important)
        for start in range(n_irrelevant)
    ]


def closed_form(embeddings, n_important):
    n_irrelevant = len(embeddings) - n_important
    important, irrelevant = embeddings[:n_important].sum(0), embeddings[n_important:].sum(0)
    return (n_irrelevant * important - n_important * irrelevant) / (n_important + n_irrelevant)


SIZES = [
    (k, m, t) for k in (1, 2, 3, 6, 10) for m in (1, 2, 5, 20) for t in (2, 3, 6, 21) if t - 1 <= m
]  # 45 of them


@pytest.mark.parametrize(("n_important", "n_irrelevant", "length"), SIZES)
def test_closed_form_of_full_co_occurrence(n_important, n_irrelevant, length):
    n_tokens = n_important + n_irrelevant
    embeddings = orthonormal(
        n_tokens, n_tokens + 3, np.random.default_rng([n_important, n_irrelevant, length])
    )
    sequences = windows(n_important, n_irrelevant, length)
    selection = select(sequences, [sequence[0] for sequence in sequences])
    solution = max_margin(embeddings, selection)
    assert np.abs(solution.cls - closed_form(embeddings, n_important)).max() <= 1e-12
    assert solution.margin**-2 == pytest.approx(n_important * n_irrelevant / n_tokens, rel=1e-12)
    assert len(solution.support_pairs) == n_important * n_irrelevant
    check_kkt(solution, embeddings, selection.pairs, SMALL)


@pytest.mark.parametrize("size", [3, 7, 12])
def test_closed_form_of_marginal_balance(size):
    """Token k beside three of the irrelevant ones only: all equally often, and the same solution."""
    sequences = [[k] + [size + (k + j) % size for j in range(3)] for k in range(size)]
    embeddings = orthonormal(2 * size, 2 * size, np.random.default_rng(size))
    selection = select(sequences, range(size))
    solution = max_margin(embeddings, selection)
    assert np.abs(solution.cls - closed_form(embeddings, size)).max() <= 1e-12
    check_kkt(solution, embeddings, selection.pairs, SMALL)


@pytest.mark.parametrize(
    ("n_important", "n_irrelevant", "dim"), [(30, 100, 150), (40, 600, 640), (600, 40, 700)]
)
def test_closed_form_with_many_pairs(n_important, n_irrelevant, dim):
    n_tokens = n_important + n_irrelevant
    assert n_important * n_irrelevant > maxmargin._ORDINARY_PAIRS
    embeddings = orthonormal(n_tokens, dim, np.random.default_rng(dim))
    sequences = [[k, *range(n_important, n_tokens)] for k in range(n_important)]
    selection = select(sequences, range(n_important))
    solution = max_margin(embeddings, selection)
    expected = closed_form(embeddings, n_important)
    distance = np.linalg.norm(solution.cls - expected)
    assert distance <= (math.sqrt(2 * solution.kkt_residual) + 1e-12) * np.linalg.norm(expected)
    check_kkt(solution, embeddings, selection.pairs, LARGE)


# --- Brute force ---


def small_corpus(seed):
    """Up to 5 sequences of up to 4 tokens out of few, and embeddings: general, or with many ties."""
    rng = np.random.default_rng(seed)
    n_tokens = int(rng.integers(3, 8))
    sequences = [rng.integers(0, n_tokens, rng.integers(1, 5)).tolist() for _ in range(rng.integers(1, 6))]
    dim = int(rng.integers(1, n_tokens + 2))
    if seed % 3:
        return sequences, rng.standard_normal((n_tokens, dim))
    return sequences, rng.integers(-1, 2, (n_tokens, dim)).astype(float)


def largest_margin(z):
    """max t with z_j.p >= t for all j and |p_k| <= 1: positive where a p exists. By HiGHS."""
    n_pairs, dim = z.shape
    program = linprog(
        np.append(np.zeros(dim), -1.0),
        A_ub=np.column_stack([-z, np.ones(n_pairs)]),
        b_ub=np.zeros(n_pairs),
        bounds=[(-1, 1)] * dim + [(None, None)],
    )
    assert program.status == 0
    return -program.fun


def shortest(z, start):
    """Squared norm of the shortest p with z_j.p >= 1, by SLSQP."""
    answer = minimize(
        lambda p: p @ p,
        start,
        jac=lambda p: 2 * p,
        constraints={"type": "ineq", "fun": lambda p: z @ p - 1, "jac": lambda p: z},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert (z @ answer.x).min() >= 1 - 1e-8  # SLSQP's own accuracy, from its finite line search
    return answer.fun


@pytest.mark.parametrize("block", range(8))
def test_every_selection_of_small_corpora(block):
    """200 corpora: feasible where HiGHS finds a margin, and as short as SLSQP's p."""
    feasible = cycles = combinations = 0
    for seed in range(25 * block, 25 * block + 25):
        sequences, embeddings = small_corpus(seed)
        seen = set()
        for tokens in itertools.product(*[sorted(set(sequence)) for sequence in sequences]):
            selection = select(sequences, tokens, n_tokens=len(embeddings))
            if len(selection.pairs) == 0 or selection.pairs.tobytes() in seen:
                continue
            seen.add(selection.pairs.tobytes())
            z = differences(embeddings, selection.pairs)
            margin = largest_margin(z)
            assert margin < 1e-6 or margin > 1e-3  # HiGHS, accurate to 1e-7, can tell which
            exists = margin > 1e-3
            try:
                solution = max_margin(embeddings, selection)
            except InfeasibleSelection as error:
                assert not exists
                if error.cycle is None:
                    combinations += 1
                    check_combination(error, embeddings, selection)
                else:
                    cycles += 1
                continue
            assert exists
            feasible += 1
            check_kkt(solution, embeddings, selection.pairs, SMALL)
            start = solution.cls + 0.1 * np.linalg.norm(solution.cls)
            # An error e in the constraints, at most 1e-8, changes the squared norm by 2e at most, relatively.
            assert solution.margin**-2 == pytest.approx(shortest(z, start), rel=1e-7)
    assert min(feasible, cycles, combinations) > 10


# --- Both ways of solving ---


def ordered_corpus(rng, n_tokens, n_sequences, length):
    """Sequences whose selected tokens follow a random order, so that no pairs run in a circle."""
    rank = rng.permutation(n_tokens)
    sequences = [rng.choice(n_tokens, length, replace=False).tolist() for _ in range(n_sequences)]
    return select(sequences, [max(sequence, key=rank.__getitem__) for sequence in sequences], n_tokens), rank


SHAPES = {
    "affinely independent": (30, 40),
    "just independent": (30, 29),
    "dependent": (30, 20),
    "many tokens": (120, 12),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_kkt_conditions_of_random_orders(shape, seed, accuracy):
    n_tokens, dim = SHAPES[shape]
    rng = np.random.default_rng([seed, n_tokens, dim])
    selection, rank = ordered_corpus(rng, n_tokens, 60, 4)
    embeddings = rng.standard_normal((n_tokens, dim))
    if dim < n_tokens - 1:  # else no p need exist: let one direction follow the order, a little
        embeddings[:, 0] = 0.3 * rank
    check_kkt(max_margin(embeddings, selection), embeddings, selection.pairs, accuracy)


@pytest.mark.parametrize("seed", range(6))
def test_dependent_embeddings_give_a_combination_that_is_zero(seed, accuracy):
    rng = np.random.default_rng(seed)
    selection, _ = ordered_corpus(rng, 40, 80, 4)
    embeddings = rng.standard_normal((40, int(rng.integers(1, 6))))
    with pytest.raises(InfeasibleSelection, match="convex combination of the differences") as caught:
        max_margin(embeddings, selection)
    check_combination(caught.value, embeddings, selection)


def test_a_combination_without_some_of_the_pairs(accuracy):
    """Only two opposite differences can cancel; a third, at right angles, must stay out."""
    embeddings = np.array([[0.0, 0], [-1, 0], [5, 5], [6, 5], [0, 2], [0, 0.5]])
    selection = select([[0, 1], [2, 3], [4, 5]], [0, 2, 4])
    with pytest.raises(InfeasibleSelection) as caught:
        max_margin(embeddings, selection)
    assert caught.value.pairs.tolist() == [[0, 1], [2, 3]]
    assert caught.value.weights == pytest.approx([0.5, 0.5], abs=1e-12)


def test_a_common_part_of_all_embeddings_changes_nothing(accuracy):
    rng = np.random.default_rng(0)
    selection, _ = ordered_corpus(rng, 20, 40, 4)
    embeddings = rng.standard_normal((20, 25))
    moved = embeddings + 1e6 * rng.standard_normal(25)
    solution, again = max_margin(embeddings, selection), max_margin(moved, selection)
    # The moved embeddings are themselves rounded, by 1e6 * 1e-16; the margins by that times the norm of p.
    rounding = 1e-9 * np.linalg.norm(solution.cls)
    check_kkt(again, embeddings, selection.pairs, accuracy + rounding)


@pytest.mark.parametrize("factor", [1e-6, 1e8])
def test_p_scales_against_the_embeddings(factor, accuracy):
    rng = np.random.default_rng(1)
    selection, _ = ordered_corpus(rng, 20, 40, 4)
    embeddings = rng.standard_normal((20, 25))
    scaled = max_margin(factor * embeddings, selection)
    check_kkt(
        scaled._replace(
            cls=scaled.cls * factor, margin=scaled.margin / factor, duals=scaled.duals * factor**2
        ),
        embeddings,
        selection.pairs,
        2 * accuracy,
    )


@pytest.mark.parametrize("step", [1e2, 1e4, 1e7])
def test_embeddings_as_a_large_step_leaves_them(step):
    """E_s = e_s + b_s v with values up to 1e7: differences are nearly parallel, the margin is not small."""
    rng = np.random.default_rng(int(step))
    n_tokens, n_important = 16, 4
    unit = orthonormal(n_tokens + 1, 40, rng)
    values = np.zeros(n_tokens)
    values[:n_important] = step * np.array([1, 1, -1, -1])
    values += rng.normal(0, 0.1, n_tokens)
    embeddings = unit[:-1] + np.outer(values, unit[-1])
    sequences = [[k, *range(n_important, n_tokens)] for k in range(n_important)]
    selection = select(sequences, range(n_important))
    solution = max_margin(embeddings, selection)
    # Differences of length `step` are rounded by step * 1e-16, and p is of length 2: margins to step * 1e-15.
    check_kkt(solution, embeddings, selection.pairs, SMALL + 1e-15 * step)


def test_pairs_that_depend_on_each_other():
    """Orthonormal tokens in several sequences: SciPy's `nnls` alone stops short of the solution."""
    sequences = [[4, 0, 2, 6, 8, 9], [5, 2, 8], [7, 0, 1, 4, 5, 6, 10]]
    selection = select(sequences, [4, 5, 7], 11)
    solution = max_margin(np.eye(11), selection)
    check_kkt(solution, np.eye(11), selection.pairs, 1e-9)
    z = differences(np.eye(11), selection.pairs)
    assert 1 / solution.margin**2 == pytest.approx(shortest(z, 2 * solution.cls), rel=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_pairs_that_depend_on_each_other_at_random(seed):
    rng = np.random.default_rng(seed)
    n_tokens = int(rng.integers(6, 14))
    scores = rng.permutation(n_tokens)
    sequences = [rng.choice(n_tokens, size=rng.integers(2, 7), replace=False) for _ in range(5)]
    selection = select(sequences, [x[scores[x].argmax()] for x in sequences], n_tokens)
    check_kkt(max_margin(np.eye(n_tokens), selection), np.eye(n_tokens), selection.pairs, 1e-9)


def test_many_pairs_of_gaussian_embeddings():
    """As the large benchmark, at a tenth of its tokens: more pairs than cvxpy is given."""
    n_important, n_irrelevant = 20, 200
    sequences = [[k, *range(n_important, 220)] for k in range(n_important)]
    selection = select(sequences, range(n_important))
    for dim in (230, 150):
        embeddings = np.random.default_rng(dim).standard_normal((220, dim)) / math.sqrt(dim)
        assert len(selection.pairs) == n_important * n_irrelevant > maxmargin._ORDINARY_PAIRS
        check_kkt(max_margin(embeddings, selection), embeddings, selection.pairs, LARGE)


# --- Which pairs count ---


def test_pairs_of_equal_value_drop_out():
    """1 is above 2, and 2 above 1, but they have the same value: only the pairs with 0 and 3 remain."""
    embeddings = np.random.default_rng(2).standard_normal((4, 6))
    selection = select([[1, 2, 0], [2, 1, 3]], [1, 2])
    with pytest.raises(InfeasibleSelection):
        max_margin(embeddings, selection)
    solution = max_margin(embeddings, selection, values=[0.0, 1.0, 1.0, 0.5])
    check_kkt(solution, embeddings, np.array([[1, 0], [2, 3]]), SMALL)


def test_a_cycle_of_unequal_values_stays():
    embeddings = np.random.default_rng(2).standard_normal((4, 6))
    selection = select([[0, 1], [1, 0], [2, 3], [3, 2]], [0, 1, 2, 3])
    with pytest.raises(InfeasibleSelection) as caught:
        max_margin(embeddings, selection, values=torch.tensor([1.0, 1.0, 2.0, 1.0]))
    assert sorted(caught.value.cycle) == [2, 3]


def test_only_tokens_of_pairs_matter():
    """A token alone in its sequence, or in none, may have any embedding: also a selected one's."""
    rng = np.random.default_rng(3)
    embeddings = rng.standard_normal((5, 4))
    embeddings[3] = embeddings[4] = embeddings[0]
    selection = select([[0, 1, 2], [3, 3]], [0, 3], n_tokens=5)
    alone = max_margin(embeddings[:3], select([[0, 1, 2]], [0]))
    assert np.array_equal(max_margin(embeddings, selection).cls, alone.cls)


def test_no_pair_is_an_error():
    with pytest.raises(ValueError, match="one distinct token, so every cls embedding selects it"):
        max_margin(np.eye(2), select([[0, 0], [1]], [0, 1]))
    with pytest.raises(ValueError, match="or others of equal value"):
        max_margin(np.eye(2), select([[0, 1]], [0]), values=[1.0, 1.0])


def test_one_line_says_what_was_found():
    solution = max_margin(np.eye(4), select([[0, 2, 3], [1, 2, 3]], [0, 1]))
    assert repr(solution).startswith("MaxMargin(margin 1 in 4 dimensions; 4 support pairs; KKT residual ")
    alone = solution._replace(cls=np.array([2.0]), margin=0.5, support_pairs=np.array([[0, 1]]))
    expected = "MaxMargin(margin 0.5 in 1 dimension; 1 support pair; KKT residual 2.0e-07)"
    assert repr(alone._replace(kkt_residual=2e-7)) == expected


# --- Bad input ---


def test_two_tokens_above_each_other():
    selection = select([[0, 1], [1, 0, 2]], [0, 1], vocabulary=["good", "bad", "film"])
    with pytest.raises(InfeasibleSelection, match="'good' above 'bad' above 'good'") as caught:
        max_margin(np.eye(3), selection)
    assert caught.value.cycle == [0, 1]
    assert caught.value.weights is None


def test_three_tokens_in_a_circle():
    with pytest.raises(
        InfeasibleSelection, match="token 0 above token 1 above token 2 above token 0"
    ) as caught:
        max_margin(np.eye(3), select([[0, 1], [1, 2], [2, 0]], [0, 1, 2]))
    assert caught.value.cycle == [0, 1, 2]


def test_equal_embeddings_of_a_selected_and_another_token():
    embeddings = np.array([[1.0, 0], [0, 1], [1, -0.0]])
    with pytest.raises(InfeasibleSelection, match="token 0 above token 2: equal embeddings") as caught:
        max_margin(embeddings, select([[0, 1, 2]], [0]))
    assert (caught.value.pairs.tolist(), caught.value.weights.tolist()) == ([[0, 2]], [1.0])
    # Two others may well be equal, and so may two that are selected.
    embeddings = np.array([[1.0, 0], [0, 1], [0, 1], [1, 0]])
    selection = select([[0, 1, 2], [3, 1]], [0, 3])
    check_kkt(max_margin(embeddings, selection), embeddings, selection.pairs, SMALL)


def test_embeddings_of_the_wrong_kind():
    selection = select([[0, 1], [2, 1]], [0, 2])
    with pytest.raises(ValueError, match=r"shape \(3, d\).*got shape \(2, 4\)"):
        max_margin(np.ones((2, 4)), selection)
    with pytest.raises(ValueError, match=r"got shape \(3,\)"):
        max_margin(np.ones(3), selection)
    with pytest.raises(ValueError, match=r"got shape \(3, 0\)"):
        max_margin(np.ones((3, 0)), selection)
    with pytest.raises(ValueError, match="row 1 is not"):
        max_margin([[1.0, 0], [np.inf, 0], [0, 1]], selection)
    with pytest.raises(TypeError, match="real numbers"):
        max_margin([["a"], ["b"], ["c"]], selection)
    with pytest.raises(TypeError, match=r"selection must be a Selection, got list: pass path\.selection, or"):
        max_margin(np.eye(3), [0, 2])
    model = AttentionClassifier(np.eye(3), np.zeros(3), np.ones(3))
    with pytest.raises(TypeError, match=r"got AttentionClassifier: pass model\.embeddings"):
        max_margin(model, selection)
    with pytest.raises(TypeError, match=r"got AttentionClassifier: pass model\.values\(\)"):
        max_margin(np.eye(3), selection, values=model)
    with pytest.raises(ValueError, match=r"values must have shape \(3,\)"):
        max_margin(np.eye(3), selection, values=[1.0, 2.0])
    with pytest.raises(ValueError, match="values must be finite"):
        max_margin(np.eye(3), selection, values=[1.0, np.nan, 0.0])


def test_float32_and_tensors_are_promoted():
    selection = select([[0, 1, 2], [3, 1]], [0, 3])
    numbers = np.random.default_rng(5).standard_normal((4, 6)).astype(np.float32)
    expected = max_margin(numbers.astype(np.float64), selection)
    tensor = torch.tensor(numbers, requires_grad=True)
    for embeddings in (numbers, tensor):
        solution = max_margin(embeddings, selection)
        assert solution.cls.dtype == solution.duals.dtype == np.float64
        assert np.array_equal(solution.cls, expected.cls)


# --- A solver that errs is not believed, and one that gives up is not needed ---


def test_a_wrong_solution_does_not_leave(monkeypatch):
    selection, embeddings = select([[0, 1, 2]], [0]), np.eye(3)
    right = maxmargin._by_cvxpy

    def wrong(*problem):
        cls, duals = right(*problem)
        return cls * (1 - 1e-5), duals

    monkeypatch.setattr(maxmargin, "_by_cvxpy", wrong)
    with pytest.raises(RuntimeError, match=r"misses its certificate: KKT residual 1\.0e-05"):
        max_margin(embeddings, selection)


@pytest.mark.parametrize("how", ["raises", "is inaccurate"])
def test_where_clarabel_gives_up_least_squares_solves(how, monkeypatch):
    import cvxpy

    def give_up(self, solver):
        if how == "raises":
            raise cvxpy.SolverError("no")
        self._status = cvxpy.OPTIMAL_INACCURATE

    monkeypatch.setattr(cvxpy.Problem, "solve", give_up)
    rng = np.random.default_rng(6)
    selection, _ = ordered_corpus(rng, 20, 40, 4)
    for scale in (1.0, 1e-5):  # differences far shorter or longer than a norm of p of 1 would have them
        embeddings = rng.standard_normal((20, 25)) + 0.0
        embeddings[:, 1:] *= scale
        # The differences' condition is about 1e5 at most, a hundred times what `SMALL` reckons with.
        check_kkt(max_margin(embeddings, selection), embeddings, selection.pairs, 100 * SMALL)


# --- cosine ---


def test_cosine_against_angles():
    for angle in (0.0, 1e-7, 0.3, math.pi / 2, 2.0, math.pi):
        u, w = np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])
        for scale in (1e-300, 1.0, 1e300):
            assert cosine(u * scale, torch.tensor(3 * w)) == pytest.approx(math.cos(angle), abs=1e-15)
    assert cosine([1e-320], [2.0]) == 1.0
    assert cosine(np.full(7, 0.1), np.full(7, 0.3)) <= 1.0


def test_cosine_of_what_has_no_direction():
    with pytest.raises(ValueError, match="w is the zero vector"):
        cosine([1.0, 0.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="same length, got 2 and 3"):
        cosine([1.0, 0.0], [0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="u must be finite"):
        cosine([np.nan, 0.0], [1.0, 0.0])
    with pytest.raises(ValueError, match=r"u must be one vector, shape \(d,\); got shape \(1, 2\)"):
        cosine([[1.0, 0.0]], [1.0, 0.0])
