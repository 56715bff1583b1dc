"""Proposition prop-trap-boundary: where one strong negative token can lose its class for ever.

The oracle for max-margin solutions is non-negative least squares on the pairs' hull; it knows no symmetry.
"""

import numpy as np
import pytest
from scipy.optimize import brentq, nnls

import tokensel as ts

ORIGIN = "beyond the paper"
SETTING = r"""$E_s=e_s+b_sv$ with $e_s$ orthonormal and orthogonal to $v$, $\lVert v\rVert=1$; values $b_+>0$
on $K_+$ positive tokens, $-b_-<0$ on one negative token, 0 on $M$ irrelevant ones; one sequence for each
important and each irrelevant token, of these two, labelled by the sign of the important value. $p$ follows
gradient flow."""
HYPOTHESES = {
    "above": r"Part 1: $b_->b_-^*=b_++\big(\frac1{K_+}+\frac2M\big)\frac1{b_+}$.",
    "below": r"Part 2: $b_-<b_-^*$.",
}
DESIGNS = [
    (1, 1, 1.0),
    (2, 4, 1.0),
    (3, 2, 0.5),
    (1, 5, 2.0),
    (4, 3, 0.7),
    (2, 2, 3.0),
    (5, 6, 1.5),
    (3, 1, 1.2),
]


def positive_solution(n_positive, n_irrelevant, positive_value):
    """The shortest p that scores every positive token one above every irrelevant one; e_s, then v."""
    n_tokens = n_positive + 1 + n_irrelevant
    e = np.eye(n_tokens + 1)
    z = np.array(
        [
            e[k] + positive_value * e[-1] - e[s]
            for k in range(n_positive)
            for s in range(n_positive + 1, n_tokens)
        ]
    )
    weights, _ = nnls(np.vstack([z.T, np.ones(len(z))]), np.append(np.zeros(n_tokens + 1), 1.0))
    nearest = weights @ z / weights.sum()
    p = nearest / (nearest @ nearest)
    assert (z @ p).min() >= 1 - 1e-9
    return p


def boundary(n_positive, n_irrelevant, positive_value):
    return positive_value + (1 / n_positive + 2 / n_irrelevant) / positive_value


def flow(trap, start, log_time=600.0):
    model = ts.AttentionClassifier(trap.model.embeddings, start, trap.model.output)
    return ts.gradient_flow(
        model,
        trap.corpus,
        until_norm=None,
        until_log_time=log_time,
        at_log_time=[log_time],
        tolerance=1e-6,
    )


def lost(path, corpus, n_positive):
    """In how many of the negative sequences attention is not on the negative token."""
    return (path.selection.tokens[corpus.labels < 0] != n_positive).sum()


@pytest.mark.parametrize("design", DESIGNS)
def test_the_wrong_pairs_become_slack_exactly_at_the_boundary(design, evidence):
    p = positive_solution(*design)
    n_positive, _, _ = design
    irrelevant = p[n_positive + 1]

    def slack(value):  # of the pairs (irrelevant, negative), beyond 1
        return irrelevant - p[n_positive] + value * p[-1] - 1

    measured = brentq(slack, 0, 100, xtol=1e-12)
    np.testing.assert_allclose(measured, boundary(*design), rtol=1e-9)
    assert ts.theory.trap_boundary(*design) == pytest.approx(boundary(*design), rel=1e-14)
    evidence.limit(measured, boundary(*design))


@pytest.mark.parametrize("design", DESIGNS)
def test_above_the_boundary_starts_around_the_ray_lose_the_class(design, evidence):
    p, value = positive_solution(*design), 1.2 * boundary(*design)
    n_positive, n_irrelevant, positive_value = design
    assert value > boundary(*design)
    trap = ts.traps.unequal_magnitudes(*design, negative_value=value)
    rng = np.random.default_rng(0)
    for _ in range(2):
        offset = rng.normal(size=len(p))
        path = flow(trap, 400 * p + offset / np.linalg.norm(offset), 3000.0)
        assert path.settled
        assert np.array_equal(path.selection.tokens, trap.selection.tokens)
        assert lost(path, trap.corpus, n_positive) == n_irrelevant
        product = np.exp(path.log_time[-1] + path.log_loss_gap[-1])
        predicted = 1 / (1 / n_positive + 1 / n_irrelevant + positive_value**2)
        assert predicted == pytest.approx(p @ p, rel=1e-9)
        assert product == pytest.approx(predicted, rel=1e-6)
        evidence.limit(product, predicted)


@pytest.mark.parametrize("design", DESIGNS)
def test_below_the_boundary_no_start_loses_the_class(design, evidence):
    p, value = positive_solution(*design), boundary(*design) / 1.2
    trap = ts.traps.unequal_magnitudes(*design, negative_value=value)
    rng = np.random.default_rng(1)
    starts = [30 * p, 30 * p + rng.normal(size=len(p)), 3 * rng.normal(size=len(p)), np.zeros(len(p))]
    # The trap's own ray, and its opposite: the positive class lags behind there.
    for start in [*starts, -30 * p]:
        path = flow(trap, start)
        assert path.settled
        assert lost(path, trap.corpus, design[0]) < design[1]
    evidence.holds(len(starts) + 1)


@pytest.mark.drops("above")
def test_just_below_even_the_farthest_start_finds_its_class():
    design = (2, 4, 1.0)
    trap = ts.traps.unequal_magnitudes(*design, negative_value=0.98 * boundary(*design))
    path = flow(trap, 1000 * positive_solution(*design), 10_000.0)
    assert path.settled
    assert lost(path, trap.corpus, 2) == 0


@pytest.mark.drops("below")
def test_just_above_a_start_can_lose_it():
    design = (2, 4, 1.0)
    trap = ts.traps.unequal_magnitudes(*design, negative_value=1.02 * boundary(*design))
    path = flow(trap, 1000 * positive_solution(*design), 10_000.0)
    assert path.settled
    assert lost(path, trap.corpus, 2) == 4
