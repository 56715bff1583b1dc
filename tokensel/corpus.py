"""`Corpus`: labelled token sequences as counts, and the statistics of their tokens."""

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Set
from fractions import Fraction
from functools import cached_property

import numpy as np

#: What a token of a text is: a letter, digit or underscore, then more of them or apostrophes ("don't").
TOKEN = re.compile(r"(?u)\b\w[\w']*\b")

# Integers up to here are exact in float64: sums of counts stay below it.
_LARGEST_EXACT = 2**53


def tokenise(text):
    """Split a text into the tokens that a `Corpus` counts.

    The text is lower-cased, ``<br />`` becomes a space, and tokens match ``(?u)\\b\\w[\\w']*\\b``.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        The tokens in the order of the text, repeats included.

    Examples
    --------
    >>> tokenise("Don't miss it!<br />A GREAT film")
    ["don't", 'miss', 'it', 'a', 'great', 'film']
    """
    return TOKEN.findall(text.lower().replace("<br />", " "))


class Corpus:
    r"""Labelled token sequences, held as the counts :math:`C_{is}`.

    A softmax layer without positions sees a sequence only through how often each token stands in it, so a
    corpus is the sparse matrix of counts and one label a sequence. It never changes: arrays are read-only, and
    the statistics of its tokens are computed once, when first asked for.

    Parameters
    ----------
    counts : (n, S) integer array, SciPy sparse or dense
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
    Indexing by sequences (a slice, positions, a mask or one position) gives the corpus of those sequences over
    the same vocabulary; nothing is validated again, so minibatches are cheap.

    Examples
    --------
    >>> corpus = Corpus([[1, 0, 2], [0, 1, 1]], labels=[1, 0])
    >>> corpus
    Corpus(2 sequences: 1 positive, 1 negative; 2 to 3 tokens long, mean 2.5; 3 distinct tokens)
    >>> corpus.average_signed_frequency.round(3)
    array([ 0.167, -0.25 ,  0.083])
    >>> corpus[corpus.labels == 1].n_sequences
    1
    """

    def __init__(self, counts, labels, vocabulary=None, texts=None):
        counts = _checked_counts(counts)
        n_sequences, n_tokens = counts.shape
        self._fill(
            counts,
            _signs(labels, n_sequences),
            _words("vocabulary", vocabulary, n_tokens, "one word a token", distinct=True),
            _words("texts", texts, n_sequences, "one text a sequence"),
            _row_sums(counts),
        )

    def _fill(self, counts, labels, vocabulary, texts, lengths):
        # SciPy would otherwise scan all indices to find out, at each first use.
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
        ids = [_ids(sequence, i) for i, sequence in enumerate(sequences)]
        if not ids:
            raise ValueError("sequences is empty: a corpus needs at least one sequence")
        lengths = np.array([len(one) for one in ids], dtype=np.int64)
        flat = np.concatenate(ids)
        n_tokens = _size_of_vocabulary(n_tokens, vocabulary, flat)
        wrong = np.flatnonzero((flat < 0) | (flat >= n_tokens))
        if wrong.size:
            i = int(np.searchsorted(np.cumsum(lengths), wrong[0], side="right"))
            raise ValueError(
                f"sequences[{i}] holds the token id {flat[wrong[0]]}, but ids go from 0 to {n_tokens - 1} "
                f"({n_tokens:,} tokens)"
            )
        return cls._trusted(
            _count(flat, lengths, n_tokens),
            _signs(labels, len(lengths)),
            _words("vocabulary", vocabulary, n_tokens, "one word a token", distinct=True),
            None,
            lengths,
        )

    @classmethod
    def from_texts(cls, texts, labels, min_document_frequency=1, vocabulary=None, keep_texts=False):
        """Count the tokens of texts.

        Texts are split by `tokenise`. The vocabulary is either given or, in alphabetical order, all tokens
        that stand in at least ``min_document_frequency`` of the texts; other tokens are left out, and lengths
        count only tokens that stay.

        Parameters
        ----------
        texts : iterable of str
        labels : (n,) array
            -1 and +1, or 0 and 1, as for `Corpus`.
        min_document_frequency : int, default 1
            How many texts a token must stand in to be kept.
        vocabulary : sequence of str, optional
            Count these tokens and no others, in this order, e.g. the vocabulary of a training corpus.
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
            If a text keeps no token (the message says which, how many, and what to do), if a word of the given
            vocabulary cannot be a token, or if both a vocabulary and a cut are given.

        Examples
        --------
        >>> corpus = Corpus.from_texts(["A great film, great!", "a boring film"], labels=[1, 0])
        >>> corpus.vocabulary
        ('a', 'boring', 'film', 'great')
        >>> corpus.counts.toarray()
        array([[1, 0, 1, 2],
               [1, 1, 1, 0]])
        """
        if isinstance(min_document_frequency, bool) or not isinstance(
            min_document_frequency, int | np.integer
        ):
            raise TypeError(
                f"min_document_frequency is a number of texts, e.g. 20; got {min_document_frequency!r}"
            )
        if min_document_frequency < 1:
            raise ValueError(f"min_document_frequency must be at least 1, got {min_document_frequency}")
        texts = _words("texts", texts, None, "")
        if not texts:
            raise ValueError("texts is empty: a corpus needs at least one text")
        labels = _signs(labels, len(texts))
        if vocabulary is not None:
            if min_document_frequency > 1:
                raise ValueError(
                    "give either vocabulary or min_document_frequency: a given vocabulary is taken whole"
                )
            vocabulary = _words("vocabulary", vocabulary, None, "", distinct=True)
            for word in vocabulary:
                if tokenise(word) != [word]:
                    raise ValueError(
                        f"no text can hold the token {word!r} of vocabulary: tokens are single lower-case words "
                        f"(this one is read as {tokenise(word)})"
                    )

        counts, words = _count_words(texts)
        lost = np.flatnonzero(np.diff(counts.indptr) == 0)
        if lost.size:
            raise ValueError(_lost_texts(lost, len(texts), "hold no token at all", "leave them out"))
        if vocabulary is None:
            enough = np.bincount(counts.indices, minlength=len(words)) >= min_document_frequency
            vocabulary = tuple(sorted(word for word, kept in zip(words, enough, strict=True) if kept))
            why = f"lose every token to the cut min_document_frequency={min_document_frequency}"
            remedy = "lower min_document_frequency, or leave those texts out"
        else:
            why = f"hold no token of the given vocabulary of {len(vocabulary):,} words"
            remedy = "give a larger vocabulary, or leave those texts out"
        counts = _keep_words(counts, words, vocabulary)
        lost = np.flatnonzero(np.diff(counts.indptr) == 0)
        if lost.size:
            raise ValueError(_lost_texts(lost, len(texts), why, remedy))
        return cls._trusted(counts, labels, vocabulary, texts if keep_texts else None, _row_sums(counts))

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
        from scipy.sparse import csr_array

        counts = self.counts
        data = counts.data / np.repeat(self.lengths, np.diff(counts.indptr))
        frequencies = csr_array((_read_only(data), counts.indices, counts.indptr), shape=counts.shape)
        frequencies.has_sorted_indices = True
        frequencies.has_canonical_format = True
        return frequencies

    @cached_property
    def average_signed_frequency(self):
        r"""ndarray, (S,) : :math:`\alpha_s=\frac1n\sum_iy_i\varphi_{is}`, exactly 0 where it is 0.

        The counts are summed as integers over all sequences of one length and divided last; where the sum over
        the lengths might still be rounding alone, it is evaluated as a fraction. So the sign of every
        :math:`\alpha_s` is right, and "irrelevant" needs no threshold.
        """
        return _read_only(self._sum_of_frequencies(self.labels) / self.n_sequences)

    @cached_property
    def average_frequency(self):
        r"""ndarray, (S,) : :math:`\nu_s=\frac1n\sum_i\varphi_{is}`; the entries sum to 1."""
        return _read_only(self._sum_of_frequencies(np.ones_like(self.labels)) / self.n_sequences)

    @cached_property
    def document_frequency(self):
        """ndarray, (S,), int64 : the number of sequences that each token stands in."""
        return _read_only(np.bincount(self.counts.indices, minlength=self.n_tokens))

    @cached_property
    def posterior_difference(self):
        r"""ndarray, (S,) : :math:`\Delta_s=\hat P(y=1\mid s\in X)-\hat P(y=-1\mid s\in X)`.

        Of the sequences that hold the token, the share of positive less the share of negative ones; NaN where no
        sequence holds it.
        """
        signed = self._positive_document_frequency * 2 - self.document_frequency
        difference = np.full(self.n_tokens, np.nan)
        np.divide(signed, self.document_frequency, out=difference, where=self.document_frequency > 0)
        return _read_only(difference)

    @cached_property
    def token_kinds(self):
        r"""ndarray, (S,), str : what each token tells about the class.

        ``"completely positive"`` or ``"completely negative"``: it stands in sequences of that class only.
        Otherwise ``"positive"``, ``"negative"`` or ``"irrelevant"``: the sign of :math:`\alpha_s`.
        ``"absent"``: it stands in no sequence.
        """
        sign = np.sign(self.average_signed_frequency).astype(int)
        kinds = np.array(["negative", "irrelevant", "positive"], dtype="<U19")[sign + 1]
        positive, total = self._positive_document_frequency, self.document_frequency
        kinds[positive == total] = "completely positive"
        kinds[positive == 0] = "completely negative"
        kinds[total == 0] = "absent"
        return _read_only(kinds)

    def token_id(self, word):
        """The id of a word: its column in ``counts``, its row in the embeddings.

        Parameters
        ----------
        word : str

        Returns
        -------
        int

        Raises
        ------
        ValueError
            If the word is not in the vocabulary (the message lists similar words), or the corpus has none.

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
            similar = difflib.get_close_matches(word.lower(), self.vocabulary)
            hint = f"; similar words: {', '.join(similar)}" if similar else ""
            raise ValueError(f"{word!r} is not in the vocabulary of {self.n_tokens:,} words{hint}")
        return self._ids[word]

    def __getitem__(self, rows):
        rows = self._positions(rows)
        texts = None if self.texts is None else tuple(self.texts[i] for i in rows)
        return self._trusted(self.counts[rows], self.labels[rows], self.vocabulary, texts, self.lengths[rows])

    def __len__(self):
        return self.n_sequences

    def __repr__(self):
        positive = int(np.count_nonzero(self.labels == 1))
        shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        sizes = f"{shortest:,} to {longest:,} tokens long, mean {self.lengths.mean():,.1f}"
        if shortest == longest:
            sizes = f"{shortest:,} token{'s' * (shortest > 1)} long"
        return (
            f"Corpus({self.n_sequences:,} sequence{'s' * (self.n_sequences > 1)}: {positive:,} positive, "
            f"{self.n_sequences - positive:,} negative; {sizes}; {self.n_tokens:,} distinct "
            f"{'tokens' if self.vocabulary is None else 'words'}{'' if self.texts is None else '; texts kept'})"
        )

    def __setattr__(self, name, value):
        # Statistics and the kernels' tensors are computed once: a changed corpus would silently disagree with them.
        raise AttributeError(f"cannot set {name!r}: a Corpus does not change; make a new one")

    def __reduce__(self):
        # Arrays come back from a pickle writable, so a copy goes through `_trusted` as well.
        return self._trusted, (self.counts, self.labels, self.vocabulary, self.texts, self.lengths)

    @cached_property
    def _ids(self):
        return {word: s for s, word in enumerate(self.vocabulary)}

    @cached_property
    def _positive_document_frequency(self):
        in_positive = np.repeat(self.labels == 1, np.diff(self.counts.indptr))
        return np.bincount(self.counts.indices[in_positive], minlength=self.n_tokens)

    def _sum_of_frequencies(self, weights):
        r"""Sum :math:`\sum_iw_iC_{is}/T_i` for integer weights: (S,), with the exact sign."""
        from scipy.sparse import csc_array

        lengths, group = np.unique(self.lengths, return_inverse=True)
        one_a_column = np.arange(self.n_sequences + 1)
        groups = csc_array((weights, group, one_a_column), shape=(len(lengths), self.n_sequences))
        sums = groups.tocsr() @ self.counts  # (number of lengths, S), integers
        terms = sums.data / np.repeat(lengths, np.diff(sums.indptr))
        total = np.bincount(sums.indices, terms, minlength=self.n_tokens)

        # Each of at most K terms is rounded once and each addition once, with a relative error of eps / 2: the
        # sum is wrong by less than K eps times the sum of magnitudes. Below twice that its sign is in doubt.
        size = np.bincount(sums.indices, np.abs(terms), minlength=self.n_tokens)
        error = 2 * len(lengths) * np.finfo(float).eps * size
        doubtful = np.flatnonzero((size > 0) & (np.abs(total) <= error))
        columns = sums[:, doubtful].tocsc()
        for j, s in enumerate(doubtful):
            entries = slice(columns.indptr[j], columns.indptr[j + 1])
            pairs = zip(columns.data[entries], lengths[columns.indices[entries]], strict=True)
            total[s] = float(sum(Fraction(int(a), int(length)) for a, length in pairs))
        return total

    def _positions(self, rows):
        """Turn whatever indexes sequences into an array of positions from 0."""
        n = self.n_sequences
        if isinstance(rows, slice):
            positions = np.arange(n)[rows]
        else:
            positions = np.atleast_1d(np.asarray(rows))
            if positions.ndim != 1:
                raise TypeError(f"index a corpus by sequences alone, not by {rows!r}")
            if positions.dtype == bool:
                if len(positions) != n:
                    raise IndexError(
                        f"the mask has {len(positions)} entries, but the corpus has {n} sequences"
                    )
                positions = np.flatnonzero(positions)
            elif positions.size and positions.dtype.kind not in "iu":
                raise TypeError(f"index a corpus by a slice, positions or a mask, not by {rows!r}")
        if positions.size == 0:
            raise ValueError("no sequence is left: a corpus needs at least one")
        if positions.min() < -n or positions.max() >= n:
            wrong = positions[(positions < -n) | (positions >= n)][0]
            raise IndexError(f"there is no sequence {wrong}: the corpus has {n} sequences")
        return np.where(positions < 0, positions + n, positions)


def _read_only(array):
    array.flags.writeable = False
    return array


def _row_sums(counts):
    return np.add.reduceat(counts.data, counts.indptr[:-1], dtype=np.int64)


def _checked_counts(counts):
    """Copy counts of any layout into a canonical CSR array of int64."""
    from scipy import sparse

    if not sparse.issparse(counts):
        counts = np.asarray(counts)
    if counts.ndim != 2 or 0 in counts.shape:
        raise ValueError(f"counts must have shape (sequences, tokens), none of them 0; got {counts.shape}")
    if counts.dtype.kind not in "iu":
        raise TypeError(
            f"counts must be integers, how often each token stands in each sequence; got {counts.dtype}"
        )
    counts = sparse.csr_array(counts, dtype=np.int64, copy=True)
    if counts.nnz and counts.data.min() < 0:
        raise ValueError(f"counts must not be negative, got {counts.data.min()}")
    if counts.data.sum(dtype=float) >= _LARGEST_EXACT:
        raise ValueError("counts are too large to be summed exactly: their sum must stay below 2**53")
    counts.sum_duplicates()
    counts.eliminate_zeros()
    empty = np.flatnonzero(np.diff(counts.indptr) == 0)
    if empty.size:
        raise ValueError(
            f"{empty.size} of {counts.shape[0]} rows of counts are empty (row{_listed(empty)}): attention needs "
            "at least one token a sequence; leave them out"
        )
    return counts


def _signs(labels, n_sequences):
    """Read labels as -1 and +1."""
    given = np.asarray(labels)
    if given.shape != (n_sequences,):
        raise ValueError(f"labels must have shape ({n_sequences},), one a sequence; got shape {given.shape}")
    values = set(given.tolist())
    if not (values <= {-1, 1} or values <= {0, 1}):
        shown = ", ".join(sorted(map(repr, values))[:5]) + (", ..." if len(values) > 5 else "")
        raise ValueError(f"labels must be -1 and +1, or 0 and 1, two classes at most; got {shown}")
    return np.where(given == 1, 1, -1).astype(np.int64)


def _words(name, words, size, what, distinct=False):
    """A tuple of str from an argument that holds one str a token or a sequence (None stays None)."""
    if words is None:
        return None
    if isinstance(words, str | bytes | Mapping | Set):
        raise TypeError(f"{name} must be a list of str, got a {type(words).__name__}")
    words = tuple(words)
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"{name} must hold str only, but {name}[{i}] is {word!r}")
    if size is not None and len(words) != size:
        raise ValueError(f"{name} must have {size:,} entries, {what}; got {len(words):,}")
    if distinct and len(set(words)) < len(words):
        seen = set()
        again = next(word for word in words if word in seen or seen.add(word))
        raise ValueError(f"{name} holds {again!r} more than once")
    return words


def _ids(sequence, i):
    """The token ids of sequence i as int64."""
    ids = np.asarray(sequence)
    if ids.ndim != 1:
        raise TypeError(f"sequences[{i}] must be a flat list of token ids, got {sequence!r}")
    if ids.size == 0:
        raise ValueError(f"sequences[{i}] is empty: attention needs at least one token in each sequence")
    # NumPy reads [True, 2] as [1, 2]; only the list itself still knows.
    if ids.dtype.kind not in "iu" or (
        isinstance(sequence, list | tuple) and bool in set(map(type, sequence))
    ):
        hint = "; for words, use Corpus.from_texts" if ids.dtype.kind == "U" else ""
        raise TypeError(f"token ids must be integers, but sequences[{i}] is {sequence!r}{hint}")
    if ids.dtype == np.uint64 and ids.max() > np.iinfo(np.int64).max:
        raise ValueError(f"sequences[{i}] holds the token id {ids.max()}, which is beyond any vocabulary")
    return ids.astype(np.int64, copy=False)


def _size_of_vocabulary(n_tokens, vocabulary, flat):
    if n_tokens is None:
        return max(int(flat.max()) + 1, 1) if vocabulary is None else len(vocabulary)
    if isinstance(n_tokens, bool) or not isinstance(n_tokens, int | np.integer):
        raise TypeError(f"n_tokens must be an int, the size of the vocabulary; got {n_tokens!r}")
    if n_tokens < 1:
        raise ValueError(f"n_tokens must be at least 1, got {n_tokens}")
    return int(n_tokens)


def _count(flat, lengths, n_tokens):
    """Count ids that stand one sequence after the other: a canonical CSR array (n, S)."""
    from scipy.sparse import csr_array

    indptr = np.concatenate([[0], np.cumsum(lengths)])
    counts = csr_array((np.ones(len(flat), dtype=np.int64), flat, indptr), shape=(len(lengths), n_tokens))
    counts.sum_duplicates()
    return counts


def _count_words(texts):
    """Count all tokens of the texts, numbered as they come; also the list of words."""
    ids = defaultdict()
    ids.default_factory = ids.__len__  # a new word gets the next number
    flat, lengths = [], np.empty(len(texts), dtype=np.int64)
    for i, text in enumerate(texts):
        tokens = tokenise(text)
        lengths[i] = len(tokens)
        flat.append(np.fromiter(map(ids.__getitem__, tokens), dtype=np.int32, count=len(tokens)))
    return _count(np.concatenate(flat), lengths, max(len(ids), 1)), list(ids)


def _keep_words(counts, words, vocabulary):
    """Keep the columns of a vocabulary, in its order."""
    from scipy.sparse import csr_array

    place = {word: s for s, word in enumerate(vocabulary)}
    column = np.array([place.get(word, -1) for word in words], dtype=np.int32)[counts.indices]
    kept = column >= 0
    indptr = np.concatenate([[0], np.cumsum(kept)])[counts.indptr]
    shape = (counts.shape[0], len(vocabulary))
    counts = csr_array((counts.data[kept], column[kept], indptr), shape=shape)
    counts.sort_indices()
    return counts


def _lost_texts(lost, n_texts, why, remedy):
    return f"{lost.size:,} of {n_texts:,} texts {why} (text{_listed(lost)}): {remedy}"


def _listed(positions):
    """'s 1, 4, 7, ...' for a message."""
    shown = ", ".join(str(i) for i in positions[:5].tolist())
    return ("s " if len(positions) > 1 else " ") + shown + (", ..." if len(positions) > 5 else "")
