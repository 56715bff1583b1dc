"""`gradient_flow`, against SciPy on the plain equation, closed forms, mpmath and `max_margin`."""

import itertools

import mpmath as mp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import torch
from scipy.special import expit

import tokensel as ts
from tokensel import flow as flow_module
from tokensel import traps


def array(tensor):
    return tensor.detach().numpy()


def product(path):
    """log t(L - L_sigma) at the end of a path."""
    return np.exp(path.log_time[-1] + path.log_loss_gap[-1])


def random_model(seed, dim=None, **sizes):
    rng = np.random.default_rng(seed)
    n_tokens = int(rng.integers(4, 11))
    dim = dim or n_tokens + int(rng.integers(-2, 4))
    sizes = {"n_sequences": 6, "shortest": 2, "longest": 5} | sizes
    corpus = ts.samplers.random_tokens(n_tokens=n_tokens, seed=seed, **sizes)
    embeddings = rng.normal(size=(n_tokens, dim)) / np.sqrt(dim)
    return ts.AttentionClassifier(embeddings, rng.normal(size=dim), rng.normal(size=dim)), corpus


def plain_gradient(model, corpus):
    """-grad L of p as one would write it: dense softmax, no scaling."""
    counts, y = corpus.counts.toarray(), corpus.labels
    embeddings, b = array(model.embeddings), array(model.values())

    def force(p):
        weight = counts * np.exp(embeddings @ p)
        q = weight / weight.sum(axis=1, keepdims=True)
        f = q @ b
        return embeddings.T @ ((y * expit(-y * f)) @ (q * (b - f[:, None]))) / len(y)

    return force


@pytest.mark.parametrize("seed", range(25))
def test_scipy_in_plain_time(seed):
    """Fewer and more tokens than dimensions; SciPy's DOP853 at rtol 1e-12 is the truth here."""
    model, corpus = random_model(seed)
    times = np.array([1e-3, 0.1, 1.0, 10.0, 100.0])
    force = plain_gradient(model, corpus)
    start = array(model.cls)
    truth = scipy.integrate.solve_ivp(
        lambda t, p: force(p), (0, 100), start, "DOP853", times, rtol=1e-12, atol=1e-12
    )
    path = ts.gradient_flow(model, corpus, None, np.log(100.0), at_log_time=np.log(times[:-1]))
    assert path.status == "log_time"
    np.testing.assert_allclose(path.log_time, np.append(-np.inf, np.log(times)), atol=1e-9)
    assert np.array_equal(path.cls[0], start)
    # The default tolerance bounds the error of a step by 1e-8: a hundred steps, none of them amplified much.
    assert np.abs(path.cls[1:] - truth.y.T).max() < 1e-6
    np.testing.assert_allclose(path.norm, np.linalg.norm(path.cls, axis=1), rtol=1e-14)


@pytest.mark.parametrize("seed", range(8))
def test_energy(seed):
    """L(t1) - L(t2) is the integral of |grad L|^2 over time, by Gauss-Legendre at recorded times."""
    model, corpus = random_model(seed)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    edges = np.log([1.0, 2.0, 4.0, 8.0, 16.0])
    log_times = [edges[0]]
    for low, high in itertools.pairwise(edges):
        log_times += [*((high - low) / 2 * nodes + (high + low) / 2), high]
    path = ts.gradient_flow(model, corpus, None, log_times[-1], at_log_time=log_times[:-1])
    force, p = plain_gradient(model, corpus), path.cls[1:]
    power = np.array([force(x) @ force(x) for x in p]) * np.exp(path.log_time[1:])
    with torch.no_grad():
        losses = [
            ts.score_space.loss(corpus, model.embeddings @ torch.tensor(p[i]), model.values()).item()
            for i in range(0, len(p), 21)
        ]
    integrals = [np.log(2) / 2 * weights @ power[21 * i + 1 : 21 * i + 21] for i in range(4)]
    np.testing.assert_allclose(-np.diff(losses), integrals, rtol=0, atol=1e-7)


def symmetric_design():
    magnitude = 1.3
    corpus = ts.samplers.full_co_occurrence(2, 2, n_irrelevant=6, length=4)
    output = np.zeros(10)
    output[:4] = magnitude * np.array([1, 1, -1, -1])
    return ts.AttentionClassifier(np.eye(10), np.zeros(10), output), corpus


