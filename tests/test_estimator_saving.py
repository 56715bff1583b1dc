"""Saved estimators: the same after loading, refused when anything is wrong, never half-written."""

import copy
import errno
import json
import os
import pickle
import re
import struct
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.numpy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import tokensel as ts
from tokensel import saving

TEXTS = ["a great film", "great fun", "a boring film", "boring and slow", "größer als das Leben", "don't"] * 2
LIKED = np.array([1, 1, 0, 0, 1, 0] * 2)
X = np.random.default_rng(0).random((12, 5)) * [1, 1, 0, 1, 1]


def fitted(input="texts", y=LIKED, data=None, **options):
    selector = ts.TokenSelector(**{"input": input, "dim": 3, "steps": 4, "learning_rate": 0.1} | options)
    return selector.fit((TEXTS if input == "texts" else X) if data is None else data, y)


def saved(selector, folder):
    selector.save(folder / "selector.safetensors")
    return folder / "selector.safetensors"


def packed(selector):
    """Arrays and description, to be tampered with."""
    arrays, description = saving._unpack(saving._pack(*_parts(selector)))
    return {name: array.copy() for name, array in arrays.items()}, description


def _parts(selector):
    written = {}
    original = saving._pack

    def pack(arrays, description):
        written["parts"] = arrays, description
        return original(arrays, description)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saving, "_pack", pack)
        patch.setattr(saving, "_write", lambda path, data: None)
        selector.save("nowhere")
    return written["parts"]


# --- the same after loading ---

SELECTORS = {
    "texts": lambda: fitted(),
    "float64": lambda: fitted(dtype="float64", early_stopping=True, validation_fraction=0.3),
    "counts": lambda: fitted("counts"),
    "names": lambda: fitted("counts", data=pd.DataFrame(X, columns=list("uvwxy"))),
    "NumPy parameters": lambda: fitted(
        dim=np.int64(3), cls_penalty=np.float32(0.1), early_stopping=np.False_, random_state=np.int32(3)
    ),
    "no random state": lambda: fitted(random_state=None, batch_size=4, device=torch.device("cpu")),
    "nothing trained": lambda: fitted(steps=0),
}


@pytest.mark.parametrize("make", SELECTORS.values(), ids=SELECTORS)
def test_a_loaded_estimator_is_the_saved_one(make, tmp_path):
    selector = make()
    loaded = ts.TokenSelector.load(saved(selector, tmp_path))
    assert type(loaded) is ts.TokenSelector
    expected = selector.get_params() | {"device": str(selector.device)}
    assert loaded.get_params() == expected
    assert all(type(value) in (str, int, float, bool, type(None)) for value in loaded.get_params().values())
    assert set(vars(loaded)) == set(vars(selector))
    for name in ("embeddings", "cls", "output"):
        one, other = getattr(selector.model_, name), getattr(loaded.model_, name)
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
        assert other.requires_grad
    for name in ("loss", "accuracy", "validation_accuracy", "cls_norm"):
        np.testing.assert_array_equal(getattr(loaded.history_, name), getattr(selector.history_, name))
    data = [*TEXTS, "new and great", ""] if selector.input == "texts" else X
    if hasattr(selector, "feature_names_in_"):
        assert loaded.feature_names_in_.tolist() == list("uvwxy")
        data = pd.DataFrame(X, columns=list("uvwxy"))
    assert loaded.decision_function(data).tobytes() == selector.decision_function(data).tobytes()
    assert loaded.predict_proba(data).tobytes() == selector.predict_proba(data).tobytes()
    assert loaded.top_tokens(20) == selector.top_tokens(20)
    assert loaded.score(data[:12], LIKED) == selector.score(data[:12], LIKED)
    one = data.iloc[0] if isinstance(data, pd.DataFrame) else data[0]
    assert loaded.explain(one) == selector.explain(one)


LABELS = {
    "bool": [False, True],
    "int": [-3, 7],
    "str": ["neg", "pos"],
    "unicode": ["schön", 'öde \ud800 \U0001f600 " \\ \n'],
    "float": [0.0, 1.0],
    "int8": [np.int8(-2), np.int8(5)],
    "uint64": [np.uint64(1), np.uint64(2**63)],
    "float32": [np.float32(-2), np.float32(3)],
    "NumPy str": [np.str_("a"), np.str_("b")],
}


