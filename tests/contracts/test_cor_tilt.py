"""Corollary cor-tilt: how the scores of one-step embeddings leave their start.

Scores are differenced along a small step of p whose direction is autograd's gradient.
"""

import numpy as np
import pytest
import torch

ORIGIN = "beyond the paper"
SETTING = r"Any corpus, any values $b$; part 1 at every $p$."
HYPOTHESES = {
    "one-step-embeddings": (
        r"$E_s=e_s+b_sv$ with $e_s$ orthonormal and orthogonal to $v$, $\lVert v\rVert=1$ (part 1)."
    ),
    "mirror-image": (
        r"An exchange of tokens that turns all values around, $b_{s'}=-b_s$, turns the positive sequences "
        "into the negative ones (part 2)."
    ),
    "equal-scores": "$p=0$ (part 2).",
}


def push(counts, labels, embeddings, cls, output):
    """-gradient in p, in the scores, attention and logits: autograd through a plain softmax."""
    counts, labels, E, p, v = (
        torch.tensor(np.asarray(x, dtype=float)) for x in (counts, labels, embeddings, cls, output)
    )
    p.requires_grad_()
    scores = E @ p
    scores.retain_grad()
    attention = torch.softmax(scores + torch.log(counts), dim=1)
    logits = attention @ (E @ v)
    torch.nn.functional.softplus(-labels * logits).mean().backward()
    return -p.grad.numpy(), -scores.grad.numpy(), attention.detach().numpy(), logits.detach().numpy()


def random_counts(rng, n, n_tokens):
    counts = np.zeros((n, n_tokens))
    for row in counts:
        np.add.at(row, rng.integers(0, n_tokens, rng.integers(1, 9)), 1)
    return counts


def one_step_embeddings(rng, values, extra=3):
    """e_s and v are rows of a random rotation."""
    rows = np.linalg.qr(rng.normal(size=(len(values) + extra, len(values) + extra)))[0]
    return rows[: len(values)] + np.outer(values, rows[-1]), rows[-1]


@pytest.mark.parametrize("seed", range(60))
def test_the_scores_move_by_the_push_and_its_tilt(seed, evidence):
    rng = np.random.default_rng(seed)
    n_tokens = int(rng.integers(2, 12))
    counts = random_counts(rng, int(rng.integers(1, 20)), n_tokens)
    labels, values = rng.choice([-1, 1], len(counts)), rng.normal(size=n_tokens) * 10 ** rng.uniform(-2, 1)
    E, v = one_step_embeddings(rng, values)
    assert np.abs((E - np.outer(E @ v, v)) @ (E - np.outer(E @ v, v)).T - np.eye(n_tokens)).max() < 1e-12
    p_dot, beta, q, f = push(counts, labels, E, rng.normal(size=E.shape[1]), v)
    variance = (q * (values - f[:, None]) ** 2).sum(axis=1)
    tilt = np.mean(labels / (1 + np.exp(labels * f)) * variance)
    predicted = beta + tilt * values
    size = np.abs(beta).max() + abs(tilt) * np.abs(values).max() + 1
    # Sums of at most 200 products in float64, of numbers up to size.
    assert np.abs(E @ p_dot - predicted).max() <= 1e-12 * size
    assert tilt == pytest.approx(values @ beta, rel=1e-9, abs=1e-12 * size)
    evidence.holds()


def mirrored(rng, half):
    """Tokens s and s + half are partners, the last is its own; the exchange makes the negative sequences."""
    positive = random_counts(rng, int(rng.integers(1, 15)), 2 * half + 1)
    exchange = np.r_[np.arange(half) + half, np.arange(half), 2 * half]
    counts = np.concatenate([positive, positive[:, exchange]])
    values = rng.normal(size=half)
    return counts, np.repeat([1, -1], len(positive)), np.r_[values, -values, 0.0]


@pytest.mark.parametrize("seed", range(40))
def test_there_is_no_tilt_where_the_classes_mirror_each_other(seed, evidence):
    rng = np.random.default_rng(seed)
    counts, labels, values = mirrored(rng, int(rng.integers(1, 6)))
    E, v = one_step_embeddings(rng, values)
    p_dot, beta, *_ = push(counts, labels, E, np.zeros(E.shape[1]), v)
    assert abs(values @ beta) <= 1e-14
    np.testing.assert_allclose(E @ p_dot, beta, rtol=0, atol=1e-13)
    evidence.holds()


@pytest.mark.drops("one-step-embeddings")
def test_other_embeddings_spread_the_push_over_other_tokens():
    rng = np.random.default_rng(0)
    counts, labels, values = mirrored(rng, 3)
    E, v = one_step_embeddings(rng, values)
    E[1] += 0.7 * (E[0] - np.outer(E @ v, v)[0])  # no longer orthogonal to e_0; values as before
    np.testing.assert_allclose(E @ v, values, atol=1e-12)
    p_dot, beta, *_ = push(counts, labels, E, np.zeros(E.shape[1]), v)
    assert np.abs(E @ p_dot - beta - (values @ beta) * values).max() > 1e-3


@pytest.mark.drops("mirror-image")
def test_without_its_negative_half_the_corpus_tilts():
    rng = np.random.default_rng(0)
    counts, labels, values = mirrored(rng, 3)
    E, v = one_step_embeddings(rng, values)
    _, beta, *_ = push(counts[labels > 0], labels[labels > 0], E, np.zeros(E.shape[1]), v)
    assert abs(values @ beta) > 1e-4  # exactly 0 with it; rounding is below 1e-14


@pytest.mark.drops("equal-scores")
def test_away_from_zero_a_mirrored_corpus_may_tilt():
    rng = np.random.default_rng(0)
    counts, labels, values = mirrored(rng, 3)
    E, v = one_step_embeddings(rng, values)
    _, beta, *_ = push(counts, labels, E, 2 * v, v)
    assert abs(values @ beta) > 1e-4  # exactly 0 at p = 0; rounding is below 1e-14