def test_symmetric_design():
    """Proposition 4: the gap of the scores obeys one equation, and the direction never changes."""
    model, corpus = symmetric_design()
    times = np.logspace(-2, 6, 33)

    def rate(u, x):  # in u = log(1 + t)
        q = 1 / (1 + 3 * np.exp(-x))
        return np.exp(u) * (1 / 4 + 1 / 6) * 1.3 * expit(-1.3 * q) * q * (1 - q)

    ends = np.log1p(times)
    truth = scipy.integrate.solve_ivp(rate, (0, ends[-1]), [0.0], "DOP853", ends, rtol=1e-13, atol=1e-13)
    path = ts.gradient_flow(model, corpus, None, np.log(1e6), at_log_time=np.log(times[:-1]))
    p = path.cls[1:]
    assert np.abs(p[:, 0] - p[:, -1] - truth.y[0]).max() <= 1e-8
    p_hat = np.array([0.6] * 4 + [-0.4] * 6)
    units = p / np.linalg.norm(p, axis=1, keepdims=True)
    assert np.abs(units - p_hat / np.linalg.norm(p_hat)).max() <= 1e-10


@pytest.mark.parametrize("start", [0.0, -40.0, -3000.0, -1e6])
def test_two_tokens_in_closed_form(start):
    r"""One sequence {0, 1}, values 1 and 0: with x the gap of the scores, dt = (1 + e^q) dx / (2 q (1 - q)).

    The flow starts on the wrong side at x = start and is asked for the time at which x = 100 - start.
    """
    corpus = ts.Corpus.from_sequences([[0, 1]], [1])
    model = ts.AttentionClassifier(np.eye(2), np.array([start, -start]) / 2, [1.0, 0.0])
    end = 100.0 - start
    with mp.workdps(30):

        def density(x):
            q = 1 / (1 + mp.exp(-x))
            return (1 + mp.exp(q)) * (1 + mp.exp(x)) ** 2 * mp.exp(-x) / 2

        # It grows like e^|x|: 80 units at either end, and those around 0, hold all digits.
        cuts = {start, end, *(end - 10 * k for k in range(9)), *range(-40, 50, 10)}
        cuts |= {start + 10 * k for k in range(9)}
        log_time = float(mp.log(mp.quad(density, sorted(x for x in cuts if start <= x <= end))))
    path = ts.gradient_flow(model, corpus, None, log_time)
    assert path.status == "log_time"
    # A step errs by 1e-8, and by 1e-13 of a large state; a few hundred steps.
    assert path.cls[-1][0] - path.cls[-1][1] == pytest.approx(end, abs=1e-6 + 1e-10 * abs(start))


@pytest.mark.parametrize("distance", [30.0, 3000.0, 1e6])
def test_far_start_waits(distance):
    """On the wrong side q = 0 and dt = e^-x dx, so that the tokens change places at t = e^distance.

    The time that x = 0 takes, of order 1, is less than e^-30 of it.
    """
    corpus = ts.Corpus.from_sequences([[0, 1]], [1])
    model = ts.AttentionClassifier(np.eye(2), np.array([-distance, distance]) / 2, [1.0, 0.0])
    path = ts.gradient_flow(model, corpus, until_norm=distance / np.sqrt(2) + 20.0)
    assert path.selection.tokens.tolist() == [0]
    crossing = np.argmax(path.cls[:, 0] > path.cls[:, 1])
    # Time errs by 1e-9 a step, and by 1e-13 of a large logarithm; a few hundred steps.
    assert path.log_time[crossing] == pytest.approx(distance, abs=1e-6 + 1e-10 * distance)


@pytest.mark.parametrize("seed", range(20))
def test_one_step_embeddings_to_norm_1000(seed):
    corpus = ts.samplers.one_important_token(seed=100 + seed)
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=256, seed=100 + seed)
    model = ts.one_step(model, corpus, step_size=40.0)
    path = ts.gradient_flow(model, corpus, until_norm=1000.0)
    solution = ts.max_margin(model.embeddings, path.selection, model.values())
    assert (path.status, path.settled, path.promoted) == ("norm", True, False)
    assert path.norm[-1] == pytest.approx(1000.0, rel=1e-12)
    assert ts.cosine(path.cls[-1], solution.cls) >= 0.9999
    assert product(path) == pytest.approx(solution.cls @ solution.cls, rel=1e-4)
    assert (np.diff(path.log_time) >= 0).all()
    assert (np.diff(path.log_loss_gap) <= 1e-7).all()  # the loss falls, but for the tolerance


