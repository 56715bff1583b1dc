"""Links to the glossary: in a chapter the first occurrence of each term is one, and no other."""

import copy
from collections import Counter

import glossary_links
import pytest
import yaml
from browsing import ROOT, SITE
from bs4 import BeautifulSoup, NavigableString
from docutils import nodes
from docutils.core import publish_doctree

REGISTRY = yaml.safe_load((ROOT / "book" / "notation.yml").read_text(encoding="utf-8"))
ENTRIES = {
    entry["term"]: entry
    for entry in [*(e for section in REGISTRY["sections"] for e in section["symbols"]), *REGISTRY["terms"]]
    if "definition" in entry
}


def chapters():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [file for file in files if (ROOT / f"{file}.ipynb").is_file()]


def parsed(address):
    return BeautifulSoup((SITE / f"{address}.html").read_text(encoding="utf-8"), "html.parser")


@pytest.fixture(scope="module")
def pages():
    return {address: parsed(address) for address in chapters()}


@pytest.fixture(scope="module")
def glossary():
    return parsed("book/reference/glossary")


# --- by hand, on a registry of a few words

FEW = {
    "sections": [
        {
            "symbols": [
                {"symbol": "\\nu", "term": "average frequency", "definition": "A mean."},
                {"symbol": "\\varphi", "term": "frequency", "definition": "A share."},
                {"symbol": "\\ell", "term": "loss", "definition": "What is made small."},
                {
                    "symbol": "b",
                    "term": "value",
                    "everyday": ["of great value"],
                    "definition": "What it says.",
                },
                {"symbol": "z", "term": "pair", "link": False, "also": ["token pair"], "definition": "Two."},
                {"symbol": "n", "term": "length of a sequence", "definition": "How long it is."},
                {"symbol": "j", "term": "no entry"},
            ]
        }
    ],
    "terms": [{"term": "score gap", "definition": "A difference."}],
}


def linked(text):
    """The words that become links, in order, and the term that each leads to."""
    doctree = publish_doctree(text, settings_overrides={"report_level": 5})
    glossary_links.link_first_uses(doctree, glossary_links.spellings(FEW))
    return [
        (link.astext(), link["reftarget"]) for link in doctree.findall(glossary_links.addnodes.pending_xref)
    ]


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("A value and a value.", [("value", "value")]),
        ("Values rise.", [("Values", "value")]),
        ("Frequencies and losses.", [("Frequencies", "frequency"), ("losses", "loss")]),
        ("The average frequency, then the frequency.", [
            ("average frequency", "average frequency"), ("frequency", "frequency")]),
        ("The score\ngap.", [("score\ngap", "score gap")]),
        ("Lengths of a sequence.", [("Lengths of a sequence", "length of a sequence")]),
        ("A value-free, devalued, re-value.", []),
        ("It is of great value to know a value.", [("value", "value")]),
        ("A pair of shoes and a token pair.", [("token pair", "pair")]),
        ("A *value* is a number; one value is large.", [("value", "value")]),
        ("No entry.", []),
        ("The ``value``, **value**, :math:`value` and `value <https://example.org>`_.", []),
        ("A value\n=======\n\nText.", []),
        ("=====  =====\nvalue  value\n=====  =====\nvalue  value\n=====  =====\n", []),
        ("::\n\n   value\n", []),
        ("- In a list, a value.", [("value", "value")]),
    ],
)  # fmt: skip
def test_what_is_linked(text, links):
    assert linked(text) == links


def test_the_place_of_a_definition_is_the_first_use():
    doctree = publish_doctree("A *value* is a number; one value is large.")
    first = glossary_links.link_first_uses(doctree, glossary_links.spellings(FEW))
    assert first == {"value": "definition-of-value"}
    (emphasis,) = doctree.findall(nodes.emphasis)
    assert emphasis["ids"] == ["definition-of-value"]


# --- the registry


def test_no_two_terms_claim_the_same_words():
    forms = [form.lower() for e in ENTRIES.values() for form in [e["term"], *e.get("also", [])]]
    assert [form for form, count in Counter(forms).items() if count > 1] == []


def test_entries_say_no_more_than_they_may():
    allowed = {"symbol", "formula", "term", "definition", "note", "code", "shape", "also", "link", "everyday"}
    for term, entry in ENTRIES.items():
        assert set(entry) <= allowed, term
        assert entry["definition"].strip().endswith("."), term


# --- the built chapters, read by another route than the extension's

OUT = (
    "h1, h2, h3, h4, h5, table, figure, pre, dt, .cell, .admonition-this-chapter, .admonition-title, .sidebar"
)


def running_text(soup):
    """Paragraphs of a chapter's own text, without what is never linked; links to the glossary are kept."""
    article = copy.copy(soup.select_one("article.bd-article"))
    for part in article.select(OUT):
        part.decompose()
    for paragraph in article.select("p"):
        for part in paragraph.select("em, strong, code, .math, .eqno, cite, a:not(:has(> .glossary-term))"):
            part.replace_with("|")
        yield paragraph


