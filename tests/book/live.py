"""Live code as a reader starts it: the built page in a browser, a Jupyter server in the place of Binder's.

``make live`` runs every chapter, ``make live CHAPTERS=book/text/imdb`` those named. The page is opened from
disk, untouched. What it asks of the network after the press is answered here: thebe, marked and require.js
from the npm packages of the versions it asks for (kept in ``_build/npm``), Binder's build service with the
address of a Jupyter server on this machine. Anything else it asks for is refused, and noted.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import browsing
import live_code
import missing_data
import yaml
from browsing import ROOT
from playwright.sync_api import TimeoutError as TooLong
from playwright.sync_api import sync_playwright

PACKAGES = ROOT / "_build" / "npm"
REQUIRE_JS = "https://cdnjs.cloudflare.com/ajax/libs/require.js/2.3.6/require.min.js"  # thebe's, for widgets
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
CELLS = "article div.cell"
# What a cell shows: text without formulas, formulas, pictures; before the press and after a run alike. Sphinx
# bends quotation marks, a live kernel shows how far it is, an explorer of the book has buttons of its own.
APART = (
    "mjx-container, figcaption, noscript, script, style, button, "
    ".jp-OutputPrompt, .jp-OutputArea-child:has(.progress)"
)
SHOWN = (
    f"(box) => {{ const apart = '{APART}'"
    + r"""
    const output = box.querySelector('.live-output') ?? box.querySelector('.cell_output')
    if (!output) return {text: '', formulas: [], pictures: 0}
    const copy = output.cloneNode(true)
    copy.querySelectorAll(apart).forEach(part => part.remove())
    return {
        text: copy.textContent.replace(/\s+/g, ' ').replace(/[‘’]/g, "'").replace(/[“”]/g, '"').trim(),
        formulas: MathJax.startup.document.getMathItemsWithin(output)
            .filter(item => !item.typesetRoot.closest('figcaption')).map(item => item.math),
        pictures: copy.querySelectorAll('img').length,
    }
}"""
)
# Who drew the picture of an explorer is seen at its sliders: ipywidgets' are no inputs.
SLIDER = ".live-output .widget-slider [role=slider]"


def chapters():
    return [address for address in browsing.pages() if (ROOT / f"{address}.ipynb").is_file()]


def package(name, version):
    """The folder of a published npm package, fetched once."""
    folder = PACKAGES / f"{name}-{version}"
    if not folder.is_dir():
        PACKAGES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PACKAGES) as scratch:
            command = ["npm", "pack", "--silent", f"{name}@{version}", "--pack-destination", scratch]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)} failed\n{done.stderr}")
            (archive,) = Path(scratch).glob("*.tgz")
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
            if not folder.is_dir():  # another process may have been faster
                (Path(scratch) / "package").rename(folder)
    return folder


class JupyterServer:
    """A Jupyter server with this environment's kernel, on a copy of the book, as Binder would start one."""

    def __init__(self, folder):
        self.folder, self.token = Path(folder), secrets.token_hex(16)
        root = self.folder / "repository"
        ignored = shutil.ignore_patterns("_*", ".*")
        shutil.copytree(ROOT / "book", root / "book", ignore=ignored)
        variables = {name: value for name, value in os.environ.items() if name != "TOKENSEL_STATIC"}
        for kind in ("RUNTIME", "CONFIG", "DATA"):
            variables[f"JUPYTER_{kind}_DIR"] = str(self.folder / kind.lower())
        variables |= {"JUPYTER_TOKEN": self.token, "IPYTHONDIR": str(self.folder / "ipython")}
        # A page from disk has the origin "null"; port 0 is any free one.
        settings = {"ip": "127.0.0.1", "port": 0, "allow_origin": "null", "root_dir": root}
        options = [f"--ServerApp.{name}={value}" for name, value in settings.items()]
        self.log = self.folder / "server.log"
        with self.log.open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", *options],
                env=variables,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # who interrupts the tests ends it by ``stop``
            )
        self.address = self.wait()

    def wait(self, seconds=60):
        """The server's address, from the file that it writes when it listens."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            for path in (self.folder / "runtime").glob("jpserver-*.json"):
                text = path.read_text(encoding="utf-8").strip()
                if text.endswith("}"):
                    return json.loads(text)["url"]
            time.sleep(0.1)
        self.process.kill()
        raise RuntimeError(f"no Jupyter server\n{self.log.read_text(encoding='utf-8')}")

    def ask(self, path, method="GET"):
        request = urllib.request.Request(f"{self.address}api/{path}", method=method)
        request.add_header("Authorization", f"token {self.token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def end_sessions(self):
        for session in self.ask("sessions"):
            self.ask(f"sessions/{session['id']}", "DELETE")

    def stop(self):
        """Kernels first: they would outlive a server that is told to end."""
        try:
            self.end_sessions()
        finally:
            self.process.terminate()
            self.process.wait(30)


@contextmanager
def jupyter_server():
    with tempfile.TemporaryDirectory() as folder:
        server = JupyterServer(folder)
        try:
            yield server
        finally:
            server.stop()


class LivePage:
    """A built chapter in a browser of its own, with what it asked for outside before and after the press."""

    def __init__(self, browser, address, server=None, view="desktop", site=browsing.SITE):
        self.address, self.server = address, server
        self.offline = server is None
        self.before, self.after, self.refused, self.complaints = [], [], [], []
        self.pressed = None
        self.page = browser.new_context(**browsing.VIEWS[view]).new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.route(re.compile("^https?://"), self.answer)
        self.page.goto((site / f"{address}.html").as_uri())
        self.page.evaluate("() => MathJax.startup.promise.then(() => true)")
        self.in_the_book = self.shown()

    def answer(self, route):
        url = route.request.url
        if self.server and url.startswith(self.server.address):
            return route.continue_()
        (self.before if self.pressed is None else self.after).append(url)
        named = re.match(rf"{re.escape(live_code.HOST)}/([\w-]+)@([\d.]+)/(.+)$", url)
        path = None
        if not self.offline and url == binder_address():
            return route.fulfill(
                body=self.binder_says(), content_type="text/event-stream", headers=EVERY_ORIGIN
            )
        if not self.offline and named:
            path = package(named[1], named[2]) / named[3]
        elif not self.offline and url == REQUIRE_JS:
            path = package("requirejs", "2.3.6") / "require.js"
        if path is None or not path.is_file():
            self.refused.append(url)
            return route.abort("internetdisconnected")
        return route.fulfill(path=path, headers=EVERY_ORIGIN)

    def binder_says(self):
        if self.server is None:
            events = [{"phase": "failed", "message": "Could not resolve ref"}]
        else:
            lent = {"url": self.server.address, "token": self.server.token}
            events = [{"phase": "building", "message": "…"}, {"phase": "ready", "message": "", **lent}]
        return "".join(f"data: {json.dumps(event)}\n\n" for event in events)

    def open_menu(self):
        self.page.get_by_role("button", name="Launch interactive content").click()

    def press(self):
        """Open the launch menu and choose "Live code"."""
        self.open_menu()
        self.pressed = time.perf_counter()
        self.page.get_by_role("button", name="Live code").click()

    def status(self):
        return self.page.locator(".live-bar").get_by_role("status").inner_text()

    def wait_for(self, state, seconds=60):
        """Wait until the bar is in this state; return the seconds since the press."""
        self.page.wait_for_selector(f".live-bar[data-state={state}]", timeout=1000 * seconds)
        return time.perf_counter() - self.pressed

    def run_all(self, seconds=60):
        """Press "Run all" and wait; return the seconds to the first output and to the end since the start."""
        self.page.get_by_role("button", name="Run all").click()
        self.page.wait_for_selector(
            ".live-output .jp-OutputArea-child", timeout=1000 * seconds, state="attached"
        )
        first = time.perf_counter() - self.pressed
        end = self.wait_for("ready", seconds)
        # Formulas are set, and sliders drawn, after their cell's end.
        self.page.wait_for_load_state("networkidle")
        self.page.evaluate("() => MathJax.startup.promise.then(() => true)")
        return first, end

    def shown(self):
        return self.page.locator(CELLS).evaluate_all(f"boxes => boxes.map({SHOWN})")

    def outputs(self):
        """The outputs of each cell as the kernel gave them."""
        return self.page.evaluate("() => thebe.notebook.cells.map(cell => cell.outputs)")

    def move_slider(self):
        """Move the last live slider by key; return the picture's description before and after."""
        slider = self.page.locator(SLIDER).last
        picture = self.page.locator(".live-output:has(.widget-slider) img").last
        slider.scroll_into_view_if_needed()
        before = picture.get_attribute("alt"), picture.get_attribute("src")
        at_end = slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax")
        slider.press("ArrowLeft" if at_end else "ArrowRight")
        self.page.wait_for_function(
            "([query, src]) => [...document.querySelectorAll(query)].at(-1).src !== src",
            arg=[".live-output:has(.widget-slider) img", before[1]],
        )
        return before, (picture.get_attribute("alt"), picture.get_attribute("src"))

    def close(self):
        self.page.context.close()
        if self.server:
            self.server.end_sessions()


