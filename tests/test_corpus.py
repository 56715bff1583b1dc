"""`Corpus` against plain Python loops and exact fractions."""

import copy
import itertools
import math
import pickle
import re
import weakref
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tokensel.corpus import Corpus, tokenise

ARRAYS = (
    "average_signed_frequency",
    "average_frequency",
    "document_frequency",
    "posterior_difference",
    "token_kinds",
)


@st.composite
def examples(draw):
    """Sequences, labels as -1 and +1, and the size of the vocabulary."""
    n_tokens = draw(st.integers(1, 7))
    sequence = st.lists(st.integers(0, n_tokens - 1), min_size=1, max_size=9)
    sequences = draw(st.lists(sequence, min_size=1, max_size=12))
    labels = draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sequences), max_size=len(sequences)))
    return sequences, labels, n_tokens


def exact_mean(sequences, weights, s):
    """(1/n) sum_i w_i C_is / T_i as a fraction."""
    terms = (w * Fraction(x.count(s), len(x)) for x, w in zip(sequences, weights, strict=True))
    return sum(terms, Fraction(0)) / len(sequences)


def kind(sequences, labels, s):
    classes = {y for x, y in zip(sequences, labels, strict=True) if s in x}
    if not classes:
        return "absent"
    if len(classes) == 1:
        return "completely positive" if classes == {1} else "completely negative"
    alpha = exact_mean(sequences, labels, s)
    return "irrelevant" if alpha == 0 else "positive" if alpha > 0 else "negative"


def assert_canonical(corpus):
    """Each token once a row, in order, and no stored zeros: what the flags of the matrix promise to SciPy."""
    indptr, indices = corpus.counts.indptr, corpus.counts.indices
    for start, stop in itertools.pairwise(indptr):
        assert (np.diff(indices[start:stop]) > 0).all()
    assert (corpus.counts.data > 0).all()


def assert_same(corpus, other):
    assert_canonical(corpus)
    assert_canonical(other)
    assert (corpus.counts != other.counts).nnz == 0
    assert corpus.counts.shape == other.counts.shape
    assert corpus.vocabulary == other.vocabulary
    assert corpus.texts == other.texts
    np.testing.assert_array_equal(corpus.labels, other.labels)
    np.testing.assert_array_equal(corpus.lengths, other.lengths)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(corpus, name), getattr(other, name))


# Statistics


@settings(deadline=None)  # imports and other work on the machine are no failure
@given(examples())
def test_counts_and_lengths(example):
    sequences, labels, n_tokens = example
    corpus = Corpus.from_sequences(sequences, labels, n_tokens)
    assert corpus.counts.toarray().tolist() == [[x.count(s) for s in range(n_tokens)] for x in sequences]
    assert corpus.lengths.tolist() == [len(x) for x in sequences]
    assert corpus.labels.tolist() == labels
    assert (corpus.n_sequences, corpus.n_tokens, len(corpus)) == (len(sequences), n_tokens, len(sequences))
    assert_canonical(corpus)


@settings(deadline=None)
@given(examples())
def test_statistics_agree_with_fractions(example):
    sequences, labels, n_tokens = example
    corpus = Corpus.from_sequences(sequences, labels, n_tokens)
    ones = [1] * len(sequences)
    alpha = [exact_mean(sequences, labels, s) for s in range(n_tokens)]
    nu = [exact_mean(sequences, ones, s) for s in range(n_tokens)]
    # One rounding of a term a length, one of each addition, one of the division by n: each at most eps / 2 of
    # the sum of magnitudes, n nu. There are at most 9 lengths.
    rounding = 10 * np.finfo(float).eps
    for s in range(n_tokens):
        assert abs(Fraction(corpus.average_signed_frequency[s].item()) - alpha[s]) <= rounding * nu[s]
        assert abs(Fraction(corpus.average_frequency[s].item()) - nu[s]) <= rounding * nu[s]
        assert np.sign(corpus.average_signed_frequency[s]) == (alpha[s] > 0) - (alpha[s] < 0)
    np.testing.assert_array_equal(
        corpus.frequencies.toarray(), [[x.count(s) / len(x) for s in range(n_tokens)] for x in sequences]
    )