@pytest.mark.parametrize("trap", [traps.shared_tokens, traps.dependent_embeddings, traps.outvoted])
def test_traps_hold(trap):
    model, corpus, selection = trap()
    path = ts.gradient_flow(model, corpus, None, 900.0)
    solution = ts.max_margin(model.embeddings, selection, model.values())
    assert path.settled
    assert np.array_equal(path.selection.tokens, selection.tokens)
    assert ts.cosine(path.cls[-1], solution.cls) >= 0.9999
    assert product(path) == pytest.approx(solution.cls @ solution.cls, rel=1e-4)


def shortest_selecting(differences):
    """The point of the differences' hull nearest to 0 gives p_hat; None where 0 lies in the hull."""
    weights, _ = scipy.optimize.nnls(
        np.vstack([differences.T, np.ones(len(differences))]), np.append(np.zeros(differences.shape[1]), 1.0)
    )
    nearest = weights @ differences / weights.sum()
    return None if nearest @ nearest < 1e-8 else nearest / (differences @ nearest).min()


@pytest.fixture(scope="module")
def local_selections():
    """Random selections under Theorem C, with room: slack pairs beyond 1.2, positive tight coefficients."""
    found = []
    for seed in itertools.count():
        model, corpus = random_model(seed, dim=12, n_sequences=4, longest=4)
        rng = np.random.default_rng(10_000 + seed)
        selection = ts.Selection(corpus, [rng.choice(corpus.counts[[i]].indices) for i in range(len(corpus))])
        if len(selection.pairs) == 0 or selection.cycle:
            continue
        embeddings = array(model.embeddings)
        differences = embeddings[selection.pairs[:, 0]] - embeddings[selection.pairs[:, 1]]
        p_hat = shortest_selecting(differences)
        if p_hat is None:
            continue
        slack = differences @ p_hat - 1
        tight, coefficients = slack < 1e-6, selection.pair_coefficients(model.values())
        if (coefficients[tight] > 0).all() and slack[~tight].min(initial=1.0) > 0.2:
            found.append((model, selection, p_hat, differences[tight], coefficients[tight]))
        if len(found) == 60:
            return found


def from_start(model, start):
    return ts.AttentionClassifier(array(model.embeddings), start, array(model.output))


def test_local_selections_hold(local_selections):
    """From a random start near R p_hat, R = 80, they hold; many are not the best for the labels."""
    not_best = 0
    for i, (model, selection, p_hat, _, _) in enumerate(local_selections):
        start = 80 * p_hat + np.random.default_rng(i).normal(size=12) / 4
        path = ts.gradient_flow(from_start(model, start), selection.corpus, None, 3000.0)
        assert path.settled
        assert np.array_equal(path.selection.tokens, selection.tokens)
        assert ts.cosine(path.cls[-1], p_hat) >= 0.9999
        assert product(path) == pytest.approx(p_hat @ p_hat, rel=1e-4)
        best = ts.Selection.best(selection.corpus, model.values())
        not_best += not np.array_equal(selection.tokens, best.tokens)
    assert not_best >= 10


def test_second_order(local_selections):
    """(1 - cos) log^2 t at log t = 1000 is its constant within 2 %.

    In the span of the tight pairs the constant is a formula; beside it, start and transient decide, and it is
    read off at log t = 300. Where multipliers vanish on a tight pair there is no constant.
    """
    checked = 0
    for model, selection, p_hat, tight, coefficients in local_selections:
        try:
            offset = ts.theory.late_offset(tight, coefficients, p_hat)
        except ValueError:
            continue
        # A start off the direction, so that there is something to see beside the span.
        start = 80 * p_hat + np.random.default_rng(1).normal(size=12)
        path = ts.gradient_flow(from_start(model, start), selection.corpus, None, 1000.0, at_log_time=[300.0])
        assert np.array_equal(path.selection.tokens, selection.tokens)
        _, singular, rows = np.linalg.svd(tight, full_matrices=False)
        rows = rows[singular > 1e-10 * singular[0]]
        early = path.cls[1] - 300.0 * p_hat
        constant = ts.theory.direction_constant(offset + early - rows.T @ (rows @ early), p_hat)
        seen = (1 - ts.cosine(path.cls[-1], p_hat)) * 1000.0**2
        assert seen == pytest.approx(constant, rel=0.02)
        checked += 1
    assert checked >= 20


