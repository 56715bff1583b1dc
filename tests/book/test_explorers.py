"""The truth test: states of every explorer, drawn anew by the chapter's code, are what the browser displays.

The states are random, other ones in each run; ``TOKENSEL_SEED=…`` repeats a run, and each failure names its
seed. What was compared stands in ``_build/explorers/``, one file a page. With ``whole=True``,
`explorers.compare` runs all cells before the explorer instead of those it needs.
"""

import base64
import copy
import io
import json
import os
import secrets
from pathlib import Path

import browsing
import chapter_slice
import explorers
import nbformat
import numpy as np
import pytest
from PIL import Image

SEED = int(os.environ.get("TOKENSEL_SEED") or secrets.randbits(31))
STATES = 3
CHAPTERS = [a for a in browsing.pages() if (browsing.ROOT / f"{a}.ipynb").is_file()]


def has_explorer(address):
    notebook = nbformat.read(browsing.ROOT / f"{address}.ipynb", as_version=4)
    return any(explorers.explores(cell) for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("address", [a for a in CHAPTERS if has_explorer(a)])
def test_displayed_states_are_the_figures_drawn_anew(browser, soups, address):
    compared = explorers.compare(browser, address, SEED, STATES)
    if not compared:  # only where reviews are missing, and the page says so
        assert soups[address].find(class_="admonition-title", string="Built without these reviews")
        return
    record = browsing.SITE.parent / "explorers" / f"{address.replace('/', '-')}.json"
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps([one._asdict() for one in compared]), encoding="utf-8")
    assert [fault for one in compared for fault in one.faults] == []
    assert all(one.compared == min(STATES, one.states) for one in compared)
    assert all(len(one.sliders) <= 2 for one in compared)


# --- the test can fail ---

SHORT = "book/model/attention"


@pytest.fixture(scope="module")
def truth(browser, site, tmp_path_factory):
    """Every state of the shortest chapter: a page that may be spoilt, and the figures drawn anew."""
    folder = tmp_path_factory.mktemp("truth")
    page = browser.new_context(**browsing.VIEWS["desktop"]).new_page()
    explorers.open_page(page, SHORT, site)
    data = json.loads(page.locator(".tokensel-explorer script").first.text_content())
    page.context.close()
    positions = [[i] for i in range(len(data["states"]))]
    (anew,) = explorers.redraw(browsing.ROOT / f"{SHORT}.ipynb", [positions], folder)
    data["pictures"] = [Path(state["picture"]).read_bytes() for state in anew["states"]]
    return data, positions, anew["states"]


def spoilt_page(browser, site, spoil, data):
    """Open the page as if the build had put other data into it."""
    data = copy.deepcopy(data)
    spoil(data)
    page = browser.new_context(**browsing.VIEWS["desktop"]).new_page()
    explorers.open_page(page, SHORT, site)
    page.evaluate(
        """([data]) => {
            const root = document.querySelector('.tokensel-explorer')
            const [, code] = root.querySelectorAll('script')
            root.querySelector('script').textContent = data
            delete root.dataset.ready
            root.replaceWith(root.cloneNode(true))
            new Function(code.textContent)()
        }""",
        [json.dumps({name: value for name, value in data.items() if name != "pictures"})],
    )
    return page


def swap_frames(data):
    sources = data["sources"]
    sources[2], sources[3] = sources[3], sources[2]


def change_one_pixel(data):
    png = data["pictures"][2]
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    red, green, blue = picture.getpixel((5, 5))
    picture.putpixel((5, 5), (red ^ 1, green, blue))
    spoilt = io.BytesIO()
    picture.save(spoilt, format="PNG")
    data["sources"][2] = "data:image/png;base64," + base64.b64encode(spoilt.getvalue()).decode()


def say_another_description(data):
    data["alts"][2] += "."


def write_another_value(data):
    data["texts"][0][2] += "0"


def report_another_state(data):
    data["states"][2] = data["states"][1]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda data: None, []),
        (swap_frames, ["pixels differ"]),
        (change_one_pixel, ["1 pixels differ"]),
        (say_another_description, ["alt is"]),
        (write_another_value, ["texts is", "a screen reader hears"]),
        (report_another_state, ["state is"]),
    ],
)
def test_a_spoilt_page_is_noticed(browser, site, truth, spoil, told):
    data, positions, states = truth
    page = spoilt_page(browser, site, spoil, data)
    shown = explorers.displayed(page.locator(".tokensel-explorer").first, positions[2])
    page.context.close()
    said = list(explorers.differences(shown, states[2]))
    assert len(said) == len(told)
    assert all(words in one for words, one in zip(told, said, strict=True))


def notebook(*sources):
    cells = [nbformat.v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
    return nbformat.v4.new_notebook(cells=cells)


@pytest.mark.parametrize(
    ("sources", "kept"),
    [
        (["a = 1", "b = 2", "ts.explore(a)"], "02"),
        (["a = 1", "b = a", "c = b", "ts.explore(b)"], "013"),
        (["a = []", "a.append(1)", "print(a)", "ts.explore(a)"], "013"),
        (["a = {}", "b = a['x']", "a['x'] = 2", "ts.explore(a)"], "023"),
        (["a = {}", "del a['x']", "ts.explore(a)"], "012"),
        (["a = m()", "a.b.c += 1", "ts.explore(a)"], "012"),
        (["a = 1", "change(a)", "ts.explore(a)"], "012"),
        (["a = 1", "h = lib.fit(a)", "ts.explore(a)"], "012"),
        (["a = 1", "def f():\n    return a", "a = 2", "ts.explore(f)"], "0123"),
        (["a = 1", "def f():\n    global a\n    a = 3", "ts.explore(a)"], "012"),
        (["a = 1", "def f(a):\n    return a", "ts.explore(f)"], "12"),
        (["a = 1", "for a in c:\n    pass", "ts.explore(a)"], "012"),
        (["a = 1", "b = [a for a in c]", "ts.explore(b)"], "12"),
        (["a = 1", "for a in c:\n    b = a", "ts.explore(b)"], "12"),
        (["a = 1", "if c:\n    a = 2\nb = a", "ts.explore(b)"], "012"),
        (["ax = 1", "b = 2\nax = b\nax.plot()", "ts.explore(b)"], "12"),
        (["import numpy as np", "np.sort(b)", "a = np.zeros(2)", "ts.explore(a)"], "023"),
        (["import numpy as np\na = np.ones(2)", "np.fill(a)", "ts.explore(a)"], "012"),
    ],
)
def test_a_slice_keeps_what_binds_or_changes_a_needed_name(sources, kept):
    cells = chapter_slice.needed(notebook(*sources), explorers.explores)
    assert [cell.identity for cell in cells] == [f"c{i}" for i in kept]


def test_a_cell_left_out_by_mistake_fails_with_its_name(tmp_path, monkeypatch):
    path = browsing.ROOT / f"{SHORT}.ipynb"
    whole = chapter_slice.needed
    left_out = 1  # the cell that makes the corpus

    def careless(*given, **settings):
        cells = whole(*given, **settings)
        return cells[:left_out] + cells[left_out + 1 :]

    monkeypatch.setattr(chapter_slice, "needed", careless)
    with pytest.raises(RuntimeError, match="NameError"):
        explorers.redraw(path, [[[0]]], tmp_path)


def test_positions_are_drawn_without_repetition_from_all_states():
    for counts in ([1], [2], [7, 5]):
        seen = explorers.choose(counts, 100, np.random.default_rng(0))
        assert len({tuple(one) for one in seen}) == len(seen) == np.prod(counts)
