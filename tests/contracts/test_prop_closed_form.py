"""Proposition prop-closed-form: when the formula is the max-margin solution, and when p keeps to it.

Oracles: non-negative least squares on the pairs, and Hall's condition by going through all groups of tokens.
"""

import itertools

import numpy as np
import pytest
from scipy.optimize import nnls

import tokensel as ts
from tokensel import samplers, theory

ORIGIN = "beyond the paper"
SETTING = r"""Orthonormal rows of $E$; $K$ important tokens and $M$ others; sequences of one important
token and at least one other, of one class or both. For the path: other values $0$, and
$y_ib_{k(i)}>0$."""
HYPOTHESES = {
    "meeting": r"Each group $\mathcal G$ of important tokens meets at least $|\mathcal G|M/K$ of the others.",
    "balance": r"For the path: equal lengths; important tokens once, equally often; so the others.",
    "magnitudes": r"For the path: $|b_k|=B$ for all important tokens.",
    "start": r"For the path: $p(0)=x_0\hat p$ with a number $x_0$.",
}


def shortest_feasible(z):
    """min |p| with p.z_j >= 1, from the point of the hull nearest to the origin; the last line certifies it.

    Where pairs are dependent SciPy's least squares may stop too soon: then they are tried in another order.
    """
    scale = np.linalg.norm(z, axis=1).mean()  # so that both parts of the least squares weigh alike
    for seed in range(20):
        ordered = np.random.default_rng(seed).permutation(z) if seed else z
        weights, _ = nnls(
            np.vstack([ordered.T / scale, np.ones(len(z))]), np.append(np.zeros(z.shape[1]), 1.0)
        )
        nearest = weights @ ordered / weights.sum()
        p = nearest / (nearest @ nearest)
        if (z @ p).min() >= 1 - 1e-9:
            return p
    raise AssertionError("the oracle has failed")


def formula(k, m):
    return np.concatenate([np.full(k, m / (k + m)), np.full(m, -k / (k + m))])


def every_group_meets_its_share(together):
    k, m = together.shape
    groups = itertools.chain.from_iterable(itertools.combinations(range(k), size) for size in range(1, k + 1))
    return all(k * together[list(group)].any(axis=0).sum() >= m * len(group) for group in groups)


def pairs_of(together):
    k, m = together.shape
    rows = np.eye(k + m)
    return np.array([rows[i] - rows[k + j] for i, j in zip(*np.nonzero(together), strict=True)])


def test_the_formula_holds_if_and_only_if_each_group_meets_its_share(evidence):
    rng, seen = np.random.default_rng(0), {True: 0, False: 0}
    for _ in range(400):
        k, m = rng.integers(1, 6, 2)
        together = rng.random((k, m)) < rng.uniform(0.3, 0.9)  # who meets whom
        together[np.arange(k), rng.integers(m, size=k)] = True
        share = every_group_meets_its_share(together)
        p_hat = shortest_feasible(pairs_of(together))
        # Least squares with singular values from 1 to about 10: twelve digits. Elsewhere p-hat is a vertex of
        # other fractions with denominators up to 10, which differ from the formula by 1/100 at least.
        distance = np.abs(p_hat - formula(k, m)).max()
        assert (distance < 1e-9) == share
        assert share or distance > 1e-3
        seen[share] += 1
        if share:
            evidence.limit(p_hat @ p_hat, k * m / (k + m))
    assert min(seen.values()) >= 100


@pytest.mark.drops("meeting")
def test_one_token_that_meets_too_few():
    """Two important tokens, three others: the second meets one of three, less than its half."""
    p_hat = shortest_feasible(pairs_of(np.array([[True, True, True], [True, False, False]])))
    assert np.abs(p_hat - formula(2, 3)).max() > 0.05
    assert p_hat @ p_hat < 2 * 3 / 5


