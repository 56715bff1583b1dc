"""Proposition prop-rank-two: what one gradient step, and several, do to the matrix of embeddings.

Steps are made here by torch's autograd through a plain softmax over looked-up embeddings.
"""

import numpy as np
import pytest
import torch

import tokensel as ts

ORIGIN = "beyond the paper"
SETTING = r"Any corpus, any start $E_0$, $p_0$, any $v\ne0$ of any length, any step $\eta_0$."
HYPOTHESES = {
    "output-fixed": "$v$ is fixed while $E$ and $p$ descend (part 4).",
}
# Matrices of some hundred numbers of order one, in float64: rounding of a singular value is below this.
ROUNDING = 1e-13


def instance(seed):
    rng = np.random.default_rng(seed)
    n, n_tokens, dim = int(rng.integers(1, 20)), int(rng.integers(2, 12)), int(rng.integers(5, 15))
    counts = np.zeros((n, n_tokens))
    for row in counts:
        np.add.at(row, rng.integers(0, n_tokens, rng.integers(1, 9)), 1)
    labels = rng.choice([-1, 1], n)
    output = rng.normal(size=dim)
    embeddings, cls = rng.normal(size=(n_tokens, dim)), rng.normal(size=dim)
    return counts, labels, embeddings, cls, output, 10 ** rng.uniform(-1, 2)


def gradients(counts, labels, embeddings, cls, output):
    """Gradients of the loss in E, p, v, and in scores and values; and the logits."""
    E, p, v = (torch.tensor(x, requires_grad=True) for x in (embeddings, cls, output))
    scores, values = E @ p, E @ v
    scores.retain_grad(), values.retain_grad()
    attention = torch.softmax(scores + torch.log(torch.tensor(counts)), dim=1)
    logits = attention @ values
    torch.nn.functional.softplus(-torch.tensor(labels) * logits).mean().backward()
    return [x.grad.numpy() for x in (E, p, v, scores, values)], logits.detach().numpy()


@pytest.mark.parametrize("seed", range(60))
def test_a_step_is_the_sum_of_two_outer_products(seed, evidence):
    counts, labels, E0, p0, v, eta = instance(seed)
    (dE, _, _, da, db), _ = gradients(counts, labels, E0, p0, v)
    change = -eta * dE
    size = np.linalg.norm(change)
    assert np.abs(change - eta * (np.outer(-db, v) + np.outer(-da, p0))).max() <= ROUNDING * max(size, 1)
    singular = np.linalg.svd(change, compute_uv=False)
    assert (singular[2:] <= ROUNDING * max(size, 1)).all()
    evidence.holds()


@pytest.mark.parametrize("seed", range(60))
def test_the_second_singular_value_is_within_its_bound(seed, evidence):
    counts, labels, E0, p0, v, eta = instance(seed)
    start = ts.AttentionClassifier(E0, p0, v)
    corpus = ts.Corpus(counts.astype(int), labels)
    moved = ts.one_step(start, corpus, eta).embeddings.detach().numpy() - E0
    singular = np.linalg.svd(moved, compute_uv=False)
    (_, _, _, da, _), _ = gradients(counts, labels, E0, p0, v)
    bound = eta * np.linalg.norm(da) * np.linalg.norm(p0 - (p0 @ v) / (v @ v) * v)
    # E_1 - E_0 is a difference of numbers of order one.
    rounding = 1e-14 * (np.linalg.norm(E0) + np.linalg.norm(moved))
    evidence.bound(singular[1], bound + rounding)


@pytest.mark.parametrize("seed", range(20))
def test_from_a_vanishing_cls_embedding_the_rank_is_one(seed, evidence):
    counts, labels, E0, p0, v, _ = instance(seed)
    (dE, *_), _ = gradients(counts, labels, E0, 0 * p0, v)
    assert np.linalg.svd(dE, compute_uv=False)[1] <= ROUNDING
    evidence.holds()


@pytest.mark.parametrize("seed", range(60))
def test_the_sum_of_the_rows_is_parallel_to_v(seed, evidence):
    counts, labels, E0, p0, v, _ = instance(seed)
    (dE, *_), logits = gradients(counts, labels, E0, p0, v)
    mean_residual = np.mean(labels / (1 + np.exp(labels * logits)))
    np.testing.assert_allclose(-dE.sum(axis=0), mean_residual * v, rtol=0, atol=ROUNDING)
    evidence.holds()


@pytest.mark.parametrize("seed", range(20))
def test_later_steps_add_the_cls_embeddings_so_far(seed, evidence):
    counts, labels, E0, p0, v, _ = instance(seed)
    E, p, directions = E0.copy(), p0.copy(), [v]
    for _ in range(3):
        directions.append(p.copy())
        (dE, dp, *_), _ = gradients(counts, labels, E, p, v)
        E, p = E - 0.5 * dE, p - 0.5 * dp
    basis = np.linalg.svd(np.array(directions), full_matrices=False)[2]
    assert len(basis) < E.shape[1]  # else every row would lie in the span
    outside = (E - E0) - (E - E0) @ basis.T @ basis
    assert np.abs(outside).max() <= 10 * ROUNDING
    evidence.holds()


@pytest.mark.drops("output-fixed")
def test_if_v_learns_too_the_rows_leave_the_span():
    counts, labels, E0, p0, v, _ = instance(3)
    E, p, out, directions = E0.copy(), p0.copy(), v.copy(), [v]
    for _ in range(3):
        directions.append(p.copy())
        (dE, dp, dv, *_), _ = gradients(counts, labels, E, p, out)
        E, p, out = E - 0.5 * dE, p - 0.5 * dp, out - 0.5 * dv
    basis = np.linalg.svd(np.array(directions), full_matrices=False)[2]
    assert len(basis) < E.shape[1]
    assert np.abs((E - E0) - (E - E0) @ basis.T @ basis).max() > 1e-3
