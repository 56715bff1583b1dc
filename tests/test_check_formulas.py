"""Checks of vectors and formulas: right answers by two routes pass, and each usual slip is named.

The right answers here come from general solvers, quadrature, differential equations and measured gradients;
the wrong ones are written as a reader would write them. None calls the code of the checks.
"""

import itertools
import math

import cvxpy
import mpmath
import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp, trapezoid
from scipy.optimize import brentq

import tokensel as ts

check = ts.check

# --- max-margin problems


def shortest(pairs):
    """The shortest p with p.z >= 1 for all rows z, by a general solver."""
    pairs = np.asarray(pairs, dtype=float)
    p = cvxpy.Variable(pairs.shape[1])
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(p)), [pairs @ p >= 1]).solve(solver="CLARABEL")
    return p.value


@pytest.mark.parametrize("answer", [shortest([[2, 0], [1, 2]]), [1 / 2, 1 / 4], torch.tensor([0.5, 0.25])])
def test_max_margin_two_pairs_right(answer):
    assert check.max_margin_two_pairs(answer)


@pytest.mark.parametrize("answer", [shortest([[1, -1]]), (1 / 2, -1 / 2), torch.tensor([0.5, -0.5])])
def test_two_token_max_margin_right(answer):
    assert check.two_token_max_margin(answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (shortest([[2, 0]]), "for z₁ alone"),
        (shortest([[1, 2]]), "for z₂ alone"),
        ([0.25, 0.5], "product with z₁ stays below"),
        ([0.7, 0.1], "product with z₂ stays below"),
        ([0.1, 0.1], "z₁ and z₂ stays below"),
        ([3 / 16, 1 / 8], "multipliers"),
        ([1.6, 0.8], "dual"),
        (np.array([2, 1]) / np.sqrt(5), "unit"),
        ([1, 0.5], "too long"),
        ([0.2, 0.1], "too short"),
        ([-0.5, -0.25], "wrong way"),
        ([-4, -2], "wrong way"),
        ([-1, -1], "Check the sign"),
        ([0, 0], "zero vector"),
        ([1, 1], "room to spare"),
        ([0.5, 1], "a shorter vector"),
    ],
)
def test_max_margin_two_pairs_wrong(answer, words):
    feedback = check.max_margin_two_pairs(answer)
    assert not feedback
    assert words in feedback.message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([1, 0], "a shorter vector"),
        ([0, -1], "a shorter vector"),
        ([1, -1], "The direction is right"),
        (np.array([1, -1]) / np.sqrt(2), "unit"),
        ([2, -2], "too long"),
        ([0.1, -0.1], "too short"),
        ([-0.5, 0.5], "wrong way"),
        ([0.5, 0.5], "No product is above zero"),
        ([0.5, 0], "stays below one"),
        ([0, 0], "zero vector"),
        ([2, 0], "room to spare"),
    ],
)
def test_two_token_max_margin_wrong(answer, words):
    feedback = check.two_token_max_margin(answer)
    assert not feedback
    assert words in feedback.message


def some_order(rows):
    """Whether some order of the four tokens puts each selected token above the other one of its sequence."""
    arrows = [[(0, 1), (1, 2), (2, 0), (3, 0)][row] for row in rows]
    return any(
        all(order.index(selected) < order.index(other) for selected, other in arrows)
        for order in itertools.permutations(range(4))
    )


@pytest.mark.parametrize(
    "rows", [rows for size in range(5) for rows in itertools.combinations(range(4), size)]
)
def test_feasible_subset(rows):
    """All sixteen subsets, against all orders of the tokens."""
    feasible = some_order(rows)
    returns = any(some_order({*rows, row}) for row in set(range(4)) - set(rows))
    feedback = check.feasible_subset(list(rows))
    assert bool(feedback) == (feasible and not returns)
    assert ("not feasible" in feedback.message) == (not feasible)
    assert ("could return" in feedback.message) == (feasible and returns)


