"""A fitted estimator as one safetensors file: arrays, and JSON that describes them. Nothing is pickled."""

import hashlib
import json
import os
import secrets
from pathlib import Path

import numpy as np

from tokensel.arguments import file_path
from tokensel.corpus import _words, tokenise
from tokensel.model import AttentionClassifier
from tokensel.training import History

FORMAT = 1

_PARTS = ("embeddings", "cls", "output")
_HISTORY = ("loss", "accuracy", "validation_accuracy", "cls_norm")
# Kinds of arrays that are written, by the names that safetensors has for them.
_KINDS = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I64": np.dtype("<i8")}
# Kinds of labels that are written, and what their values are in JSON.
_LABELS = {"bool": bool, "str": str, "object": str}
_LABELS |= {f"{sign}int{bits}": int for sign in ("", "u") for bits in (8, 16, 32, 64)}
_LABELS |= {f"float{bits}": float for bits in (16, 32, 64)}


def save(estimator, path):
    """Write a fitted `TokenSelector`; its method ``save`` says what is raised when."""
    from tokensel import __version__

    path = Path(os.path.realpath(file_path("path", path)))  # a link keeps pointing at what it names
    _require_plain(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: make the folder {path.parent} first")
    parameters = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in estimator.get_params(deep=False).items()
    }
    parameters["device"] = str(estimator.device)
    if isinstance(estimator.random_state, np.random.RandomState):
        raise ValueError("random_state is a RandomState, which cannot be saved: set it to an int or None")
    classes, vocabulary = estimator.classes_, estimator.vocabulary_
    names = getattr(estimator, "feature_names_in_", None)
    description = {
        "format": FORMAT,
        "package": __version__,
        "parameters": parameters,
        "classes": {
            "type": "str" if classes.dtype.kind == "U" else classes.dtype.name,
            "values": classes.tolist(),
        },
        "vocabulary": list(vocabulary) if isinstance(vocabulary, tuple) else None,
        "n_features": getattr(estimator, "n_features_in_", None),
        "feature_names": None if names is None else names.tolist(),
    }
    arrays = {part: getattr(estimator.model_, part).detach().cpu().numpy() for part in _PARTS}
    arrays |= {f"history.{name}": getattr(estimator.history_, name) for name in _HISTORY}
    if isinstance(vocabulary, np.ndarray):
        arrays["columns"] = vocabulary
    try:
        data = _pack(arrays, description)
        _restored(type(estimator), *_unpack(data))
    except (TypeError, ValueError) as error:
        raise ValueError(f"this {type(estimator).__name__} cannot be saved: {error}") from error
    _write(path, data)


def load(cls, path, device):
    """Read what `save` has written as an estimator of class ``cls`` on a device."""
    path = file_path("path", path)
    _require_plain(path)
    return _loaded(cls, path, path.read_bytes(), device)


def _require_plain(path):
    """Refuse what is there but no file: a device would be replaced by a file, a pipe waited for."""
    if os.path.lexists(path) and not (path.is_file() or path.is_dir()):  # opening a folder says what it is
        raise ValueError(f"path must name a file, but {path} is a device, a pipe or a link to itself")


def _loaded(cls, path, data, device):
    try:
        estimator = _restored(cls, *_unpack(data))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} cannot be loaded as a {cls.__name__}: {error}") from error
    estimator.model_.to(device)
    return estimator.set_params(device=device)


def _pack(arrays, description):
    """The bytes of a file."""
    from safetensors.numpy import save

    text = json.dumps(description, allow_nan=False)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(arrays, metadata={"tokensel": text, "sha256": _digest(arrays, text)})


def _unpack(data):
    """Arrays and description of a file that is whole."""
    from safetensors import SafetensorError, deserialize

    try:
        parts = deserialize(data)
    except SafetensorError as error:
        raise ValueError(f"it is damaged, or no safetensors file ({error})") from error
    end = 8 + int.from_bytes(data[:8], "little")  # the length and the JSON have just been checked
    metadata = json.loads(data[8:end]).get("__metadata__") or {}
    if not {"tokensel", "sha256"} <= set(metadata):
        raise ValueError("it was not written by tokensel")
    arrays = {}
    for name, part in parts:
        _need(part["dtype"] in _KINDS, f"it holds {name!r} as {part['dtype']}, which is never written")
        arrays[name] = np.frombuffer(part["data"], _KINDS[part["dtype"]]).reshape(part["shape"])
    if metadata["sha256"] != _digest(arrays, metadata["tokensel"]):
        raise ValueError("it is damaged: its contents are not those that were written")
    try:
        return arrays, json.loads(metadata["tokensel"])
    except RecursionError:
        raise ValueError("its description is nested too deeply") from None