@settings(deadline=None)
@given(examples())
def test_document_frequency_posterior_difference_and_kinds(example):
    sequences, labels, n_tokens = example
    corpus = Corpus.from_sequences(sequences, labels, n_tokens)
    for s in range(n_tokens):
        holding = [y for x, y in zip(sequences, labels, strict=True) if s in x]
        assert corpus.document_frequency[s] == len(holding)
        if holding:
            assert corpus.posterior_difference[s] == sum(holding) / len(holding)
        else:
            assert math.isnan(corpus.posterior_difference[s])
        assert corpus.token_kinds[s] == kind(sequences, labels, s)


def sequence_of(token, times, length, filler):
    return [token] * times + [filler] * (length - times)


@pytest.mark.parametrize(
    "parts",  # (label, how often token 0 stands there, length): the signed frequencies cancel exactly
    [
        [(1, 1, 2), (-1, 1, 3), (-1, 1, 6)],
        [(1, 1, 10), (1, 1, 5), (-1, 3, 10)],
        [(1, 1, 3), (1, 1, 3), (1, 1, 3), (1, 1, 7), (-1, 7, 7), (-1, 1, 7)],
        [(1, 1, 49), (1, 48, 49), (-1, 1, 5), (-1, 3, 5), (-1, 1, 5)],
    ],
)
def test_alpha_is_exactly_zero_where_lengths_cancel(parts):
    sequences = [sequence_of(0, times, length, filler=1) for _, times, length in parts]
    corpus = Corpus.from_sequences(sequences, [label for label, _, _ in parts], n_tokens=2)
    assert exact_mean(sequences, corpus.labels.tolist(), 0) == 0
    assert corpus.average_signed_frequency[0] == 0
    assert corpus.token_kinds[0] == "irrelevant"


def test_summing_in_floating_point_would_miss_a_zero():
    assert 1 / 2 - 1 / 3 - 1 / 6 != 0  # the first case above: without fractions α would not be 0


@pytest.mark.parametrize("label", [1, -1])
def test_sign_of_alpha_far_below_rounding(label):
    # a / first - b / second = 1 / (first * second), about 1e-18, where the two terms are near 1/2.
    first, second = 1_000_000_007, 1_000_000_009
    a = pow(second, -1, first)
    b = (a * second - 1) // first
    corpus = Corpus([[a, first - a], [b, second - b]], labels=[label, -label])
    exact = label * Fraction(1, 2 * first * second)
    assert corpus.average_signed_frequency[0] == float(exact)
    assert corpus.token_kinds.tolist() == (
        ["positive", "negative"] if label == 1 else ["negative", "positive"]
    )


def test_completely_positive_token_has_alpha_equal_to_nu():
    rng = np.random.default_rng(0)
    sequences = [[0, *rng.integers(1, 5, size=rng.integers(1, 40))] for _ in range(50)]
    sequences += [list(rng.integers(1, 5, size=rng.integers(1, 40))) for _ in range(50)]
    corpus = Corpus.from_sequences(sequences, [1] * 50 + [0] * 50, n_tokens=5)
    assert corpus.average_signed_frequency[0] == corpus.average_frequency[0]


# One corpus, many ways in


@settings(deadline=None)
@given(examples())
def test_constructor_takes_every_layout(example):
    sequences, labels, n_tokens = example
    corpus = Corpus.from_sequences(sequences, labels, n_tokens)
    dense = np.array([[x.count(s) for s in range(n_tokens)] for x in sequences])
    rows = [i for i, x in enumerate(sequences) for _ in x]
    unsorted_with_repeats = sparse.coo_matrix(
        (np.ones(len(rows), dtype=np.int32), (rows, [s for x in sequences for s in x])), shape=dense.shape
    )
    for counts in (
        dense,
        dense.tolist(),
        sparse.csr_array(dense),
        sparse.csc_matrix(dense),
        unsorted_with_repeats,
    ):
        assert_same(Corpus(counts, labels), corpus)