@pytest.mark.parametrize(
    "answer",
    [
        {0, 1, 3},
        frozenset({1, 2, 3}),
        {0: 1, 2: 1, 3: 1}.keys(),
        filter(None, [1, 2, 3]),
        np.array([3, 1, 0]),
        torch.tensor([1, 2, 3]),
        [True, False, True, True],
        (0.0, 2.0, 3.0),
    ],
)
def test_feasible_subset_in_other_forms(answer):
    assert check.feasible_subset(answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([1, 2, 4], "counted from zero"),
        ([-1, 0], "counted from zero"),
        ([0.5], "whole numbers"),
        ([0, 0, 1], "twice"),
        ([True, False], "four rows"),
        ([[0, 1]], "list of numbers"),
        ([[0], [1, 2]], "cannot be read"),
        (3, "list of numbers"),
        (None, "None"),
        ("013", "text"),
        (lambda: [0], "got a function"),
    ],
)
def test_feasible_subset_odd(answer, words):
    feedback = check.feasible_subset(answer)
    assert not feedback
    assert words in feedback.message


# --- formulas in sizes


def squared_norm_by_a_solver(K, M):
    identity = np.eye(K + M)
    solution = shortest([identity[k] - identity[K + s] for k in range(K) for s in range(M)])
    return solution @ solution


@pytest.mark.parametrize("answer", [squared_norm_by_a_solver, lambda K, M: 1 / (1 / K + 1 / M)])
def test_squared_norm_right(answer):
    assert check.squared_norm(answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda K, M: 1 / K + 1 / M, "square of the margin"),
        (lambda K, M: np.sqrt(1 / K + 1 / M), "That is the margin"),
        (lambda K, M: np.sqrt(K * M / (K + M)), "That is the norm"),
        (lambda K, M: K + M, "still matter"),
        (lambda K, M: K * M, "still matter"),
        (lambda K, M: K * (M / (K + M)) ** 2, "one kind of token only"),
        (lambda K, M: M * (K / (K + M)) ** 2, "one kind of token only"),
        (lambda K, M: K * (K / (K + M)) ** 2 + M * (M / (K + M)) ** 2, "exchanged"),
        (lambda K, M: M / (K + M), "weight of one important token"),
        (lambda K, M: K / (K + M), "weight of one irrelevant token"),
        (lambda K, M: K * M / (K + M) / 2, "one constant factor"),
        (lambda K, M: -K * M / (K + M), "sign is not"),
        (lambda K, M: K, "Which equation joins them"),
    ],
)
def test_squared_norm_wrong(answer, words):
    feedback = check.squared_norm(answer)
    assert not feedback
    assert words in feedback.message


def loss_gap_in_many_digits(log_time, squared_norm):
    return float(mpmath.log(mpmath.mpf(squared_norm) / mpmath.exp(log_time)))


@pytest.mark.parametrize("answer", [loss_gap_in_many_digits, lambda lt, square: np.log(square) - lt])
def test_loss_gap_right(answer):
    assert check.loss_gap(answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda lt, square: -lt, "a constant too"),
        (lambda lt, square: np.log(1 / square) - lt, "upside down"),
        (lambda lt, square: np.log(np.sqrt(square)) - lt, "use the norm"),
        (lambda lt, square: np.log(square**2) - lt, "a square already"),
        (lambda lt, square: square - lt, "its logarithm is asked for"),
        (lambda lt, square: square * np.exp(-lt), "the gap itself"),
        (lambda lt, square: np.log(square / lt), "take it for the time"),
        (lambda lt, square: square / lt, "take it for the time"),
        (lambda lt, square: np.log(square) + lt, "grows with time"),
        (lambda lt, square: lt - np.log(square), "sign is not"),
        (lambda lt, square: np.log(square / np.exp(lt)), "too large for a float"),
        (lambda lt, square: math.log(square / math.exp(lt)), "OverflowError"),
    ],
)
def test_loss_gap_wrong(answer, words):
    feedback = check.loss_gap(answer)
    assert not feedback
    assert words in feedback.message


def time_by_quadrature(K, M, T, B, epsilon):
    with mpmath.workdps(20):
        integral = mpmath.quad(
            lambda q: (1 + mpmath.exp(B * q)) / (q * (1 - q)) ** 2, [mpmath.mpf(1) / T, 0.7, 0.9, 1 - epsilon]
        )
        return float(mpmath.mpf(K * M) / (K + M) / B * integral)


