"""Corollary cor-geometries: steepest descent in another norm, and the ridge path.

The oracles are SciPy's linear programme (largest margin in the maximum norm and in the sum norm) and its
SLSQP (in the Euclidean norm); the losses and paths are computed here, without the package's flow.
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
SEEDS = range(12)


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


def largest_margin_sum_norm(z):
    """max min_j w.z_j over |w|_1 <= 1, by linear programming: w is a difference of two vectors >= 0."""
    m, d = z.shape
    done = linprog(
        np.append(np.zeros(2 * d), -1.0),
        A_ub=np.vstack([np.hstack([-z, z, np.ones((m, 1))]), np.append(np.ones(2 * d), 0)]),
        b_ub=np.append(np.zeros(m), 1.0),
        bounds=[(0, None)] * (2 * d) + [(None, None)],
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


def pulls(p, z, weight):
    """-grad L of k sequences at once, (k, d), each up to a positive factor.

    A positive sequence holds token 0 with embedding 0 and, for each j, a token with embedding -z_j and a
    value that is smaller by weight_j (so J is all pairs, and every coefficient is positive).
    """
    gaps = np.einsum("kjd,kd->kj", z, p)
    share = np.exp(gaps.min(axis=1, keepdims=True) - gaps)
    attention = np.exp(-gaps)
    attention /= 1 + attention.sum(axis=1, keepdims=True)
    short = (attention * weight).sum(axis=1, keepdims=True)  # b_0 - f
    return np.einsum("kj,kjd->kd", share * (weight - short), z)


def signs(pull):
    """Steepest in the maximum norm: every coordinate by one."""
    return np.sign(pull)


def largest_coordinate(pull):
    """Steepest in the sum norm: one coordinate by one, the one that lowers the loss most."""
    chosen = np.abs(pull).argmax(axis=1)
    return np.sign(pull) * (np.arange(pull.shape[1]) == chosen[:, None])


def descend(steepest, step, steps):
    """Pairs and weights of all seeds, where descent starts (all gaps are three), and where it ends."""
    z, weight = (np.stack(parts) for parts in zip(*map(instance, SEEDS), strict=True))
    start = np.stack([np.linalg.lstsq(pairs, np.full(len(pairs), 3.0), rcond=None)[0] for pairs in z])
    p = start.copy()
    for _ in range(steps):
        p += step * steepest(pulls(p, z, weight))
    return z, weight, start, p


@pytest.mark.parametrize(
    ("steepest", "order", "largest_margin"),
    [(signs, np.inf, largest_margin_maximum_norm), (largest_coordinate, 1, largest_margin_sum_norm)],
)
def test_steepest_descent_finds_the_margin_of_its_norm(steepest, order, largest_margin, evidence):
    """The smallest gap lags behind margin times length by no more than a constant, which the proof names.

    As -log F grows by the margin for each unit of length, min x >= log min Gamma - log F(end)
    >= log min Gamma - log F(start) + margin (|p| - |start|), and F(start) = e^-3 sum Gamma.
    """
    for pairs, weight, start, p in zip(*descend(steepest, 0.02, 60_000), strict=True):
        margin, length = largest_margin(pairs), np.linalg.norm(p, order)
        gap = (pairs @ p).min()
        assert gap > 40  # attention off token 0 is below 3 e^-40
        allowed = margin * np.linalg.norm(start, order) - 3 + np.log(weight.sum() / weight.min())
        evidence.bound(margin * length - gap, allowed)
        assert allowed < 0.05 * margin * length  # so that the bound does tell this margin from others


@pytest.mark.drops("steepest")
def test_sign_descent_does_not_find_the_euclidean_margin():
    """The geometry matters: the Euclidean margin of sign descent stays clearly below the largest."""
    short = [
        (pairs @ p).min() / np.linalg.norm(p) / largest_margin_euclidean(pairs)
        for pairs, _, _, p in zip(*descend(signs, 0.01, 20_000), strict=True)
    ]
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

    # The proof's constant: w_min q_0 e^(-min x) <= b_0 - f at the minimiser, where the loss is no larger than
    # at R gamma p_hat, and there b_0 - f <= sum w e^(-R gamma). SLSQP finds the minimum of log(...) / R to
    # 1e-10, relative to its size, which is about gamma.
    for radius in (20.0, 200.0, 2000.0):
        done = minimize(
            log_gap,
            np.linalg.lstsq(z, np.ones(len(z)), rcond=None)[0] * margin,
            args=(radius,),
            constraints={"type": "ineq", "fun": lambda p: 1 - p @ p, "jac": lambda p: -2 * p},
            options={"ftol": 1e-10, "maxiter": 200},
        )
        assert np.linalg.norm(done.x) == pytest.approx(1, rel=1e-6)  # as long as is allowed
        gaps = radius * z @ done.x
        allowed = np.log(weight.sum() / weight.min()) + np.log1p(np.exp(-gaps).sum())
        evidence.bound(max(radius * margin - gaps.min(), 0), allowed + 1e-6 * radius * margin)
        assert gaps.min() <= radius * margin * (1 + 1e-6)  # no direction has a larger margin


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
