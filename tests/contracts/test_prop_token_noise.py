"""Proposition prop-token-noise: what the statistics of a token are when labels say nothing.

Small corpora are tried under every labelling there is, so expectations and probabilities are exact. The
oracle reads sequences one by one, in fractions.
"""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb, exp, log, prod, sqrt

import numpy as np
import pytest

import tokensel as ts
from tokensel import theory

ORIGIN = "beyond the paper"
ORIGIN = "beyond the paper"
SETTING = (
    "Any corpus with its counts given; only the labels are random. In parts 1 to 3 they are coin flips, in "
    "part 4 the given labels in random order."
)
HYPOTHESES = {
    "blind": "Labels do not depend on the counts.",
    "fair": "Parts 1 to 3: each label is $+1$ with probability $\\frac12$.",
    "independent": "Parts 1 to 3: labels are independent of one another.",
}
SEEDS = range(6)
# float64 against fractions: sums of ten squares, a division and a root.
ROUNDING = 1e-13


def drawn(seed):
    """Eight or nine sequences of 1 to 6 tokens, repeats likely; the last token is in none."""
    rng = np.random.default_rng(seed)
    n, n_tokens = 8 + seed % 2, int(rng.integers(2, 6))
    return [rng.integers(n_tokens, size=rng.integers(1, 7)).tolist() for _ in range(n)], n_tokens + 1


def shares(sequences, token):
    return [Fraction(Counter(x)[token], len(x)) for x in sequences]


def alpha(phi, labels):
    return sum(y * x for x, y in zip(phi, labels, strict=True)) / Fraction(len(phi))


def delta(phi, labels):
    held = [y for x, y in zip(phi, labels, strict=True) if x]
    return Fraction(sum(held), len(held))


def moments(numbers):
    mean = sum(numbers) / Fraction(len(numbers))
    return mean, sum((x - mean) ** 2 for x in numbers) / len(numbers)


def coin_flips(n):
    return list(product((-1, 1), repeat=n))


@pytest.mark.parametrize("seed", SEEDS)
def test_mean_and_variance_under_coin_flips(seed, evidence):
    """Part 1, over all labellings; and the package's closed form."""
    sequences, n_tokens = drawn(seed)
    n, labellings = len(sequences), coin_flips(len(sequences))
    corpus = ts.Corpus.from_sequences(sequences, [1] * n, n_tokens=n_tokens)
    closed = theory.coin_flip_deviation(corpus.frequencies)
    for s in range(n_tokens):
        phi = shares(sequences, s)
        mean, variance = moments([alpha(phi, labels) for labels in labellings])
        assert mean == 0
        assert variance == sum(x * x for x in phi) / Fraction(n**2)
        assert closed[s] == pytest.approx(sqrt(variance), rel=ROUNDING)
        held = [x for x in phi if x]
        if not held:
            continue
        nu, spread = sum(phi) / n, moments(held)[1] / moments(held)[0] ** 2
        assert variance == nu**2 / len(held) * (1 + spread)  # spread is chi squared
        assert moments([delta(phi, labels) for labels in labellings]) == (0, Fraction(1, len(held)))
        evidence.limit(closed[s], sqrt(variance))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_law_of_the_posterior_difference(seed, evidence):
    """Part 2 over all labellings, and how many tokens look complete, though they share sequences."""
    sequences, n_tokens = drawn(seed)
    labellings = coin_flips(len(sequences))
    complete, expected = Fraction(0), Fraction(0)
    for s in range(n_tokens):
        phi = shares(sequences, s)
        n_s = sum(x > 0 for x in phi)
        if not n_s:
            continue
        seen = Counter(delta(phi, labels) for labels in labellings)
        law = theory.coin_flip_difference(n_s)
        for k, (value, probability) in enumerate(zip(*law, strict=True)):
            exact = Fraction(2 * k, n_s) - 1
            assert Fraction(seen[exact], len(labellings)) == Fraction(comb(n_s, k), 2**n_s)
            assert value == float(exact)
            evidence.limit(probability, seen[exact] / len(labellings))
        assert Fraction(seen[Fraction(1)], len(labellings)) == Fraction(1, 2**n_s)
        expected += Fraction(2, 2**n_s)
        complete += Fraction(seen[Fraction(1)] + seen[Fraction(-1)], len(labellings))
    assert complete == expected


def test_the_package_agrees_under_every_labelling():
    sequences, n_tokens = drawn(0)
    for labels in coin_flips(len(sequences)):
        corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=n_tokens)
        for s in range(n_tokens - 1):
            phi = shares(sequences, s)
            assert corpus.average_signed_frequency[s] == pytest.approx(
                float(alpha(phi, labels)), abs=ROUNDING
            )
            assert corpus.posterior_difference[s] == float(delta(phi, labels))


