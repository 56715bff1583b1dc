"""Theorem thm-direction: if attention selects and the data want it, the direction is that of max-margin.

Oracles: SciPy's non-negative least squares for the max-margin solution, and descent written here in NumPy.
"""

import numpy as np
import pytest
from scipy.optimize import nnls

import tokensel as ts

ORIGIN = "beyond the paper"
SETTING = r"""Any corpus, embeddings $E$ and output vector $v$; a selection $\sigma$ with $J\ne\emptyset$.
From any start, $p$ follows gradient flow, gradient descent, or stochastic gradient descent with a constant
step over reshuffled batches of equal size."""
HYPOTHESES = {
    "selects": r"Attention tends to $\sigma(i)$ in every sequence: $q_{i\sigma(i)}\to1$.",
    "positive": r"$\Gamma_j>0$ for all pairs $j\in J$.",
    "bounded-steps": r"For gradient descent: the steps stay below some $\eta_{\max}$.",
}


def shortest_feasible(z):
    """min |p| with p.z_j >= 1, from the point of the hull nearest to the origin."""
    scale = np.linalg.norm(z, axis=1).mean()  # so that both parts of the least squares weigh alike
    weights, _ = nnls(np.vstack([z.T / scale, np.ones(len(z))]), np.append(np.zeros(z.shape[1]), 1.0))
    nearest = weights @ z / weights.sum()
    p = nearest / (nearest @ nearest)
    assert (z @ p).min() >= 1 - 1e-8  # or the oracle has failed
    return p


def instance(seed, embeddings=None):
    """Important tokens with the right sign, others with value 0, unequal lengths; orthonormal unless given.

    v reads the values off the embeddings. Orthonormal rows need no particular start; with others the start
    lifts the important tokens, or attention might settle elsewhere.
    """
    rng = np.random.default_rng(seed)
    n_important, n_irrelevant = 3, 4
    sequences, labels = [], []
    for k in range(n_important):
        for _ in range(2):
            others = n_important + rng.integers(n_irrelevant, size=rng.integers(1, 5))
            sequences.append(np.concatenate([[k] * rng.integers(1, 3), others]))
            labels.append(1 if k < 2 else -1)
    corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=n_important + n_irrelevant)
    values = np.append(rng.uniform(0.3, 2.0, 3) * np.array([1, 1, -1]), np.zeros(4))
    start = rng.normal(size=7)
    if embeddings is None:
        return ts.AttentionClassifier(np.eye(7), start, values), corpus
    output, cls = np.linalg.lstsq(
        embeddings, np.stack([values, start / 3 + 4 * (values != 0)]).T, rcond=None
    )[0].T
    return ts.AttentionClassifier(embeddings, cls, output), corpus


@pytest.mark.parametrize("seed", range(40))
def test_gradient_flow_ends_in_the_max_margin_direction(seed, evidence):
    """Every other time with Gaussian embeddings, which are neither orthogonal nor of equal length."""
    gaussian = np.random.default_rng([seed, 1]).normal(size=(7, 9))
    model, corpus = instance(seed, gaussian if seed % 2 else None)
    path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=3000.0)
    values, rows = model.values().detach().numpy(), model.embeddings.detach().numpy()
    assert path.settled
    pairs = path.selection.pairs
    assert (path.selection.pair_coefficients(values) > 0).all()
    p_hat = shortest_feasible(rows[pairs[:, 0]] - rows[pairs[:, 1]])
    # 1 - cos falls like a constant over log(t)^2: at log t = 3000 it is far below 1e-4.
    cosine = ts.cosine(path.cls[-1], p_hat)
    assert cosine >= 0.9999
    evidence.limit(cosine, 1.0)


def descend(counts, labels, values, scores, batches, step, epochs):
    """Descent on p = a (orthonormal E) for k corpora (k, n, S) at once, with the gradient written out."""
    rng = np.random.default_rng(0)
    n = counts.shape[1]
    for _ in range(epochs):
        for rows in rng.permutation(np.arange(n).reshape(batches, -1)) if batches > 1 else [slice(None)]:
            block, y = counts[:, rows], labels[:, rows]
            weight = block * np.exp(scores - scores.max(axis=1, keepdims=True))[:, None]
            q = weight / weight.sum(axis=2, keepdims=True)
            f = np.einsum("kns,ks->kn", q, values)
            g = y / (1 + np.exp(y * f))
            scores = scores + step * (g[:, :, None] * q * (values[:, None] - f[:, :, None])).mean(axis=1)
    return scores


