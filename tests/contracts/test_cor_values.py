"""Corollary "values": what one step writes into the values, when it can be read, and when it never can."""

import numpy as np
import pytest

import tokensel as ts

ORIGIN = "paper's claim, our derivation"
SETTING = r"""As in {prf:ref}`thm-one-step`: any corpus, any $p_0$ and $v$, any step size; all scores and
values at the start lie in $[-\varepsilon,\varepsilon]$."""
HYPOTHESES = {
    "long-step": r"The step is long: $\eta_0\lVert v\rVert^2\,|\alpha_s|>4\varepsilon$ for the sign, "
    r"$\eta_0\lVert v\rVert^2\,|\alpha_s-\alpha_r|>8\varepsilon$ for the order of two tokens.",
    "telling-token": "The tokens tell the classes apart often enough for their frequency: "
    r"$\lVert v\rVert\,|\alpha_s|>4\,\nu_s\,\omega$ for the sign, "
    r"$\lVert v\rVert\,|\alpha_s-\alpha_r|>4(\nu_s+\nu_r)\,\omega$ for the order.",
}


def _numpy(tensor):
    return tensor.detach().numpy()


def _epsilon(model):
    return max(np.abs(_numpy(model.scores())).max(), np.abs(_numpy(model.values())).max())


def _half_width(model, corpus, step_size):
    """What the corollary allows a value to differ from its start plus its share of alpha."""
    output_norm = np.linalg.norm(_numpy(model.output))
    return output_norm * ts.theory.one_step_bound(
        step_size,
        corpus.average_frequency,
        _epsilon(model),
        output_norm=output_norm,
        cls_norm=np.linalg.norm(_numpy(model.cls)),
    )


def _omega(model):
    output_norm, cls_norm = np.linalg.norm(_numpy(model.output)), np.linalg.norm(_numpy(model.cls))
    return ts.theory.one_step_bound(1.0, 1.0, _epsilon(model), output_norm=output_norm, cls_norm=cls_norm)


def _conditions(model, corpus, step_size):
    """For each token: is the step long enough for it, and does it tell enough for its frequency?"""
    alpha, norm = np.abs(corpus.average_signed_frequency), np.linalg.norm(_numpy(model.output))
    long_step = step_size * norm**2 * alpha > 4 * _epsilon(model)
    return long_step, norm * alpha > 4 * corpus.average_frequency * _omega(model)


def _instance(seed):
    rng = np.random.default_rng(seed)
    n_tokens, n_sequences = int(rng.integers(2, 30)), int(rng.integers(1, 60))
    sequences = [rng.integers(0, n_tokens, rng.integers(1, 12)) for _ in range(n_sequences)]
    labels = np.where(rng.random(n_sequences) < rng.choice([0.1, 0.5, 1.0]), 1, -1)
    corpus = ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=n_tokens)
    dim = int(2 ** rng.uniform(4, 14))
    start = ts.AttentionClassifier.initialise(n_tokens, dim, seed=rng)
    scale = 10 ** rng.uniform(-1, 1)
    return ts.AttentionClassifier(start.embeddings, start.cls, start.output * scale), corpus


@pytest.mark.parametrize("step_size", [0.1, 10.0, 1e3, 1e5])
def test_a_value_is_its_start_plus_its_share_of_alpha(step_size, evidence):
    for seed in range(60):
        model, corpus = _instance(seed)
        after = _numpy(ts.one_step(model, corpus, step_size).values())
        squared = float(model.output.detach() @ model.output.detach())
        predicted = _numpy(model.values()) + step_size / 2 * squared * corpus.average_signed_frequency
        # The values after the step are sums of d float64 products of numbers of their own size.
        rounding = 1e-12 * (1 + np.abs(after).max())
        off, allowed = np.abs(after - predicted), _half_width(model, corpus, step_size) + rounding
        assert np.all(off <= allowed)
        worst = np.argmax(off / allowed)
        evidence.bound(off[worst], allowed[worst])


def test_under_both_conditions_signs_and_order_can_be_read(evidence):
    signs = orders = 0
    for seed in range(120):
        model, corpus = _instance(seed)
        step_size = 1e3
        after = _numpy(ts.one_step(model, corpus, step_size).values())
        alpha, nu, epsilon = corpus.average_signed_frequency, corpus.average_frequency, _epsilon(model)
        norm, omega = np.linalg.norm(_numpy(model.output)), _omega(model)
        readable = np.logical_and(*_conditions(model, corpus, step_size))
        assert np.array_equal(np.sign(after[readable]), np.sign(alpha[readable]))
        gap, nu_of_both = alpha[:, None] - alpha[None, :], nu[:, None] + nu[None, :]
        ordered = (step_size * norm**2 * gap > 8 * epsilon) & (norm * gap > 4 * nu_of_both * omega)
        above, below = np.nonzero(ordered)
        assert np.all(after[above] > after[below])
        signs, orders = signs + readable.sum(), orders + len(above)
        evidence.holds(readable.any() or len(above) > 0)
    assert min(signs, orders) > 100  # it says something about real instances