def test_constructor_copies_and_drops_stored_zeros():
    counts = sparse.csr_array(([2, 0, 1], [0, 1, 1], [0, 2, 3]), shape=(2, 2))
    corpus = Corpus(counts, [1, -1])
    assert corpus.counts.nnz == 2
    counts.data[0] = 7  # the reader's own array is still writable and is not the corpus's
    assert corpus.counts.toarray().tolist() == [[2, 0], [0, 1]]


@pytest.mark.parametrize(
    ("labels", "signs"),
    [
        ([1, -1], [1, -1]),
        ([1, 0], [1, -1]),
        ([1, 1], [1, 1]),
        ([0, 0], [-1, -1]),
        ([-1, -1], [-1, -1]),
        ([True, False], [1, -1]),
        (np.array([1.0, -1.0]), [1, -1]),
        (np.array([0, 1], dtype=np.uint8), [-1, 1]),
    ],
)
def test_labels_are_read_as_signs(labels, signs):
    corpus = Corpus.from_sequences([[0], [1]], labels)
    assert corpus.labels.dtype == np.int64
    assert corpus.labels.tolist() == signs


def test_from_sequences_takes_arrays_and_generators():
    expected = Corpus.from_sequences([[0, 2], [1, 1]], [1, -1], n_tokens=3)
    for sequences in (
        np.array([[0, 2], [1, 1]], dtype=np.uint8),
        (x for x in [[0, 2], [1, 1]]),
        [(0, 2), (1, 1)],
    ):
        assert_same(Corpus.from_sequences(sequences, [1, -1]), expected)


def test_vocabulary_gives_the_size():
    corpus = Corpus.from_sequences([[0]], [1], vocabulary=["film", "great", "dull"])
    assert corpus.n_tokens == 3
    assert corpus.token_kinds.tolist() == ["completely positive", "absent", "absent"]


def test_a_huge_vocabulary_costs_nothing_until_statistics_are_asked_for():
    # Arrays of 2**40 entries would not fit into memory: neither counting nor indexing may make one.
    corpus = Corpus.from_sequences([[2**40 - 1, 0], [5]], [1, -1], n_tokens=2**40)
    assert corpus[[1, 0]].counts.indices.tolist() == [5, 0, 2**40 - 1]
    assert corpus.frequencies.data.tolist() == [0.5, 0.5, 1.0]


def test_small_vocabularies_have_small_indices():
    assert Corpus.from_sequences([[0, 1]], [1]).counts.indices.dtype == np.int32
    assert Corpus(sparse.csr_array(np.eye(3, dtype=int)), [1, 1, 0]).counts.indices.dtype == np.int32


# Texts


def test_tokenise():
    assert tokenise("I DON'T,<br /><br />'really' know_it 3 times…") == [
        "i", "don't", "really", "know_it", "3", "times",
    ]  # fmt: skip
    assert tokenise("<br />'' !") == []


