"""What is selected and how fast: closed forms against solvers, quadrature, and the flow itself.

Oracles share no code with the formulas: `max_margin` (cvxpy), the point of the pairs' hull nearest to the
origin by SciPy's non-negative least squares, mpmath's 40 digits, and SciPy's integrators and minimisers.
"""

import math

import mpmath
import numpy as np
import pytest
import scipy.optimize
import scipy.special

import tokensel as ts
from tokensel import samplers, theory

mpmath.mp.dps = 40


def shortest_feasible(z):
    """min |p| with p.z_j >= 1, from the point of the hull nearest to the origin, in units of the longest."""
    unit = np.linalg.norm(z, axis=1).max()
    z = z / unit
    weights, _ = scipy.optimize.nnls(
        np.vstack([z.T, np.ones(len(z))]), np.append(np.zeros(z.shape[1]), 1.0), maxiter=100 * len(z)
    )
    nearest = weights @ z / weights.sum()
    p_hat = nearest / (nearest @ nearest)
    assert (z @ p_hat).min() > 1 - 1e-9  # with it, p_hat is the solution: weights are its multipliers
    return p_hat / unit


def selecting_important(corpus, n_important):
    """The selection of the one important token of each sequence, by plain loops."""
    return ts.Selection(
        corpus, [next(s for s in range(n_important) if row[s]) for row in corpus.counts.toarray()]
    )


def signed(n_positive, n_negative, n_irrelevant, magnitude):
    return magnitude * np.concatenate([np.ones(n_positive), -np.ones(n_negative), np.zeros(n_irrelevant)])


def vector(form, n_positive, n_negative, n_irrelevant):
    numbers = [form.on_positive] * n_positive + [form.on_negative] * n_negative
    return np.array(numbers + [form.on_irrelevant] * n_irrelevant)


# 36 sizes (K+, K-, M, T): one class, unequal classes, T up to M + 1.
SIZES = [
    (k_positive, k_negative, m, t)
    for k_positive, k_negative in [(1, 0), (2, 0), (1, 1), (2, 1), (0, 3), (2, 2), (3, 1), (3, 3), (1, 4)]
    for m, t in [(2, 2), (3, 4), (4, 3), (6, 4)]
]


@pytest.mark.parametrize(("k_positive", "k_negative", "m", "t"), SIZES)
def test_orthonormal_closed_form(k_positive, k_negative, m, t):
    form = theory.orthonormal_max_margin(k_positive, k_negative, m, magnitude=0.7)
    expected, k = vector(form, k_positive, k_negative, m), k_positive + k_negative
    values = signed(k_positive, k_negative, m, 0.7)
    assert form.along_output == pytest.approx(expected @ values, rel=1e-13)
    assert form.effective_important == k
    for corpus in (
        samplers.full_co_occurrence(k_positive, k_negative, m, t),
        samplers.marginal_balance(k_positive, k_negative, m, t, seed=1),
    ):
        solution = ts.max_margin(np.eye(k + m), selecting_important(corpus, k))
        # The certificate allows 1e-6; the promised agreement is 1e-8.
        np.testing.assert_allclose(solution.cls, expected, rtol=0, atol=1e-8)
        assert 1 / solution.margin**2 == pytest.approx(form.squared_norm, rel=1e-8)


@pytest.mark.parametrize(("k_positive", "k_negative", "m", "t"), SIZES)
@pytest.mark.parametrize("magnitude", [0.05, 1.0, 20.0])
def test_one_step_closed_form(k_positive, k_negative, m, t, magnitude):
    k = k_positive + k_negative
    form = theory.one_step_max_margin(k_positive, k_negative, m, magnitude)
    embeddings = np.column_stack([np.eye(k + m), signed(k_positive, k_negative, m, magnitude)])
    z = np.array([embeddings[i] - embeddings[k + j] for i in range(k) for j in range(m)])
    expected = shortest_feasible(z)
    computed = np.append(vector(form, k_positive, k_negative, m), form.along_output)
    # NNLS solves least squares with singular values from 1 to about 20 |z|: ten digits remain.
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-9)
    assert form.squared_norm == pytest.approx(computed @ computed, rel=1e-13)
    assert form.squared_norm == pytest.approx(
        form.effective_important * m / (form.effective_important + m), rel=1e-13
    )
    corpus = samplers.full_co_occurrence(k_positive, k_negative, m, t)
    if magnitude == 1.0 and len(corpus) < 100:
        solution = ts.max_margin(embeddings, selecting_important(corpus, k))
        np.testing.assert_allclose(solution.cls, computed, rtol=0, atol=1e-8)


