"""Lemma lem-asymptotic: gradient and loss gap near a selection, with errors of first order in q-bar.

Gradient, loss gap and pair coefficients are computed with 60 digits (mpmath) from their definitions;
`Selection.pair_coefficients` is compared with the latter.
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
LONGEST = 5


def instance(seed):
    """Sequences that share tokens, some repeated; a selection by an order of tokens; ties in half of them."""
    rng = np.random.default_rng(seed)
    n_tokens, n = 6, 5
    sequences = [rng.integers(n_tokens, size=rng.integers(2, LONGEST + 1)) for _ in range(n)]
    sequences[0] = np.array([0, 1, 2])  # at least one pair
    corpus = ts.Corpus.from_sequences(sequences, rng.choice([-1, 1], n), n_tokens=n_tokens)
    values, order = rng.normal(size=n_tokens), rng.permutation(n_tokens).astype(float)
    return corpus, values if seed % 2 else np.round(values), order


def coefficients(corpus, tokens, values):
    """Gamma of the pairs of J, to 60 digits."""
    gamma = {}
    for row, label, tau in zip(corpus.counts.toarray(), corpus.labels.tolist(), tokens.tolist(), strict=True):
        for s in np.flatnonzero(row).tolist():
            if values[s] != values[tau]:
                slope = 1 / (1 + mpmath.exp(label * mpmath.mpf(float(values[tau])))) * label
                share = slope * int(row[s]) / int(row[tau]) / len(corpus)
                difference = mpmath.mpf(float(values[tau])) - mpmath.mpf(float(values[s]))
                gamma[tau, s] = gamma.get((tau, s), 0) + share * difference
    return gamma


def exact(corpus, scores, values):
    """Force -dL/da and loss, with 60 digits. For any E, both sides of the lemma are E^T times theirs."""
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
    """Both errors over q-bar times the sum of the exponentials stay below the constants that the proof gives.

    With B = max(1, |b|) and counts in a ratio of at most 4 (sequences of at most 5 tokens), a pair of a
    sequence misses by q-bar e^-x times at most 4 * 2B * (2B / 4 + 2) <= 20 B^2 in the force and
    4 * 2B * (2B / 4 + 1) <= 12 B^2 in the loss; the remainder adds 4 * 2B / (1 - q-bar) to the force.
    """
    corpus, values, order = instance(seed)
    selection = ts.Selection.of(corpus, order)
    with mpmath.workdps(60):
        gamma = coefficients(corpus, selection.tokens, values)
        assert gamma  # J is not empty
        of_package = dict(
            zip(map(tuple, selection.pairs.tolist()), selection.pair_coefficients(values), strict=True)
        )
        for pair, coefficient in of_package.items():
            assert coefficient == pytest.approx(float(gamma.get(pair, 0)), rel=1e-12, abs=1e-14)
        values_at = [mpmath.mpf(float(values[s])) for s in selection.tokens]
        best = mpmath.fsum(
            mpmath.log1p(mpmath.exp(-int(y) * b)) for y, b in zip(corpus.labels, values_at, strict=True)
        ) / len(corpus)
        of_force, of_loss = [], []
        for factor in (10, 20, 30):  # the gaps are whole numbers, so q-bar falls like e^-factor
            scores = [mpmath.mpf(factor * order[s]) for s in range(corpus.n_tokens)]
            force, loss = exact(corpus, scores, values)
            weight = {pair: mpmath.exp(scores[pair[1]] - scores[pair[0]]) for pair in gamma}
            predicted = [mpmath.mpf(0)] * corpus.n_tokens
            for (tau, s), g in gamma.items():
                predicted[tau] += g * weight[tau, s]
                predicted[s] -= g * weight[tau, s]
            off = max(
                mpmath.fsum(q) - q[tau]
                for q, tau in zip(attention(corpus, scores), selection.tokens, strict=True)
            )
            assert off < 1e-2
            unit = off * mpmath.fsum(weight.values())
            of_force.append(max(abs(x - y) for x, y in zip(force, predicted, strict=True)) / unit)
            of_loss.append(abs(loss - best - mpmath.fsum(g * weight[j] for j, g in gamma.items())) / unit)
    size = max(1.0, np.abs(values).max())
    evidence.bound(max(of_force), 20 * size**2 + 8 * size / (1 - 1e-2))
    evidence.bound(max(of_loss), 12 * size**2)


def attention(corpus, scores):
    for row in corpus.counts.toarray():
        q = [int(c) * mpmath.exp(a) for c, a in zip(row, scores, strict=True)]
        yield [w / mpmath.fsum(q) for w in q]


def test_the_wrong_coefficient_is_found_out():
    """Without the ratio of counts the prediction misses by a factor, not by O(q-bar)."""
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
