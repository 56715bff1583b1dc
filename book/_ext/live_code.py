"""Sphinx extension: "Live code" turns a chapter's cells into editors with a kernel, when the reader asks.

The theme offers the button, sphinx-thebe what happens on pressing it, and of that nothing is used: it loads
thebe 0.8.2, which could not be tested here; gives cells their outputs by counting, which goes wrong after the
first cell without one; takes a printed output for code where the code is left out; loses the captions of
figures; lets the chapters of one folder share a kernel; and replaces all code before it knows whether there
will be a kernel. The book's ``live-code.js`` drives thebe instead. Each chapter carries what the script needs
to know as data. Nothing is requested until the button is pressed.
"""

import json
from pathlib import Path

from docutils import nodes

# Where the browser gets thebe, and marked for outputs in Markdown, which thebe shows as they were typed. The
# tests answer these addresses from the npm packages of the same name and version.
PACKAGES = {"thebe": "0.9.3", "marked": "15.0.12"}
FILES = {"script": "thebe/lib/index.js", "style": "thebe/lib/thebe.css", "marked": "marked/marked.min.js"}
HOST = "https://unpkg.com"


def address(file):
    """The address of ``package/path`` in the version that is tested."""
    package, _, path = file.partition("/")
    return f"{HOST}/{package}@{PACKAGES[package]}/{path}"


def keep_sources(app, docname, source):
    """Keep the notebook's cells, as they are parsed, until their page has been read."""
    if app.env.doc2path(docname).endswith(".ipynb"):
        app.env.temp_data["notebook_cells"] = json.loads(source[0])["cells"]


def note_cells(app, doctree):
    """Note per code cell of the page the code that the page does not show, or None where it shows it."""
    cells = app.env.temp_data.get("notebook_cells")
    if cells is not None:
        boxes = [box for box in doctree.findall(nodes.container) if box.get("nb_element") == "cell_code"]
        doctree["live_cells"] = [
            "".join(cells[box["cell_index"]]["source"])
            if "remove-input" in box["cell_metadata"].get("tags", [])
            else None
            for box in boxes
        ]


def drop_configuration(app, doctree, docname):
    """Remove the scripts that sphinx-thebe appends to every page, with or without code."""
    for raw in list(doctree.findall(nodes.raw)):
        if "text/x-thebe-config" in raw.astext() or "<script>kernelName = " in raw.astext():
            raw.parent.remove(raw)


def settings(app, docname, cells):
    """What live-code.js needs to know of a page."""
    options = app.config.html_theme_options
    owner, name = options["repository_url"].rstrip("/").split("/")[-2:]
    return {
        "files": {kind: address(file) for kind, file in FILES.items()},
        "binder": {
            "binderUrl": options["launch_buttons"]["binderhub_url"],
            "repo": f"{owner}/{name}",
            "ref": options["repository_branch"],
        },
        # The notebook's own path: a kernel belongs to it, and starts in its folder.
        "kernel": {"kernelName": "python3", "path": f"{docname}{Path(app.env.doc2path(docname)).suffix}"},
        "cells": cells,
    }


def is_sphinx_thebe(file):
    body = getattr(file, "attributes", {}).get("body") or ""
    return "THEBE_JS_URL" in body or "sphinx-thebe" in str(file.filename)


def make_page_live(app, pagename, templatename, context, doctree):
    """Put the script and its data into a chapter; no page gets anything of sphinx-thebe."""
    cells = None if doctree is None else doctree.get("live_cells")
    if cells is not None:
        app.add_js_file("live-code.js", loading_method="defer")  # to this page only
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context[kind] if not is_sphinx_thebe(file)]
    if cells is None:
        return
    # "<" never stands in the data, so that no code can end the element.
    data = json.dumps(settings(app, pagename, cells)).replace("<", "\\u003c")
    context["body"] += f'<script type="application/json" id="live-code">{data}</script>'
    for group in context["header_buttons"]:
        for button in group.get("buttons", []):
            if button.get("label") == "launch-thebe":
                button["text"] = "Live code"
                button["tooltip"] = "Run and change the code in this page, with a computer lent by Binder"
                button["javascript"] = "startLiveCode()"


def setup(app):
    app.connect("source-read", keep_sources, priority=900)  # after those that change the notebook
    app.connect("doctree-read", note_cells)
    app.connect("doctree-resolved", drop_configuration, priority=900)
    app.connect("html-page-context", make_page_live, priority=850)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
