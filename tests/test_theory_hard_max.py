"""How hard a direction chooses, and how often one exists: against softmax written out and linear programs."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import softmax
from scipy.stats import binom

from tokensel import theory


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_and_is_attained_where_all_gaps_are_equal(seed):
    rng = np.random.default_rng(seed)
    count, length, norms = 2, 9, np.linspace(0, 40, 9)
    gaps = np.append(rng.uniform(0.3, 2, size=length - count), np.zeros(0))
    for gap, equal in ((gaps, False), (np.full(length - count, 0.4), True)):
        scores = np.concatenate([np.zeros(count), -gap])
        missing = np.array([softmax(norm * scores)[count:].sum() for norm in norms])
        bound = theory.hard_max_bound(norms, gap.min(), length, count)
        assert (missing <= bound * (1 + 1e-12)).all()  # softmax rounds
        if equal:  # the bound is the odds, not the share
            np.testing.assert_allclose(missing / (1 - missing), bound, rtol=1e-12)


def test_a_sequence_of_nothing_else_leaves_nothing():
    assert theory.hard_max_bound(1.0, margin=0.5, length=3, selected_count=3) == 0.0
    assert isinstance(theory.hard_max_bound(1.0, margin=0.5, length=3), float)


@pytest.mark.parametrize(("n_pairs", "dim"), [(1, 1), (5, 2), (12, 6), (30, 20), (1000, 480), (3, 8)])
def test_the_share_is_a_binomial_distribution_function(n_pairs, dim):
    # SciPy evaluates it as an incomplete beta function.
    np.testing.assert_allclose(
        theory.feasible_share(n_pairs, dim), binom.cdf(dim - 1, n_pairs - 1, 0.5), rtol=1e-10
    )


@pytest.mark.parametrize(("n_pairs", "dim"), [(5, 2), (8, 3)])
def test_the_share_is_that_of_linear_programs(n_pairs, dim):
    rng = np.random.default_rng(0)
    draws = 400
    feasible = 0
    for _ in range(draws):
        z = rng.normal(size=(n_pairs, dim))
        program = linprog(np.zeros(dim), A_ub=-z, b_ub=-np.ones(n_pairs), bounds=(None, None))
        feasible += program.status == 0
    share = theory.feasible_share(n_pairs, dim)
    # Four standard deviations of a binomial share.
    assert abs(feasible / draws - share) < 4 * np.sqrt(share * (1 - share) / draws)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.hard_max_bound(-1, 0.5, 3), "norm must not be negative"),
        (lambda: theory.hard_max_bound(np.nan, 0.5, 3), "norm must not be negative"),
        (lambda: theory.hard_max_bound(1, 0.0, 3), "margin must be a positive"),
        (lambda: theory.hard_max_bound(1, np.nan, 3), "margin must be a positive"),
        (
            lambda: theory.hard_max_bound(1, [0.5, 1], 3),
            r"margin must be a positive number, got \[0.5, 1.0\]",
        ),
        (lambda: theory.hard_max_bound(0, np.inf, 3), "margin must be finite"),
        (lambda: theory.hard_max_bound(1, 0.5, 2, 3), "length"),
        (lambda: theory.feasible_share(0, 1), "n_pairs"),
        (lambda: theory.feasible_share(1001, 1), "at most 1000"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
