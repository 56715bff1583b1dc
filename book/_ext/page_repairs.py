"""Sphinx extension: what the theme and its companions leave to repair in a page."""

from pathlib import Path

from docutils import nodes
from sphinx_proof.nodes import proof_node

from content_hash import content_hash


def set_public_address(app, config):
    """The public address (sitemap, link previews) follows from the repository's."""
    owner, name = config.html_theme_options["repository_url"].rstrip("/").split("/")[-2:]
    config.html_baseurl = config.ogp_site_url = f"https://{owner}.github.io/{name}/"


def renew_static_files(app, config):
    """Sphinx copies styles only when it writes pages, and that only when a page or a value changed."""
    root = Path(app.srcdir)
    files = sorted(path for path in (root / "book" / "_static").rglob("*") if path.is_file())
    config.html_context["static_files"] = content_hash(root, files)


def make_static_folder(app):
    """After a failed build the theme copies its logo to ``_static``: if there is no folder, as that file.

    Such a file would make every later build fail.
    """
    static = Path(app.outdir) / "_static"
    if static.is_file():
        static.unlink()
    static.mkdir(parents=True, exist_ok=True)


def drop_repeated_scripts(app, pagename, templatename, context, doctree):
    """sphinx-thebe inserts its script twice; declaring the same ``const`` again is an error in the page."""
    seen, kept = set(), []
    for script in context["script_files"]:
        body = getattr(script, "attributes", {}).get("body")
        if body is None or body not in seen:
            kept.append(script)
            seen.add(body)
    context["script_files"] = kept


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
    """docutils gives entries of a bibliography a role that WAI-ARIA has withdrawn."""
    if "body" in context:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


def repair_boxes(app, doctree):
    title_proofs(doctree)
    give_unique_ids(doctree)


def setup(app):
    app.connect("config-inited", set_public_address)
    app.connect("config-inited", renew_static_files)
    app.connect("builder-inited", make_static_folder)
    app.connect("doctree-read", repair_boxes)
    app.connect("html-page-context", drop_repeated_scripts, priority=900)
    app.connect("html-page-context", renew_roles)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