def _twins(n_sequences=2000, length=8, n_others=20):
    """Two tokens with the same alpha: 0 fills half of every sequence, 1 half of two positive ones.

    The last token is absent: its alpha and nu are 0, and its value stays what it was.
    """
    rng = np.random.default_rng(0)
    labels = np.tile([1, -1], n_sequences // 2)
    labels[1] = 1  # one more positive than negative pair: alpha_0 = 1/2 * 2/n
    half = length // 2
    sequences = [[0] * half + (2 + rng.integers(0, n_others, half)).tolist() for _ in range(n_sequences)]
    for positive in (0, 2):
        sequences[positive][half:] = [1] * half
    return ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=3 + n_others)


N_STARTS = 100
FOUR_ERRORS = 4 * np.sqrt(0.25 / N_STARTS)  # four standard errors of a share of N_STARTS coin flips


def _shares_of_right_readings(corpus, step_size, dim=4096):
    """Over random starts: how often the twins' values are positive, and above the absent token's.

    And which conditions always hold. As alpha and nu of the absent token are 0, the second condition is the
    same for sign and order; the first, twice as strict for the order, is taken for the order.
    """
    signs, orders = np.zeros(2), np.zeros(2)
    long_step, telling = np.ones(2, dtype=bool), np.ones(2, dtype=bool)
    for seed in range(N_STARTS):
        start = ts.AttentionClassifier.initialise(corpus.n_tokens, dim, seed=seed)
        after = _numpy(ts.one_step(start, corpus, step_size).values())
        signs, orders = signs + (after[:2] > 0), orders + (after[:2] > after[-1])
        long_step &= _conditions(start, corpus, step_size / 2)[0][:2]
        telling &= _conditions(start, corpus, step_size)[1][:2]
    return signs / N_STARTS, orders / N_STARTS, long_step.tolist(), telling.tolist()


@pytest.mark.drops("telling-token")
def test_a_frequent_balanced_token_is_never_ordered_however_long_the_step():
    corpus = _twins()
    alpha, nu = corpus.average_signed_frequency[:2], corpus.average_frequency[:2]
    assert alpha[0] == pytest.approx(alpha[1], rel=1e-12)
    assert alpha[0] == pytest.approx(nu[1], rel=1e-12)
    assert nu[0] == 0.5
    for step_size in (1e4, 1e6, 1e8):
        signs, orders, long_step, telling = _shares_of_right_readings(corpus, step_size)
        assert long_step == [True, True]
        assert telling == [False, True]
        # By the law of the noise alpha/2 is a quarter of the noise's root mean square.
        stated = ts.theory.one_step_sign_probability(corpus.frequencies, corpus.labels, step_size, 4096)[0]
        assert 0.5 < stated < 0.6
        # The start of the absent token is no more than a hundredth of the frequent one's noise.
        assert abs(signs[0] - stated) < FOUR_ERRORS
        assert abs(orders[0] - stated) < FOUR_ERRORS + 0.01
        assert signs[1] == orders[1] == 1.0


@pytest.mark.drops("long-step")
def test_after_too_short_a_step_the_start_still_has_the_last_word():
    # eta |alpha| sqrt(d)/2 = 0.08: the start has the last word, and the step adds 0.04 to a share at most.
    signs, orders, long_step, telling = _shares_of_right_readings(_twins(), 5.0)
    assert not long_step[1]
    assert telling[1]
    assert abs(signs[1] - 0.5) < FOUR_ERRORS + 0.04
    assert abs(orders[1] - 0.5) < FOUR_ERRORS + 0.04


def test_the_noise_of_the_values_stops_falling_when_the_step_grows():
    # The second condition has no step size in it: noise over signal tends to a constant, smaller with d.
    corpus = ts.samplers.one_important_token(seed=0)
    important = corpus.average_signed_frequency != 0
    limits = []
    for dim in (64, 256, 1024):
        shares = []
        for step_size in (1e4, 1e6, 1e8):
            worst = []
            for seed in range(20):
                start = ts.AttentionClassifier.initialise(corpus.n_tokens, dim, seed=seed)
                after = _numpy(ts.one_step(start, corpus, step_size).values())
                worst.append(np.abs(after[~important]).max() / np.abs(after[important]).mean())
            shares.append(np.mean(worst))
        assert shares[1] == pytest.approx(shares[2], rel=1e-3)  # what is left of the start is of order 1e-6
        assert shares[2] > 0
        limits.append(shares[2])
    # Of order d^(-1/2): a factor 2 each time; 20 starts of a maximum are good to some 10 %.
    assert 1.5 < limits[0] / limits[1] < 2.7
    assert 1.5 < limits[1] / limits[2] < 2.7
