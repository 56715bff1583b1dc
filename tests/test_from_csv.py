"""A reader's own CSV file as a corpus, and its counts on disk."""

import csv
import gzip
import re
from collections import Counter

import numpy as np
import pytest

import tokensel as ts
from tokensel import datasets

COLUMNS = {"text": "text", "label": "label"}
CONTENT = 'text,label\n"A kettle, a good one",1\nIt leaks,0\nA leak! it LEAKS,0\n'


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """No test reads or writes the folders of whoever runs it."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("TOKENSEL_CACHE", str(folder))
    return folder


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text(CONTENT, encoding="utf-8")
    return path


def same(corpus, expected):
    assert corpus.vocabulary == expected.vocabulary
    assert corpus.labels.tolist() == expected.labels.tolist()
    assert corpus.lengths.tolist() == expected.lengths.tolist()
    assert (corpus.counts != expected.counts).nnz == 0
    assert corpus.texts == expected.texts


def everything_in(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("keep_texts", [True, False])
def test_the_corpus_of_a_file(path, cached, keep_texts, cache):
    texts = ["A kettle, a good one", "It leaks", "A leak! it LEAKS"]
    for least in (1, 2):
        expected = ts.Corpus.from_texts(texts, [1, -1, -1], least, keep_texts=keep_texts)
        settings = {"min_document_frequency": least, "keep_texts": keep_texts, "cache": cached}
        for _ in range(2):  # counted, and then from the cache
            same(datasets.from_csv(path, **COLUMNS, **settings), expected)
        same(datasets.from_csv(str(path), **COLUMNS, **settings), expected)
    assert bool(everything_in(cache)) == cached


def test_counts_are_kept_by_content_and_not_by_name(path, cache, tmp_path):
    first = datasets.from_csv(path, **COLUMNS)
    kept = everything_in(cache)
    copy = tmp_path / "copy.csv"
    copy.write_bytes(path.read_bytes())
    same(datasets.from_csv(copy, **COLUMNS), first)
    assert everything_in(cache) == kept

    path.write_text(CONTENT + "New words,1\n", encoding="utf-8")
    assert len(datasets.from_csv(path, **COLUMNS)) == 4
    other = datasets.from_csv(copy, **COLUMNS, positive=0)  # the same bytes, read otherwise
    assert other.labels.tolist() == [-1, 1, 1]
    assert datasets.from_csv(copy, **COLUMNS).labels.tolist() == [1, -1, -1]


def test_texts_without_a_token_are_left_out_with_a_warning(path):
    path.write_text('text,label\n...,1\ngood kettle,1\n,0\nleaks,0\n"good, good",1\n', encoding="utf-8")
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"2 texts left out.*\(positions 0, 2\)"):
            corpus = datasets.from_csv(path, **COLUMNS, keep_texts=True)
        assert corpus.texts == ("good kettle", "leaks", "good, good")
        assert corpus.labels.tolist() == [1, -1, 1]


def test_texts_that_lose_all_tokens_to_the_cut_are_left_out_with_a_warning(path):
    path.write_text("text,label\nGood kettle,1\nIt leaks,0\nIt LEAKS,0\nIt does not,1\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"1 text left out.*\(positions? 0\)"):
        corpus = datasets.from_csv(path, **COLUMNS, min_document_frequency=2)
    assert corpus.vocabulary == ("it", "leaks")
    assert corpus.labels.tolist() == [-1, -1, 1]


def test_one_class_is_refused_also_where_the_other_keeps_no_token(path):
    path.write_text("text,label\nGood kettle,1\n...,0\n", encoding="utf-8")
    for _ in range(2):
        with pytest.warns(UserWarning, match="1 text left out"), pytest.raises(ValueError, match="one class"):
            datasets.from_csv(path, **COLUMNS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("text,label\na,1\nb,1\n", "no row is negative"),
        ("text,label\na,1\nb,0,\n", "line 3: 3 columns"),
        ("txt,label\na,1\nb,0\n", "no column 'text'"),
        ("text,label\na,1\nb,\n", "line 3: the column 'label' is empty"),
        (b"text,label\na,1\ncaf\xe9,0\n", r"line 3: this is not UTF-8 \(byte e9\)"),
        ('text,label\na,1\n"b,0\n', "line 3: a quote that is opened here is not closed"),
        ("text,label\n", "there is no row below"),
        (gzip.compress(CONTENT.encode(), mtime=0)[:-10], "is damaged"),
    ],
)
def test_a_bad_file_leaves_nothing_in_the_cache(path, cache, content, words):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            datasets.from_csv(path, **COLUMNS)
        assert everything_in(cache) == {}
    path.write_text(CONTENT, encoding="utf-8")
    assert len(datasets.from_csv(path, **COLUMNS)) == 3


def test_a_warning_where_the_counts_cannot_be_kept(path, cache):
    expected = datasets.from_csv(path, **COLUMNS, cache=False)
    blocked = cache / "counts"
    blocked.write_text("a file, where a folder should be")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENSEL_CACHE", str(blocked))
        with pytest.warns(RuntimeWarning, match="cannot be kept"):
            same(datasets.from_csv(path, **COLUMNS), expected)


def test_arguments_are_checked(path):
    with pytest.raises(ValueError, match="min_document_frequency must be at least 1"):
        datasets.from_csv(path, **COLUMNS, min_document_frequency=0)
    with pytest.raises(TypeError, match="label must be the name of a column"):
        datasets.from_csv(path, text="text", label=1)


# The file that comes with the package


def rows_of_the_example():
    with datasets.example_csv().open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_example_is_what_its_documentation_says():
    rows = rows_of_the_example()
    assert list(rows[0]) == ["kettle", "stars", "review"]
    assert {row["kettle"] for row in rows} == {"steel", "glass", "travel"}
    stars = Counter(row["stars"] for row in rows)
    assert set(stars) == set("12345")
    assert len({row["review"] for row in rows}) == len(rows)
    assert 150 <= len(rows) - stars["3"] <= 200
    high, low = stars["4"] + stars["5"], stars["1"] + stars["2"]
    assert abs(high - low) <= 0.1 * (high + low)


def test_the_example_as_a_corpus():
    """Counted once more, without any of the package's reading or counting."""
    kept = [row for row in rows_of_the_example() if row["stars"] != "3"]
    labels = [1 if int(row["stars"]) >= 4 else -1 for row in kept]
    words = [Counter(re.findall(r"\b\w[\w']*\b", row["review"].lower())) for row in kept]
    corpus = datasets.from_csv(
        datasets.example_csv(),
        text="review",
        label="stars",
        positive=[4, 5],
        negative=[1, 2],
        keep_texts=True,
    )
    assert corpus.vocabulary == tuple(sorted(set().union(*words)))
    assert corpus.labels.tolist() == labels
    assert corpus.texts == tuple(row["review"] for row in kept)
    expected = np.array([[count[word] for word in corpus.vocabulary] for count in words])
    assert (corpus.counts.toarray() == expected).all()