EVERY_ORIGIN = {"Access-Control-Allow-Origin": "*"}


def binder_address():
    repository = "/".join(CONFIG["repository"]["url"].split("/")[-2:])
    return (
        f"{CONFIG['launch_buttons']['binderhub_url']}/build/gh/{repository}/{CONFIG['repository']['branch']}"
    )


def faults(page):
    """What is wrong with a page whose cells have all been run."""
    if page.before:
        yield f"asked before the press for {page.before}"
    if page.refused:
        yield f"asked for what there is not: {page.refused}"
    yield from page.complaints
    if not page.status().startswith("All "):
        yield page.status()
    for number, outputs in enumerate(page.outputs(), start=1):
        for output in outputs:
            if output["output_type"] == "error" or output.get("name") == "stderr":
                yield f"cell {number}: {output.get('evalue') or output.get('text')}"
    for number, (book, live) in enumerate(zip(page.in_the_book, page.shown(), strict=True), start=1):
        if book != live:
            yield f"cell {number} shows {live}, in the book {book}"


def main(addresses):
    if unknown := [address for address in addresses if address not in chapters()]:
        return f"no chapter: {', '.join(unknown)}. CHAPTERS may hold {' '.join(chapters())}"
    if shutil.which("npm") is None:
        return "npm, which comes with Node.js, is needed: it fetches the thebe and marked that pages ask for"
    failed = False
    with sync_playwright() as playwright, jupyter_server() as server:
        browser = playwright.chromium.launch(**browsing.launch_options())
        print(f"{'chapter':<32} cells  kernel  first output  all run  outcome (seconds since the press)")
        for address in addresses or chapters():
            page = LivePage(browser, address, server)
            if page.page.get_by_text(missing_data.TITLE).count():
                print(f"{address:<32} was built without its reviews: nothing to compare with", flush=True)
                page.close()
                continue
            try:
                page.press()
                ready = page.wait_for("ready")
                first, end = page.run_all(seconds=240)
                found = list(faults(page))
                page.move_slider()
                times = f"{len(page.in_the_book):5} {ready:7.1f} {first:13.1f} {end:8.1f}"
                print(
                    f"{address:<32} {times}  {'; '.join(found) or 'as in the book, sliders move'}", flush=True
                )
            except TooLong as error:
                found = [str(error)]
                print(f"{address:<32} {page.status()}: {error}", flush=True)
            failed |= bool(found)
            page.close()
        browser.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
