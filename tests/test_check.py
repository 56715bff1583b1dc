"""Checks of exercises: right answers by two routes pass, and each usual slip is named for what it is.

The right answers here are loops over tokens, derivatives taken numerically and problems solved by other
means; the wrong ones are written as a reader would write them. None calls the code of the checks.
"""

import itertools
import math
from fractions import Fraction

import cvxpy
import mpmath
import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import tokensel as ts

check = ts.check

# --- attention


def attention_by_loops(counts, scores):
    rows = []
    for row in counts.tolist():
        places = [token for token, count in enumerate(row) for _ in range(count)]
        top = max(scores[token] for token in places)
        whole = math.fsum(math.exp(scores[token] - top) for token in places)
        shares = [sum(math.exp(scores[t] - top) for t in places if t == token) for token in range(len(row))]
        rows.append([share / whole for share in shares])
    return rows  # a list of lists


def attention_by_torch(counts, scores):
    return torch.softmax(torch.from_numpy(scores) + torch.log(torch.from_numpy(counts)), dim=1)


def naive_attention(counts, scores):
    weights = counts * np.exp(scores)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("answer", [attention_by_loops, attention_by_torch])
def test_attention_right(answer):
    feedback = check.attention(answer)
    assert feedback
    assert "remark" not in feedback.message


def test_attention_that_overflows_is_right_with_a_remark():
    feedback = check.attention(naive_attention)
    assert feedback
    assert "remark" in feedback.message
    one_shift = check.attention(lambda counts, scores: naive_attention(counts, scores - scores.max()))
    assert one_shift
    assert "sequence by sequence" in one_shift.message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda C, a: naive_attention(C > 0, a), "more than once in a sequence"),
        (lambda C, a: C * np.exp(a), "denominator"),
        (lambda C, a: C * np.exp(a) / np.exp(a).sum(), "whole vocabulary"),
        (lambda C, a: C * np.exp(a) / (C * np.exp(a)).sum(), "must add up to one"),
        (lambda C, a: C * np.exp(a) / (C * np.exp(a)).sum(axis=0), "axis"),
        (lambda C, a: C * np.exp(a) / C.sum(axis=1, keepdims=True), "length"),
        (lambda C, a: torch.softmax(torch.from_numpy(C * a), dim=1), "count zero"),
        (lambda C, a: (C > 0) * np.exp(C * a) / ((C > 0) * np.exp(C * a)).sum(1)[:, None], "in the exponent"),
        (lambda C, a: C / C.sum(axis=1, keepdims=True), "scores play no part"),
        (lambda C, a: naive_attention(C, -a), "gets less"),
        (lambda C, a: naive_attention(C, 2 * a), "too strongly"),
        (lambda C, a: np.tile(np.exp(a) / np.exp(a).sum(), (len(C), 1)), "do not stand in the sequence"),
        (lambda C, a: naive_attention(C + 1, a), "gets none"),
        (lambda C, a: C * a, "never negative"),
        (lambda C, a: 2 * naive_attention(C, a), "one constant factor"),
        (lambda C, a: naive_attention(C, a).T, "rows and columns"),
    ],
)
def test_attention_wrong(answer, words):
    feedback = check.attention(answer)
    assert not feedback
    assert words in feedback.message


# --- statistics


def signed_frequency_by_loops(corpus):
    total = [Fraction(0)] * corpus.n_tokens
    for row, label in zip(corpus.counts.toarray().tolist(), corpus.labels.tolist(), strict=True):
        for token, count in enumerate(row):
            total[token] += Fraction(label * count, sum(row))
    return [float(value / corpus.n_sequences) for value in total]


def frequencies(corpus):
    return corpus.frequencies.toarray()


def counts(corpus):
    return corpus.counts.toarray()


@pytest.mark.parametrize(
    "answer", [signed_frequency_by_loops, lambda corpus: corpus.average_signed_frequency]
)
def test_average_signed_frequency_right(answer):
    assert check.average_signed_frequency(answer)


