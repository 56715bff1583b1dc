"""How soon is a page of the book readable, and its sliders alive, on a phone with a middling connection?

Needs a built book and Chromium. ``python -m benchmarks.pages 5 book/text/imdb`` loads that page five times.

The connection is WebPageTest's "4G", 9 Mbit/s and 170 ms until an answer begins, and the processor is slowed
down four times. A server on this machine answers, compressing text as GitHub Pages does; every load starts
with an empty cache. A *bare page*, the same theme around a heading and one paragraph, is loaded in turn with
the others, so that whatever else the machine does falls on all of them.
"""

import functools
import gzip
import json
import mimetypes
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from playwright.sync_api import sync_playwright

from benchmarks import measure

sys.path.insert(0, "book/_ext")
sys.path.insert(0, "tests/book")  # what the tests of the site look at pages with

import browsing
from test_browser import unfold, violations

from conftest import Visit

FIRST = next(address for address in browsing.pages() if address.count("/") == 2)
BARE = FIRST.rpartition("/")[0] + "/bare"
BETWEEN_BARE_PAGES = 3
NETWORK = {"offline": False, "latency": 170, "downloadThroughput": 9e6 / 8, "uploadThroughput": 9e6 / 8}
SLOWED = 4
COMPRESSED = (".html", ".css", ".js", ".svg", ".json", ".txt")

# Runs in the page before anything of its own. Times are milliseconds since the page was asked for.
WATCH = """
    const seen = window.seen = {painted: null, typeset: null, pressed: {}, busy: [], shifts: 0}
    const text = () => [document.querySelector('article h1'), document.querySelector('article p')]
    const mark = () => text().forEach(part => part && part.setAttribute('elementtiming', part.tagName))
    new MutationObserver(mark).observe(document, {childList: true, subtree: true})
    const watch = (type, see) =>
        new PerformanceObserver(list => list.getEntries().forEach(see)).observe({type, buffered: true})
    const painted = {}
    watch('element', entry => {
        painted[entry.identifier] ??= entry.renderTime
        if (painted.H1 && painted.P) seen.painted ??= Math.max(painted.H1, painted.P)
    })
    watch('longtask', entry => seen.busy.push([entry.startTime + entry.duration, entry.duration]))
    watch('layout-shift', entry => { seen.shifts += entry.value })
    const first = () => [...document.querySelectorAll('article .math')].filter(math => {
        const box = math.getBoundingClientRect()
        return box.width && box.top < innerHeight && box.bottom > 0
    })
    const look = () => {
        const set = seen.painted !== null && document.fonts.status === 'loaded'
            && document.readyState !== 'loading' && first().every(math => math.querySelector('mjx-container'))
        if (set) seen.typeset = performance.now()
        else requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
    // A press that changes nothing is taken back: the slider was not alive yet.
    let waiting = false
    const press = (slider, name) => {
        const picture = slider.closest('.tokensel-explorer').querySelector('img')
        const before = picture.src, value = slider.value
        slider.value = value === slider.max ? Number(value) - 1 : Number(value) + 1
        slider.dispatchEvent(new Event('input', {bubbles: true}))
        if (picture.src === before) { slider.value = value; return }
        waiting = true
        picture.decode().then(() => {
            waiting = false
            seen.pressed[name] = performance.now()
            slider.value = value  // each slider is pressed first: the state is the page's own again
            slider.dispatchEvent(new Event('input', {bubbles: true}))
        })
    }
    setInterval(() => {
        const sliders = [...document.querySelectorAll('.tokensel-explorer input')]
        if (!sliders.length || waiting) return
        if (!seen.pressed.first) press(sliders[0], 'first')
        else if (document.readyState !== 'loading' && !seen.pressed.last) press(sliders.at(-1), 'last')
    }, 50)
"""
DONE = """() => seen.typeset !== null && document.readyState === 'complete'
    && !document.querySelector('article .math:not(:has(mjx-container))')
    && (!document.querySelector('.tokensel-explorer') || seen.pressed.last)"""