def test_finite_stationary_point():
    """A positive and a negative sequence of two tokens want opposite orders: p stops at equal scores."""
    corpus = ts.samplers.two_token_cycle()
    model = ts.AttentionClassifier(np.eye(2), [0.7, -0.3], [1.0, -1.0])
    path = ts.gradient_flow(model, corpus)
    assert path.status == "stationary"
    assert not path.settled
    assert path.cls[-1][0] == pytest.approx(path.cls[-1][1], abs=1e-8)
    p = torch.tensor(path.cls[-1])
    loss = ts.score_space.loss(corpus, model.embeddings @ p, model.values()).item()
    assert loss == pytest.approx(np.log(2), abs=1e-12)
    from_rest = ts.AttentionClassifier(np.eye(2), [0.2, 0.2], [1.0, -1.0])
    at_once = ts.gradient_flow(from_rest, corpus)
    assert (at_once.status, len(at_once.norm)) == ("stationary", 1)


def test_one_value_dominates_the_cycle():
    corpus = ts.samplers.two_token_cycle()
    model = ts.AttentionClassifier(np.eye(2), [0.7, -0.3], [1.5, 0.5])
    path = ts.gradient_flow(model, corpus)
    assert (path.status, path.settled) == ("norm", True)
    assert path.selection.tokens.tolist() == [1, 1]
    loss = ts.score_space.loss(corpus, model.embeddings @ torch.tensor(path.cls[-1]), model.values()).item()
    # Both put all attention on token 1, of value 1/2.
    assert loss == pytest.approx((np.log1p(np.exp(-0.5)) + np.log1p(np.exp(0.5))) / 2, abs=1e-10)


def test_cycle_beside_a_selection_ends_at_precision():
    """p diverges along one pair while another balances: the forces that are left drown in the rounding."""
    corpus = ts.Corpus.from_sequences([[0, 1], [0, 1], [2, 3]], [1, -1, 1])
    model = ts.AttentionClassifier(np.eye(4), [0.7, -0.3, 0, 0], [1.0, -1.0, 0.5, -0.3])
    path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=100.0)
    assert path.status == "precision"
    assert not path.settled
    # It was followed until forces of 1 hid one of 1e-9: a time of 1e9 or so, and no further.
    assert 15 < path.log_time[-1] < 30


def test_saddle_is_left():
    """Near equal scores of equal values in one sequence: the flow leaves an even split for one of them."""
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    model = ts.AttentionClassifier(np.eye(3), [1e-3, 0, 0], [1.0, 1.0, 0.0])
    path = ts.gradient_flow(model, corpus, None, 200.0)
    scores = path.cls[-1]
    assert path.selection.tokens.tolist() == [0]
    assert scores[0] - scores[1] > 20  # the even split is unstable: one of the equals wins


@pytest.mark.parametrize("seed", range(6))
def test_limit_of_the_jacobian(seed, monkeypatch):
    """With a diagonal in place of the Jacobian, as in many dimensions, the path is the same."""
    model, corpus = random_model(seed, dim=6)
    with_it = ts.gradient_flow(model, corpus, None, 5.0)
    monkeypatch.setattr(flow_module, "_LARGEST_JACOBIAN", 1)
    without = ts.gradient_flow(model, corpus, None, 5.0)
    np.testing.assert_allclose(with_it.cls[-1], without.cls[-1], atol=1e-6)


