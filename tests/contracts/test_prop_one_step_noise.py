"""Proposition "law of the noise": first order exact, remainder quadratic, root mean square as stated."""

import numpy as np
import pytest

import tokensel as ts
from tokensel import theory

ORIGIN = "beyond the paper"
SETTING = r"""Any corpus: unequal lengths, repeated tokens, one class or two. One step of any size; for its
first order any $E_0$, $p_0$ and $v$, for its law any $p_0$ and $v$."""
HYPOTHESES = {
    "normal": "For the law: the entries of $E_0$ are independent and normal, of mean $0$ and variance $1/d$.",
    "independent": "For the law: $E_0$ is independent of $p_0$ and $v$.",
    "orthogonal": r"For the law: $p_0\cdot v=0$.",
}


def _numpy(tensor):
    return tensor.detach().numpy()


def _corpus(seed, n_tokens=9, n_sequences=25, positive_share=0.7):
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(0, n_tokens, rng.integers(1, 10)) for _ in range(n_sequences)]
    labels = np.where(rng.random(n_sequences) < positive_share, 1, -1)
    return ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=n_tokens)


def _moved(embeddings, cls, output, corpus):
    start = ts.AttentionClassifier(embeddings, cls, output)
    return _numpy(ts.one_step(start, corpus, 1.0).embeddings) - embeddings


@pytest.mark.parametrize("seed", range(6))
def test_what_the_first_order_leaves_out_is_quadratic(seed, evidence):
    rng, corpus, dim = np.random.default_rng(seed), _corpus(seed), 20
    embeddings, cls, output = (
        rng.standard_normal((9, dim)),
        rng.standard_normal(dim),
        rng.standard_normal(dim),
    )
    sizes, left_out = 10.0 ** np.arange(-4, -1), []
    for size in sizes:  # scores and values shrink with the embeddings; p_0 and v stay as long as they are
        rows = theory.one_step_first_order(
            corpus.frequencies, corpus.labels, size * embeddings @ cls, size * embeddings @ output
        )
        predicted = np.outer(rows.along_output, output) + np.outer(rows.along_cls, cls)
        left_out.append(np.abs(_moved(size * embeddings, cls, output, corpus) - predicted).max())
    slopes = np.diff(np.log(left_out)) / np.diff(np.log(sizes))
    # A wrong coefficient anywhere would leave slope 1. The cubic term is of relative order size: 0.1 at most.
    assert np.all(np.abs(slopes - 2) < 0.1)
    evidence.limit(slopes[np.argmax(np.abs(slopes - 2))], 2.0)


def _left_out(length, epsilon):
    """One token of score epsilon, the others of value epsilon: what the first order leaves out, over nu."""
    corpus = ts.Corpus([[1, length - 1]], labels=[1])
    embeddings = np.array([[epsilon, 0.0], [0.0, epsilon]])
    cls, output = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    rows = theory.one_step_first_order(
        corpus.frequencies, corpus.labels, embeddings @ cls, embeddings @ output
    )
    predicted = np.outer(rows.along_output, output) + np.outer(rows.along_cls, cls)
    error = np.linalg.norm(_moved(embeddings, cls, output, corpus) - predicted, axis=1)
    return (error / corpus.average_frequency).max()


@pytest.mark.parametrize("seed", range(80))
def test_the_remainder_is_within_its_bound_in_any_corpus(seed, evidence):
    rng = np.random.default_rng(seed)
    corpus = _corpus(seed, positive_share=rng.choice([0.0, 0.5, 0.9]))
    dim, size = int(rng.integers(1, 12)), 10 ** rng.uniform(-3, 0.5)
    embeddings = size * rng.choice([rng.standard_normal((9, dim)), rng.choice([-1.0, 1.0], (9, dim))])
    cls, output = (rng.standard_normal(dim) * 10 ** rng.uniform(-1, 0.5) for _ in range(2))
    a, b = embeddings @ cls, embeddings @ output
    rows = theory.one_step_first_order(corpus.frequencies, corpus.labels, a, b)
    predicted = np.outer(rows.along_output, output) + np.outer(rows.along_cls, cls)
    error = np.linalg.norm(_moved(embeddings, cls, output, corpus) - predicted, axis=1)
    epsilon = max(np.abs(a).max(), np.abs(b).max())
    factor = epsilon**2 * np.exp(2 * epsilon) * (2 * np.linalg.norm(output) + 3 * np.linalg.norm(cls))
    # E_1 - E_0 is a difference of float64 numbers: it carries the rounding of its two terms.
    allowed = factor * corpus.average_frequency + 2 * np.finfo(float).eps * np.linalg.norm(embeddings, axis=1)
    worst = np.argmax(error / allowed)
    evidence.bound(error[worst], allowed[worst])


