"""Explorers and highlighted texts in a real browser: they move, say so, and do nothing else."""

import base64
import io
import json

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

from tokensel import plotting
from tokensel.explorer import explore, frame
from tokensel.highlighting import highlight

K = [1, 2, 5, 9]
SCALE = [0.5, 1.0]
# WCAG 2.1, levels A and AA.
AXE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
REVIEW = (
    "Superb.<br /><br />Never dull: <script>window.obeyed = 'script'</script>"
    "<img src=x onerror=\"window.obeyed = 'image'\"> </p></div></script> and Supercalifragilistic"
    "expialidociousandsoonandsoonandsoonandsoon long."
)


def draw(k, scale):
    with mpl.rc_context():
        plotting.use_style()
        figure, ax = plt.subplots()
        plotting.attention_bars(list("abc"), np.array([1, k, 3]) * scale, values=[1, -1, 0], ax=ax)
        ax.set_ylim(0, 10)
    return figure


@pytest.fixture(scope="module")
def shown():
    """Two explorers, the first of which the page holds twice, and texts in each of their colours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENSEL_STATIC", "1")
        k = {"values": K, "initial": 5, "label": "tokens k", "time": True}
        first = explore(draw, alt="bars up to {k} at {scale}", k=k, scale=SCALE)
        other = explore(lambda k: draw(k, 1), alt="bars up to {k}", k=K)
    weights = {"superb": 0.5, "dull": 0.3, "and": 0.2, "window": 0.01}
    texts = [
        highlight(REVIEW, weights),
        highlight(REVIEW, weights, values={"superb": 1, "dull": -1}, caption="<b>A review</b>"),
    ]
    return [first, first, other, *texts]


@pytest.fixture(scope="module")
def addresses(shown, tmp_path_factory):
    """A page as the book's theme would make it, in the light and in the dark."""
    folder = tmp_path_factory.mktemp("pages")
    cells = "".join(f'<div class="output text_html">{thing._repr_html_()}</div>' for thing in shown)
    for theme, ink, paper in (("light", "#222832", "#fff"), ("dark", "#ced6dd", "#14181e")):
        (folder / f"{theme}.html").write_text(
            f'<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">'
            '<title>Page</title><link rel="icon" href="data:,">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>body{{color:{ink};background:{paper};font-family:sans-serif;margin:16px}}</style></head>"
            f"<body><main><h1>Page</h1>{cells}</main></body></html>",
            encoding="utf-8",
        )
    return {theme: (folder / f"{theme}.html").as_uri() for theme in ("light", "dark")}


@pytest.fixture(scope="module")
def address(addresses):
    return addresses["light"]


class Visit:
    """An open page, and what it asked for and complained about."""

    def __init__(self, browser, address, **options):
        self.page = browser.new_context(**options).new_page()
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.clock.install(time=0)
        self.page.goto(address)

    def explorer(self, number):
        return Explorer(self.page.locator(".tokensel-explorer").nth(number))


class Explorer:
    def __init__(self, root):
        self.root = root
        self.sliders = root.locator("input")
        self.image = root.locator("img")
        self.button = root.get_by_role("button")

    def state(self):
        return json.loads(self.root.get_attribute("data-state"))

    def says(self):
        return self.root.locator("output").all_text_contents()

    def check(self, k, scale):
        """Everything in the page tells of this state, and the picture is the figure drawn anew."""
        assert self.state() == {"k": k, "scale": scale}
        assert self.says() == [str(k), f"{scale:g}"]
        assert self.image.get_attribute("alt") == f"bars up to {k} at {scale}"
        assert [s.get_attribute("aria-valuetext") for s in self.sliders.all()] == self.says()
        source = self.image.get_attribute("src").removeprefix("data:image/png;base64,")
        assert base64.b64decode(source) == frame(draw(k, scale))

    def pixels(self):
        return np.asarray(Image.open(io.BytesIO(self.image.screenshot())).convert("RGB")).astype(int)