@pytest.mark.parametrize("absent", [0, 3])
def test_absent_tokens_and_long_rows(absent):
    """Tokens that no sequence holds, and more dimensions than tokens, change nothing but the cost."""
    rng = np.random.default_rng(absent)
    corpus = ts.samplers.random_tokens(n_sequences=6, n_tokens=5, shortest=2, longest=4, seed=3)
    wide = rng.normal(size=(5 + absent, 40))
    model = ts.AttentionClassifier(wide, rng.normal(size=40), rng.normal(size=40))
    counts = np.hstack([corpus.counts.toarray(), np.zeros((6, absent), dtype=int)])
    path = ts.gradient_flow(model, ts.Corpus(counts, corpus.labels), None, 3.0)
    force = plain_gradient(model, ts.Corpus(counts, corpus.labels))
    truth = scipy.integrate.solve_ivp(
        lambda t, p: force(p), (0, np.exp(3.0)), array(model.cls), "DOP853", rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(path.cls[-1], truth.y[:, -1], atol=1e-6)


def test_record_at_norms_and_log_times():
    model, corpus = symmetric_design()
    path = ts.gradient_flow(model, corpus, until_norm=30.0, at_norm=[5.0, 1.0, 99.0], at_log_time=[2.0])
    assert len(path.norm) == 5  # start, log t = 2, norms 1 and 5, end
    np.testing.assert_allclose(path.norm[-1], 30.0, rtol=1e-12)
    np.testing.assert_allclose(path.norm[2:4], [1.0, 5.0], rtol=1e-12)
    assert path.log_time[1] == pytest.approx(2.0, abs=1e-9)
    assert (np.diff(path.log_time[1:]) > 0).all()
    assert path.log_time[0] == -np.inf


def test_times_before_p_moves():
    """A time of e^-50 changes p by about its gradient times that, to a relative 1e-6, not by rounding."""
    model, corpus = symmetric_design()
    path = ts.gradient_flow(model, corpus, None, 0.0, at_log_time=[-50.0, -20.0])
    force = plain_gradient(model, corpus)
    for i, log_time in ((1, -50.0), (2, -20.0)):
        np.testing.assert_allclose(path.cls[i], force(np.zeros(10)) * np.exp(log_time), rtol=1e-6)
    only = ts.gradient_flow(model, corpus, None, -60.0)
    assert (only.status, only.log_time.tolist()) == ("log_time", [-np.inf, -60.0])


def test_float32_is_promoted():
    model, corpus = random_model(1)
    single = ts.AttentionClassifier(
        *(array(x).astype(np.float32) for x in (model.embeddings, model.cls, model.output))
    )
    path = ts.gradient_flow(single, corpus, None, 3.0)
    assert path.promoted
    assert path.cls.dtype == np.float64
    assert "promoted from float32" in repr(path)
    double = ts.AttentionClassifier(
        *(array(x).astype(np.float32).astype(float) for x in (model.embeddings, model.cls, model.output))
    )
    assert np.array_equal(path.cls, ts.gradient_flow(double, corpus, None, 3.0).cls)
    assert single.cls.dtype == torch.float32  # and untouched


def test_values_that_only_rounding_tells_apart():
    """Rotated embeddings with two tokens of value 1: the limit is that of max-margin without their pair.

    Were they not tied, a difference of 1e-16 would exert a force, and decide from log t = 37 on.
    """
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0]
    embeddings = np.eye(3, 64) @ rotation
    corpus = ts.Corpus.from_sequences([[0, 1, 2], [0, 2], [1, 2]], [1, 1, 1])
    model = ts.AttentionClassifier(embeddings, np.zeros(64), np.array([1.0, 1.0, 0.0]) @ embeddings)
    path = ts.gradient_flow(model, corpus, None, 3000.0)
    assert path.settled
    p_hat = shortest_selecting(embeddings[[0, 1]] - embeddings[2])
    assert ts.cosine(path.cls[-1], p_hat) >= 0.9999
    # The two sequences of two hold the even split of the first: the scores stay equal.
    scores = embeddings @ path.cls[-1]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_a_sequence_of_one_token():
    corpus = ts.Corpus.from_sequences([[0, 0], [1, 2], [2]], [1, 1, -1])
    model = ts.AttentionClassifier(np.eye(3), np.zeros(3), [1.0, 0.5, -0.5])
    path = ts.gradient_flow(model, corpus)
    assert path.selection.tokens.tolist() == [0, 1, 2]
    assert path.cls[-1][0] == 0  # token 0 is never chosen against another
    alone = ts.gradient_flow(model, ts.Corpus.from_sequences([[0], [1]], [1, -1], n_tokens=3))
    assert (alone.status, alone.norm.tolist()) == ("stationary", [0.0])


def test_a_start_of_norm_a_million():
    model, corpus = random_model(4, dim=10)
    start = array(model.cls)
    far = ts.AttentionClassifier(
        array(model.embeddings), start * 1e6 / np.linalg.norm(start), array(model.output)
    )
    path = ts.gradient_flow(far, corpus, until_norm=None, until_log_time=3e6)
    assert np.isfinite(path.cls).all()
    assert path.status in ("log_time", "precision")
    with pytest.raises(ValueError, match=r"until_norm must exceed 1e\+06"):
        ts.gradient_flow(far, corpus)


