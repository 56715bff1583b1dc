"""How long the step may be: against mpmath, Monte Carlo, and the scalar equation solved in another way."""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from tokensel import theory

DESIGN = {"n_important": 6, "n_irrelevant": 20, "length": 8}


def force(gap, length, magnitude):
    """G, written out."""
    q = np.exp(gap) / (np.exp(gap) + length - 1)
    return magnitude / (1 + np.exp(magnitude * q)) * q * (1 - q)


def lead_curve(lead, end, n_important, n_irrelevant, length, magnitude, start=0.0):
    """The lead in closed steps of Radau, from velocities of the two gaps and not from their ratio."""
    own, shared = 1 / n_important, 1 / (2 * n_irrelevant)

    def velocity(_, gaps):
        first, second = force(gaps, length, magnitude)
        rest, along = shared * (first + second), magnitude**2 / 2 * (first - second)
        return [own * first + rest + along, own * second + rest - along]

    def arrived(_, gaps):
        return (gaps[0] + gaps[1]) / 2 - end

    arrived.terminal = True
    path = solve_ivp(
        velocity,
        (0, 1e9),
        np.array([start + lead, start - lead]),
        method="Radau",
        events=arrived,
        rtol=1e-9,
        atol=1e-10,
    )
    assert path.t_events[0].size == 1
    return path.y.mean(axis=0), (path.y[0] - path.y[1]) / 2


@pytest.mark.parametrize(
    ("step_size", "dim", "n_others"), [(0, 50, 6), (5, 128, 6), (20, 128, 1), (60, 64, 40)]
)
def test_best_token_probability_to_ten_digits(step_size, dim, n_others):
    with mpmath.workdps(25):
        height = mpmath.mpf(step_size) / 2 / 48 * mpmath.sqrt(dim)
        stated = mpmath.quad(
            lambda z: mpmath.npdf(z) * mpmath.ncdf(z + height) ** n_others, mpmath.linspace(-12, 12, 25)
        )
    for sign in (1, -1):
        measured = theory.best_token_probability(step_size, dim, sign / 48, n_others)
        assert measured == pytest.approx(float(stated), rel=1e-10)


def test_best_token_probability_by_drawing_values():
    rng, draws = np.random.default_rng(0), 200_000
    values = rng.normal(size=(draws, 7)) / math.sqrt(128)
    values[:, 0] += 10 / 2 / 48
    share = (values.argmax(axis=1) == 0).mean()
    stated = theory.best_token_probability(10, 128, 1 / 48, 6)
    assert abs(share - stated) < 5 * math.sqrt(stated * (1 - stated) / draws)  # five standard errors


def test_best_token_probability_has_the_shape_of_its_arguments():
    steps, dims = np.array([[0.0], [10.0], [1e5]]), np.array([128, 512])
    stated = theory.best_token_probability(steps, dims, 1 / 48, 4)
    assert stated.shape == (3, 2)
    np.testing.assert_allclose(stated[0], 1 / 5, rtol=1e-12)  # five tokens alike
    assert (stated[2] == 1).all()
    assert isinstance(theory.best_token_probability(1, 2, 0.1, 3), float)


def test_noise_step_size_lifts_the_value_to_the_largest_noise():
    step = theory.noise_step_size(128, -1 / 48, 6)
    assert step / 2 / 48 == pytest.approx(math.sqrt(2 * math.log(6) / 128), rel=1e-14)
    np.testing.assert_allclose(theory.noise_step_size([128, 512], 1 / 48, 6), [step, step / 2], rtol=1e-14)


def test_small_leads_grow_by_the_exponent():
    design = DESIGN | {"magnitude": 1.25}
    kappa = theory.amplification_exponent(6, 20, 1.25)
    assert kappa == pytest.approx((1 / 6 + 1.5625) / (1 / 6 + 1 / 20), rel=1e-14)
    gaps = np.array([0.4, 1.0, 2.2])
    power = (force(gaps, 8, 1.25) / force(0.0, 8, 1.25)) ** kappa
    np.testing.assert_allclose(np.exp(theory.log_amplification(gaps, **design)), power, rtol=1e-12)
    from_one = theory.log_amplification(gaps, **design, start=1.0)
    np.testing.assert_allclose(np.exp(from_one - from_one[0]), power / power[0], rtol=1e-12)
    # The next order is of relative size kappa lead^2, below 1e-9 here; the integrator promises eight digits.
    np.testing.assert_allclose(theory.class_lead(gaps, 1e-6, **design) / 1e-6, power, rtol=1e-7)


