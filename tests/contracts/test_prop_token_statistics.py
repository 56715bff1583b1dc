"""Proposition prop-token-statistics: how the statistics of a token bound, average and contradict each other.

The oracle reads the sequences one by one, token by token, in fractions; it shares no code with `Corpus`.
"""

from collections import Counter
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

import tokensel as ts

ORIGIN = "tool"
ORIGIN = "tool"
SETTING = (
    "Any corpus: lengths $T_i$ may differ, tokens may repeat, the classes need not balance and one may be "
    "empty."
)
HYPOTHESES = {
    "occurs": "The token stands in some sequence, $n_s\\ge1$ (all but the sums over the vocabulary).",
    "steady": "For the sign: the frequency varies little enough, $\\chi_s\\sqrt{1-\\Delta_s^2}<|\\Delta_s|$.",
}
SEEDS = range(60)
# alpha, nu and Delta are sums of a few dozen float64 numbers of at most 1, compared with fractions.
ROUNDING = 1e-13


def drawn(seed):
    """Sequences of 1 to 15 tokens with repeats, labels of any balance, at times one class; a token absent."""
    rng = np.random.default_rng(seed)
    n_tokens, n = int(rng.integers(2, 15)), int(rng.integers(1, 30))
    sequences = [rng.integers(n_tokens, size=rng.integers(1, 13)).tolist() for _ in range(n)]
    labels = np.where(
        rng.random(n) < rng.choice([0.0, 0.2, 0.5, 1.0], p=[0.1, 0.4, 0.4, 0.1]), 1, -1
    ).tolist()
    if seed % 3 == 0:  # a token of each complete kind, and one that fills the same share of its sequences
        sequences = [
            x + [n_tokens + (y < 0)] * (i % 3 + 1)
            for i, (x, y) in enumerate(zip(sequences, labels, strict=True))
        ]
        n_tokens += 2
    return sequences, labels, n_tokens + 1


class Statistics:
    """The statistics of one token, exactly, from the definition."""

    def __init__(self, sequences, labels, token):
        share = [Fraction(Counter(x)[token], len(x)) for x in sequences]
        self.held = [(phi, y) for phi, y in zip(share, labels, strict=True) if phi > 0]
        self.document_frequency = len(self.held)
        self.alpha = sum(y * phi for phi, y in self.held) / Fraction(len(labels))
        self.nu = sum(phi for phi, _ in self.held) / Fraction(len(labels))
        signs = {y for _, y in self.held}
        self.complete = len(signs) == 1
        if self.held:
            self.delta = Fraction(sum(y for _, y in self.held), len(self.held))
            mean = sum(phi for phi, _ in self.held) / len(self.held)
            self.covariance = sum(phi * y for phi, y in self.held) / len(self.held) - mean * self.delta
            self.mean = mean
            # chi squared: variance over squared mean of the frequency, in the sequences that hold the token
            self.chi2 = sum((phi - mean) ** 2 for phi, _ in self.held) / len(self.held) / mean**2
            self.by_class = len({(phi, y) for phi, y in self.held}) == len(signs)


