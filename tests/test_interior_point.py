"""The interior-point method: its two linear systems against dense algebra, and what it does at the edges."""

import numpy as np
import pytest

from tokensel import interior_point as ip


def instance(seed, n_tokens=12, dim=9, n_pairs=30):
    """Embeddings with a common part, pairs that follow a random order, and those pairs as a matrix B."""
    rng = np.random.default_rng(seed)
    embeddings = rng.standard_normal((n_tokens, dim)) + 2 * rng.standard_normal(dim)
    rank = rng.permutation(n_tokens)
    pairs = np.array([(t, s) for t in range(n_tokens) for s in range(n_tokens) if rank[t] > rank[s]])
    pairs = rng.permutation(pairs)[:n_pairs]
    incidence = np.zeros((len(pairs), n_tokens))
    incidence[np.arange(len(pairs)), pairs[:, 0]] = 1
    incidence[np.arange(len(pairs)), pairs[:, 1]] = -1
    return embeddings, ip.Order(pairs, n_tokens), incidence, rng


def test_order_is_the_matrix_of_pairs():
    _, order, incidence, rng = instance(0)
    scores, weights = rng.standard_normal(12), rng.standard_normal(30)
    # Sums of at most 30 terms of size 1.
    assert order.differences(scores) == pytest.approx(incidence @ scores, abs=1e-14)
    assert order.net(weights) == pytest.approx(incidence.T @ weights, abs=1e-14)
    assert len(order) == 30


def test_typical_length_is_the_distance_from_the_mean():
    embeddings = np.random.default_rng(0).standard_normal((5, 1100)) + 7  # more than one block of dimensions
    expected = np.sqrt(np.square(embeddings - embeddings.mean(axis=0)).sum(axis=1).mean())
    assert ip.typical_length(embeddings) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("dim", [5, 11, 12, 30])
@pytest.mark.parametrize("space", [ip._cls_space, ip._score_space])
def test_newton_systems(space, dim):
    """B E (I + (BE)^T D (BE))^{-1} (BE)^T h, in units of the typical length, by either system."""
    embeddings, order, incidence, rng = instance(dim, dim=dim)
    scale = ip.typical_length(embeddings)
    factorise = space(embeddings, order, scale)
    z = incidence @ embeddings / scale
    for _ in range(2):  # the second factorisation must not see the first
        quotients, h = 10.0 ** rng.uniform(-3, 3, 30), rng.standard_normal(30)
        expected = z @ np.linalg.solve(np.eye(dim) + z.T * quotients @ z, z.T @ h)
        computed = order.differences(factorise(quotients)(order.net(h)))
        # The score space adds 1e-8 to G, on purpose: times a condition of 1e4 or so, 1e-4 of the answer.
        # In the other only rounding is magnified like that.
        allowed = 1e-4 if space == ip._score_space else 1e-11
        assert np.abs(computed - expected).max() <= allowed * np.abs(expected).max()


def test_residual_measures_each_condition():
    embeddings, order = np.eye(3), ip.Order(np.array([[0, 1], [0, 2]]), 3)
    duals = np.array([1, 1]) / 3
    p = np.array([2, -1, -1]) / 3  # the solution: both margins are 1
    residual, margins = ip.kkt_residual(embeddings, order, p, duals)
    assert residual <= 1e-15
    assert margins == pytest.approx([1, 1], abs=1e-15)
    too_short, _ = ip.kkt_residual(embeddings, order, 0.9 * p, 0.9 * duals)
    assert too_short == pytest.approx(0.1)  # both margins 0.9
    too_long, _ = ip.kkt_residual(embeddings, order, 1.25 * p, 1.25 * duals)
    assert too_long == pytest.approx(0.25)  # all multipliers on margins of 1.25
    unstationary, _ = ip.kkt_residual(embeddings, order, p, 0.5 * duals)
    assert unstationary == pytest.approx(0.5)


def test_no_cholesky_factor_ends_the_method_with_the_best_there_was(monkeypatch):
    """As where the digits are spent: after six factors there are no more."""
    embeddings, order, _, _ = instance(3, dim=20)
    original, made = ip._score_space, []

    def failing(*problem):
        factorise = original(*problem)

        def until_six(quotients):
            made.append(quotients)
            if len(made) > 6:
                raise np.linalg.LinAlgError("spent")
            return factorise(quotients)

        return until_six

    monkeypatch.setattr(ip, "_score_space", failing)
    duals = ip.solve_pairs(embeddings, order, ip.typical_length(embeddings))
    assert len(made) == 7
    assert np.all(duals >= 0)
    residual, _ = ip.kkt_residual(embeddings, order, *ip.solution(embeddings, order, duals))
    assert ip.TARGET < residual < 0.1


def test_a_matrix_that_is_not_positive_definite_is_said():
    with pytest.raises(np.linalg.LinAlgError, match="LAPACK stopped with 3"):
        ip._check(3)


def test_a_combination_that_cannot_be_zero():
    embeddings, order, _, _ = instance(4, dim=20)
    assert ip._combined_to_zero(embeddings, order, np.ones(30), ip.typical_length(embeddings)) is None
