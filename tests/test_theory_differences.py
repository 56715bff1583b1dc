"""Counted posterior differences: closed forms against every labelling, and against draws of known truth."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tokensel import theory


def largest_of_every_labelling(m, n_s):
    """The mean of max |Delta| over all fair labellings of m tokens in n_s sequences each, as a fraction."""
    sizes = [abs(Fraction(sum(signs), n_s)) for signs in itertools.product((-1, 1), repeat=n_s)]
    largest = [max(some) for some in itertools.product(sizes, repeat=m)]
    return sum(largest) / len(largest)


@pytest.mark.parametrize(
    ("m", "n_s"), [(1, 1), (1, 2), (1, 7), (2, 1), (2, 2), (2, 3), (2, 6), (3, 3), (3, 4), (4, 3)]
)
def test_the_largest_by_chance_over_every_labelling(m, n_s):
    expected = float(largest_of_every_labelling(m, n_s))
    # A handful of sums and products of numbers of size one, and a logarithm with its inverse.
    assert theory.largest_by_chance(m, n_s) == pytest.approx(expected, rel=1e-13)


@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 30_000))
def test_the_largest_by_chance_is_below_its_bound_and_grows_with_the_tokens(m, n_s):
    found = theory.largest_by_chance(m, n_s)
    assert 0 < found <= min(1, np.sqrt(2 * np.log(2 * m) / n_s)) * (1 + 1e-12)
    assert theory.largest_by_chance(m + 1, n_s) >= found * (1 - 1e-12)


def test_the_mean_of_one_is_that_of_a_normal_variable_in_the_end():
    """By the central limit theorem; the next term of Stirling's formula is 1 / (4 n)."""
    n_s = 10_000
    assert theory.largest_by_chance(1, n_s) == pytest.approx(np.sqrt(2 / np.pi / n_s), rel=1 / n_s)


@pytest.mark.parametrize("n_s", [2, 3, 6])
@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 5), Fraction(1)])
def test_the_noise_is_estimated_without_bias(n_s, share):
    """Its mean over all labellings, each with its probability, is the variance of a mean of n_s signs."""
    delta, total = 2 * share - 1, 0.0
    for signs in itertools.product((1, -1), repeat=n_s):
        positive = signs.count(1)
        probability = share**positive * (1 - share) ** (n_s - positive)
        total += float(probability) * theory.difference_noise([sum(signs) / n_s], [n_s])[0]
    # 64 terms at most, of size one at most.
    assert total == pytest.approx(float((1 - delta**2) / n_s), abs=64 * np.finfo(float).eps)


def test_the_share_kept_is_the_slope_on_fresh_sequences():
    """Draws with known truth: the fitted slope and the share both scatter by about 1 / sqrt(tokens)."""
    rng, m, n_s = np.random.default_rng(0), 40_000, 12
    share = rng.beta(4, 4, m)
    first, second = (2 * rng.binomial(n_s, share) / n_s - 1 for _ in range(2))
    slope = np.polyfit(first, second, 1)[0]
    kept = theory.share_kept(first, np.full(m, n_s))
    true = np.var(2 * share - 1) / (np.var(2 * share - 1) + np.mean(4 * share * (1 - share)) / n_s)
    for measured in (slope, kept):
        assert abs(measured - true) < 5 / np.sqrt(m)


def test_nothing_is_kept_of_coin_flips():
    rng, m = np.random.default_rng(1), 20_000
    n_s = rng.integers(2, 30, m)
    counted = 2 * rng.binomial(n_s, 0.5) / n_s - 1
    assert abs(theory.share_kept(counted, n_s)) < 5 / np.sqrt(m)


@pytest.mark.parametrize(
    ("differences", "n_s", "message"),
    [
        ([0.5], [1], "document_frequency must be 2 at least, got 1"),
        ([0.5, np.nan], [3, 3], "posterior_difference must hold numbers from -1 to 1"),
        ([1.5], [3], "from -1 to 1"),
        ([0.5], [3, 3], r"got shapes \(1,\) and \(2,\)"),
        ([], [], "one number a token"),
        ([[0.5]], [[3]], "one number a token"),
    ],
)
def test_bad_differences(differences, n_s, message):
    for function in (theory.difference_noise, theory.share_kept):
        with pytest.raises(ValueError, match=message):
            function(differences, n_s)


def test_bad_sizes():
    with pytest.raises(ValueError, match="posterior_difference must hold numbers that differ"):
        theory.share_kept([0.5, 0.5], [3, 4])
    with pytest.raises(ValueError, match="n_tokens"):
        theory.largest_by_chance(0, 5)
    with pytest.raises(TypeError, match="document_frequency"):
        theory.largest_by_chance(5, 2.5)


def test_equal_differences_are_refused_though_their_mean_rounds():
    assert np.var([0.1] * 3) > 0
    with pytest.raises(ValueError, match="posterior_difference must hold numbers that differ"):
        theory.share_kept([0.1] * 3, [4] * 3)


def test_tensors_are_numbers():
    differences = torch.tensor([0.5, -0.5, 0.5, -0.5], requires_grad=True)
    assert theory.share_kept(differences, torch.full((4,), 16)) == 0.8