@pytest.mark.parametrize("magnitude", [0.3, 2.5, 7.0])
@pytest.mark.parametrize("lead", [0.02, -0.4])
def test_leads_of_any_size(lead, magnitude):
    mean, ahead = lead_curve(lead, 2.5, **DESIGN, magnitude=magnitude)
    measured = theory.class_lead(np.maximum(mean, 0), lead, **DESIGN, magnitude=magnitude)
    # Radau's 1e-9 a step, amplified like a lead: by some thousands at most.
    np.testing.assert_allclose(measured, ahead, atol=2e-5, rtol=1e-5)
    # Radau's steps are wide: between them the lowest point is missed by less than one step's change.
    lowest = theory.lowest_class_gap(lead, **DESIGN, magnitude=magnitude)
    assert lowest <= (mean - np.abs(ahead)).min() + 1e-4
    near = np.linspace(0, 2.5, 400)
    brute = near - np.abs(theory.class_lead(near, lead, **DESIGN, magnitude=magnitude))
    assert lowest == pytest.approx(brute.min(), abs=2e-2)  # a grid of 0.006, slopes of at most kappa


def test_lowest_gaps_of_many_leads_at_once_and_at_the_ends():
    leads = np.array([[0.02, 0.4], [-0.4, 0.0]])
    lowest = theory.lowest_class_gap(leads, **DESIGN, magnitude=2.5)
    assert lowest.shape == (2, 2)
    assert lowest[0, 1] == pytest.approx(lowest[1, 0], abs=1e-5)
    assert lowest[1, 1] == 0  # no lead at all: nobody sinks
    alone = theory.lowest_class_gap(0.02, **DESIGN, magnitude=2.5)
    assert isinstance(alone, float)
    assert alone == pytest.approx(lowest[0, 0], abs=1e-4)
    late = theory.lowest_class_gap(0.5, 6, 20, 8, 2.5, start=3.0)  # past log(T - 1)
    assert late == 2.5
    assert theory.lowest_class_gap(0.5, 6, 20, 2, 2.5) == -0.5  # T = 2: log(T - 1) = 0


def test_where_a_class_far_ahead_stops_to_gain():
    for magnitude in (0.5, 2.5, 4.0):
        stated = theory.runaway_gap(8, magnitude)
        with mpmath.workdps(30):  # at a lead of 30, G is equal there up to e^-30

            def log_force(gap, magnitude=magnitude):
                q = 1 / (1 + 7 * mpmath.exp(-gap))
                return mpmath.log(q * (1 - q) / (1 + mpmath.exp(magnitude * q)))

            root = mpmath.findroot(lambda x: log_force(x + 30) - log_force(x - 30), stated)
        assert stated == pytest.approx(float(root), abs=1e-10)
    for length in (3, 8, 50):
        edge = brentq(lambda magnitude, length=length: theory.runaway_gap(length, magnitude), 1e-6, 100)
        assert theory.runaway_magnitude(length) == pytest.approx(edge, abs=1e-9)
    assert theory.runaway_magnitude(2) == 0


@pytest.mark.parametrize(("dim", "magnitude"), [(512, 1.7), (512, 3.3), (2048, 2.1)])
def test_lost_class_probability_is_that_of_the_lead_that_just_sinks_so_deep(dim, magnitude):
    attention = brentq(
        lambda q: magnitude * q / 2 * (1 / 6 + 1 / 40 + magnitude**2 / 2) - 1 / (80 * math.sqrt(dim)), 0, 1
    )
    spread = math.sqrt((1 / 6 + magnitude**2 * (1 + 4 / 6 + 4 / 20)) / dim)
    measured = theory.lost_class_probability(magnitude, [dim, 4 * dim], **DESIGN)
    assert 0.01 < measured[0] < 0.99
    assert measured[1] < measured[0]
    lead = float(mpmath.sqrt(2) * mpmath.erfinv(1 - measured[0])) * spread  # P(|N| > lead) = measured
    mean, ahead = lead_curve(lead, math.log(7), **DESIGN, magnitude=magnitude)
    # Between the 121 leads the lowest gap is interpolated, and so it is here between the steps of Radau.
    assert (mean - ahead).min() == pytest.approx(math.log(7 * attention), abs=0.01)


