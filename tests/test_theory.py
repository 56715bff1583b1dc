"""Closed forms against mpmath's 50 digits, and what they say about wrong arguments."""

import sys

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tokensel import arguments, theory

mpmath.mp.dps = 50


def _bound_in_digits(step_size, frequency, epsilon, output_norm, cls_norm):
    eta, nu, e, v, p = (mpmath.mpf(x) for x in (step_size, frequency, epsilon, output_norm, cls_norm))
    first = (mpmath.exp(2 * e) - 1) / 2 + e / 4 * mpmath.exp(2 * e)
    second = mpmath.exp(2 * e) * (mpmath.mpf(1) / 2 + e / 4) * 2 * e
    return float(eta * nu * (v * first + p * second))


@pytest.mark.parametrize("epsilon", [0.0, 1e-17, 1e-9, 0.03, 1.0, 40.0, 300.0])
@pytest.mark.parametrize(("output_norm", "cls_norm"), [(1.0, 1.0), (200.0, 0.3), (0.0, 2.0), (0.5, 0.0)])
def test_one_step_bound_keeps_its_digits(epsilon, output_norm, cls_norm):
    computed = theory.one_step_bound(7.0, 0.3, epsilon, output_norm=output_norm, cls_norm=cls_norm)
    expected = _bound_in_digits(7.0, 0.3, epsilon, output_norm, cls_norm)
    # exp(2 epsilon) has relative error 2 epsilon times that of its argument.
    assert computed == pytest.approx(expected, rel=1e-15 * (8 + 4 * epsilon), abs=0)
    assert isinstance(computed, float)


def test_one_step_bound_takes_one_token_or_all():
    frequencies = np.array([0.0, 0.25, 1.0])
    bound = theory.one_step_bound(2.0, frequencies, 0.1, cls_norm=1.5)
    assert bound.shape == (3,)
    assert bound[0] == 0
    assert bound[1] == theory.one_step_bound(2.0, 0.25, 0.1, cls_norm=1.5) == bound[2] / 4


def test_one_step_bound_is_infinite_rather_than_wrong():
    bound = theory.one_step_bound(1.0, [0.0, 0.5], 1e4, output_norm=0.0, cls_norm=1.0)
    assert bound.tolist() == [0.0, np.inf]
    assert theory.one_step_bound(0.0, [0.5], 1e4, cls_norm=1.0).tolist() == [0.0]


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"step_size": -1.0}, ValueError, "step_size must be at least 0, got -1"),
        ({"step_size": "1"}, TypeError, "step_size must be a number, got '1'"),
        ({"epsilon": np.nan}, ValueError, "epsilon must be finite, got nan"),
        ({"epsilon": True}, TypeError, "epsilon must be a number, got True"),
        ({"output_norm": -0.1}, ValueError, "output_norm must be at least 0, got -0.1"),
        ({"cls_norm": np.inf}, ValueError, "cls_norm must be finite, got inf"),
        ({"average_frequency": [0.2, 1.5]}, ValueError, "average_frequency must be from 0 to 1, .* got 1.5"),
        ({"average_frequency": [np.nan]}, ValueError, "average_frequency must be from 0 to 1, .* got nan"),
    ],
)
def test_one_step_bound_says_what_is_wrong(changed, error, words):
    arguments = {"step_size": 1.0, "average_frequency": [0.5], "epsilon": 0.1, "cls_norm": 1.0} | changed
    with pytest.raises(error, match=words):
        theory.one_step_bound(**arguments)


