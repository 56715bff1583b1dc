"""`Forces`, against autograd through the model and against mpmath where float64 has no numbers left."""

import mpmath as mp
import numpy as np
import pytest
import torch

import tokensel as ts
from tokensel.forces import Forces

EPS = np.finfo(float).eps


def instance(seed, distance=3.0, magnitude=1.0):
    rng = np.random.default_rng(seed)
    corpus = ts.samplers.random_tokens(n_sequences=12, n_tokens=9, shortest=1, longest=6, seed=seed)
    return corpus, distance * rng.normal(size=9), magnitude * rng.normal(size=9)


def exact(corpus, scores, values):
    """L and its gradient in the scores, written out."""
    scores, values = [mp.mpf(x) for x in scores], [mp.mpf(x) for x in values]
    loss, gradient = mp.mpf(0), [mp.mpf(0)] * len(scores)
    for row, y in zip(corpus.counts.toarray(), corpus.labels.tolist(), strict=True):
        weight = [int(c) * mp.exp(a) for c, a in zip(row, scores, strict=True)]
        attention = [w / mp.fsum(weight) for w in weight]
        logit = mp.fdot(attention, values)
        loss += mp.log1p(mp.exp(-y * logit)) / len(corpus)
        outer = -y / (1 + mp.exp(y * logit)) / len(corpus)
        for s, q in enumerate(attention):
            gradient[s] += outer * q * (values[s] - logit)
    return loss, gradient


@pytest.mark.parametrize("seed", range(30))
def test_autograd(seed):
    corpus, scores, values = instance(seed)
    push, size, M, rows = Forces(corpus.counts, corpus.labels, values)(scores)
    a = torch.tensor(scores, requires_grad=True)
    log_counts = torch.tensor(corpus.counts.toarray(), dtype=torch.float64).log()
    logits = torch.softmax(log_counts + a, dim=1) @ torch.tensor(values)
    loss = torch.nn.functional.softplus(-torch.tensor(corpus.labels) * logits).mean()
    (gradient,) = torch.autograd.grad(loss, a)
    # Rounding of sums of a few dozen terms of order one, on both sides.
    assert np.abs(push * np.exp(-M) + gradient.numpy()).max() < 1000 * EPS
    gap, shift, limit, _ = Forces(corpus.counts, corpus.labels, values).loss(rows)
    assert abs(gap * np.exp(-shift) + limit - loss.item()) < 1000 * EPS
    assert np.abs(push).sum() <= size * (1 + 1000 * EPS)


@pytest.mark.parametrize("distance", [3.0, 30.0, 300.0])
@pytest.mark.parametrize("magnitude", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize("seed", range(3))
def test_digits(seed, distance, magnitude):
    """Forces and loss gap to ten digits of the largest, where they are e^-1000 and where they are not."""
    corpus, scores, values = instance(seed, distance, magnitude)
    push, _, M, rows = (forces := Forces(corpus.counts, corpus.labels, values))(scores)
    # Normal numbers stay within 4: gaps of scores and logits within 8 times their scale.
    with mp.workdps(60 + int((8 * distance + 8 * magnitude) / np.log(10))):
        loss, gradient = exact(corpus, scores, values)
        wanted = np.array([float(-g * mp.exp(mp.mpf(float(M)))) for g in gradient])
        # A score of size 10^4 or a logit of 10^3 is itself rounded by 1e-12: 1e-10 leaves a hundredfold.
        assert np.abs(push - wanted).max() < 1e-10 * np.abs(wanted).max()
        gap, shift, _, _ = forces.loss(rows)
        top = [values[row][np.argmax(scores[row])] for row in map(np.flatnonzero, corpus.counts.toarray())]
        limit = mp.fsum(
            mp.log1p(mp.exp(-y * mp.mpf(b))) for y, b in zip(corpus.labels.tolist(), top, strict=True)
        )
        scaled = (loss - limit / len(corpus)) * mp.exp(mp.mpf(float(shift)))
        # Gaps of sequences may cancel: they are at most of order one once scaled.
        assert abs(gap - float(scaled)) < 1e-10


@pytest.mark.parametrize("seed", range(20))
def test_sparse_products(seed):
    corpus, scores, values = instance(seed)
    forces = Forces(corpus.counts, corpus.labels, values)
    push, loss = forces.plain(scores)
    exactly, _, M, rows = forces(scores)
    # Forces above 1e-4 of the terms they are differences of keep 12 digits; a dozen terms are summed.
    assert np.abs(push - exactly * np.exp(-M)).sum() < 1e-11 * np.abs(push).sum()
    gap, shift, limit, _ = forces.loss(rows)
    assert loss.gap == pytest.approx(gap * np.exp(-shift) + limit, rel=1e-13)


def test_sparse_products_give_up():
    corpus = ts.Corpus.from_sequences([[0, 1]], [1])
    forces = Forces(corpus.counts, corpus.labels, np.array([1.0, 0.0]))
    assert forces.plain(np.array([5.0, 0.0]))[0] is not None
    assert forces.plain(np.array([20.0, 0.0])) == (None, None)  # forces of e^-20
    assert forces.plain(np.array([-1000.0, 0.0])) == (None, None)  # e^-1000 would underflow


@pytest.mark.parametrize("distance", [3.0, 300.0])
@pytest.mark.parametrize("seed", range(8))
def test_slope(seed, distance):
    """Against central differences of the forces; their error is of order h^2 + rounding / h."""
    corpus, scores, values = instance(seed, distance)
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(9, 4))
    forces, h = Forces(corpus.counts, corpus.labels, values), 1e-5
    slope, M = forces.slope(scores, embeddings), forces(scores)[2]
    differences = np.empty((4, 4))
    for j in range(4):
        (up, _, M_up, _), (down, _, M_down, _) = (
            forces(scores + sign * h * embeddings[:, j]) for sign in (1, -1)
        )
        differences[:, j] = embeddings.T @ (up * np.exp(M - M_up) - down * np.exp(M - M_down)) / (2 * h)
    assert np.abs(slope - slope.T).max() < 1000 * EPS
    assert np.abs(slope - differences).max() < 1e-7


def test_ties_exert_no_force():
    corpus = ts.Corpus.from_sequences([[0, 1, 2], [3], [0, 1]], [1, -1, 1])
    push, _, _, rows = Forces(corpus.counts, corpus.labels, np.array([1.0, 1.0, 0.0, 5.0]))(
        np.array([2.0, 1.0, 0.0, 9.0])
    )
    assert push[3] == 0
    assert rows.outside[1] == rows.outside[2] == 0
    # Tokens 0 and 1 share the force in proportion to their attention, and token 2 loses what they gain.
    assert push[0] / push[1] == pytest.approx(np.e, rel=1e-14)
    assert push.sum() == pytest.approx(0, abs=10 * EPS)


def test_nothing_to_select():
    corpus = ts.Corpus.from_sequences([[0, 0], [1]], [1, -1])
    push, size, M, rows = (forces := Forces(corpus.counts, corpus.labels, np.ones(2)))(np.zeros(2))
    assert not push.any()
    assert size == 0
    assert np.isfinite(M)
    assert forces.loss(rows).gap == 0
