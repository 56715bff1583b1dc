"""Designs and traps: each has the property that it is named after, counted by plain loops or solved apart."""

import itertools
from collections import Counter

import numpy as np
import pytest

import tokensel as ts
from tokensel import samplers, theory, traps


def rows_of(corpus):
    """Each sequence as a list of token ids, by plain loops."""
    return [
        [s for s, times in enumerate(row) for _ in range(times)] for row in corpus.counts.toarray().tolist()
    ]


def check_classes(corpus, n_positive, n_important):
    """One distinct important token a sequence, of its class, and at least one irrelevant token."""
    for row, label in zip(rows_of(corpus), corpus.labels.tolist(), strict=True):
        important = {s for s in row if s < n_important}
        assert len(important) == 1
        assert label == (1 if important.pop() < n_positive else -1)
        assert any(s >= n_important for s in row)


SIZES = [(2, 2, 6, 4), (1, 0, 1, 2), (0, 3, 4, 5), (3, 1, 5, 2), (1, 4, 7, 3)]


@pytest.mark.parametrize(("k_positive", "k_negative", "m", "t"), SIZES)
def test_full_co_occurrence_has_every_subset_once(k_positive, k_negative, m, t):
    corpus, k = samplers.full_co_occurrence(k_positive, k_negative, m, t), k_positive + k_negative
    check_classes(corpus, k_positive, k)
    expected = Counter(
        (important, *others)
        for important in range(k)
        for others in itertools.combinations(range(k, k + m), t - 1)
    )
    assert Counter(map(tuple, rows_of(corpus))) == expected
    if k_positive == k_negative:
        assert (corpus.average_signed_frequency[k:] == 0).all()


@pytest.mark.parametrize(("k_positive", "k_negative", "m", "t"), SIZES)
@pytest.mark.parametrize("repeats", [1, 3])
def test_marginal_balance(k_positive, k_negative, m, t, repeats):
    k = k_positive + k_negative
    corpus = samplers.marginal_balance(k_positive, k_negative, m, t, repeats=repeats, seed=3)
    check_classes(corpus, k_positive, k)
    assert set(corpus.lengths) == {t}
    totals = corpus.counts.toarray().sum(axis=0)
    assert len(set(totals[:k])) == len(set(totals[k:])) == 1
    assert (corpus.counts[:, :k].toarray().sum(axis=1) == 1).all()
    # The smallest: no smaller number of sequences a token gives a whole number of places to each irrelevant.
    fewer = [r for r in range(1, totals[0] // repeats) if r * k * (t - 1) % m == 0]
    assert totals[0] % repeats == 0
    assert fewer == []


def test_marginal_balance_need_not_be_full_co_occurrence():
    corpus = samplers.marginal_balance(2, 2, 30, 3, seed=0)
    selection = ts.Selection(corpus, [row[0] for row in rows_of(corpus)])
    assert len(selection.pairs) < 4 * 30


@pytest.mark.parametrize("seed", range(20))
def test_one_distinct_important_token(seed):
    corpus = samplers.one_distinct_important_token(30, 3, 1, 5, shortest=2, longest=6, seed=seed)
    check_classes(corpus, 3, 4)
    counts = corpus.counts.toarray()
    assert (counts[:, :4].sum(axis=0) > 0).all()
    assert corpus.lengths.min() >= 2
    assert corpus.lengths.max() <= 6
    assert len(corpus) == 30


def test_one_distinct_important_token_is_as_uneven_as_it_says():
    corpus = samplers.one_distinct_important_token(200, 2, 2, 6, seed=0)
    counts = corpus.counts.toarray()
    assert set(corpus.lengths) == set(range(2, 9))
    assert counts[:, :4].max() > 1
    used = (counts[:, :4] > 0).sum(axis=0)
    together = np.array([(counts[counts[:, k] > 0] > 0).mean(axis=0)[4:] for k in range(4)])
    assert used.max() > 2 * used.min()
    assert np.ptp(together, axis=0).max() > 0.2  # shares of sequences; equal ones differ by chance, 0.1
    assert (corpus.average_signed_frequency != 0).all()


@pytest.mark.parametrize("sampler", [samplers.marginal_balance, samplers.one_distinct_important_token])
def test_same_seed_same_corpus(sampler):
    first, second, other = (sampler(seed=seed).counts.toarray().tolist() for seed in (5, 5, 6))
    assert first == second != other
    assert sampler(seed=np.random.default_rng(5)).counts.toarray().tolist() == first


def test_two_token_cycle():
    corpus = samplers.two_token_cycle()
    assert rows_of(corpus) == [[0, 1], [0, 1]]
    assert corpus.labels.tolist() == [1, -1]
    assert ts.Selection.best(corpus, [1.0, -1.0]).cycle == [0, 1]
    # Values of one sign: the negative sequence outweighs the other, and loss tends to 0.72408.
    model = ts.AttentionClassifier(np.eye(2), np.zeros(2), np.array([1.5, 0.5]))
    assert ts.gradient_flow(model, corpus).selection.tokens.tolist() == [1, 1]
    even = ts.AttentionClassifier(np.eye(2), np.array([1.0, 0.0]), np.array([1.0, -1.0]))
    assert ts.gradient_flow(even, corpus).status == "stationary"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: samplers.full_co_occurrence(0, 0), ValueError, "must not both be 0"),
        (
            lambda: samplers.full_co_occurrence(length=8),
            ValueError,
            r"at most n_irrelevant \+ 1 = 7, .* got 8",
        ),
        (lambda: samplers.full_co_occurrence(length=1), ValueError, "length must be at least 2, got 1"),
        (
            lambda: samplers.full_co_occurrence(n_irrelevant=60, length=20),
            ValueError,
            "all subsets would make",
        ),
        (lambda: samplers.full_co_occurrence(-1, 2), ValueError, "n_positive must be at least 0, got -1"),
        (lambda: samplers.marginal_balance(n_irrelevant=0), ValueError, "n_irrelevant must be at least 1"),
        (lambda: samplers.marginal_balance(repeats=0), ValueError, "repeats must be at least 1, got 0"),
        (lambda: samplers.marginal_balance(n_negative=1.0), TypeError, "n_negative must be a whole number"),
        (lambda: samplers.marginal_balance(seed=None), TypeError, "seed must be an int"),
        (
            lambda: samplers.one_distinct_important_token(3),
            ValueError,
            "got 3 sequences for 4 important tokens",
        ),
        (
            lambda: samplers.one_distinct_important_token(shortest=1),
            ValueError,
            "shortest must be at least 2",
        ),
        (
            lambda: samplers.one_distinct_important_token(shortest=9),
            ValueError,
            "longest must be at least shortest",
        ),
        (lambda: traps.outvoted(0), ValueError, "n_copies must be at least 1, got 0"),
        (lambda: traps.unequal_magnitudes(negative_value=0.0), ValueError, "negative_value must be positive"),
        (lambda: traps.unequal_magnitudes(distance=-1.0), ValueError, "distance must be at least 0"),
    ],
)
def test_wrong_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


