"""Theorem thm-one-step-embeddings: the embeddings that one step makes lose no sequence, from any start.

Oracle for the closed form and the direction: non-negative least squares on the pairs.
"""

import numpy as np
import pytest
from scipy.optimize import nnls

import tokensel as ts
from tokensel import samplers, theory

ORIGIN = "beyond the paper"
SETTING = r"""Each sequence holds one important token, any number of times, with $y_ib_{k(i)}>0$, and at
least one irrelevant token; any lengths, counts, start, size of the values, and balance of
the classes."""
HYPOTHESES = {
    "embeddings": r"$E_s=\bar E_s+b_sv$ with $\bar E_s$ orthonormal and orthogonal to $v$.",
    "zero": r"The irrelevant tokens have value $0$.",
    "magnitudes": r"No important token of the other class has a smaller $|b_k|$ than $k(i)$.",
    "meeting": r"For the closed form: every important token meets every irrelevant one, and $|b_k|=B$.",
}
SOLVED = 1e-9  # least squares with singular values from 1 to about 20 |z|: ten digits


def shortest_feasible(z):
    """min |p| with p.z_j >= 1, from the point of the hull nearest to the origin; the last line certifies it.

    Where pairs are dependent SciPy's least squares may stop too soon: then they are tried in another order.
    """
    scale = np.linalg.norm(z, axis=1).mean()  # so that both parts of the least squares weigh alike
    for seed in range(20):
        ordered = np.random.default_rng(seed).permutation(z) if seed else z
        weights, _ = nnls(
            np.vstack([ordered.T / scale, np.ones(len(z))]), np.append(np.zeros(z.shape[1]), 1.0)
        )
        nearest = weights @ ordered / weights.sum()
        p = nearest / (nearest @ nearest)
        if (z @ p).min() >= 1 - 1e-9:
            return p
    raise AssertionError("the oracle has failed")


def one_step_form(values):
    """Rows (e_s, b_s): v is the last unit vector."""
    return np.column_stack([np.eye(len(values)), values])


def corpus_and_sizes(rng):
    k_positive, k_negative, m = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
    n = k_positive + k_negative + int(rng.integers(0, 8))
    corpus = samplers.one_distinct_important_token(n, k_positive, k_negative, m, longest=5, seed=rng)
    return corpus, k_positive, k_negative, m


def important_of(corpus, values):
    stands = corpus.counts.toarray() > 0
    assert ((stands & (values != 0)).sum(axis=1) == 1).all()
    assert (stands & (values == 0)).any(axis=1).all()
    chosen = (stands & (values != 0)).argmax(axis=1)
    assert (corpus.labels * values[chosen] > 0).all()
    return chosen


