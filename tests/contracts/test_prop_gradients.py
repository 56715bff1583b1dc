"""Proposition prop-gradients: every gradient of the loss, and what always holds for them.

Oracles: torch's autograd through an embedding lookup, one place at a time, and mpmath's derivatives of the
loss to 30 digits. Neither shares code with `tokensel.score_space`.
"""

import mpmath
import numpy as np
import pytest
import torch

import tokensel as ts

ORIGIN = "tool"
ORIGIN = "tool"
SETTING = (
    "Any corpus, any real $E$, $p$ and $v$ of any size, any dimension. $L$ is the mean of the logistic loss "
    "over sequences."
)
HYPOTHESES = {
    "own-tokens": "The attention of a sequence is a softmax over its own tokens, all of them and no others.",
    "untied": "$E$, $p$ and $v$ are separate parameters: none is made from another.",
}
SEEDS = range(60)
# Sums of at most 30 x 12 products of float64 numbers, through one softmax each: 1e-12 is a few thousand
# roundings, relative to what the sizes of the terms add up to.
TOLERANCE = 1e-12


def drawn(seed):
    """Sequences of 1 to 12 tokens with repeats, labels of any balance, scores nearly equal to far apart."""
    rng = np.random.default_rng(seed)
    n_tokens, n, dim = int(rng.integers(2, 20)), int(rng.integers(1, 30)), int(rng.integers(1, 12))
    sequences = [rng.integers(n_tokens, size=rng.integers(1, 13)) for _ in range(n)]
    labels = np.where(rng.random(n) < rng.choice([0.0, 0.3, 0.5, 1.0]), 1, -1)
    scale = 10 ** rng.uniform(-2, 1)
    parameters = rng.normal(size=(n_tokens + 1, dim)), scale * rng.normal(size=dim), rng.normal(size=dim)
    return sequences, labels, parameters  # the last token stands nowhere


def lookup(sequences, labels, embeddings, cls, output, read=None):
    """Minus the gradients of E, p and v by autograd, and the attention on each place, from the definition."""
    E, p, v = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (embeddings, cls, output))
    attention = [torch.softmax(E[x] @ p, 0) for x in sequences]
    logits = torch.stack([q @ (E[x] @ v) for q, x in zip(attention, sequences, strict=True)])
    # Not torch's softplus: from 20 on it returns its argument.
    losses = torch.logaddexp(-torch.tensor(labels) * logits, torch.zeros(len(labels), dtype=torch.float64))
    (losses.mean() if read is None else read(losses)).backward()
    return (
        [-x.grad.numpy() for x in (E, p, v)],
        [q.detach().numpy() for q in attention],
        logits.detach().numpy(),
    )


def formulas(sequences, labels, embeddings, cls, output):
    """The proposition's right-hand sides, by loops over sequences and places."""
    a, b = embeddings @ cls, embeddings @ output
    by_value, by_score, variance = np.zeros(len(a)), np.zeros(len(a)), 0.0
    n = len(sequences)
    for x, y in zip(sequences, labels, strict=True):
        q = np.exp(a[x] - a[x].max())
        q /= q.sum()
        f = q @ b[x]
        g = y / (1 + np.exp(y * f))
        np.add.at(by_value, x, g * q / n)
        np.add.at(by_score, x, g * q * (b[x] - f) / n)
        variance += g * (q @ (b[x] - f) ** 2) / n
    by_embedding = np.outer(by_value, output) + np.outer(by_score, cls)
    return by_value, by_score, by_embedding, by_score @ embeddings, by_value @ embeddings, variance


def relative(computed, expected, terms):
    """Error in units of the size of what was summed; rounding cannot be smaller than its epsilon."""
    return np.abs(computed - expected).max() / terms


