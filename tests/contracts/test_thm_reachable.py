"""Theorem thm-reachable: which selections gradient flow can reach, and which no start reaches.

The oracle for the max-margin solution is the point of the pairs' hull nearest to the origin, by SciPy's
non-negative least squares; independence is a rank by singular values. Selections are drawn at random: most
are not what the labels want best.
"""

import functools

import numpy as np
import pytest
from scipy.optimize import nnls

import tokensel as ts

ORIGIN = "beyond the paper"
SETTING = r"""Any corpus, embeddings $E$ and output vector $v$, both fixed; $p$ follows gradient flow.
$\sigma$ is a selection with $J\ne\emptyset$ and (MM) feasible; *tight* pairs are those of $J$ with
$\hat p_\sigma\cdot z_j=1$. Part 1 speaks of starts near the ray through $\hat p_\sigma$ and far out; part 2
of any start."""
HYPOTHESES = {
    "tied": r"$\hat p_\sigma\cdot(E_{\sigma(i)}-E_s)>0$ also where the two values are equal.",
    "positive": r"Part 1: $\Gamma_j>0$ on the tight pairs.",
    "independent": r"Part 2: the tight $z_j$ are linearly independent, and one has $\lambda_j>0>\Gamma_j$.",
    "norm": r"Part 2: the norm $\lVert p(t)\rVert$ tends to infinity.",
}
FAR = 3000.0  # in log time


def shortest_feasible(z):
    """min |p| with p.z_j >= 1, by least squares of [Z'; 1'] l = [0; 1] over l >= 0; None if there is none."""
    scale = np.linalg.norm(z, axis=1).mean()
    weights, _ = nnls(np.vstack([z.T / scale, np.ones(len(z))]), np.append(np.zeros(z.shape[1]), 1.0))
    nearest = weights @ z / weights.sum()
    if nearest @ nearest < 1e-16 * scale**2:
        return None
    p = nearest / (nearest @ nearest)
    return p if (z @ p).min() >= 1 - 1e-8 else None


def multipliers(z_tight, p_hat):
    """The coefficients of p_hat in the tight z's; they are unique where these are independent."""
    return np.linalg.lstsq(z_tight.T, p_hat, rcond=None)[0]


@functools.cache
def instance(seed):
    """Corpus, embeddings, output, selection, p_hat, slack, kind: what part of the theorem speaks of it."""
    rng = np.random.default_rng(seed)
    corpus = ts.samplers.random_tokens(n_sequences=3, n_tokens=7, shortest=2, longest=4, seed=rng)
    embeddings, output = rng.normal(size=(7, 8)), rng.normal(size=8) / 3
    rows = np.split(corpus.counts.indices, corpus.counts.indptr[1:-1])
    selection = ts.Selection(corpus, [rng.choice(row) for row in rows])
    if len(selection.pairs) == 0:
        return None
    z = embeddings[selection.pairs[:, 0]] - embeddings[selection.pairs[:, 1]]
    p_hat = shortest_feasible(z)
    if p_hat is None:
        return None
    # Values of Gaussian embeddings are all different: J is all pairs, no pair is tied.
    gamma, gaps = selection.pair_coefficients(embeddings @ output), z @ p_hat
    tight = gaps < 1 + 1e-7
    slack = min((gaps[~tight] - 1).min(initial=1.0), 1.0)
    if slack < 0.1:  # the theorem's distance grows like 1/slack: leave out what would take too long
        return None
    if (gamma[tight] > 0).all():
        return corpus, embeddings, output, selection, p_hat, slack, "trap" if (gamma < 0).any() else "wanted"
    independent = np.linalg.matrix_rank(z[tight]) == tight.sum()
    if independent and ((multipliers(z[tight], p_hat) > 1e-7) & (gamma[tight] < 0)).any():
        return corpus, embeddings, output, selection, p_hat, slack, "unreachable"
    return None


def of_kind(kind, number):
    found = (seed for seed in range(2000) if instance(seed) is not None and instance(seed)[-1] == kind)
    return [next(found) for _ in range(number)]


def flow(corpus, embeddings, start, output, *log_times):
    return ts.gradient_flow(
        ts.AttentionClassifier(embeddings, start, output),
        corpus,
        until_norm=None,
        until_log_time=log_times[-1],
        at_log_time=log_times,
        tolerance=1e-6,
    )


def far_out(seed, p_hat, slack):
    """A start of the theorem: a point in the unit ball around R p_hat."""
    rng = np.random.default_rng([seed, 1])
    offset = rng.normal(size=len(p_hat))
    return 40 / slack * p_hat + rng.uniform() * offset / np.linalg.norm(offset)