@pytest.fixture
def visit(browser, address):
    visit = Visit(browser, address, viewport={"width": 1000, "height": 900}, has_touch=True)
    yield visit
    assert visit.complaints == []
    assert [url[:5] for url in visit.requests if url != address and not url.startswith("data:")] == []
    assert visit.page.evaluate("window.obeyed") is None
    visit.page.context.close()


def test_moves_by_key(visit):
    explorer = visit.explorer(0)
    explorer.check(5, 0.5)
    before = explorer.pixels()
    explorer.sliders.first.focus()
    visit.page.keyboard.press("ArrowRight")
    explorer.check(9, 0.5)
    assert (abs(explorer.pixels() - before).max(axis=-1) > 100).any()
    visit.page.keyboard.press("ArrowRight")
    explorer.check(9, 0.5)
    visit.page.keyboard.press("Home")
    explorer.check(1, 0.5)
    visit.page.keyboard.press("Tab")  # to the button
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("End")
    explorer.check(1, 1.0)


def test_moves_by_pointer(visit):
    explorer = visit.explorer(0)
    slider = explorer.sliders.first
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    height = box["y"] + box["height"] / 2
    visit.page.mouse.move(box["x"] + box["width"] * 2 / 3, height)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + 2, height, steps=5)
    visit.page.mouse.up()
    explorer.check(1, 0.5)
    visit.page.mouse.click(box["x"] + box["width"] - 3, height)
    explorer.check(9, 0.5)


def test_moves_by_touch(visit):
    explorer = visit.explorer(0)
    slider = explorer.sliders.nth(1)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    visit.page.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    explorer.check(5, 1.0)


def test_every_state_is_the_figure_drawn_anew(visit):
    explorer = visit.explorer(0)
    for i, k in enumerate(K):
        for j, scale in enumerate(SCALE):
            explorer.sliders.first.fill(str(i))
            explorer.sliders.nth(1).fill(str(j))
            explorer.check(k, scale)


def test_explorers_on_one_page_do_not_meddle(visit):
    visit.explorer(1).sliders.first.fill("0")
    visit.explorer(1).check(1, 0.5)
    visit.explorer(0).check(5, 0.5)
    assert visit.explorer(2).state() == {"k": 1}
    assert visit.page.evaluate("document.querySelectorAll('[id]').length") == 0


def test_each_slider_has_a_name_and_a_live_value(visit):
    explorer = visit.explorer(0)
    assert explorer.root.get_by_role("slider", name="tokens k", exact=True).count() == 1
    assert explorer.root.get_by_role("slider", name="scale", exact=True).count() == 1
    assert explorer.root.get_attribute("aria-label") == "tokens k, scale"
    assert explorer.root.locator("output[aria-live=off]").count() == 2  # the slider says the value itself


def test_a_screen_reader_hears_where_the_sliders_rest(visit):
    explorer, clock = visit.explorer(0), visit.page.clock
    said = explorer.root.locator("[aria-live=polite]")
    clock.pause_at(10**6)
    assert said.text_content() == ""
    explorer.sliders.first.fill("0")
    clock.run_for(500)
    explorer.sliders.first.fill("1")
    clock.run_for(900)
    assert said.text_content() == ""  # not at each step
    clock.run_for(200)
    assert said.text_content() == "bars up to 2 at 0.5"
    explorer.button.click()
    clock.run_for(550)
    assert said.text_content() == "bars up to 2 at 0.5"  # not while it plays
    clock.run_for(5000)
    assert said.text_content() == "bars up to 9 at 0.5"  # but where it ends
    explorer.sliders.first.fill("0")
    explorer.button.click()
    explorer.button.click()
    clock.run_for(1100)
    assert said.text_content() == "bars up to 2 at 0.5"  # or is stopped


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("forced", ["none", "active"])
def test_keyboard_focus_is_seen(browser, addresses, theme, forced):
    visit = Visit(browser, addresses[theme], forced_colors=forced)
    explorer = visit.explorer(0)
    for part in (explorer.sliders.first, explorer.button):
        visit.page.keyboard.press("Tab")
        assert part.evaluate("e => e === document.activeElement")
        outline = part.evaluate("e => [getComputedStyle(e).outlineStyle, getComputedStyle(e).outlineWidth]")
        assert outline == ["solid", "3px"]
    visit.page.context.close()


