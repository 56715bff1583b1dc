"""The code in folded solutions runs as it stands, alone, as a reader would paste it."""

import ast
import re

import matplotlib as mpl
import nbformat
import notebook_form
import pytest
from browsing import ROOT


def solutions():
    """(exercise, code) of each solution that holds Python."""
    fence = re.compile(r"^(:{3,})\{solution\} (\S+)\n(.*?)^\1[ ]*$", re.M | re.S)
    for path in notebook_form.notebooks():
        cells = nbformat.read(path, as_version=4).cells
        text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        for _, exercise, body in fence.findall(text):
            code = "\n".join(re.findall(r"^```python\n(.*?)^```", body, re.M | re.S))
            if code:
                yield pytest.param(code, id=f"{path.relative_to(ROOT / 'book').with_suffix('')}-{exercise}")


@pytest.mark.parametrize("code", list(solutions()))
def test_code_of_solutions_runs_and_asserts_its_claim(code, monkeypatch):
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(code)))
    monkeypatch.setenv("TOKENSEL_STATIC", "1")
    mpl.use("Agg")
    with mpl.rc_context():
        exec(compile(code, "solution", "exec"), {"__name__": "solution"})


def test_some_solution_holds_code():
    assert list(solutions()) != []