@pytest.mark.parametrize(
    ("kind", "place"), [("trap", k) for k in range(20)] + [("wanted", k) for k in range(4)]
)
def test_starts_far_along_the_ray_stay(kind, place, evidence):
    seed = of_kind(kind, place + 1)[-1]
    corpus, embeddings, output, selection, p_hat, slack, _ = instance(seed)
    # In log time: well beyond the time that the distance stands for, and a third of it.
    times = np.array([1, 3]) * (40 / slack + FAR / 3)
    path = flow(corpus, embeddings, far_out(seed, p_hat, slack), output, *times)
    assert path.settled
    assert np.array_equal(path.selection.tokens, selection.tokens)
    # |p - p_hat log t| = O(log log t): it may not grow by more than log log t does. (A multiple of log t
    # would grow threefold.) Rounding: the flow's tolerance, 1e-6, times |p|.
    early, late = (
        np.linalg.norm(path.cls[np.argmin(abs(path.log_time - time))] - p_hat * time) for time in times
    )
    evidence.bound(late, early * np.log(times[1]) / np.log(times[0]) + 1e-6 * path.norm[-1])
    product = np.exp(path.log_time[-1] + path.log_loss_gap[-1])
    z = embeddings[selection.pairs[:, 0]] - embeddings[selection.pairs[:, 1]]
    assert (multipliers(z[z @ p_hat < 1 + 1e-7], p_hat) > 1e-3).all()
    # So rho converges, and what is left is a negative power of t, far below the tolerance of the flow.
    assert product == pytest.approx(p_hat @ p_hat, rel=1e-6)
    evidence.limit(product, p_hat @ p_hat)


def test_a_tight_pair_without_multiplier_costs_log_log_t_and_no_more(evidence):
    """The worst case of part 1: z = (1, 0) and (1, 1) are tight and wanted, p_hat = (1, 0) is the first."""
    corpus, output = ts.Corpus.from_sequences([[0, 1, 2]], [1]), np.array([1.0, 0])
    embeddings, p_hat = np.array([[1.0, 1], [0, 1], [0, 0]]), np.array([1.0, 0])
    z = embeddings[0] - embeddings[1:]
    np.testing.assert_array_equal(z @ p_hat, 1)
    np.testing.assert_allclose(shortest_feasible(z), p_hat, atol=1e-12)
    assert (ts.Selection(corpus, [0]).pair_coefficients(embeddings @ output) > 0).all()
    path = flow(corpus, embeddings, 40 * p_hat + [0.3, 0.4], output, 1e4)
    assert path.selection.tokens.tolist() == [0]
    offset = path.cls[-1] - 1e4 * p_hat
    # The second pair's force falls like 1/(log t - 40), so its offset is off by about 40/log t.
    assert abs(offset[1] - np.log(1e4)) < 2 * 40 / 1e4
    evidence.limit(offset[1], np.log(1e4))
    # What t (L - L_sigma) lacks is 1/log^2 t = 1e-8.
    product = np.exp(path.log_time[-1] + path.log_loss_gap[-1])
    assert product == pytest.approx(p_hat @ p_hat, abs=1e-7)
    evidence.limit(product, p_hat @ p_hat)


@pytest.mark.parametrize("place", range(10))
def test_no_start_goes_where_a_support_pair_is_unwanted(place, evidence):
    seed = of_kind("unreachable", place + 1)[-1]
    corpus, embeddings, output, _, p_hat, slack, _ = instance(seed)
    for start in (far_out(seed, p_hat, slack), np.zeros(8)):
        path = flow(corpus, embeddings, start, output, 40 / slack + 1000)
        # A direction that converges is by then within a few log log t / log t = 0.007; none is near.
        assert path.status == "stationary" or ts.cosine(path.cls[-1], p_hat) < 1 - 1e-3
    evidence.holds()


@pytest.mark.drops("positive")
def test_a_token_that_the_label_does_not_want_is_left():
    """One sequence, values 1/2, 0, -1/5, orthonormal embeddings: token 1 is left from its own direction."""
    corpus, output = ts.Corpus.from_sequences([[0, 1, 2]], [1]), np.array([0.5, 0, -0.2])
    p_hat = shortest_feasible(np.array([[-1.0, 1, 0], [0, 1, -1]]))
    gamma = ts.Selection(corpus, [1]).pair_coefficients(output)
    assert gamma[0] < 0 < gamma[1]
    for distance in (1, 3, 10, 30):
        start = distance * p_hat + 0.5 * np.array([-1, 1, 0]) / np.sqrt(2)
        path = flow(corpus, np.eye(3), start, output, 300.0)
        assert path.settled
        assert path.selection.tokens.tolist() == [0]


@pytest.mark.drops("tied")
def test_a_token_of_equal_value_may_run_ahead_of_the_selected_one():
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    embeddings, output = np.array([[1.0, 1], [2, 1], [0, 0]]), np.array([0.0, 1])
    p_hat = shortest_feasible(embeddings[[0]] - embeddings[[2]])
    assert p_hat @ (embeddings[0] - embeddings[1]) < 0
    assert ts.Selection(corpus, [0]).pair_coefficients(embeddings @ output).tolist()[1] > 0
    for distance in (3, 30, 300):
        path = flow(corpus, embeddings, distance * p_hat, output, 1000.0)
        assert path.selection.tokens.tolist() == [1]