WRONG_SIGNED_FREQUENCIES = [
    (lambda k: k.average_frequency, "labels play no part"),
    (lambda k: k.labels @ counts(k) / k.lengths.sum(), "different lengths"),
    (lambda k: k.labels @ counts(k) / k.n_sequences, "how long the sequence is"),
    (lambda k: k.labels @ (counts(k) > 0) / k.n_sequences, "only whether a token stands"),
    (lambda k: k.labels @ ((counts(k) > 0) / k.lengths[:, None]) / k.n_sequences, "several times"),
    (lambda k: k.labels @ ((counts(k) > 0) / (counts(k) > 0).sum(1)[:, None]) / len(k), "drop repeats"),
    (lambda k: k.labels @ frequencies(k), "average of a sum"),
    (lambda k: k.labels @ frequencies(k) / np.maximum(k.document_frequency, 1), "that hold the token"),
    (lambda k: k.posterior_difference, "posterior difference"),
    (lambda k: np.abs(k.average_signed_frequency), "never negative"),
]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        *WRONG_SIGNED_FREQUENCIES,
        (lambda k: -k.average_signed_frequency, "signs are all exchanged"),
        (lambda k: k.average_signed_frequency / 2, "one constant factor"),
        (lambda k: -k.average_signed_frequency / 2, "And the sign is wrong"),
        (lambda k: k.average_signed_frequency / k.n_tokens, "changes from case to case"),
        (lambda k: k.average_signed_frequency.round(2) + 1e-3, "by hand"),
        (lambda k: k.average_signed_frequency + 0.01 * k.average_signed_frequency.max(), "rounded too early"),
        (lambda k: 3 * k.labels @ counts(k) / k.lengths.sum(), "constant factor or a sign"),
    ],
)
def test_average_signed_frequency_wrong(answer, words):
    feedback = check.average_signed_frequency(answer)
    assert not feedback
    assert words in feedback.message


def test_means_within_the_classes_are_right_for_one_class_only():
    def answer(corpus):
        rows = frequencies(corpus)
        means = [rows[corpus.labels == y].mean(axis=0) if y in corpus.labels else 0 for y in (1, -1)]
        return means[0] - means[1]

    feedback = check.average_signed_frequency(answer)
    assert not feedback
    assert "within each class" in feedback.message
    assert "right only for one class only" in feedback.message


def posterior_by_loops(corpus):
    difference = []
    for token in range(corpus.n_tokens):
        labels = [label for row, label in zip(counts(corpus), corpus.labels, strict=True) if row[token]]
        difference.append(sum(labels) / len(labels) if labels else math.nan)
    return difference


@pytest.mark.parametrize("answer", [posterior_by_loops, lambda corpus: corpus.posterior_difference])
def test_posterior_difference_right(answer):
    assert check.posterior_difference(answer)


def conditioned_the_wrong_way(corpus):
    there = counts(corpus) > 0
    with np.errstate(invalid="ignore"):
        return sum(
            y * there[corpus.labels == y].sum(axis=0) / np.sum(corpus.labels == y, dtype=float)
            for y in (1, -1)
        )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda k: (k.posterior_difference + 1) / 2, "first of the two"),
        (lambda k: (k.posterior_difference + 1) / 2 - np.mean(k.labels == 1), "how probable the class is at"),
        (lambda k: k.labels @ counts(k) / counts(k).sum(axis=0), "count places"),
        (lambda k: k.labels @ (counts(k) > 0) / k.n_sequences, "number of all sequences"),
        (lambda k: k.labels @ (counts(k) > 0), "not yet probabilities"),
        (conditioned_the_wrong_way, "wrong way round"),
        (lambda k: k.labels @ (counts(k) > 0) / (k.document_frequency + 2), "invented sequences"),
        (lambda k: k.average_signed_frequency / k.average_frequency, "weigh sequences"),
        (lambda k: k.average_signed_frequency, "average signed frequency"),
        (lambda k: np.nan_to_num(k.posterior_difference), "nothing to condition on"),
        (lambda k: np.abs(k.posterior_difference), "never negative"),
        (lambda k: -k.posterior_difference, "signs are all exchanged"),
        (lambda k: k.posterior_difference / 2, "one constant factor"),
    ],
)
def test_posterior_difference_wrong(answer, words):
    feedback = check.posterior_difference(answer)
    assert not feedback
    assert words in feedback.message