texts_with_tokens = st.lists(
    st.lists(
        st.sampled_from(["A", "a", "don't", "'tis", "rock'n'roll'", "É", "<br />", ",", "x_1", "İ"]),
        max_size=8,
    )
    .map(lambda words: " ".join([*words, "z"]))
    .flatmap(lambda text: st.sampled_from([text, text.replace(" ", "")])),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(texts_with_tokens, st.integers(1, 3))
def test_from_texts_agrees_with_plain_counting(texts, min_document_frequency):
    least = min(min_document_frequency, len(texts))
    texts = [text + " end" for text in texts]  # so that no cut leaves a text without a token
    counted = [Counter(re.findall(r"\b\w[\w']*\b", text.lower().replace("<br />", " "))) for text in texts]
    held_by = Counter(word for counter in counted for word in counter)
    words = sorted(word for word, number in held_by.items() if number >= least)
    corpus = Corpus.from_texts(texts, [1] * len(texts), least)
    assert corpus.vocabulary == tuple(words)
    assert corpus.counts.toarray().tolist() == [[counter[word] for word in words] for counter in counted]
    assert corpus.texts is None
    assert_same(Corpus.from_texts(texts, [1] * len(texts), vocabulary=corpus.vocabulary), corpus)


def test_given_vocabulary_keeps_its_order_and_its_absent_words():
    corpus = Corpus.from_texts(
        ["a great film", "dull dull"], [1, 0], vocabulary=np.array(["great", "boring", "dull"])
    )
    assert corpus.vocabulary == ("great", "boring", "dull")
    assert {type(word) for word in corpus.vocabulary} == {str}
    assert corpus.counts.toarray().tolist() == [[1, 0, 0], [0, 0, 2]]
    assert corpus.token_kinds.tolist() == ["completely positive", "absent", "completely negative"]


def test_texts_are_kept_on_request_as_they_were():
    texts = ("A <b>great</b> film<br />", "A dull FILM")
    corpus = Corpus.from_texts(iter(texts), [1, 0], keep_texts=True)
    assert corpus.texts == texts
    assert corpus[[1]].texts == texts[1:]


def test_token_id():
    corpus = Corpus.from_texts(["a great film", "a boring film"], [1, 0])
    assert [corpus.vocabulary[corpus.token_id(word)] for word in corpus.vocabulary] == list(corpus.vocabulary)
    with pytest.raises(
        ValueError, match=r"'borring' is not in the vocabulary of 4 words; similar words: boring"
    ):
        corpus.token_id("borring")
    with pytest.raises(ValueError, match="similar words: great"):
        corpus.token_id("Great")
    with pytest.raises(ValueError, match=r"vocabulary of 4 words$"):
        corpus.token_id("qqqqq")
    with pytest.raises(TypeError, match="word must be a str, got 3"):
        corpus.token_id(3)
    with pytest.raises(ValueError, match="no vocabulary"):
        Corpus.from_sequences([[0]], [1]).token_id("film")


# Indexing


@settings(deadline=None)
@given(examples(), st.data())
def test_indexing_agrees_with_lists(example, data):
    sequences, labels, n_tokens = example
    n = len(sequences)
    words = [f"w{s}" for s in range(n_tokens)]
    corpus = Corpus.from_sequences(sequences, labels, vocabulary=words)
    picked = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=2 * n))
    mask = [i in picked for i in range(n)]
    step = data.draw(st.sampled_from([1, 2, -1]))
    of_mask = [i for i in range(n) if mask[i]] or [0]
    mask[0] = mask[0] or not any(mask)
    for rows, positions in (
        (picked, picked),
        (np.array(picked, dtype=np.int32), picked),
        (np.array(mask), of_mask),
        (slice(None, None, step), range(n)[::step]),
        (picked[0], picked[:1]),
    ):
        expected = Corpus.from_sequences(
            [sequences[i] for i in positions], [labels[i] for i in positions], vocabulary=words
        )
        assert_same(corpus[rows], expected)
    assert len(list(corpus)) == n


def test_indexing_keeps_the_very_same_vocabulary():
    corpus = Corpus.from_texts(["a great film", "a boring film"], [1, 0])
    assert corpus[:1].vocabulary is corpus.vocabulary


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (3, IndexError, "there is no sequence 3: the corpus has 3"),
        ([0, -4], IndexError, "there is no sequence -4"),
        ([True, False], IndexError, "the mask has 2 entries for 3 sequences"),
        ([], ValueError, "no sequence is picked"),
        (slice(2, 2), ValueError, "no sequence is picked"),
        ([False] * 3, ValueError, "no sequence is picked"),
        ([0.0], TypeError, "pick sequences by a slice, positions or a mask"),
        ("great", TypeError, "pick sequences by a slice, positions or a mask, not by 'great'"),
        ((0, 1), TypeError, "pick sequences by a slice"),
        ((slice(None), 1), TypeError, "pick sequences by a slice"),
        ([[0, 1]], TypeError, "pick sequences by a slice"),
        (None, TypeError, "pick sequences by a slice"),
    ],
)
def test_indexing_refuses(rows, error, message):
    corpus = Corpus.from_sequences([[0], [1], [0]], [1, -1, 1])
    with pytest.raises(error, match=message):
        corpus[rows]


# A corpus does not change