@pytest.mark.drops("independent")
def test_forces_along_dependent_pairs_make_up_for_an_unwanted_one():
    """Two sequences {a, c, d}, {b, c, d} of opposite labels: z_ac + z_bd = z_ad + z_bc. By symmetry p stays
    on the ray, although p_hat = (z_ac + z_bd)/2 has two multipliers on unwanted pairs."""
    corpus = ts.Corpus.from_sequences([[0, 2, 3], [1, 2, 3]], [1, -1])
    output = np.array([0.9, -0.9, 1.0, -1.0])
    selection = ts.Selection(corpus, [0, 1])
    z = np.eye(4)[selection.pairs[:, 0]] - np.eye(4)[selection.pairs[:, 1]]
    p_hat, gamma = shortest_feasible(z), selection.pair_coefficients(output)
    np.testing.assert_allclose(z @ p_hat, 1)
    np.testing.assert_allclose((z[0] + z[3]) / 2, p_hat, atol=1e-12)
    assert gamma[0] < 0
    assert gamma[3] < 0
    path = flow(corpus, np.eye(4), 10 * p_hat, output, FAR)
    assert path.settled
    assert ts.cosine(path.cls[-1], p_hat) > 1 - 1e-9


@pytest.mark.drops("norm")
def test_a_flow_that_stops_may_stop_on_the_ray():
    """The two-token cycle with values 1/2 and -3/2: the flow stops at f = 0, that is p = (log 3) p_hat."""
    corpus, output = ts.samplers.two_token_cycle(), np.array([0.5, -1.5])
    assert ts.Selection(corpus, [0, 0]).pair_coefficients(output)[0] < 0
    path = ts.gradient_flow(ts.AttentionClassifier(np.eye(2), [0.1, -0.1], output), corpus)
    assert path.status == "stationary"
    np.testing.assert_allclose(path.cls[-1], np.log(3) * np.array([0.5, -0.5]), atol=1e-6)


def test_the_saddle_in_the_coordinates_of_its_proof():
    """With u = e^-x1 and r = e^(x1-x2), up to a change of time, u' = -u (1 - 3r/4 - 3ru/4) and
    r' = r (-1/2 + 19r/8 + 51ru/8): compared with the package's gradient."""
    embeddings = np.array([[0, 0, 1.0], [-1, 0, 1], [-1.5, -2, 1]])
    output, corpus = np.array([1.0, -1.0, 0.0]), ts.Corpus.from_sequences([[0, 1, 2]], [1])
    rng = np.random.default_rng(0)
    for _ in range(20):
        p = np.append(rng.normal(size=2), 0.0)
        scores = embeddings @ p
        gradient = ts.score_space.gradients(corpus, scores, embeddings @ output).scores.numpy()
        speed = embeddings @ (embeddings.T @ -gradient)  # of the scores
        x, rate = scores[0] - scores[1:], speed[0] - speed[1:]
        u, r = np.exp(-x[0]), np.exp(x[0] - x[1])
        measured = np.array([-u * rate[0], r * (rate[0] - rate[1])])
        field = np.array([-u * (1 - 0.75 * r - 0.75 * r * u), r * (-0.5 + 19 / 8 * r + 51 / 8 * r * u)])
        ratio = measured @ field / (field @ field)
        assert ratio > 0
        np.testing.assert_allclose(measured, ratio * field, rtol=1e-10, atol=1e-14)
        # Off the curve y = 1 the flow leaves it: (log y)' = (y - 1)(1 + 3u)/(2 + 2u).
        y = 19 / 4 * r * (1 + u)
        growth = field[1] / r + field[0] / (1 + u)
        np.testing.assert_allclose(growth, (y - 1) * (1 + 3 * u) / (2 + 2 * u), rtol=1e-9, atol=1e-12)


def test_starts_on_the_curve_of_the_saddle_follow_it():
    """e^-x2 (1 + e^x1) = 4/19, for any x1. An error of the start grows like t^0.6: followed to log t = 12."""
    embeddings = np.array([[0, 0, 1.0], [-1, 0, 1], [-1.5, -2, 1]])
    output, corpus = np.array([1.0, -1.0, 0.0]), ts.Corpus.from_sequences([[0, 1, 2]], [1])
    for x in (-2.0, 0.0, 3.0):
        second = np.log(19 / 4) + np.logaddexp(0, x)
        start = np.array([x, (second - 1.5 * x) / 2, 0.0])
        model = ts.AttentionClassifier(embeddings, start, output)
        path = ts.gradient_flow(
            model, corpus, until_norm=None, until_log_time=12.0, at_log_time=[12.0], tolerance=1e-11
        )
        gaps = path.cls[-1] @ (embeddings[[0]] - embeddings[1:]).T
        # 1e-11 a step, a thousand steps, times e^(0.6 * 12).
        np.testing.assert_allclose(gaps[1] - gaps[0], np.log(19 / 4) + np.log1p(np.exp(-gaps[0])), atol=1e-4)
