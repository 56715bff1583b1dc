"""Proposition prop-ties: two tokens of equal value do not share attention; one wins, by an exact law.

The oracle is the closed law; along the way, SciPy's own integration of the two-dimensional reduction.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokensel as ts

ORIGIN = "beyond the paper"
SETTING = r"""A sequence of three tokens $s,s',r$, any counts, either label, with $y(b_s-b_r)>0$; gradient
flow from any start. Parts 1 and 2 speak of it alone, part 3 of $\{s,s',r\},\{s,r\},\{s',r\}$ of one label,
each token once."""
HYPOTHESES = {
    "tied": r"$b_s=b_{s'}$.",
    "orthonormal": r"The rows of $E$ are orthonormal.",
    "alone": r"Parts 1 and 2: $s$ and $s'$ stand in no other sequence.",
    "uneven": r"Part 2: $q_s>q_{s'}$ at the start.",
}
TIMES = np.array([-2.0, 0, 3, 6, 10, 15, 20])


def attention(scores, counts):
    weights = counts * np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def invariant(q):
    return np.abs(q[:, 0] - q[:, 1]) ** 3 * q[:, 2] / (q[:, 0] * q[:, 1]) ** 2


def flow(corpus, embeddings, scores, output, times=TIMES):
    return ts.gradient_flow(
        ts.AttentionClassifier(embeddings, scores, output),
        corpus,
        until_norm=None,
        until_log_time=times[-1] + 1,
        at_log_time=times,
        tolerance=1e-11,
    )


def instance(seed):
    rng = np.random.default_rng(seed)
    counts, label = rng.integers(1, 4, size=3), int(rng.choice([-1, 1]))
    corpus = ts.Corpus.from_sequences([np.repeat([0, 1, 2], counts)], [label])
    tied, other = label * rng.uniform(-1, 2), 0.0
    other = tied - label * rng.uniform(0.3, 2)
    return corpus, counts, label, np.array([tied, tied, other]), rng.normal(size=3)


@pytest.mark.parametrize("seed", range(20))
def test_one_of_two_tied_tokens_wins_by_the_exact_law(seed, evidence):
    corpus, counts, label, values, start = instance(seed)
    if attention(start[None], counts)[0, 0] < attention(start[None], counts)[0, 1]:
        start[:2] = start[1::-1] + np.log(counts[1::-1] / counts[:2])  # call the larger one s
    path = flow(corpus, np.eye(3), start, values, times=np.append(TIMES, 60.0))
    q = attention(path.cls, counts)
    assert q[0, 0] > q[0, 1]
    kept = invariant(q)[0]
    # The invariant is of degree -4 and 3 in quantities whose scores the integrator keeps to 1e-11 a step: a
    # few hundred steps. Above log t = 20 rounding of 1 - q takes over.
    np.testing.assert_allclose(invariant(q[1:8]), kept, rtol=1e-6)
    time, weight = np.exp(60.0), 1 / (1 + np.exp(label * values[0]))
    gap = label * (values[0] - values[2])
    last = q[np.argmin(abs(path.log_time - 60.0))]
    # What is left of order t^(-1/2) is below 1e-12 times constants.
    np.testing.assert_allclose(time * last[2], 1 / (2 * gap * weight), rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(time) * last[1], 1 / np.sqrt(2 * gap * weight * kept), rtol=1e-6)
    evidence.limit(np.sqrt(time) * last[1], 1 / np.sqrt(2 * gap * weight * kept))
    assert np.exp(path.log_time[-1] + path.log_loss_gap[-1]) == pytest.approx(1 / 2, rel=1e-6)


def test_the_reduction_of_the_proof_is_the_flow():
    """d psi/dx = psi (1 - psi^2)/(3 + psi^2), integrated by SciPy, x the log odds against r."""
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    start = np.array([0.4, 0.1, 0.2])
    path = flow(corpus, np.eye(3), start, np.array([1.0, 1.0, 0.0]))
    q = attention(path.cls, np.ones(3))
    x = np.log((q[:, 0] + q[:, 1]) / q[:, 2])
    psi = (q[:, 0] - q[:, 1]) / (q[:, 0] + q[:, 1])
    reduced = solve_ivp(
        lambda _, y: y * (1 - y**2) / (3 + y**2), (x[0], x[-1]), psi[:1], t_eval=x, rtol=1e-11, atol=1e-13
    )
    np.testing.assert_allclose(psi, reduced.y[0], rtol=1e-8)


@pytest.mark.drops("uneven")
def test_an_even_start_stays_even():
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    path = flow(corpus, np.eye(3), np.zeros(3), np.array([1.0, 1.0, 0.0]), times=np.array([20.0]))
    q = attention(path.cls, np.ones(3))
    np.testing.assert_allclose(q[-1, :2], 0.5, rtol=1e-6)
    # Then t (L - L_sigma) is |p_hat|^2 of (MM) with both tokens above r: 2/3, not 1/2.
    assert np.exp(20.0) * q[-2, 2] / (1 + np.e) == pytest.approx(2 / 3, rel=1e-6)


@pytest.mark.drops("tied")
def test_of_unequal_values_the_better_wins_from_behind():
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    start = np.array([1.0, 0.0, 0.0])
    path = flow(corpus, np.eye(3), start, np.array([0.9, 1.0, 0.0]), times=np.array([60.0]))
    q = attention(path.cls, np.ones(3))
    assert q[0, 0] > q[0, 1]
    assert q[-1, 1] > 1 - 1e-6


@pytest.mark.drops("orthonormal")
def test_a_longer_embedding_wins_from_behind():
    """Orthogonal rows of lengths 1, 2, 1: the score of s' rises four times as fast for its attention."""
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    embeddings, output = np.diag([1.0, 2.0, 1.0]), np.array([1.0, 0.5, 0.0])
    start = np.array([0.5, 0.0, 0.0])
    path = flow(corpus, embeddings, start, output, times=np.array([60.0]))
    q = attention(path.cls @ embeddings.T, np.ones(3))
    assert q[0, 0] > q[0, 1]
    assert q[-1, 1] > 1 - 1e-6


