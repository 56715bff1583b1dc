"""Sphinx extension: in each chapter the first occurrence of a glossary term links to its entry, and back.

Chapters hold plain words, since a role would stand in Colab as it was typed. Here, at build time, the first
occurrence in running text of each term of ``book/notation.yml`` becomes a link to the glossary, with the
definition as its tooltip; every entry of the glossary says in which chapter its term is first used. Not
linked: titles, links, code, formulas, tables, captions, what cells show, the box that opens a chapter, and
emphasis. An emphasised word is either being defined there and then, or quoted from a review.

In the registry an entry with a definition may say

also      further forms of the term that are linked to it (plurals are formed here)
link      ``false``, if the term itself is also an everyday word: only the forms of ``also`` are then linked
everyday  phrases in which the term has its everyday sense, and is not linked
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx_exercise.nodes import exercise_title, solution_title
from sphinx_proof.nodes import proof_node

import symbol_registry

GLOSSARY = "book/reference/glossary"
LINK = "glossary-term"
NO_RUNNING_TEXT = (
    nodes.title,
    nodes.rubric,
    nodes.caption,
    nodes.legend,
    nodes.term,
    nodes.table,
    nodes.emphasis,
    nodes.strong,
    nodes.reference,
    nodes.footnote,
    nodes.citation,
    nodes.FixedTextElement,
    nodes.literal,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.system_message,
    addnodes.pending_xref,
    exercise_title,
    solution_title,
)


def entries(registry):
    """The entries of the glossary: everything in the registry that has a definition."""
    symbols = [entry for section in registry["sections"] for entry in section["symbols"]]
    return [entry for entry in symbols + registry["terms"] if "definition" in entry]


def plural(form):
    """The plural of a term, formed at its head: what stands before "of" or "on", else the whole."""
    head, joint, rest = re.fullmatch(r"(.*?)( (?:of|on) |$)(.*)", form).groups()
    if re.search(r"[^s]s$", head):  # a plural already
        return form
    if re.search(r"[^aeiou]y$", head):
        return f"{head[:-1]}ies{joint}{rest}"
    return f"{head}{'es' if re.search(r'(s|x|ch)$', head) else 's'}{joint}{rest}"


def spellings(registry):
    """Every form that is looked for, in lower case: its term, or None for an everyday phrase."""
    found = {}
    for entry in entries(registry):
        own = [entry["term"]] if entry.get("link", True) else []
        for form in [*own, *entry.get("also", [])]:
            found[form.lower()] = found[plural(form).lower()] = entry["term"]
        found |= {phrase.lower(): None for phrase in entry.get("everyday", [])}
    return found


def pattern(spelled):
    """Finds any of the forms as whole words, the longest where several begin; a hyphen joins words."""
    forms = sorted(spelled, key=len, reverse=True)
    words = "|".join(re.escape(form).replace(r"\ ", r"\s+") for form in forms)
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)


def is_running_text(text):
    """Whether a text node stands in a sentence of the chapter's own."""
    node, paragraph = text.parent, False
    while node is not None:
        opening_box = isinstance(node, nodes.admonition) and not isinstance(node.parent, proof_node)
        if isinstance(node, NO_RUNNING_TEXT) or opening_box or "cell" in node.get("classes", []):
            return False
        paragraph = paragraph or isinstance(node, nodes.paragraph)
        node = node.parent
    return paragraph


def link(term, words):
    """A reference to the glossary that Sphinx resolves like a ``{term}`` role."""
    shown = nodes.inline("", words, classes=["xref", "std", "std-term"])
    return addnodes.pending_xref(
        "", shown, refdomain="std", reftype="term", reftarget=term, refexplicit=True, refwarn=True
    )


def is_term(node):
    """Whether a node is a link to the glossary that the author made with a role."""
    return isinstance(node, addnodes.pending_xref) and node["reftype"] == "term"


