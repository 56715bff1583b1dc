"""Live code as a reader starts it: the built page in a browser, a Jupyter server in the place of Binder's.

``make live`` runs every chapter, ``make live CHAPTERS=book/model/attention`` those named. The page is opened from
disk, untouched. What it asks of the network after the press is answered here: thebe, marked and require.js from the
npm packages of the version it asks for (kept in ``_build/npm``), Binder's build service with the address of a
Jupyter server on this machine. Anything else it asks for is refused, and noted.
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
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import browsing
import live_code
import yaml
from browsing import ROOT
from playwright.sync_api import TimeoutError as TooLong
from playwright.sync_api import sync_playwright

PACKAGES = ROOT / "_build" / "npm"
REQUIRE_JS = "https://cdnjs.cloudflare.com/ajax/libs/require.js/2.3.6/require.min.js"  # thebe's, for widgets
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
CELLS = "article div.cell"
# What a cell shows, as text without formulas, and the formulas; before the press and after a run alike.
SHOWN = """(box) => {
    const output = box.querySelector('.live-output') ?? box.querySelector('.cell_output')
    if (!output) return {text: '', formulas: [], pictures: 0}
    const copy = output.cloneNode(true)
    copy.querySelectorAll('mjx-container, figcaption, noscript, script, style, .jp-OutputPrompt').forEach(part => part.remove())
    const items = window.MathJax ? MathJax.startup.document.getMathItemsWithin(output) : []
    return {
        text: copy.textContent.replace(/\\s+/g, ' ').trim(),
        formulas: items.filter(item => !item.start.node.parentElement?.closest('figcaption')).map(item => item.math),
        pictures: copy.querySelectorAll('img').length,
    }
}"""


def chapters():
    return [address for address in browsing.pages() if (ROOT / f"{address}.ipynb").is_file()]


def package(name, version):
    """The folder of a published npm package, fetched once."""
    folder = PACKAGES / f"{name}-{version}"
    if not folder.is_dir():
        PACKAGES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PACKAGES) as scratch:
            command = ["npm", "pack", "--silent", f"{name}@{version}", "--pack-destination", scratch]
            subprocess.run(command, check=True, capture_output=True, text=True)
            (archive,) = Path(scratch).glob("*.tgz")
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
            (Path(scratch) / "package").rename(folder)
    return folder


class JupyterServer:
    """A Jupyter server with this environment's kernel, on a copy of the book, as Binder would start one."""

    def __init__(self, folder):
        self.folder, self.token = Path(folder), secrets.token_hex(16)
        root = self.folder / "repository"
        ignored = shutil.ignore_patterns("_*", "*_cache", ".*")
        shutil.copytree(ROOT / "book", root / "book", ignore=ignored)
        variables = {name: value for name, value in os.environ.items() if name != "TOKENSEL_STATIC"}
        for kind in ("RUNTIME", "CONFIG", "DATA"):
            variables[f"JUPYTER_{kind}_DIR"] = str(self.folder / kind.lower())
        variables |= {"JUPYTER_TOKEN": self.token, "IPYTHONDIR": str(self.folder / "ipython")}
        settings = {
            "ip": "127.0.0.1",
            "port": 0,
            "allow_origin": "*",
            "root_dir": root,
            "open_browser": False,
        }
        options = [f"--ServerApp.{name}={value}" for name, value in settings.items()]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.append("--allow-root")
        self.log = (self.folder / "server.log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *options],
            env=variables,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        self.address = self.wait()

    def wait(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            for path in (self.folder / "runtime").glob("jpserver-*.json"):
                text = path.read_text(encoding="utf-8")
                if text.endswith("}"):
                    return json.loads(text)["url"]
            time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"no Jupyter server:\n{(self.folder / 'server.log').read_text(encoding='utf-8')}")

    def ask(self, path, method="GET"):
        request = urllib.request.Request(f"{self.address}api/{path}", method=method)
        request.add_header("Authorization", f"token {self.token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")

    def sessions(self):
        return self.ask("sessions")

    def stop(self):
        """Kernels first: the server's end would otherwise leave them behind."""
        if self.process.poll() is None:
            for session in self.sessions():
                self.ask(f"sessions/{session['id']}", "DELETE")
            self.process.terminate()
            self.process.wait(30)
        self.log.close()


@contextmanager
def jupyter_server():
    with tempfile.TemporaryDirectory() as folder:
        server = JupyterServer(folder)
        try:
            yield server
        finally:
            server.stop()


class LivePage:
    """A built chapter in a browser of its own, and what it asked for outside before and after the press."""

    def __init__(self, browser, address, server=None, view="desktop", site=browsing.SITE):
        self.address, self.server, self.site = address, server, site
        self.before, self.after, self.refused, self.complaints = [], [], [], []
        self.pressed = None
        self.page = browser.new_context(**browsing.VIEWS[view]).new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.route(re.compile("^https?://"), self.answer)
        self.page.goto((site / f"{address}.html").as_uri())
        self.page.evaluate("() => MathJax.startup.promise.then(() => true)")
        self.in_the_book = self.shown()

    def binder_address(self):
        binder = CONFIG["launch_buttons"]["binderhub_url"]
        repository = "/".join(CONFIG["repository"]["url"].split("/")[-2:])
        return f"{binder}/build/gh/{repository}/{CONFIG['repository']['branch']}"

    def answer(self, route):
        url = route.request.url
        if self.server and url.startswith(self.server.address):
            return route.continue_()
        (self.before if self.pressed is None else self.after).append(url)
        if self.server and url == self.binder_address():
            ready = {
                "phase": "ready",
                "url": self.server.address,
                "token": self.server.token,
                "message": "ready",
            }
            events = [{"phase": "building", "message": "building"}, ready]
            body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            return self.fulfill(route, body=body, content_type="text/event-stream")
        named = re.match(rf"{live_code.HOST}/([\w-]+)@([\d.]+)/(.+)$", url)
        if self.server and named:
            path = package(named[1], named[2]) / named[3]
        elif self.server and url == REQUIRE_JS:
            path = package("requirejs", "2.3.6") / "require.js"
        else:
            path = None
        if path is None or not path.is_file():
            self.refused.append(url)
            return route.abort("internetdisconnected")
        return self.fulfill(route, path=path)

    def fulfill(self, route, **answer):
        route.fulfill(headers={"Access-Control-Allow-Origin": "*"}, **answer)

    def press(self):
        """Open the launch menu and choose "Live code"."""
        self.page.locator("button[aria-label='Launch interactive content']").click()
        self.pressed = time.perf_counter()
        self.page.locator(".btn-launch-thebe").click()

    def status(self):
        return self.page.locator(".live-bar p").inner_text()

    def wait_for(self, state, seconds=60):
        self.page.wait_for_selector(f".live-bar[data-state={state}]", timeout=1000 * seconds)
        return time.perf_counter() - self.pressed

    def run_all(self, seconds=60):
        """Press "Run all" and wait for the end; return the seconds it took."""
        started = time.perf_counter()
        self.page.get_by_role("button", name="Run all").click()
        self.page.wait_for_selector(".live-bar[data-state=running]")
        self.page.wait_for_selector(".live-bar[data-state=ready]", timeout=1000 * seconds)
        return time.perf_counter() - started

    def shown(self):
        return self.page.locator(CELLS).evaluate_all(f"boxes => boxes.map({SHOWN})")

    def outputs(self):
        """The outputs of each cell as the kernel gave them."""
        return self.page.evaluate("() => thebe.notebook.cells.map(cell => cell.outputs)")

    def close(self):
        self.page.context.close()
        for session in self.server.sessions() if self.server else []:
            self.server.ask(f"sessions/{session['id']}", "DELETE")
