"""The exact time course: quadrature against mpmath, the scalar equation against the whole flow."""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokensel as ts
from tokensel import samplers, theory

DESIGN = {"n_important": 4, "n_irrelevant": 6, "length": 4, "magnitude": 1.3}
CASES = [DESIGN, {"n_important": 1, "n_irrelevant": 1, "length": 2, "magnitude": 0.01}]
CASES += [{"n_important": 7, "n_irrelevant": 300, "length": 200, "magnitude": 12.0}]


def in_digits(epsilon, n_important, n_irrelevant, length, magnitude):
    """The integral over q, after 1 - q is split off where it is small: 30 digits."""
    with mpmath.workdps(40):
        k, m, t, b, e = map(mpmath.mpf, (n_important, n_irrelevant, length, magnitude, epsilon))
        u0, u1 = -mpmath.log(t - 1), mpmath.log((1 - e) / e)

        def term(u):
            q = 1 / (1 + mpmath.exp(-u))
            return (1 + mpmath.exp(b * q)) / (q * (1 - q))

        nodes = mpmath.linspace(u0, u1, 2 + int(u1 - u0))
        factor = k * m / (k + m) / b

        def closed(q):
            return (2 * q - 1) / (q * (1 - q)) + 2 * mpmath.log(q / (1 - q))

        plain = closed(1 - e) - closed(1 / t)
        bounds = [(1 + mpmath.exp(x)) * plain * factor for x in (b / t, b)]
        return [float(x) for x in (factor * mpmath.quad(term, nodes), *bounds)]


@pytest.mark.parametrize("design", CASES)
@pytest.mark.parametrize("epsilon", [0.49, 0.1, 1e-3, 1e-12])
def test_attention_time(design, epsilon):
    times = theory.attention_time(epsilon, **design)
    np.testing.assert_allclose(times, in_digits(epsilon, **design), rtol=1e-11)  # as the docstring says
    assert times.lower < times.time < times.upper


def test_attention_time_at_the_ends():
    tiny = theory.attention_time(1e-300, **DESIGN)
    plateau = 2.4 * (1 + math.exp(1.3)) / 1.3  # times 1 / epsilon
    assert tiny.time == pytest.approx(plateau * 1e300, rel=1e-11)
    assert theory.attention_time(0.1, **{**DESIGN, "magnitude": 800.0}).time == np.inf
    for epsilon in (0.75, 0.9, 0.0, -0.1):
        with pytest.raises(ValueError, match=r"epsilon must be from 1e-300 to below 1 - 1/length = 0\.75"):
            theory.attention_time(epsilon, **DESIGN)


@pytest.mark.parametrize("design", CASES)
def test_score_gap_reaches_each_attention_at_its_time(design):
    for epsilon in (0.4, 0.01, 1e-9):
        time = theory.attention_time(epsilon, **design).time
        gap = theory.score_gap(math.log(time), **design)
        assert gap == pytest.approx(math.log((design["length"] - 1) * (1 - epsilon) / epsilon), abs=1e-9)


