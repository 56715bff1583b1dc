"""`Corpus.restrict` and `Corpus.copy_groups` against plain lists, and against texts counted anew."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, GroupShuffleSplit

from tokensel.corpus import Corpus


@st.composite
def examples(draw):
    """Sequences, labels as -1 and +1, and the size of the vocabulary."""
    n_tokens = draw(st.integers(1, 7))
    sequence = st.lists(st.integers(0, n_tokens - 1), min_size=1, max_size=9)
    sequences = draw(st.lists(sequence, min_size=1, max_size=12))
    labels = draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sequences), max_size=len(sequences)))
    return sequences, labels, n_tokens


def assert_same(corpus, other):
    """Equal in all they hold, and each row of the counts in order: what its flags promise to SciPy."""
    assert corpus.counts.toarray().tolist() == other.counts.toarray().tolist()
    counts = corpus.counts
    for start, stop in itertools.pairwise(counts.indptr):
        assert (np.diff(counts.indices[start:stop]) > 0).all()
    assert (counts.data > 0).all()
    assert (corpus.vocabulary, corpus.texts) == (other.vocabulary, other.texts)
    assert corpus.labels.tolist() == other.labels.tolist()
    assert corpus.lengths.tolist() == counts.toarray().sum(axis=1).tolist()
    for name in ("average_signed_frequency", "average_frequency", "token_kinds"):
        np.testing.assert_array_equal(getattr(corpus, name), getattr(other, name))


def restricted(sequences, labels, tokens):
    """The sequences in these tokens, numbered in the given order, without those that hold none."""
    kept = [[tokens.index(s) for s in x if s in tokens] for x in sequences]
    rows = [i for i, x in enumerate(kept) if x]
    return rows, [kept[i] for i in rows], [labels[i] for i in rows]


@settings(deadline=None)
@given(examples(), st.data())
def test_restricting_agrees_with_lists(example, data):
    sequences, labels, n_tokens = example
    words = [f"w{s}" for s in range(n_tokens)]
    texts = [" ".join(words[s] for s in x) for x in sequences]
    corpus = Corpus.from_texts(texts, labels, vocabulary=words, keep_texts=True)
    tokens = data.draw(st.lists(st.integers(0, n_tokens - 1), min_size=1, unique=True))
    rows, kept, kept_labels = restricted(sequences, labels, tokens)
    mask = np.isin(np.arange(n_tokens), tokens)
    if not rows:
        for empty in ("raise", "leave out"):
            with pytest.raises(ValueError, match="no sequence holds any of the"):
                corpus.restrict(tokens, empty=empty)
        return
    expected = Corpus(
        Corpus.from_sequences(kept, kept_labels, n_tokens=len(tokens)).counts,
        kept_labels,
        [words[s] for s in tokens],
        [texts[i] for i in rows],
    )
    for chosen in (tokens, np.array(tokens, np.uint8), torch.tensor(tokens), [words[s] for s in tokens]):
        assert_same(corpus.restrict(chosen, empty="leave out"), expected)
    assert_same(corpus.restrict(mask, empty="leave out"), corpus.restrict(sorted(tokens), empty="leave out"))
    if len(rows) < len(sequences):
        lost = min(set(range(len(sequences))) - set(rows))
        with pytest.raises(ValueError, match=rf"hold none of the tokens given \(positions {lost}"):
            corpus.restrict(tokens)
    else:
        assert_same(corpus.restrict(tokens), expected)


@settings(deadline=None)
@given(examples(), st.data())
def test_what_a_cut_leaves_as_it_was(example, data):
    """Which sequences hold a token, and their labels, do not depend on the other tokens."""
    sequences, labels, n_tokens = example
    corpus = Corpus.from_sequences(sequences, labels, n_tokens)
    present = np.flatnonzero(corpus.document_frequency).tolist()
    tokens = data.draw(st.lists(st.sampled_from(present), min_size=1, unique=True))
    cut = corpus.restrict(tokens, empty="leave out")
    np.testing.assert_array_equal(cut.document_frequency, corpus.document_frequency[tokens])
    np.testing.assert_array_equal(cut.posterior_difference, corpus.posterior_difference[tokens])
    assert cut.counts.sum() == corpus.counts[:, tokens].sum() == cut.lengths.sum()


@settings(deadline=None)
@given(examples(), st.data())
def test_cuts_compose_and_an_order_can_be_undone(example, data):
    sequences, labels, n_tokens = example
    corpus = Corpus.from_sequences(sequences, labels, n_tokens)
    order = data.draw(st.permutations(range(n_tokens)))
    shuffled = corpus.restrict(order)
    assert_same(shuffled.restrict(np.argsort(order)), corpus)
    first = [s for s in order if corpus.document_frequency[s]]
    second = data.draw(st.lists(st.integers(0, len(first) - 1), min_size=1, unique=True))
    assert_same(
        corpus.restrict(first).restrict(second, empty="leave out"),
        corpus.restrict([first[s] for s in second], empty="leave out"),
    )


def test_a_cut_is_what_counting_the_texts_in_those_words_gives():
    texts = ["A great, great film", "a boring film", "great fun, boring end"]
    corpus = Corpus.from_texts(texts, [1, 0, 1], keep_texts=True)
    words = ("film", "boring", "great")
    assert_same(
        corpus.restrict(words), Corpus.from_texts(texts, [1, 0, 1], vocabulary=words, keep_texts=True)
    )
    assert_same(corpus.restrict(np.array(words, dtype=object)), corpus.restrict(words))


def test_restricting_to_all_frequent_words_is_the_cut_by_document_frequency():
    texts = ["a great film", "a boring film", "a film"]
    corpus = Corpus.from_texts(texts, [1, 0, 1])
    assert_same(
        corpus.restrict(corpus.document_frequency >= 2),
        Corpus.from_texts(texts, [1, 0, 1], min_document_frequency=2),
    )


def test_arrays_of_a_cut_are_read_only():
    cut = Corpus([[1, 2], [0, 3]], [1, 0]).restrict([1])
    for array in (cut.counts.data, cut.counts.indices, cut.counts.indptr, cut.labels, cut.lengths):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ("great", TypeError, "tokens must be a mask, token ids or words, got 'great'"),
        ({"great"}, TypeError, "tokens must be a mask"),
        ([0.0], TypeError, "tokens must be a mask"),
        ([[0, 1]], TypeError, "tokens must be a mask"),
        (0, TypeError, "tokens must be a mask"),
        (None, TypeError, "tokens must be a mask"),
        ([None, "a"], TypeError, "tokens must be a mask"),
        ([], ValueError, "tokens is empty"),
        ([False] * 4, ValueError, "tokens is empty"),
        ([True, False], ValueError, "tokens as a mask must have 4 entries, one a token; got 2"),
        ([0, 4], ValueError, "tokens holds the id 4, but ids go from 0 to 3"),
        ([-1], ValueError, "tokens holds the id -1"),
        ([1, 2, 1], ValueError, "tokens must hold each token once, but 'boring' is repeated"),
        (["film", "film"], ValueError, "'film' is repeated"),
        (["grate"], ValueError, "'grate' is not in the vocabulary of 4 words; similar words: great"),
    ],
)
def test_restricting_refuses(tokens, error, message):
    corpus = Corpus.from_texts(["a great film", "a boring film"], [1, 0])
    with pytest.raises(error, match=message):
        corpus.restrict(tokens, empty="leave out")


def test_restricting_refuses_words_without_a_vocabulary_and_other_remedies():
    corpus = Corpus([[1, 2], [0, 3]], [1, 0])
    with pytest.raises(ValueError, match="no vocabulary"):
        corpus.restrict(["great"])
    with pytest.raises(ValueError, match="each token once, but 1 is repeated"):
        corpus.restrict([1, 1])
    with pytest.raises(ValueError, match='empty must be "raise" or "leave out", got \'ignore\''):
        corpus.restrict([1], empty="ignore")
    with pytest.raises(ValueError, match=r'1 of 2 sequences hold none .*empty="leave out"'):
        corpus.restrict([0])


# Copies


@settings(deadline=None)
@given(examples())
def test_copies_are_the_sequences_with_the_same_tokens(example):
    sequences, labels, n_tokens = example
    groups = Corpus.from_sequences(sequences, labels, n_tokens).copy_groups
    bags = [tuple(sorted(x)) for x in sequences]
    assert groups.tolist() == [list(dict.fromkeys(bags)).index(bag) for bag in bags]


def test_no_split_by_groups_parts_copies():
    rng = np.random.default_rng(0)
    corpus = Corpus(np.eye(8, dtype=int)[rng.integers(0, 8, 100)], rng.choice([-1, 1], 100))
    groups = corpus.copy_groups
    for splitter in (GroupKFold(4), GroupShuffleSplit(4, random_state=0)):
        for train, held in splitter.split(corpus.counts, corpus.labels, groups):
            seen = {corpus.counts[[i]].indices[0] for i in train}
            assert not seen & {corpus.counts[[i]].indices[0] for i in held}


def test_groups_are_read_only_and_computed_once():
    corpus = Corpus.from_texts(["a film", "film, a", "b"], [1, 0, 1])
    assert corpus.copy_groups.tolist() == [0, 0, 1]
    assert corpus.copy_groups.dtype == np.int64
    assert corpus.copy_groups is corpus.copy_groups
    with pytest.raises(ValueError, match="read-only"):
        corpus.copy_groups[0] = 5
    for other in (pickle.loads(pickle.dumps(corpus)), copy.copy(corpus)):
        assert other.copy_groups.tolist() == [0, 0, 1]