def test_the_remainder_is_within_its_bound_whatever_the_length(evidence):
    """One rare token that gains all attention: the remainder stays in proportion to its frequency."""
    for length in (10, 10**3, 10**5, 10**7):
        for epsilon in (0.01, 0.1, 1.0, 3.0, 20.0):
            evidence.bound(_left_out(length, epsilon), 5 * epsilon**2 * np.exp(2 * epsilon))


def test_without_the_exponential_the_bound_would_fail():
    """At epsilon = 20 the rare token takes all attention, and the remainder over nu grows with the length."""
    shares = [_left_out(length, 20.0) / 20.0**2 for length in (10**3, 10**5, 10**7)]
    assert shares[1] > 50 * shares[0]
    assert shares[2] > 50 * shares[1]
    assert shares[2] > 5


@pytest.mark.parametrize("coefficient", range(4))
def test_each_coefficient_is_needed(coefficient):
    """Without any one of its terms an error of first order is left: the slope above would be 1."""
    rng, corpus, size = np.random.default_rng(0), _corpus(0), 1e-4
    embeddings = size * rng.standard_normal((9, 20))
    cls, output = rng.standard_normal(20), rng.standard_normal(20)
    phi, y = corpus.frequencies.toarray(), corpus.labels
    a, b, alpha = embeddings @ cls, embeddings @ output, phi.T @ y / len(y)
    along = [alpha * a / 2, -phi.T @ (y * (phi @ a)) / len(y) / 2, -phi.T @ (phi @ b) / len(y) / 4]
    across = (alpha * b - phi.T @ (y * (phi @ b)) / len(y)) / 2
    whole = np.outer(alpha / 2 + sum(along), output) + np.outer(across, cls)
    dropped = [*(np.outer(part, output) for part in along), np.outer(across, cls)][coefficient]
    moved = _moved(embeddings, cls, output, corpus)
    assert np.abs(moved - (whole - dropped)).max() > 100 * np.abs(moved - whole).max()


def test_the_root_mean_square_over_starts_is_the_stated_one(evidence):
    corpus, dim, n_starts = ts.samplers.one_important_token(seed=0), 1024, 400
    rng = np.random.default_rng(0)
    output = rng.choice([-1.0, 1.0], dim) / np.sqrt(dim)
    cls = rng.standard_normal(dim)
    cls -= (cls @ output) * output  # the statement is exact to first order for p_0 orthogonal to v
    cls *= 0.7 / np.linalg.norm(cls)
    output *= 1.5
    alpha, squares = corpus.average_signed_frequency, 0.0
    for _ in range(n_starts):
        embeddings = rng.standard_normal((corpus.n_tokens, dim)) / np.sqrt(dim)
        error = _moved(embeddings, cls, output, corpus) - np.outer(alpha, output) / 2
        squares = squares + (error**2).sum(1) / n_starts
    stated = theory.one_step_noise(corpus.frequencies, corpus.labels, dim, cls_norm=0.7, output_norm=1.5)
    # A square of Gaussians has a relative standard deviation of at most sqrt(2): five standard errors, and
    # epsilon^2 (0.02 at this d) for the second order.
    assert np.all(np.abs(squares / stated**2 - 1) < 5 * np.sqrt(2 / n_starts) + 0.02)
    for measured, predicted in zip(np.sqrt(squares), stated, strict=True):
        evidence.limit(measured, predicted)


def test_the_closed_form_is_the_mean_square_of_the_first_order(evidence):
    corpus, n_starts, rng = _corpus(3), 50_000, np.random.default_rng(0)
    scores, values = rng.standard_normal((2, 9, n_starts))  # independent, as for p_0 orthogonal to v
    rows = theory.one_step_first_order(corpus.frequencies, corpus.labels, 0.7 * scores, 1.5 * values)
    along = rows.along_output - corpus.average_signed_frequency[:, None] / 2
    mean_square = (1.5**2 * along**2 + 0.7**2 * rows.along_cls**2).mean(1)
    stated = theory.one_step_noise(corpus.frequencies, corpus.labels, 1, cls_norm=0.7, output_norm=1.5)
    np.testing.assert_allclose(mean_square, stated**2, rtol=5 * np.sqrt(2 / n_starts))  # five standard errors
    for measured, predicted in zip(np.sqrt(mean_square), stated, strict=True):
        evidence.limit(measured, predicted)


