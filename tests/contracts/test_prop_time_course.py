"""Proposition prop-time-course: in balanced designs the flow is one number, and its times are integrals.

Oracles: the integral with 30 digits (mpmath), an implicit integrator of the scalar equation, and the flow of
all of p, which knows nothing of the symmetry.
"""

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokensel as ts

ORIGIN = "beyond the paper"
SETTING = (
    r"Each sequence has length $T$ and holds one important token, once, with $y_ib_k>0$, beside $T-1$ "
    r"irrelevant ones, repeated or not; one class or two, $K$ important and $M$ irrelevant tokens."
)
HYPOTHESES = {
    "orthonormal": r"the rows of $E$ are orthonormal",
    "balance": (
        r"each important token stands in equally many sequences, and each irrelevant token fills equally "
        r"many places in all"
    ),
    "magnitudes": r"$|b_k|=B$ on the important tokens, $b_s=0$ on the irrelevant ones",
    "start": r"$p(0)=0$",
}
LEVELS = [0.3, 0.05, 1e-3, 1e-9]


def design(seed):
    """Sizes (K+, K-, M, T), B, and a balanced corpus: all subsets, or drawn, with repeated tokens."""
    rng = np.random.default_rng(seed)
    k_positive, k_negative = rng.integers(0, 4, 2).tolist()
    k_positive += k_positive + k_negative == 0
    m, length = rng.integers(1, 8, 2).tolist()
    length += 1
    if seed % 3 == 0:
        corpus = ts.samplers.full_co_occurrence(k_positive, k_negative, m, min(length, m + 1))
    else:
        corpus = ts.samplers.marginal_balance(k_positive, k_negative, m, length, seed=rng)
    return corpus, k_positive, k_negative, m, float(rng.choice([0.05, 0.5, 1.3, 4.0]))


def check(corpus, k, values, magnitude):
    """The hypotheses on corpus and values, by plain counting."""
    counts = corpus.counts.toarray()
    assert (counts[:, :k].sum(axis=1) == 1).all()
    assert len(set(corpus.lengths)) == 1
    assert len(set(counts[:, :k].sum(axis=0))) == 1
    assert len(set(counts[:, k:].sum(axis=0))) == 1
    assert (np.abs(values[:k]) == magnitude).all()
    assert not values[k:].any()
    assert (corpus.labels * (counts[:, :k] @ values[:k]) > 0).all()


def signed(k_positive, k_negative, m, magnitude):
    return magnitude * np.concatenate([np.ones(k_positive), -np.ones(k_negative), np.zeros(m)])


def rotated(values, seed):
    """Orthonormal rows in more dimensions than tokens, and an output vector that reads the values off."""
    n = len(values)
    rows = np.linalg.qr(np.random.default_rng(seed).normal(size=(n + 3, n)))[0].T
    return rows, values @ rows


def times(epsilon, k, m, length, magnitude):
    """t_epsilon, its lower and upper bound: 30 digits."""
    with mpmath.workdps(40):
        k, m, t, b, e = map(mpmath.mpf, (int(k), int(m), int(length), float(magnitude), float(epsilon)))

        def slowness(u):  # in u = log(q / (1 - q)), where small epsilon are far from 0
            q = 1 / (1 + mpmath.exp(-u))
            return (1 + mpmath.exp(b * q)) / (q * (1 - q))

        start, end = -mpmath.log(t - 1), mpmath.log((1 - e) / e)
        integral = mpmath.quad(slowness, mpmath.linspace(start, end, 2 + int(end - start)))

        def closed(q):
            return (2 * q - 1) / (q * (1 - q)) + 2 * mpmath.log(q / (1 - q))

        scale, plain = k * m / (k + m) / b, closed(1 - e) - closed(1 / t)
        bounds = [(1 + mpmath.exp(x)) * plain for x in (b / t, b)]
        return [float(scale * x) for x in (integral, *bounds)]


def attention(corpus, scores, k):
    """On the important token, in each sequence; and 1 less it, without cancellation."""
    counts = corpus.counts.toarray()
    weight = counts * np.exp(scores - scores.max())
    return weight[:, k:].sum(axis=1) / weight.sum(axis=1)


