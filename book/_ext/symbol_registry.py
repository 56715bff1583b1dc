"""Sphinx extension: the notation table and the glossary, both made from ``book/notation.yml``."""

from pathlib import Path

import yaml
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def load(path):
    """The registry: ``sections`` of symbols (in reading order) and ``terms`` without a symbol."""
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def notation_table(symbols):
    """One section of the registry as a Markdown list-table."""
    lines = ["````{list-table}", ":header-rows: 1", ":widths: 20 50 18 12", ":class: notation", ""]
    rows = [("Symbol", "Meaning", "In code", "Shape")]
    for entry in symbols:
        meaning = f"{{term}}`{entry['term']}`" if "definition" in entry else entry["term"]
        if "note" in entry:
            meaning += f": {entry['note']}"
        code = f"`{entry['code']}`" if "code" in entry else ""
        rows.append((f"${entry.get('formula', entry['symbol'])}$", meaning, code, entry.get("shape", "")))
    for row in rows:
        lines += [f"{'* -' if i == 0 else '  -'} {cell}".rstrip() for i, cell in enumerate(row)]
    return [*lines, "````"]


def glossary(registry):
    """Every entry with a definition, in alphabetical order, as a glossary that ``{term}`` links to."""
    entries = [e for section in registry["sections"] for e in section["symbols"] if "definition" in e]
    entries += registry["terms"]
    lines = ["````{glossary}"]
    for entry in sorted(entries, key=lambda e: e["term"].lower()):
        symbol = f" Written ${entry.get('formula', entry['symbol'])}$." if "symbol" in entry else ""
        lines += [entry["term"], f"  {' '.join(entry['definition'].split())}{symbol}", ""]
    return [*lines, "````"]


class RegistryDirective(SphinxDirective):
    """Common to both directives: read the registry, write Markdown, let the page's own parser read it."""

    has_content = False

    def run(self):
        path = Path(self.env.srcdir) / "book" / "notation.yml"
        self.env.note_dependency(str(path))
        self.env.note_dependency(__file__)
        return self.parse_text(self.markdown(load(path)), str(path))

    def parse_text(self, lines, source):
        parent = self.state_machine.node.__class__()
        self.state.nested_parse(StringList(lines, source), self.content_offset, parent, match_titles=True)
        return parent.children


class NotationTable(RegistryDirective):
    def markdown(self, registry):
        lines = []
        for section in registry["sections"]:
            lines += [f"## {section['title']}", "", *notation_table(section["symbols"]), ""]
        return lines


class Glossary(RegistryDirective):
    def markdown(self, registry):
        return glossary(registry)


def setup(app):
    app.add_directive("notation-table", NotationTable)
    app.add_directive("glossary-of-terms", Glossary)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