def time_by_differential_equation(K, M, T, B, epsilon):
    """Follow the gap of the scores until attention arrives."""

    def attention(gap):
        return np.exp(gap) / (np.exp(gap) + T - 1)

    def speed(_, gap):
        q = attention(gap)
        return (1 / K + 1 / M) * B / (1 + np.exp(B * q)) * q * (1 - q)

    def arrived(_, gap):
        return attention(gap[0]) - 1 + epsilon

    arrived.terminal = True
    return solve_ivp(speed, (0, 1e6), [0.0], events=arrived, rtol=1e-6, atol=1e-9).t_events[0][0]


@pytest.mark.parametrize("answer", [time_by_quadrature, time_by_differential_equation])
def test_attention_time_right(answer):
    assert check.attention_time(answer)


def other_time(integrand, start=lambda T: 1 / T):
    def answer(K, M, T, B, epsilon):
        q = np.linspace(start(T), 1 - epsilon, 100_001)
        return K * M / (K + M) / B * trapezoid(integrand(q, B), q)

    return answer


def slowness(q, B):
    return (1 + np.exp(B * q)) / (q * (1 - q)) ** 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda K, M, T, B, e: K * M / (K + M) * (1 + np.exp(B)) / (B * e), "plateau"),
        (lambda K, M, T, B, e: K * M / (K + M) * (1 + np.exp(B)) / B * (1 - e) / e, "back to the start"),
        (lambda K, M, T, B, e: ts.theory.attention_time(e, K, M, T, B).upper, "upper bound"),
        (lambda K, M, T, B, e: ts.theory.attention_time(e, K, M, T, B).lower, "lower bound"),
        (lambda *case: np.log(time_by_quadrature(*case)), "logarithm of the time"),
        (lambda K, M, *rest: time_by_quadrature(K, M, *rest) * (1 / K + 1 / M) ** 2, "upside down"),
        (lambda K, M, *rest: time_by_quadrature(K, M, *rest) * (1 / K + 1 / M), "sizes K and M play no part"),
        (lambda K, M, T, B, e: B * time_by_quadrature(K, M, T, B, e), "size of the values is missing"),
        (lambda K, M, T, B, e: B**2 * time_by_quadrature(K, M, T, B, e), "multiplies where it should"),
        (other_time(lambda q, B: (1 + np.exp(B * q)) / (q * (1 - q))), "equation of the score gap"),
        (other_time(lambda q, B: (1 + np.exp(-B * q)) / (q * (1 - q)) ** 2), "sign in your exponential"),
        (other_time(slowness, start=lambda T: 1 / 2), "even odds"),
        (other_time(slowness, start=lambda T: 1 / (T + 1)), "starts too low"),
        (lambda *case: 2 * time_by_quadrature(*case), "one constant factor"),
        (lambda K, M, T, *rest: time_by_quadrature(K, M, T, *rest) * (1 + 0.05 / T), "Close everywhere"),
        (lambda K, M, T, B, e: 1 / e, "as a function of attention alone"),
    ],
)
def test_attention_time_wrong(answer, words):
    feedback = check.attention_time(answer)
    assert not feedback
    assert words in feedback.message


def boundary_by_max_margin(K_plus, M, b_plus):
    """Solve the positive sequences alone, then find the value at which a lost pair is just satisfied."""
    identity = np.eye(K_plus + M + 2)  # positive tokens, irrelevant tokens, the negative token, the output
    output = identity[-1]
    positive = identity[:K_plus] + b_plus * output
    irrelevant = identity[K_plus : K_plus + M]
    cls = shortest([positive[k] - irrelevant[s] for k in range(K_plus) for s in range(M)])
    return brentq(lambda beta: cls @ (irrelevant[0] - identity[-2] + beta * output) - 1, 0, 100)


