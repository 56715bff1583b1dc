"""Selections against plain Python: pairs from sets, the shortest cycle from powers of the adjacency."""

import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tokensel.corpus import Corpus
from tokensel.model import AttentionClassifier
from tokensel.selection import InfeasibleSelection, Selection, real_array, shortest_cycle

N_TOKENS = 7
UNTIMED = settings(deadline=None)  # NetworkX and SciPy are loaded when first used


@st.composite
def selections(draw):
    """A corpus as lists, and one token of each list."""
    sequence = st.lists(st.integers(0, N_TOKENS - 1), min_size=1, max_size=6)
    sequences = draw(st.lists(sequence, min_size=1, max_size=6))
    labels = draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sequences), max_size=len(sequences)))
    tokens = [draw(st.sampled_from(sequence)) for sequence in sequences]
    return sequences, labels, tokens


def corpus_of(sequences, labels=None):
    labels = np.ones(len(sequences), dtype=int) if labels is None else labels
    return Corpus.from_sequences(sequences, labels=labels, n_tokens=N_TOKENS)


def pairs_of(sequences, tokens):
    return sorted({(t, s) for sequence, t in zip(sequences, tokens, strict=True) for s in sequence if s != t})


def girth(pairs):
    """Length of the shortest directed cycle: the first power of the adjacency matrix with a loop."""
    adjacency = np.zeros((N_TOKENS, N_TOKENS), dtype=bool)
    for pair in pairs:
        adjacency[pair] = True
    walk = np.eye(N_TOKENS, dtype=bool)
    for length in range(1, N_TOKENS + 1):
        walk = walk @ adjacency
        if walk.diagonal().any():
            return length
    return None


@UNTIMED
@given(selections())
def test_pairs_are_those_of_the_sequences_each_once(case):
    sequences, labels, tokens = case
    selection = Selection(corpus_of(sequences, labels), tokens)
    assert list(map(tuple, selection.pairs.tolist())) == pairs_of(sequences, tokens)
    assert selection.pairs.shape == (len(selection.pairs), 2)  # also without a pair
    assert set(selection.order_graph.edges) == set(pairs_of(sequences, tokens))
    assert selection.tokens.tolist() == tokens
    assert len(selection) == len(sequences)


@settings(UNTIMED, max_examples=300)
@given(selections())
def test_cycle_is_one_of_the_shortest(case):
    sequences, labels, tokens = case
    selection = Selection(corpus_of(sequences, labels), tokens)
    pairs = pairs_of(sequences, tokens)
    cycle = selection.cycle
    assert (None if cycle is None else len(cycle)) == girth(pairs)
    if cycle is not None:
        assert len(set(cycle)) == len(cycle)
        assert set(zip(cycle, [*cycle[1:], cycle[0]], strict=True)) <= set(pairs)


@settings(UNTIMED, max_examples=300)
@given(
    st.sets(st.tuples(st.integers(0, N_TOKENS - 1), st.integers(0, N_TOKENS - 1)), min_size=1, max_size=14)
)
def test_shortest_cycle_of_any_pairs(pairs):
    pairs = sorted(pair for pair in pairs if pair[0] != pair[1])
    cycle = shortest_cycle(np.array(pairs, dtype=np.int64).reshape(-1, 2))
    assert (None if cycle is None else len(cycle)) == girth(pairs)


def test_two_tokens_above_each_other():
    selection = Selection(corpus_of([[0, 1], [1, 0, 2]]), [0, 1])
    assert selection.cycle == [0, 1]


def test_three_tokens_in_a_circle():
    selection = Selection(corpus_of([[0, 1], [1, 2], [2, 0], [3, 0]]), [0, 1, 2, 3])
    assert selection.cycle == [0, 1, 2]


def test_two_circles_give_the_shorter():
    """One of four tokens and one of three, which share none: whichever is met first, three come out."""
    four = [[0, 1], [1, 2], [2, 3], [3, 0]]
    three = [[4, 5], [5, 6], [6, 4]]
    for sequences in (four + three, three + four):
        cycle = Selection(corpus_of(sequences), [sequence[0] for sequence in sequences]).cycle
        assert sorted(cycle) == [4, 5, 6]