TRAPS = [traps.shared_tokens, traps.dependent_embeddings, traps.outvoted, traps.unequal_magnitudes]


@pytest.mark.parametrize("trap", TRAPS)
def test_trapped_to_the_end(trap):
    """Not the best selection, but it has a max-margin solution, and the flow tends to it at the same rate."""
    model, corpus, selection = trap()
    values = model.values().detach().numpy()
    assert (selection.tokens != ts.Selection.best(corpus, values).tokens).any()
    solution = ts.max_margin(model.embeddings, selection, values)
    path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=1000.0)
    assert path.selection.tokens.tolist() == selection.tokens.tolist()
    assert path.settled
    # 1 - cos falls like 1 / log(t)^2: 1e-4 leaves a distance of 14 from the line, of a length of 1000 |p|.
    assert ts.cosine(path.cls[-1], solution.cls) >= 0.9999
    law = theory.late_flow(path.log_time[-1], solution.margin**-2)
    assert path.log_loss_gap[-1] == pytest.approx(law.log_loss_gap, abs=1e-4)
    # Theorem C's condition: the data want every tight pair.
    pairs = [selection.pairs.tolist().index(pair) for pair in solution.support_pairs.tolist()]
    assert (selection.pair_coefficients(values)[pairs] > 0).all()


def test_traps_open_where_they_say():
    for n_copies in (1, 5):
        model, corpus, _ = traps.outvoted(n_copies)
        np.testing.assert_allclose(model.values().detach(), [1, -1, 0, 0], atol=1e-15)
        path = ts.gradient_flow(model, corpus)
        assert path.selection.tokens.tolist() == ts.Selection.best(corpus, [1, -1, 0, 0]).tokens.tolist()
    model, corpus, _ = traps.shared_tokens()
    from_zero = ts.AttentionClassifier(model.embeddings, np.zeros(5), model.output)
    assert ts.gradient_flow(from_zero, corpus).selection.tokens.tolist() == [0, 2, 2]


def test_unequal_magnitudes_traps_above_the_boundary_only():
    boundary = theory.trap_boundary(2, 4, 1.0)
    for value, trapped in [(1.1 * boundary, True), (0.9 * boundary, False)]:
        model, corpus, selection = traps.unequal_magnitudes(negative_value=value, distance=300.0)
        path = ts.gradient_flow(model, corpus, until_norm=None, until_log_time=2000.0)
        best = ts.Selection.best(corpus, model.values())
        expected = selection if trapped else best
        assert path.selection.tokens.tolist() == expected.tokens.tolist()


def test_rare_and_frequent_tokens_have_one_alpha():
    corpus = samplers.rare_and_frequent(n_sequences=10, n_others=3)
    frequencies = corpus.counts.toarray() / 8
    alpha = corpus.labels @ frequencies / 10
    assert alpha[:2].tolist() == [0.1, 0.1]
    assert (frequencies[:, 0] == 0.5).all()
    assert frequencies[:, 1].tolist() == [0.5, 0, 0.5] + 7 * [0]
    assert corpus.labels[[0, 2]].tolist() == [1, 1]
    assert (corpus.lengths == 8).all()


@pytest.mark.parametrize(
    ("sizes", "message"), [((3,), "n_sequences"), ((2,), "at least 4"), ((10, 0), "n_others")]
)
def test_rare_and_frequent_names_bad_sizes(sizes, message):
    with pytest.raises(ValueError, match=message):
        samplers.rare_and_frequent(*sizes)
