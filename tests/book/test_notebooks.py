"""The notebooks as files: what a reader opens in Colab or Jupyter, and what a diff shows."""

import ast
import json
import re

import nbformat
import notebook_form
import pytest
from browsing import ROOT, pages

NOTEBOOKS = notebook_form.notebooks()
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: str(p.relative_to(ROOT)))


def read(path):
    return nbformat.read(path, as_version=4)


def markdown(path):
    return "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")


def test_each_notebook_is_a_page_and_each_chapter_a_notebook():
    chapters = [address for address in pages() if "/reference/" not in address and address != "book/index"]
    assert sorted(str(p.relative_to(ROOT).with_suffix("")) for p in NOTEBOOKS) == sorted(chapters)


@every_notebook
def test_valid_and_without_outputs(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@every_notebook
def test_in_normal_form(path):
    text = path.read_text(encoding="utf-8")
    assert notebook_form.normal_form(text) == text, "run `make notebooks`"


@every_notebook
def test_models_losses_and_samplers_are_in_the_package(path):
    """A chapter calls the package; what it defines itself are drawings and small helpers, no classes."""
    for cell in read(path).cells:
        if cell.cell_type == "code":
            source = re.sub(r"^( *)%.*$", r"\1pass", cell.source, flags=re.MULTILINE)
            assert not [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef)], cell.id


@every_notebook
def test_prose_directives_use_colon_fences(path):
    """Elsewhere than in the built book a backtick fence shows its text as code, formulas and all."""
    assert (
        re.findall(r"^`{3,}\{(?:prf:|exercise|solution|admonition|note|tip)[^\n]*", markdown(path), re.M)
        == []
    )


@every_notebook
def test_three_exercises_with_folded_solutions(path):
    text = markdown(path)
    exercises = re.findall(r"^:{3,}\{exercise\}[^\n]*\n(?::[^\n]*\n)*?:label: (\S+)", text, re.M)
    solutions = dict(re.findall(r"^:{3,}\{solution(?:-start)?\} (\S+)\n((?::[a-z]+:[^\n]*\n)*)", text, re.M))
    assert len(exercises) >= 3
    assert set(solutions) == set(exercises)
    for options in solutions.values():
        assert re.search(r"^:class: .*dropdown", options, re.M)


def untidy():
    """A notebook as an editor leaves it."""
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "my-env", "display_name": "Mine"}, "vscode": {}},
        "cells": [
            {
                "cell_type": "markdown",
                "id": "0a1b2c3d",
                "metadata": {},
                "source": ["# A step of $E$\n", "Text.\n"],
            },
            {
                "cell_type": "code",
                "id": "deadbeef",
                "execution_count": 7,
                "metadata": {
                    "collapsed": True,
                    "tags": ["remove-cell"],
                    "mystnb": {"figure": {"name": "fig-law"}},
                },
                "outputs": [{"output_type": "stream", "name": "stdout", "text": "1"}],
                "source": "print(1)\n",
            },
            {
                "cell_type": "code",
                "id": "fig-law",
                "execution_count": None,
                "metadata": {},
                "outputs": [],
                "source": "2",
            },
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ""},
        ],
    }


def test_normal_form_tidies():
    tidy = json.loads(notebook_form.normal_form(json.dumps(untidy())))
    assert [cell["id"] for cell in tidy["cells"]] == [
        "install",
        "a-step-of",
        "fig-law-2",
        "fig-law",
    ]  # the empty cell is gone
    assert tidy["metadata"]["kernelspec"]["name"] == "python3"
    assert "vscode" not in tidy["metadata"]
    code = tidy["cells"][2]
    assert code["outputs"] == []
    assert code["execution_count"] is None
    assert code["metadata"] == {"tags": ["remove-cell"], "mystnb": {"figure": {"name": "fig-law"}}}
    assert tidy["cells"][1]["source"] == ["# A step of $E$\n", "Text."]
    nbformat.validate(nbformat.from_dict(tidy))


def test_normal_form_is_final():
    once = notebook_form.normal_form(json.dumps(untidy()))
    assert notebook_form.normal_form(once) == once


@every_notebook
def test_numbered_formulas_of_several_lines_break_with_cr(path):
    r"""Sphinx puts what holds a double backslash into ``split``, where no ``\tag`` may stand."""
    formulas = re.findall(r"\$\$.*?\$\$", markdown(path), re.S)
    assert [formula for formula in formulas if r"\tag" in formula and r"\\" in formula] == []
