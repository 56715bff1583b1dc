"""The parabola of the first push and the rank of a step, against enumeration and singular values."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tokensel import theory


def enumerated_push(leanings, length):
    """First-order push for b = alpha, exact: the mean over every sequence that the graded law can draw."""
    S = len(leanings)
    drawn = []  # (probability, label, frequency of each token)
    for label in (1, -1):
        for places in product(range(S), repeat=length):
            chance = Fraction(1, 2)
            for s in places:
                chance *= (1 + label * leanings[s]) / S
            drawn.append((chance, label, [Fraction(places.count(s), length) for s in range(S)]))
    alpha = [sum(w * y * phi[s] for w, y, phi in drawn) for s in range(S)]
    logits = [sum(f * a for f, a in zip(phi, alpha, strict=True)) for _, _, phi in drawn]
    return [
        sum(w * y * phi[s] * (alpha[s] - f) for (w, y, phi), f in zip(drawn, logits, strict=True)) / 2
        for s in range(S)
    ]


@pytest.mark.parametrize(
    ("leanings", "length"),
    [
        ([-1, 0, 1], 2),
        ([-1, Fraction(1, 4), Fraction(3, 4)], 3),
        ([0, 0], 4),
        ([Fraction(1, 2), Fraction(-1, 2)], 1),
    ],
)
def test_the_parabola_over_every_sequence(leanings, length):
    leanings = [Fraction(x) for x in leanings]
    expected = [float(x) for x in enumerated_push(leanings, length)]
    computed = theory.graded_push([float(x) for x in leanings], length, scale=1.0)
    np.testing.assert_allclose(computed, expected, rtol=1e-14, atol=1e-16)  # a few roundings


def test_the_parabola_is_linear_in_the_scale_and_drawn_where_one_likes():
    leanings = np.linspace(-1, 1, 5)
    at = np.array([[0.5], [-0.5]])
    drawn = theory.graded_push(leanings, 8, scale=3.0, at=at)
    assert drawn.shape == (2, 1)
    np.testing.assert_allclose(drawn.ravel(), 3 * theory.graded_push(leanings, 8)[[3, 1]], rtol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_the_second_singular_value_stays_below_its_bound(seed):
    rng = np.random.default_rng(seed)
    forces, on_values = rng.normal(size=(2, 7))
    cls, output = rng.normal(size=(2, 4)) * [[1], [10.0 ** rng.integers(-3, 3)]]
    step = 0.7 * (np.outer(on_values, output) + np.outer(forces, cls))
    bound = theory.second_singular_value_bound(0.7, forces, cls, output)
    assert np.linalg.svd(step, compute_uv=False)[1] <= bound * (1 + 1e-12)  # rounding of the SVD
    # With no part along v but that of p_0 itself, the step is the outer product of the bound.
    across = cls - (cls @ output) / (output @ output) * output
    np.testing.assert_allclose(np.linalg.norm(0.7 * np.outer(forces, across), 2), bound, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: theory.graded_push([-1, 2], 3), ValueError, "leanings must be"),
        (lambda: theory.graded_push([], 3), ValueError, "leanings must be"),
        (lambda: theory.graded_push([np.nan, 0], 3), ValueError, "leanings must be"),
        (lambda: theory.graded_push([0.5, 0.5], 3), ValueError, "add up to 0"),
        (lambda: theory.graded_push([-1, 1], 0), ValueError, "length"),
        (lambda: theory.graded_push([-1, 1], 2, scale=-1), ValueError, "scale"),
        (lambda: theory.graded_push([-1, 1], 2, at=[0, np.nan]), ValueError, "at must be finite"),
        (lambda: theory.second_singular_value_bound(1, np.eye(2), [1], [1]), ValueError, "forces must hold"),
        (lambda: theory.second_singular_value_bound(-1, [1], [1], [1]), ValueError, "step_size"),
        (lambda: theory.second_singular_value_bound(1, [1], [1, 2], [1]), ValueError, "one length"),
        (lambda: theory.second_singular_value_bound(1, [1], [1, 2], [0, 0]), ValueError, "zero"),
        (
            lambda: theory.second_singular_value_bound(1, [np.inf], [1], [1]),
            ValueError,
            "forces must be finite",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
