"""Streamed counts against `Corpus.from_texts` and plain loops; the cache against all that can befall it."""

import copy
import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
import time
import tracemalloc
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokensel as ts
from tokensel import counting, memory

TEXTS = ["A great film, great!", "a boring film", "Boring.<br />Dull", "the PLOT: don't", "great plot"]
LABELS = [1, -1, -1, -1, 1]
ROWS = list(zip(TEXTS, LABELS, strict=True))
SOURCE = {"sha256": "of the texts above"}
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's /proc")
with_limits = pytest.mark.skipif(os.name != "posix", reason="asks POSIX for limits, users and signals")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """No test reads or writes the cache of whoever runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "account"))
    monkeypatch.setenv("TOKENSEL_CACHE", str(tmp_path / "counts"))
    return tmp_path / "counts"


def assert_same(found, expected):
    """Same corpus to the last bit, in the layout that the package promises."""
    for name in ("data", "indices", "indptr"):
        one, other = getattr(found.counts, name), getattr(expected.counts, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert found.counts.shape == expected.counts.shape
    assert found.vocabulary == expected.vocabulary
    for name in ("labels", "lengths"):
        assert getattr(found, name).dtype == np.int64
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.texts == expected.texts


def files_under(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def the_entry(cache):
    (entry,) = cache.iterdir()
    return entry


def kept(rows=ROWS, **changed):
    return counting.cached(SOURCE, lambda: iter(rows), **changed)


def not_read():
    raise AssertionError("the texts were read although their counts are kept")


# Counting


words = st.sampled_from(["a", "b", "B", "don't", "ä", "Ünder", "x1", "!", "<br />", "", "İ", "the"])
texts = st.lists(st.lists(words, max_size=6).map(" ".join), min_size=1, max_size=8)


@given(st.data(), texts, st.integers(1, 3), st.sampled_from([1, 2, 5, 10**6]), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=200)
def test_streamed_counts_are_those_of_from_texts(
    tmp_path_factory, data, texts, least, chunk, on_disk, given_words
):
    labels = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(texts), max_size=len(texts)))
    how = {"min_document_frequency": least}
    if given_words:
        how = {"vocabulary": ["the", "zebra", "a", "ä", "don't"]}
    outcomes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_CHUNK", chunk)
        folder = tmp_path_factory.mktemp("arrays") if on_disk else None
        for count in (
            lambda: counting.count(zip(texts, labels, strict=True), folder=folder, **how),
            lambda: ts.Corpus.from_texts(texts, labels, **how),
        ):
            try:
                outcomes.append(count())
            except ValueError as error:
                outcomes.append(str(error))
    if isinstance(outcomes[1], str):
        assert outcomes[0] == outcomes[1]
    else:
        assert_same(*outcomes)


@given(texts, st.integers(1, 4), st.sampled_from([1, 3, 10**6]))
@settings(deadline=None, max_examples=100)
def test_the_cut_is_that_of_plain_loops(texts, least, chunk):
    token = re.compile(r"\b\w[\w']*\b")
    found = [Counter(token.findall(text.lower().replace("<br />", " "))) for text in texts]
    frequency = Counter(word for words in found for word in words)
    vocabulary = sorted(word for word in frequency if frequency[word] >= least)
    rows = [[words[word] for word in vocabulary] for words in found]
    empty = [i for i, row in enumerate(rows) if not any(row)]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.setattr(counting, "_CHUNK", chunk)
        labelled = [(text, 1 if i % 2 else -1) for i, text in enumerate(texts)]
        if len(empty) == len(texts):
            why = "hold no token at all" if least == 1 else "lose every token"
            with pytest.raises(ValueError, match=f"no text keeps a token: all {len(texts)} {why}"):
                counting.count(labelled, least, empty="leave out")
            return
        corpus = counting.count(labelled, least, empty="leave out")
    stays = [i for i in range(len(texts)) if i not in empty]
    assert corpus.vocabulary == tuple(vocabulary)
    assert corpus.counts.toarray().tolist() == [rows[i] for i in stays]
    assert corpus.lengths.tolist() == [sum(rows[i]) for i in stays]
    assert corpus.labels.tolist() == [1 if i % 2 else -1 for i in stays]
    assert len(caught) == bool(empty)
    if empty:
        assert f"(positions {', '.join(map(str, empty[:5]))}" in str(caught[0].message)


@pytest.mark.parametrize("chunk", [1, 4, 7, 10**6])
def test_texts_of_every_length_cross_the_chunks(monkeypatch, chunk):
    monkeypatch.setattr(counting, "_CHUNK", chunk)
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(list("abcdefgh"), size)) for size in generator.integers(1, 12, 60)]
    labels = [1, -1] * 30
    assert_same(counting.count(zip(texts, labels, strict=True), 2), ts.Corpus.from_texts(texts, labels, 2))


def test_rows_are_read_once_and_one_after_the_other(monkeypatch):
    monkeypatch.setattr(counting, "_CHUNK", 3)
    read = []
    rows = (read.append(i) or row for i, row in enumerate(ROWS))
    assert counting.count(rows).n_sequences == 5
    assert read == [0, 1, 2, 3, 4]


def test_labels_may_be_0_and_1():
    corpus = counting.count([("good", np.int64(1)), ("bad", 0), ("poor", False)])
    assert corpus.labels.tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    ("rows", "settings", "error", "message"),
    [
        ([], {}, ValueError, "there is no text to count"),
        ([("a", 1), (None, 1)], {}, TypeError, "text must be a str, got None"),
        ([("a", 2), ("b", 1)], {}, ValueError, r"labels must be -1 and \+1, or 0 and 1.*got 1, 2"),
        (ROWS, {"min_document_frequency": 0}, ValueError, "min_document_frequency must be at least 1, got 0"),
        (ROWS, {"min_document_frequency": 2.0}, TypeError, "must be a whole number, got 2.0"),
        (ROWS, {"empty": "keep"}, ValueError, 'empty must be "raise" or "leave out", got \'keep\''),
        (ROWS, {"vocabulary": ["a", "a"]}, ValueError, "each word once, but 'a' is repeated"),
        (ROWS, {"vocabulary": ["a"], "min_document_frequency": 2}, ValueError, "give either vocabulary or"),
        ([("a", 1), ("!", 1)], {}, ValueError, r"1 of 2 texts hold no token at all \(positions 1\): leave"),
        (ROWS, {"min_document_frequency": 3}, ValueError, "3, 4.*: lower min_document_frequency"),
        (ROWS, {"vocabulary": ["dull"]}, ValueError, "no token of the given vocabulary of 1 words"),
        ([("!", 1)], {"empty": "leave out"}, ValueError, "no text keeps a token: all 1 hold no token at all"),
    ],
)
def test_what_cannot_be_counted_is_said(cache, rows, settings, error, message):
    with pytest.raises(error, match=message):
        counting.count(iter(rows), **settings)
    with pytest.raises(error, match=message):
        kept(rows, **settings)
    assert not cache.exists() or list(cache.iterdir()) == []


def test_texts_left_out_are_named():
    rows = [("good", 1), *[("?", 1)] * 6, ("bad", -1)]
    with pytest.warns(UserWarning, match=r"6 texts left out: .* \(positions 1, 2, 3, 4, 5, \.\.\.\)"):
        corpus = counting.count(rows, empty="leave out")
    assert corpus.labels.tolist() == [1, -1]
    for _ in range(2):  # from the texts, and from the cache
        with pytest.warns(UserWarning, match="6 texts left out"):
            corpus = kept(rows, empty="leave out", keep_texts=True)
        assert corpus.texts == ("good", "bad")


def test_memory_stays_flat_where_counts_are_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "_CHUNK", 20_000)
    vocabulary = [f"word{i}" for i in range(500)]

    def rows(n):
        generator = np.random.default_rng(0)
        for i in range(n):
            yield " ".join(vocabulary[s] for s in generator.integers(0, 500, 50)), 1 - 2 * (i % 2)

    def peak(n, folder):
        tracemalloc.start()
        corpus = counting.count(rows(n), folder=folder)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most, corpus.counts.nnz

    counting.count(rows(10))  # so that what is imported and compiled is not counted
    growth = {}
    for where in ("disk", "memory"):
        figures = []
        for n in (1_000, 4_000):
            folder = tmp_path / f"{where} {n}" if where == "disk" else None
            if folder:
                folder.mkdir()
            figures.append(peak(n, folder))
        growth[where] = (figures[1][0] - figures[0][0]) / 3_000
    a_text = 12 * (figures[1][1] - figures[0][1]) / 3_000  # bytes of its counts: some 48 different words
    assert a_text > 500
    assert growth["memory"] > a_text  # what would be seen if they were in memory
    # A label, a length, an end and some masks, of 8 bytes at most each.
    assert growth["disk"] < 100


def test_counts_larger_than_memory_are_refused_with_the_bytes_they_need(monkeypatch, tmp_path):
    rows = [("a b c d", 1), ("a b c e", -1)]  # 8 counts of 8 + 4 bytes, of which 4 + 4 are needed at first
    monkeypatch.setattr(memory, "available", lambda device="cpu": 63)
    with pytest.raises(MemoryError, match=r"the counts of the first 2 texts: .* \(64 bytes\)"):
        counting.count(rows)
    monkeypatch.setattr(memory, "available", lambda device="cpu": 95)
    with pytest.raises(MemoryError, match=r"the counts of 2 texts: .* \(96 bytes\)"):
        counting.count(rows)
    assert_same(counting.count(rows, folder=tmp_path), ts.Corpus.from_texts(*zip(*rows, strict=True)))
    monkeypatch.setattr(memory, "available", lambda device="cpu": 96)
    assert counting.count(rows).counts.nnz == 8


# A corpus that is mapped from files


@pytest.fixture(params=["folder", "cache"])
def mapped(request, tmp_path):
    if request.param == "cache":
        kept()
        return kept()
    (tmp_path / "arrays").mkdir()
    return counting.count(ROWS, folder=tmp_path / "arrays")


@pytest.fixture
def ordinary():
    return ts.Corpus.from_texts(TEXTS, LABELS)


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def test_the_large_arrays_are_mapped(mapped, ordinary):
    assert_same(mapped, ordinary)
    for name in ("data", "indices", "indptr"):
        assert is_mapped(getattr(mapped.counts, name))
        assert not is_mapped(getattr(ordinary.counts, name))


def test_a_mapped_corpus_has_the_same_statistics(mapped, ordinary):
    for name in (
        "average_signed_frequency",
        "average_frequency",
        "document_frequency",
        "posterior_difference",
        "token_kinds",
    ):
        np.testing.assert_array_equal(getattr(mapped, name), getattr(ordinary, name))
    assert (mapped.frequencies != ordinary.frequencies).nnz == 0
    assert repr(mapped) == repr(ordinary)
    assert mapped.token_id("plot") == ordinary.token_id("plot")


@pytest.mark.parametrize("rows", [slice(1, 4), slice(None), [4, 0, 0], -1, np.array(LABELS) == 1])
def test_a_mapped_corpus_can_be_sliced(mapped, ordinary, rows):
    assert_same(mapped[rows], ordinary[rows])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_mapped_corpus_can_be_copied_and_sent(mapped, ordinary, copied):
    other = copied(mapped)
    assert_same(other, ordinary)
    with pytest.raises(ValueError, match="read-only"):
        other.counts.data[0] = 7


@pytest.mark.parametrize("array", ["data", "indices", "indptr"])
def test_a_mapped_corpus_is_read_only(mapped, array):
    with pytest.raises(ValueError, match="read-only"):
        getattr(mapped.counts, array)[0] = 7
    with pytest.raises(ValueError, match="WRITEABLE"):
        getattr(mapped.counts, array).flags.writeable = True
    with pytest.raises(ValueError, match="read-only"):
        mapped.labels[0] = 1


def test_a_mapped_corpus_is_trained_on_as_any_other(mapped, ordinary):
    models = []
    for corpus in (mapped, ordinary):
        model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=16, seed=0)
        ts.fit(model, corpus, steps=5, progress=False)
        models.append(model)
        scores, values = np.linspace(-1, 1, corpus.n_tokens), np.linspace(1, 2, corpus.n_tokens)
        for result in ts.score_space.gradients(corpus, scores, values):
            assert bool(result.isfinite().all())
        models[-1].attended = ts.score_space.attention(corpus, scores).to_dense().numpy()
    for name in ("embeddings", "cls"):
        one, other = (getattr(model, name).detach().numpy() for model in models)
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(models[0].attended, models[1].attended)
    selections = [ts.Selection.best(corpus, np.arange(corpus.n_tokens)) for corpus in (mapped, ordinary)]
    np.testing.assert_array_equal(selections[0].tokens, selections[1].tokens)


@with_limits
def test_a_mapped_corpus_outlives_its_entry(cache, ordinary):
    kept()
    corpus = kept()
    shutil.rmtree(cache)
    assert_same(corpus, ordinary)
    assert_same(kept(), ordinary)
    assert len(list(cache.iterdir())) == 1


# The cache


def test_counts_are_kept_and_not_counted_again(cache, ordinary):
    assert_same(kept(), ordinary)
    entry = the_entry(cache)
    before = {name: (entry / name).read_bytes() for name in files_under(entry)}
    assert_same(counting.cached(SOURCE, not_read), ordinary)
    assert {name: (entry / name).read_bytes() for name in files_under(entry)} == before


def test_an_entry_is_plain_arrays_and_words_with_their_digests(cache, ordinary):
    kept()
    entry = the_entry(cache)
    record = json.loads((entry / "entry.json").read_text())
    assert files_under(entry) == {*record["files"], "entry.json"}
    for name, (size, digest) in record["files"].items():
        content = (entry / name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (size, digest)
    assert tuple(json.loads((entry / "vocabulary.json").read_text())) == ordinary.vocabulary
    for name in ("data", "indices", "indptr"):
        array = np.load(entry / f"{name}.npy", allow_pickle=False)
        np.testing.assert_array_equal(array, getattr(ordinary.counts, name))
    assert np.load(entry / "labels.npy", allow_pickle=False).tolist() == LABELS


def test_every_setting_has_its_own_entry(cache, monkeypatch):
    few = ["a", "film", "dull", "the", "great", "plot"]
    for how in ({}, {"min_document_frequency": 2}, {"vocabulary": few}, {"vocabulary": few[::-1]}):
        kept(**{"empty": "leave out", **how})
    kept()
    counting.cached({"sha256": "of other texts"}, lambda: iter(ROWS))
    assert len(list(cache.iterdir())) == 6
    monkeypatch.setattr(counting, "TOKEN", re.compile(r"\w+"))
    kept()
    monkeypatch.setattr(counting, "_FORMAT", 0)
    kept()
    assert len(list(cache.iterdir())) == 8


def test_texts_are_read_anew_and_not_kept(cache, ordinary):
    for _ in range(2):
        corpus = kept(keep_texts=True)
        assert corpus.texts == tuple(TEXTS)
        assert_same(corpus, ts.Corpus.from_texts(TEXTS, LABELS, keep_texts=True))
    assert kept().texts is None
    everything = b"".join(path.read_bytes() for path in cache.rglob("*") if path.is_file())
    assert b"boring film" not in everything
    with pytest.raises(ValueError, match="the texts have changed since they were counted"):
        kept(ROWS[1:], keep_texts=True)


def test_without_cache_nothing_is_read_or_written(cache, ordinary):
    kept()
    for path in the_entry(cache).iterdir():
        path.write_bytes(b"")
    assert_same(kept(cache=False), ordinary)
    assert_same(kept(cache=False, keep_texts=True), ts.Corpus.from_texts(TEXTS, LABELS, keep_texts=True))
    shutil.rmtree(cache)
    kept(cache=False)
    assert not cache.exists()


def test_the_account_has_a_cache_where_none_is_named(tmp_path, monkeypatch):
    import pooch

    monkeypatch.delenv("TOKENSEL_CACHE")
    folder = Path(pooch.os_cache("tokensel"), "counts")
    if tmp_path not in folder.parents:
        pytest.skip("this system has no XDG_CACHE_HOME, and the account's own cache is not ours to write to")
    kept()
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOKENSEL_CACHE", "~/mine")
    kept()
    assert len(list((tmp_path / "mine").iterdir())) == 1


FILES = ["data.npy", "indices.npy", "indptr.npy", "labels.npy", "lengths.npy", "left_out.npy"]
FILES += ["vocabulary.json", "entry.json"]


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


DAMAGE = {
    "first bit flipped": lambda path: flip(path, 0),
    "middle bit flipped": lambda path: flip(path, 4 * path.stat().st_size),
    "last bit flipped": lambda path: flip(path, 8 * path.stat().st_size - 1),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "emptied": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "missing": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_entry_is_removed_and_counted_anew(cache, ordinary, name, damage):
    kept()
    entry = the_entry(cache)
    sound = {name: (entry / name).read_bytes() for name in files_under(entry)}
    DAMAGE[damage](entry / name)
    with pytest.warns(RuntimeWarning, match=f"{entry.name} were damaged: .* counted anew"):
        assert_same(kept(), ordinary)
    assert the_entry(cache) == entry
    assert {name: (entry / name).read_bytes() for name in files_under(entry)} == sound
    assert_same(counting.cached(SOURCE, not_read), ordinary)


@given(st.sampled_from(FILES), st.integers(0))
@settings(deadline=None, max_examples=150)
def test_no_flipped_bit_is_ever_believed(tmp_path_factory, name, bit):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.getbasetemp() / "bits"
        patch.setenv("TOKENSEL_CACHE", str(folder))
        kept()
        path = the_entry(folder) / name
        flip(path, bit % (8 * path.stat().st_size))
        with pytest.warns(RuntimeWarning, match="were damaged"):
            assert_same(kept(), ts.Corpus.from_texts(TEXTS, LABELS))


def test_an_entry_of_another_recipe_is_not_believed(cache, ordinary):
    counting.cached({"sha256": "other"}, lambda: iter([("quite another text", 1)]))
    other = the_entry(cache)
    kept()
    (mine,) = set(cache.iterdir()) - {other}
    shutil.rmtree(mine)
    shutil.copytree(other, mine)
    with pytest.warns(RuntimeWarning, match="were damaged"):
        assert_same(kept(), ordinary)


def a_link_to_itself(path):
    path.symlink_to(path)


INSTEAD = {
    "folder": Path.mkdir,
    "file": Path.touch,
    "link to nothing": lambda path: path.symlink_to(path.parent / "nowhere"),
    "link to itself": a_link_to_itself,
}
if hasattr(os, "mkfifo"):
    INSTEAD |= {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero")}


@pytest.mark.parametrize("instead", INSTEAD)
@pytest.mark.parametrize("name", ["data.npy", "entry.json", None])
def test_what_stands_in_the_place_of_a_file_or_an_entry_is_removed(cache, ordinary, name, instead):
    kept()
    entry = the_entry(cache)
    sound = {name: (entry / name).read_bytes() for name in files_under(entry)}
    if name:
        (entry / name).unlink()
    else:
        shutil.rmtree(entry)
    INSTEAD[instead](entry / name if name else entry)
    with pytest.warns(RuntimeWarning, match="were damaged"):
        assert_same(kept(), ordinary)
    assert list(cache.iterdir()) == [entry]
    assert {name: (entry / name).read_bytes() for name in files_under(entry)} == sound


def test_what_a_link_in_the_cache_leads_to_stays(cache, ordinary, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("of years")
    kept()
    entry = the_entry(cache)
    shutil.rmtree(entry)
    entry.symlink_to(mine)
    abandoned = [cache / ".partial-link", cache / ".partial-file"]
    abandoned[0].symlink_to(mine)
    abandoned[1].touch()
    for path in abandoned:
        os.utime(path, (1, 1), follow_symlinks=False)
    with pytest.warns(RuntimeWarning, match="were damaged"):
        assert_same(kept(), ordinary)
    assert list(cache.iterdir()) == [entry]
    assert not entry.is_symlink()
    assert (mine / "thesis").read_text() == "of years"


# When it cannot be written


def test_a_cache_that_is_no_folder_is_said(tmp_path, monkeypatch, ordinary):
    (tmp_path / "file").write_text("mine")
    for named in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setenv("TOKENSEL_CACHE", str(named))
        with pytest.warns(RuntimeWarning, match=r"cannot be kept in .*: they are made in memory"):
            assert_same(kept(), ordinary)
    assert (tmp_path / "file").read_text() == "mine"


def run(code, *arguments, **more):
    """Run code in a process of its own, with the rows and the cache of these tests."""
    setup = f"""
        import itertools, os, pathlib, sys, time, warnings
        import pooch, scipy.sparse, tqdm.auto
        import tokensel as ts
        from tokensel import counting
        ROWS = {ROWS!r}
        SOURCE = {SOURCE!r}
    """
    code = textwrap.dedent(setup) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def finished(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


@with_limits
def test_where_there_is_no_room_nothing_is_left_and_counts_are_made_in_memory(cache, tmp_path):
    # A limit on the size of files stands for a full disk. It is met by the counts before the cut, by those
    # after it, and by the words, which are made long for that.
    out = finished(
        run(
            """
            import resource
            rows = [(f"{'w' * 100}{i} and again and so on", 1 - 2 * (i % 2)) for i in range(3000)]
            expected = counting.count(rows)
            for limit in [0, 100, 50_000, 119_999, 120_000, 120_127, 120_128, 300_000, 10**6]:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    corpus = counting.cached(SOURCE, lambda: iter(rows))
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                assert (corpus.counts != expected.counts).nnz == 0
                assert corpus.vocabulary == expected.vocabulary
                print(limit, len(list(pathlib.Path(os.environ["TOKENSEL_CACHE"]).iterdir())), *(
                    f"{type(w.message).__name__}: {w.message}" for w in caught))
            """
        )
    )
    *full, last = out.splitlines()
    assert len(full) == 8
    for line in full:
        assert re.match(
            r"\d+ 0 RuntimeWarning: the counts cannot be kept in \S+ \(\[Errno 27\] File too large.*\): "
            r"they are made in memory\. TOKENSEL_CACHE can name another folder$",
            line,
        )
    assert last == "1000000 1"


@with_limits
@pytest.mark.parametrize("readable", [True, False])
def test_a_folder_that_may_not_be_written_is_read_all_the_same(cache, tmp_path, readable):
    if readable:
        kept()
        os.chmod(the_entry(cache), 0o755)
    cache.mkdir(exist_ok=True)
    cache.chmod(0o555)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)  # pytest keeps them from the other user, one more where it has several workers
    # Root may write everywhere, so that the process becomes somebody else.
    out = finished(
        run(
            """
            if os.geteuid() == 0:
                os.setuid(65534)
            def rows():
                print("read")
                return iter(ROWS)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                corpus = counting.cached(SOURCE, rows)
            print(corpus.n_sequences, *(str(w.message) for w in caught))
            """
        )
    )
    cache.chmod(0o755)
    if readable:
        assert out == "5\n"
    else:
        assert re.fullmatch(
            r"read\n5 the counts cannot be kept in \S+ \(\[Errno 13\] Permission denied.*\n", out
        )
        assert list(cache.iterdir()) == []


def test_an_error_of_the_texts_is_theirs(cache):
    def rows():
        yield ROWS[0]
        raise FileNotFoundError("the texts are gone")

    with pytest.raises(FileNotFoundError, match="the texts are gone"):
        counting.cached(SOURCE, rows)
    assert list(cache.iterdir()) == []


def test_an_interrupt_leaves_nothing(cache, ordinary):
    def rows():
        yield ROWS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        counting.cached(SOURCE, rows)
    assert list(cache.iterdir()) == []
    assert_same(kept(), ordinary)


# Processes


def test_processes_that_count_at_the_same_time_agree(cache, tmp_path, ordinary):
    # Each waits in the middle of its texts until all others are there, too.
    code = """
        folder, n = pathlib.Path(sys.argv[1]), int(sys.argv[2])
        def rows():
            yield from ROWS[:2]
            (folder / f"process {os.getpid()}").touch()
            end = time.monotonic() + 100
            while len(list(folder.glob("process *"))) < n:
                assert time.monotonic() < end
                time.sleep(0.01)
            yield from ROWS[2:]
        warnings.simplefilter("error")
        corpus = counting.cached(SOURCE, rows)
        print(corpus.counts.toarray().tolist(), corpus.vocabulary, corpus.labels.tolist())
    """
    processes = [run(code, tmp_path, 3) for _ in range(3)]
    expected = f"{ordinary.counts.toarray().tolist()} {ordinary.vocabulary} {LABELS}\n"
    assert [finished(process) for process in processes] == [expected] * 3
    assert len(list(cache.iterdir())) == 1
    assert_same(counting.cached(SOURCE, not_read), ordinary)


@with_limits
@pytest.mark.parametrize(
    "moment",
    [
        "yield from ROWS[:2]; wait(); yield from ROWS[2:]",
        "yield from ROWS; counting._cut = lambda *a: wait()",
        "yield from ROWS; counting.digest = lambda *a: wait()",
        "yield from ROWS; pathlib.Path.rename = lambda *a: wait()",
    ],
    ids=["reading", "cutting", "before the record", "before the entry has its name"],
)
def test_a_process_killed_half_way_leaves_no_half_entry(cache, monkeypatch, ordinary, moment):
    process = run(
        f"""
        def wait():
            print("now", flush=True)
            time.sleep(60)
        def rows():
            {moment}
        counting._CHUNK = 2
        counting.cached(SOURCE, rows)
        """
    )
    assert process.stdout.readline() == "now\n"
    process.kill()
    process.communicate()
    left = set(cache.iterdir())
    assert len(left) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(kept(), ordinary)
        assert_same(counting.cached(SOURCE, not_read), ordinary)
    # What it left is another's for a day, then nobody's.
    assert left < set(cache.iterdir())
    old = time.time() - 25 * 3600
    os.utime(*left, (old, old))
    kept(min_document_frequency=1, empty="leave out")
    assert not left & set(cache.iterdir())
    assert len(list(cache.iterdir())) == 2


def test_an_entry_removed_by_another_process_is_counted_in_memory(cache, monkeypatch, ordinary):
    # Another process found what this one has written damaged, and took it away before this one could read it.
    record = counting._record

    def taken(folder, recipe):
        found = record(folder, recipe)
        if folder == the_entry(cache) and not folder.name.startswith("."):
            shutil.rmtree(folder)
        return found

    monkeypatch.setattr(counting, "_record", taken)
    with pytest.warns(RuntimeWarning, match="they are made in memory"):
        assert_same(kept(), ordinary)


def test_digest_is_sha256(tmp_path):
    (tmp_path / "file").write_bytes(b"text" * 100_000)
    assert counting.digest(tmp_path / "file") == hashlib.sha256(b"text" * 100_000).hexdigest()
