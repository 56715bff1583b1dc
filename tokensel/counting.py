"""Counting texts one chunk at a time, and keeping the counts on disk.

Only a chunk of the tokens, the vocabulary, and a few numbers a text are ever in memory. What is kept on disk
is arrays and JSON, checked against its digests before it is used, and never unpickled.
"""

import hashlib
import json
import os
import shutil
import stat
import time
import unicodedata
import uuid
from array import array
from collections import defaultdict
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

from tokensel.arguments import file_path, whole_number
from tokensel.array_files import ArrayFile, CannotKeep, mapped, new_file, on_disk
from tokensel.callers import warn
from tokensel.corpus import TOKEN, Corpus, _csr, _plural, _refuse_empty, _signs, _words, tokenise
from tokensel.memory import require
from tokensel.progress import progress

_CHUNK = 1_000_000  # tokens: some 4,000 film reviews, and about 30 MB

# Part of every entry's name: raise it when what stands in an entry changes, or how texts are split.
_FORMAT = 1
_ARRAYS = ("data", "indices", "indptr", "labels", "lengths", "left_out")
_FILES = (*(f"{name}.npy" for name in _ARRAYS), "vocabulary.json")
_RECORD = "entry.json"
_PARTIAL = ".partial-"  # of entries that are being written, or being removed
_ABANDONED = 24 * 3600  # seconds after which nobody writes there any more


class EmptyTexts(ValueError):
    """Texts keep no token."""


def count(rows, min_document_frequency=1, vocabulary=None, folder=None, empty="raise"):
    """Count the tokens of labelled texts that are read one at a time.

    The counts are those of `Corpus.from_texts`.

    Parameters
    ----------
    rows : iterable of (str, int)
        Texts and their labels, -1 or +1 (or 0 or 1); read once.
    min_document_frequency : int, default 1
        In how many texts a token must stand to be kept.
    vocabulary : sequence of str, optional
        Count these tokens and no others, in this order.
    folder : path, optional
        An empty folder for the arrays: the corpus is then mapped into memory from there. By default it is in
        memory.
    empty : {"raise", "leave out"}, default "raise"
        What to do about texts that keep no token: refuse them, or leave them out and warn. Both name their
        positions among the rows.

    Returns
    -------
    Corpus

    Raises
    ------
    ValueError
        If there is no text, or one without any token is not to be left out, or none is left.
    CannotKeep
        If the folder cannot be written.

    Examples
    --------
    >>> corpus = count([("A great film, great!", 1), ("a boring film", -1)])
    >>> corpus.vocabulary
    ('a', 'boring', 'film', 'great')
    >>> corpus.counts.toarray()
    array([[1, 0, 1, 2],
           [1, 1, 1, 0]])
    """
    corpus, left_out = _count(rows, *_settings(min_document_frequency, vocabulary, empty), folder)
    _warn(left_out)
    return corpus


def cached(
    source, rows, min_document_frequency=1, vocabulary=None, keep_texts=False, cache=True, empty="raise"
):
    """Counts of texts, kept on disk the first time and read from there afterwards.

    An entry of the cache is found by what it was counted from and how, and used only if every byte is as it
    was written; else it is removed, and counted anew. Where nothing can be kept, counts are made in memory
    and a warning says why.

    Parameters
    ----------
    source : dict
        The contents of the texts, as JSON: the digest of the file (see :func:`digest`), how it is read.
    rows : function
        Without arguments; gives texts and labels from the start, as for :func:`count`.
    min_document_frequency, vocabulary, empty
        As for :func:`count`.
    keep_texts : bool, default False
        Read the texts, which are not kept on disk, into ``corpus.texts``.
    cache : bool, default True
        False counts in memory, and neither reads nor writes the cache.

    Returns
    -------
    Corpus
        Mapped into memory from the cache, so that it needs little of it.

    Warns
    -----
    RuntimeWarning
        If an entry is damaged, or the counts cannot be kept.

    Notes
    -----
    The cache is the folder that the environment variable ``TOKENSEL_CACHE`` names, else ``counts`` in the
    cache folder of your account. It can be removed at any time.
    """
    settings = _settings(min_document_frequency, vocabulary, empty)
    if cache:
        corpus, left_out = _from_cache(source, rows, settings)
    else:
        corpus, left_out = _count(rows(), *settings, None)
    _warn(left_out)
    if keep_texts:
        skip = set(left_out.tolist())
        texts = tuple(text for i, (text, _) in enumerate(rows()) if i not in skip)
        if len(texts) != corpus.n_sequences:
            raise ValueError("the texts have changed since they were counted")
        corpus = Corpus._trusted(corpus.counts, corpus.labels, corpus.vocabulary, texts, corpus.lengths)
    return corpus


