"""Every built page in a real browser, from disk: it is quiet, asks for nothing outside, reads and moves."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import SITE, pages

# WCAG 2.1, levels A and AA, in the whole page: its content and the theme's navigation around it.
AXE = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    "resultTypes": ["violations"],
    "preload": False,
}
CONTENT = "article.bd-article"


def unfold(page):
    """Open every proof and solution, so that what is folded away is checked too."""
    page.evaluate(
        """() => {
            document.querySelectorAll('.toggle-hidden .toggle-button').forEach(button => button.click())
            document.querySelectorAll('details').forEach(details => { details.open = true })
            // What fades in is not judged half faded.
            document.getAnimations().forEach(animation => animation.finish())
        }"""
    )
    assert page.locator(f"{CONTENT} .toggle-hidden").count() == 0


def violations(page):
    unfold(page)
    found = Axe().run(page, options=AXE).response["violations"]
    return [f"{v['id']}: {node['html'][:200]}" for v in found for node in v["nodes"]]


def test_page_is_quiet(desktop):
    assert desktop.complaints == []


def test_page_asks_for_nothing_outside(desktop):
    unfold(desktop.page)
    assert desktop.requests
    assert [url for url in desktop.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_equations_render(desktop):
    unset = desktop.page.evaluate(
        """() => [...document.querySelectorAll('article .math')]
            .filter(m => !m.querySelector('mjx-container')).map(m => m.textContent)"""
    )
    assert unset == []
    # MathJax shows what it does not understand in an error box or in red, without a word in the console.
    wrong = desktop.page.evaluate(
        """() => [...document.querySelectorAll('mjx-merror, [data-mjx-error], mjx-container [style*="red"]')]
            .map(m => m.closest('.math')?.textContent ?? m.outerHTML)"""
    )
    assert wrong == []


def test_no_markup_shows(desktop):
    """Formulas and directives that were not understood would stand in the text as they were typed."""
    text = desktop.page.evaluate(
        f"""() => {{
            const copy = document.querySelector('{CONTENT}').cloneNode(true)
            copy.querySelectorAll('pre, code, .sig, script, style, .math, mjx-container')
                .forEach(part => part.remove())
            return copy.textContent
        }}"""
    )
    assert re.findall(r"\$[^\s$][^$\n]*\$|\$\$|:::|\{[a-z:]+\}`", text) == []


def test_accessible_in_the_light(desktop):
    assert violations(desktop.page) == []


def test_bars_that_unfold_are_named_as_they_are_written(desktop):
    named = desktop.page.locator(f"{CONTENT} summary[aria-label]")
    assert [bar.get_attribute("aria-label") for bar in named.all()] == []


def test_accessible_in_the_dark(dark):
    assert dark.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert violations(dark.page) == []


def content_width(page):
    return page.evaluate("() => Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")


@pytest.mark.parametrize("width", [1920, 768])
def test_other_screens_scroll_one_way_only(desktop, width):
    unfold(desktop.page)
    usual = desktop.page.viewport_size
    desktop.page.set_viewport_size({"width": width, "height": usual["height"]})
    found = content_width(desktop.page)
    desktop.page.set_viewport_size(usual)
    assert found <= width


def test_accessible_on_a_phone(phone):
    assert violations(phone.page) == []


def test_phone_scrolls_one_way_only(phone):
    unfold(phone.page)
    assert content_width(phone.page) <= 390
    # Nor may anything hang over the edge of a box that hides it, unless it can be scrolled there.
    cut = phone.page.evaluate(
        """() => {
            const scrolls = e => e.tagName !== 'ARTICLE' &&
                (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement))
            return [...document.querySelectorAll('article :is(p, li, figure, img, input, h1, h2, h3)')]
                .filter(e => e.getBoundingClientRect().right > 391 && !scrolls(e))
                .map(e => e.outerHTML.slice(0, 120))
        }"""
    )
    assert cut == []


def test_wide_equations_can_be_read_from_their_beginning(phone):
    """What hangs over the left edge of a scrolling line cannot be scrolled to."""
    unfold(phone.page)
    cut = phone.page.evaluate(
        """() => [...document.querySelectorAll('article .math')].filter(line => {
            const edge = line.getBoundingClientRect().left - 1
            const glyphs = [...line.querySelectorAll('mjx-mi, mjx-mo, mjx-mn')]
            return glyphs.map(g => g.getBoundingClientRect()).some(box => box.width && box.left < edge)
        }).map(line => line.outerHTML.slice(0, 200))"""
    )
    assert cut == []


def shown(explorer):
    """What an explorer shows now: its picture, the picture's description, the values beside the sliders."""
    picture = explorer.locator("img")
    return (
        picture.get_attribute("src"),
        picture.get_attribute("alt"),
        explorer.locator("output").all_inner_texts(),
    )


def assert_moved(before, after):
    for was, now in zip(before, after, strict=True):
        assert was != now


def test_sliders_move_by_key_and_by_pointer(desktop):
    for explorer in desktop.page.locator(".tokensel-explorer").all():
        for slider in explorer.locator("input[type=range]").all():
            slider.scroll_into_view_if_needed()
            for key in ("End", "Home"):
                before, value = shown(explorer), slider.input_value()
                slider.focus()
                slider.press(key)
                if slider.input_value() != value:  # it did not stand at that end already
                    assert_moved(before, shown(explorer))
            before = shown(explorer)
            slider.press("ArrowRight")
            assert_moved(before, shown(explorer))

            slider.press("Home")
            before, box = shown(explorer), slider.bounding_box()
            desktop.page.mouse.click(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
            assert slider.input_value() == slider.get_attribute("max")
            assert_moved(before, shown(explorer))
            # The new picture is a picture.
            assert explorer.locator("img").evaluate("img => img.decode().then(() => img.naturalWidth)") > 0


def test_sliders_move_by_touch(phone):
    for explorer in phone.page.locator(".tokensel-explorer").all():
        for slider in explorer.locator("input[type=range]").all():
            slider.scroll_into_view_if_needed()
            slider.press("Home")
            before, box = shown(explorer), slider.bounding_box()
            phone.page.touchscreen.tap(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
            assert_moved(before, shown(explorer))


def test_page_is_still_quiet_after_use(desktop):
    unfold(desktop.page)
    assert desktop.complaints == []


@pytest.mark.parametrize("address", [a for a in pages() if "/reference/" not in a and a != "book/index"])
def test_reads_without_javascript(browser, address):
    """Proofs and solutions stand open, figures and the first picture of each explorer are there."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((SITE / f"{address}.html").as_uri())
    for box in page.locator(f"{CONTENT} div.admonition").all():
        assert box.is_visible()
        assert box.bounding_box()["height"] > 40
    for picture in page.locator(f"{CONTENT} img").all():
        assert picture.is_visible()
    for slider in page.locator(".tokensel-explorer input").all():
        assert not slider.is_visible()  # it could not move anything
    context.close()


def test_search_works_from_disk(browser, site):
    context = browser.new_context()
    page = context.new_page()
    page.goto((site / "search.html").as_uri() + "?q=attention")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li a").count() >= 2
    context.close()