def _digest(arrays, text):
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _write(path, data):
    """Write beside what stands there, and take its place at the end."""
    neighbour = path.with_name(f".{secrets.token_hex(8)}.safetensors")
    try:
        with neighbour.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        neighbour.replace(path)
    finally:
        neighbour.unlink(missing_ok=True)


def _restored(cls, arrays, description):
    """The estimator that arrays and description make, if all of it fits together."""
    _need(isinstance(description, dict) and "format" in description, "its description has no format version")
    version = description["format"]
    _need(type(version) is int, f"its format version is {version!r:.40}")
    _need(version == FORMAT, f"it is of format {version!r:.40}, but this tokensel reads format {FORMAT} only")
    keys = {"format", "package", "parameters", "classes", "vocabulary", "n_features", "feature_names"}
    _need(set(description) == keys, f"its description must hold {sorted(keys)}, not {sorted(description)}")
    _need(isinstance(description["package"], str), "its package version is no str")

    estimator = _with_parameters(cls, description["parameters"])
    counts = estimator.input == "counts"
    names = {*_PARTS, *(f"history.{name}" for name in _HISTORY)} | ({"columns"} if counts else set())
    _need(set(arrays) == names, f"it must hold the arrays {sorted(names)}, but holds {sorted(arrays)}")
    model = AttentionClassifier(*(arrays[part] for part in _PARTS))
    estimator.history_ = _history(arrays)
    estimator.classes_ = _classes(description["classes"])
    n_tokens = len(model.embeddings)
    if counts:
        _need(description["vocabulary"] is None, "it has a vocabulary beside its columns")
        n_features, feature_names = description["n_features"], description["feature_names"]
        _need(type(n_features) is int and n_features >= 1, f"its number of columns is {n_features!r:.40}")
        estimator.vocabulary_ = _columns(arrays["columns"], n_features, n_tokens)
        estimator.n_features_in_ = n_features
        if feature_names is not None:
            _need(_strings(feature_names, n_features), f"its feature names are not {n_features} str")
            estimator.feature_names_in_ = np.array(feature_names, dtype=object)
    else:
        _need(description["n_features"] is None, "it has a number of columns beside its words")
        _need(description["feature_names"] is None, "it has feature names beside its words")
        words = description["vocabulary"]
        _need(
            _strings(words, n_tokens), f"its vocabulary is not {n_tokens} words, one a row of the embeddings"
        )
        estimator.vocabulary_ = _words(words)
        odd = next((word for word in words if tokenise(word) != [word]), None)
        _need(odd is None, f"its vocabulary holds {odd!r:.40}, which is no token of any text")
    estimator.model_ = model
    return estimator


def _with_parameters(cls, parameters):
    known = set(cls._get_param_names())
    _need(
        isinstance(parameters, dict) and set(parameters) == known, f"its parameters are not {sorted(known)}"
    )
    estimator = cls(**parameters)
    estimator._check_parameters()
    return estimator


def _history(arrays):
    measured = [arrays[f"history.{name}"] for name in _HISTORY]
    alike = all(m.shape == (len(measured[0]),) and m.dtype == np.float64 for m in measured if m.ndim == 1)
    _need(alike and all(m.ndim == 1 for m in measured), "its history is not four arrays of the same length")
    return History(*(m.copy() for m in measured))


def _classes(classes):
    _need(isinstance(classes, dict) and set(classes) == {"type", "values"}, "its classes are not told")
    kind, values = classes["type"], classes["values"]
    _need(isinstance(kind, str) and kind in _LABELS, f"its labels are of type {kind!r:.40}")
    of_kind = isinstance(values, list) and len(values) == 2 and all(type(v) is _LABELS[kind] for v in values)
    _need(of_kind, f"its labels are not two of type {kind}, but {values!r:.80}")
    labels = np.array(values, dtype=kind)
    _need(
        labels.tolist() == values and values[0] < values[1], f"its labels are not two, sorted: {values!r:.80}"
    )
    return labels


def _columns(columns, n_features, n_tokens):
    _need(
        columns.shape == (n_tokens,) and columns.dtype == np.int64, f"its columns are not {n_tokens} numbers"
    )
    rising = (np.diff(columns) > 0).all() and columns[0] >= 0 and columns[-1] < n_features
    _need(rising, f"its columns are not numbers from 0 to {n_features - 1}, each once and sorted")
    return columns.copy()


def _strings(strings, size):
    return isinstance(strings, list) and len(strings) == size and all(isinstance(s, str) for s in strings)


def _need(condition, fault):
    if not condition:
        raise ValueError(fault)
