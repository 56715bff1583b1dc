"""Proposition prop-parabola: in a graded corpus the first push is a parabola in the leaning.

Exact part: a corpus that holds every sequence as often as its probability says is the limit of n to infinity.
It is written out with plain loops, and the push computed by the definition of the loss, numerically
differentiated; no code is shared with the package. Random part: corpora of the sampler.
"""

import itertools

import mpmath
import numpy as np
import pytest

import tokensel as ts

ORIGIN = "beyond the paper"
SETTING = (
    r"Any number of tokens $S\ge2$ and any length $T\ge1$; values $b=c\,\alpha$ with $c\to0$, and $p=0$."
)
HYPOTHESES = {
    "balanced-classes": r"Both classes have probability $\frac12$.",
    "independent-places": "Given the label, places are filled independently of one another.",
    "no-mean-leaning": r"A place holds token $s$ with probability $(1+y\zeta_s)/S$, where $\sum_s\zeta_s=0$.",
    "one-length": "All sequences have one length $T$.",
}


def every_sequence(weights, length):
    """(sequences, labels): each sequence as often as it is probable, given integer weights of each class."""
    sequences, labels = [], []
    for label, weight in weights.items():
        for sequence in itertools.product(range(len(weight)), repeat=length):
            times = int(np.prod([weight[s] for s in sequence]))
            sequences += [sequence] * times
            labels += [label] * times
    return sequences, labels


def leading_push(sequences, labels, n_tokens):
    """beta / c at c -> 0 for these sequences, by its formula; held to the definition of the loss below."""
    n = len(sequences)
    frequency = np.zeros((n, n_tokens))
    for i, sequence in enumerate(sequences):
        for s in sequence:
            frequency[i, s] += 1 / len(sequence)
    alpha = np.array([np.mean([y * frequency[i, s] for i, y in enumerate(labels)]) for s in range(n_tokens)])
    margin = [y * (frequency[i] @ alpha) for i, y in enumerate(labels)]
    shared = np.array([np.mean([m * frequency[i, s] for i, m in enumerate(margin)]) for s in range(n_tokens)])
    return (alpha**2 - shared) / 2


def parabola(leaning, length):
    leaning = np.asarray(leaning, dtype=float)
    return (1 - 1 / length) / (2 * len(leaning) ** 2) * (leaning**2 - np.mean(leaning**2))


# Leanings as fractions w/h - 1 with integer w, so that (1 + leaning) and (1 - leaning) are integers over h.
LEANINGS = [(0, 2), (0, 1, 2), (0, 1, 2, 3), (1, 1, 1, 1), (0, 2, 2, 0), (2, 1, 0, 1, 1)]


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("steps", LEANINGS)
def test_the_push_of_the_limit_is_the_parabola(steps, length, evidence):
    half = np.mean(steps)
    leaning = np.array(steps) / half - 1
    assert abs(leaning.sum()) < 1e-12  # the hypotheses, on this instance
    assert np.abs(leaning).max() <= 1
    weights = {+1: [2 * w for w in steps], -1: [int(4 * half) - 2 * w for w in steps]}
    sequences, labels = every_sequence(weights, length)
    assert sum(labels) == 0
    measured = leading_push(sequences, labels, len(steps))
    expected = parabola(leaning, length)
    # Sums of some thousand terms of order one in float64.
    np.testing.assert_allclose(measured, expected, rtol=0, atol=1e-13)
    evidence.holds()


