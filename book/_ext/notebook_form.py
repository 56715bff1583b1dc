"""The normal form of the book's notebooks: no outputs, sorted keys, readable cell ids, kernel ``python3``,
and a first cell that installs the package in Colab.

``python book/_ext/notebook_form.py`` rewrites every notebook under ``book/``; ``--check`` only says which
differ. Ids that an editor made up (eight hexadecimal digits, as Jupyter does) are replaced by words: the
figure's name, the heading, or the cell's kind and a number. Ids that are words already are kept, so links to
cells stay good.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

BOOK = Path(__file__).resolve().parents[1]
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
KEPT_CELL_METADATA = {"mystnb", "tags"}


def requirement():
    """The released package as pip finds it: the tag of this version, with the data of the text chapters."""
    project = tomllib.loads((BOOK.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"{project['name']}[text] @ git+{project['urls']['Repository']}@v{project['version']}"


def install_cell():
    """The first cell of every chapter: Colab opens the notebook alone, without the package."""
    source = f"""\
# Only in Colab: install the package. pip adds what is missing; torch and NumPy stay as they are.
from importlib.util import find_spec

if find_spec("google") and find_spec("google.colab") and not find_spec("tokensel"):
    %pip install --quiet "{requirement()}"
"""
    metadata = {"tags": ["remove-cell"]}
    return {"cell_type": "code", "id": "install", "metadata": metadata, "source": source}


def readable(identifier):
    return bool(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", identifier)) and not re.fullmatch(
        r"[0-9a-f]{8}(-[0-9a-f-]+)?", identifier
    )


def words_for(cell, source):
    """A readable id: the figure's name, the first heading, or the kind of cell."""
    name = cell.get("metadata", {}).get("mystnb", {}).get("figure", {}).get("name")
    heading = re.search(r"^#+ +(.+)$", source, re.MULTILINE) if cell["cell_type"] == "markdown" else None
    text = name or (heading and re.sub(r"\$[^$]*\$", "", heading[1])) or cell["cell_type"]
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
    return slug if readable(slug) else cell["cell_type"]


def normal_form(text):
    """The notebook's text in normal form."""
    notebook = json.loads(text)
    given = [install_cell(), *(cell for cell in notebook["cells"] if cell.get("id") != "install")]
    taken = [cell["id"] for cell in given if readable(cell.get("id", ""))]
    cells, used = [], set()
    for cell in given:
        source = "".join(cell["source"]).rstrip("\n")
        identifier = cell.get("id", "")
        if not readable(identifier) or identifier in used:
            stem, number = words_for(cell, source), 1
            identifier = stem
            while identifier in used or identifier in taken:
                number += 1
                identifier = f"{stem}-{number}"
        used.add(identifier)
        metadata = {k: v for k, v in cell.get("metadata", {}).items() if k in KEPT_CELL_METADATA and v}
        kept = {"cell_type": cell["cell_type"], "id": identifier, "metadata": metadata}
        kept["source"] = source.splitlines(keepends=True)
        if cell["cell_type"] == "code":
            kept |= {"execution_count": None, "outputs": []}
        if source:
            cells.append(kept)
    normal = {
        "cells": cells,
        "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(normal, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def notebooks():
    return [p for p in sorted(BOOK.rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts]


def main(arguments):
    differing = [
        p for p in notebooks() if p.read_text(encoding="utf-8") != normal_form(p.read_text(encoding="utf-8"))
    ]
    if "--check" in arguments:
        for path in differing:
            print(f"{path}: not in normal form; run `make notebooks`")
        return int(bool(differing))
    for path in differing:
        path.write_text(normal_form(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"{path}: rewritten")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
