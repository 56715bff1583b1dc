"""Proposition prop-second-order: what stays beside p-hat log t, how fast it settles, and the angle it leaves.

Oracles: SciPy's non-negative least squares for the max-margin solution, its linear programmes for the
multipliers, its minimisers for the offset.
"""

import functools

import numpy as np
import pytest
import scipy.optimize

import tokensel as ts

ORIGIN = "beyond the paper"
SETTING = (
    r"The hypotheses of the theorem “Time times loss gap”: attention selects $\sigma$, the direction of $p$ "
    r"tends to that of $\hat p$, and $\Gamma_j>0$ on the tight pairs. Any corpus, $E$, $v$ and $p(0)$."
)
HYPOTHESES = {
    "multipliers": r"some multipliers of $\hat p$ are positive on every tight pair",
    "ties": r"$\hat p\cdot(E_{\sigma(i)}-E_s)>0$ also for tokens $s$ of the same value as $\sigma(i)$",
}
LOG_TIME = 1000.0


def shortest_feasible(z):
    """min |p| with p.z_j >= 1, from the point of the hull nearest to the origin."""
    scale = np.linalg.norm(z, axis=1).mean()  # so that both parts of the least squares weigh alike
    weights, _ = scipy.optimize.nnls(
        np.vstack([z.T / scale, np.ones(len(z))]), np.append(np.zeros(z.shape[1]), 1.0)
    )
    nearest = weights @ z / weights.sum()
    p = nearest / (nearest @ nearest)
    assert (z @ p).min() >= 1 - 1e-8  # or the oracle has failed
    return p


def smallest_multiplier(z, p_hat):
    """The largest that the smallest multiplier of any choice can be."""
    k = len(z)
    solution = scipy.optimize.linprog(
        np.append(np.zeros(k), -1.0),
        A_eq=np.column_stack([z.T, np.zeros(z.shape[1])]),
        b_eq=p_hat,
        A_ub=np.column_stack([-np.eye(k), np.ones(k)]),
        b_ub=np.zeros(k),
        bounds=[(0, None)] * k + [(None, 1)],
    )
    return solution.x[-1] if solution.status == 0 else -1.0


def offset(z, coefficients, p_hat):
    """argmin of sum Gamma exp(-rho . z) + p-hat . rho over the span: BFGS, then the root of the gradient."""
    _, singular, rows = np.linalg.svd(z, full_matrices=False)
    span = rows[singular > 1e-10 * singular[0]]
    z, p = z @ span.T, span @ p_hat

    def slope(x):
        return p - (coefficients * np.exp(-z @ x)) @ z

    near = scipy.optimize.minimize(
        lambda x: (coefficients * np.exp(-z @ x)).sum() + p @ x, np.zeros(len(p)), jac=slope, method="BFGS"
    ).x
    root = scipy.optimize.root(slope, near, tol=1e-13)
    assert np.linalg.norm(slope(root.x)) < 1e-10
    return root.x @ span, span