@pytest.mark.drops("normal")
def test_entries_twice_as_large_make_more_noise():
    corpus, dim, rng = ts.samplers.one_important_token(seed=0), 256, np.random.default_rng(0)
    squares = 0.0
    for _ in range(50):  # entries twice as large: the same slope in d, twice the height
        start = ts.AttentionClassifier.initialise(corpus.n_tokens, dim, seed=rng)
        embeddings = 2 * _numpy(start.embeddings)
        error = _moved(embeddings, _numpy(start.cls), _numpy(start.output), corpus)
        error -= np.outer(corpus.average_signed_frequency, _numpy(start.output)) / 2
        squares = squares + (error**2).sum() / 50
    stated = theory.one_step_noise(corpus.frequencies, corpus.labels, dim)
    assert squares / (stated**2).sum() > 2


@pytest.mark.drops("independent")
def test_an_output_vector_taken_from_the_embeddings_makes_more_noise():
    """With v along the first row its value is about 1, not about d^(-1/2)."""
    corpus, dim, rng = ts.samplers.one_important_token(seed=0), 256, np.random.default_rng(0)
    squares = 0.0
    for _ in range(50):
        embeddings = rng.standard_normal((corpus.n_tokens, dim)) / np.sqrt(dim)
        output, cls = embeddings[0] / np.linalg.norm(embeddings[0]), rng.standard_normal(dim)
        cls -= (cls @ output) * output
        cls /= np.linalg.norm(cls)
        error = (
            _moved(embeddings, cls, output, corpus) - np.outer(corpus.average_signed_frequency, output) / 2
        )
        squares = squares + (error**2).sum(1) / 50
    stated = theory.one_step_noise(corpus.frequencies, corpus.labels, dim)
    together = corpus.counts.toarray()[:, 0] > 0  # tokens that stand beside the first
    meets = corpus.counts.toarray()[together].sum(axis=0) > 0
    assert np.median(squares[meets] / stated[meets] ** 2) > 4


@pytest.mark.drops("orthogonal")
def test_a_cls_embedding_along_the_output_vector_makes_more_noise():
    """At p_0 = 2 v scores are twice the values: for two tokens of one sequence the squares nearly double."""
    corpus, dim, n_starts, rng = ts.Corpus([[1, 1]], labels=[1]), 1024, 400, np.random.default_rng(0)
    output = rng.choice([-1.0, 1.0], dim) / np.sqrt(dim)
    squares = 0.0
    for _ in range(n_starts):
        embeddings = rng.standard_normal((2, dim)) / np.sqrt(dim)
        error = _moved(embeddings, 2 * output, output, corpus) - np.outer([0.25, 0.25], output)
        squares = squares + (error**2).sum(1) / n_starts
    stated = theory.one_step_noise(corpus.frequencies, corpus.labels, dim, cls_norm=2.0)
    assert np.all(squares / stated**2 > 1 + 5 * np.sqrt(2 / n_starts) + 0.02)  # as above


@pytest.mark.parametrize("step_size", [30.0, 300.0, 3e4])
def test_signs_come_out_right_as_often_as_stated(step_size, evidence):
    corpus = _corpus(1, n_tokens=12, n_sequences=10_000, positive_share=0.5)  # nearly balanced tokens
    dim, n_starts, rng, right = 1024, 400, np.random.default_rng(0), 0.0
    output = rng.choice([-1.0, 1.0], dim) / np.sqrt(dim)
    cls = rng.standard_normal(dim)
    cls -= (cls @ output) * output
    cls *= 1.3 / np.linalg.norm(cls)
    alpha = corpus.average_signed_frequency
    for _ in range(n_starts):
        embeddings = rng.standard_normal((corpus.n_tokens, dim)) / np.sqrt(dim)
        start = ts.AttentionClassifier(embeddings, cls, output)
        right = right + (np.sign(_numpy(ts.one_step(start, corpus, step_size).values())) == np.sign(alpha))
    stated = theory.one_step_sign_probability(corpus.frequencies, corpus.labels, step_size, dim, cls_norm=1.3)
    assert stated.min() < 0.95
    assert stated.max() > 0.6  # neither all certain nor all coin flips
    # Five standard errors of a share of 400, and half a percent for the second order (epsilon is 0.1).
    off, allowed = np.abs(right / n_starts - stated), 5 * np.sqrt(stated * (1 - stated) / n_starts) + 0.005
    assert np.all(off < allowed)
    worst = np.argmax(off / allowed)
    evidence.bound(off[worst], allowed[worst])
