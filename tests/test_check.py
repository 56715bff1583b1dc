"""Checks of functions of a corpus: right answers by two routes pass, and each usual slip is named.

The right answers here are loops over tokens, derivatives taken numerically and problems solved by other
means; the wrong ones are written as a reader would write them. None calls the code of the checks.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

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
        (
            lambda k, c: push_by_package(k, np.zeros(k.n_tokens), c * k.average_signed_frequency),
            "push itself at this scale",
        ),
    ],
)
def test_first_push_wrong(answer, words):
    feedback = check.first_push(answer)
    assert not feedback
    assert words in feedback.message