def test_norm_that_is_never_reached():
    corpus = ts.samplers.two_token_cycle()
    model = ts.AttentionClassifier(np.eye(2), [0.7, -0.3], [1.0, -1.0])
    assert ts.gradient_flow(model, corpus, until_norm=1e300).status == "stationary"
    model, corpus = symmetric_design()
    path = ts.gradient_flow(model, corpus, until_norm=1e300)
    assert path.status == "precision"  # scores of 1e8 are rounded by more than the tolerance
    assert 1e7 < path.norm[-1] < 1e300
    assert ts.gradient_flow(model, corpus, max_steps=3).status == "steps"


def test_bad_arguments():
    model, corpus = random_model(0)
    run = ts.gradient_flow
    with pytest.raises(TypeError, match="model must be an AttentionClassifier"):
        run(corpus, corpus)
    with pytest.raises(TypeError, match="corpus must be a Corpus"):
        run(model, model)
    with pytest.raises(ValueError, match="embeddings for"):
        run(model, ts.Corpus.from_sequences([[0]], [1], n_tokens=99))
    with pytest.raises(ValueError, match=r"until_norm must exceed .* got 0"):
        run(model, corpus, until_norm=0.0)
    with pytest.raises(ValueError, match="give until_norm, until_log_time or both"):
        run(model, corpus, until_norm=None)
    with pytest.raises(ValueError, match="until_log_time must be finite"):
        run(model, corpus, None, np.inf)
    with pytest.raises(ValueError, match="tolerance must be from 1e-11 to 1e-3"):
        run(model, corpus, tolerance=0.1)
    with pytest.raises(TypeError, match="max_steps must be a whole number"):
        run(model, corpus, max_steps=2.5)
    with pytest.raises(ValueError, match="at_norm must be a list of finite numbers"):
        run(model, corpus, at_norm=[1.0, np.nan])
    with pytest.raises(TypeError, match="progress must be True, False or None"):
        run(model, corpus, progress="yes")


@pytest.mark.parametrize(("name", "size"), [("embeddings", (4, 3)), ("cls", 3), ("output", 3)])
def test_not_finite(name, size):
    """A model is finite when it is made, but training may spoil it."""
    model = ts.AttentionClassifier(np.ones((4, 3)), np.ones(3), np.ones(3))
    corpus = ts.Corpus.from_sequences([[0, 1]], [1], n_tokens=4)
    with torch.no_grad():
        getattr(model, name)[...] = np.nan
    with pytest.raises(ValueError, match=f"the model's {name} must be finite"):
        ts.gradient_flow(model, corpus)


def test_scores_that_overflow():
    corpus = ts.Corpus.from_sequences([[0, 1]], [1])
    model = ts.AttentionClassifier(np.eye(2) * 1e200, [1e200, 0.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="the scores of the model overflow float64"):
        ts.gradient_flow(model, corpus)
    coarse = ts.AttentionClassifier(np.eye(2), [1e12, 0.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="rounded more coarsely than the tolerance"):
        ts.gradient_flow(coarse, corpus)


def test_the_integrator_giving_up_is_reported(monkeypatch):
    class GivesUp(scipy.integrate.LSODA):
        def step(self):
            self.status = "failed"
            return "no step"

    model, corpus = random_model(0)
    monkeypatch.setattr(scipy.integrate, "LSODA", GivesUp)
    with pytest.raises(RuntimeError, match=r"the integrator gave up at norm .* no step"):
        ts.gradient_flow(model, corpus)


def test_progress_bar(capfd):
    model, corpus = symmetric_design()
    ts.gradient_flow(model, corpus, progress=True)
    assert "gradient flow" in capfd.readouterr().err
    ts.gradient_flow(model, corpus, progress=False)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("end", [{"until_norm": 30.0}, {"until_log_time": 5.0}, {"max_steps": 3}])
def test_the_progress_bar_is_full_wherever_the_flow_ends(monkeypatch, end):
    """Jupyter paints a bar that stops short red, as if the work had failed."""
    from tokensel import flow

    bars, make = [], flow.progress_bar
    monkeypatch.setattr(
        flow, "progress_bar", lambda *given, **named: bars.append(make(*given, **named)) or bars[-1]
    )
    model, corpus = symmetric_design()
    ts.gradient_flow(model, corpus, progress=True, **end)
    [bar] = bars
    assert bar.n == bar.total == 100
