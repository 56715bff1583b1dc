"""Sphinx extension: a chapter whose reviews are not at hand is shown without its results, and says so.

A build never downloads. Before pages are read, each chapter of `CHAPTERS` asks the package for its data with
``download_if_missing=False``. Where they are missing the chapter is not run: its page shows text and code,
leaves out the cells that would show nothing but results, says under the code of each figure what it would
show, and opens with a note on what is missing and how to get it, in the words of
``tokensel.datasets.DatasetNotFound``. Data that came, went or changed since the last build make the page
outdated. Damaged data are an error of the build.
"""

import itertools
import json
from pathlib import Path

from docutils import nodes
from jupyter_cache import get_cache


def yelp():
    """The Yelp reviews; imported here so that a book without this chapter need not load torch."""
    from tokensel import datasets

    return datasets.yelp(download_if_missing=False)


CHAPTERS = {"book/text/yelp": yelp}  # address of a chapter -> what finds its corpus

TITLE = "Built without these reviews"
WHAT_IS_SHOWN = (
    "When this page was built, the reviews that it reads were not on that machine. So its code has not been "
    "run: figures, tables and the sentences that quote a computed number are left out."
)
WHAT_TO_DO = (
    "With a network, this fetches them: .venv/bin/python -c 'import tokensel; tokensel.datasets.{name}()'. "
    "Then say make book again; if the archive lies in a folder of yours, TOKENSEL_DATA=folder make book. "
    "Only this page is made anew."
)


def look_for_data(find):
    """Return (what was found, None), or (None, why nothing was)."""
    from tokensel.datasets import DatasetNotFound

    try:
        corpus = find()
    except DatasetNotFound as error:
        return None, str(error).replace(str(Path.home()), "~")  # the page may be published
    return f"{len(corpus)} reviews, {corpus.n_tokens} words, {corpus.counts.sum()} counts", None


def missing(env):
    """Why each chapter that goes without its data does: address -> message."""
    looked = getattr(env, "chapter_data", {})
    return {docname: why for docname, (_, why) in looked.items() if why is not None}


def mark_outdated(app, env, added, changed, removed):
    """Look for the data; return the chapters whose data are not what they were."""
    before = getattr(env, "chapter_data", {})
    env.chapter_data = {
        docname: look_for_data(find) for docname, find in CHAPTERS.items() if docname in env.found_docs
    }
    outdated = [docname for docname, found in env.chapter_data.items() if before.get(docname) != found]
    for docname in outdated:
        forget_run(app.config.nb_execution_cache_path, env.doc2path(docname))
    return outdated


def forget_run(cache_path, path):
    """Drop the chapter's cached run: it is found again by the chapter's code, which says nothing of data."""
    cache = get_cache(cache_path)
    for record in cache.list_cache_records():
        if record.uri == str(path):
            cache.remove_cache(record.pk)


def leave_out_results(app, docname, source):
    if docname in missing(app.env):
        source[0] = without_results(source[0])


def without_results(text):
    """The notebook as one that is not to be run, without the cells that would show nothing but results."""
    notebook = json.loads(text)
    notebook["metadata"].setdefault("mystnb", {})["execution_mode"] = "off"
    cells = [cell for cell in notebook["cells"] if not tagged(cell, "remove-input")]
    shown = []
    for hidden, group in itertools.groupby(cells, lambda cell: tagged(cell, "hide-input")):
        group = list(group)
        shown += folded(group) if hidden else group
    notebook["cells"] = shown
    return json.dumps(notebook)


def tagged(cell, tag):
    return tag in cell["metadata"].get("tags", [])


def folded(cells):
    """Neighbours whose code is folded away: one fold for all up to a figure, and then its caption.

    Else the page would show one bar that says "Show the code" under another.
    """
    code = []
    for k, cell in enumerate(cells):
        code.append("".join(cell["source"]))
        figure = cell["metadata"].get("mystnb", {}).get("figure")
        if figure or k == len(cells) - 1:
            yield cell | {"source": "\n\n\n".join(code)}
            code = []
        if figure:
            caption = f"*A figure, not drawn here:* {figure['caption']}"
            yield {
                "cell_type": "markdown",
                "id": f"{cell['id'][:50]}-caption",
                "metadata": {},
                "source": caption,
            }


def add_note(app, doctree):
    docname = app.env.docname
    if docname in missing(app.env):
        title = next(doctree.findall(nodes.title))
        box = note(missing(app.env)[docname], CHAPTERS[docname].__name__)
        title.parent.insert(title.parent.index(title) + 1, box)


def note(why, name):
    """The note on top of the page: plain text, whatever stands in it."""
    said = (WHAT_IS_SHOWN, f"The package says: {why}", WHAT_TO_DO.format(name=name))
    paragraphs = [nodes.paragraph("", text) for text in said]
    return nodes.admonition("", nodes.title("", TITLE), *paragraphs, classes=["warning"])


def setup(app):
    app.connect("env-get-outdated", mark_outdated)
    app.connect("source-read", leave_out_results)
    app.connect("doctree-read", add_note)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