@pytest.mark.parametrize("seed", SEEDS)
def test_formulas_against_autograd_of_a_lookup(seed, evidence):
    """Parts 1 and 2."""
    sequences, labels, (E, p, v) = drawn(seed)
    (of_E, of_p, of_v), _, logits = lookup(sequences, labels, E, p, v)
    by_value, by_score, by_embedding, by_cls, by_output, _ = formulas(sequences, labels, E, p, v)
    g = labels / (1 + np.exp(labels * logits))
    spread = 2 * np.abs(E @ v).max()
    pull = np.abs(g).mean()  # what the derivatives by the values add up to in size, at most
    size = np.linalg.norm(E, axis=1).max()
    for computed, expected, terms in [
        (by_embedding, of_E, pull * (np.linalg.norm(v) + spread * np.linalg.norm(p))),
        (by_cls, of_p, pull * spread * size),
        (by_output, of_v, pull * size),
    ]:
        assert relative(computed, expected, terms) <= TOLERANCE
        evidence.limit(relative(computed, expected, terms), 0)
    # In the plane, p and v are the two axes: the embedding's gradient has one column for each.
    plane = np.stack([E @ p, E @ v], axis=1)
    (of_plane, _, _), _, _ = lookup(sequences, labels, plane, np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert relative(by_score, of_plane[:, 0], pull * spread) <= TOLERANCE
    assert relative(by_value, of_plane[:, 1], pull) <= TOLERANCE
    # A token that stands nowhere gets no gradient at all.
    assert by_value[-1] == by_score[-1] == 0
    assert not of_E[-1].any()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_package_computes_the_same(seed):
    sequences, labels, (E, p, v) = drawn(seed)
    corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=len(E))
    by_value, by_score, by_embedding, by_cls, by_output, _ = formulas(sequences, labels, E, p, v)
    gradients = ts.score_space.gradients(corpus, E @ p, E @ v)
    spread = 2 * np.abs(E @ v).max()
    assert relative(-gradients.values.numpy(), by_value, 1.0) <= TOLERANCE
    assert relative(-gradients.scores.numpy(), by_score, spread) <= TOLERANCE
    model = ts.AttentionClassifier(E, p, v)
    model.output.requires_grad_()
    model.loss(corpus).backward()
    size = np.linalg.norm(E, axis=1).max()
    assert (
        relative(-model.embeddings.grad.numpy(), by_embedding, np.linalg.norm(v) + spread * np.linalg.norm(p))
        <= TOLERANCE
    )
    assert relative(-model.cls.grad.numpy(), by_cls, spread * size) <= TOLERANCE
    assert relative(-model.output.grad.numpy(), by_output, size) <= TOLERANCE


@pytest.mark.parametrize("seed", range(8))
def test_formulas_against_derivatives_to_thirty_digits(seed, evidence):
    """mpmath differentiates the definition of the loss, term by term and place by place."""
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(4, size=rng.integers(1, 6)).tolist() for _ in range(3)]
    labels = rng.choice([-1, 1], 3).tolist()
    scores, values = rng.normal(scale=2, size=4), rng.normal(size=4)
    with mpmath.workdps(40):

        def loss(*numbers):
            a, b = numbers[:4], numbers[4:]
            total = mpmath.mpf(0)
            for x, y in zip(sequences, labels, strict=True):
                weights = [mpmath.exp(a[s]) for s in x]
                logit = sum(w * b[s] for w, s in zip(weights, x, strict=True)) / sum(weights)
                total += mpmath.log(1 + mpmath.exp(-y * logit))
            return total / len(labels)

        at = [mpmath.mpf(float(x)) for x in (*scores, *values)]
        exact = [-mpmath.diff(loss, at, n=tuple(int(j == k) for j in range(8))) for k in range(8)]
    plane = np.stack([scores, values], axis=1)
    by_value, by_score, *_ = formulas(
        list(map(np.array, sequences)), labels, plane, np.array([1.0, 0.0]), np.array([0.0, 1.0])
    )
    for computed, expected in zip([*by_score, *by_value], exact, strict=True):
        # Each derivative is a sum of at most three terms, none larger than the spread of the values.
        assert abs(computed - float(expected)) <= 1e-14 * np.ptp(values)
    evidence.holds(1)


