"""Proposition "dual": the max-margin problem is a nearest-point problem.

Oracles: cvxpy with Clarabel for the primal and SciPy's non-negative least squares for the nearest point, both
written out here; HiGHS for the polytope of multipliers; and KKT points found by trying every set of pairs.
`ts.max_margin` is what they judge.
"""

import functools
import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog, nnls

import tokensel as ts

ORIGIN = "tool"
SETTING = (
    "Any corpus and any selection $\\sigma$ with at least one pair. Any embeddings in any dimension $d$, "
    "affinely dependent rows too."
)
HYPOTHESES = {
    "zero-outside": "$0$ is not in the convex hull of the pairs, so $z^*\\ne0$.",
    "independent": "For unique multipliers: the tight pairs are linearly independent.",
}
# Clarabel stops at residuals of 1e-8. A violation of that size in the constraints moves the product of the
# two lengths by as much times the sum of the multipliers over |p|^2, which is 1. But it measures residuals
# relative to the size of its own, rescaled data: a factor of a hundred is left for that.
CLARABEL = 1e-6
# Least squares in float64: 1e-16 times the square of the condition, which is below 1e3 (tested below).
ROUNDING = 1e-9


def shortest(z):
    """min |p|^2 / 2 subject to z_j.p >= 1, by Clarabel."""
    p = cp.Variable(z.shape[1])
    problem = cp.Problem(cp.Minimize(cp.sum_squares(p) / 2), [z @ p >= 1])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return p.value


def nearest(z):
    """Weights of the point of conv(z) nearest to the origin.

    With l = s w, w in the simplex, |sum l_j z_j|^2 + (s - 1)^2 is smallest at the nearest point for every s.
    """
    scale = np.linalg.norm(z, axis=1).mean()
    weights, _ = nnls(np.vstack([z.T / scale, np.ones(len(z))]), np.append(np.zeros(z.shape[1]), 1.0))
    return weights / weights.sum()


def feasible(z):
    program = linprog(np.zeros(z.shape[1]), A_ub=-z, b_ub=-np.ones(len(z)), bounds=(None, None))
    assert program.status in (0, 2)  # solved, or infeasible
    return program.status == 0


def draw(seed):
    """(embeddings, selection, differences) of a random corpus; None without pairs."""
    rng = np.random.default_rng([seed, 7])
    n_tokens = int(rng.integers(3, 10))
    corpus = ts.samplers.random_tokens(
        n_sequences=int(rng.integers(1, 7)), n_tokens=n_tokens, shortest=2, longest=4, seed=rng
    )
    selection = ts.Selection.of(corpus, rng.normal(size=n_tokens))
    if not len(selection.pairs):
        return None
    embeddings = rng.normal(size=(n_tokens, int(rng.integers(2, 12))))
    return embeddings, selection, embeddings[selection.pairs[:, 0]] - embeddings[selection.pairs[:, 1]]


@functools.cache
def instances():
    """Sixty draws (embeddings, selection, differences, solution), feasible by a linear program."""
    drawn = (draw(seed) for seed in itertools.count())
    met = itertools.islice((one for one in drawn if one is not None and feasible(one[2])), 60)
    return [(*one, ts.max_margin(*one[:2])) for one in met]


def extreme(z, p, cost):
    """The lambda >= 0 with sum lambda_j z_j = p that makes cost.lambda least."""
    program = linprog(cost, A_eq=z.T, b_eq=p, bounds=(0, None))
    assert program.status == 0
    return program.x


def test_draws_are_of_every_kind():
    """Affinely independent and dependent embeddings, one tight pair and many, slack pairs and none."""
    affine = [np.linalg.matrix_rank(np.column_stack([e, np.ones(len(e))])) == len(e) for e, *_ in instances()]
    assert 10 <= sum(affine) <= 50
    tight = [(len(solution.support_pairs), len(z)) for _, _, z, solution in instances()]
    assert sum(k < m for k, m in tight) >= 10
    assert sum(k == m > 1 for k, m in tight) >= 10
    assert max(np.linalg.norm(z, axis=1).max() / solution.margin for _, _, z, solution in instances()) < 1e3