@pytest.mark.parametrize("width", [1000, 640, 320])  # 320: a window of 1280 at 400 %
def test_targets_are_large_and_inside_the_page(browser, address, width):
    visit = Visit(browser, address, viewport={"width": width, "height": 700}, forced_colors="active")
    assert visit.page.evaluate("document.documentElement.scrollWidth") == width
    for part in visit.page.locator(".tokensel-row :is(input, button)").all():
        box = part.bounding_box()
        assert min(box["width"], box["height"]) >= 24
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    visit.page.context.close()


def test_plays_only_when_asked_and_stops_at_the_end(visit):
    explorer, clock = visit.explorer(0), visit.page.clock
    clock.pause_at(10**6)  # from here, time passes only when told to
    clock.run_for(5000)
    explorer.check(5, 0.5)
    explorer.sliders.first.fill("0")
    assert explorer.button.text_content() == "Play"
    explorer.button.click()
    assert explorer.button.text_content() == "Pause"
    explorer.check(2, 0.5)
    clock.run_for(600)
    explorer.check(5, 0.5)
    explorer.button.click()
    clock.run_for(5000)
    explorer.check(5, 0.5)
    explorer.sliders.first.fill("0")
    explorer.button.click()
    clock.run_for(5000)
    explorer.check(9, 0.5)
    assert explorer.button.text_content() == "Play"
    explorer.button.click()
    explorer.check(1, 0.5)  # from the start again
    explorer.sliders.first.fill("1")
    clock.run_for(5000)
    explorer.check(2, 0.5)  # a reader's hand stops it


def test_steps_where_the_reader_wants_less_motion(browser, address):
    visit = Visit(browser, address, reduced_motion="reduce")
    explorer = visit.explorer(0)
    assert explorer.button.text_content() == "Step"
    explorer.sliders.first.fill("0")
    explorer.button.click()
    visit.page.clock.run_for(5000)
    explorer.check(2, 0.5)
    visit.page.context.close()


def test_shows_its_first_state_without_javascript(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    explorer = Explorer(page.locator(".tokensel-explorer").first)
    explorer.check(5, 0.5)
    assert explorer.pixels().std() > 0
    assert not any(slider.is_visible() for slider in explorer.sliders.all())
    assert explorer.button.count() == 0
    note = explorer.root.locator("noscript p")
    assert note.is_visible()
    assert note.text_content() == "This figure's sliders need JavaScript. It shows tokens k 5, scale 0.5."
    context.close()


def test_prints_the_current_state(visit):
    explorer = visit.explorer(0)
    explorer.sliders.first.fill("0")
    visit.page.emulate_media(media="print")
    explorer.check(1, 0.5)
    assert explorer.image.is_visible()
    assert not any(slider.is_visible() for slider in explorer.sliders.all())
    assert all(output.is_visible() for output in explorer.root.locator("output").all())


def test_text_of_a_review_is_only_shown(visit):
    text = visit.page.locator(".tokensel-text").first
    assert text.evaluate("p => p.textContent") == REVIEW.replace("<br />", "\n")
    assert text.evaluate("p => [...new Set([...p.querySelectorAll('*')].map(e => e.tagName))]") == ["MARK"]
    assert visit.page.locator(".tokensel-caption").text_content() == "<b>A review</b>"
    # "Superb." stands on a line of its own, as the review's <br /> asks.
    superb, dull = (text.get_by_text(word, exact=True).bounding_box() for word in ("Superb", "dull"))
    assert dull["y"] - superb["y"] > 1.5 * superb["height"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessible(browser, addresses, theme):
    visit = Visit(browser, addresses[theme])
    found = Axe().run(visit.page, options=AXE).response["violations"]
    assert [f"{v['id']}: {node['html'][:200]}" for v in found for node in v["nodes"]] == []
    visit.page.context.close()


def test_phone_scrolls_one_way_only(browser, address):
    visit = Visit(browser, address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 390
    for part in visit.page.locator(".tokensel-explorer, .tokensel-explorer *, .tokensel-highlight *").all():
        if box := part.bounding_box():
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
    visit.page.context.close()