@pytest.mark.parametrize(
    "answer",
    [boundary_by_max_margin, lambda K, M, b: (b * b * K * M + M + 2 * K) / (b * K * M)],
)
def test_trap_boundary_right(answer):
    assert check.trap_boundary(answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda K, M, b: b, "just a little larger"),
        (lambda K, M, b: (1 / K + 2 / M) / b, "A term is missing"),
        (lambda K, M, b: b - (1 / K + 2 / M) / b, "Check a sign"),
        (lambda K, M, b: b + (1 / K + 1 / M) / b, "part of the irrelevant tokens is wrong"),
        (lambda K, M, b: b + 1 / (K * b), "irrelevant tokens play no part"),
        (lambda K, M, b: b + 2 / (M * b), "positive tokens plays no part"),
        (lambda K, M, b: b + (1 / K + 2 / M) * b, "very small"),
        (lambda K, M, b: b + 1 / K + 2 / M, "scale with the values"),
        (lambda K, M, b: b + (2 / K + 1 / M) / b, "are exchanged"),
        (lambda K, M, b: b + (K + M / 2) / b, "above or below the line"),
        (lambda K, M, b: -boundary_by_max_margin(K, M, b), "A size is asked for"),
        (lambda K, M, b: 2 * boundary_by_max_margin(K, M, b), "one constant factor"),
        (lambda K, M, b: b**3 + K + M, "lost sequences hold"),
    ],
)
def test_trap_boundary_wrong(answer, words):
    feedback = check.trap_boundary(answer)
    assert not feedback
    assert words in feedback.message


def amplification_by_gradient(K, M, B):
    """Measure it: half the tokens of each class, unequal gaps, one push on the cls embedding."""
    signs = np.where(np.arange(K) < K // 2, 1, -1)
    corpus = ts.Corpus.from_sequences(
        [[k, K + s] for k in range(K) for s in range(M)], np.repeat(signs, M), n_tokens=K + M
    )
    values = np.concatenate([B * signs, np.zeros(M)])
    scores = np.concatenate([np.where(signs > 0, 1.0, 0.3), np.zeros(M)])
    push = -ts.score_space.gradients(corpus, scores, values).scores.numpy()
    moved = push + values * (values @ push)  # scores E p move by E E^T beta, and E E^T = 1 + b b^T
    plus, minus = moved[0] - moved[K], moved[K - 1] - moved[K]

    def force(gap):
        q = np.exp(gap) / (1 + np.exp(gap))
        return B * q * (1 - q) / (1 + np.exp(B * q))

    lead = (force(1.0) - force(0.3)) / (force(1.0) + force(0.3))
    return (plus - minus) / (plus + minus) / lead


@pytest.mark.parametrize("answer", [amplification_by_gradient, lambda K, M, B: M * (1 + K * B**2) / (K + M)])
def test_amplification_right(answer):
    assert check.amplification(answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda K, M, B: (1 / K + B) / (1 / K + 1 / M), "both hold it"),
        (lambda K, M, B: (1 / K + 1 / M) / (1 / K + B**2), "upside down"),
        (lambda K, M, B: B**2 / (1 / K + 1 / M), "A term is missing"),
        (lambda K, M, B: 1 / K + B**2, "difference of the two gaps moves"),
        (lambda K, M, B: 1 / K + 1 / M, "sum of the two gaps moves"),
        (lambda K, M, B: (1 / K - B**2) / (1 / K + 1 / M), "Check a sign"),
        (lambda K, M, B: 1 + B**2 / (1 / K + 1 / M), "stand in both"),
        (lambda K, M, B: (1 / K + B**2) / (1 / K + 1 / M + B**2), "along the output"),
        (lambda K, M, B: (1 / M + B**2) / (1 / K + 1 / M), "one kind of token for the other"),
        (lambda K, M, B: (1 / K + 2 * B**2) / (1 / K + 1 / M), "too strong"),
        (lambda K, M, B: (1 / K + B**2) / (1 / K + 1 / M) / 2, "one constant factor"),
        (lambda K, M, B: K + M + B, "speeds of both gaps"),
    ],
)
def test_amplification_wrong(answer, words):
    feedback = check.amplification(answer)
    assert not feedback
    assert words in feedback.message