@pytest.mark.parametrize("batches", [1, 3])
def test_descent_and_reshuffled_minibatches_turn_towards_it(batches, evidence):
    """With bounded steps log t stays below 15: the direction is checked for its approach, not its limit."""
    instances = [instance(seed) for seed in range(8)]
    values = np.stack([model.values().detach().numpy() for model, _ in instances])
    scores = np.stack([model.scores().detach().numpy() for model, _ in instances])
    counts = np.stack([corpus.counts.toarray().astype(float) for _, corpus in instances])
    labels = np.stack([corpus.labels for _, corpus in instances])
    early = descend(counts, labels, values, scores, batches, step=5.0, epochs=300)
    late = descend(counts, labels, values, early, batches, step=5.0, epochs=30_000)
    for (_, corpus), b, first, last in zip(instances, values, early, late, strict=True):
        selection = ts.Selection.best(corpus, b)
        assert (selection.pair_coefficients(b) > 0).all()
        p_hat = shortest_feasible(np.eye(7)[selection.pairs[:, 0]] - np.eye(7)[selection.pairs[:, 1]])
        assert (np.asarray(ts.Selection.of(corpus, last).tokens) == selection.tokens).all()
        miss_early, miss_late = 1 - ts.cosine(first, p_hat), 1 - ts.cosine(last, p_hat)
        # log t grows from 7.3 to 11.9: a miss that falls like 1/log(t)^2 falls to 0.38 of itself, one that
        # falls like 1/log(t), which is slower than any of the chapter's laws, to 0.61.
        evidence.bound(miss_late, 0.61 * miss_early)


@pytest.mark.drops("selects")
def test_a_flow_that_the_data_hold_back_comes_to_rest():
    """All coefficients are positive, and a long p would go on for ever; but before that the flow stops."""
    corpus = ts.Corpus.from_sequences([[0, 1], [0] + [1] * 20, [0] + [1] * 3000], labels=[1, -1, 1])
    values = [1.0, -1.0]
    assert (ts.Selection(corpus, [0, 0, 0]).pair_coefficients(values) > 0).all()
    resting = ts.gradient_flow(
        ts.AttentionClassifier(np.eye(2), [0.0, 0.0], values), corpus, until_norm=None, until_log_time=3000.0
    )
    assert resting.status == "stationary"
    assert resting.norm[-1] < 2
    going = ts.gradient_flow(
        ts.AttentionClassifier(np.eye(2), [10.0, -10.0], values),
        corpus,
        until_norm=None,
        until_log_time=3000.0,
    )
    assert going.settled
    assert going.norm[-1] > 1000


@pytest.mark.drops("positive")
def test_with_one_wrong_sign_attention_may_select_along_another_direction(saddle):
    selection = ts.Selection(saddle.corpus, [0])
    values = saddle.embeddings @ saddle.output
    assert selection.pair_coefficients(values).min() < 0
    z = saddle.embeddings[[0, 0]] - saddle.embeddings[[1, 2]]
    gaps = saddle.curve @ z.T
    assert (np.diff(gaps.min(axis=1)) > 0).all()
    assert gaps[-1].min() > 250  # attention off the first token is below e^-250 ...
    assert ts.cosine(saddle.curve[-1], shortest_feasible(z)) < 0.972  # ... and the direction is not p-hat's


@pytest.mark.drops("bounded-steps")
def test_steps_that_grow_without_bound_never_find_the_direction():
    """Each step is ten times as long as p: so p points along the last one, one pair's or the other's."""
    z = np.eye(3)[[0, 0]] - np.eye(3)[[1, 2]]  # one positive sequence of three tokens, values (1, 0, 0)
    p, steps, cosines = np.array([0.0, -1.0, -1.5]), [], []
    for _ in range(12):
        gaps = z @ p
        share = np.exp(-(gaps - gaps.min()))
        force = share @ z  # -grad L up to the factor e^-min(gaps) and one that tends to sigmoid(-1)
        length = 10 * np.linalg.norm(p)
        steps.append(np.log(length / np.linalg.norm(force)) + gaps.min())
        p = p + length * force / np.linalg.norm(force)
        cosines.append(ts.cosine(p, shortest_feasible(z)))
    assert (z @ p).min() > 1e10  # attention on the first token is 1
    assert (np.diff(steps) > 0).all()
    assert max(cosines[2:]) < 0.95