def test_no_feasible_p_beats_the_nearest_point(evidence):
    """Weak duality for random feasible p and random points of the hull; equality at the two solutions."""
    rng = np.random.default_rng(0)
    for _, _, z, _ in instances():
        p = shortest(z)
        p = p / (z @ p).min()
        point = nearest(z) @ z
        for _ in range(20):
            w = p + rng.exponential() * rng.normal(size=len(p)) * np.linalg.norm(p) / 3
            if (z @ w).min() > 0:
                w = w / (z @ w).min()
                other = rng.dirichlet(np.full(len(z), 0.5)) @ z
                evidence.bound(1 - ROUNDING, np.linalg.norm(w) * np.linalg.norm(other))
        product = np.linalg.norm(p) * np.linalg.norm(point)
        assert 1 - ROUNDING <= product <= 1 + CLARABEL
        evidence.limit(product, 1.0)


def test_max_margin_is_the_nearest_point(evidence):
    for _, _, z, solution in instances():
        point = nearest(z) @ z
        expected = point / (point @ point)
        np.testing.assert_allclose(solution.cls, expected, atol=ROUNDING * np.linalg.norm(expected))
        assert solution.margin == pytest.approx(np.linalg.norm(point), rel=ROUNDING)
        # A product that exceeds 1 by a gap g leaves an angle of at most sqrt(2 g) between the two.
        assert ts.cosine(shortest(z), expected) >= 1 - CLARABEL
        evidence.limit(solution.margin, np.linalg.norm(point))


def test_a_direction_pays_for_its_angle(evidence):
    """min_j u.z_j <= gamma^2 u.p_hat, near the solution and far from it; attained by its own direction."""
    rng = np.random.default_rng(1)
    for _, _, z, _ in instances():
        point = nearest(z) @ z
        squared = point @ point
        for spread in (0, 0.01, 0.3, 3):
            u = point / np.sqrt(squared) + spread * rng.normal(size=len(point))
            u = u / np.linalg.norm(u)
            least, allowed = (z @ u).min(), u @ point
            assert least <= allowed + ROUNDING * np.sqrt(squared)
            if spread == 0:
                assert least == pytest.approx(np.sqrt(squared), rel=ROUNDING)
            elif least > 0:
                evidence.bound(least * (1 - ROUNDING), allowed)


def kkt_points(z):
    """All p = sum lambda_j z_j, lambda > 0 on independent pairs that p makes tight, p feasible."""
    found = []
    for size in range(1, min(len(z), z.shape[1]) + 1):
        for chosen in itertools.combinations(range(len(z)), size):
            gram = z[list(chosen)] @ z[list(chosen)].T
            if np.linalg.cond(gram) > 1e10:
                continue
            multipliers = np.linalg.solve(gram, np.ones(size))
            p = multipliers @ z[list(chosen)]
            if multipliers.min() > 0 and (z @ p).min() >= 1 - 1e-7:
                found.append(p)
    return found


def test_the_kkt_conditions_have_one_solution(evidence):
    """Every set of pairs is tried as the support; whatever satisfies the conditions is the same p."""
    tried = 0
    for _, _, z, solution in instances():
        if len(z) > 7:
            continue
        tried += 1
        points = kkt_points(z)
        assert points != []
        for p in points:
            np.testing.assert_allclose(p, solution.cls, atol=1e-6 * np.linalg.norm(p))
        evidence.holds()
    assert tried >= 20


def test_multipliers_sum_to_the_squared_norm(evidence):
    """Of all lambda >= 0 that name p-hat the multipliers have the largest sum, and HiGHS finds it."""
    for _, _, z, solution in instances():
        squared = solution.cls @ solution.cls
        largest = extreme(z, solution.cls, -np.ones(len(z)))
        # HiGHS keeps its constraints within 1e-7.
        assert largest.sum() == pytest.approx(squared, rel=1e-5)
        assert largest[z @ solution.cls > 1 + 1e-3].sum() <= 1e-3 * squared
        assert solution.duals.min() >= 0
        assert solution.duals.sum() == pytest.approx(squared, rel=ROUNDING)
        evidence.limit(largest.sum(), squared)