@pytest.mark.parametrize("design", CASES)
def test_score_gap_solves_its_equation(design):
    """Against an implicit integrator in plain time, with the rate written out."""
    k, m, t, b = design.values()

    def rate(_, x):
        q = np.exp(x) / (np.exp(x) + t - 1)
        return (1 / k + 1 / m) * b / (1 + np.exp(b * q)) * q * (1 - q)

    times = np.array([0.1, 3.0, 40.0, 900.0])
    solution = solve_ivp(rate, (0, 900), [0.0], method="Radau", t_eval=times, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(theory.score_gap(np.log(times), **design), solution.y[0], rtol=1e-7)
    x = np.array([[-3.0, 0.0], [2.0, 10.0]])
    np.testing.assert_allclose(theory.score_gap_rate(x, **design), rate(0, x), rtol=1e-10)


def test_score_gap_from_the_first_moment_to_the_end():
    gap = theory.score_gap([-np.inf, -50.0, 1e4], **DESIGN)
    assert gap[0] == 0
    assert gap[1] == pytest.approx(theory.score_gap_rate(0.0, **DESIGN) * math.exp(-50), rel=1e-10)
    assert gap[2] == pytest.approx(theory.late_score_gap(1e4, **DESIGN), abs=1e-8)
    # The line is approached like log(t) / t: e^x + 2 x + ... on the left of the integrated equation.
    assert theory.score_gap(30.0, **DESIGN) == pytest.approx(theory.late_score_gap(30.0, **DESIGN), abs=1e-10)
    assert theory.score_gap(-np.inf, **DESIGN) == 0


def test_symmetric_design_the_whole_flow_and_the_scalar_equation():
    """K = 4, M = 6, T = 4, B = 1.3, all subsets: 1e-8 up to t = 1e6, the direction 1e-10 at every time."""
    corpus = samplers.full_co_occurrence(2, 2, 6, 4)
    values = 1.3 * np.array([1, 1, -1, -1, 0, 0, 0, 0, 0, 0])
    model = ts.AttentionClassifier(np.eye(10), np.zeros(10), values)
    log_times = np.log(10.0 ** np.arange(-2, 7))
    path = ts.gradient_flow(
        model, corpus, until_norm=None, until_log_time=log_times[-1], at_log_time=log_times, tolerance=1e-10
    )
    # A step may err by 1e-11 in log t (a tenth of the tolerance), and there are some tens of steps.
    assert path.log_time[1:] == pytest.approx(log_times, abs=1e-9)
    gap = path.cls[:, 0] - path.cls[:, 4]
    np.testing.assert_allclose(gap, theory.score_gap(path.log_time, **DESIGN), rtol=0, atol=1e-8)
    form = theory.orthonormal_max_margin(2, 2, 6)
    p_hat = np.array([form.on_positive] * 4 + [form.on_irrelevant] * 6)
    np.testing.assert_allclose(path.cls, gap[:, None] * p_hat, rtol=0, atol=1e-10)
    expected = theory.late_flow(path.log_time[-1], form.squared_norm)
    assert path.log_loss_gap[-1] == pytest.approx(expected.log_loss_gap, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_marginal_balance_gives_the_exact_direction_and_full_co_occurrence_alone_does_not(seed):
    corpus = samplers.marginal_balance(1, 2, 5, 4, seed=seed)
    values = 0.8 * np.array([1, -1, -1, 0, 0, 0, 0, 0])
    p_hat = np.array([5] * 3 + [-3] * 5) / 8
    design = {"n_important": 3, "n_irrelevant": 5, "length": 4, "magnitude": 0.8}

    def leave(corpus):
        model = ts.AttentionClassifier(np.eye(8), np.zeros(8), values)
        return ts.gradient_flow(model, corpus, until_norm=8.0, tolerance=1e-10)

    path = leave(corpus)
    gap = theory.score_gap(path.log_time, **design)
    np.testing.assert_allclose(path.cls, gap[:, None] * p_hat, rtol=0, atol=1e-8)
    uneven = samplers.full_co_occurrence(1, 2, 5, 4)
    path = leave(uneven[np.r_[np.arange(len(uneven)), 0, 0, 0]])
    cosines = [ts.cosine(cls, p_hat) for cls in path.cls[1:]]
    assert min(cosines) < 0.9999


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"n_important": 0}, ValueError, "n_important must be at least 1, got 0"),
        ({"n_irrelevant": 1.5}, TypeError, r"n_irrelevant must be a whole number, got 1\.5"),
        ({"length": 1}, ValueError, "length must be at least 2, got 1"),
        ({"magnitude": 0}, ValueError, "magnitude must be positive, got 0"),
        ({"magnitude": np.nan}, ValueError, "magnitude must be finite"),
    ],
)
def test_wrong_designs(changed, error, words):
    calls = (theory.score_gap_rate, theory.score_gap, theory.late_score_gap, theory.attention_time)
    for function in calls:
        with pytest.raises(error, match=words):
            function(0.3, **DESIGN | changed)


def test_wrong_times_and_gaps():
    with pytest.raises(ValueError, match="score_gap must be finite"):
        theory.score_gap_rate(np.inf, **DESIGN)
    for function in (theory.score_gap, theory.late_score_gap):
        with pytest.raises(ValueError, match="log_time must be finite"):
            function([0.0, np.inf], **DESIGN)
