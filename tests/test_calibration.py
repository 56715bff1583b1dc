"""Log loss, temperature and reliability against scikit-learn, and against draws of known probability."""

import numpy as np
import pytest
import torch
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss as sklearn_log_loss

import tokensel as ts
from tokensel import calibration


def drawn(n, theta=1.0, seed=0):
    """Labels, and logits that are theta times what they should be."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, n)
    labels = np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-logits)), 1, -1)
    return labels, theta * logits


def test_log_loss_is_that_of_scikit_learn():
    labels, logits = drawn(500)
    expected = sklearn_log_loss(labels, 1 / (1 + np.exp(-logits)))
    # A mean of 500 numbers of size one, each good to a few roundings.
    assert calibration.log_loss(labels, logits) == pytest.approx(expected, rel=1e-13)
    assert calibration.log_loss(labels, torch.tensor(logits)) == calibration.log_loss(labels, logits)


def test_log_loss_of_very_sure_logits_neither_overflows_nor_rounds_to_zero():
    assert calibration.log_loss([1], [-1e6]) == 1e6
    assert calibration.log_loss([1], [700.0]) == pytest.approx(np.exp(-700), rel=1e-12)


@pytest.mark.parametrize("theta", [0.3, 1.0, 4.0])
def test_temperature_is_the_inverse_slope_of_a_logistic_regression_without_intercept(theta):
    labels, logits = drawn(2_000, theta)
    fitted = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(logits[:, None], labels)
    # The bounded search stops at 1e-5 in log theta.
    assert calibration.temperature(labels, logits) == pytest.approx(1 / fitted.coef_[0, 0], rel=1e-4)


@pytest.mark.parametrize("theta", [0.25, 1.0, 5.0])
def test_temperature_finds_how_much_too_sure_the_logits_are(theta):
    """Its error is one over the root of the information, about 0.2 a sequence; four of them."""
    n = 20_000
    labels, logits = drawn(n, theta)
    assert abs(np.log(calibration.temperature(labels, logits) / theta)) < 4 / np.sqrt(0.2 * n)


def test_temperature_stays_in_its_interval():
    assert calibration.temperature([1, -1], [5.0, 5.0]) == pytest.approx(np.exp(4), rel=1e-3)
    assert calibration.temperature([1, -1], [1.0, -1.0]) == pytest.approx(np.exp(-4), rel=1e-3)


def test_reliability_is_the_curve_of_scikit_learn_where_groups_divide_evenly():
    labels, logits = drawn(1_200)
    found, told = calibration_curve(labels, 1 / (1 + np.exp(-logits)), n_bins=12, strategy="quantile")
    measured = calibration.reliability(labels, logits)
    np.testing.assert_allclose(measured.found, found, rtol=1e-13)  # means of a hundred numbers
    np.testing.assert_allclose(measured.told, told, rtol=1e-13)
    assert measured.error == pytest.approx(np.mean(abs(found - told)), rel=1e-12)


def test_deviation_is_that_of_a_calibrated_model():
    """Labels drawn 4,000 times: a standard deviation from so many is good to 1 / sqrt(8,000), five times."""
    rng = np.random.default_rng(0)
    _, logits = drawn(60)
    probability = 1 / (1 + np.exp(-logits))
    runs = [
        calibration.reliability(np.where(rng.uniform(size=60) < probability, 1, -1), logits, 4)
        for _ in range(4_000)
    ]
    measured = np.std([run.found for run in runs], axis=0)
    np.testing.assert_allclose(measured, runs[0].deviation, rtol=5 / np.sqrt(8_000))


def test_the_error_by_chance_is_what_a_calibrated_model_has():
    """Groups of 500: the share is normal to a few per mille. 200 draws of 12 groups each, five errors."""
    errors = []
    for seed in range(200):
        measured = calibration.reliability(*drawn(6_000, seed=seed))
        errors.append(measured.error / measured.error_by_chance)
    assert abs(np.mean(errors) - 1) < 5 * np.std(errors) / np.sqrt(200) + 0.005
    too_sure = calibration.reliability(*drawn(6_000, theta=3.0))
    assert too_sure.error > 5 * too_sure.error_by_chance


def test_it_reads_what_a_corpus_and_a_model_give():
    corpus = ts.samplers.one_important_token(seed=0)
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=16, seed=0)
    loss = ts.calibration.log_loss(corpus.labels, model(corpus))
    assert loss == pytest.approx(model.loss(corpus).item(), rel=1e-12)


@pytest.mark.parametrize(
    ("labels", "logits", "message"),
    [
        ([0, 1], [0.0, 1.0], "labels must be -1 or .1"),
        ([1, -1], [0.0], r"got shapes \(2,\) and \(1,\)"),
        ([], [], "one number a sequence"),
        ([1], [np.nan], "logits holds 1 numbers that are not finite"),
        ([1], [[0.0]], "one number a sequence"),
    ],
)
def test_bad_input(labels, logits, message):
    for function in (calibration.log_loss, calibration.temperature, calibration.reliability):
        with pytest.raises(ValueError, match=message):
            function(labels, logits)


def test_bad_groups():
    with pytest.raises(ValueError, match="groups must be at most 2, the number of sequences; got 3"):
        calibration.reliability([1, -1], [0.0, 1.0], groups=3)
    with pytest.raises(TypeError, match="groups"):
        calibration.reliability([1, -1], [0.0, 1.0], groups=1.5)


def test_labels_count_as_numbers_whatever_their_type():
    expected = calibration.log_loss([1, 1], [1.0, 2.0])
    for dtype in (np.uint8, np.int8, np.float32):  # unsigned numbers have no minus
        assert calibration.log_loss(np.ones(2, dtype), [1.0, 2.0]) == expected
    for labels in ([True, True], ["1", "1"]):
        with pytest.raises(TypeError, match="labels must be real numbers"):
            calibration.log_loss(labels, [1.0, 2.0])
