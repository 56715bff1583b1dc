"""Live code: what the pages carry, and one chapter tried as a reader would (``make live`` tries them all)."""

import builtins
import json
import os
import shutil
import symtable

import live
import live_code
import missing_data
import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import ROOT, pages
from test_browser import AXE, CONTENT

import tokensel

CHAPTERS = live.chapters()
CHAPTER = "book/model/attention"  # the shortest
EDITED = "editors => editors.map(editor => editor.CodeMirror.getValue())"
CARRIED = "() => JSON.parse(document.getElementById('live-code').textContent).cells"
every_chapter = pytest.mark.parametrize("address", CHAPTERS)


def code_cells(address, *, without=()):
    """The chapter's code cells but those with one of these tags."""
    notebook = nbformat.read(ROOT / f"{address}.ipynb", as_version=4)
    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and not set(without) & set(cell.metadata.get("tags", []))
    ]


# What the pages carry.


@every_chapter
def test_a_chapter_knows_where_its_kernel_comes_from(address, soups):
    data = json.loads(soups[address].find(id="live-code").string)
    owner, name = live.CONFIG["repository"]["url"].split("/")[-2:]
    assert data["binder"] == {
        "binderUrl": "https://mybinder.org",
        "repo": f"{owner}/{name}",
        "ref": live.CONFIG["repository"]["branch"],
    }
    assert data["kernel"] == {"kernelName": "python3", "path": f"{address}.ipynb"}
    assert nbformat.read(ROOT / data["kernel"]["path"], as_version=4).metadata.kernelspec.name == "python3"


@every_chapter
def test_a_chapter_carries_the_code_of_all_its_cells(address, soups):
    """But the first, which installs the package where it is missing: on Binder it is there."""
    carried = json.loads(soups[address].find(id="live-code").string)["cells"]
    boxes = soups[address].select("article div.cell")
    found = [
        box.select_one(".cell_input pre").get_text() if hidden is None else hidden
        for hidden, box in zip(carried, boxes, strict=True)
    ]
    # A page that was built without its reviews has left out the cells that show nothing but results.
    left_out = ["remove-input"] if soups[address].find(string=missing_data.TITLE) else []
    expected = code_cells(address, without=["remove-cell", *left_out])
    assert [code.strip() for code in found] == [cell.source.strip() for cell in expected]


@pytest.mark.parametrize("address", pages())
def test_only_chapters_offer_live_code(address, soups):
    offered = soups[address].select_one(".btn-launch-thebe") is not None
    assert offered == (address in CHAPTERS)
    assert (soups[address].find(id="live-code") is not None) == offered
    assert (soups[address].select_one("script[src*='live-code.js']") is not None) == offered
    # sphinx-thebe would load another version.
    text = str(soups[address])
    assert "THEBE_JS_URL" not in text
    assert "x-thebe-config" not in text
    assert "sphinx-thebe" not in text


# What cells need of each other.


def names(source):
    """Names that a cell defines at its top level, and those it takes from elsewhere."""
    used = set()

    def collect(table):
        for symbol in table.get_symbols():
            bound = symbol.is_parameter() or symbol.is_assigned() or symbol.is_imported() or symbol.is_free()
            if symbol.is_referenced() and (not bound or symbol.is_declared_global()):
                used.add(symbol.get_name())
        for child in table.get_children():
            collect(child)

    top = symtable.symtable(source, "cell", "exec")
    collect(top)
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    return defined, used


def test_what_is_no_chapter_is_told_before_anything_runs(capsys):
    said = live.main(["book/model/attention", "book/reference/notation"])
    assert said.startswith("no chapter: book/reference/notation. CHAPTERS may hold book/")
    assert capsys.readouterr().out == ""


def test_names_of_a_cell():
    source = """
import numpy as np
def f(x, scale=a):
    return x * b + np.e
c = [d for d in range(e)]
print(f(c))
"""
    defined, used = names(source)
    assert defined == {"np", "f", "c"}
    assert used - set(dir(builtins)) - defined == {"a", "b", "e"}


