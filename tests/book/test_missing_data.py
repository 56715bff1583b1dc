"""A chapter whose reviews are not at hand: shown without results, and built anew when they come or go."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import missing_data
import pytest
import stand_in
import yaml
from browsing import ROOT
from bs4 import BeautifulSoup
from docutils import nodes
from test_build import TRACE, Book, notebook

from tokensel.datasets import DatasetNotFound

RESULT = "from IPython.display import Markdown\nMarkdown(f'{1 + 1} computed reviews')"


class BookOfReviews(Book):
    """The small book of the build's tests, one chapter of which stands where the Yelp chapter does."""

    def __init__(self, folder):
        super().__init__(folder)
        self.data = folder / "data"
        toc = {
            "format": "jb-book",
            "root": "book/index",
            "chapters": [{"file": "book/one"}, {"file": "book/text/yelp"}],
        }
        (folder / "_toc.yml").write_text(yaml.safe_dump(toc))
        (folder / "book" / "two.ipynb").unlink()
        (folder / "book" / "text").mkdir()
        cells = json.loads(notebook(TRACE.format("yelp").replace("runs.txt", "../runs.txt"), RESULT))
        cells["cells"][0]["source"] = "# A chapter\n\nIts text.\n\nMore of it."
        cells["cells"][2]["metadata"] = {"tags": ["remove-input"]}
        (folder / "book" / "text" / "yelp.ipynb").write_text(json.dumps(cells))

    def build(self):
        command = [Path(sys.executable).with_name("jupyter-book"), "build", ".", "-W", "-n", "--keep-going"]
        # A proxy that is not there: whoever tries to download fails at once.
        nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": ""}
        env = (
            os.environ | nowhere | {"TOKENSEL_DATA": str(self.data), "TOKENSEL_CACHE": str(self.folder / "c")}
        )
        built = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout + built.stderr

    def page(self):
        path = self.folder / "_build" / "html" / "book" / "text" / "yelp.html"
        return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").select_one("article.bd-article")


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    return BookOfReviews(tmp_path_factory.mktemp("book"))


def test_a_build_with_and_without_the_data(book):
    """One story, since each build starts from what the last one left."""
    book.build()
    assert book.runs() == ["one"]
    page = book.page()
    box = page.select_one("div.admonition")
    assert box.select_one(".admonition-title").get_text() == missing_data.TITLE
    assert f"not in {book.data}" in box.get_text()
    assert "TOKENSEL_DATA" in box.get_text()
    assert "tokensel.datasets.yelp()" in box.get_text()
    assert box.find_previous("h1") is not None
    assert box.find_next("p", string="Its text.") is not None
    assert "runs.txt" in page.get_text(), "code is shown"
    assert "computed reviews" not in page.get_text()

    book.build()
    assert book.runs() == [], "nothing changed"

    reviews = stand_in.rows()
    stand_in.yelp(book.data, reviews[:400], reviews[400:500])
    book.build()
    assert book.runs() == ["yelp"], "the data came"
    assert "2 computed reviews" in book.page().get_text()
    assert missing_data.TITLE not in book.page().get_text()

    book.build()
    assert book.runs() == []

    archive = stand_in.yelp(book.data, reviews[:500], reviews[500:600])
    book.build()
    assert book.runs() == ["yelp"], "the data changed"

    archive.unlink()
    book.build()
    assert book.runs() == [], "the data went"
    assert missing_data.TITLE in book.page().get_text()


def test_folded_code_never_stands_under_folded_code():
    """In the chapters as they are: after each fold comes text, or code that is shown."""
    for docname in missing_data.CHAPTERS:
        text = (ROOT / f"{docname}.ipynb").read_text(encoding="utf-8")
        before, after = (json.loads(t)["cells"] for t in (text, missing_data.without_results(text)))
        folds = [missing_data.tagged(cell, "hide-input") for cell in after]
        assert any(folds)
        assert not any(first and second for first, second in itertools.pairwise(folds))
        prose = "".join("".join(cell["source"]) for cell in after if cell["cell_type"] == "markdown")
        captions = [c["metadata"].get("mystnb", {}).get("figure", {}).get("caption") for c in before]
        assert all(f"not drawn here:* {caption}" in prose for caption in captions if caption)


def test_neighbours_are_folded_together_up_to_a_figure():
    def cell(name, **figure):
        metadata = {"tags": ["hide-input"]} | ({"mystnb": {"figure": figure}} if figure else {})
        return {"cell_type": "code", "id": name, "metadata": metadata, "source": [f"{name}\n", "end"]}

    cells = [cell("a"), cell("b", caption="Of $b$."), cell("c"), cell("d")]
    shown = json.loads(missing_data.without_results(json.dumps({"metadata": {}, "cells": cells})))["cells"]
    assert [c["source"] for c in shown] == [
        "a\nend\n\n\nb\nend",
        "*A figure, not drawn here:* Of $b$.",
        "c\nend\n\n\nd\nend",
    ]


def test_the_message_is_text_and_never_markup():
    box = missing_data.note("<script>alert(1)</script> *not* `code` in {this}", "yelp")
    texts = [paragraph.astext() for paragraph in box.findall(nodes.paragraph)]
    assert "The package says: <script>alert(1)</script> *not* `code` in {this}" in texts
    assert [type(child) for paragraph in box.findall(nodes.paragraph) for child in paragraph] == [
        nodes.Text
    ] * 3


def test_damaged_data_are_an_error_and_no_missing_data():
    def damaged():
        raise ValueError("the archive is damaged")

    with pytest.raises(ValueError, match="damaged"):
        missing_data.look_for_data(damaged)


def test_data_that_are_missing_are_told_in_the_words_of_the_error():
    def absent():
        raise DatasetNotFound("put the archive into a folder")

    assert missing_data.look_for_data(absent) == (None, "put the archive into a folder")


def test_no_build_downloads(monkeypatch):
    asked = []
    monkeypatch.setattr("tokensel.datasets.yelp", lambda **settings: asked.append(settings))
    missing_data.yelp()
    assert asked == [{"download_if_missing": False}]


def test_each_chapter_of_the_table_is_a_notebook():
    for docname in missing_data.CHAPTERS:
        assert (ROOT / f"{docname}.ipynb").is_file()


def test_prose_refers_to_no_figure_that_only_a_run_makes():
    """The figure has no target in a page without results: a reference to it would break the build."""
    for docname in missing_data.CHAPTERS:
        cells = json.loads((ROOT / f"{docname}.ipynb").read_text(encoding="utf-8"))["cells"]
        names = [c["metadata"].get("mystnb", {}).get("figure", {}).get("name") for c in cells]
        prose = "".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        assert [name for name in names if name and name in prose] == []