@pytest.mark.parametrize("pair", LABELS.values(), ids=LABELS)
def test_labels_keep_their_type(pair, tmp_path):
    selector = fitted(y=[pair[i] for i in LIKED])
    loaded = ts.TokenSelector.load(saved(selector, tmp_path))
    assert loaded.classes_.tolist() == pair
    assert loaded.classes_.dtype == selector.classes_.dtype
    assert loaded.predict(TEXTS).tolist() == selector.predict(TEXTS).tolist()


def test_labels_of_a_series_keep_their_type(tmp_path):
    selector = fitted(y=pd.Series(["dull", "great"], dtype=object)[LIKED])
    assert selector.classes_.dtype == object
    assert ts.TokenSelector.load(saved(selector, tmp_path)).classes_.dtype == object


def test_a_loaded_estimator_can_be_fitted_anew(tmp_path):
    selector = fitted()
    loaded = ts.TokenSelector.load(saved(selector, tmp_path)).fit(TEXTS, LIKED)
    assert loaded.decision_function(TEXTS).tobytes() == selector.decision_function(TEXTS).tobytes()


def test_others_can_read_the_file(tmp_path):
    """It is a plain safetensors file with plain JSON."""
    selector = fitted()
    with safetensors.safe_open(saved(selector, tmp_path), framework="pt") as file:
        assert torch.equal(file.get_tensor("embeddings"), selector.model_.embeddings)
        description = json.loads(file.metadata()["tokensel"])
    assert description["format"] == 1
    assert description["package"] == ts.__version__
    assert description["vocabulary"] == list(selector.vocabulary_)
    assert description["parameters"] == selector.get_params()
    assert description["classes"] == {"type": "int64", "values": [0, 1]}


def test_a_subclass_loads_as_itself(tmp_path):
    class Mine(ts.TokenSelector):
        pass

    path = saved(fitted(), tmp_path)
    assert type(Mine.load(path)) is Mine


# --- what cannot be saved or read ---