@every_chapter
def test_names_come_from_cells_above_that_live_code_runs(address):
    """It leaves out the first, which installs; a cell without code to see runs with the shown one before."""
    known = set(dir(builtins)) | {"display", "get_ipython"}
    cells = code_cells(address, without=["remove-cell"])
    assert "remove-input" not in cells[0].metadata.get("tags", [])
    for cell in cells:
        defined, used = names(cell.source)
        assert used - defined - known == set(), cell.id
        known |= defined


# One chapter, live.


@pytest.fixture(scope="module")
def npm():
    if shutil.which("npm") is None:
        if os.environ.get("CI"):
            pytest.fail("no npm here, and under CI live code must be tested with the thebe that pages load")
        pytest.skip("no npm on this machine to fetch thebe with")


@pytest.fixture(scope="module")
def server(npm):
    with live.jupyter_server() as running:
        yield running


@pytest.fixture(scope="module")
def run(browser, site, server):
    """The chapter after Live code and Run all."""
    page = live.LivePage(browser, CHAPTER, server)
    page.press()
    page.wait_for("ready")
    page.held = page.page.locator(".CodeMirror").evaluate_all(EDITED)
    page.run_all()
    yield page
    page.close()


def test_the_files_of_pages_are_in_the_packages(npm):
    for file in live_code.FILES.values():
        package, _, path = file.partition("/")
        folder = live.package(package, live_code.PACKAGES[package])
        assert json.loads((folder / "package.json").read_text())["version"] == live_code.PACKAGES[package]
        assert (folder / path).is_file()


def test_every_cell_shows_live_what_the_book_shows(run):
    assert list(live.faults(run)) == []
    assert any(cell["formulas"] for cell in run.in_the_book)
    assert any(cell["pictures"] for cell in run.in_the_book)
    # The kernel's, not the book's.
    assert run.page.locator(".tokensel-explorer").count() == 0
    assert run.page.locator(".bd-article .cell_output > .output").count() == 0


def test_nothing_is_asked_of_the_network_before_the_press(run):
    assert run.before == []
    assert set(run.after) == {
        *map(live_code.address, live_code.FILES.values()),
        live.binder_address(),
        live.REQUIRE_JS,
    }


def test_editors_hold_the_code(run):
    expected = code_cells(CHAPTER, without=["remove-cell", "remove-input"])
    assert run.held == [cell.source.strip() for cell in expected]


def test_captions_stay(run):
    captions = run.page.locator("article figure:has(.live-output) figcaption")
    assert captions.count() == len(code_cells(CHAPTER)) - len(
        [cell for cell in code_cells(CHAPTER) if "figure" not in cell.metadata.get("mystnb", {})]
    )


def test_live_sliders_draw(run):
    before, after = run.move_slider()
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_live_play_buttons_draw(run):
    """A script that draws icons anew would take away those that these buttons change: then nothing moves."""
    code = """
def draw(k):
    figure, ax = plt.subplots(figsize=(3, 1))
    ax.plot([0, k])
    return figure
ts.explore(draw, alt="A line that ends at {k}", k={"values": [1, 2, 3], "time": True})
"""
    cell = run.page.locator("article div.cell").nth(1)
    cell.locator(".CodeMirror").evaluate("(e, code) => e.CodeMirror.setValue(code)", code)
    cell.get_by_role("button", name="Run").click()
    cell.get_by_alt_text("A line that ends at 1").wait_for()
    cell.get_by_role("button", name="Play or pause").click()
    cell.get_by_alt_text("A line that ends at 3").wait_for()
    cell.get_by_role("slider", name="k").press("Home")
    cell.get_by_alt_text("A line that ends at 1").wait_for()
    assert run.complaints == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_live_page_is_accessible(run, mode):
    run.page.evaluate("mode => { document.documentElement.dataset.theme = mode }", mode)
    run.page.locator(f"{CONTENT} details").evaluate_all("all => all.forEach(d => { d.open = true })")
    run.page.wait_for_timeout(300)
    found = Axe().run(run.page, context=CONTENT, options=AXE).response["violations"]
    assert [f"{v['id']}: {node['html'][:200]}" for v in found for node in v["nodes"]] == []


