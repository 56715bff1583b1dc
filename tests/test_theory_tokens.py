"""What chance makes of the token statistics: closed forms against every labelling, one by one."""

from fractions import Fraction
from itertools import permutations, product
from math import sqrt

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import binom

from tokensel import theory

# Lengths differ, tokens repeat; the last token stands nowhere.
COUNTS = [[2, 1, 0, 0], [0, 3, 1, 0], [1, 0, 0, 0], [1, 1, 4, 0], [0, 1, 1, 0]]
PHI = [[Fraction(c, sum(row)) for c in row] for row in COUNTS]
FREQUENCIES = np.array([[float(x) for x in row] for row in PHI])
# A sum of five squares, a division and a root: a few roundings.
TOLERANCE = 1e-14


def deviation(labellings, token):
    """Standard deviation of alpha over equally likely labellings."""
    alphas = [sum(y * row[token] for y, row in zip(ys, PHI, strict=True)) / len(PHI) for ys in labellings]
    mean = sum(alphas) / len(alphas)
    return sqrt(sum((a - mean) ** 2 for a in alphas) / len(alphas))


@pytest.mark.parametrize("kind", [np.asarray, csr_array, lambda x: x.tolist()])
def test_coin_flip_deviation_over_every_labelling(kind):
    expected = [deviation(list(product((-1, 1), repeat=5)), s) for s in range(4)]
    computed = theory.coin_flip_deviation(kind(FREQUENCIES))
    np.testing.assert_allclose(computed, expected, rtol=TOLERANCE)
    assert computed[3] == 0


@pytest.mark.parametrize("labels", [(1, 1, -1, -1, -1), (1, -1, -1, -1, -1), (1, 1, 1, 1, 1)])
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_shuffled_deviation_over_every_order(kind, labels):
    expected = [deviation(list(permutations(labels)), s) for s in range(4)]
    computed = theory.shuffled_deviation(kind(FREQUENCIES), labels)
    np.testing.assert_allclose(computed, expected, rtol=TOLERANCE)


def test_a_token_of_one_frequency_everywhere_has_no_noise_when_labels_are_shuffled():
    frequencies = np.full((4, 2), 0.5)
    assert theory.shuffled_deviation(frequencies, [1, 1, -1, -1]).tolist() == [0.0, 0.0]
    assert theory.coin_flip_deviation(frequencies).tolist() == [0.25, 0.25]


@pytest.mark.parametrize("document_frequency", [1, 2, 7, 40, 1000])
def test_coin_flip_difference_is_binomial(document_frequency):
    law = theory.coin_flip_difference(document_frequency)
    positive = np.arange(document_frequency + 1)
    # SciPy evaluates the law through logarithms of gamma functions, good to some 1e-12 at 1000.
    np.testing.assert_allclose(
        law.probabilities, binom.pmf(positive, document_frequency, 0.5), rtol=1e-10, atol=0
    )
    assert law.differences[0] == -1
    assert law.differences[-1] == 1
    # Sums of at most 1001 numbers whose magnitudes add up to at most one.
    assert law.probabilities.sum() == pytest.approx(1, rel=1e-13)
    assert law.probabilities @ law.differences**2 == pytest.approx(1 / document_frequency, rel=1e-12)
    assert law.probabilities[-1] == 2.0**-document_frequency


def test_bad_input():
    with pytest.raises(TypeError, match="document_frequency"):
        theory.coin_flip_difference(2.5)
    with pytest.raises(ValueError, match="document_frequency"):
        theory.coin_flip_difference(0)
    with pytest.raises(ValueError, match="at most 1000, got 1001"):
        theory.coin_flip_difference(1001)
    with pytest.raises(ValueError, match=r"rows? must sum to 1"):
        theory.coin_flip_deviation(COUNTS)
    with pytest.raises(ValueError, match="labels must be 5"):
        theory.shuffled_deviation(FREQUENCIES, [1, -1])
    with pytest.raises(ValueError, match="two sequences at least"):
        theory.shuffled_deviation([[1.0]], [1])


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_frequency_spread_is_deviation_over_mean_of_the_sequences_that_hold_it(kind):
    computed = theory.frequency_spread(kind(FREQUENCIES))
    for s in range(3):
        held = [row[s] for row in PHI if row[s]]
        mean = sum(held) / len(held)
        variance = sum((x - mean) ** 2 for x in held) / len(held)
        assert computed[s] == pytest.approx(sqrt(variance) / mean, rel=TOLERANCE)
    assert np.isnan(computed[3])


def test_a_token_of_one_frequency_has_no_spread_and_a_stored_zero_is_no_occurrence():
    third = csr_array(
        ([1 / 3, 2 / 3, 1 / 3, 2 / 3, 0.0, 1.0], [0, 1, 0, 1, 0, 1], [0, 2, 4, 6]), shape=(3, 2)
    )
    assert theory.frequency_spread(third)[0] == 0.0