@pytest.mark.parametrize(("cls_norm", "output_norm"), [(1.0, 1.0), (3.0, 1.0), (0.2, 5.0)])
def test_one_step_epsilon(cls_norm, output_norm):
    computed = theory.one_step_epsilon(
        n_tokens=30, dim=64, confidence=0.99, cls_norm=cls_norm, output_norm=output_norm
    )
    expected = max(cls_norm, output_norm) * mpmath.sqrt(2 * mpmath.log(4 * 30 / mpmath.mpf("0.01")) / 64)
    assert computed == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"n_tokens": 0}, ValueError, "n_tokens must be at least 1, got 0"),
        ({"dim": 2.0}, TypeError, "dim must be a whole number, got 2.0"),
        ({"confidence": 1.0}, ValueError, "confidence must lie strictly between 0 and 1, got 1.0"),
        ({"confidence": 0}, ValueError, "confidence must lie strictly between 0 and 1, got 0"),
        ({"confidence": 95}, ValueError, "confidence must lie strictly between 0 and 1, got 95"),
        ({"cls_norm": -1.0}, ValueError, "cls_norm must be at least 0, got -1"),
    ],
)
def test_one_step_epsilon_says_what_is_wrong(changed, error, words):
    with pytest.raises(error, match=words):
        theory.one_step_epsilon(**({"n_tokens": 5, "dim": 8, "confidence": 0.9, "cls_norm": 1.0} | changed))


def _loops(frequencies, labels, scores, values):
    """The first order, written out with sums over sequences and tokens."""
    n, n_tokens = frequencies.shape
    along_output, along_cls = np.zeros(n_tokens), np.zeros(n_tokens)
    for s in range(n_tokens):
        for i in range(n):
            mean_score = sum(frequencies[i, r] * scores[r] for r in range(n_tokens))
            mean_value = sum(frequencies[i, r] * values[r] for r in range(n_tokens))
            signed = labels[i] * frequencies[i, s] / (2 * n)
            along_output[s] += signed * (1 + scores[s] - mean_score)
            along_output[s] -= frequencies[i, s] * mean_value / (4 * n)
            along_cls[s] += signed * (values[s] - mean_value)
    return along_output, along_cls


def _frequencies(seed, n=6, n_tokens=4):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 3, (n, n_tokens)) + np.eye(n, n_tokens)
    return counts / counts.sum(1, keepdims=True), np.where(rng.random(n) < 0.5, 1, -1), rng


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, np.ndarray.tolist])
def test_one_step_first_order_is_its_double_sum(kind):
    frequencies, labels, rng = _frequencies(0)
    scores, values = rng.standard_normal((2, 4))
    rows = theory.one_step_first_order(kind(frequencies), labels, scores, values)
    np.testing.assert_allclose(rows, _loops(frequencies, labels, scores, values), atol=1e-15)


def test_one_step_first_order_takes_many_starts_at_once():
    frequencies, labels, rng = _frequencies(1)
    scores, values = rng.standard_normal((2, 4, 3))
    rows = theory.one_step_first_order(frequencies, labels, scores, values)
    for k in range(3):
        one = theory.one_step_first_order(frequencies, labels, scores[:, k], values[:, k])
        np.testing.assert_allclose([rows.along_output[:, k], rows.along_cls[:, k]], one, atol=1e-15)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_one_step_noise_is_its_formula(kind):
    frequencies, labels, _ = _frequencies(2)
    together = sum(np.outer(row, row) for row in frequencies) / 6
    signed = sum(y * np.outer(row, row) for y, row in zip(labels, frequencies, strict=True)) / 6
    alpha = sum(y * row for y, row in zip(labels, frequencies, strict=True)) / 6
    attention, logits = ((np.diag(alpha) - signed) ** 2).sum(1), (together**2).sum(1)
    expected = 3.0 / np.sqrt(100) * np.sqrt(2.0**2 / 2 * attention + 3.0**2 / 16 * logits)
    noise = theory.one_step_noise(kind(frequencies), labels, dim=100, cls_norm=2.0, output_norm=3.0)
    np.testing.assert_allclose(noise, expected, rtol=1e-13)


def test_one_step_sign_probability_is_its_formula():
    frequencies, labels, _ = _frequencies(2)
    eta, d, p, v = 11.0, 100, 2.0, 3.0
    expected = []
    for s in range(4):
        alpha = mpmath.mpf(float(labels @ frequencies[:, s])) / 6
        start = noise = mpmath.mpf(0)
        for r in range(4):
            together = float(frequencies[:, s] @ frequencies[:, r]) / 6
            signed = float((labels * frequencies[:, s]) @ ((r == s) - frequencies[:, r])) / 6
            start += ((r == s) - eta / 4 * v**2 * together) ** 2
            noise += eta**2 / 4 * v**2 * p**2 * signed**2
        deviation = mpmath.sqrt(v**2 / mpmath.mpf(d) * (start + noise))
        expected.append(float(mpmath.ncdf(eta / 2 * v**2 * abs(alpha) / deviation)))
    computed = theory.one_step_sign_probability(frequencies, labels, eta, d, cls_norm=p, output_norm=v)
    np.testing.assert_allclose(computed, expected, rtol=1e-12)