# --- gradients and first steps


def lookup_loss(corpus, scores, values):
    """The model as a reader would write it: an embedding lookup over the places of each sequence."""
    total = 0.0
    for row, label in zip(counts(corpus), corpus.labels.tolist(), strict=True):
        places = np.repeat(np.arange(len(row)), row)
        logit = torch.softmax(scores[places], dim=0) @ values[places]
        total = total + torch.nn.functional.softplus(-label * logit)
    return total / corpus.n_sequences


def push_by_autograd(corpus, scores, values):
    scores = torch.from_numpy(scores).requires_grad_()
    lookup_loss(corpus, scores, torch.from_numpy(values)).backward()
    return -scores.grad


def push_by_package(corpus, scores, values):
    return -ts.score_space.gradients(corpus, scores, values).scores


@pytest.mark.parametrize("answer", [push_by_autograd, push_by_package])
def test_score_gradient_right(answer):
    assert check.score_gradient(answer)


def parts(corpus, scores, values):
    """Attention, logits and residuals, from counts."""
    weights = counts(corpus) * np.exp(scores - scores.max())
    attention = weights / weights.sum(axis=1, keepdims=True)
    logits = attention @ values
    return attention, logits, corpus.labels / (1 + np.exp(corpus.labels * logits))


def push_from(change):
    def answer(corpus, scores, values):
        return change(corpus, values, *parts(corpus, scores, values))

    return answer


def mean(residual, attention, advantage):
    return (residual[:, None] * attention * advantage).mean(axis=0)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda *case: -push_by_package(*case), "gradient itself"),
        (lambda *case: 3 * push_by_package(*case), "one constant factor"),
        (lambda *case: case[0].n_sequences * push_by_package(*case), "the loss is a mean"),
        (push_from(lambda k, b, q, f, g: mean(g, q, b)), "second part is missing"),
        (push_from(lambda k, b, q, f, g: mean(g, q * (1 - q), b)), "attention on all tokens"),
        (push_from(lambda k, b, q, f, g: mean(k.labels / 2, q, b - f[:, None])), "logits zero"),
        (push_from(lambda k, b, q, f, g: mean(k.labels - g, q, b - f[:, None])), "inside the sigmoid"),
        (push_from(lambda k, b, q, f, g: mean(np.abs(g), q, b - f[:, None])), "labels are missing"),
        (push_from(lambda k, b, q, f, g: mean(k.labels, q, b - f[:, None])), "pushes equally hard"),
        (lambda *case: -ts.score_space.gradients(*case).values, "push on the values"),
        (lambda *case: ts.score_space.gradients(*case).values, "push on the values"),
        (lambda k, a, b: push_by_package(k, 0 * a, b), "right only for equal scores"),
        (lambda k, a, b: push_by_package(ts.Corpus(1 * (counts(k) > 0), k.labels), a, b), "stands twice"),
        (push_from(lambda k, b, q, f, g: mean(g, q, b - b.mean())), "add to zero"),
        (lambda k, a, b: push_by_package(k, a, np.roll(b, 1)), "chain rule"),
    ],
)
def test_score_gradient_wrong(answer, words):
    feedback = check.score_gradient(answer)
    assert not feedback
    assert words in feedback.message


def change_by_gradient(corpus, step_size):
    """One step from a start where all scores and values are zero: v has norm one, so values move by this."""
    nought = np.zeros(corpus.n_tokens)
    return -step_size * ts.score_space.gradients(corpus, nought, nought).values


def change_by_loops(corpus, step_size):
    return [step_size / 2 * alpha for alpha in signed_frequency_by_loops(corpus)]