def main(loads=3, *addresses):
    """Print the table of all pages, or of those named."""
    addresses = addresses or browsing.pages()
    with sync_playwright() as playwright, Server() as server:
        browser = playwright.chromium.launch(**browsing.launch_options())
        looks = {address: looked_at(browser, address) for address in addresses}
        times = {address: [] for address in [BARE, *addresses]}
        for _ in range(loads):
            for i, address in enumerate(addresses):
                if i % BETWEEN_BARE_PAGES == 0:
                    times[BARE].append(timed(browser, f"{server.address}/{BARE}.html"))
                times[address].append(timed(browser, f"{server.address}/{address}.html"))
        browser.close()
    bare = middle(times[BARE])
    print(
        f"Median of {loads} loads ({len(times[BARE])} of the bare page). Load of this machine at the end: "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n"
    )
    rows = [("a bare page", "", "", "", "", "", "", "", *(f"{second:.2f}" for second in bare))]
    for address in addresses:
        columns = zip(middle(times[address]), bare, strict=True)
        rows.append((address.removeprefix("book/"), *looks[address], *map(beside, columns)))
    header = (
        "HTML, kB (compressed)",
        "explorers",
        "states compared",
        "axe, light / dark",
        "console errors",
        "requests outside",
    )
    header += ("px too wide at 390", "text readable (s)", "equations of the first screen (s)")
    measure.table(("page", *header, "slider live (s)", "longest wait (s)", "layout shift"), rows)
    print(
        "In brackets: more than the bare page. *Text readable*: heading and first paragraph are painted in "
        "their font. *Equations*: all of the first screen are typeset, their fonts there. *Slider live*: the "
        "first press on the first and on the last slider has changed the picture (pages without one: the "
        "text is painted). *Longest wait*: what a press after that may have to wait for, while the other "
        "equations are typeset. *Layout shift*: cumulative, from first to last."
    )


def looked_at(browser, address):
    """What a page weighs and holds, and what is wrong with it, as columns of the table."""
    html = (browsing.SITE / f"{address}.html").read_bytes()
    light, dark, phone = (Visit(browser, address, view) for view in ("desktop", "dark", "phone"))
    wrong = f"{len(violations(light.page))} / {len(violations(dark.page))}"
    unfold(phone.page)
    wide = phone.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    outside = [url for url in light.requests if not url.startswith(("file:", "data:", "blob:"))]
    explorers = light.page.locator(".tokensel-explorer").count()
    kept = browsing.ROOT / "_build" / "explorers" / f"{address.replace('/', '-')}.json"  # by their test
    drawn = sum(one["compared"] for one in json.loads(kept.read_text())) if kept.is_file() else ""
    for visit in (light, dark, phone):
        visit.close()
    weight = f"{len(html) / 1000:.0f} ({len(gzip.compress(html)) / 1000:.0f})"
    return weight, explorers, drawn, wrong, len(light.complaints + dark.complaints), len(outside), wide


def timed(browser, url):
    """Seconds until text, equations and sliders are there, and how far things moved, of one load."""
    context = browser.new_context(**browsing.VIEWS["phone"])
    page = context.new_page()
    page.add_init_script(f"{{{WATCH}}}")
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", NETWORK)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
    page.goto(url, wait_until="commit")
    page.wait_for_function(DONE, timeout=180_000, polling=200)
    page.wait_for_timeout(500)  # the last long task is told of after it has ended
    seen = page.evaluate("() => seen")
    context.close()
    live = max([seen["painted"], *seen["pressed"].values()])
    waits = [duration for end, duration in seen["busy"] if end > live]
    return (
        seen["painted"] / 1000,
        seen["typeset"] / 1000,
        live / 1000,
        max(waits, default=0) / 1000,
        seen["shifts"],
    )


def middle(loads):
    return [measure.median(sorted(column)) for column in zip(*loads, strict=True)]


def beside(pair):
    """A page's figure and how far it is above the bare page's."""
    own, bare = pair
    return f"{own:.2f} ({own - bare:+.2f})"


@functools.cache
def answer(path):
    """Body and headers of a file of the site, or of the bare page."""
    file = browsing.SITE / path
    body = bare_page() if path == f"{BARE}.html" else file.read_bytes()
    headers = {"Content-Type": mimetypes.guess_type(path)[0] or "application/octet-stream"}
    if path.endswith(COMPRESSED):
        body = gzip.compress(body)
        headers["Content-Encoding"] = "gzip"
    return body, headers


def bare_page():
    """The book's first chapter with a heading and a paragraph in the place of its content."""
    html = (browsing.SITE / f"{FIRST}.html").read_text(encoding="utf-8")
    content = "<section id='first'><h1>A heading</h1><p>One paragraph of text.</p></section>"
    html = re.sub(r'(<article class="bd-article">).*(</article>)', rf"\1{content}\2", html, flags=re.DOTALL)
    # The theme looks for what its table of contents names.
    return re.sub(r'href="#[^"]*"', 'href="#first"', html).encode()


class Server(ThreadingHTTPServer):
    """The built site on a free port of this machine, while a ``with`` lasts."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def handle_error(self, request, address):
        # A page that was closed asks for no more.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, address)

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open, as any server does

    def do_GET(self):
        path = unquote(urlsplit(self.path).path).lstrip("/")
        if path != f"{BARE}.html" and not (browsing.SITE / path).is_file():
            self.send_error(404)
            return
        body, headers = answer(path)
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: the table is all that is printed."""


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