def test_one_step_closed_form_keeps_its_digits():
    for magnitude in (1e-200, 1e-9, 1.0, 1e9, 1e200):
        form = theory.one_step_max_margin(3, 2, 7, magnitude)
        b, k, delta, m = mpmath.mpf(magnitude), 5, 1, 7
        with mpmath.workdps(900):  # the formula as it stands cancels
            effective = k - b**2 * delta**2 / (1 + b**2 * k)
            along = b * delta / (1 + b**2 * k) * m / (effective + m)
        assert form.effective_important == pytest.approx(float(effective), rel=1e-14)
        assert form.along_output == pytest.approx(float(along), rel=1e-14, abs=0)
    assert theory.one_step_max_margin(3, 2, 7, 0.0) == theory.orthonormal_max_margin(3, 2, 7, 0.0)
    # One class alone: cancelling 2 - 2 B^2 2 / (1 + 2 B^2) = 2 / (1 + 2 B^2).
    assert theory.one_step_max_margin(2, 0, 7, 1e9).effective_important == pytest.approx(1e-18, rel=1e-14)


@pytest.mark.parametrize(("k_positive", "m", "b"), [(1, 1, 1.0), (2, 4, 1.0), (3, 2, 0.4), (5, 7, 2.5)])
def test_trap_boundary_is_where_the_wrong_pair_turns_slack(k_positive, m, b):
    """The max-margin solution of the right pairs alone scores wrong pairs at 1 exactly at the boundary."""
    at = theory.trap_boundary(k_positive, m, b)
    e = np.eye(k_positive + m + 2)
    positive = e[:k_positive] + b * e[-1]
    irrelevant = e[k_positive : k_positive + m]
    p_hat = shortest_feasible((positive[:, None] - irrelevant[None]).reshape(-1, len(e)))
    for beta, slack in [(at, 0.0), (1.1 * at, 1.0), (0.9 * at, -1.0)]:
        wrong = irrelevant - (e[-2] - beta * e[-1])
        assert np.sign(np.round(wrong @ p_hat - 1, 9)).tolist() == [slack] * m


def random_margins(rng):
    n = rng.integers(1, 9)
    others = rng.normal(size=n) * 3
    return others + rng.exponential(size=n) * 2 + 1e-3, others


@pytest.mark.parametrize("seed", range(25))
def test_good_start_against_mpmath(seed):
    rng = np.random.default_rng(seed)
    best, others = random_margins(rng)
    n = len(best)

    def loss(x):
        return mpmath.log(1 + mpmath.exp(-mpmath.mpf(x)))

    threshold = min(loss(m) - loss(b) for b, m in zip(best, others, strict=True)) / n
    # Losses of order 1 to 10 are subtracted: an absolute error of a few 1e-15.
    assert theory.good_start_threshold(best, others) == pytest.approx(float(threshold), abs=1e-14)
    gap = float(threshold) * rng.uniform(0.01, 0.95)
    shares = []
    for b, m in zip(best, others, strict=True):
        b, m = mpmath.mpf(float(b)), mpmath.mpf(float(m))
        inverse = -mpmath.log(mpmath.exp(n * mpmath.mpf(gap) + loss(b)) - 1)
        shares.append((inverse - m) / (b - m))
    theta = theory.good_start_attention(gap, best, others)
    assert theta == pytest.approx(float(min(shares)), rel=1e-9)  # best - others may be as small as 1e-3
    assert 0 < theta < 1
    with pytest.raises(ValueError, match="loss_gap must be below good_start_threshold"):
        theory.good_start_attention(theory.good_start_threshold(best, others), best, others)


def test_sequences_of_important_tokens_alone_do_not_count():
    mixed = theory.good_start_threshold([1.0, 2.0], [0.0, -np.inf])
    assert mixed == theory.good_start_threshold([1.0, 1.0], [0.0, 0.0])
    assert theory.good_start_threshold([1.0], [-np.inf]) == np.inf
    assert theory.good_start_attention(5.0, [1.0], [-np.inf]) == 1.0
    assert theory.good_start_attention(0.0, [1.0], [0.0]) == pytest.approx(1.0, rel=1e-15)