@pytest.mark.parametrize("answer", [change_by_gradient, change_by_loops])
def test_one_step_values_right(answer):
    assert check.one_step_values(answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        *(
            (lambda k, eta, wrong=wrong: eta / 2 * wrong(k), words)
            for wrong, words in WRONG_SIGNED_FREQUENCIES
        ),
        (lambda k, eta: eta * k.average_signed_frequency, "one constant factor"),
        (lambda k, eta: -eta / 2 * k.average_signed_frequency, "the step descends"),
        (lambda k, eta: k.average_signed_frequency / 2, "step size plays no part"),
        (lambda k, eta: eta**2 * k.average_signed_frequency / 2, "too fast"),
        (lambda k, eta: eta * k.average_frequency, "labels play no part"),
    ],
)
def test_one_step_values_wrong(answer, words):
    feedback = check.one_step_values(answer)
    assert not feedback
    assert words in feedback.message


def first_push_by_gradient(corpus, scale):
    # The push is of order tiny, what follows of order tiny^2: relative errors of 1e-6, and 1e-10 of rounding.
    tiny = 1e-6
    values = tiny * corpus.average_signed_frequency
    push = -ts.score_space.gradients(corpus, np.zeros(corpus.n_tokens), values).scores
    return scale / tiny * push


def first_push_by_loops(corpus, scale):
    alpha = signed_frequency_by_loops(corpus)
    push = [0.0] * corpus.n_tokens
    for row, label in zip(counts(corpus).tolist(), corpus.labels.tolist(), strict=True):
        shares = [count / sum(row) for count in row]
        logit = sum(share * value for share, value in zip(shares, alpha, strict=True))
        for token, share in enumerate(shares):
            push[token] += scale * label / 2 * share * (alpha[token] - logit) / corpus.n_sequences
    return push


@pytest.mark.parametrize("answer", [first_push_by_gradient, first_push_by_loops])
def test_first_push_right(answer):
    assert check.first_push(answer)


def terms(shares):
    """The two terms of the first push, from some version of the frequencies: own value, and the logits."""

    def both(corpus):
        weights, y = shares(corpus), corpus.labels
        alpha = y @ weights / len(y)
        return alpha, weights.T @ (y * (weights @ alpha)) / len(y), weights.T @ (weights @ alpha) / len(y)

    return both


plain = terms(frequencies)


def from_terms(combine, both=plain):
    return lambda corpus, scale: scale / 2 * combine(*both(corpus))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (from_terms(lambda alpha, common, unsigned: alpha**2), "own value. It competes"),
        (from_terms(lambda alpha, common, unsigned: -common), "only what the logits take away"),
        (from_terms(lambda alpha, common, unsigned: alpha**2 + common), "add up, where one is a gain"),
        (from_terms(lambda alpha, common, unsigned: alpha**2 - unsigned), "labels are missing"),
        (from_terms(lambda alpha, common, unsigned: alpha - common), "linear in the labels"),
        (from_terms(lambda alpha, common, unsigned: alpha), "when all labels flip"),
        (from_terms(lambda alpha, common, unsigned: common - alpha**2), "direction in which the loss grows"),
        (from_terms(lambda alpha, common, unsigned: 2 * (alpha**2 - common)), "one constant factor"),
        (from_terms(lambda alpha, common, unsigned: alpha**2 - common, terms(counts)), "counts where"),
        (
            from_terms(
                lambda alpha, common, unsigned: alpha**2 - common,
                terms(lambda corpus: (counts(corpus) > 0) / corpus.lengths[:, None]),
            ),
            "several times",
        ),
        (lambda k, c: k.n_sequences * first_push_by_gradient(k, c), "the loss is a mean"),
        (lambda k, c: first_push_by_gradient(k, 1.0), "scale of the values plays no part"),
        (lambda k, c: first_push_by_gradient(k, c**2), "too fast"),
        (lambda k, c: c * np.abs(k.average_signed_frequency), "add to zero"),
    ],
)
def test_first_push_wrong(answer, words):
    feedback = check.first_push(answer)
    assert not feedback
    assert words in feedback.message


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
    [{0, 1, 3}, np.array([3, 1, 0]), torch.tensor([1, 2, 3]), [True, False, True, True], (0.0, 2.0, 3.0)],
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
        return K * M / (K + M) / B * np.trapezoid(integrand(q, B), q)

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
    push = push_by_package(corpus, scores, values).numpy()
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
