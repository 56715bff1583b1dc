"""Proposition prop-score-space: the logit in terms of scores and values.

The oracle is the definition of the model, one sequence at a time: look up the embedding of every place,
take a softmax of the products with p, average. It shares no code with `tokensel.score_space`.
"""

import numpy as np
import pytest
from scipy.special import softmax

import tokensel as ts

ORIGIN = "tool"
SETTING = r"""Any sequences, of any length and with repeats; any real $E$, $p$ and $v$."""
HYPOTHESES = {
    "no-places": "The score and the value of a token do not depend on its place in the sequence.",
    "plane": r"For part 4: $d\ge2$.",
}
SEEDS = range(30)


def instance(seed):
    """Sequences of 1 to 9 tokens, repeats likely, and embeddings of dimension 1 to 6."""
    rng = np.random.default_rng(seed)
    n_tokens, dim = rng.integers(1, 12), rng.integers(1, 7)
    sequences = [rng.integers(n_tokens, size=rng.integers(1, 10)) for _ in range(rng.integers(1, 8))]
    labels = rng.choice([-1, 1], len(sequences))
    embeddings, cls, output = rng.normal(size=(n_tokens, dim)), 3 * rng.normal(size=dim), rng.normal(size=dim)
    return sequences, labels, embeddings, cls, output, rng


def definition(sequence, embeddings, cls, output):
    return softmax(embeddings[sequence] @ cls) @ (embeddings[sequence] @ output)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_model_is_a_function_of_scores_values_and_counts(seed, evidence):
    sequences, labels, embeddings, cls, output, rng = instance(seed)
    corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=len(embeddings))
    logits = ts.score_space.logits(corpus, embeddings @ cls, embeddings @ output).numpy()
    shuffled = [rng.permutation(sequence) for sequence in sequences]
    for order in (sequences, shuffled):
        expected = [definition(sequence, embeddings, cls, output) for sequence in order]
        # A softmax of at most 9 numbers and an average: a few roundings of numbers of order |b|.
        np.testing.assert_allclose(
            logits, expected, rtol=1e-12, atol=1e-13 * np.abs(embeddings @ output).max()
        )
        worst = np.argmax(np.abs(logits - expected))
        evidence.limit(logits[worst], expected[worst])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_constant_added_to_all_scores_changes_no_attention(seed, evidence):
    sequences, labels, embeddings, cls, _, rng = instance(seed)
    corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=len(embeddings))
    scores, shift = embeddings @ cls, rng.normal(scale=100)
    before = ts.score_space.attention(corpus, scores).to_dense().numpy()
    after = ts.score_space.attention(corpus, scores + shift).to_dense().numpy()
    # Adding the shift rounds each score by half a unit of its last place, and attention changes by as much.
    rounding = np.spacing(np.abs(scores).max() + abs(shift))
    np.testing.assert_allclose(after, before, rtol=4 * rounding + 1e-14, atol=0)
    worst = np.unravel_index(np.argmax(np.abs(after - before)), after.shape)
    evidence.limit(after[worst], before[worst])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_logit_lies_between_the_values_and_the_loss_above_its_bound(seed, evidence):
    sequences, labels, embeddings, cls, output, _ = instance(seed)
    corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=len(embeddings))
    scores, values = embeddings @ cls, embeddings @ output
    logits = ts.score_space.logits(corpus, scores, values).numpy()
    low = np.array([values[sequence].min() for sequence in sequences])
    high = np.array([values[sequence].max() for sequence in sequences])
    rounding = 1e-14 * np.abs(values).max()
    assert (logits >= low - rounding).all()
    assert (logits <= high + rounding).all()
    evidence.holds()
    best = np.mean(np.logaddexp(0, -np.where(labels == 1, high, -low)))
    evidence.bound(best * (1 - 1e-14), ts.score_space.loss(corpus, scores, values).item())


@pytest.mark.parametrize("seed", SEEDS)
def test_two_dimensions_represent_every_pair_of_scores_and_values(seed, evidence):
    sequences, labels, embeddings, cls, output, _ = instance(seed)
    corpus = ts.Corpus.from_sequences(sequences, labels, n_tokens=len(embeddings))
    plane = np.stack([embeddings @ cls, embeddings @ output], axis=1)
    model = ts.AttentionClassifier(plane, cls=np.array([1.0, 0.0]), output=np.array([0.0, 1.0]))
    expected = [definition(sequence, embeddings, cls, output) for sequence in sequences]
    logits = model(corpus).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-12, atol=1e-12)
    worst = np.argmax(np.abs(logits - expected))
    evidence.limit(logits[worst], expected[worst])


@pytest.mark.drops("plane")
@pytest.mark.parametrize("seed", SEEDS)
def test_one_dimension_is_not_enough(seed):
    """Part 4 asks for d >= 2: with d = 1 scores and values are collinear, never (1, 0) and (0, 1)."""
    model = ts.AttentionClassifier.initialise(n_tokens=2, dim=1, seed=seed)
    a, b = model.scores().detach().numpy(), model.values().detach().numpy()
    # The determinant of two collinear vectors, up to the rounding of its two products.
    assert abs(a[0] * b[1] - a[1] * b[0]) <= 4 * np.finfo(float).eps * np.abs(a).max() * np.abs(b).max()


@pytest.mark.drops("no-places")
def test_order_matters_once_the_model_sees_positions():
    """Part 1 needs scores that do not depend on the place: add one number a place and order matters."""
    scores, values, place = np.array([0.0, 0.0]), np.array([1.0, -1.0]), np.array([1.0, 0.0])
    forward, backward = np.array([0, 1]), np.array([1, 0])
    logit = [softmax(scores[order] + place) @ values[order] for order in (forward, backward)]
    assert logit[0] > 0.4
    assert logit[1] < -0.4