def kind(token):
    if not token.held:
        return "absent"
    if token.complete:
        return "completely positive" if token.held[0][1] > 0 else "completely negative"
    return "positive" if token.alpha > 0 else "negative" if token.alpha < 0 else "irrelevant"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_package_counts_what_the_definitions_say(seed):
    sequences, labels, n_tokens = drawn(seed)
    corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=n_tokens)
    for s in range(n_tokens):
        exact = Statistics(sequences, labels, s)
        assert corpus.average_signed_frequency[s] == pytest.approx(float(exact.alpha), abs=ROUNDING)
        assert np.sign(corpus.average_signed_frequency[s]) == np.sign(exact.alpha)
        assert corpus.average_frequency[s] == pytest.approx(float(exact.nu), abs=ROUNDING)
        assert corpus.document_frequency[s] == exact.document_frequency
        assert corpus.token_kinds[s] == kind(exact)
        if exact.held:
            assert corpus.posterior_difference[s] == pytest.approx(float(exact.delta), abs=ROUNDING)
        else:
            assert np.isnan(corpus.posterior_difference[s])


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_over_the_vocabulary(seed, evidence):
    """Part 1, exactly in fractions; the package's sums to rounding."""
    sequences, labels, n_tokens = drawn(seed)
    tokens = [Statistics(sequences, labels, s) for s in range(n_tokens)]
    assert sum(token.nu for token in tokens) == 1
    assert sum(token.alpha for token in tokens) == Fraction(sum(labels), len(labels))
    corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=n_tokens)
    assert abs(corpus.average_frequency.sum() - 1) <= ROUNDING
    assert abs(corpus.average_signed_frequency.sum() - np.mean(labels)) <= ROUNDING
    evidence.holds(1)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_are_attained_by_complete_tokens_only(seed, evidence):
    """Part 2."""
    sequences, labels, n_tokens = drawn(seed)
    for s in range(n_tokens):
        token = Statistics(sequences, labels, s)
        if not token.held:  # the hypothesis "occurs"
            continue
        assert (abs(token.alpha) == token.nu) == token.complete
        assert (abs(token.delta) == 1) == token.complete
        evidence.bound(abs(token.alpha) / token.nu, 1)
        evidence.bound(abs(token.delta), 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_means_of_the_same_labels(seed, evidence):
    """Parts 3 and 4: the difference is a covariance, within its bound, and equality as stated."""
    sequences, labels, n_tokens = drawn(seed)
    for s in range(n_tokens):
        token = Statistics(sequences, labels, s)
        if not token.held:
            continue
        apart = token.alpha / token.nu - token.delta
        assert apart == token.covariance / token.mean
        # Squared, so that fractions decide.
        limit = token.chi2 * (1 - token.delta**2)
        assert apart**2 <= limit
        assert (apart**2 == limit) == (token.complete or token.chi2 == 0 or token.by_class)
        if token.chi2 == 0:
            assert apart == 0
        if limit:
            evidence.bound(abs(apart), sqrt(limit))
        if limit < token.delta**2:  # the hypothesis "steady"
            assert (token.alpha > 0) == (token.delta > 0)
            assert token.alpha != 0
            evidence.holds(1)


def test_the_bound_is_attained_by_a_frequency_that_depends_on_the_class_only(evidence):
    """Twice as frequent in each of its three negative sequences as in its two positive ones."""
    sequences = [[0, 1, 1, 1]] * 2 + [[0, 0, 1, 1]] * 3
    token = Statistics(sequences, [1, 1, -1, -1, -1], 0)
    apart = token.alpha / token.nu - token.delta
    assert apart**2 == token.chi2 * (1 - token.delta**2) != 0
    evidence.bound(abs(apart), sqrt(token.chi2 * (1 - token.delta**2)) * (1 + 1e-15))


@pytest.mark.drops("occurs")
def test_an_absent_token_attains_the_bound_and_is_not_complete():
    corpus = ts.Corpus.from_sequences([[0], [0]], [1, -1], n_tokens=2)
    assert abs(corpus.average_signed_frequency[1]) == corpus.average_frequency[1] == 0
    assert np.isnan(corpus.posterior_difference[1])
    assert corpus.token_kinds[1] == "absent"


@pytest.mark.drops("steady")
def test_the_two_statistics_can_have_opposite_signs():
    """A positive sequence that is nothing but the token, three negative ones that hold it once in ten."""
    sequences, labels = [[0]] + [[0] + [1] * 9] * 3, [1, -1, -1, -1]
    token = Statistics(sequences, labels, 0)
    assert token.chi2 * (1 - token.delta**2) >= token.delta**2
    assert token.alpha == Fraction(7, 40)
    assert token.delta == Fraction(-1, 2)
    corpus = ts.Corpus.from_sequences(sequences, labels)
    assert corpus.average_signed_frequency[0] > 0 > corpus.posterior_difference[0]


@pytest.mark.drops("steady")
def test_at_the_edge_of_the_condition_alpha_can_vanish():
    """Equality in the condition: twice as frequent in half as many sequences."""
    sequences, labels = [[0, 0, 1, 1], [0, 1, 1, 1], [0, 1, 1, 1]], [1, -1, -1]
    token = Statistics(sequences, labels, 0)
    assert token.chi2 * (1 - token.delta**2) == token.delta**2 != 0
    assert token.alpha == 0
    corpus = ts.Corpus.from_sequences(sequences, labels)
    assert corpus.token_kinds[0] == "irrelevant"
    assert corpus.posterior_difference[0] < 0


def test_a_mean_over_places_is_another_statistic():
    """Pooling all places instead of averaging over sequences lets one long sequence outvote the others."""
    sequences, labels = [[0, 1]] * 3 + [[0] * 10 + [1] * 90], [1, 1, 1, -1]
    pooled = sum(y * x.count(0) for x, y in zip(sequences, labels, strict=True)) / sum(map(len, sequences))
    assert pooled < 0 < Statistics(sequences, labels, 0).alpha
