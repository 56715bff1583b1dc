"""Corollary "values": what one step writes into the values, when it can be read, and when it never can."""

import numpy as np
import pytest

import tokensel as ts


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
def test_a_value_is_its_start_plus_its_share_of_alpha(step_size):
    for seed in range(60):
        model, corpus = _instance(seed)
        after = _numpy(ts.one_step(model, corpus, step_size).values())
        squared = float(model.output.detach() @ model.output.detach())
        predicted = _numpy(model.values()) + step_size / 2 * squared * corpus.average_signed_frequency
        # The values after the step are sums of d float64 products of numbers of their own size.
        rounding = 1e-12 * (1 + np.abs(after).max())
        assert np.all(np.abs(after - predicted) <= _half_width(model, corpus, step_size) + rounding)


def test_under_both_conditions_signs_and_order_can_be_read():
    signs = orders = 0
    for seed in range(120):
        model, corpus = _instance(seed)
        step_size = 1e3
        after = _numpy(ts.one_step(model, corpus, step_size).values())
        alpha, nu, epsilon = corpus.average_signed_frequency, corpus.average_frequency, _epsilon(model)
        norm = np.linalg.norm(_numpy(model.output))
        omega = ts.theory.one_step_bound(
            1.0, 1.0, epsilon, output_norm=norm, cls_norm=np.linalg.norm(_numpy(model.cls))
        )
        long_enough = step_size * norm**2 * np.abs(alpha) > 4 * epsilon
        readable = long_enough & (norm * np.abs(alpha) > 4 * nu * omega)
        assert np.array_equal(np.sign(after[readable]), np.sign(alpha[readable]))
        gap, nu_of_both = alpha[:, None] - alpha[None, :], nu[:, None] + nu[None, :]
        ordered = (step_size * norm**2 * gap > 8 * epsilon) & (norm * gap > 4 * nu_of_both * omega)
        above, below = np.nonzero(ordered)
        assert np.all(after[above] > after[below])
        signs, orders = signs + readable.sum(), orders + len(above)
    assert min(signs, orders) > 100  # it says something about real instances


def _twins(n_sequences=2000, length=8, n_others=20):
    """Two tokens with the same alpha: 0 fills half of every sequence, 1 half of two positive ones."""
    rng = np.random.default_rng(0)
    labels = np.tile([1, -1], n_sequences // 2)
    labels[1] = 1  # one more positive than negative pair: alpha_0 = 1/2 * 2/n
    half = length // 2
    sequences = [[0] * half + (2 + rng.integers(0, n_others, half)).tolist() for _ in range(n_sequences)]
    for positive in (0, 2):
        sequences[positive][half:] = [1] * half
    return ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=2 + n_others)


N_STARTS = 100
FOUR_ERRORS = 4 * np.sqrt(0.25 / N_STARTS)  # four standard errors of a share of N_STARTS coin flips


def _share_of_right_signs(corpus, step_size, dim=256):
    right = np.zeros(2)
    for seed in range(N_STARTS):
        start = ts.AttentionClassifier.initialise(corpus.n_tokens, dim, seed=seed)
        right += _numpy(ts.one_step(start, corpus, step_size).values())[:2] > 0
    return right / N_STARTS


def test_a_frequent_balanced_token_is_never_ordered_however_long_the_step():
    corpus = _twins()
    alpha, nu = corpus.average_signed_frequency[:2], corpus.average_frequency[:2]
    assert alpha[0] == pytest.approx(alpha[1], rel=1e-12)
    assert alpha[0] == pytest.approx(nu[1], rel=1e-12)
    assert nu[0] == 0.5
    for step_size in (1e2, 1e4, 1e6, 1e8):
        frequent, rare = _share_of_right_signs(corpus, step_size)
        # alpha/2 over its noise |v|^2 |H_s|/(4 sqrt d) is 0.06: the sign is a coin flip, 0.52 to one side.
        assert abs(frequent - 0.5) < FOUR_ERRORS + 0.03
        if step_size >= 1e4:
            assert rare == 1.0


def test_a_step_too_short_leaves_the_start_on_top():
    # eta |alpha| sqrt(d) = 0.08: the start has the last word on the sign of either token.
    corpus = _twins()
    assert np.all(np.abs(_share_of_right_signs(corpus, 10.0) - 0.5) < FOUR_ERRORS + 0.03)


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
