"""How to cite: the page agrees with the files it is made from, and these with their format."""

import re

import pytest
import yaml
from browsing import ROOT, SITE, VIEWS, visit
from bs4 import BeautifulSoup
from pybtex.database import parse_string
from verified_statements import CLAIMS, statements

import tokensel as ts

CFF = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
# Keys of the Citation File Format, version 1.2.0: at the top, and of a reference.
TOP_KEYS = """
abstract authors cff-version commit contact date-released doi identifiers keywords license license-url
message preferred-citation references repository repository-artifact repository-code title type url version
"""
REFERENCE_KEYS = """
abbreviation abstract authors collection-doi collection-title collection-type commit conference contact
copyright data-type database database-provider date-accessed date-downloaded date-published date-released
department doi edition editors editors-series end entry filename format identifiers institution isbn issn
issue issue-date issue-title journal keywords languages license license-url loc-end loc-start location
medium month nihmsid notes number number-volumes pages patent-states pmcid publisher recipients
repository repository-artifact repository-code scope section senders start status term thesis-type title
translators type url version volume volume-title year year-original
"""
TOP, REFERENCE = set(TOP_KEYS.split()), set(REFERENCE_KEYS.split())
KINDS = {"software", "book", "conference-paper"}  # those of the format that this file has


def faults(cff):
    """What the format does not allow in a citation file, in words."""
    found = [f"{key} is missing" for key in ("cff-version", "message", "title", "authors") if key not in cff]
    found += [f"unknown key {key}" for key in set(cff) - TOP]
    if cff.get("type") not in (None, "software", "dataset"):
        found.append("type must be software or dataset; a book is a preferred citation")
    for entry in [*cff.get("references", []), *filter(None, [cff.get("preferred-citation")])]:
        found += [f"unknown key {key} in a reference" for key in set(entry) - REFERENCE]
        found += [
            f"{key} is missing in a reference" for key in ("authors", "title", "type") if not entry.get(key)
        ]
        if entry.get("type") not in KINDS:
            found.append(f"unknown type {entry.get('type')}")
    return found


def test_citation_file_is_valid():
    assert faults(CFF) == []
    assert CFF["cff-version"] == "1.2.0"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", str(CFF["date-released"]))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"type": "book"}, "type must be"),
        ({"licence": "MIT"}, "unknown key licence"),
        ({"references": [{"type": "paper", "title": "T", "authors": [{"name": "A"}]}]}, "unknown type paper"),
        ({"preferred-citation": {"type": "book", "title": "T"}}, "authors is missing in a reference"),
    ],
)
def test_a_broken_citation_file_is_not_valid(change, fault):
    assert any(fault in found for found in faults(CFF | change))


def test_version_and_date_are_one():
    book = CFF["preferred-citation"]
    assert CFF["version"] == book["version"] == ts.__version__
    assert CFF["date-released"] == book["date-released"]
    assert book["year"] == CFF["date-released"].year
    paper = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    (cited,) = CFF["references"]
    for said in (
        cited["title"],
        cited["identifiers"][0]["value"],
        *(a["family-names"] for a in cited["authors"]),
    ):
        assert said in paper


@pytest.fixture(scope="module")
def cite():
    page = SITE / "book/reference/cite.html"
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").select_one("article.bd-article")


def test_the_bibtex_can_be_read_and_says_what_the_file_says(cite):
    book, paper = (parse_string(box.get_text(), "bibtex").entries for box in cite.select("pre")[:2])
    (entry,) = book.values()
    assert entry.fields["title"].strip("{}") == CFF["preferred-citation"]["title"]
    assert [str(person) for person in entry.persons["author"]] == ["{The tokensel authors}"]
    assert entry.fields["version"] == CFF["version"]
    assert entry.fields["year"] == str(CFF["preferred-citation"]["year"])
    assert str(CFF["date-released"]) in entry.fields["note"]
    assert entry.fields["howpublished"] == rf"\url{{{CFF['repository-code']}}}"
    assert [p.last_names for p in paper["wu2025attention"].persons["author"]] == [
        ["Wu"], ["Shevchenko"], ["Oymak"], ["Mondelli"]
    ]  # fmt: skip
    assert "2505.17282" in paper["wu2025attention"].fields["note"]
    assert paper["wu2025attention"].fields["year"] == str(CFF["references"][0]["year"])


def test_each_statement_has_its_origin(cite):
    """In reading order, with the number its own page gives it, and what its contract says."""
    told = [
        [cell.get_text(" ", strip=True) for cell in row.select("td")]
        for row in cite.select("table.origins tbody tr")
    ]
    links = [row.select_one("a[href]")["href"] for row in cite.select("table.origins tbody tr")]
    claims = [statement for statement in statements(ROOT) if statement.kind in CLAIMS]
    assert [link.rpartition("#")[2] for link in links] == [claim.label for claim in claims]
    for claim, (number, _, origin), link in zip(claims, told, links, strict=True):
        contract = ROOT / "tests" / "contracts" / f"test_{claim.label.replace('-', '_')}.py"
        said = origin.replace("’", "'")  # the page's typographer
        assert f'ORIGIN = "{said}"' in contract.read_text(encoding="utf-8")
        page = ((SITE / "book/reference") / link.partition("#")[0]).resolve()
        box = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").find(id=claim.label)
        assert box.select_one(".caption-number").get_text(strip=True) == number


def test_copy_buttons_work_from_disk(browser):
    context = browser.new_context(**VIEWS["desktop"])
    page = context.new_page()
    visit(page, "book/reference/cite")
    page.locator("article button.copybtn").first.click()
    page.evaluate(
        "() => document.body.append(Object.assign(document.createElement('textarea'), {id: 'paste'}))"
    )
    page.locator("#paste").focus()
    page.keyboard.press("Control+V")
    assert page.locator("#paste").input_value().startswith("@misc{tokensel,")
    context.close()


# --- notation and references


def test_each_source_is_cited_and_has_a_form_that_can_be_found():
    text = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    entries = parse_string(text, "bibtex").entries
    pages = [*(ROOT / "book").rglob("*.ipynb"), *(ROOT / "book").rglob("*.md")]
    used = set()
    for path in pages:
        found = re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", path.read_text(encoding="utf-8"))
        used |= {key.strip() for keys in found for key in keys.split(",")}
    assert used == set(entries)
    for key, entry in entries.items():
        assert entry.persons["author"], key
        assert re.fullmatch(r"(19|20)\d\d", entry.fields["year"]), key
        note = entry.fields.get("note", "")
        assert not note or re.fullmatch(r"arXiv:\d{4}\.\d{5}", note), key
        assert entry.fields.get("journal") or entry.fields.get("booktitle") or note, key
