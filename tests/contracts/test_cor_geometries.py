"""Corollary cor-geometries: steepest descent in another norm, and the ridge path.

The oracles are SciPy's linear programme (largest margin in the maximum norm) and its SLSQP (in the Euclidean
norm); the losses and paths are computed here, in logarithms, without the package's flow.
"""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp

ORIGIN = "beyond the paper"
SETTING = r"""Any corpus, $E$ and $v$; a selection with $J\ne\emptyset$. Part 1: any norm, any positive speed.
Part 2: a selection for which (MM) is feasible."""
HYPOTHESES = {
    "selects": r"Part 1: attention tends to the selection, $q_{i\sigma(i)}\to1$.",
    "positive": r"Part 1: $\Gamma_j>0$ for all $j\in J$.",
    "steepest": "Part 1: the path is one of steepest descent in the very norm whose margin is meant.",
    "helpful": "Part 2: in every sequence the selected token helps most, "
    r"$y_i(b_{\sigma(i)}-b_s)>0$ for all others.",
}
SEEDS = range(6)


def instance(seed):
    """One positive sequence with three competitors of the best token: pairs z, coefficients Gamma > 0."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(3, 4)) + 0.3
    return z, rng.uniform(0.2, 1.0, size=3)


def largest_margin_maximum_norm(z):
    """max min_j w.z_j over |w|_inf <= 1, by linear programming."""
    m, d = z.shape
    done = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.hstack([-z, np.ones((m, 1))]),
        b_ub=np.zeros(m),
        bounds=[(-1, 1)] * d + [(None, None)],
    )
    assert done.success
    return -done.fun


def largest_margin_euclidean(z):
    done = minimize(
        lambda p: p @ p / 2,
        np.linalg.lstsq(z, np.ones(len(z)), rcond=None)[0],
        jac=lambda p: p,
        constraints={"type": "ineq", "fun": lambda p: z @ p - 1, "jac": lambda p: z},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert done.success
    return 1 / np.linalg.norm(done.x)


def logistic_gap_gradient(p, z, values):
    """-grad L of one positive sequence: token 0 has value 0.5 and score 0, competitor j score -p.z_j.

    Returned up to a positive factor, with the attention on the competitors relative to the largest.
    """
    gaps = z @ p
    share = np.exp(-(gaps - gaps.min()))
    return (share * (0.5 - values)) @ z


@pytest.mark.parametrize("seed", SEEDS)
def test_sign_descent_finds_the_margin_of_the_maximum_norm(seed, evidence):
    z, weight = instance(seed)
    margin = largest_margin_maximum_norm(z)
    p = np.zeros(4)
    step = 0.02
    for _ in range(60_000):
        p += step * np.sign(logistic_gap_gradient(p, z, 0.5 - weight))
    reached = (z @ p).min() / np.abs(p).max()
    # No direction has a larger margin; the path is 1200 long, and lags behind by O(1) and by a step.
    assert reached <= margin * (1 + 1e-9)
    assert reached >= margin * 0.99
    evidence.limit(reached, margin)


@pytest.mark.drops("steepest")
def test_sign_descent_does_not_find_the_euclidean_margin():
    """The geometry matters: the Euclidean margin of sign descent stays clearly below the largest."""
    short = []
    for seed in SEEDS:
        z, weight = instance(seed)
        p = np.zeros(4)
        for _ in range(20_000):
            p += 0.01 * np.sign(logistic_gap_gradient(p, z, 0.5 - weight))
        short.append((z @ p).min() / np.linalg.norm(p) / largest_margin_euclidean(z))
    assert min(short) < 0.95
    assert max(short) <= 1 + 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_the_ridge_path_tends_to_the_euclidean_margin(seed, evidence):
    """Minimise the loss over balls of growing radius; only its logarithm can be held."""
    z, weight = instance(seed)
    margin = largest_margin_euclidean(z)

    def log_gap(w, radius):  # log(L - L_sigma) / R at p = R w, with b_sigma = 1/2
        gaps = radius * z @ w
        log_short = logsumexp(-gaps, b=weight) - np.logaddexp(0.0, logsumexp(-gaps))  # log(b_sigma - f)
        if log_short < -20:  # l(b - short) - l(b) = short / (1 + e^b), up to a relative error of short
            return (log_short - np.logaddexp(0.0, 0.5)) / radius
        return np.log(np.logaddexp(0.0, np.exp(log_short) - 0.5) - np.logaddexp(0.0, -0.5)) / radius

    reached = []
    for radius in (20.0, 200.0, 2000.0):
        done = minimize(
            log_gap,
            np.linalg.lstsq(z, np.ones(len(z)), rcond=None)[0] * margin,
            args=(radius,),
            constraints={"type": "ineq", "fun": lambda p: 1 - p @ p, "jac": lambda p: -2 * p},
            options={"ftol": 1e-10, "maxiter": 200},
        )
        reached.append((z @ done.x).min() / np.linalg.norm(done.x))
    # The margin is at least gamma - c/R, with c about the logarithm of the ratio of coefficients.
    assert max(reached) <= margin * (1 + 1e-6)
    assert reached[-1] >= margin - 10 / 2000
    assert reached[-1] >= margin - 0.2 * (margin - reached[0]) - 1e-3
    evidence.limit(reached[-1], margin)


def two_tokens(gap, sequences):
    """Loss and slope over the gap of two tokens of values 1 and -1; a sequence is (label, count, count)."""
    loss = slope = 0.0
    for label, first, second in sequences:
        q = first / (first + second * np.exp(-gap))
        f = 2 * q - 1
        loss = loss + np.logaddexp(0, -label * f) / len(sequences)
        slope = slope - 2 * label * q * (1 - q) / (1 + np.exp(label * f)) / len(sequences)
    return loss, slope


def coefficient(sequences):
    """Gamma of the pair, the first token selected in every sequence."""
    return np.mean([2 * y * second / first / (1 + np.exp(y)) for y, first, second in sequences])


@pytest.mark.drops("selects")
def test_sign_descent_that_comes_to_rest_keeps_some_of_its_start():
    sequences = [(1, 1, 1), (-1, 1, 20), (1, 1, 3000)]
    assert coefficient(sequences) > 0
    p, step = np.array([3.0, 3.0]), 1e-3
    for _ in range(5000):
        p += step * np.sign(-two_tokens(p[0] - p[1], sequences)[1]) * np.array([1, -1])
    _, slope = two_tokens(p[0] - p[1] + 4 * step * np.array([-1, 1]), sequences)
    assert slope[0] < 0 < slope[1]  # at rest, but for its steps to and fro
    # The pair is (1, -1): the largest margin in the maximum norm is 2.
    assert (p[0] - p[1]) / np.abs(p).max() < 1


@pytest.mark.drops("positive")
def test_with_one_wrong_sign_gradient_flow_misses_the_largest_margin(saddle):
    """Gradient flow is steepest descent in the Euclidean norm; attention tends to the first token here."""
    z = saddle.embeddings[0] - saddle.embeddings[1:]
    gaps, norms = saddle.curve @ z.T, np.linalg.norm(saddle.curve, axis=1)
    assert gaps[-1].min() > 250
    assert gaps[-1].min() / norms[-1] < 0.98 * largest_margin_euclidean(z[:, :2])


@pytest.mark.drops("helpful")
def test_where_the_token_does_not_help_everywhere_the_ridge_path_stays_short():
    """The coefficient is positive, but the loss is least at a moderate gap, whatever length is allowed."""
    sequences = [(1, 1, 1), (-1, 1, 1000), (-1, 1, 1000), (1, 1, 10**6)]
    assert coefficient(sequences) > 0
    gaps = np.linspace(-500, 500, 100_001)
    losses = two_tokens(gaps, sequences)[0]
    assert 0 < gaps[np.argmin(losses)] < 10
    assert losses.min() < 0.8 * losses[gaps > 50].min()
