"""The package as a whole: its public names, what importing it costs, and that its version is one."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import tokensel as ts

ROOT = Path(__file__).resolve().parents[1]
LATE = {
    "scipy",
    "sklearn",
    "matplotlib",
    "cvxpy",
    "clarabel",
    "networkx",
    "ipywidgets",
    "IPython",
    "tqdm",
    "pooch",
}


def python(code):
    """What a fresh interpreter prints."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    return run.stdout.split()


def test_public_names_resolve_and_are_listed():
    for name in ts.__all__:
        assert getattr(ts, name) is not None
    assert set(ts.__all__) <= set(dir(ts))
    assert len(set(ts.__all__)) == len(ts.__all__)


def test_modules_and_functions_do_not_share_names():
    """Else `tokensel.explore` would be the module or the function, depending on what was imported first."""
    modules = {path.stem for path in (ROOT / "tokensel").glob("*.py")}
    public_modules = {name for name in ts.__all__ if type(getattr(ts, name)).__name__ == "module"}
    assert modules & set(ts.__all__) == public_modules


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="max_magrin"):
        ts.max_magrin  # noqa: B018


def test_star_import_gives_the_public_names():
    names = python("from tokensel import *; print(*dir())")
    assert set(ts.__all__) <= set(names)


def test_importing_loads_torch_and_numpy_only():
    """Also listing the names and starting to use corpora must not bring in the plotting libraries."""
    code = "import torch, sys; before = set(sys.modules); import tokensel; dir(tokensel); "
    loaded = set(python(code + "print(*{m.split('.')[0] for m in set(sys.modules) - before})"))
    assert loaded & LATE == set()


def test_import_is_quick():
    """At most 0.3 s of CPU after torch, so that no chapter waits; the best of three, since others run."""
    code = "import torch, time; t = time.process_time(); import tokensel; print(time.process_time() - t)"
    assert min(float(python(code)[0]) for _ in range(3)) <= 0.3


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert ts.__version__ == project["version"] == citation["version"] == newest