def test_a_sequence_of_one_distinct_token_has_no_pair():
    selection = Selection(corpus_of([[2], [2, 2]]), [2, 2])
    assert selection.pairs.shape == (0, 2)
    assert selection.cycle is None
    assert selection.pair_coefficients(np.zeros(N_TOKENS)).shape == (0,)
    beside_another = Selection(corpus_of([[2, 2], [2, 3]]), [2, 3])
    assert beside_another.pairs.tolist() == [[3, 2]]


@UNTIMED
@given(selections(), st.lists(st.integers(-3, 3), min_size=N_TOKENS, max_size=N_TOKENS))
def test_of_and_best_take_the_largest_and_of_ties_the_smaller_id(case, numbers):
    sequences, labels, _ = case
    corpus, numbers = corpus_of(sequences, labels), np.array(numbers, dtype=float)
    by_score = [min(sequence, key=lambda s: (-numbers[s], s)) for sequence in sequences]
    assert Selection.of(corpus, numbers).tokens.tolist() == by_score
    by_label = [
        min(sequence, key=lambda s, y=y: (-y * numbers[s], s))
        for sequence, y in zip(sequences, labels, strict=True)
    ]
    assert Selection.best(corpus, numbers).tokens.tolist() == by_label


@UNTIMED
@given(selections(), st.lists(st.floats(-30, 30), min_size=N_TOKENS, max_size=N_TOKENS))
def test_pair_coefficients_sum_over_the_sequences_of_a_pair(case, values):
    sequences, labels, tokens = case
    gamma = dict.fromkeys(pairs_of(sequences, tokens), 0.0)
    size = dict.fromkeys(gamma, 0.0)
    for sequence, y, token in zip(sequences, labels, tokens, strict=True):
        for s in set(sequence) - {token}:
            weight = 1 / (1 + math.exp(y * values[token]))
            term = weight * sequence.count(s) / sequence.count(token) * y * (values[token] - values[s])
            gamma[token, s] += term / len(sequences)
            size[token, s] += abs(term) / len(sequences)
    computed = Selection(corpus_of(sequences, labels), tokens).pair_coefficients(values)
    # At most six terms, each from about ten rounded operations, the exponent among them of size up to 30.
    allowed = 1e-13 * np.array(list(size.values()))
    assert np.all(np.abs(computed - list(gamma.values())) <= allowed)


def test_pair_coefficients_at_extreme_values():
    """Values of size 1,000, whose exponential float64 cannot hold."""
    corpus = corpus_of([[0, 1, 1], [2, 3]], [1, -1])
    gamma = Selection(corpus, [0, 2]).pair_coefficients([-1e3, 1e3, -1e3, 0, 0, 0, 0])
    # sigma(1e3) = 1 and sigma(-1e3) = e^-1000, which is 0 in float64.
    assert gamma.tolist() == [0.5 * 2 * -2e3, 0.0]


def test_equal_values_exert_no_force():
    corpus = corpus_of([[0, 1, 2]])
    gamma = Selection(corpus, [0]).pair_coefficients([0.1 + 0.2, 0.1 + 0.2, 0.3, 0, 0, 0, 0])
    assert gamma[0] == 0
    assert gamma[1] != 0  # 0.1 + 0.2 and 0.3 are different numbers


def test_tensors_are_read_like_arrays():
    corpus = corpus_of([[0, 1, 2], [3, 4]], [1, -1])
    scores = torch.tensor([0.0, 2, 1, 5, 6, 0, 0], dtype=torch.float32, requires_grad=True)
    selection = Selection.of(corpus, scores)
    assert selection.tokens.tolist() == [1, 4]
    assert Selection(corpus, torch.tensor([1, 4])).pairs.tolist() == selection.pairs.tolist()
    expected = Selection.best(corpus, scores.detach().numpy()).tokens.tolist()
    assert Selection.best(corpus, scores).tokens.tolist() == expected