def test_changed_code_runs(run):
    editor = run.page.locator(".thebe-cell").first
    editor.locator(".CodeMirror").click()
    run.page.keyboard.press("Control+End")
    run.page.keyboard.type("\nprint(ts.__version__, 6 * 7)")
    run.page.keyboard.press("Shift+Enter")
    shown = run.page.locator("article div.cell").first.locator(".live-output")
    shown.get_by_text(f"{tokensel.__version__} 42").wait_for()
    run.page.keyboard.press("Escape")  # a way out of the editor without a pointer
    assert run.page.evaluate("() => document.activeElement.closest('.CodeMirror')") is None


def test_computed_sentences_follow_the_cell_above(run):
    """Their code is not shown, so nobody could run it."""
    hidden = next(i for i, code in enumerate(run.page.evaluate(CARRIED)) if code is not None)
    cells = run.page.locator("article div.cell")
    before = cells.nth(hidden).evaluate(live.SHOWN)
    assert before["text"]
    run.page.evaluate("i => thebe.notebook.cells[i].clear()", hidden)
    assert cells.nth(hidden).evaluate(live.SHOWN)["text"] == ""
    above = run.page.evaluate(CARRIED)[:hidden].count(None) - 1
    run.page.locator(".thebe-run-button").nth(above).click()
    cells.nth(hidden).locator(".live-output p").first.wait_for()
    assert cells.nth(hidden).evaluate(live.SHOWN)["text"] == before["text"]


def test_an_error_is_told_and_ends_run_all(run):
    editor = run.page.locator(".CodeMirror").nth(1)
    editor.evaluate("e => e.CodeMirror.setValue('review = 1 / 0')")
    run.run_all()
    assert run.status().startswith("Cell 2 of ")
    assert "error" in run.status()
    assert run.outputs()[1][-1]["ename"] == "ZeroDivisionError"


def test_restart_forgets(run):
    run.page.get_by_role("button", name="Restart").click()
    run.page.get_by_text("Restarted.").wait_for()
    editor = run.page.locator(".CodeMirror").nth(1)
    editor.evaluate("e => e.CodeMirror.setValue('ts')")
    run.page.locator(".thebe-run-button").nth(1).click()
    run.page.locator("article div.cell").nth(1).get_by_text("NameError").first.wait_for()
    assert run.status().startswith("Restarted.")


def test_a_kernel_that_goes_away_is_told(run):
    run.server.end_sessions()
    run.wait_for("gone")


# Without a connection, and without Binder.


@pytest.fixture
def alone(browser, site):
    page = live.LivePage(browser, CHAPTER)
    yield page
    page.close()


def assert_as_it_was(page):
    assert page.shown() == page.in_the_book
    assert page.page.locator(".CodeMirror, .live-output").count() == 0
    slider = page.page.locator(".tokensel-explorer input").first
    before = page.page.locator(".tokensel-explorer img").get_attribute("src")
    slider.press("ArrowRight")
    assert page.page.locator(".tokensel-explorer img").get_attribute("src") != before


def test_offline_it_says_so_and_leaves_the_page_as_it_was(alone):
    alone.open_menu()
    alone.page.keyboard.press("Escape")
    assert alone.before == []
    alone.press()
    alone.wait_for("failed")
    assert "connection" in alone.status()
    assert "unpkg.com" in alone.status()
    assert_as_it_was(alone)
    assert alone.complaints == []


def test_when_binder_fails_it_can_be_tried_again(alone, server):
    alone.offline = False
    alone.press()
    alone.wait_for("failed")
    assert "mybinder.org" in alone.status()
    assert "Could not resolve ref" in alone.status()
    assert_as_it_was(alone)
    alone.server = server
    alone.press()
    alone.wait_for("ready")
    assert alone.complaints == []


def test_by_keyboard_alone(alone, server):
    alone.offline, alone.server = False, server
    keys = alone.page.keyboard
    alone.page.get_by_role("button", name="Launch interactive content").focus()
    keys.press("Enter")
    for _ in range(5):
        keys.press("Tab")
        if alone.page.evaluate("() => document.activeElement.matches('.btn-launch-thebe')"):
            break
    alone.pressed = 0
    keys.press("Enter")
    alone.wait_for("ready")
    for name in ("Run all", "Restart"):
        keys.press("Tab")
        assert alone.page.evaluate("() => document.activeElement.textContent") == name