@pytest.mark.parametrize("seed", range(24))
def test_whole_flow_reaches_each_level_at_its_time(seed, evidence):
    corpus, k_positive, k_negative, m, magnitude = design(seed)
    k, length = k_positive + k_negative, int(corpus.lengths[0])
    values = signed(k_positive, k_negative, m, magnitude)
    check(corpus, k, values, magnitude)
    embeddings, output = rotated(values, seed)
    levels = [e for e in LEVELS if e < 1 - 1 / length]
    predicted = np.array([times(e, k, m, length, magnitude) for e in levels])
    model = ts.AttentionClassifier(embeddings, np.zeros(embeddings.shape[1]), output)
    path = ts.gradient_flow(
        model,
        corpus,
        until_norm=None,
        until_log_time=60.0,
        at_log_time=np.log(predicted[:, 0]),
        tolerance=1e-10,
    )
    p_hat = (m * embeddings[:k].sum(axis=0) - k * embeddings[k:].sum(axis=0)) / (k + m)
    for cls, epsilon in zip(path.cls[1:-1], levels, strict=True):
        gap = np.log(length - 1) + np.log1p(-epsilon) - np.log(epsilon)
        # A step errs by 1e-10 in a score gap and by 1e-11 in log t; there are a few hundred, and x follows
        # log t with a slope of order 1. So in the gap, and as much in the logarithm of 1 - q.
        np.testing.assert_allclose(cls, gap * p_hat, atol=1e-7)
        np.testing.assert_allclose(attention(corpus, embeddings @ cls, k), epsilon, rtol=1e-7)
        evidence.limit(cls @ p_hat / (p_hat @ p_hat), gap)
    for (time, lower, upper), epsilon in zip(predicted, levels, strict=True):
        evidence.bound(lower, time)
        evidence.bound(time, upper)
        computed = ts.theory.attention_time(epsilon, k, m, length, magnitude)
        np.testing.assert_allclose(computed, [time, lower, upper], rtol=1e-11)  # as its docstring says
    # At log t = 60 the line has been reached: what is left falls like log(t) / t.
    with mpmath.workdps(30):
        constant = mpmath.log((mpmath.mpf(k + m) / (k * m)) * magnitude * (length - 1))
        line = float(constant - mpmath.log(1 + mpmath.exp(float(magnitude)))) + path.log_time[-1]
    assert path.cls[-1] @ p_hat / (p_hat @ p_hat) == pytest.approx(line, abs=1e-7)
    assert np.exp(path.log_time[-1] + path.log_loss_gap[-1]) == pytest.approx(k * m / (k + m), rel=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_scalar_equation(seed):
    """An implicit integrator in plain time, with the speed written out, against the flow's own gap."""
    corpus, k_positive, k_negative, m, magnitude = design(seed)
    k, length = k_positive + k_negative, int(corpus.lengths[0])
    values = signed(k_positive, k_negative, m, magnitude)

    def speed(_, x):
        q = np.exp(x) / (np.exp(x) + length - 1)
        return (1 / k + 1 / m) * magnitude / (1 + np.exp(magnitude * q)) * q * (1 - q)

    moments = np.array([1.0, 30.0, 1000.0])
    solution = solve_ivp(speed, (0, 1000), [0.0], method="Radau", t_eval=moments, rtol=1e-10, atol=1e-12)
    model = ts.AttentionClassifier(np.eye(k + m), np.zeros(k + m), values)
    path = ts.gradient_flow(
        model, corpus, until_norm=None, until_log_time=7.0, at_log_time=np.log(moments), tolerance=1e-10
    )
    np.testing.assert_allclose(path.cls[1:4, 0] - path.cls[1:4, k], solution.y[0], rtol=1e-6)
    np.testing.assert_allclose(
        ts.theory.score_gap(np.log(moments), k, m, length, magnitude), solution.y[0], rtol=1e-6
    )


def test_plateau_and_tail(evidence):
    """t_1/2 = KM/(K+M) (2T/B + (1+4/B) log T + O(1)); epsilon t_epsilon tends to KM/(K+M) (1 + e^B)/B."""
    k, m, b = 4, 6, 1.3
    scale = k * m / (k + m)
    excess = [times(0.5, k, m, length, b)[0] / scale - 2 * length / b for length in (100, 10_000, 1_000_000)]
    # (1 + e^Bq) / (1 - q)^2 = 2 + (B + 4) q + ..., so the excess grows like (1 + 4/B) log T, up to 1/T.
    np.testing.assert_allclose(np.diff(excess), (1 + 4 / b) * np.log(100), rtol=0.01)
    tail = scale * (1 + np.exp(b)) / b
    for epsilon in (1e-4, 1e-8):
        time = times(epsilon, k, m, 8, b)[0]
        assert epsilon * time == pytest.approx(tail, rel=20 * epsilon * np.log(1 / epsilon))
    evidence.limit(epsilon * time, tail)


def spread(corpus, embeddings, output, start, k, epsilon, predicted):
    """How far attention off the important tokens is from epsilon at the predicted time, relatively."""
    path = ts.gradient_flow(
        ts.AttentionClassifier(embeddings, start, output),
        corpus,
        until_norm=None,
        until_log_time=np.log(predicted),
        tolerance=1e-10,
    )
    return np.abs(attention(corpus, embeddings @ path.cls[-1], k) / epsilon - 1).max()


class TestWithout:
    """K = 3, M = 4, T = 3, B = 1: each hypothesis dropped in turn, attention at the time t_0.05."""

    corpus = ts.samplers.full_co_occurrence(2, 1, 4, 3)
    values = signed(2, 1, 4, 1.0)
    time = times(0.05, 3, 4, 3, 1.0)[0]

    def miss(self, corpus=None, embeddings=None, output=None, start=None):
        embeddings = np.eye(7) if embeddings is None else embeddings
        output = self.values if output is None else output
        start = np.zeros(7) if start is None else start
        return spread(corpus or self.corpus, embeddings, output, start, 3, 0.05, self.time)

    def test_with_all_hypotheses_the_course_is_met(self):
        assert self.miss() < 1e-7

    @pytest.mark.drops("balance")
    def test_an_unbalanced_corpus_takes_another_course(self):
        rows = np.r_[np.arange(len(self.corpus)), 0, 0, 0]
        assert self.miss(corpus=self.corpus[rows]) > 0.01

    @pytest.mark.drops("magnitudes")
    def test_unequal_values_take_another_course(self):
        assert self.miss(output=self.values * [1.5, 1, 1, 1, 1, 1, 1]) > 0.01

    @pytest.mark.drops("start")
    def test_another_start_takes_another_course(self):
        assert self.miss(start=np.eye(7)[0]) > 0.01

    @pytest.mark.drops("orthonormal")
    def test_correlated_embeddings_take_another_course(self):
        embeddings = np.eye(7)
        embeddings[0, 1] = 0.3
        assert self.miss(embeddings=embeddings, output=np.linalg.solve(embeddings, self.values)) > 0.01
