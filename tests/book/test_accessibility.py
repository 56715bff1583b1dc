"""The page on accessibility names a test for each claim; those that no other file tests are tested here."""

import re

import pytest
from browsing import ROOT, SITE, VIEWS, visit
from bs4 import BeautifulSoup

STATEMENT = "book/reference/accessibility"
CHAPTER = "book/model/attention"  # a short one, with formulas, sliders, proofs and solutions


@pytest.fixture(scope="module")
def page(browser, site):
    context = browser.new_context(**VIEWS["desktop"])
    page = context.new_page()
    visit(page, CHAPTER)
    yield page
    context.close()


def test_every_test_it_names_is_there():
    text = (ROOT / f"{STATEMENT}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\{testfile\}`([^`]+)`", text))
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
    claims = text.partition("## What every build")[2].partition("## What falls short")[0]
    paragraphs = re.findall(r"^: (.*?)(?=\n\n)", claims, re.M | re.S)
    assert len(paragraphs) >= 8
    assert [claim for claim in paragraphs if "{testfile}" not in claim] == []


def test_the_files_it_names_are_linked():
    soup = BeautifulSoup((SITE / f"{STATEMENT}.html").read_text(encoding="utf-8"), "html.parser")
    links = [link["href"] for link in soup.select("article a[href*='/blob/']")]
    assert links
    for link in links:
        assert (ROOT / link.partition("/blob/")[2].partition("/")[2]).is_file()


def test_formulas_are_there_as_mathml(page):
    page.wait_for_function("() => !document.querySelector('article .math:not(:has(mjx-container))')")
    formulas, hidden = page.evaluate(
        """() => {
            const all = [...document.querySelectorAll('article mjx-container')]
            const told = all.filter(each => each.querySelector('mjx-assistive-mml > math'))
            const shown = all.filter(each => each.querySelector('mjx-math[aria-hidden=true]'))
            return [[all.length, told.length], shown.length]
        }"""
    )
    assert formulas[0] > 100
    assert formulas == [formulas[0]] * 2
    assert hidden == formulas[0]


def test_the_tab_key_first_offers_a_way_to_the_content(page):
    page.keyboard.press("Tab")
    skip = page.evaluate("() => [document.activeElement.textContent.trim(), document.activeElement.hash]")
    assert skip[0] == "Skip to main content"
    assert page.locator(skip[1]).count() == 1


def test_folded_boxes_open_by_the_keyboard(page):
    folded = page.locator("article .toggle-hidden")
    before = folded.count()
    assert before > 0
    folded.first.locator("button.toggle-button").focus()
    page.keyboard.press("Enter")
    assert folded.count() == before - 1