@pytest.mark.drops("alone")
def test_beside_other_sequences_neither_wins():
    corpus = ts.Corpus.from_sequences([[0, 1, 2], [0, 2], [1, 2]], [1] * 3)
    q = attention(
        flow(corpus, np.eye(3), np.array([3.0, 0, 0]), np.array([1.0, 1, 0]), np.array([60.0])).cls,
        np.ones(3),
    )
    assert q[0, 0] > 0.9
    assert q[-1, 0] < 0.51
    assert invariant(q)[-1] < 1e-6 * invariant(q)[0]


@pytest.mark.parametrize("label", [1, -1])
def test_other_sequences_hold_an_even_split(label, evidence):
    """Part 3: from every start the split becomes even, its difference like t^(-1/5)."""
    corpus = ts.Corpus.from_sequences([[0, 1, 2], [0, 2], [1, 2]], [label] * 3)
    rng = np.random.default_rng(label + 1)
    for _ in range(3):
        start, tied = 2 * rng.normal(size=3), label * rng.uniform(-1, 2)
        values = np.array([tied, tied, tied - label * rng.uniform(0.3, 2)])
        times = np.array([40.0, 60.0])
        path = flow(corpus, np.eye(3), start, values, times)
        q = attention(path.cls, np.ones(3))
        np.testing.assert_allclose(q[-1, :2], 0.5, atol=1e-4)
        gaps = np.log(np.abs(path.cls[1:3, 0] - path.cls[1:3, 1]))
        # Corrections to the exponent are of the order of the gap itself, below e^-8 times constants.
        slope = (gaps[1] - gaps[0]) / (times[1] - times[0])
        assert slope == pytest.approx(-1 / 5, rel=1e-3)
        evidence.limit(slope, -1 / 5)