def test_only_a_fitted_estimator_is_saved(tmp_path):
    with pytest.raises(NotFittedError):
        ts.TokenSelector().save(tmp_path / "never")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"random_state": np.random.RandomState(0)},
            "random_state is a RandomState.*set it to an int or None",
        ),
        ({"dim": -3}, "cannot be saved: dim must be at least 1"),
        ({"learning_rate": "fast"}, "cannot be saved: learning_rate must be a number"),
        ({"input": "counts"}, "cannot be saved"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(change, words, tmp_path):
    selector = fitted()
    path = saved(selector, tmp_path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=words):
        selector.set_params(**change).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_that_is_no_longer_finite_is_not_saved(tmp_path):
    selector = fitted()
    with torch.no_grad():
        selector.model_.cls[0] = torch.nan
    with pytest.raises(ValueError, match="cannot be saved: cls must be finite"):
        selector.save(tmp_path / "never")


def test_a_file_that_is_not_there_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        ts.TokenSelector.load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        ts.TokenSelector.load(tmp_path)


def test_a_folder_that_is_not_there_is_named_and_not_made(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot be written: make the folder .*runs first"):
        fitted().save(tmp_path / "runs" / "selector.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_not_there(tmp_path):
    path = saved(fitted(), tmp_path)
    with pytest.raises(ValueError, match="device 'abacus' cannot be used here"):
        ts.TokenSelector.load(path, device="abacus")
    assert ts.TokenSelector.load(path, device=torch.device("cpu")).device == "cpu"


# --- damage ---


def refused(path, data, *words):
    path.write_bytes(data)
    with pytest.raises(ValueError, match="cannot be loaded as a TokenSelector") as caught:
        ts.TokenSelector.load(path)
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_every_flipped_bit_is_noticed():
    """All of them, in the file's bytes as they are parsed (files of a few KB hold every kind of part)."""
    data = saving._pack(*_parts(fitted("counts", dim=1, steps=1)))
    whole = bytearray(data)
    saving._restored(ts.TokenSelector, *saving._unpack(bytes(whole)))
    survivors = []
    for position in range(len(whole)):
        for bit in range(8):
            whole[position] ^= 1 << bit
            try:
                saving._restored(ts.TokenSelector, *saving._unpack(bytes(whole)))
            except ValueError:
                pass
            else:
                survivors.append((position, bit))
            whole[position] ^= 1 << bit
    assert survivors == []


def test_a_truncated_or_lengthened_file_is_refused(tmp_path):
    data = saved(fitted(), tmp_path).read_bytes()
    path = tmp_path / "damaged"
    for size in [*range(0, len(data), 37), 7, 8, 9, len(data) - 1]:
        refused(path, data[:size], "damaged")
    refused(path, data + b"\0", "damaged")
    refused(path, data + data, "damaged")


WHOLE = saving._pack(*_parts(fitted()))


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_random_damage_is_refused(data):
    start = data.draw(st.integers(0, len(WHOLE) - 1))
    end = data.draw(st.integers(start, min(start + 64, len(WHOLE))))
    damaged = WHOLE[:start] + data.draw(st.binary(max_size=64)) + WHOLE[end:]
    if damaged != WHOLE:
        with pytest.raises(ValueError, match="name cannot be loaded as a TokenSelector"):
            saving._loaded(ts.TokenSelector, "name", damaged, "cpu")


def header(text, rest=b"", length=None):
    text = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(text) if length is None else length) + text + rest


class Trap:
    """Unpickled, it would run."""

    def __reduce__(self):
        return os.abort, ()


OTHERS = {
    "empty": b"",
    "text": b"a great film",
    "pickle": pickle.dumps(Trap()),
    "huge header": header("{}", length=2**63),
    "huge header, all ones": b"\xff" * 64,
    "long header": header("{}", length=100_000_001),
    "deep header": header("[" * 100_000),
    "deep metadata": header('{"__metadata__":' + '{"a":' * 50_000 + "1" + "}" * 50_001),
    "no arrays": header("{}"),
    "no UTF-8": header(b'{"\xff":1}'),
    "huge array": header(
        '{"a":{"dtype":"F64","shape":[4611686018427387904,8],"data_offsets":[0,8]}}', b"\0" * 8
    ),
    "negative shape": header('{"a":{"dtype":"F64","shape":[-1],"data_offsets":[0,8]}}', b"\0" * 8),
    "no metadata": safetensors.numpy.save({"embeddings": np.zeros((2, 2))}),
    "other metadata": safetensors.numpy.save({"a": np.zeros(2)}, metadata={"format": "pt"}),
    "no digest": safetensors.numpy.save({"a": np.zeros(2)}, metadata={"tokensel": "{}"}),
    "wrong digest": safetensors.numpy.save(
        {"a": np.zeros(2)}, metadata={"tokensel": "{}", "sha256": "0" * 64}
    ),
    "other numbers": safetensors.numpy.save(
        {"a": np.zeros(2, dtype=np.uint8)}, metadata={"tokensel": "{}", "sha256": "0" * 64}
    ),
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
def test_files_of_other_kinds_are_refused(data, tmp_path):
    refused(tmp_path / "other", data)


# --- files with the right digest and the wrong contents ---


def digested(text, arrays=None):
    """A file whose description is this text, and whose digest is right."""
    arrays = arrays or {}
    return safetensors.numpy.save(arrays, metadata={"tokensel": text, "sha256": saving._digest(arrays, text)})


DESCRIPTIONS = {
    "deep": ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    "long number": ("9" * 100_000, "digits"),
    "no JSON": ("{'format': 1}", "Expecting"),
    "list": ("[]", "no format version"),
    "null": ("null", "no format version"),
    "later": ('{"format": 2}', "is of format 2, but this tokensel reads format 1"),
    "true": ('{"format": true}', "its format version is True"),
    "alone": ('{"format": 1}', "its description must hold"),
    "infinite": ('{"format": 1e999}', "its format version is inf"),
}


@pytest.mark.parametrize(("text", "words"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_descriptions_that_are_none(text, words, tmp_path):
    refused(tmp_path / "other", digested(text), words)


# What to set in the description (a path of keys), and what is said.
TAMPERED = {
    "package": (["package"], 1, "package version"),
    "parameters": (["parameters"], [], "its parameters are not"),
    "unknown parameter": (["parameters", "colour"], "red", "its parameters are not"),
    "dim": (["parameters", "dim"], "3", "dim must be a whole number"),
    "huge rate": (["parameters", "learning_rate"], 10**400, "too large"),
    "seed": (["parameters", "random_state"], -1, "Seed must be"),
    "seed of another kind": (["parameters", "random_state"], [1], "cannot be used to seed"),
    "device": (["parameters", "device"], 3, "device must be"),
    "input": (["parameters", "input"], "pictures", "input must be"),
    "kind of input": (["parameters", "input"], ["texts"], "input must be"),
    "optimizer": (["parameters", "optimizer"], {}, "optimizer must be"),
    "classes": (["classes"], [0, 1], "its classes are not told"),
    "label type": (["classes", "type"], "complex128", "its labels are of type"),
    "label types": (["classes", "type"], ["int64"], "its labels are of type"),
    "bool for int": (["classes", "values"], [False, True], "its labels are not two of type int64"),
    "mixed": (["classes", "values"], [0, "1"], "its labels are not two"),
    "three": (["classes", "values"], [0, 1, 2], "its labels are not two"),
    "unsorted": (["classes", "values"], [1, 0], "sorted"),
    "equal": (["classes", "values"], [1, 1], "sorted"),
    "too large": (["classes", "values"], [0, 2**70], ""),
    "no words": (["vocabulary"], None, "its vocabulary is not"),
    "a str": (["vocabulary"], "abc", "its vocabulary is not"),
    "one word more": (["vocabulary"], [*"abcdefghijklm"], "its vocabulary is not"),
    "number among words": (["vocabulary", 0], 3, "its vocabulary is not"),
    "word twice": (["vocabulary", 0], "film", "'film' is repeated"),
    "word of no text": (["vocabulary", 0], "Great", "holds 'Great', which is no token of any text"),
    "columns": (["n_features"], 4, "number of columns beside its words"),
    "names": (["feature_names"], ["a"], "feature names beside its words"),
}


@pytest.mark.parametrize(("keys", "value", "words"), TAMPERED.values(), ids=TAMPERED)
def test_descriptions_that_do_not_fit(keys, value, words, tmp_path):
    arrays, description = packed(fitted())
    place(description, keys, value)
    refused(tmp_path / "tampered", saving._pack(arrays, description), words)


def place(description, keys, value):
    for key in keys[:-1]:
        description = description[key]
    description[keys[-1]] = value


COUNT_DESCRIPTIONS = {
    "vocabulary": ("vocabulary", ["a"], "vocabulary beside its columns"),
    "fewer features": ("n_features", 4, "its columns are not numbers from 0 to 3"),
    "no features": ("n_features", None, "its number of columns is None"),
    "true features": ("n_features", True, "its number of columns is True"),
    "too few names": ("feature_names", ["a"], "its feature names are not 5 str"),
    "other names": ("feature_names", [1, 2, 3, 4, 5], "its feature names are not 5 str"),
}


@pytest.mark.parametrize(("key", "value", "words"), COUNT_DESCRIPTIONS.values(), ids=COUNT_DESCRIPTIONS)
def test_descriptions_of_counts_that_do_not_fit(key, value, words, tmp_path):
    arrays, description = packed(fitted("counts"))
    refused(tmp_path / "tampered", saving._pack(arrays, description | {key: value}), words)


ARRAYS = {
    "not finite": ("embeddings", lambda a: np.full_like(a, np.inf), "embeddings must be finite"),
    "NaN": ("cls", lambda a: np.full_like(a, np.nan), "cls must be finite"),
    "flat": ("embeddings", np.ravel, "embeddings must have shape"),
    "one row less": ("embeddings", lambda a: a[:-1], "its columns are not 3 numbers"),
    "other width": ("cls", lambda a: a[:-1], "cls must have shape (3,)"),
    "another dtype": ("output", lambda a: a.astype(np.float64), "output must have the dtype"),
    "integers": ("embeddings", lambda a: a.astype(np.int64), "dtype"),
    "gone": ("output", None, "it must hold the arrays"),
    "columns twice": ("columns", lambda a: np.zeros_like(a), "each once and sorted"),
    "negative columns": ("columns", lambda a: a - 1, "numbers from 0 to 4"),
    "high columns": ("columns", lambda a: a + 1, "numbers from 0 to 4"),
    "float columns": ("columns", lambda a: a.astype(float), "its columns are not 4 numbers"),
    "short history": ("history.loss", lambda a: a[:-1], "its history is not four arrays"),
    "square history": ("history.accuracy", lambda a: a[:, None], "its history is not four arrays"),
    "no history": ("history.cls_norm", None, "it must hold the arrays"),
    "empty": ("embeddings", lambda a: a[:0], "embeddings must have shape"),
}


@pytest.mark.parametrize(("name", "change", "words"), ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_do_not_fit(name, change, words, tmp_path):
    arrays, description = packed(fitted("counts"))
    if change is None:
        del arrays[name]
    else:
        arrays[name] = change(arrays[name])
    refused(tmp_path / "tampered", saving._pack(arrays, description), words)


def test_an_array_more_is_refused(tmp_path):
    arrays, description = packed(fitted())
    arrays["secret"] = np.zeros(3)
    refused(tmp_path / "tampered", saving._pack(arrays, description), "secret")


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
BASES = {kind: packed(fitted(kind)) for kind in ("texts", "counts")}


def _places(description, start=()):
    """Every path of keys into a description."""
    entries = description.items() if isinstance(description, dict) else enumerate(description)
    for key, value in entries:
        yield (*start, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*start, key))


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_any_description_is_refused_or_gives_an_estimator_that_predicts(data):
    """Whatever stands anywhere in it: a ValueError, or an estimator that works; never anything else."""
    arrays, description = BASES[data.draw(st.sampled_from(["texts", "counts"]))]
    description = copy.deepcopy(description)
    place(description, data.draw(st.sampled_from(list(_places(description)))), data.draw(ANY_JSON))
    file = saving._pack(arrays, description)
    try:
        selector = saving._loaded(ts.TokenSelector, "name", file, "cpu")
    except ValueError:
        return
    probabilities = selector.predict_proba(TEXTS if selector.input == "texts" else X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)  # each rounded once or twice
    assert len(selector.top_tokens(3)) == min(3, len(selector.vocabulary_))


# --- writing ---


def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = saved(fitted(), tmp_path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        fitted(random_state=1).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_no_room_to_write_leaves_the_old_file(tmp_path):
    path = saved(fitted(), tmp_path)
    before = path.read_bytes()
    code = (
        "import resource, sys, tokensel as ts\n"
        f"selector = ts.TokenSelector.load({str(path)!r})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"try: selector.save({str(path)!r})\n"
        "except OSError as error: print(error.strerror)\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "File too large"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_takes_the_place_of_the_old_one(tmp_path):
    path = saved(fitted(), tmp_path)
    other = fitted(random_state=1)
    other.save(str(path))
    assert ts.TokenSelector.load(path).random_state == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    fitted().save(link)
    assert link.is_symlink()
    assert ts.TokenSelector.load(target).dim == 3


def test_no_folder_to_write_to(tmp_path):
    with pytest.raises(FileNotFoundError):
        fitted().save(tmp_path / "no" / "folder")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_neither_replaced_nor_waited_for(tmp_path):
    """So it is with devices: a user who may would otherwise turn /dev/null into a file."""
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    for path in (pipe, loop):
        with pytest.raises(
            ValueError, match=f"path must name a file, but {re.escape(str(path))} is a device"
        ):
            fitted().save(path)
        with pytest.raises(
            ValueError, match=f"path must name a file, but {re.escape(str(path))} is a device"
        ):
            ts.TokenSelector.load(path)
    assert pipe.is_fifo()
    assert loop.is_symlink()
    assert set(tmp_path.iterdir()) == {pipe, loop}


@pytest.mark.parametrize("path", [None, 1, b"x", "a\0b", "~nobody-of-this-name/x"])
def test_a_path_that_cannot_be_is_named(path):
    for call in (fitted().save, ts.TokenSelector.load):
        with pytest.raises((TypeError, ValueError), match="path must"):
            call(path)
