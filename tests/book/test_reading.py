"""How a page comes up: what is on the screen first, without jumps, and all of it on paper and for the ear."""

import json
import re

import pytest
from browsing import SITE, VIEWS, pages

HOLDS_STILL = 0.1  # Web Vitals call a cumulative layout shift up to this "good"
# Before anything of the page runs: note how the page comes up.
NOTES = """
    window.notes = {shifts: 0, first: null, moment: null}
    new PerformanceObserver(list => list.getEntries().forEach(entry => { notes.shifts += entry.value }))
        .observe({type: 'layout-shift', buffered: true})
    const unset = () => [...document.querySelectorAll('article .math:not(:has(mjx-container))')]
    const onScreen = math => {
        const box = math.getBoundingClientRect()
        return box.width && box.top < innerHeight && box.bottom > 0
    }
    const look = () => {
        const left = unset()
        const begun = document.querySelector('mjx-container') && document.readyState !== 'loading'
        if (begun && !left.some(onScreen)) notes.first = left.length
        else requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
"""
# Without the browser's own care for what is read, as in Safari.
UNANCHORED = """
    const supports = CSS.supports.bind(CSS)
    CSS.supports = (...what) => what[0] !== 'overflow-anchor' && supports(...what)
    document.addEventListener('DOMContentLoaded', () => {
        document.documentElement.style.overflowAnchor = document.body.style.overflowAnchor = 'none'
    })
"""
PRINTED_AT_ONCE = """
    const print = () => {
        if (!document.querySelector('mjx-container')) return setTimeout(print)
        const before = unset().length
        dispatchEvent(new Event('beforeprint'))
        notes.moment = [before, unset().length]
    }
    setTimeout(print)
"""


def equations(address):
    return len(re.findall('class="math ', (SITE / f"{address}.html").read_text(encoding="utf-8")))


HEAVIEST = sorted(pages(), key=equations)[-2:] if (SITE / f"{pages()[0]}.html").is_file() else []


@pytest.fixture
def opened(site, browser):
    """A function that opens a page in a view, with scripts that run before its own."""
    contexts = []

    def open_page(address, view, *scripts, anchor=""):
        contexts.append(browser.new_context(**VIEWS[view]))
        page = contexts[-1].new_page()
        page.requests = []
        page.on("request", lambda request: page.requests.append(request.url))
        page.add_init_script("{" + NOTES + "".join(scripts) + "}")
        page.goto((site / f"{address}.html").as_uri() + anchor, wait_until="load")
        page.evaluate("() => MathJax.startup.promise.then(() => true)")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("view", ["desktop", "phone"])
@pytest.mark.parametrize("address", HEAVIEST)
def test_the_screen_comes_first_and_holds_still(opened, address, view):
    page = opened(address, view)
    total = equations(address)
    # When the first screen was typeset, most of the page was not yet.
    assert page.evaluate("() => notes.first") > total / 2
    assert page.locator("article .math:not(:has(mjx-container))").count() == 0
    assert page.evaluate("() => notes.shifts") <= HOLDS_STILL


@pytest.mark.parametrize("scripts", [(), (UNANCHORED,)], ids=["anchored", "unanchored"])
@pytest.mark.parametrize("address", HEAVIEST)
def test_an_address_leads_to_its_place(opened, soups, address, scripts):
    """A link to a statement shows it, and it stays there while the equations above it grow."""
    headings = [heading.parent["id"] for heading in soups[address].select("article section > h2")]
    target = headings[len(headings) * 2 // 3]
    page = opened(address, "phone", *scripts, anchor=f"#{target}")
    page.wait_for_timeout(200)
    top = page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", target)
    assert 0 <= top <= 200
    assert page.evaluate("() => scrollY") > 3000


def test_paper_has_all_equations(opened):
    page = opened(HEAVIEST[-1], "desktop", PRINTED_AT_ONCE)
    page.wait_for_function("() => notes.moment")
    before, after = page.evaluate("() => notes.moment")
    assert before > 0  # else nothing was tried
    assert after == 0


def test_equations_can_be_heard(opened):
    page = opened(HEAVIEST[-1], "desktop")
    assert page.locator("article mjx-container").count() == equations(HEAVIEST[-1])
    assert page.locator("article mjx-container:not(:has(mjx-assistive-mml > math))").count() == 0


def pictures(explorer):
    """The addresses of an explorer's pictures by state, and which state it shows first."""
    data = json.loads(explorer.select_one('script[type="application/json"]').string)
    first = data["sources"].index(None)
    data["sources"][first] = explorer.img["src"]
    return data["sources"], first, data["states"]


def test_the_first_press_needs_no_file_and_most_frames_are_files(soups):
    explorers = [
        (address, *pictures(explorer))
        for address, soup in soups.items()
        for explorer in soup.select(".tokensel-explorer")
    ]
    assert explorers
    for address, sources, first, states in explorers:
        # Written out by hand: one slider differs, and no value of it lies between the two.
        values = {name: [*dict.fromkeys(state[name] for state in states)] for name in states[0]}
        for source, state in zip(sources, states, strict=True):
            places = [(values[n].index(state[n]), values[n].index(states[first][n])) for n in values]
            near = sum(abs(here - there) for here, there in places) <= 1
            assert source.startswith("data:image/png;base64,") == near, (address, state)
            if not near:
                frame = (SITE / address).parent / source
                assert frame.read_bytes().startswith(b"\x89PNG"), (address, source)


def test_frames_are_fetched_before_they_are_asked_for(opened, soups):
    address = "book/model/attention"
    page = opened(address, "desktop")
    page.wait_for_timeout(500)
    fetched = {url.rpartition("/")[2] for url in page.requests}
    sources, *_ = pictures(soups[address].select_one(".tokensel-explorer"))
    files = {source.rpartition("/")[2] for source in sources if not source.startswith("data:")}
    assert files
    assert files <= fetched


def test_icons_show_without_a_script(opened, soups):
    for address, soup in soups.items():
        assert not soup.select('script[src*="fontawesome"]'), address
    page = opened("book/model/attention", "desktop")
    blank = page.evaluate(
        """() => [...document.querySelectorAll('[class*="fa-"]')]
            .filter(i => getComputedStyle(i, '::before').content === 'none').map(i => i.outerHTML)"""
    )
    assert blank == []
    assert page.evaluate("() => document.fonts.check('900 16px \\'Font Awesome 6 Free\\'')")