@pytest.mark.parametrize(("k_positive", "k_negative"), [(1, 0), (2, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize(("m", "length"), [(2, 2), (4, 3), (6, 4)])
def test_the_two_designs_have_it(k_positive, k_negative, m, length, evidence):
    k = k_positive + k_negative
    form = theory.orthonormal_max_margin(k_positive, k_negative, m, magnitude=0.8)
    values = 0.8 * np.concatenate([np.ones(k_positive), -np.ones(k_negative), np.zeros(m)])
    for corpus in (
        samplers.full_co_occurrence(k_positive, k_negative, m, length),
        samplers.marginal_balance(k_positive, k_negative, m, length, seed=k + m),
    ):
        together = np.array(
            [(corpus.counts.toarray()[:, i] > 0) @ corpus.counts[:, k:] > 0 for i in range(k)]
        )
        assert every_group_meets_its_share(together)
        p_hat = shortest_feasible(pairs_of(together))
        np.testing.assert_allclose(p_hat, formula(k, m), rtol=0, atol=1e-9)
        np.testing.assert_allclose(p_hat @ values, form.along_output, rtol=0, atol=1e-9)
        assert (abs(p_hat @ values) < 1e-9) == (k_positive == k_negative)
        evidence.limit(p_hat @ p_hat, form.squared_norm)


# --- the exact path ---


def distance_from_the_ray(corpus, values, start=None):
    """Largest sine of the angle between p and the line through p-hat, on the way to log t = 300."""
    n_important = np.count_nonzero(values)
    ray = formula(n_important, len(values) - n_important)
    start = np.zeros(len(values)) if start is None else start
    path = ts.gradient_flow(ts.AttentionClassifier(np.eye(len(values)), start, values), corpus, None, 300.0)
    moved = path.norm > 1e-2  # a step has an error of 1e-8 in a coordinate: below 1e-6 of these
    unit, ray = path.cls[moved] / path.norm[moved, None], ray / np.linalg.norm(ray)
    return np.linalg.norm(unit - np.outer(unit @ ray, ray), axis=1).max()


def signed(k_positive, k_negative, m, magnitude):
    return magnitude * np.concatenate([np.ones(k_positive), -np.ones(k_negative), np.zeros(m)])


@pytest.mark.parametrize("seed", range(50))
def test_under_marginal_balance_the_direction_is_exact_at_every_time(seed, evidence):
    rng = np.random.default_rng(seed)
    k_positive, k_negative, m, length = (
        rng.integers(1, 4),
        rng.integers(0, 4),
        rng.integers(2, 7),
        rng.integers(2, 6),
    )
    corpus = samplers.marginal_balance(int(k_positive), int(k_negative), int(m), int(length), seed=seed)
    counts, k = corpus.counts.toarray(), k_positive + k_negative
    assert (counts[:, :k].sum(axis=1) == 1).all()
    assert len(set(corpus.lengths)) == len(set(counts[:, :k].sum(0))) == len(set(counts[:, k:].sum(0))) == 1
    values = signed(k_positive, k_negative, m, rng.uniform(0.2, 4))
    start = [0.0, 0.5, -0.5][seed % 3] * formula(k, m)
    distance = distance_from_the_ray(corpus, values, start)
    assert distance < 1e-6
    evidence.limit(distance, 0.0)


@pytest.mark.drops("balance")
def test_full_co_occurrence_alone_has_the_limit_but_not_the_path():
    balanced = samplers.full_co_occurrence(2, 1, 4, 3)
    corpus = balanced[np.append(np.arange(len(balanced)), [0, 0, 0, 0])]  # one sequence five times
    assert distance_from_the_ray(corpus, signed(2, 1, 4, 1.0)) > 0.01
    path = ts.gradient_flow(
        ts.AttentionClassifier(np.eye(7), np.zeros(7), signed(2, 1, 4, 1.0)), corpus, None, 3000.0
    )
    assert ts.cosine(path.cls[-1], formula(3, 4)) > 0.99999


@pytest.mark.drops("magnitudes")
def test_unequal_magnitudes_leave_the_ray():
    values = signed(2, 1, 4, 1.0)
    values[0] = 2.0
    assert distance_from_the_ray(samplers.marginal_balance(2, 1, 4, 3), values) > 0.01


@pytest.mark.drops("start")
def test_another_start_is_not_on_the_ray():
    start = np.zeros(7)
    start[0] = 1.0
    assert distance_from_the_ray(samplers.marginal_balance(2, 1, 4, 3), signed(2, 1, 4, 1.0), start) > 0.01