def loss_gap(counts, labels, scores, values, limit):
    """Loss above its limit, by SciPy."""
    attention = scipy.special.softmax(
        np.where(counts > 0, scores + np.log(np.maximum(counts, 1)), -np.inf), axis=1
    )
    return np.logaddexp(0, -labels * (attention @ values)).mean() - np.logaddexp(0, -limit).mean()


@pytest.mark.parametrize("seed", range(6))
def test_the_bounds_hold_along_the_flow(seed):
    """From a random start, and from a good one, whatever the design."""
    rng = np.random.default_rng(seed)
    corpus = samplers.one_distinct_important_token(n_sequences=10, n_positive=2, n_negative=1, seed=rng)
    counts, labels, important = corpus.counts.toarray(), corpus.labels, np.arange(9) < 3
    values = np.concatenate([rng.uniform(0.3, 2, 3) * [1, 1, -1], np.zeros(6)])
    best, others = theory.advantages(corpus.counts, labels, values, important)
    np.testing.assert_array_equal(best, (counts > 0) @ np.abs(values))
    np.testing.assert_array_equal(others, 0)
    selection = selecting_important(corpus, 3)
    pairs = selection.pairs
    p_hat = shortest_feasible(np.eye(9)[pairs[:, 0]] - np.eye(9)[pairs[:, 1]])
    # E u = 1 on important tokens + c, for any c: the shortest such u.
    u = important - important.mean()
    threshold = theory.good_start_threshold(best, others)
    for start in (rng.normal(size=9), 12 * p_hat):
        path = ts.gradient_flow(ts.AttentionClassifier(np.eye(9), start, values), corpus, until_norm=60.0)
        gap = loss_gap(counts, labels, start, values, best)
        attention = scipy.special.softmax(
            np.where(counts > 0, start, -np.inf) + np.log(counts + (counts == 0)), axis=1
        )
        q_0 = (attention @ important).min()
        bounds = [theory.log_loss_gap_bound(path.log_time, gap, q_0, p_hat @ p_hat)]
        if gap < threshold:
            theta = theory.good_start_attention(gap, best, others)
            assert theta <= q_0 + 1e-12
            bounds.append(theory.log_loss_gap_bound(path.log_time, gap, theta, u @ u))
        # The loss at the start is a difference of losses of order 1: relative error 1e-16 / gap, as of rows.
        rounding = 1e-8 + 1e-14 / gap
        for bound in bounds:
            assert bound[0] == pytest.approx(math.log(gap), rel=1e-12)
            assert (path.log_loss_gap <= bound + rounding).all()
        late = path.cls[5]
        now = scipy.special.softmax(
            np.where(counts > 0, late, -np.inf) + np.log(counts + (counts == 0)), axis=1
        )
        for k in range(3):
            left = theory.unselected_attention_bound(path.log_loss_gap[5], len(corpus), abs(values[k]))
            assert 1 - (now @ important)[counts[:, k] > 0].min() <= left
    assert gap < threshold  # the second start is good


def test_log_loss_gap_bound_in_digits():
    d, theta, u = mpmath.mpf("0.3"), mpmath.mpf("0.2"), mpmath.mpf("2.4")
    for log_time in (-30.0, 0.0, 5.5, 3000.0):
        expected = -mpmath.log(1 / d + theta**2 * mpmath.exp(log_time) / u)
        assert theory.log_loss_gap_bound(log_time, 0.3, 0.2, 2.4) == pytest.approx(float(expected), rel=1e-14)
    assert theory.log_loss_gap_bound(-np.inf, 0.3, 0.2, 2.4) == pytest.approx(math.log(0.3), rel=1e-15)