def words_of(entry):
    """The forms of a term and their plurals, spelled by hand: the rules of English that these words need."""
    for form in [*([entry["term"]] if entry.get("link", True) else []), *entry.get("also", [])]:
        first, joint, rest = form.partition(" of ") if " of " in form else form.partition(" on ")
        several = {"y": f"{first[:-1]}ies", "s": f"{first}es" if first.endswith("ss") else first}
        yield form.lower()
        yield (several.get(first[-1], f"{first}s") + joint + rest).lower()


def occurrences(soup):
    """Each place where a term stands, in order: (term, whether it is a link to that very term)."""
    forms = {words: term for term, entry in ENTRIES.items() for words in words_of(entry)}
    everyday = {phrase.lower() for entry in ENTRIES.values() for phrase in entry.get("everyday", [])}
    longest_first = sorted([*forms, *everyday], key=len, reverse=True)
    for paragraph in running_text(soup):
        # One string for the paragraph, and for each of its characters the link that it stands in.
        text, links = "", []
        for piece in paragraph.descendants:
            if isinstance(piece, NavigableString):
                link = piece.find_parent("a")
                words = str(piece).replace("\n", " ").lower()
                text += words
                links += [link["href"].partition("#")[2].lower() if link else None] * len(words)
        found, taken = [], set()
        for words in longest_first:
            start = text.find(words)
            while start >= 0:
                end = start + len(words)
                around = text[start - 1 : start] + text[end : end + 1]
                whole = not any(letter.isalnum() or letter in "-_" for letter in around)
                if whole and taken.isdisjoint(range(start, end)):
                    taken |= set(range(start, end))
                    if words in forms:
                        found.append((start, forms[words], links[start]))
                start = text.find(words, start + 1)
        for _, term, link in sorted(found):
            yield term, link == f"term-{nodes.make_id(term)}"


def mislinked(soup):
    """Terms whose first occurrence on a page is no link to them."""
    first = {}
    for term, is_link in occurrences(soup):
        first.setdefault(term, is_link)
    return [term for term, is_link in first.items() if not is_link]


def links_of(soup):
    return soup.select("article a:has(> .glossary-term)")


def repeated(soup):
    """Entries of the glossary that a page leads to twice."""
    return [href for href, count in Counter(link["href"] for link in links_of(soup)).items() if count > 1]


@pytest.mark.parametrize("address", chapters())
def test_each_term_is_linked_where_it_stands_first(pages, address):
    assert links_of(pages[address])
    assert mislinked(pages[address]) == []


@pytest.mark.parametrize("address", chapters())
def test_no_term_is_linked_twice(pages, address):
    assert repeated(pages[address]) == []


def test_broken_pages_are_seen(pages):
    """The two tests above can fail: a link taken away, one too many, one that leads to another term."""
    page = copy.copy(pages["book/model/attention"])
    first, second = links_of(page)[:2]
    second["href"] = first["href"]
    assert repeated(page) == [first["href"]]
    assert mislinked(page) != []

    page = copy.copy(pages["book/model/attention"])
    links_of(page)[0].unwrap()
    assert len(mislinked(page)) == 1


@pytest.mark.parametrize("address", chapters())
def test_links_lead_to_their_entry_and_carry_its_definition(pages, glossary, address):
    for link in links_of(pages[address]):
        path, _, anchor = link["href"].partition("#")
        assert ((SITE / address).parent / path).resolve() == (SITE / "book/reference/glossary.html").resolve()
        entry = glossary.find("dt", id=anchor).find_next_sibling("dd").select_one("p")
        for formula in entry.select(".math"):
            formula.replace_with(formula.get_text().strip("\\()"))
        assert entry.get_text().replace("’", "'").startswith(link["title"].replace("’", "'"))


def test_entries_say_where_they_are_first_used(pages, glossary):
    """In no earlier chapter is the term linked, or in emphasis by itself; the address leads to the place."""
    order = list(pages)
    told = {}
    for item in glossary.select("dl.glossary dt"):
        link = item.find_next_sibling("dd").select_one(".first-used a")
        if link is not None:
            path, _, anchor = link["href"].partition("#")
            address = str(
                ((SITE / "book/reference") / path).resolve().relative_to(SITE.resolve()).with_suffix("")
            )
            told[item["id"]] = address
            place = pages[address].find(id=anchor)
            assert place.name == "em" or place.find_parent("a")["href"].endswith(f"#{item['id']}")
            title = pages[address].select_one("h1")
            assert link.get_text() in title.get_text()
    met = {}
    for address, page in pages.items():
        for link in links_of(page):
            met.setdefault(link["href"].partition("#")[2], address)
    assert set(met) <= set(told)
    for anchor, address in met.items():
        assert order.index(told[anchor]) <= order.index(address)


def test_everyday_phrases_still_stand_in_a_chapter():
    text = " ".join((ROOT / f"{address}.ipynb").read_text(encoding="utf-8") for address in chapters())
    words = " ".join(text.replace('\\n",\n', " ").replace('"', " ").split()).lower()
    for term, entry in ENTRIES.items():
        for phrase in entry.get("everyday", []):
            assert phrase in words, f"{term}: {phrase}"
