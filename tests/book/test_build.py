"""The build, on a book of two small chapters: what runs again, what does not, how a failure is told."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from browsing import ROOT


def notebook(*cells):
    return json.dumps(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
            "cells": [
                {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# A chapter"},
                *(
                    {"cell_type": "code", "id": f"cell-{k}", "metadata": {}, "source": source}
                    | {"execution_count": None, "outputs": []}
                    for k, source in enumerate(cells)
                ),
            ],
        }
    )


# Each run of a chapter leaves a line, so that the test can count runs without asking the build.
TRACE = "from pathlib import Path\nwith Path('runs.txt').open('a') as runs:\n    runs.write('{}\\n')"


class Book:
    """A copy of the book's configuration and extensions around two chapters of its own."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(ROOT / "book" / "_ext", folder / "book" / "_ext")
        shutil.copytree(ROOT / "book" / "_static", folder / "book" / "_static")
        for name in ("_config.yml", "requirements.lock", "book/references.bib", "book/notation.yml"):
            shutil.copy(ROOT / name, folder / name)
        (folder / "tokensel").mkdir()
        (folder / "tokensel" / "__init__.py").write_text("")
        pages = "# A book\n\n```{notation-table}\n```\n\n```{glossary-of-terms}\n```\n"
        (folder / "book" / "index.md").write_text(pages)
        toc = {
            "format": "jb-book",
            "root": "book/index",
            "chapters": [{"file": "book/one"}, {"file": "book/two"}],
        }
        (folder / "_toc.yml").write_text(yaml.safe_dump(toc))
        self.write("one", TRACE.format("one"), "import os\nassert os.environ['TOKENSEL_STATIC'] == '1'")
        self.write("two", TRACE.format("two"))

    def write(self, name, *cells):
        (self.folder / "book" / f"{name}.ipynb").write_text(notebook(*cells))

    def build(self):
        jupyter_book = Path(sys.executable).with_name("jupyter-book")
        command = [jupyter_book, "build", ".", "-W", "-n", "--keep-going"]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def runs(self):
        """Which chapters ran since the last time this was asked."""
        path = self.folder / "book" / "runs.txt"
        names = sorted(path.read_text().split()) if path.exists() else []
        path.unlink(missing_ok=True)
        return names


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    built = Book(tmp_path_factory.mktemp("book"))
    first = built.build()
    assert first.returncode == 0, first.stdout + first.stderr
    assert built.runs() == ["one", "two"]
    return built


def test_nothing_changed_runs_nothing(book):
    again = book.build()
    assert again.returncode == 0
    assert book.runs() == []


def test_changed_chapter_runs_alone(book):
    book.write("two", TRACE.format("two"), "print('changed')")
    assert book.build().returncode == 0
    assert book.runs() == ["two"]
    assert "changed" in (book.folder / "_build" / "html" / "book" / "two.html").read_text()


def test_changed_style_is_copied_though_no_page_changed(book):
    style = book.folder / "book" / "_static" / "book.css"
    style.write_text(style.read_text() + "/* a new colour */\n")
    assert book.build().returncode == 0
    assert book.runs() == []
    copied = (book.folder / "_build" / "html" / "_static" / "book.css").read_text()
    assert copied.endswith("/* a new colour */\n")


def test_changed_package_runs_every_chapter(book):
    (book.folder / "tokensel" / "__init__.py").write_text("changed = True\n")
    assert book.build().returncode == 0
    assert book.runs() == ["one", "two"]


def test_failing_cell_fails_the_build_and_is_named(book):
    book.write("two", "fine = 1", "raise ValueError('the step is too long')")
    failed = book.build()
    assert failed.returncode != 0
    told = failed.stdout + failed.stderr
    assert "two.ipynb: cell 'cell-1' failed" in told
    assert "the step is too long" in told
    book.write("two", TRACE.format("two"))


def test_a_first_build_that_failed_does_not_spoil_the_next(tmp_path):
    book = Book(tmp_path)
    book.write("two", "raise ValueError('once')")
    assert book.build().returncode != 0
    book.write("two", "fine = 1")
    again = book.build()
    assert again.returncode == 0, again.stdout + again.stderr


def test_dead_kernel_fails_the_build_and_is_named(book):
    book.write("two", "import os\nos._exit(1)")
    failed = book.build()
    assert failed.returncode != 0
    assert "two.ipynb: the kernel died" in failed.stdout + failed.stderr
    book.write("two", TRACE.format("two"))


def test_warning_of_a_cell_fails_the_build(book):
    """What a cell writes to stderr would stand in the page; a reader should not meet it there."""
    book.write("two", "import warnings\nwarnings.warn('deprecated')")
    failed = book.build()
    assert failed.returncode != 0
    assert "stderr" in failed.stdout + failed.stderr
    book.write("two", TRACE.format("two"))


def test_broken_reference_fails_the_build(book):
    (book.folder / "book" / "index.md").write_text("# A book\n\nSee {prf:ref}`thm-nowhere`.\n")
    failed = book.build()
    assert failed.returncode != 0
    assert "thm-nowhere" in failed.stdout + failed.stderr
