"""Theorem thm-direction: if attention selects and the data want it, the direction is that of max-margin.

Oracles: SciPy's non-negative least squares for the max-margin solution, and descent written here in NumPy.
"""

import numpy as np
import pytest
from scipy.optimize import nnls

import tokensel as ts


def shortest_feasible(z):
    """min |p| with p.z_j >= 1, from the point of the hull nearest to the origin."""
    scale = np.linalg.norm(z, axis=1).mean()  # so that both parts of the least squares weigh alike
    weights, _ = nnls(np.vstack([z.T / scale, np.ones(len(z))]), np.append(np.zeros(z.shape[1]), 1.0))
    nearest = weights @ z / weights.sum()
    p = nearest / (nearest @ nearest)
    assert (z @ p).min() >= 1 - 1e-8  # or the oracle has failed
    return p


def instance(seed):
    """Important tokens with the right sign, others with value 0, orthonormal rows, unequal lengths.

    v reads the values off the embeddings: the first rows' coordinates hold them.
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
    output = np.zeros(7)
    output[:3] = rng.uniform(0.3, 2.0, 3) * np.array([1, 1, -1])
    return ts.AttentionClassifier(np.eye(7), rng.normal(size=7), output), corpus


@pytest.mark.parametrize("seed", range(40))
def test_gradient_flow(seed):
    model, corpus = instance(seed)
    path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=3000.0)
    values = model.values().detach().numpy()
    assert path.settled
    assert (path.selection.pair_coefficients(values) > 0).all()
    pairs = path.selection.pairs
    p_hat = shortest_feasible(np.eye(7)[pairs[:, 0]] - np.eye(7)[pairs[:, 1]])
    # 1 - cos falls like a constant over log(t)^2: at log t = 3000 it is far below 1e-4.
    assert ts.cosine(path.cls[-1], p_hat) >= 0.9999


def descend(corpus, values, scores, batches, step, epochs):
    """Gradient descent on p = a (orthonormal E), batch by batch, with the gradient written out."""
    counts = corpus.counts.toarray().astype(float)
    rng = np.random.default_rng(0)
    for _ in range(epochs):
        for rows in (
            rng.permutation(np.arange(len(corpus)).reshape(batches, -1)) if batches > 1 else [slice(None)]
        ):
            block, y = counts[rows], corpus.labels[rows]
            weight = block * np.exp(scores - scores.max())
            q = weight / weight.sum(axis=1, keepdims=True)
            f = q @ values
            g = y / (1 + np.exp(y * f))
            scores = scores + step * ((g[:, None] * q) * (values - f[:, None])).mean(axis=0)
    return scores


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_descent_and_reshuffled_minibatches_turn_towards_it(seed, batches):
    """With bounded steps log t stays below 15: the direction is checked for its approach, not its limit."""
    model, corpus = instance(seed)
    values = model.values().detach().numpy()
    scores = model.scores().detach().numpy()
    selection = ts.Selection.best(corpus, values)
    z = np.eye(7)[selection.pairs[:, 0]] - np.eye(7)[selection.pairs[:, 1]]
    p_hat = shortest_feasible(z)
    early = descend(corpus, values, scores, batches, step=5.0, epochs=300)
    late = descend(corpus, values, early, batches, step=5.0, epochs=30_000)
    assert (np.asarray(ts.Selection.of(corpus, late).tokens) == selection.tokens).all()
    miss_early, miss_late = 1 - ts.cosine(early, p_hat), 1 - ts.cosine(late, p_hat)
    # log t grows from about 7 to 12: a miss that falls like 1/log(t)^2 falls at least by a third, unless it
    # is already at the level that one step of length 5 makes.
    assert miss_late <= max(0.67 * miss_early, 1e-4)


def test_the_data_must_want_the_selection():
    """Attention that sits on the worse token leaves it: q does not tend to 1, however far p starts."""
    corpus = ts.Corpus.from_sequences([[0, 1]], labels=[+1])
    for distance in (5.0, 20.0):
        model = ts.AttentionClassifier(np.eye(2), [-distance, distance], [1.0, 0.0])
        path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=20 * distance)
        assert ts.Selection.of(corpus, path.cls[0]).tokens[0] == 1
        assert path.selection.tokens[0] == 0
