"""Lemma lem-asymptotic: gradient and loss gap near a selection, with errors of first order in epsilon.

The gradient and the loss gap are computed with 60 digits (mpmath) from the definition of the model; the
package's `Selection.pair_coefficients` supplies the prediction.
"""

import mpmath
import numpy as np
import pytest

import tokensel as ts

ORIGIN = "tool"
SETTING = r"""Any corpus: shared and repeated tokens, one class or two. Any embeddings and values, and any
selection with $J\ne\emptyset$."""
HYPOTHESES = {"one-hot": r"The largest attention off the selection, $\bar q$, tends to $0$."}
SEEDS = range(20)


def instance(seed):
    """Sequences that share tokens, some repeated; a selection by an order of tokens."""
    rng = np.random.default_rng(seed)
    n_tokens, n = 6, 5
    sequences = [rng.integers(n_tokens, size=rng.integers(2, 6)) for _ in range(n)]
    sequences[0] = np.array([0, 1, 2])  # at least one pair
    corpus = ts.Corpus.from_sequences(sequences, rng.choice([-1, 1], n), n_tokens=n_tokens)
    return corpus, rng.normal(size=n_tokens), rng.permutation(n_tokens).astype(float)


def exact(corpus, scores, values):
    """Force -dL/da (for orthonormal embeddings the gradient of p itself) and the loss, with 60 digits."""
    force, loss = [mpmath.mpf(0)] * corpus.n_tokens, mpmath.mpf(0)
    counts = corpus.counts.toarray()
    for row, label in zip(counts, corpus.labels, strict=True):
        tokens = np.flatnonzero(row)
        q = [int(row[s]) * mpmath.exp(scores[s]) for s in tokens]
        q = [w / mpmath.fsum(q) for w in q]
        f = mpmath.fsum(w * mpmath.mpf(float(values[s])) for w, s in zip(q, tokens, strict=True))
        y = int(label)
        loss += mpmath.log1p(mpmath.exp(-y * f)) / len(counts)
        for w, s in zip(q, tokens, strict=True):
            force[s] += y / (1 + mpmath.exp(y * f)) * w * (mpmath.mpf(float(values[s])) - f) / len(counts)
    return force, loss


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_are_of_first_order(seed, evidence):
    corpus, values, order = instance(seed)
    selection = ts.Selection.of(corpus, order)
    pairs, gamma = selection.pairs, selection.pair_coefficients(values)
    with mpmath.workdps(60):
        values_at = [mpmath.mpf(float(values[s])) for s in selection.tokens]
        best = mpmath.fsum(
            mpmath.log1p(mpmath.exp(-int(y) * b)) for y, b in zip(corpus.labels, values_at, strict=True)
        ) / len(corpus)
        ratios = []
        for factor in (10, 20, 30):  # the gaps are whole numbers, so epsilon falls like e^(-factor)
            scores = [mpmath.mpf(factor * order[s]) for s in range(corpus.n_tokens)]
            force, loss = exact(corpus, scores, values)
            weight = [mpmath.exp(scores[s] - scores[tau]) for tau, s in pairs]
            predicted = [mpmath.mpf(0)] * corpus.n_tokens
            for (tau, s), g, w in zip(pairs, gamma, weight, strict=True):
                predicted[tau] += mpmath.mpf(float(g)) * w
                predicted[s] -= mpmath.mpf(float(g)) * w
            total = mpmath.fsum(weight)
            epsilon = max(1 - max(q for q in row if q) for row in attention(corpus, scores))
            error = max(abs(x - y) for x, y in zip(force, predicted, strict=True))
            gap = abs(
                loss
                - best
                - mpmath.fsum(mpmath.mpf(float(g)) * w for g, w in zip(gamma, weight, strict=True))
            )
            ratios.append(float(max(error, gap) / (epsilon * total)))
    # O(epsilon) with a constant of the data: values and slopes of order one, at most 5 copies of a token and
    # 5 sequences bound it by 5 * (2 max|b|)^2 * 5. And it does not grow as epsilon falls by e^(-10) twice
    # (float64 coefficients are wrong by 1e-16, which counts for e^30 times that: 1e-3 at the last factor).
    bound = 100 * max(1.0, np.abs(values).max()) ** 2
    evidence.bound(max(ratios), bound)


def attention(corpus, scores):
    for row in corpus.counts.toarray():
        q = [int(c) * mpmath.exp(a) for c, a in zip(row, scores, strict=True)]
        yield [w / mpmath.fsum(q) for w in q]


def test_the_wrong_coefficient_is_found_out():
    """Without the ratio of counts the prediction misses by a factor, not by O(epsilon)."""
    corpus = ts.Corpus.from_sequences([[0, 1, 1, 1]], [1], n_tokens=2)
    selection = ts.Selection.of(corpus, [1.0, 0.0])
    (gamma,) = selection.pair_coefficients([1.0, 0.0])
    with mpmath.workdps(60):
        _, loss = exact(corpus, [mpmath.mpf(40), mpmath.mpf(0)], np.array([1.0, 0.0]))
        gap = float((loss - mpmath.log1p(mpmath.exp(-1))) * mpmath.exp(40))
    assert gamma == pytest.approx(gap, rel=1e-12)
    assert gamma / 3 != pytest.approx(gap, rel=0.5)


@pytest.mark.drops("one-hot")
def test_while_attention_is_spread_the_prediction_is_off_by_a_factor():
    """Values (1, -1), scores equal: the loss gap is log(2) - log(1 + 1/e), and the prediction 2/(1 + e)."""
    corpus = ts.Corpus.from_sequences([[0, 1]], [1])
    (gamma,) = ts.Selection(corpus, [0]).pair_coefficients([1.0, -1.0])
    with mpmath.workdps(60):
        _, loss = exact(corpus, [mpmath.mpf(0)] * 2, np.array([1.0, -1.0]))
        gap = float(loss - mpmath.log1p(mpmath.exp(-1)))
    assert gamma == pytest.approx(2 / (1 + np.e), rel=1e-12)
    assert gamma > 1.4 * gap