def test_lost_class_probability_where_no_lead_or_every_lead_sinks():
    assert theory.lost_class_probability(7.0, 512, **DESIGN) == 0
    assert theory.lost_class_probability(0.1, 512, **DESIGN) == 0
    assert theory.lost_class_probability(0.1, 1e-6, 2, 2, 3) == 1


@pytest.mark.parametrize("start", [0.0, -1.5, 1e20])
def test_a_lead_at_its_own_start_and_next_to_it(start):
    """An interval of no length, or of one rounding step, is no reason to integrate for ever."""
    gaps = np.array([start, np.nextafter(start, np.inf)])
    np.testing.assert_allclose(
        theory.class_lead(gaps, 0.1, **DESIGN, magnitude=2.5, start=start), 0.1, rtol=1e-8
    )
    assert theory.class_lead(start, 0.1, **DESIGN, magnitude=2.5, start=start) == pytest.approx(0.1, rel=1e-8)


def test_no_gaps_and_no_dimensions():
    assert theory.class_lead([], 0.1, **DESIGN, magnitude=2.5).shape == (0,)
    assert theory.lost_class_probability(2.5, [], **DESIGN).shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.best_token_probability(-1, 128, 0.02, 6), "step_size must not be negative, got -1"),
        (lambda: theory.best_token_probability([1, np.nan], 128, 0.02, 6), "step_size must be finite"),
        (lambda: theory.best_token_probability(1, 0, 0.02, 6), "dim must be positive, got 0"),
        (lambda: theory.best_token_probability(1, 128, 0.02, 0), "n_others must be at least 1, got 0"),
        (
            lambda: theory.best_token_probability([1, 2], [1, 2, 3], 0.02, 6),
            r"step_size and dim must fit together, got shapes \(2,\) and \(3,\)",
        ),
        (lambda: theory.noise_step_size(128, 0.0, 6), "signed_frequency must not be 0"),
        (lambda: theory.noise_step_size(128, 0.1, 1), "n_others must be at least 2, got 1"),
        (lambda: theory.amplification_exponent(5, 20, 1.0), "n_important must be even, half for each class"),
        (lambda: theory.amplification_exponent(6, 20, 0.0), "magnitude must be positive"),
        (lambda: theory.log_amplification(np.inf, 6, 20, 8, 1.0), "mean_gap must be finite"),
        (lambda: theory.class_lead(-0.1, 0.1, 6, 20, 8, 1.0), "it must not be below start = 0, got -0.1"),
        (lambda: theory.lowest_class_gap(0.1, 6, 20, 1, 1.0), "length must be at least 2, got 1"),
        (lambda: theory.runaway_gap(1, 1.0), "length must be at least 2, got 1"),
        (lambda: theory.lost_class_probability(1.0, [128, -1], 6, 20, 8), "dim must be positive, got -1"),
    ],
)
def test_what_a_reader_gets_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_best_token_probability_of_many_sequences_is_their_mean():
    steps, others = np.array([[5.0], [40.0]]), [6, 5, 5, 7]
    one_by_one = [theory.best_token_probability(steps, [64, 512], 1 / 48, m) for m in others]
    together = theory.best_token_probability(steps, [64, 512], 1 / 48, others)
    np.testing.assert_allclose(together, np.mean(one_by_one, axis=0), rtol=1e-14)
    assert isinstance(theory.best_token_probability(5.0, 64, 1 / 48, others), float)
    with pytest.raises(TypeError, match="n_others"):
        theory.best_token_probability(5.0, 64, 1 / 48, [1.5, 2.0])
    with pytest.raises(ValueError, match="n_others"):
        theory.best_token_probability(5.0, 64, 1 / 48, [0, 2])
