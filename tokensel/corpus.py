"""`Corpus`: labelled token sequences as counts, and the statistics of their tokens."""

import difflib
import hashlib
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from tokensel.arguments import as_array, whole_number

#: What a token of a text is: a letter, digit or underscore, then more of them or apostrophes ("don't").
TOKEN = re.compile(r"(?u)\b\w[\w']*\b")

# Integers below this are exact in float64: sums of counts stay below it.
_LARGEST_EXACT = 2**53


def tokenise(text):
    r"""Split a text into the tokens that a `Corpus` counts.

    The text is lower-cased, ``<br />`` becomes a space, and tokens match ``(?u)\b\w[\w']*\b``.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        The tokens in the order of the text, repeats included.

    Raises
    ------
    TypeError
        If the text is not a str.

    Examples
    --------
    >>> tokenise("Don't miss it!<br />A GREAT film")
    ["don't", 'miss', 'it', 'a', 'great', 'film']
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {text!r}")
    return TOKEN.findall(_plain(text))


def _plain(text):
    return text.lower().replace("<br />", " ")


class Corpus:
    r"""Labelled token sequences, held as the counts :math:`C_{is}`.

    A softmax layer without positions sees a sequence only through how often each token stands in it, so a
    corpus is the sparse matrix of counts and one label a sequence. It never changes: arrays are read-only,
    and the statistics of its tokens are computed once, when first asked for.

    Parameters
    ----------
    counts : (n, S) array of int, SciPy sparse or dense
        :math:`C_{is}`, how often token :math:`s` stands in sequence :math:`i`. It is copied.
    labels : (n,) array
        The classes, as -1 and +1 or as 0 and 1 (False and True); 0 is read as -1. One class alone is fine:
        labels that are all 1 are positive in either reading, labels that are all 0 or all -1 are negative.
    vocabulary : sequence of S str, optional
        The words, in the order of the columns; no word twice.
    texts : sequence of n str, optional
        The texts the sequences were counted from.

    Attributes
    ----------
    counts : scipy.sparse.csr_array, (n, S), int64
        Sorted indices, no stored zeros.
    labels : ndarray, (n,), int64
        :math:`y_i`, -1 or +1.
    lengths : ndarray, (n,), int64
        :math:`T_i`, the number of tokens in each sequence, repeats included.
    vocabulary : tuple of str or None
    texts : tuple of str or None

    Raises
    ------
    TypeError
        If counts are not integers, or vocabulary or texts are not sequences of str.
    ValueError
        If a sequence is empty, a count negative, a label outside the two classes, a word repeated, or two
        arguments disagree in size.

    See Also
    --------
    Corpus.from_sequences : from lists of token ids.
    Corpus.from_texts : from texts.

    Notes
    -----
    ``corpus[rows]``, with a slice, positions, a mask or one position, is the corpus of those sequences over
    the same vocabulary. Nothing is validated again, so minibatches are cheap. `Corpus.restrict` is the other
    cut, to some of the tokens.

    Examples
    --------
    >>> corpus = Corpus([[1, 0, 2], [0, 1, 1]], labels=[1, 0])
    >>> corpus
    Corpus(2 sequences: 1 positive, 1 negative; 2 to 3 tokens long, mean 2.5; vocabulary of 3 tokens)
    >>> corpus.n_sequences, corpus.n_tokens
    (2, 3)
    >>> corpus.frequencies.toarray().round(3)
    array([[0.333, 0.   , 0.667],
           [0.   , 0.5  , 0.5  ]])
    >>> corpus.average_signed_frequency.round(3)
    array([ 0.167, -0.25 ,  0.083])
    >>> corpus.average_frequency.round(3)
    array([0.167, 0.25 , 0.583])
    >>> corpus.document_frequency
    array([1, 1, 2])
    >>> corpus.posterior_difference
    array([ 1., -1.,  0.])
    >>> corpus.token_kinds.tolist()
    ['completely positive', 'completely negative', 'positive']
    >>> corpus[corpus.labels == 1]
    Corpus(1 sequence: 1 positive, 0 negative; 3 tokens long; vocabulary of 3 tokens)
    """

    def __init__(self, counts, labels, vocabulary=None, texts=None):
        counts = _checked_counts(counts)
        n_sequences, n_tokens = counts.shape
        labels = _signs(labels, n_sequences)
        vocabulary = None if vocabulary is None else _words(vocabulary, n_tokens)
        texts = None if texts is None else _strings("texts", texts, n_sequences)
        self._fill(counts, labels, vocabulary, texts, counts.sum(axis=1))

    def _fill(self, counts, labels, vocabulary, texts, lengths):
        # SciPy would otherwise scan all indices for these two facts when it first needs them.
        counts.has_sorted_indices = True
        counts.has_canonical_format = True
        for array in (counts.data, counts.indices, counts.indptr, labels, lengths):
            array.flags.writeable = False
        vars(self).update(counts=counts, labels=labels, vocabulary=vocabulary, texts=texts, lengths=lengths)

    @classmethod
    def _trusted(cls, counts, labels, vocabulary, texts, lengths):
        """Take over arrays that are known to be valid, without looking at them again."""
        corpus = cls.__new__(cls)
        corpus._fill(counts, labels, vocabulary, texts, lengths)
        return corpus

    @classmethod
    def from_sequences(cls, sequences, labels, n_tokens=None, vocabulary=None):
        """Count token ids.

        Parameters
        ----------
        sequences : iterable of sequences of int
            Token ids from 0 to S - 1. Lengths may differ, a token may repeat, no sequence is empty.
        labels : (n,) array
            -1 and +1, or 0 and 1, as for `Corpus`.
        n_tokens : int, optional
            Size S of the vocabulary. By default that of ``vocabulary``, else the largest id plus one.
        vocabulary : sequence of S str, optional
            The word of each id.

        Returns
        -------
        Corpus

        Raises
        ------
        TypeError
            If token ids are not integers (True and False are not ids either).
        ValueError
            If a sequence is empty or holds an id out of range, or sizes disagree.

        Examples
        --------
        >>> corpus = Corpus.from_sequences([[0, 2, 3], [1, 2, 3, 3]], labels=[+1, -1], n_tokens=4)
        >>> corpus.counts.toarray()
        array([[1, 0, 1, 1],
               [0, 1, 1, 2]])
        """
        if not isinstance(sequences, Iterable):
            raise TypeError(f"sequences must be a list of lists of token ids, got {sequences!r}")
        sequences = [_ids(sequence, i) for i, sequence in enumerate(sequences)]
        if not sequences:
            raise ValueError("sequences is empty: a corpus needs at least one sequence")
        lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
        ids = np.concatenate(sequences)
        if n_tokens is not None:
            n_tokens = whole_number("n_tokens", n_tokens)
        if vocabulary is not None:
            vocabulary = _words(vocabulary, n_tokens)
            n_tokens = len(vocabulary)
        elif n_tokens is None:
            n_tokens = max(int(ids.max()), 0) + 1
        wrong = np.flatnonzero((ids < 0) | (ids >= n_tokens))
        if wrong.size:
            i = int(np.searchsorted(np.cumsum(lengths), wrong[0], side="right"))
            raise ValueError(
                f"sequences[{i}] holds the token id {ids[wrong[0]]}, but ids go from 0 to {n_tokens - 1}"
            )
        labels = _signs(labels, len(lengths))
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        counts = _csr(np.ones(len(ids), dtype=np.int64), ids, indptr, (len(lengths), n_tokens))
        counts.sum_duplicates()
        return cls._trusted(counts, labels, vocabulary, None, lengths)

    @classmethod
    def from_texts(cls, texts, labels, min_document_frequency=1, vocabulary=None, keep_texts=False):
        """Count the tokens of texts.

        Texts are split by `tokenise`. The vocabulary is either given or consists, in alphabetical order, of
        all tokens that stand in at least ``min_document_frequency`` of the texts. Other tokens are left out:
        ``lengths`` counts those that stay.

        Parameters
        ----------
        texts : iterable of str
        labels : (n,) array
            -1 and +1, or 0 and 1, as for `Corpus`. Texts whose label nobody knows need one too: any will do,
            as attention and predictions do not use it.
        min_document_frequency : int, default 1
            In how many texts a token must stand to be kept.
        vocabulary : sequence of str, optional
            Count these tokens and no others, in this order: the vocabulary of a training corpus, say.
            Words of the texts that are not among them are left out.
        keep_texts : bool, default False
            Keep the texts, as given, in ``corpus.texts``.

        Returns
        -------
        Corpus

        Raises
        ------
        TypeError
            If a text is not a str, or ``min_document_frequency`` not an int.
        ValueError
            If a text keeps no token (the message says how many do, which, and what to do), if a word of the
            given vocabulary cannot be a token, or if both a vocabulary and a cut are given.

        Examples
        --------
        >>> corpus = Corpus.from_texts(["A great film, great!", "a boring film"], labels=[1, 0])
        >>> corpus.vocabulary
        ('a', 'boring', 'film', 'great')
        >>> corpus.counts.toarray()
        array([[1, 0, 1, 2],
               [1, 1, 1, 0]])
        """
        least = whole_number("min_document_frequency", min_document_frequency)
        texts = _strings("texts", texts)
        if not texts:
            raise ValueError("texts is empty: a corpus needs at least one text")
        labels = _signs(labels, len(texts))
        if vocabulary is not None:
            if least > 1:
                raise ValueError(
                    "give either vocabulary or min_document_frequency: a given vocabulary is kept whole"
                )
            vocabulary = _words(vocabulary)
            for word in vocabulary:
                if tokenise(word) != [word]:
                    raise ValueError(
                        f"vocabulary holds {word!r}, which no text can hold: a token is one lower-case word, "
                        f"and this is read as {tokenise(word)}"
                    )

        from sklearn.feature_extraction.text import CountVectorizer

        has_token = np.array([TOKEN.search(_plain(text)) is not None for text in texts])
        _refuse_empty(has_token, "hold no token at all", "leave them out")
        vectorizer = CountVectorizer(
            analyzer=tokenise, lowercase=False, vocabulary=vocabulary, dtype=np.int64
        )
        counts = vectorizer.fit_transform(texts)
        if vocabulary is None:
            kept = np.bincount(counts.indices, minlength=counts.shape[1]) >= least
            counts = counts[:, kept]
            counts.sort_indices()  # scikit-learn sorts them before it puts the words in order
            vocabulary = tuple(vectorizer.get_feature_names_out()[kept].tolist())
            why = f"lose every token to the cut min_document_frequency={least}"
            remedy = "lower min_document_frequency, or leave those texts out"
        else:
            why = f"hold no token of the given vocabulary of {len(vocabulary):,} words"
            remedy = "give a larger vocabulary, or leave those texts out"
        counts = _csr(counts.data, counts.indices, counts.indptr, counts.shape)
        _refuse_empty(np.diff(counts.indptr) > 0, why, remedy)
        return cls._trusted(counts, labels, vocabulary, texts if keep_texts else None, counts.sum(axis=1))

    @property
    def n_sequences(self):
        """int : number n of sequences."""
        return self.counts.shape[0]

    @property
    def n_tokens(self):
        """int : size S of the vocabulary, tokens that stand in no sequence included."""
        return self.counts.shape[1]

    @cached_property
    def frequencies(self):
        r"""csr_array, (n, S) : :math:`\varphi_{is}=C_{is}/T_i`; each row sums to 1."""
        counts = self.counts
        data = counts.data / np.repeat(self.lengths, np.diff(counts.indptr))
        frequencies = _csr(_read_only(data), counts.indices, counts.indptr, counts.shape)
        frequencies.has_sorted_indices = True
        frequencies.has_canonical_format = True
        return frequencies

    @cached_property
    def average_signed_frequency(self):
        r"""ndarray, (S,) : :math:`\alpha_s=\frac1n\sum_iy_i\varphi_{is}`, exactly 0 where it is 0.

        Counts are summed as integers over the sequences of one length and divided last. Where the sum over
        the lengths might be nothing but rounding, it is evaluated again in fractions. So every
        :math:`\alpha_s` has the right sign, and "irrelevant" needs no threshold.
        """
        return _read_only(self._summed_frequencies(self.labels) / self.n_sequences)

    @cached_property
    def average_frequency(self):
        r"""ndarray, (S,) : :math:`\nu_s=\frac1n\sum_i\varphi_{is}`; the entries sum to 1."""
        return _read_only(self._summed_frequencies(np.ones_like(self.labels)) / self.n_sequences)

    @cached_property
    def document_frequency(self):
        """ndarray, (S,), int64 : in how many sequences each token stands."""
        return _read_only(np.bincount(self.counts.indices, minlength=self.n_tokens))

    @cached_property
    def posterior_difference(self):
        r"""ndarray, (S,) : how much more of the sequences with the token are positive than negative.

        .. math:: \Delta_s=\hat P(y=1\mid s\in X)-\hat P(y=-1\mid s\in X)

        Among the sequences that hold the token, the share of positive less the share of negative ones; NaN
        where no sequence holds it.
        """
        signed = 2 * self._positive_document_frequency - self.document_frequency
        difference = np.full(self.n_tokens, np.nan)
        np.divide(signed, self.document_frequency, out=difference, where=self.document_frequency > 0)
        return _read_only(difference)

    @cached_property
    def token_kinds(self):
        r"""ndarray, (S,), str : what each token says about the class.

        ``"completely positive"`` or ``"completely negative"``: it stands in sequences of that class only.
        Otherwise ``"positive"``, ``"negative"`` or ``"irrelevant"``: the sign of :math:`\alpha_s`.
        ``"absent"``: it stands in no sequence.
        """
        sign = np.sign(self.average_signed_frequency).astype(int)
        kinds = np.array(["negative", "irrelevant", "positive"], dtype="<U19")[sign + 1]
        kinds[self._positive_document_frequency == self.document_frequency] = "completely positive"
        kinds[self._positive_document_frequency == 0] = "completely negative"
        kinds[self.document_frequency == 0] = "absent"
        return _read_only(kinds)

    @cached_property
    def copy_groups(self):
        """ndarray, (n,), int64 : which sequences are copies of one another, so that no split parts them.

        Sequences with the same counts, which is all that attention sees of them, have the same number,
        whatever their labels. The numbers rise from 0 in the order in which they first appear. They are the
        ``groups`` of scikit-learn's ``GroupKFold`` or ``GroupShuffleSplit``.

        >>> corpus = Corpus([[1, 0, 2], [0, 1, 1], [1, 0, 2]], labels=[1, 0, 1])
        >>> corpus.copy_groups
        array([0, 1, 0])
        """
        counts, first = self.counts, {}
        digests = (
            hashlib.sha256(counts.indices[a:b].tobytes() + counts.data[a:b].tobytes()).digest()
            for a, b in pairwise(counts.indptr.tolist())
        )
        return _read_only(np.array([first.setdefault(digest, len(first)) for digest in digests]))

    def restrict(self, tokens, empty="raise"):
        r"""Cut the corpus to some of its tokens: the others are taken out of every sequence.

        The columns of the new ``counts`` are those of the chosen tokens, in the order in which they are
        given. Labels, texts and, for each chosen token, ``document_frequency`` and ``posterior_difference``
        stay as they are. Sequences become shorter: ``lengths`` counts what stays, so frequencies
        :math:`\varphi_{is}`, :math:`\alpha_s` and :math:`\nu_s` change.

        Parameters
        ----------
        tokens : (S,) array of bool, or sequence of int or of str
            A mask over the vocabulary, token ids, or words; each token once.
        empty : {"raise", "leave out"}, default "raise"
            What to do about sequences that hold none of the tokens: refuse them, or leave them out.

        Returns
        -------
        Corpus

        Raises
        ------
        TypeError
            If tokens are neither a mask, nor ids, nor words.
        ValueError
            If a token is not in the vocabulary, is given twice, or none is; if a sequence holds none of them
            and is not to be left out; or if no sequence holds any.

        See Also
        --------
        Corpus.from_texts : counts texts in the words of a given ``vocabulary``.

        Examples
        --------
        >>> corpus = Corpus.from_texts(["a great, great film", "a boring film", "dull"], labels=[1, 0, 0])
        >>> frequent = corpus.restrict(corpus.document_frequency >= 2, empty="leave out")
        >>> frequent.vocabulary, len(frequent)
        (('a', 'film'), 2)
        >>> corpus[:2].restrict(["great", "a"]).counts.toarray()
        array([[2, 1],
               [0, 1]])
        """
        if empty not in ("raise", "leave out"):
            raise ValueError(f'empty must be "raise" or "leave out", got {empty!r}')
        tokens = self._token_ids(tokens)
        counts = self.counts[:, tokens]
        counts.sort_indices()
        counts = _csr(counts.data, counts.indices, counts.indptr, counts.shape)
        vocabulary = None if self.vocabulary is None else tuple(self.vocabulary[s] for s in tokens)
        has_token = np.diff(counts.indptr) > 0
        if not has_token.any():
            raise ValueError(f"no sequence holds any of the {_plural(len(tokens), 'token')} given")
        if empty == "raise":
            remedy = 'give more tokens, or leave those sequences out with empty="leave out"'
            _refuse_empty(has_token, "hold none of the tokens given", remedy, "sequence")
        cut = self._trusted(counts, self.labels, vocabulary, self.texts, counts.sum(axis=1))
        return cut if has_token.all() else cut[has_token]

    def token_id(self, word):
        """Id of a word: its column in ``counts``, its row in the embeddings.

        Parameters
        ----------
        word : str

        Returns
        -------
        int

        Raises
        ------
        TypeError
            If the word is not a str.
        ValueError
            If the word is not in the vocabulary (the message offers similar words), or the corpus has none.

        Examples
        --------
        >>> corpus = Corpus.from_texts(["a great film", "a boring film"], labels=[1, -1])
        >>> corpus.token_id("boring")
        1
        """
        if not isinstance(word, str):
            raise TypeError(f"word must be a str, got {word!r}")
        if self.vocabulary is None:
            raise ValueError("this corpus has no vocabulary: its tokens are known by their ids only")
        if word not in self._ids:
            similar = ", ".join(difflib.get_close_matches(word.lower(), self.vocabulary))
            raise ValueError(
                f"{word!r} is not in the vocabulary of {self.n_tokens:,} words"
                + (f"; similar words: {similar}" if similar else "")
            )
        return self._ids[word]

    def _token_ids(self, tokens):
        """Read a mask, ids or words as ids, each once."""
        given = as_array("tokens", tokens) if not isinstance(tokens, str | Set | Mapping) else np.array(0)
        if given.ndim == 1 and given.dtype.kind in "UO" and all(isinstance(word, str) for word in given):
            ids = np.array([self.token_id(str(word)) for word in given], dtype=np.int64)
        elif given.ndim == 1 and given.dtype == bool:
            if len(given) != self.n_tokens:
                raise ValueError(
                    f"tokens as a mask must have {self.n_tokens:,} entries, one a token; got {len(given):,}"
                )
            ids = np.flatnonzero(given)
        elif given.ndim == 1 and (given.dtype.kind in "iu" or given.size == 0):
            ids = given.astype(np.int64)
        else:
            raise TypeError(f"tokens must be a mask, token ids or words, got {reprlib.repr(tokens)}")
        if ids.size == 0:
            raise ValueError("tokens is empty: a corpus needs at least one token")
        outside = (ids < 0) | (ids >= self.n_tokens)
        if outside.any():
            raise ValueError(
                f"tokens holds the id {ids[outside][0]}, but ids go from 0 to {self.n_tokens - 1}"
            )
        values, times = np.unique(ids, return_counts=True)
        if (times > 1).any():
            twice = int(values[times > 1][0])
            name = twice if self.vocabulary is None else repr(self.vocabulary[twice])
            raise ValueError(f"tokens must hold each token once, but {name} is repeated")
        return ids

    def __getitem__(self, rows):
        rows = _positions(rows, self.n_sequences)
        texts = None if self.texts is None else tuple(self.texts[i] for i in rows)
        return self._trusted(self.counts[rows], self.labels[rows], self.vocabulary, texts, self.lengths[rows])

    def __len__(self):
        return self.n_sequences

    def __repr__(self):
        positive = int(np.count_nonzero(self.labels == 1))
        shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        size = _plural(longest, "token")
        if shortest < longest:
            size = f"{shortest:,} to {size} long, mean {self.lengths.mean():,.1f}"
        else:
            size += " long"
        return (
            f"Corpus({_plural(self.n_sequences, 'sequence')}: {positive:,} positive, "
            f"{self.n_sequences - positive:,} negative; {size}; vocabulary of "
            f"{_plural(self.n_tokens, 'token' if self.vocabulary is None else 'word')}"
            f"{'' if self.texts is None else '; texts kept'})"
        )

    def __setattr__(self, name, value):
        # Statistics and kernels are computed once: they would silently disagree with a changed corpus.
        raise AttributeError(f"cannot set {name!r}: a Corpus does not change; make a new one")

    def __reduce__(self):
        # NumPy unpickles arrays as writable: a copy, too, must go through `_trusted`.
        return self._trusted, (self.counts, self.labels, self.vocabulary, self.texts, self.lengths)

    @cached_property
    def _ids(self):
        return {word: s for s, word in enumerate(self.vocabulary)}

    @cached_property
    def _positive_document_frequency(self):
        in_positive = np.repeat(self.labels == 1, np.diff(self.counts.indptr))
        return np.bincount(self.counts.indices[in_positive], minlength=self.n_tokens)

    def _summed_frequencies(self, weights):
        r""":math:`\sum_iw_iC_{is}/T_i` for integer weights, (S,): rounded, but never to the wrong sign."""
        from scipy.sparse import csc_array

        lengths, group = np.unique(self.lengths, return_inverse=True)
        one_a_column = np.arange(self.n_sequences + 1)
        groups = csc_array((weights, group, one_a_column), shape=(len(lengths), self.n_sequences))
        sums = groups.tocsr() @ self.counts  # (number of lengths, S), integers
        terms = sums.data / np.repeat(lengths, np.diff(sums.indptr))
        total = np.bincount(sums.indices, terms, minlength=self.n_tokens)

        # A token has at most K terms, one a length. Each division and each addition has a relative error of
        # at most eps / 2, so the sum is off by less than K eps times the sum of the terms' magnitudes, even
        # with the second order counted in. Where it is not above twice that, fractions decide.
        size = np.bincount(sums.indices, np.abs(terms), minlength=self.n_tokens)
        margin = 2 * len(lengths) * np.finfo(float).eps * size
        doubtful = np.flatnonzero((size > 0) & (np.abs(total) <= margin))
        columns = sums[:, doubtful].tocsc()
        for s, start, stop in zip(doubtful, columns.indptr[:-1], columns.indptr[1:], strict=True):
            numerators, denominators = columns.data[start:stop], lengths[columns.indices[start:stop]]
            total[s] = float(sum(map(Fraction, numerators.tolist(), denominators.tolist())))
        return total


def _read_only(array):
    array.flags.writeable = False
    return array


def _plural(number, noun):
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _csr(data, indices, indptr, shape):
    """Make a CSR array with 32-bit indices where they suffice."""
    from scipy.sparse import csr_array

    index = np.int32 if max(shape[1], len(indices)) <= np.iinfo(np.int32).max else np.int64
    return csr_array((data, indices.astype(index, copy=False), indptr.astype(index, copy=False)), shape=shape)


def _checked_counts(counts):
    """Copy counts of any layout into a canonical CSR array of int64."""
    from scipy.sparse import coo_array, issparse

    if not issparse(counts):
        counts = as_array("counts", counts)
    if counts.ndim != 2 or 0 in counts.shape:
        raise ValueError(f"counts must have shape (sequences, tokens), none of them 0; got {counts.shape}")
    if counts.dtype.kind not in "iu":
        raise TypeError(f"counts must be integers (how often each token stands there), got {counts.dtype}")
    counts = coo_array(counts)
    if np.abs(counts.data.astype(float)).sum() >= _LARGEST_EXACT:
        raise ValueError("counts are too large to be summed exactly: their sum must stay below 2**53")
    counts = counts.astype(np.int64).tocsr()  # sums duplicates and sorts; never shares memory
    counts.eliminate_zeros()
    if counts.nnz and counts.data.min() < 0:
        raise ValueError(f"counts must not be negative, got {counts.data.min()}")
    remedy = "attention needs at least one, leave those sequences out"
    _refuse_empty(np.diff(counts.indptr) > 0, "hold no token", remedy, "row")
    return _csr(counts.data, counts.indices, counts.indptr, counts.shape)


def _refuse_empty(has_token, why, remedy, noun="text"):
    empty = np.flatnonzero(~has_token)
    if empty.size:
        which = ", ".join(map(str, empty[:5])) + (", ..." if empty.size > 5 else "")
        raise ValueError(f"{empty.size:,} of {len(has_token):,} {noun}s {why} (positions {which}): {remedy}")


def _signs(labels, n_sequences):
    """Read labels as -1 and +1."""
    labels = as_array("labels", labels)
    if labels.shape != (n_sequences,):
        raise ValueError(f"labels must have shape ({n_sequences},), one a sequence; got shape {labels.shape}")
    values = set(labels.tolist())
    if not (values <= {-1, 1} or values <= {0, 1}):
        shown = ", ".join(sorted(map(repr, values))[:5]) + (", ..." if len(values) > 5 else "")
        raise ValueError(f"labels must be -1 and +1, or 0 and 1: two classes at most; got {shown}")
    return np.where(labels == 1, 1, -1)


def _strings(name, strings, size=None):
    """Read an argument that holds str as a tuple."""
    if isinstance(strings, str | bytes | Mapping | Set) or not isinstance(strings, Iterable):
        raise TypeError(f"{name} must be a list of str, got a {type(strings).__name__}")
    strings = tuple(strings)
    for i, string in enumerate(strings):
        if not isinstance(string, str):
            raise TypeError(f"{name} must hold str only, but {name}[{i}] is {string!r}")
    if size is not None and len(strings) != size:
        raise ValueError(f"{name} must have {size:,} entries, got {len(strings):,}")
    return tuple(map(str, strings))  # NumPy's own kind of str would print as np.str_('word')


def _words(vocabulary, size=None):
    """Read a vocabulary: str, each once."""
    vocabulary = _strings("vocabulary", vocabulary, size)
    if not vocabulary:
        raise ValueError("vocabulary is empty: it needs at least one word")
    repeated = [word for word, times in Counter(vocabulary).items() if times > 1]
    if repeated:
        raise ValueError(f"vocabulary must hold each word once, but {repeated[0]!r} is repeated")
    return vocabulary


def _ids(sequence, i):
    """Read the token ids of sequence i as int64."""
    try:
        ids = np.asarray(sequence.cpu() if hasattr(sequence, "cpu") else sequence)  # from any device
    except ValueError:  # lists of different lengths stand inside
        ids = None
    if ids is None or ids.ndim != 1:
        raise TypeError(f"sequences[{i}] must be a flat list of token ids, got {reprlib.repr(sequence)}")
    if ids.size == 0:
        raise ValueError(f"sequences[{i}] is empty: attention needs at least one token in each sequence")
    # NumPy reads [True, 2] as [1, 2]: only the list itself still knows.
    with_bool = isinstance(sequence, list | tuple) and bool in set(map(type, sequence))
    if with_bool or ids.dtype.kind not in "iu":
        hint = "; for words use Corpus.from_texts" if ids.dtype.kind == "U" else ""
        raise TypeError(f"token ids must be integers, but sequences[{i}] is {reprlib.repr(sequence)}{hint}")
    if ids.max() > np.iinfo(np.int64).max:
        raise ValueError(f"sequences[{i}] holds the token id {ids.max()}, larger than any vocabulary")
    return ids.astype(np.int64, copy=False)


def _positions(rows, n_sequences):
    """Turn whatever picks sequences into an array of positions; negative ones count from the end."""
    positions = (
        np.arange(n_sequences)[rows] if isinstance(rows, slice) else np.atleast_1d(as_array("rows", rows))
    )
    wrong_kind = positions.size > 0 and positions.dtype.kind not in "iub"
    if isinstance(rows, tuple) or positions.ndim != 1 or wrong_kind:
        raise TypeError(f"pick sequences by a slice, positions or a mask, not by {reprlib.repr(rows)}")
    if positions.dtype == bool:
        if len(positions) != n_sequences:
            raise IndexError(f"the mask has {len(positions):,} entries for {n_sequences:,} sequences")
        positions = np.flatnonzero(positions)
    if positions.size == 0:
        raise ValueError("no sequence is picked: a corpus needs at least one")
    outside = (positions < -n_sequences) | (positions >= n_sequences)
    if outside.any():
        raise IndexError(f"there is no sequence {positions[outside][0]}: the corpus has {n_sequences:,}")
    return positions
