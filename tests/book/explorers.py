"""Compare what explorers display in the browser with figures that the chapter's code draws anew.

``compare(browser, address)`` opens a built page, moves its sliders by keyboard to random positions, and reads
what is displayed. A fresh process, which knows nothing of the build's outputs, runs the cells that the
explorers need and draws the same positions. Pixels, values, descriptions and states must agree.
"""

import base64
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import browsing
import chapter_slice
import nbformat
import numpy as np
from PIL import Image

REDRAW = Path(__file__).with_name("redraw.py")
ORIGIN = "http://book.test"
# The picture as the browser has decoded it, not as the page's source spells it.
READ = """async img => {
    await img.decode()
    const canvas = document.createElement('canvas')
    canvas.width = img.naturalWidth
    canvas.height = img.naturalHeight
    const context = canvas.getContext('2d', {colorSpace: 'srgb'})
    context.drawImage(img, 0, 0)
    return canvas.toDataURL('image/png')
}"""


class Compared(NamedTuple):
    """One explorer: its sliders' names, its number of states, a play button?, states compared, faults."""

    sliders: tuple
    states: int
    plays: bool
    compared: int
    faults: tuple


def explores(cell):
    return "ts.explore(" in cell.source


def choose(counts, states, random):
    """Different random positions of the sliders, as many as asked or as there are."""
    total = int(np.prod(counts))
    chosen = random.choice(total, size=min(states, total), replace=False)
    return [[int(i) for i in np.unravel_index(state, counts)] for state in chosen]


def open_page(page, address, site):
    """Open a built page under an address that lets its pictures be read back; from disk it would not."""

    def answer(route):
        route.fulfill(path=site / unquote(urlsplit(route.request.url).path).lstrip("/"))

    page.route(f"{ORIGIN}/**", answer)
    page.goto(f"{ORIGIN}/{address}.html")


def displayed(explorer, positions):
    """Move the sliders there by keyboard; return what is displayed."""
    for slider, position in zip(explorer.locator("input[type=range]").all(), positions, strict=True):
        slider.focus()
        slider.press("Home")
        for _ in range(position):
            slider.press("ArrowRight")
    img = explorer.locator("img")
    data = img.evaluate(READ).removeprefix("data:image/png;base64,")
    return {
        "pixels": pixels(base64.b64decode(data)),
        "visible": img.is_visible(),
        "alt": img.get_attribute("alt"),
        "texts": explorer.locator("output").all_inner_texts(),
        "spoken": [s.get_attribute("aria-valuetext") for s in explorer.locator("input").all()],
        "state": json.loads(explorer.get_attribute("data-state")),
    }


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def redraw(notebook_path, positions, folder, whole=False):
    """Draw the positions of each explorer anew in a fresh process: those it needs, or all cells."""
    notebook = nbformat.read(notebook_path, as_version=4)
    cells = chapter_slice.needed(notebook, explores, whole=whole)
    order = {
        "folder": str(notebook_path.parent),
        "cells": [{"identity": cell.identity, "code": cell.code} for cell in cells],
        "positions": positions,
    }
    path = Path(folder) / "order.json"
    path.write_text(json.dumps(order), encoding="utf-8")
    # As the build runs a chapter.
    like_the_build = {"OMP_NUM_THREADS": "1", "TOKENSEL_STATIC": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", REDRAW, path],
        env=os.environ | like_the_build,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"{notebook_path.name} cannot be drawn anew:\n{done.stderr[-3000:]}")
    return json.loads((path.parent / "states.json").read_text(encoding="utf-8"))


def differences(shown, anew):
    """What the page displays otherwise than the figure drawn anew says, in words."""
    truth = pixels(Path(anew["picture"]).read_bytes())
    if not shown["visible"]:
        yield "the picture is not visible"
    if shown["pixels"].shape != truth.shape:
        yield f"the picture measures {shown['pixels'].shape}, drawn anew {truth.shape}"
    elif (wrong := (shown["pixels"] != truth).any(axis=-1).sum()) > 0:
        yield f"{wrong} pixels differ"
    for part in ("alt", "texts", "state"):
        if shown[part] != anew[part]:
            yield f"{part} is {shown[part]!r}, drawn anew {anew[part]!r}"
    if shown["spoken"] != anew["texts"]:
        yield f"a screen reader hears {shown['spoken']!r} for {anew['texts']!r}"


def compare(browser, address, seed, states=3, site=None, whole=False):
    """Compare states of every explorer of a built page, chosen by the seed; a list of `Compared`."""
    random = np.random.default_rng(seed)
    site = site or browsing.SITE
    context = browser.new_context(**browsing.VIEWS["desktop"])
    try:
        page = context.new_page()
        open_page(page, address, site)
        found = page.locator(".tokensel-explorer").all()
        if not found:
            return []
        counts = [[int(s.get_attribute("max")) + 1 for s in e.locator("input").all()] for e in found]
        positions = [choose(c, states, random) for c in counts]
        shown = [[displayed(e, p) for p in chosen] for e, chosen in zip(found, positions, strict=True)]
        names = [[s.get_attribute("data-name") for s in e.locator("input").all()] for e in found]
        plays = [e.locator("button").count() > 0 for e in found]
    finally:
        context.close()
    with tempfile.TemporaryDirectory() as folder:
        anew = redraw(browsing.ROOT / f"{address}.ipynb", positions, folder, whole)
        if len(anew) != len(found):
            raise RuntimeError(f"{address} displays {len(found)} explorers, but its code makes {len(anew)}")
        compared = []
        for i, truth in enumerate(anew):
            faults = []
            if (names[i], counts[i]) != (truth["names"], truth["counts"]):
                faults.append(f"sliders {names[i]} of {counts[i]}, drawn anew {truth['names']}")
            for k, state in enumerate(truth["states"]):
                where = f"{address}, explorer {i + 1}, {state['state']} (seed {seed})"
                faults += [f"{where}: {what}" for what in differences(shown[i][k], state)]
            total = int(np.prod(counts[i]))
            compared.append(Compared(tuple(names[i]), total, plays[i], len(truth["states"]), tuple(faults)))
    return compared
