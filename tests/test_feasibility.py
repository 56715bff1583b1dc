"""`feasible_subset`: against all subsets, and against NetworkX by trying to return what it drops."""

import itertools

import networkx as nx
import numpy as np
import pytest

import tokensel as ts


def order_graph(selection, rows):
    """The edges that the kept sequences ask for, by plain loops."""
    graph = nx.DiGraph()
    for i in rows:
        chosen = int(selection.tokens[i])
        graph.add_edges_from((chosen, int(s)) for s in selection.corpus.counts[[i]].indices if s != chosen)
    return graph


def acyclic(selection, rows):
    return nx.is_directed_acyclic_graph(order_graph(selection, rows))


def random_selection(seed, n_sequences, n_tokens, longest):
    rng = np.random.default_rng(seed)
    corpus = ts.samplers.random_tokens(n_sequences, n_tokens, 1, longest, seed=rng)
    return (
        ts.Selection.of(corpus, rng.normal(size=n_tokens))
        if seed % 4 == 0
        else ts.Selection(corpus, [rng.choice(corpus.counts[[i]].indices) for i in range(n_sequences)])
    )


def check_maximal(selection, rows):
    assert rows.dtype == np.int64
    assert np.array_equal(rows, np.unique(rows))
    assert acyclic(selection, rows)
    for i in np.setdiff1d(np.arange(len(selection)), rows):
        assert not acyclic(selection, [*rows, i])


@pytest.mark.parametrize("seed", range(60))
def test_up_to_twelve_sequences_none_is_larger(seed):
    n = seed % 12 + 1
    selection = random_selection(seed, n, n_tokens=3 + seed % 5, longest=4)
    rows = ts.feasible_subset(selection)
    check_maximal(selection, rows)
    larger = itertools.combinations(range(n), len(rows) + 1)
    assert not any(acyclic(selection, subset) for subset in larger)
    assert len(ts.feasible_subset(selection, seed=seed)) == len(rows)


@pytest.mark.parametrize("seed", range(40))
def test_beyond_nothing_dropped_can_return(seed):
    # More than 64 selected tokens in some, so that more than one word of bits is used.
    n_tokens = [10, 40, 150][seed % 3]
    selection = random_selection(seed, 120, n_tokens, longest=5)
    kept = [ts.feasible_subset(selection), ts.feasible_subset(selection, seed=seed)]
    kept.append(ts.feasible_subset(selection, order=np.arange(120)[::-1]))
    for rows in kept:
        check_maximal(selection, rows)


def test_the_order_decides_who_stays():
    """A pass by hand: a sequence stays where its token is not below its other tokens so far."""
    selection = random_selection(5, 60, 12, longest=4)
    order = np.random.default_rng(1).permutation(60)
    kept, graph = [], nx.DiGraph()
    for i in order:
        chosen = int(selection.tokens[i])
        edges = list(order_graph(selection, [i]).edges)
        if not any(
            other in graph and chosen in graph and nx.has_path(graph, other, chosen) for _, other in edges
        ):
            kept.append(i)
            graph.add_edges_from(edges)
    assert np.array_equal(ts.feasible_subset(selection, order=order), np.sort(kept))
    default = np.argsort(-np.diff(selection.corpus.counts.indptr), kind="stable")
    assert np.array_equal(ts.feasible_subset(selection), ts.feasible_subset(selection, order=default))
    first = ts.feasible_subset(selection, seed=3)
    assert np.array_equal(first, ts.feasible_subset(selection, seed=np.random.default_rng(3)))


def test_an_order_without_a_cycle_is_kept_whole_and_can_be_selected():
    scores = np.random.default_rng(0).normal(size=30)
    corpus = ts.samplers.random_tokens(50, 30, seed=0)
    assert np.array_equal(ts.feasible_subset(ts.Selection.of(corpus, scores)), np.arange(50))
    selection = random_selection(3, 40, 12, longest=4)
    rows, dropped = ts.feasible_subset(selection, return_dropped=True)
    assert len(dropped.rows) > 0
    part = ts.Selection(selection.corpus[rows], selection.tokens[rows])
    solution = ts.max_margin(np.eye(12), part)
    assert np.array_equal(ts.Selection.of(part.corpus, np.eye(12) @ solution.cls).tokens, part.tokens)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_dropped(seed):
    selection = random_selection(seed, 40, 10, longest=4)
    rows, dropped = ts.feasible_subset(selection, return_dropped=True)
    assert np.array_equal(rows, ts.feasible_subset(selection))
    assert sorted([*rows, *dropped.rows]) == list(range(40))
    whole, kept = (set(order_graph(selection, which).edges) for which in (range(40), rows))
    assert dropped.pairs.tolist() == sorted(map(list, whole - kept))


def test_repeated_sequences_and_tokens_make_no_conflict():
    copies = ts.Corpus.from_sequences([[0, 1, 1, 1]] * 20, labels=[1] * 20)
    assert np.array_equal(ts.feasible_subset(ts.Selection(copies, [0] * 20)), np.arange(20))
    # Ten sequences want 0 above 1, eleven the reverse: one side goes, which one by the order.
    both = ts.Selection(ts.Corpus.from_sequences([[0, 0, 1]] * 21, labels=[1] * 21), [0] * 10 + [1] * 11)
    assert np.array_equal(ts.feasible_subset(both), np.arange(10))
    assert np.array_equal(ts.feasible_subset(both, order=np.arange(21)[::-1]), np.arange(10, 21))
    few = both.corpus[:5]
    assert np.array_equal(ts.feasible_subset(ts.Selection(few, [0, 0, 1, 1, 1])), [2, 3, 4])


def test_sequences_of_one_token_are_always_kept():
    corpus = ts.Corpus.from_sequences([[0], [1, 1], [0, 1], [0, 1]], labels=[1] * 4)
    assert ts.feasible_subset(ts.Selection(corpus, [0, 1, 0, 1])).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"order": [0, 1]}, ValueError, "each of the 3 rows 0 to 2 once"),
        ({"order": [0, 1, 1]}, ValueError, "each of the 3 rows 0 to 2 once"),
        ({"order": [0.0, 1.0, 2.0]}, TypeError, "order must hold row numbers"),
        ({"seed": 1.5}, TypeError, "seed must be an int"),
        ({"seed": 0, "order": [0, 1, 2]}, ValueError, "not both"),
    ],
)
def test_wrong_arguments(arguments, error, words):
    selection = ts.Selection(ts.Corpus.from_sequences([[0, 1]] * 3, labels=[1] * 3), [0, 1, 0])
    with pytest.raises(error, match=words):
        ts.feasible_subset(selection, **arguments)


def test_a_corpus_is_no_selection():
    with pytest.raises(TypeError, match="selection must be a Selection, got Corpus"):
        ts.feasible_subset(ts.Corpus.from_sequences([[0, 1]], labels=[1]))