def follow(corpus, values, start, until=3000.0):
    v = np.append(np.zeros(len(values)), 1.0)
    model = ts.AttentionClassifier(one_step_form(values), start, v)
    return ts.gradient_flow(model, corpus, None, until, tolerance=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_equal_magnitudes_lose_nothing(seed, evidence):
    rng = np.random.default_rng(seed)
    corpus, k_positive, k_negative, m = corpus_and_sizes(rng)
    magnitude = np.exp(rng.uniform(np.log(0.2), np.log(6)))
    values = magnitude * np.concatenate([np.ones(k_positive), -np.ones(k_negative), np.zeros(m)])
    chosen = important_of(corpus, values)
    start = rng.choice([0.0, 1.0, 4.0]) * rng.normal(size=len(values) + 1)
    path = follow(corpus, values, start)
    assert path.settled
    np.testing.assert_array_equal(path.selection.tokens, chosen)
    E, pairs = one_step_form(values), path.selection.pairs
    p_hat = shortest_feasible(E[pairs[:, 0]] - E[pairs[:, 1]])
    # The start and the transient leave p less than a few dozen off the ray, where it is 3000 |p-hat| long.
    assert ts.cosine(path.cls[-1], p_hat) >= 0.999
    product = np.exp(path.log_time[-1] + path.log_loss_gap[-1])
    # The flow's tolerance of 1e-6 a step, over a few hundred; a tight pair without force costs 1e-7 or so.
    assert product == pytest.approx(p_hat @ p_hat, rel=1e-3)
    evidence.limit(product, p_hat @ p_hat)


def trap_or_not(seed):
    """Unequal magnitudes, the positive ones larger, and a start with all positive sequences wrong."""
    rng = np.random.default_rng(seed)
    corpus, k_positive, k_negative, m = corpus_and_sizes(rng)
    small = rng.uniform(0.3, 1.2, k_negative)
    values = np.concatenate([rng.uniform(1.3, 6, k_positive), -small, np.zeros(m)])
    start = rng.normal(size=len(values) + 1)
    start[-1] -= 15
    return corpus, values, start


def test_the_class_of_smaller_values_is_never_lost(evidence):
    """The sharper form: only tokens larger than some token of the other class can be lost, and some are."""
    lost = 0
    for seed in range(7):
        corpus, values, start = trap_or_not(seed)
        assert values[values > 0].min() >= -values.min()
        chosen, path = important_of(corpus, values), follow(corpus, values, start, 300.0)
        negative = corpus.labels == -1
        np.testing.assert_array_equal(path.selection.tokens[negative], chosen[negative])
        # And from the other side, where the smaller ones start as lost.
        other = follow(corpus, values, start * np.append(np.ones(len(values)), -1), 300.0)
        np.testing.assert_array_equal(other.selection.tokens[negative], chosen[negative])
        lost += bool((path.selection.tokens != chosen).any())
        evidence.holds(2)
    assert lost  # so that the statement is about something


@pytest.mark.drops("magnitudes")
def test_a_larger_value_can_be_lost():
    trap = ts.traps.unequal_magnitudes(positive_value=1.0, negative_value=3.0)
    values, E = trap.model.values().detach().numpy(), trap.model.embeddings.detach().numpy()
    np.testing.assert_allclose(E @ E.T, np.eye(len(E)) + np.outer(values, values), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(trap.model.output.detach()), 1)
    chosen, path = important_of(trap.corpus, values), ts.gradient_flow(trap.model, trap.corpus, None, 1000.0)
    lost = path.selection.tokens != chosen
    np.testing.assert_array_equal(lost, trap.corpus.labels == -1)


@pytest.mark.drops("embeddings")
def test_correlated_embeddings_can_lose_a_sequence():
    trap = ts.traps.outvoted(8)
    values = trap.model.values().detach().numpy().round(12)
    chosen = important_of(trap.corpus, values)
    assert set(np.abs(values)) == {0.0, 1.0}
    path = ts.gradient_flow(trap.model, trap.corpus, None, 1000.0)
    assert path.selection.tokens[0] != chosen[0]


@pytest.mark.drops("zero")
def test_small_values_of_irrelevant_tokens_can_keep_a_class_lost():
    """|b| = 2.5 on important tokens; the two irrelevant ones, which stand in all sequences, differ by 0.2."""
    corpus = ts.Corpus.from_sequences([[0, 3, 4], [1, 3, 4], [2, 3, 4]], [1, 1, -1])
    pairs = np.array([[0, 3], [0, 4], [1, 3], [1, 4], [3, 4]])  # the negative sequence prefers 3 to 4
    for noise in (0.0, 0.1):
        values = np.array([2.5, 2.5, -2.5, -noise, noise])
        E = one_step_form(values)
        wrong = shortest_feasible(E[pairs[:, 0]] - E[pairs[:, 1]])
        path = follow(corpus, values, 20 * wrong)
        assert path.settled
        assert path.selection.tokens.tolist() == ([0, 1, 3] if noise else [0, 1, 2])


@pytest.mark.parametrize("seed", range(40))
def test_closed_form(seed, evidence):
    rng = np.random.default_rng(seed)
    k_positive, k_negative, m = int(rng.integers(1, 5)), int(rng.integers(0, 5)), int(rng.integers(1, 8))
    magnitude = np.exp(rng.uniform(np.log(0.05), np.log(20)))
    values = magnitude * np.concatenate([np.ones(k_positive), -np.ones(k_negative), np.zeros(m)])
    E, k = one_step_form(values), k_positive + k_negative
    p_hat = shortest_feasible(np.array([E[i] - E[k + j] for i in range(k) for j in range(m)]))
    form = theory.one_step_max_margin(k_positive, k_negative, m, magnitude)
    delta = k_positive - k_negative
    effective = k - magnitude**2 * delta**2 / (1 + magnitude**2 * k)
    np.testing.assert_allclose(p_hat @ p_hat, effective * m / (effective + m), rtol=SOLVED)
    along = magnitude * delta / (1 + magnitude**2 * k) * m / (effective + m)
    np.testing.assert_allclose(p_hat[-1], along, atol=SOLVED)
    expected = [form.on_positive] * k_positive + [form.on_negative] * k_negative + [form.on_irrelevant] * m
    np.testing.assert_allclose(p_hat, [*expected, form.along_output], atol=SOLVED)
    assert (abs(p_hat[-1]) < SOLVED) == (k_positive == k_negative)
    evidence.limit(p_hat @ p_hat, form.squared_norm)


@pytest.mark.drops("meeting")
def test_without_all_meetings_the_closed_form_fails():
    E = one_step_form(np.array([1.0, 1.0, -1.0, 0.0, 0.0]))
    p_hat = shortest_feasible(np.array([E[0] - E[3], E[0] - E[4], E[1] - E[3], E[2] - E[3]]))
    form = theory.one_step_max_margin(2, 1, 2, 1.0)
    assert p_hat @ p_hat < form.squared_norm - 0.01