def corpora():
    corpus = Corpus.from_texts(["a great film", "a dull film"], [1, 0], keep_texts=True)
    return [
        corpus,
        corpus[:1],
        pickle.loads(pickle.dumps(corpus)),
        copy.deepcopy(corpus),
        Corpus.from_sequences([[0, 1], [1]], [1, 0]),
        Corpus([[1, 2]], [1]),
    ]


@pytest.mark.parametrize(
    "corpus", corpora(), ids=["texts", "rows", "pickled", "copied", "sequences", "counts"]
)
def test_arrays_are_read_only_and_statistics_computed_once(corpus):
    for matrix in (corpus.counts, corpus.frequencies):
        for array in (matrix.data, matrix.indices, matrix.indptr):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
    for name in ("labels", "lengths", *ARRAYS):
        array = getattr(corpus, name)
        assert getattr(corpus, name) is array
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]
    assert corpus.frequencies is corpus.frequencies
    with pytest.raises(AttributeError, match="a Corpus does not change"):
        corpus.labels = np.array([1, 1])


def test_pickles_and_copies_are_equal_and_corpora_can_be_weak_keys():
    corpus = Corpus.from_texts(["a great film", "a dull film"], [1, 0], keep_texts=True)
    assert_same(pickle.loads(pickle.dumps(corpus)), corpus)
    assert_same(copy.deepcopy(corpus), corpus)
    cache = weakref.WeakKeyDictionary({corpus: "tensors"})
    assert cache[corpus] == "tensors"


def test_repr():
    corpus = Corpus.from_texts(["a great great film", "dull"], [1, 0], keep_texts=True)
    assert repr(corpus) == (
        "Corpus(2 sequences: 1 positive, 1 negative; 1 to 4 tokens long, mean 2.5; "
        "vocabulary of 4 words; texts kept)"
    )
    assert repr(Corpus.from_sequences([[0]], [0])) == (
        "Corpus(1 sequence: 0 positive, 1 negative; 1 token long; vocabulary of 1 token)"
    )


# Bad input


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2], "labels must be -1 and .1, or 0 and 1: two classes at most; got 0, 1, 2"),
        ([-1, 0, 1], "got -1, 0, 1"),
        ([-1, 0, 0], "got -1, 0"),
        ([1, 2, 1], "got 1, 2"),
        ([1, math.nan, 0], "got .*nan"),
        ([1, None, 0], "None"),
        (["1", "0", "1"], "got '0', '1'"),
        ([0.5, 1, 0], "0.5"),
        ([1, 0], r"labels must have shape \(3,\), one a sequence; got shape \(2,\)"),
        ([[1], [0], [1]], r"got shape \(3, 1\)"),
        (1, r"got shape \(\)"),
        ([[1], [0, 1], 1], "labels must be an array of numbers"),
    ],
)
def test_labels_outside_the_two_classes(labels, message):
    with pytest.raises(ValueError, match=message):
        Corpus.from_sequences([[0], [0, 1], [1]], labels)
    with pytest.raises(ValueError, match=message):
        Corpus(np.eye(3, dtype=int), labels)
    with pytest.raises(ValueError, match=message):
        Corpus.from_texts(["a", "b", "c"], labels)


@pytest.mark.parametrize(
    ("sequences", "error", "message"),
    [
        ([[0, 1], [2, 4]], ValueError, r"sequences\[1\] holds the token id 4, but ids go from 0 to 3"),
        ([[0, -1], [2]], ValueError, r"sequences\[0\] holds the token id -1, but ids go from 0 to 3"),
        ([[0], [2**63]], ValueError, f"sequences.1. holds the token id {2**63}, larger than any vocabulary"),
        ([[0], [2**70]], TypeError, "token ids must be integers"),
        ([[0], []], ValueError, r"sequences\[1\] is empty"),
        ([[0.0, 1.0], [1]], TypeError, r"token ids must be integers, but sequences\[0\] is \[0.0, 1.0\]"),
        ([[0], [True, False]], TypeError, "token ids must be integers"),
        ([[0], [1, True]], TypeError, "token ids must be integers"),
        ([[0], np.array([True])], TypeError, "token ids must be integers"),
        ([[0], [None]], TypeError, "token ids must be integers"),
        ([[0], ["great"]], TypeError, "for words use Corpus.from_texts"),
        ([[0], "great"], TypeError, r"sequences\[1\] must be a flat list of token ids, got 'great'"),
        ([[0], 1], TypeError, r"sequences\[1\] must be a flat list"),
        ([[0], [[1, 2], [3]]], TypeError, r"sequences\[1\] must be a flat list"),
        ([[0], {1, 2}], TypeError, r"sequences\[1\] must be a flat list"),
        (5, TypeError, "sequences must be a list of lists of token ids, got 5"),
    ],
)
def test_from_sequences_refuses(sequences, error, message):
    with pytest.raises(error, match=message):
        Corpus.from_sequences(sequences, [1, -1], n_tokens=4)