def digest(path):
    """SHA-256 of a file, as hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _settings(min_document_frequency, vocabulary, empty):
    least = whole_number("min_document_frequency", min_document_frequency)
    if empty not in ("raise", "leave out"):
        raise ValueError(f'empty must be "raise" or "leave out", got {empty!r}')
    if vocabulary is not None:
        if least > 1:
            raise ValueError("give either vocabulary or min_document_frequency: a given one is kept whole")
        vocabulary = _words(vocabulary)
    return least, vocabulary, empty


def _count(rows, least, vocabulary, empty, folder):
    """Corpus, and the positions of the texts that were left out."""
    with ExitStack() as stack:
        spill = new_file(folder, None, stack)
        ids, frequency, labels, chunks = _provisional(rows, spill, in_memory=folder is None)
        if not labels:
            raise ValueError("there is no text to count")
        if vocabulary is None:
            why = f"lose every token to the cut min_document_frequency={least}"
            if least == 1:
                why = "hold no token at all"
            remedy = "lower min_document_frequency, or leave those texts out"
            vocabulary = tuple(sorted(word for word, i in ids.items() if frequency[i] >= least))
        else:
            why = f"hold no token of the given vocabulary of {len(vocabulary):,} words"
            remedy = "give a larger vocabulary, or leave those texts out"
        place = np.full(len(ids), -1, dtype=np.int32)
        for s, word in enumerate(vocabulary):
            if word in ids:
                place[ids[word]] = s

        size = int(frequency[place >= 0].sum())
        index = np.int32 if max(len(vocabulary), size) <= np.iinfo(np.int32).max else np.int64
        if folder is None:
            n_bytes = size * (8 + np.dtype(index).itemsize)
            require(n_bytes, f"the counts of {_plural(len(labels), 'text')}")
        data = ArrayFile(folder, "data", np.int64, size, stack)
        indices = ArrayFile(folder, "indices", index, size, stack)
        sizes, lengths = _cut(spill, chunks, place, len(vocabulary), data, indices)
        arrays = {"data": data.finished(), "indices": indices.finished()}

        stays = sizes > 0
        if empty == "raise":
            has_token = np.concatenate([np.diff(indptr) > 0 for indptr in chunks])
            _refuse(has_token, "hold no token at all", "leave them out")
            _refuse(stays, why, remedy)
        elif not stays.any():
            raise EmptyTexts(f"no text keeps a token: all {len(stays):,} {why}")
        few = {
            "indptr": np.concatenate([[0], np.cumsum(sizes[stays])]).astype(index),
            "labels": _signs(np.array(labels), len(labels))[stays],
            "lengths": lengths[stays],
            "left_out": np.flatnonzero(~stays),
        }
        for name, numbers in few.items():
            whole = ArrayFile(folder, name, numbers.dtype, len(numbers), stack)
            whole.append(numbers)
            arrays[name] = whole.finished()
    if folder is not None:
        with on_disk():
            Path(folder, "vocabulary.json").write_text(json.dumps(vocabulary))
    return _assembled(arrays, vocabulary)


def _refuse(has_token, why, remedy):
    try:
        _refuse_empty(has_token, why, remedy)
    except ValueError as error:
        raise EmptyTexts(*error.args) from None


def _provisional(rows, spill, in_memory):
    """Count with ids in order of appearance; returns ids, document frequencies, labels, and row ends."""
    ids = defaultdict()
    ids.default_factory = ids.__len__  # a new word gets the next number
    frequency = np.zeros(0, dtype=np.int64)
    labels, chunks = array("b"), []
    rows = iter(progress(rows, description="Counting texts", unit="text"))
    while True:
        tokens, ends = [], [0]
        for text, label in rows:
            tokens.extend(map(ids.__getitem__, tokenise(text)))
            ends.append(len(tokens))
            labels.append(label)
            if len(tokens) >= _CHUNK:
                break
        if len(ends) == 1:
            ids.default_factory = None
            return ids, frequency, labels, chunks
        shape = len(ends) - 1, max(len(ids), 1)
        ones, tokens = np.ones(len(tokens), dtype=np.int32), np.array(tokens, dtype=np.int32)
        counts = _csr(ones, tokens, np.array(ends), shape)
        counts.sum_duplicates()
        frequency = np.bincount(counts.indices, minlength=len(ids)) + np.pad(
            frequency, (0, len(ids) - len(frequency))
        )
        if in_memory:
            require(8 * counts.nnz, f"the counts of the first {_plural(len(labels), 'text')}")
        with on_disk():
            spill.write(counts.indices.data)
            spill.write(counts.data.data)
        chunks.append(counts.indptr)


def _cut(spill, chunks, place, n_tokens, data, indices):
    """Renumber the counts that have a place; returns how many each text keeps, and their sum."""
    from scipy.sparse import csr_array

    def read(size):
        with on_disk():
            return np.frombuffer(spill.read(4 * size), dtype=np.int32)

    with on_disk():
        spill.seek(0)
    sizes, lengths = [], []
    for indptr in chunks:
        token, times = place[read(indptr[-1])], read(indptr[-1])
        stays = token >= 0
        ends = np.concatenate([[0], np.cumsum(stays)])[indptr]
        counts = csr_array(
            (times[stays].astype(np.int64), token[stays], ends), shape=(len(ends) - 1, n_tokens)
        )
        counts.sort_indices()
        data.append(counts.data)
        indices.append(counts.indices)
        sizes.append(np.diff(ends))
        lengths.append(counts.sum(axis=1))
    return np.concatenate(sizes), np.concatenate(lengths)


def _assembled(arrays, vocabulary):
    shape = len(arrays["labels"]), len(vocabulary)
    counts = _csr(arrays["data"], arrays["indices"], arrays["indptr"], shape)
    corpus = Corpus._trusted(counts, arrays["labels"], vocabulary, None, arrays["lengths"])
    return corpus, arrays["left_out"]


def _warn(left_out):
    if left_out.size:
        which = ", ".join(map(str, left_out[:5])) + (", ..." if left_out.size > 5 else "")
        left = f"{_plural(left_out.size, 'text')} left out: no token of theirs is counted (positions {which})"
        warn(left, UserWarning)


# The cache


def _from_cache(source, rows, settings):
    least, vocabulary, empty = settings
    recipe = {
        "format": _FORMAT,
        "tokens": [TOKEN.pattern, unicodedata.unidata_version],
        "source": source,
        "min_document_frequency": least,
        "vocabulary": vocabulary and hashlib.sha256(json.dumps(vocabulary).encode()).hexdigest(),
        "empty": empty,
    }
    entry = _cache_folder() / hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    try:
        with on_disk():
            found = _read(entry, recipe)
        return found or _kept(entry, recipe, rows, settings)
    except CannotKeep as error:
        warn(
            f"the counts cannot be kept in {entry.parent} ({error}): they are made in memory. "
            "TOKENSEL_CACHE can name another folder",
            RuntimeWarning,
        )
    return _count(rows(), *settings, None)


def _cache_folder():
    import pooch

    named = os.environ.get("TOKENSEL_CACHE")
    return file_path("TOKENSEL_CACHE", named) if named else Path(pooch.os_cache("tokensel"), "counts")


def _record(folder, recipe):
    """What an entry's record must say, given the files that are there."""
    files = {name: [(folder / name).stat().st_size, digest(folder / name)] for name in _FILES}
    return json.dumps({"recipe": recipe, "files": files}, sort_keys=True).encode()