@pytest.mark.parametrize("seed", SEEDS)
def test_forces_sum_to_zero_and_pull_p_along_v_by_a_variance(seed, evidence):
    """Parts 3 and 4, for gradients that autograd has computed."""
    sequences, labels, (E, p, v) = drawn(seed)
    plane = np.stack([E @ p, E @ v], axis=1)
    (of_plane, _, _), attention, logits = lookup(
        sequences, labels, plane, np.array([1.0, 0.0]), np.array([0.0, 1.0])
    )
    (_, of_p, _), _, _ = lookup(sequences, labels, E, p, v)
    beta, b = of_plane[:, 0], E @ v
    n, g = len(labels), labels / (1 + np.exp(labels * logits))
    terms = (
        sum(
            abs(gi) * q @ np.abs(b[x] - f)
            for gi, q, x, f in zip(g, attention, sequences, logits, strict=True)
        )
        / n
    )
    assert abs(beta.sum()) <= TOLERANCE * max(terms, np.abs(b).max())
    variances = [q @ (b[x] - f) ** 2 for q, x, f in zip(attention, sequences, logits, strict=True)]
    expected, size = g @ variances / n, np.abs(g).mean() * max(np.abs(b).max(), 1) ** 2
    assert abs(beta @ b - expected) <= TOLERANCE * size
    assert abs(v @ of_p - expected) <= TOLERANCE * size * max(
        1, np.linalg.norm(v) * np.linalg.norm(E, axis=1).max()
    )
    if (labels == 1).all():
        assert expected >= 0  # one class: p never moves against v
    evidence.limit(beta.sum() / max(terms, np.abs(b).max()), 0)
    evidence.limit((beta @ b - expected) / size, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gradient_of_the_embeddings_has_rank_two_at_most(seed):
    sequences, labels, (E, p, v) = drawn(seed)
    (of_E, _, _), _, _ = lookup(sequences, labels, E, p, v)
    singular = np.linalg.svd(of_E, compute_uv=False)
    assert (singular[2:] <= TOLERANCE * singular[0]).all()


@pytest.mark.drops("own-tokens")
def test_padding_without_a_mask_breaks_the_sums():
    """Two sequences padded to one length by a token of embedding 0 that is left in the softmax."""
    E, p, v = np.array([[1.0, 1.0], [-1.0, 0.5], [0.0, 0.0]]), np.array([0.3, 0.1]), np.array([0.0, 1.0])
    sequences, padded = (
        [np.array([0, 1, 1, 0]), np.array([0])],
        [np.array([0, 1, 1, 0]), np.array([0, 2, 2, 2])],
    )
    labels = np.array([1, -1])
    _, by_score, _, by_cls, *_ = formulas(sequences, labels, E, p, v)
    (_, of_p, _), _, _ = lookup(padded, labels, E, p, v)
    assert np.linalg.norm(by_cls - of_p) > 0.1 * np.linalg.norm(of_p)
    # The true tokens' forces no longer sum to zero: what is missing pushes the padding.
    (of_plane, _, _), _, _ = lookup(
        padded, labels, np.stack([E @ p, E @ v], axis=1), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    )
    assert abs(of_plane[:2, 0].sum()) > 0.01
    assert abs(by_score[:2].sum()) < 1e-15


@pytest.mark.drops("untied")
def test_a_cls_embedding_that_is_a_row_of_the_table_has_one_more_term():
    """With p = E_0 the gradient of that row also holds the gradient of p."""
    rng = np.random.default_rng(0)
    sequences, labels = [np.array([0, 1, 2]), np.array([1, 1, 2])], np.array([1, -1])
    table, v = rng.normal(size=(3, 4)), rng.normal(size=4)
    E = torch.tensor(table, requires_grad=True)
    logits = torch.stack([torch.softmax(E[x] @ E[0], 0) @ (E[x] @ torch.tensor(v)) for x in sequences])
    torch.nn.functional.softplus(-torch.tensor(labels) * logits).mean().backward()
    tied = -E.grad.numpy()
    _, _, by_embedding, by_cls, *_ = formulas(sequences, labels, table, table[0], v)
    assert np.linalg.norm(tied[0] - by_embedding[0]) > 0.1 * np.linalg.norm(by_cls)
    np.testing.assert_allclose(tied[0], by_embedding[0] + by_cls, rtol=1e-12)
    np.testing.assert_allclose(tied[1:], by_embedding[1:], rtol=1e-12)


def test_a_mean_over_places_is_another_loss():
    """Weighing sequences by their length, as a mean over all places does, turns the gradient."""
    E, p, v = np.eye(3), np.zeros(3), np.array([1.0, -1.0, 0.0])
    sequences, labels = [np.array([0, 2]), np.array([0, 1, 2, 2, 2, 2, 2, 2])], np.array([1, -1])
    lengths = torch.tensor([len(x) for x in sequences])
    (of_E, _, _), _, _ = lookup(sequences, labels, E, p, v)
    (pooled, _, _), _, _ = lookup(
        sequences, labels, E, p, v, read=lambda losses: (lengths * losses).sum() / lengths.sum()
    )
    cosine = (of_E * pooled).sum() / np.linalg.norm(of_E) / np.linalg.norm(pooled)
    assert cosine < 0.9