class Page:
    """The uses of glossary terms on one page, as they are met from its beginning."""

    def __init__(self, spelled):
        self.spelled, self.find = spelled, pattern(spelled)
        self.linked, self.first = set(), {}  # first: term -> id of the place

    def term_of(self, words):
        return self.spelled.get(" ".join(words.lower().split()))

    def note_first(self, term, node, kind):
        if term not in self.first:
            self.first[term] = f"{kind}-{nodes.make_id(term)}"
            node["ids"].append(self.first[term])

    def note_link(self, reference):
        """Mark the words of a link: they outlive its resolution."""
        term, shown = reference["reftarget"], reference[0]
        self.linked.add(term)
        shown["classes"].append(LINK)
        shown["term"] = term
        self.note_first(term, shown, "use-of")
        return reference

    def link_words(self, text):
        """Make the terms of a text that are not linked yet into links."""
        pieces, end = [], 0
        for match in self.find.finditer(text):
            term = self.term_of(match[0])
            if term is not None and term not in self.linked:
                pieces += [nodes.Text(text[end : match.start()]), self.note_link(link(term, match[0]))]
                end = match.end()
        if pieces:
            text.parent.replace(text, [*pieces, nodes.Text(text[end:])])

    def read(self, node):
        if is_term(node):
            if node["reftarget"] not in self.linked:
                self.note_link(node)
        elif isinstance(node.parent, nodes.emphasis) and is_running_text(node.parent):
            if term := self.term_of(node.parent.astext()):
                self.note_first(term, node.parent, "definition-of")
        elif is_running_text(node):
            self.link_words(node)


def link_first_uses(doctree, spelled):
    """Link the first occurrence of each term; return the place of its first use, linked or emphasised."""
    page = Page(spelled)
    for node in list(doctree.findall(lambda node: isinstance(node, nodes.Text) or is_term(node))):
        page.read(node)
    return page.first


def uses_of(env):
    """The terms of each page: docname -> term -> id of the place where it is first used."""
    if not hasattr(env, "glossary_uses"):
        env.glossary_uses = {}
    return env.glossary_uses


def link_chapter(app, doctree):
    env = app.env
    if Path(env.doc2path(env.docname)).suffix == ".ipynb":
        path = registry_path(env)
        env.note_dependency(str(path))
        env.note_dependency(__file__)
        uses_of(env)[env.docname] = link_first_uses(doctree, spellings(symbol_registry.load(path)))


def registry_path(env):
    return Path(env.srcdir) / "book" / "notation.yml"


def forget(app, env, docname):
    uses_of(env).pop(docname, None)


def chapters_in_order(env):
    """Pages as the table of contents has them."""
    order, waiting = [], [env.config.root_doc]
    while waiting:
        docname = waiting.pop(0)
        if docname not in order:
            order.append(docname)
            waiting = [*env.toctree_includes.get(docname, []), *waiting]
    return order


def first_uses(env):
    """The page and the place where each term is used first in the book: term -> (docname, id)."""
    uses, first = uses_of(env), {}
    for docname in chapters_in_order(env):
        for term, place in uses.get(docname, {}).items():
            first.setdefault(term, (docname, place))
    return first


def rewrite_glossary(app, env):
    """The glossary names chapters and their titles, so it is written anew if these changed."""
    told = {term: (*where, env.titles[where[0]].astext()) for term, where in first_uses(env).items()}
    before, env.glossary_told = getattr(env, "glossary_told", None), told
    return [GLOSSARY] if told != before and GLOSSARY in env.found_docs else []


def tooltip(definition):
    """A definition as plain text: a formula of a single letter loses its dollars."""
    return re.sub(r"\$(\w)\$", r"\1", " ".join(definition.split()))


def finish_links(app, doctree, docname):
    """Tooltips on links to the glossary; in the glossary, where each term is first used."""
    of_term = {entry["term"]: entry for entry in entries(symbol_registry.load(registry_path(app.env)))}
    for reference in doctree.findall(nodes.reference):
        shown = next(reference.findall(nodes.inline), None)
        if shown is not None and "term" in shown:
            reference["reftitle"] = tooltip(of_term[shown["term"]]["definition"])
    if docname == GLOSSARY:
        first = first_uses(app.env)
        for item in doctree.findall(nodes.definition_list_item):
            term = item[0].astext()
            if term in first:
                item[-1] += where_first_used(app, *first[term])


def where_first_used(app, docname, place):
    """A line of the glossary: the chapter that uses a term first, linked to the very place."""
    address = f"{app.builder.get_relative_uri(GLOSSARY, docname)}#{place}"
    title = [child.deepcopy() for child in app.env.titles[docname].children]
    chapter = nodes.reference("", "", *title, internal=True, refuri=address)
    return nodes.paragraph("", "First used in ", chapter, classes=["first-used"])


def setup(app):
    app.connect("doctree-read", link_chapter)
    app.connect("env-purge-doc", forget)
    app.connect("env-updated", rewrite_glossary)
    app.connect("doctree-resolved", finish_links)
    return {"version": "1", "env_version": 1, "parallel_read_safe": False, "parallel_write_safe": True}
