"""Sphinx extension: the page "How to cite", made from ``CITATION.cff``, the bibliography and the contracts.

``citation-of-the-book`` and ``citation-of-the-paper`` write BibTeX, ``citation-of-a-statement`` an example,
and ``statements-and-origins`` a table of every numbered statement: number, title, origin. The role
``testfile`` leads to a test in the repository.
"""

import ast
from pathlib import Path

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from pybtex.database import BibliographyData, parse_file
from sphinx.util.docutils import SphinxDirective, SphinxRole

from verified_statements import CLAIMS, statements

PAPER = "wu2025attention"
KEY = "tokensel"
EXAMPLE = "thm-important-tokens"


def citation(root):
    """``CITATION.cff``, which alone says version, date and authors."""
    return yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))


def bibtex_of_the_book(cff):
    """The book as BibTeX: ``misc``, for want of a publisher; braces keep an institution's name whole."""
    book = cff["preferred-citation"]
    fields = {
        "title": f"{{{book['title']}}}",
        "author": " and ".join(f"{{{author['name']}}}" for author in book["authors"]),
        "year": book["year"],
        "version": cff["version"],
        "howpublished": rf"\url{{{book['url']}}}",
        "note": f"Textbook and Python package tokensel, version {cff['version']} of {cff['date-released']}",
    }
    body = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@misc{{{KEY},\n{body}}}\n"


def bibtex_of_the_paper(root):
    """The paper as the book's own bibliography has it."""
    entry = parse_file(root / "book" / "references.bib").entries[PAPER]
    return BibliographyData({PAPER: entry}).to_string("bibtex")


def origin(root, label):
    """Where a statement's claim comes from, as its contract says."""
    path = root / "tests" / "contracts" / f"test_{label.replace('-', '_')}.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "ORIGIN":
            return ast.literal_eval(node.value)
    raise ValueError(f"{path} has no ORIGIN")


def claims(root):
    return [statement for statement in statements(root) if statement.kind in CLAIMS]


def code_block(text, caption):
    return ["```{code-block} bibtex", f":caption: {caption}", "", *text.splitlines(), "```"]


class CitationDirective(SphinxDirective):
    """Write Markdown from files of the repository, and let the page's own parser read it."""

    has_content = False

    def run(self):
        self.root = Path(self.env.srcdir)
        self.env.note_dependency(__file__)
        parent = self.state_machine.node.__class__()
        self.state.nested_parse(StringList(self.markdown(), __file__), self.content_offset, parent)
        return parent.children

    def depends_on(self, path):
        self.env.note_dependency(str(path))
        return path


class CitationOfTheBook(CitationDirective):
    def markdown(self):
        self.depends_on(self.root / "CITATION.cff")
        return code_block(bibtex_of_the_book(citation(self.root)), "The book and its package")


class CitationOfThePaper(CitationDirective):
    def markdown(self):
        self.depends_on(self.root / "book" / "references.bib")
        return code_block(bibtex_of_the_paper(self.root), "The paper")


class CitationOfAStatement(CitationDirective):
    def markdown(self):
        self.depends_on(self.root / "CITATION.cff")
        (statement,) = (each for each in claims(self.root) if each.label == EXAMPLE)
        self.depends_on(self.env.doc2path(statement.page))
        cff = citation(self.root)
        return [
            f"> {{prf:ref}}`{EXAMPLE}` ({statement.title}) of *{cff['preferred-citation']['title']}*, "
            f"version {cff['version']}, {cff['preferred-citation']['year']}"
        ]


class StatementsAndOrigins(CitationDirective):
    """All statements in reading order."""

    def markdown(self):
        lines = ["````{list-table}", ":header-rows: 1", ":widths: 22 38 40", ":class: origins", ""]
        rows = [("Statement", "Title", "Origin")]
        for claim in claims(self.root):
            self.depends_on(self.env.doc2path(claim.page))
            self.depends_on(self.root / "tests" / "contracts" / f"test_{claim.label.replace('-', '_')}.py")
            rows.append((f"{{prf:ref}}`{claim.label}`", claim.title, origin(self.root, claim.label)))
        for row in rows:
            lines += [f"{'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)]
        return [*lines, "````"]


class TestFile(SphinxRole):
    """A file of the repository, at this version."""

    def run(self):
        repository = self.config.html_theme_options["repository_url"]
        address = f"{repository}/blob/v{citation(Path(self.env.srcdir))['version']}/{self.text}"
        return [nodes.reference("", "", nodes.literal("", self.text), internal=False, refuri=address)], []


def setup(app):
    app.add_role("testfile", TestFile())
    app.add_directive("citation-of-the-book", CitationOfTheBook)
    app.add_directive("citation-of-the-paper", CitationOfThePaper)
    app.add_directive("citation-of-a-statement", CitationOfAStatement)
    app.add_directive("statements-and-origins", StatementsAndOrigins)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