def test_the_example_can_be_read_by_another_column():
    arguments = {"text": "review", "label": "kettle", "positive": "glass", "negative": ["steel", "travel"]}
    corpus = datasets.from_csv(datasets.example_csv(), **arguments)
    rows = rows_of_the_example()
    assert len(corpus) == len(rows)
    assert (corpus.labels == 1).tolist() == [row["kettle"] == "glass" for row in rows]


def test_warnings_point_at_the_line_that_asked_for_the_file(path, cache, tmp_path, monkeypatch):
    """On every route: counted in memory, into the cache, from it, from a damaged entry, without a cache."""
    path.write_text("text,label\n...,1\ngood kettle,1\nleaks,0\n", encoding="utf-8")

    def warned(expected, **arguments):
        with pytest.warns(Warning) as caught:  # noqa: PT030
            datasets.from_csv(path, **COLUMNS, **arguments)
        assert {str(warning.message).split(":")[0].split(" ")[2] for warning in caught} == expected
        assert {warning.filename for warning in caught} == {__file__}

    left_out = "left"  # "1 text left out: ..."
    warned({left_out}, cache=False)
    warned({left_out})
    warned({left_out}, keep_texts=True)
    (entry,) = cache.iterdir()
    (entry / "data.npy").write_bytes(b"")
    warned({left_out, "kept"})  # "the counts kept in ... were damaged"
    monkeypatch.setenv("TOKENSEL_CACHE", str(path))
    warned({left_out, "cannot"})  # "the counts cannot be kept in ..."


def test_a_file_whose_texts_all_lose_their_tokens_is_named(path):
    path.write_text("text,label\n...,1\n!,0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"reviews\.csv: no text keeps a token: all 2 hold no token at all"):
        datasets.from_csv(path, **COLUMNS)
    path.write_text(CONTENT, encoding="utf-8")
    with pytest.raises(ValueError, match=r"reviews\.csv: no text keeps .* min_document_frequency=9"):
        datasets.from_csv(path, **COLUMNS, min_document_frequency=9)