def _read(entry, recipe):
    """Corpus and positions left out of an entry; None if there is none, or none that can be trusted."""
    if not os.path.lexists(entry):
        return None
    if not _sound(entry, recipe):
        _remove(entry)
        warn(f"the counts kept in {entry} were damaged: they are removed, and counted anew", RuntimeWarning)
        return None
    arrays = {name: mapped(entry / f"{name}.npy") for name in _ARRAYS}
    return _assembled(arrays, tuple(json.loads((entry / "vocabulary.json").read_bytes())))


def _sound(entry, recipe):
    """Whether an entry is what was written: the same bytes, in plain files (a pipe would be waited for)."""
    if not entry.is_dir():
        return False
    try:
        plain = all(stat.S_ISREG((entry / name).lstat().st_mode) for name in (*_FILES, _RECORD))
        return plain and (entry / _RECORD).read_bytes() == _record(entry, recipe)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _kept(entry, recipe, rows, settings):
    """Count into a neighbour of the entry, rename it, and read it."""
    with on_disk():
        entry.parent.mkdir(parents=True, exist_ok=True)
        for left in entry.parent.glob(f"{_PARTIAL}*"):
            with suppress(FileNotFoundError):  # another process may be done, or at it too
                if time.time() - left.lstat().st_mtime > _ABANDONED:
                    _delete(left)
        partial = _neighbour(entry)
        partial.mkdir()
    try:
        _count(rows(), *settings, partial)
        with on_disk():
            (partial / _RECORD).write_bytes(_record(partial, recipe))
            try:
                partial.rename(entry)
            except OSError:
                if not entry.is_dir():  # else another process was first
                    raise
    finally:
        if partial.exists():
            shutil.rmtree(partial)
    with on_disk():
        found = _read(entry, recipe)
    if found is None:
        raise CannotKeep("what was written is not what is read")
    return found


def _remove(entry):
    """Take an entry away at once, by another name: nobody finds half of it."""
    doomed = _neighbour(entry)
    with suppress(FileNotFoundError):  # another process has found it damaged, too
        entry.rename(doomed)
        _delete(doomed)


def _delete(path):
    """Delete a folder, or what somebody has put in its place; what a link leads to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _neighbour(entry):
    return entry.parent / f"{_PARTIAL}{uuid.uuid4().hex}"