def model_and_corpus(seed):
    """Even seeds: one important token a sequence. Odd seeds: no structure, and values that tie."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        corpus = ts.samplers.random_tokens(n_sequences=6, n_tokens=7, shortest=1, longest=5, seed=rng)
        values = rng.integers(-2, 3, size=7) / 2
    else:
        corpus = ts.samplers.one_distinct_important_token(10, 2, 1, 4, longest=5, seed=rng)
        values = np.concatenate([rng.uniform(0.3, 2, 3) * [1, 1, -1], np.zeros(4)])
    # The last coordinate is the value: exact, so that equal values are equal.
    embeddings = np.column_stack([np.eye(7) + rng.normal(size=(7, 7)) / 20, values])
    return ts.AttentionClassifier(embeddings, rng.normal(size=8), np.append(np.zeros(7), 1.0)), corpus


class Limit:
    """The prediction for the selection that attention ends on; ``holds`` where the hypotheses do."""

    def __init__(self, model, path):
        embeddings, values = model.embeddings.detach().numpy(), model.values().detach().numpy()
        pairs = path.selection.pairs
        z = embeddings[pairs[:, 0]] - embeddings[pairs[:, 1]]
        tied = values[pairs[:, 0]] == values[pairs[:, 1]]
        self.n_tied, self.holds = tied.sum(), False
        if path.status != "log_time" or not path.settled or tied.all():
            return
        self.p_hat = shortest_feasible(z[~tied])
        gaps = z[~tied] @ self.p_hat
        tight = gaps < 1 + 1e-8
        self.z, gamma = z[~tied][tight], path.selection.pair_coefficients(values)[~tied][tight]
        self.gamma = gamma
        in_margin = (z[tied] @ self.p_hat).min(initial=1.0)
        if (gamma <= 0).any() or in_margin <= 1e-8 or smallest_multiplier(self.z, self.p_hat) <= 1e-6:
            return
        if ts.cosine(path.cls[-1], self.p_hat) < 0.999:
            return
        self.holds = True
        self.offset, self.span = offset(self.z, gamma, self.p_hat)
        weights = gamma * np.exp(-self.z @ self.offset)
        curvature = np.linalg.eigvalsh(self.span @ (self.z.T * weights) @ self.z @ self.span.T)[0]
        gap = min(1.0, (gaps[~tight] - 1).min(initial=1.0), in_margin)
        self.exponent, self.product_exponent = min(gap, curvature), min(gap, 2 * curvature)


@functools.cache
def instance(seed):
    model, corpus = model_and_corpus(seed)
    path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=LOG_TIME)
    return model, corpus, path, Limit(model, path)


def remainder(path, p_hat):
    return path.cls[1:] - np.outer(path.log_time[1:], p_hat)


def rate(log_time, errors, high, low):
    """Mean rate of the fall from ``high``, passed for the last time, to ``low``, reached for the first."""
    begin = np.flatnonzero(errors > high)[-1]
    end = begin + np.flatnonzero(errors[begin:] < low)[0]
    return np.log(errors[begin] / errors[end]) / (log_time[end] - log_time[begin])


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_offset_exponents_and_angle(seed, evidence):
    _, _, path, limit = instance(seed)
    if not limit.holds or limit.exponent < 0.05:  # so that the end, e^-50 or less, is that of the flow
        return
    p_hat, squared, log_time = limit.p_hat, limit.p_hat @ limit.p_hat, path.log_time[1:]
    rest = remainder(path, p_hat)
    misses = np.linalg.norm(rest @ limit.span.T - limit.span @ limit.offset, axis=1)
    half = np.argmax(log_time > LOG_TIME / 2)
    # The flow errs by 1e-8 a step over a few hundred steps, which attract each other.
    assert misses[-1] <= 1e-6
    np.testing.assert_allclose(rest[half], rest[-1], atol=1e-5)
    # Errors are of order t^-c for every c below the exponent. Where two exponents nearly agree the error is
    # log t times a power: if log t triples meanwhile, that takes log 3 off the log 10^4 that is measured.
    assert rate(log_time, misses, 0.1, 1e-5) >= 0.85 * limit.exponent
    gaps = np.abs(np.exp(log_time + path.log_loss_gap[1:]) / squared - 1)
    assert rate(log_time, gaps, 1e-3, 1e-7) >= 0.85 * limit.product_exponent

    last = rest[-1]
    along = path.cls[-1] / path.norm[-1]
    distance = ((along - p_hat / np.sqrt(squared)) ** 2).sum() / 2  # 1 - cos, without cancellation
    across = last - last @ p_hat / squared * p_hat
    constant = across @ across / (2 * squared)
    # (1 - cos) log^2 t tends to the constant with an error of order |rho| / (|p-hat| log t).
    bound = 3 * np.linalg.norm(last) / np.sqrt(squared) / LOG_TIME
    assert distance * LOG_TIME**2 == pytest.approx(constant, rel=bound)
    assert ts.theory.direction_constant(last, p_hat) == pytest.approx(constant, rel=1e-12)
    np.testing.assert_allclose(ts.theory.late_offset(limit.z, limit.gamma, p_hat), limit.offset, atol=1e-8)
    evidence.limit(misses[-1], 0.0)


def test_there_are_instances_and_some_with_ties():
    kept = [instance(seed)[3] for seed in SEEDS]
    kept = [limit for limit in kept if limit.holds and limit.exponent >= 0.05]
    assert len(kept) >= 20
    assert sum(limit.n_tied > 0 for limit in kept) >= 3


@pytest.mark.parametrize("seed", [0, 2, 12])
def test_the_start_decides_what_the_tight_pairs_do_not_see(seed):
    """Two starts: the same offset in the span of the tight pairs, another one across."""
    model, corpus, path, limit = instance(seed)
    assert limit.holds
    assert limit.exponent >= 0.05
    other = ts.AttentionClassifier(model.embeddings, -model.cls, model.output)
    again = ts.gradient_flow(other, corpus, until_norm=None, until_log_time=LOG_TIME)
    assert (again.selection.tokens == path.selection.tokens).all()
    difference = again.cls[-1] - path.cls[-1]
    assert np.linalg.norm(limit.span @ difference) < 1e-6
    assert np.linalg.norm(difference) > 0.1


@pytest.mark.drops("multipliers")
def test_a_tight_pair_without_a_multiplier_moves_for_ever():
    """z = (1, 0) and (1, 1): p-hat = (1, 0) needs the first alone, and rho grows like log log t."""
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    embeddings = np.array([[1.0, 1], [0, 1], [0, 0]])
    p_hat = np.array([1.0, 0.0])
    z = embeddings[[0, 0]] - embeddings[[1, 2]]
    np.testing.assert_allclose(shortest_feasible(z), p_hat, atol=1e-12)
    assert smallest_multiplier(z, p_hat) < 1e-8
    model = ts.AttentionClassifier(embeddings, [0.0, 0.0], [1.0, 0.0])
    path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=1e4, at_log_time=[100.0])
    rest = remainder(path, p_hat)
    # log log t grows by log 100 = 4.6 meanwhile; the corrections to 1 / log t are of its square.
    assert rest[1, 1] - rest[0, 1] == pytest.approx(np.log(100), abs=0.1)


@pytest.mark.drops("ties")
def test_a_tied_token_without_a_gap_moves_for_ever():
    """One tight pair, with a multiplier; but a tied token at p-hat . z = 0 is pushed away like log log t."""
    corpus = ts.Corpus.from_sequences([[0, 2], [0, 2], [0, 1, 2]], [1, 1, -1])
    embeddings = np.array([[0.0, 0], [0, -1], [-1, 0]])
    model = ts.AttentionClassifier(embeddings, [1.0, 1.0], [1.0, 0.0])
    path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=1e4, at_log_time=[100.0])
    p_hat = np.array([1.0, 0.0])
    assert smallest_multiplier(np.array([[1.0, 0.0]]), p_hat) > 0.5
    assert (embeddings[0] - embeddings[1]) @ p_hat == 0
    rest = remainder(path, p_hat)
    assert rest[1, 1] - rest[0, 1] == pytest.approx(np.log(100), abs=0.2)
