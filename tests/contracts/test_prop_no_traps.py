"""Proposition prop-no-traps: orthogonal embeddings, no shared token: every start finds the best tokens.

The oracle is the definition of the best tokens; attention is a softmax in plain NumPy.
"""

import numpy as np
import pytest

import tokensel as ts

ORIGIN = "beyond the paper"
SETTING = r"""Any number of sequences, any labels, lengths, counts and values, equal values included; $p$
follows gradient flow from any start."""
HYPOTHESES = {
    "disjoint": r"No token stands in two sequences.",
    "orthogonal": r"The rows of $E$ are orthogonal to one another and not zero, of any lengths.",
}


def on_best(corpus, values, scores):
    """Attention on the tokens of largest y b, in each sequence."""
    share = []
    for counts, label in zip(corpus.counts.toarray(), corpus.labels, strict=True):
        here = np.flatnonzero(counts)
        weights = counts[here] * np.exp(scores[here] - scores[here].max())
        wanted = label * values[here]
        share.append(weights[wanted == wanted.max()].sum() / weights.sum())
    return np.array(share)


def instance(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=rng.integers(1, 4))
    tokens = np.split(rng.permutation(sizes.sum()), np.cumsum(sizes)[:-1])
    sequences = [np.append(here, rng.choice(here, rng.integers(0, 3))) for here in tokens]  # some repeat
    corpus = ts.Corpus.from_sequences(sequences, rng.choice([-1, 1], len(sizes)), n_tokens=int(sizes.sum()))
    dim = corpus.n_tokens + int(rng.integers(0, 3))
    rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    lengths = rng.uniform(0.5, 2, corpus.n_tokens)
    embeddings = lengths[:, None] * rotation[: corpus.n_tokens]
    # Few different values, so that many tie; the output vector is the one that gives them.
    values = rng.integers(-2, 3, corpus.n_tokens) / 2
    output = embeddings.T @ (values / lengths**2)
    start = rng.choice([0.0, 1.0, 4.0]) * rng.normal(size=dim)
    return corpus, embeddings, values, output, start


@pytest.mark.parametrize("seed", range(50))
def test_every_start_finds_the_best_tokens(seed, evidence):
    corpus, embeddings, values, output, start = instance(seed)
    assert corpus.document_frequency.max() <= 1
    gram = embeddings @ embeddings.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    model = ts.AttentionClassifier(embeddings, start, output)
    # A best token that starts 40 below the top waits until log t is about 40, or 160 where its length is 1/2.
    path = ts.gradient_flow(
        model, corpus, until_norm=None, until_log_time=600.0, at_log_time=[600.0], tolerance=1e-6
    )
    attention = on_best(corpus, values, embeddings @ path.cls[-1])
    # Off the best tokens there remains of order 1/t, times constants; far below a millionth.
    assert (attention > 1 - 1e-6).all()
    evidence.holds()


@pytest.mark.drops("disjoint")
def test_a_shared_token_can_carry_a_worse_one():
    """Orthonormal embeddings; token 2 also stands in other sequences, which hold it up."""
    trap = ts.traps.shared_tokens()
    assert trap.corpus.document_frequency.max() > 1
    path = ts.gradient_flow(trap.model, trap.corpus, until_norm=None, until_log_time=1000.0)
    attention = on_best(trap.corpus, trap.model.values().detach().numpy(), path.cls[-1])
    assert attention[0] < 1e-6


@pytest.mark.drops("orthogonal")
def test_a_single_sequence_with_correlated_embeddings_can_trap():
    trap = ts.traps.dependent_embeddings()
    assert len(trap.corpus) == 1
    path = ts.gradient_flow(trap.model, trap.corpus, until_norm=None, until_log_time=1000.0)
    embeddings = trap.model.embeddings.detach().numpy()
    assert embeddings[0] @ embeddings[2] != 0
    values = trap.model.values().detach().numpy()
    assert on_best(trap.corpus, values, embeddings @ path.cls[-1])[0] < 1e-6


@pytest.mark.parametrize("seed", range(10, 16))
def test_a_vector_common_to_all_embeddings_changes_nothing(seed):
    """The remark after the proof: the forces sum to zero, so it shifts all scores alike."""
    corpus, embeddings, values, _, start = instance(seed)
    moved = embeddings + 0.7
    # The rows stay independent: some output vector gives them the same values.
    output = np.linalg.lstsq(moved, values, rcond=None)[0]
    np.testing.assert_allclose(moved @ output, values, atol=1e-9)
    model = ts.AttentionClassifier(moved, start, output)
    path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=600.0, tolerance=1e-6)
    assert (on_best(corpus, values, moved @ path.cls[-1]) > 1 - 1e-6).all()