def test_a_wrong_id_in_a_long_sequence_is_shown_briefly():
    with pytest.raises(TypeError) as caught:
        Corpus.from_sequences([[0.5] * 10_000], [1])
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_tokens": 0}, ValueError, "n_tokens must be at least 1, got 0"),
        ({"n_tokens": 2.0}, TypeError, "n_tokens must be a whole number, got 2.0"),
        ({"n_tokens": True}, TypeError, "n_tokens must be a whole number, got True"),
        ({"n_tokens": 2, "vocabulary": ["a"]}, ValueError, "vocabulary must have 2 entries, got 1"),
        ({"vocabulary": ["a"]}, ValueError, "holds the token id 1, but ids go from 0 to 0"),
        ({"vocabulary": ["a", "a"]}, ValueError, "vocabulary must hold each word once, but 'a' is repeated"),
        ({"vocabulary": ["a", 1]}, TypeError, r"vocabulary must hold str only, but vocabulary\[1\] is 1"),
        ({"vocabulary": "ab"}, TypeError, "vocabulary must be a list of str, got a str"),
        ({"vocabulary": {"a": 0, "b": 1}}, TypeError, "vocabulary must be a list of str, got a dict"),
        ({"vocabulary": {"a", "b"}}, TypeError, "vocabulary must be a list of str, got a set"),
        ({"vocabulary": []}, ValueError, "vocabulary is empty"),
    ],
)
def test_from_sequences_refuses_a_vocabulary(arguments, error, message):
    with pytest.raises(error, match=message):
        Corpus.from_sequences([[0, 1]], [1], **arguments)


def test_no_sequences_and_no_texts():
    with pytest.raises(ValueError, match="sequences is empty"):
        Corpus.from_sequences([], [])
    with pytest.raises(ValueError, match="texts is empty"):
        Corpus.from_texts([], [])


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        ([[1, 0], [0, 0]], ValueError, r"1 of 2 rows hold no token \(positions 1\)"),
        ([[1, -1], [0, 1]], ValueError, "counts must not be negative, got -1"),
        ([[1.0, 0.0], [0.0, 1.0]], TypeError, "counts must be integers .* got float64"),
        ([[True, False], [False, True]], TypeError, "counts must be integers .* got bool"),
        ([1, 2], ValueError, r"counts must have shape \(sequences, tokens\)"),
        (np.zeros((0, 3), dtype=int), ValueError, r"none of them 0; got \(0, 3\)"),
        ([[2**52, 0], [0, 2**52]], ValueError, "too large to be summed exactly"),
        (np.array([[2**63, 0], [0, 1]], dtype=np.uint64), ValueError, "too large to be summed exactly"),
        (
            sparse.coo_array(([2**62] * 4 + [1] * 2, ([0] * 4 + [0, 1], [0] * 4 + [1, 0]))),
            ValueError,
            "too large to be summed exactly",  # as int64 the first four sum to 0
        ),
        ([[1], [1, 2]], ValueError, "counts must be an array of numbers"),
        (sparse.csr_array((2, 2), dtype=int), ValueError, "2 of 2 rows hold no token"),
    ],
)
def test_counts_refused(counts, error, message):
    with pytest.raises(error, match=message):
        Corpus(counts, [1, -1])


def test_texts_that_do_not_match_the_sequences():
    with pytest.raises(ValueError, match="texts must have 1 entries, got 2"):
        Corpus([[1]], [1], texts=["a", "b"])