def late_instance(seed):
    """The path to log time 1000, its limit, and the tight pairs with their coefficients.

    What is left of the approach falls like exp(-c log t): c is the least slack, or the least curvature of the
    function that `late_offset` minimises. Instances are drawn until c > 0.1, so 1e-11 is left at log t = 250.
    """
    rng = np.random.default_rng(seed)
    approach = 0
    while approach < 0.1:
        corpus = samplers.one_distinct_important_token(10, 2, 1, 4, longest=5, seed=rng)
        values = np.concatenate([rng.uniform(0.3, 2, 3) * [1, 1, -1], np.zeros(4)])
        embeddings = np.eye(7) + rng.normal(size=(7, 7)) / 20
        selection = selecting_important(corpus, 3)
        z = embeddings[selection.pairs[:, 0]] - embeddings[selection.pairs[:, 1]]
        p_hat = shortest_feasible(z)
        slack = z @ p_hat - 1
        tight = slack < 1e-9
        z, coefficients = z[tight], selection.pair_coefficients(values)[tight]
        multipliers = coefficients * np.exp(-z @ theory.late_offset(z, coefficients, p_hat))
        curvature = np.linalg.eigvalsh(z.T @ (multipliers[:, None] * z))
        approach = min(slack[~tight].min(initial=np.inf), curvature[curvature > 1e-9].min())
    output = np.linalg.solve(embeddings, values)
    model = ts.AttentionClassifier(embeddings, rng.normal(size=7), output)
    path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=1000.0, at_log_time=[250])
    assert (path.selection.tokens == selection.tokens).all()
    return path, p_hat, z, coefficients


@pytest.mark.parametrize("seed", range(24))
def test_second_order_of_the_flow(seed):
    path, p_hat, z, coefficients = late_instance(seed)
    offset = theory.late_offset(z, coefficients, p_hat)
    minimum = scipy.optimize.minimize(
        lambda x: (coefficients * np.exp(-z @ (z.T @ x))).sum() + p_hat @ z.T @ x,
        np.zeros(len(z)),
        method="BFGS",
        options={"gtol": 1e-10},
    ).x
    # BFGS ends near the root of the rounding of the height: 1e-7 in x.
    np.testing.assert_allclose(offset, z.T @ minimum, atol=1e-5)
    np.testing.assert_allclose((coefficients * np.exp(-z @ offset)) @ z, p_hat, atol=1e-12)

    left = path.cls - p_hat * path.log_time[:, None].clip(0)
    project = np.linalg.pinv(z) @ z
    # The flow's tolerance is 1e-8 a step, of a few hundred steps that attract each other.
    np.testing.assert_allclose(left[-1] @ project, offset, atol=1e-6)
    constant = theory.direction_constant(left[1], p_hat)  # seen at log t = 250
    assert constant >= theory.direction_constant(offset, p_hat) - 1e-6
    along = path.cls[-1] / path.norm[-1]
    distance = ((along - p_hat / np.linalg.norm(p_hat)) ** 2).sum() / 2  # 1 - cos, without cancellation
    assert distance * 1000.0**2 == pytest.approx(constant, rel=0.02)  # O(1 / log t)
    law = theory.late_flow(path.log_time[-1], p_hat @ p_hat)
    assert path.log_loss_gap[-1] == pytest.approx(law.log_loss_gap, abs=1e-4)
    assert path.norm[-1] == pytest.approx(law.norm, rel=0.02)


def test_late_flow_takes_arrays():
    law = theory.late_flow([100.0, 1000.0], 4.0)
    np.testing.assert_allclose(law.log_gradient_norm, np.log(2.0) - [100, 1000], rtol=1e-15)
    np.testing.assert_allclose(law.log_loss_gap, np.log(4.0) - [100, 1000], rtol=1e-15)
    np.testing.assert_array_equal(law.norm, [200, 2000])


def test_late_offset_has_dependent_pairs_and_far_coefficients():
    """The design with all pairs: their differences are dependent. One coefficient far from the others."""
    z = np.array([np.eye(5)[k] - np.eye(5)[s] for k in (0, 1) for s in (2, 3, 4)])
    p_hat = np.array([0.6, 0.6, -0.4, -0.4, -0.4])
    coefficients = np.array([1e-9, 1, 2, 3, 1, 1e-3])
    offset = theory.late_offset(z, coefficients, p_hat)
    np.testing.assert_allclose((coefficients * np.exp(-z @ offset)) @ z, p_hat, atol=1e-12)
    assert offset.sum() == pytest.approx(0, abs=1e-12)  # in the span


def test_late_offset_without_a_limit():
    """z = (1, 0), (1, 1): the solution (1, 0) needs the first alone, the offset grows like log log t."""
    with pytest.raises(ValueError, match="positive weights on all of them"):
        theory.late_offset([[1, 0], [1, 1]], [1, 1], [1, 0])