def test_the_leading_term_is_what_the_loss_says():
    """The definition, in fifty digits: differentiate the logistic loss in one score, at c = 1e-20."""
    sequences, labels = every_sequence({+1: [0, 1, 2], -1: [2, 1, 0]}, 2)
    expected = parabola([-1, 0, 1], 2)
    with mpmath.workdps(60):
        c = mpmath.mpf(10) ** -20
        alpha = [mpmath.mpf(z) / 3 for z in (-1, 0, 1)]

        def loss(scores):
            total = 0
            for sequence, y in zip(sequences, labels, strict=True):
                weight = [mpmath.exp(scores[s]) for s in sequence]
                f = sum(w * c * alpha[s] for w, s in zip(weight, sequence, strict=True)) / sum(weight)
                total += mpmath.log(1 + mpmath.exp(-y * f))
            return total / len(labels)

        for s in range(3):
            h = mpmath.mpf(10) ** -12
            step = [h if r == s else mpmath.mpf(0) for r in range(3)]
            slope = (loss(step) - loss([-x for x in step])) / (2 * h)
            assert float(-slope / c) == pytest.approx(expected[s], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(("n_tokens", "length"), [(21, 8), (11, 3), (31, 2), (16, 20), (41, 5), (5, 30)])
def test_the_push_of_random_corpora_tends_to_the_parabola(n_tokens, length, evidence):
    """Root mean square distance over tokens and 8 corpora: falls like the root of n, so to a quarter here.

    The distance is a mean over 8 corpora with a few independent errors each, at least some 30 in all: a ratio
    of two of them is within a factor 1.6 of its expectation but for a chance of about one in a thousand.
    """
    leaning = np.linspace(-1, 1, n_tokens)
    expected = parabola(leaning, length)
    distances = []
    for n in (1_000, 16_000):
        misses = []
        for seed in range(8):
            corpus = ts.samplers.graded_tokens(n_sequences=n, n_tokens=n_tokens, length=length, seed=seed)
            alpha, frequency = corpus.average_signed_frequency, corpus.frequencies.toarray()
            push = (alpha**2 - (corpus.labels * (frequency @ alpha)) @ frequency / n) / 2
            misses.append(push - expected)
        distances.append(np.sqrt(np.mean(np.square(misses))))
    assert 4 / 1.6 < distances[0] / distances[1] < 4 * 1.6
    # At n = 16,000 the distance is this share of the parabola's own size.
    evidence.limit(1 + distances[1] / np.sqrt(np.mean(expected**2)), 1)


@pytest.mark.drops("balanced-classes")
def test_with_more_positive_than_negative_sequences_it_is_no_parabola():
    sequences, labels = every_sequence({+1: [0, 1, 2], -1: [2, 1, 0]}, 2)
    positive = [(s, y) for s, y in zip(sequences, labels, strict=True) if y > 0]
    sequences += [s for s, _ in positive] * 2
    labels += [1] * 2 * len(positive)
    push = leading_push(sequences, labels, 3)
    # The two ends, equal in the parabola, differ by as much as the parabola is high there.
    assert push[2] - push[0] == pytest.approx(parabola([-1, 0, 1], 2)[0], rel=1e-9)


@pytest.mark.drops("independent-places")
def test_when_places_repeat_one_token_there_is_no_push_at_all():
    """Every place holds what the first one does: one distinct token a sequence, nothing to choose from."""
    sequences, labels = every_sequence({+1: [0, 1, 2], -1: [2, 1, 0]}, 1)
    push = leading_push([s * 4 for s in sequences], labels, 3)
    np.testing.assert_allclose(push, 0, atol=1e-15)
    assert np.abs(parabola([-1, 0, 1], 4)).max() > 1e-2


@pytest.mark.drops("no-mean-leaning")
def test_tokens_that_differ_in_frequency_bend_it():
    """The middle token is four times as frequent; the average labels are still -1, 0 and 1."""
    sequences, labels = every_sequence({+1: [0, 4, 2], -1: [2, 4, 0]}, 2)
    push = leading_push(sequences, labels, 3)
    # Half as high everywhere, as the frequencies of the outer tokens are a sixth instead of a third.
    np.testing.assert_allclose(push, parabola([-1, 0, 1], 2) / 2, rtol=1e-9)


@pytest.mark.drops("one-length")
def test_two_lengths_give_a_mixture():
    short, labels_short = every_sequence({+1: [0, 1, 2], -1: [2, 1, 0]}, 1)
    long, labels_long = every_sequence({+1: [0, 1, 2], -1: [2, 1, 0]}, 2)
    # As many short as long sequences: 6 and 18.
    push = leading_push(short * 3 + long, labels_short * 3 + labels_long, 3)
    for length in (1, 2):
        assert np.abs(push - parabola([-1, 0, 1], length)).max() > 1e-3
