"""Proposition prop-hard-max: attention along a fixed direction becomes a choice, at the rate of the margin.

The logit and attention are computed here with 300 digits (mpmath), more than any distance met here loses.
"""

import mpmath
import numpy as np
import pytest

import tokensel as ts

ORIGIN = "tool"
SETTING = r"""Any sequence $X_i$ of at least two distinct tokens, with any counts, embeddings and values; any
direction $u$; $p=Ru$ with any $R\ge0$."""
HYPOTHESES = {"unique": r"One token of the sequence alone, $\sigma$, has the largest score $u\cdot E_s$."}
SEEDS = range(40)


def attention_and_logit(counts, scores, values):
    weights = [int(c) * mpmath.exp(mpmath.mpf(float(a))) for c, a in zip(counts, scores, strict=True)]
    total = mpmath.fsum(weights)
    attention = [w / total for w in weights]
    return attention, mpmath.fsum(q * mpmath.mpf(float(b)) for q, b in zip(attention, values, strict=True))


def instance(seed):
    rng = np.random.default_rng(seed)
    n, dim = rng.integers(2, 8), rng.integers(1, 6)
    embeddings, direction = rng.normal(size=(n, dim)), rng.normal(size=dim)
    direction /= np.linalg.norm(direction)
    scores = embeddings @ direction
    assert np.diff(np.sort(scores))[-1] > 0  # the hypothesis "unique"
    return rng.integers(1, 5, size=n), scores, rng.normal(size=n)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_hold_at_every_length(seed, evidence):
    counts, scores, values = instance(seed)
    selected = int(np.argmax(scores))
    others = np.arange(len(scores)) != selected
    margin, spread = scores[selected] - scores[others].max(), np.abs(values - values[selected]).max()
    with mpmath.workdps(300):
        shares = []  # of the two bounds, at each length
        for factor in (0.0, 0.3, 1.0, 4.0, 20.0, 100.0):
            attention, logit = attention_and_logit(counts, factor * scores, values)
            ratio = mpmath.mpf(int(counts[others].sum())) / int(counts[selected])
            bound = ratio * mpmath.exp(-mpmath.mpf(float(factor)) * mpmath.mpf(float(margin)))
            # factor * scores and the margin are rounded to float64 before mpmath sees them.
            slack = 1 + mpmath.mpf(8 * (1 + factor * np.abs(scores).max()) * np.finfo(float).eps)
            off = abs(logit - mpmath.mpf(float(values[selected]))) / mpmath.mpf(spread)
            shares.append(((1 - attention[selected]) / (bound * slack), off / (bound * slack)))
    for share in np.max(np.array(shares, dtype=float), axis=0):
        evidence.bound(share, 1.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rate_is_the_margin_and_no_better(seed, evidence):
    """With one runner-up, 1 - q decreases by exactly the factor e^(-margin) per unit of R in the limit."""
    counts, scores, values = instance(seed)
    selected = int(np.argmax(scores))
    margin = scores[selected] - np.delete(scores, selected).max()
    far = 200 / margin  # e^(-200) is what is left there; other tokens are further behind or as far
    with mpmath.workdps(300):
        missing = [
            1 - attention_and_logit(counts, factor * scores, values)[0][selected] for factor in (far, 2 * far)
        ]
        rate = float(mpmath.log(missing[0] / missing[1])) / far
    # The other tokens' share of 1 - q shrinks with R: it changes log(1 - q) by at most log(sum of counts).
    assert margin * (1 - 1e-9) <= rate <= margin + np.log(counts.sum()) / far
    evidence.limit(rate, margin)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_package_reaches_the_limit(seed, evidence):
    counts, scores, values = instance(seed)
    corpus = ts.Corpus(counts[None, :], labels=[1])
    selected = int(np.argmax(scores))
    far = 60 / (scores[selected] - np.delete(scores, selected).max())  # T e^(-60) is below rounding
    logit = ts.score_space.logits(corpus, far * scores, values).item()
    assert logit == pytest.approx(values[selected], rel=1e-12)
    evidence.limit(logit, values[selected])


@pytest.mark.drops("unique")
def test_a_tie_is_never_decided():
    """Without a unique largest score attention tends to the counts of the tied tokens, at any length."""
    corpus = ts.Corpus([[1, 3, 2]], labels=[1])
    attention = ts.score_space.attention(corpus, 1e6 * np.array([1.0, 1.0, 0.0])).to_dense()[0].numpy()
    np.testing.assert_allclose(attention, [0.25, 0.75, 0.0], rtol=1e-15)