def test_a_selection_does_not_change():
    given_tokens = np.array([0, 3])
    selection = Selection(corpus_of([[0, 1], [3]]), given_tokens)
    given_tokens[0] = 1
    assert selection.tokens.tolist() == [0, 3]
    with pytest.raises(ValueError, match="read-only"):
        selection.tokens[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        selection.pairs[0] = 1
    with pytest.raises(AttributeError, match="make a new one"):
        selection.tokens = given_tokens
    copy = pickle.loads(pickle.dumps(selection))
    assert copy.tokens.tolist() == [0, 3]
    assert not copy.tokens.flags.writeable


def test_repr_counts():
    selection = Selection(corpus_of([[0, 1], [0, 2], [3]]), [0, 0, 3])
    assert repr(selection) == "Selection(3 sequences, 2 distinct tokens selected, 2 pairs)"


def test_a_proof_survives_pickling():
    """Processes hand exceptions to each other that way."""
    error = pickle.loads(pickle.dumps(InfeasibleSelection("no", cycle=[0, 1])))
    assert isinstance(error, ValueError)
    assert (str(error), error.cycle, error.pairs, error.weights) == ("no", [0, 1], None, None)


def test_a_selected_token_must_stand_in_its_sequence():
    with pytest.raises(ValueError, match=r"tokens\[1\] is 4.*sequence 1.*\[0, 2, 3\]"):
        Selection(corpus_of([[0, 1], [0, 2, 3], [1]]), [0, 4, 2])
    with pytest.raises(ValueError, match=r"tokens\[0\] is -1"):
        Selection(corpus_of([[0, 6]]), [-1])


def test_sizes_and_kinds_of_tokens():
    corpus = corpus_of([[0, 1], [2, 3]])
    with pytest.raises(ValueError, match=r"shape \(2,\), one token a sequence; got shape \(1,\)"):
        Selection(corpus, [0])
    with pytest.raises(ValueError, match=r"got shape \(\)"):
        Selection(corpus, 0)
    with pytest.raises(TypeError, match="integers; got an array of float64"):
        Selection(corpus, [0.0, 2.0])
    with pytest.raises(TypeError, match="bool"):
        Selection(corpus, [False, True])
    with pytest.raises(TypeError, match=r"\(corpus\.token_id\(word\) gives one\)"):
        Selection(corpus, ["great", "great"])
    for wrong in (lambda: Selection([[0, 1]], [0]), lambda: Selection.of([[0, 1]], [0.0, 1.0])):
        with pytest.raises(TypeError, match="corpus must be a Corpus, got list"):
            wrong()


@pytest.mark.parametrize("make", [Selection.of, Selection.best])
def test_scores_and_values_must_be_finite_numbers_one_a_token(make):
    corpus = corpus_of([[0, 1], [2, 3]])
    name = "scores" if make == Selection.of else "values"
    with pytest.raises(ValueError, match=rf"{name} must have shape \(7,\), one a token; got shape \(3,\)"):
        make(corpus, np.zeros(3))
    with pytest.raises(ValueError, match=rf"{name}\[2\] is nan"):
        make(corpus, [0, 0, math.nan, 0, 0, 0, 0])
    with pytest.raises(TypeError, match=f"{name} must be real numbers"):
        make(corpus, ["a"] * N_TOKENS)
    model = AttentionClassifier(np.eye(N_TOKENS), np.zeros(N_TOKENS), np.ones(N_TOKENS))
    with pytest.raises(TypeError, match=rf"got AttentionClassifier: pass model\.{name}\(\)"):
        make(corpus, model)


def test_numbers_that_are_none():
    with pytest.raises(TypeError, match="complex128"):
        real_array("scores", np.zeros(2, dtype=complex))
    with pytest.raises(TypeError, match="complex64"):
        real_array("scores", torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="scores must be an array of numbers"):
        real_array("scores", [[1.0], [1.0, 2.0]])