def test_multipliers_on_independent_pairs_are_unique(evidence):
    unique = 0
    for _, _, z, solution in instances():
        tight = z @ solution.cls <= 1 + 1e-6
        assert len(solution.duals) == tight.sum()
        if np.linalg.matrix_rank(z[tight]) == tight.sum():
            unique += 1
            squared = solution.cls @ solution.cls
            expected = np.linalg.lstsq(z[tight].T, solution.cls, rcond=None)[0]
            np.testing.assert_allclose(solution.duals, expected, atol=ROUNDING * squared)
            evidence.holds()
    assert unique >= 30


def test_pairs_without_a_multiplier_can_go(evidence):
    """Over the tight pairs alone, and over those with a positive multiplier, the solution is the same."""
    for _, selection, z, solution in instances():
        kept = np.flatnonzero((selection.pairs[:, None] == solution.support_pairs).all(axis=2).any(axis=1))
        for fewer in (kept, kept[solution.duals > 1e-9 * solution.duals.sum()]):
            point = nearest(z[fewer]) @ z[fewer]
            np.testing.assert_allclose(
                point / (point @ point), solution.cls, atol=ROUNDING * np.linalg.norm(solution.cls)
            )
        evidence.holds()


def test_a_common_factor_and_a_common_shift(evidence):
    rng = np.random.default_rng(3)
    for embeddings, selection, _, before in instances()[:30]:
        factor, shift = np.exp(rng.normal()), rng.normal(size=embeddings.shape[1])
        after = ts.max_margin(factor * embeddings + shift, selection)
        np.testing.assert_allclose(after.cls * factor, before.cls, atol=ROUNDING * np.linalg.norm(before.cls))
        assert after.duals.sum() * factor**2 == pytest.approx(before.duals.sum(), rel=ROUNDING)
        evidence.limit(after.margin, factor * before.margin)


@pytest.mark.drops("zero-outside")
@pytest.mark.parametrize("seed", range(20))
def test_with_zero_in_the_hull_no_p_is_feasible(seed):
    """Then the nearest point is zero: no p-hat, and the products of part 1 have no feasible p to speak of."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(4, 3))
    z = np.vstack([z, -rng.dirichlet(np.ones(4)) @ z])  # so that a convex combination of the five is zero
    assert np.linalg.norm(nearest(z) @ z) <= ROUNDING
    assert not feasible(z)
    tokens = np.vstack([np.zeros(3), -z])  # token 0 selected: its pairs are exactly z
    selection = ts.Selection(ts.Corpus.from_sequences([range(6)], labels=[1]), [0])
    with pytest.raises(ts.InfeasibleSelection) as caught:
        ts.max_margin(tokens, selection)
    combination = caught.value.weights @ (tokens[caught.value.pairs[:, 0]] - tokens[caught.value.pairs[:, 1]])
    assert np.linalg.norm(combination) <= ROUNDING


@pytest.mark.drops("independent")
def test_dependent_tight_pairs_have_many_multipliers():
    """Two selected tokens beside both others, orthonormal: each multiplier may be anything from 0 to 1/2."""
    z = np.eye(4)[[0, 0, 1, 1]] - np.eye(4)[[2, 3, 2, 3]]
    p = np.array([0.5, 0.5, -0.5, -0.5])
    np.testing.assert_array_equal(z @ p, 1)
    assert np.linalg.matrix_rank(z) == 3
    for j in range(4):
        assert extreme(z, p, np.eye(4)[j])[j] == pytest.approx(0, abs=1e-9)
        assert extreme(z, p, -np.eye(4)[j])[j] == pytest.approx(0.5, abs=1e-9)