@pytest.mark.parametrize("seed", SEEDS)
def test_tails(seed, evidence):
    """Part 3: one token at a time, and all tokens at once."""
    sequences, n_tokens = drawn(seed)
    labellings = coin_flips(len(sequences))
    sizes = []  # (labellings, tokens): |alpha| and |Delta| in standard deviations
    for s in range(n_tokens):
        phi = shares(sequences, s)
        n_s = sum(x > 0 for x in phi)
        if not n_s:
            continue
        deviation = sqrt(sum(x * x for x in phi)) / len(phi)
        sizes.append([abs(alpha(phi, labels)) / deviation for labels in labellings])
        sizes.append([abs(delta(phi, labels)) * sqrt(n_s) for labels in labellings])
    sizes = np.array(sizes)
    for c in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        for one in sizes:
            evidence.bound(np.mean(one >= c * (1 - 1e-12)), min(1.0, 2 * exp(-(c**2) / 2)))
    for failure in (0.5, 0.1, 0.01):
        allowed = sqrt(2 * log(2 * n_tokens / failure))
        for statistic in (sizes[::2], sizes[1::2]):
            evidence.bound(np.mean(statistic.max(axis=0) > allowed), failure)


@pytest.mark.parametrize("n_positive", [1, 3, 4, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_shuffled_labels(seed, n_positive, evidence):
    """Part 4, over every order of the labels."""
    sequences, n_tokens = drawn(seed)
    n = len(sequences)
    labellings = [
        tuple(1 if i in chosen else -1 for i in range(n)) for chosen in combinations(range(n), n_positive)
    ]
    balance = Fraction(2 * n_positive - n, n)
    corpus = ts.Corpus.from_sequences(sequences, labellings[0], n_tokens=n_tokens)
    closed = theory.shuffled_deviation(corpus.frequencies, corpus.labels)
    for s in range(n_tokens):
        phi = shares(sequences, s)
        nu = sum(phi) / n
        mean, variance = moments([alpha(phi, labels) for labels in labellings])
        assert mean == balance * nu
        assert variance == (1 - balance**2) * sum((x - nu) ** 2 for x in phi) / Fraction(n * (n - 1))
        evidence.limit(closed[s], sqrt(variance)) if variance else evidence.holds(1)
        # A variance of 0 comes out as the square of a rounding.
        assert closed[s] == pytest.approx(sqrt(variance), rel=ROUNDING, abs=1e-16)
        n_s = sum(x > 0 for x in phi)
        if n_s:
            differences = [delta(phi, labels) for labels in labellings]
            assert moments(differences) == (balance, (1 - balance**2) / n_s * Fraction(n - n_s, n - 1))
            share = Fraction(sum(x == 1 for x in differences), len(differences))
            assert share == prod((Fraction(n_positive - k, n - k) for k in range(n_s)), start=Fraction(1))
            assert share <= Fraction(n_positive, n) ** n_s


@pytest.mark.drops("blind")
def test_labels_that_are_read_off_the_tokens_leave_no_chance():
    """Fair and independent coin flips, but each decides a token of its sequence: |Delta| is 1 for sure."""
    differences = []
    for labels in coin_flips(6):
        sequences = [[0 if y > 0 else 1, 2] for y in labels]
        corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=3)
        differences += [corpus.posterior_difference[s] for s in (0, 1) if corpus.document_frequency[s]]
    assert set(differences) == {-1.0, 1.0}


@pytest.mark.drops("fair")
def test_a_larger_class_has_every_token_on_its_side():
    """With three positive labels in four, alpha has the mean nu/2, however many sequences there are."""
    sequences, _ = drawn(0)
    phi = shares(sequences, 0)
    weights = [
        (prod(Fraction(3 if y > 0 else 1, 4) for y in labels), labels) for labels in coin_flips(len(phi))
    ]
    assert sum(w * alpha(phi, labels) for w, labels in weights) == sum(phi) / len(phi) / 2 != 0
    n_s = sum(x > 0 for x in phi)
    positive = sum(w for w, labels in weights if delta(phi, labels) == 1)
    assert positive == Fraction(3, 4) ** n_s > Fraction(1, 2) ** n_s


@pytest.mark.drops("independent")
def test_mirrored_sequences_have_no_noise():
    """Each label is fair and blind, but the second of each pair is the opposite of the first: alpha is 0."""
    for seed in SEEDS:
        sequences, n_tokens = drawn(seed)
        half = sequences[:5]
        for labels in coin_flips(5):
            corpus = ts.Corpus.from_sequences(
                half + half, [*labels, *(-y for y in labels)], n_tokens=n_tokens
            )
            held = corpus.document_frequency > 0
            assert np.abs(corpus.average_signed_frequency).max() < ROUNDING
            assert (theory.coin_flip_deviation(corpus.frequencies)[held] > 0.01).all()
            assert (corpus.posterior_difference[held] == 0).all()


@pytest.mark.drops("independent")
def test_shuffling_leaves_a_token_of_every_sequence_balanced():
    """Fair, not independent: half of the labels are positive, so Delta = 0 for a token of all sequences."""
    n = 6
    for chosen in combinations(range(n), n // 2):
        labels = [1 if i in chosen else -1 for i in range(n)]
        corpus = ts.Corpus.from_sequences([[0]] * n, labels)
        assert corpus.posterior_difference[0] == 0
        assert corpus.average_signed_frequency[0] == 0