def test_direction_constant():
    rng = np.random.default_rng(0)
    offset, cls = rng.normal(size=6), rng.normal(size=6)
    sine = math.sqrt(1 - ts.cosine(offset, cls) ** 2)
    expected = offset @ offset * sine**2 / (2 * cls @ cls)
    assert theory.direction_constant(offset, cls) == pytest.approx(expected, rel=1e-12)
    assert theory.direction_constant(cls * 3, cls) == pytest.approx(0, abs=1e-28)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: theory.orthonormal_max_margin(0, 0, 3), ValueError, "must not both be 0"),
        (lambda: theory.orthonormal_max_margin(1, 2.0, 3), TypeError, "n_negative must be a whole number"),
        (
            lambda: theory.one_step_max_margin(1, 1, 0, 1),
            ValueError,
            "n_irrelevant must be at least 1, got 0",
        ),
        (lambda: theory.one_step_max_margin(1, 1, 3, -1.0), ValueError, "magnitude must be at least 0"),
        (lambda: theory.trap_boundary(1, 1, 0.0), ValueError, r"positive_value must be positive, got 0\.0"),
        (lambda: theory.good_start_threshold([1], [1]), ValueError, "best must be finite and above others"),
        (lambda: theory.good_start_threshold([], []), ValueError, "one number a sequence"),
        (lambda: theory.good_start_threshold([1], [np.nan]), ValueError, r"sequence 0 they are 1\.0 and nan"),
        (lambda: theory.good_start_attention(-0.1, [1.0], [0.0]), ValueError, "loss_gap must be at least 0"),
        (lambda: theory.log_loss_gap_bound(0, 0, 1, 1), ValueError, "loss_gap must be positive, got 0"),
        (
            lambda: theory.log_loss_gap_bound(0, 1, 1.5, 1),
            ValueError,
            r"attention must be at most 1, got 1\.5",
        ),
        (lambda: theory.log_loss_gap_bound(np.inf, 1.0, 1.0, 1.0), ValueError, "log_time must be finite"),
        (lambda: theory.late_flow([0.0, np.nan], 1.0), ValueError, "log_time must be finite"),
        (lambda: theory.late_flow(0.0, -1), ValueError, "squared_norm must be positive, got -1"),
        (lambda: theory.unselected_attention_bound(np.nan, 3, 1), ValueError, "log_loss_gap must not be NaN"),
        (lambda: theory.direction_constant([1.0], [0.0]), ValueError, "cls must not be zero"),
        (lambda: theory.direction_constant([1.0], [0.0, 1.0]), ValueError, "vectors of one length"),
        (lambda: theory.direction_constant([np.inf], [1.0]), ValueError, "offset and cls must be finite"),
        (
            lambda: theory.late_offset([1.0], [1.0], [1.0]),
            ValueError,
            r"differences must have shape \(k, d\)",
        ),
        (lambda: theory.late_offset([[1.0]], [1.0, 2.0], [1.0]), ValueError, r"shapes \(1,\) and \(1,\)"),
        (lambda: theory.late_offset([[1.0]], [0.0], [1.0]), ValueError, "coefficients must be positive"),
        (lambda: theory.late_offset([[1.0], [2.0]], [1, 1], [1]), ValueError, "for pair 1 it is 2"),
    ],
)
def test_wrong_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"counts": [1, 2]}, r"counts must have shape \(n, S\)"),
        ({"counts": 3}, r"counts must have shape \(n, S\)"),
        ({"counts": np.ones((1, 2, 3))}, r"counts must have shape \(n, S\)"),
        ({"labels": [1, 0]}, "labels must be 2 numbers"),
        ({"values": [0.5, -2.0, np.nan]}, "values must be 3 finite numbers"),
        ({"important": [0, 1]}, "important must be 3 times True or False"),
        ({"important": [True, False, False]}, "but sequence 1 holds none"),
        ({"values": [0.1, -2.0, 0.1]}, r"in sequence 0 an important token has y b = 0\.1 and another 0\.1"),
    ],
)
def test_advantages_say_what_is_wrong(changed, words):
    right = {
        "counts": [[1, 0, 2], [0, 1, 1]],
        "labels": [1, -1],
        "values": [0.5, -2.0, 0.1],
        "important": [True, True, False],
    }
    with pytest.raises(ValueError, match=words):
        theory.advantages(**right | changed)
