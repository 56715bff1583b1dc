"""Sphinx extension: what the theme and its companions leave to repair in a page."""

import base64
import hashlib
import json
import re
from pathlib import Path

import numpy as np
from docutils import nodes
from sphinx_proof.nodes import proof_node

from content_hash import content_hash


def set_public_address(app, config):
    """The public address (sitemap, link previews) follows from the repository's."""
    owner, name = config.html_theme_options["repository_url"].rstrip("/").split("/")[-2:]
    config.html_baseurl = config.ogp_site_url = f"https://{owner}.github.io/{name}/"


def renew_static_files(app, config):
    """Sphinx copies styles only when it writes pages, and that only when a page or a value changed.

    So styles are a value, and the extensions too: what they do to a page is otherwise not done again.
    """
    root = Path(app.srcdir)
    own = [*(root / "book" / "_static").rglob("*"), *(root / "book" / "_ext").glob("*.py")]
    files = sorted(path for path in own if path.is_file())
    config.html_context["static_files"] = content_hash(root, files)


def make_static_folder(app):
    """After a failed build the theme copies its logo to ``_static``: if there is no folder, as that file.

    Such a file would make every later build fail.
    """
    static = Path(app.outdir) / "_static"
    if static.is_file():
        static.unlink()
    static.mkdir(parents=True, exist_ok=True)


def title_proofs(doctree):
    """Let proofs fold, which takes a title; sphinx-proof writes "Proof. " into the text instead."""
    for number, proof in enumerate(doctree.findall(proof_node)):
        box = proof[0]
        box["ids"] = [f"proof-{number + 1}"]
        opening = next(box.findall(nodes.Text))
        opening.parent.replace(opening, nodes.Text(opening.removeprefix("Proof. ")))
        if "dropdown" in box["classes"]:
            box.insert(0, nodes.title("", "Proof"))
        else:
            box[0].insert(0, nodes.emphasis("", "Proof. "))


def give_unique_ids(doctree):
    """The contents of all statements share one id, and so do those of exercises; ids must differ."""
    for section in doctree.findall(nodes.section):
        if section["ids"] and section["ids"][0] in {"proof-content", "exercise-content", "solution-content"}:
            section["ids"] = [f"{section.parent['ids'][0]}-content"]


def renew_roles(app, pagename, templatename, context, doctree):
    """Mend what a screen reader is told.

    docutils gives entries of a bibliography a role that WAI-ARIA has withdrawn. myst-nb names each bar that
    unfolds code otherwise than it is written, so that nobody could speak its name to press it.
    """
    if "body" in context:
        body = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')
        context["body"] = body.replace('<summary aria-label="Toggle hidden content">', "<summary>")


def hold_marks(app, pagename, templatename, context, doctree):
    """Keep a formula on one line with the marks that touch it: else a line may begin with a full stop."""
    formula = r'<span class="math notranslate nohighlight">[^<]*</span>'
    touched = rf"([(\[“‘]+)?({formula})([.,;:?!)\]”’]+)?"

    def hold(found):
        return f'<span class="held">{found[0]}</span>' if found[1] or found[3] else found[0]

    if "body" in context:
        context["body"] = re.sub(touched, hold, context["body"])


def move_frames(app, pagename, templatename, context, doctree):
    """Put most pictures of explorers into files beside the page, which then is a few times lighter.

    In a notebook an explorer must hold them itself; a page would have to be read past all of them before its
    equations are typeset. The page keeps the first picture and those one step away from it, so that a slider
    answers its first press at once, while the others are still on their way.
    """
    explorers = r'(?<=<script type="application/json">)\{"texts".*?(?=</script>)'

    def move(found):
        data = json.loads(found[0])
        near = one_step_away([len(texts) for texts in data["texts"]], data["sources"].index(None))
        data["sources"] = [
            source if source is None or state in near else write_frame(app, context, source)
            for state, source in enumerate(data["sources"])
        ]
        return json.dumps(data).replace("<", r"\u003c")

    if 'class="tokensel-explorer ' in context.get("body", ""):
        context["body"] = re.sub(explorers, move, context["body"])


def one_step_away(sizes, first):
    """States that one step of one slider reaches, of as many positions as ``sizes`` says."""
    place = np.unravel_index(first, sizes)
    states = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    return set(np.flatnonzero(np.abs(states - place).sum(axis=1) == 1).tolist())


def write_frame(app, context, source):
    """Write a picture that a page holds as text to a file, and return its address in the page."""
    png = base64.b64decode(source.removeprefix("data:image/png;base64,"))
    folder, name = Path(app.outdir) / "_images", f"frame-{hashlib.sha256(png).hexdigest()[:20]}.png"
    if not (folder / name).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png)
    return context["pathto"](f"_images/{name}", 1)


def lighten_head(app, pagename, templatename, context, doctree):
    """Give the page's template what it needs to hold up the text less.

    The theme draws its icons from a font, and then a second time, by a script of 1.5 MB: the font is enough.
    Its scripts for the search, the index of the whole book among them, can wait until the text is there.
    """
    icons = r"<script[^>]*/fontawesome\.js[^>]*></script>"
    context["without_icon_script"] = lambda head: re.sub(icons, "", head)
    context["deferred"] = lambda head: head.replace("<script src=", "<script defer src=")


def repair_boxes(app, doctree):
    title_proofs(doctree)
    give_unique_ids(doctree)


def setup(app):
    app.connect("config-inited", set_public_address)
    app.connect("config-inited", renew_static_files)
    app.connect("builder-inited", make_static_folder)
    app.connect("doctree-read", repair_boxes)
    app.connect("html-page-context", renew_roles)
    app.connect("html-page-context", hold_marks)
    app.connect("html-page-context", move_frames)
    app.connect("html-page-context", lighten_head)
    # Deferred scripts run in order: before MathJax, which reads what this one sets.
    app.add_js_file("reading.js", priority=490, loading_method="defer")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