def test_one_step_sign_probability_at_its_ends():
    frequencies, labels, _ = _frequencies(0)
    assert theory.one_step_sign_probability(frequencies, labels, 0.0, 10).tolist() == [0.5] * 4
    # Two tokens, one in each class: at step 8 the push of the logit cancels the start, and no noise is left.
    assert theory.one_step_sign_probability(np.eye(2), [1, -1], 8.0, 10).tolist() == [1.0, 1.0]
    assert theory.one_step_sign_probability(np.ones((2, 1)), [1, -1], 4.0, 10).tolist() == [0.5]
    with pytest.raises(ValueError, match="output_norm must be positive"):
        theory.one_step_sign_probability(frequencies, labels, 1.0, 10, output_norm=0.0)


@pytest.mark.parametrize("function", ["first_order", "noise", "sign_probability"])
def test_labels_and_frequencies_must_fit(function):
    def call(frequencies, labels):
        if function == "noise":
            return theory.one_step_noise(frequencies, labels, dim=4)
        if function == "sign_probability":
            return theory.one_step_sign_probability(frequencies, labels, 1.0, dim=4)
        return theory.one_step_first_order(frequencies, labels, [0.0] * 4, [0.0] * 4)

    frequencies, labels, _ = _frequencies(0)
    with pytest.raises(ValueError, match="labels must be 6 numbers \\+1 or -1"):
        call(frequencies, labels[:5])
    with pytest.raises(ValueError, match="labels must be 6 numbers \\+1 or -1"):
        call(frequencies, (labels + 1) // 2)
    for wrong in (3 * frequencies, frequencies[:, :2], -frequencies, np.nan * frequencies):
        with pytest.raises(ValueError, match="frequencies must not be negative, and each row must sum to 1"):
            call(wrong, labels)
        with pytest.raises(ValueError, match="frequencies must not be negative, and each row must sum to 1"):
            call(sp.csr_array(wrong), labels)
    with pytest.raises(
        ValueError, match="frequencies must have shape \\(n, S\\), none of them 0; got \\(4,\\)"
    ):
        call(frequencies[0], labels)


def test_scores_and_values_must_fit():
    frequencies, labels, _ = _frequencies(0)
    with pytest.raises(ValueError, match=r"shape \(4,\) or \(4, k\), got \(3,\) and \(4,\)"):
        theory.one_step_first_order(frequencies, labels, [0.0] * 3, [0.0] * 4)


def test_numbers_may_be_tensors_that_training_follows():
    frequency = torch.tensor([0.25, 0.5], dtype=torch.float64, requires_grad=True)
    bound = theory.one_step_bound(7.0, frequency, 0.1, cls_norm=1.0)
    assert bound.tolist() == [theory.one_step_bound(7.0, x, 0.1, cls_norm=1.0) for x in (0.25, 0.5)]
    frequencies, labels, _ = _frequencies(0)
    with pytest.raises(ValueError, match="scores and values must be finite"):
        theory.one_step_first_order(frequencies, labels, [np.nan] * 4, [0.0] * 4)


@pytest.mark.parametrize(
    "module", ["theory", "theory_one_step", "theory_selection", "theory_time", "theory_course"]
)
def test_theory_needs_numpy_only(module):
    """At import: quadrature and solvers come inside the functions that need them."""
    with open(arguments.__file__.replace("arguments", module)) as source:
        imported = {line.split()[1] for line in source if line.startswith(("import ", "from "))}
    theories = {name for name in imported if name.startswith("tokensel.theory_")}
    assert imported - theories <= sys.stdlib_module_names | {"numpy", "tokensel.arguments"}