TEXTS = ["a great film", "dull", "a film", "no"]


@pytest.mark.parametrize(
    ("texts", "arguments", "message"),
    [
        (
            TEXTS,
            {"min_document_frequency": 2},
            r"2 of 4 texts lose every token to the cut min_document_frequency=2 \(positions 1, 3\): lower",
        ),
        (TEXTS, {"min_document_frequency": 9}, r"4 of 4 texts lose every token .*\(positions 0, 1, 2, 3\)"),
        (
            TEXTS,
            {"vocabulary": ["film", "no"]},
            r"1 of 4 texts hold no token of the given vocabulary of 2 words",
        ),
        (["a", "b", "c", "<BR />"], {}, "1 of 4 texts hold no token at all"),
        (["a", "", "...", "b"], {}, r"2 of 4 texts hold no token at all \(positions 1, 2\): leave them out"),
        (["a", "b", "c", "?"], {"min_document_frequency": 5}, "1 of 4 texts hold no token at all"),
        (TEXTS, {"min_document_frequency": 0}, "min_document_frequency must be at least 1, got 0"),
        (TEXTS, {"vocabulary": ["a"], "min_document_frequency": 2}, "give either vocabulary or min_document"),
        (TEXTS, {"vocabulary": ["Film"]}, r"'Film', which no text can hold.*read as \['film'\]"),
        (TEXTS, {"vocabulary": ["not good"]}, r"'not good', which no text can hold.*\['not', 'good'\]"),
        (TEXTS, {"vocabulary": []}, "vocabulary is empty"),
    ],
)
def test_from_texts_refuses(texts, arguments, message):
    with pytest.raises(ValueError, match=message):
        Corpus.from_texts(texts, [1, 0, 1, 0], **arguments)


def test_only_the_first_lost_texts_are_listed():
    with pytest.raises(
        ValueError, match=re.escape("1,000 of 1,001 texts") + r".*\(positions 1, 2, 3, 4, 5, \.\.\.\)"
    ):
        Corpus.from_texts(["a", *[""] * 1000], [1] * 1001)


@pytest.mark.parametrize(
    ("texts", "arguments", "message"),
    [
        ("a great film", {}, "texts must be a list of str, got a str"),
        (5, {}, "texts must be a list of str, got a int"),
        (["a", None], {}, r"texts must hold str only, but texts\[1\] is None"),
        (["a", math.nan], {}, r"texts\[1\] is nan"),
        (["a", b"b"], {}, r"texts\[1\] is b'b'"),
        (
            ["a", "b"],
            {"min_document_frequency": 0.5},
            "min_document_frequency must be a whole number, got 0.5",
        ),
        (
            ["a", "b"],
            {"min_document_frequency": True},
            "min_document_frequency must be a whole number, got True",
        ),
    ],
)
def test_from_texts_refuses_types(texts, arguments, message):
    with pytest.raises(TypeError, match=message):
        Corpus.from_texts(texts, [1, 0], **arguments)


def test_tokenise_refuses_what_is_no_text():
    with pytest.raises(TypeError, match="text must be a str, got None"):
        tokenise(None)


def test_repeated_words_are_counted_like_a_counter():
    text = "to be or not to be"
    corpus = Corpus.from_texts([text], [1])
    assert dict(zip(corpus.vocabulary, corpus.counts.toarray()[0].tolist(), strict=True)) == Counter(
        text.split()
    )


def test_labels_may_be_a_tensor_that_training_follows():
    labels = torch.tensor([1.0, -1.0], requires_grad=True)
    assert Corpus.from_sequences([[0], [1]], labels).labels.tolist() == [1, -1]


def test_a_capital_that_has_no_small_letter_is_a_token_like_any_other():
    """U+1D400 is upper case to Python, and stays as it is when lower-cased."""
    texts, labels = ["great \U0001d400", "dull"], [1, -1]
    corpus = Corpus.from_texts(texts, labels)
    assert corpus.vocabulary == ("dull", "great", "\U0001d400")
    again = Corpus.from_texts(texts, labels, vocabulary=corpus.vocabulary)
    assert (again.counts != corpus.counts).nnz == 0
