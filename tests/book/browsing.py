"""The built pages and a browser to look at them with: what the tests of the site and ``make shots`` share."""

from pathlib import Path

import yaml
from printed_book import FLAGS, chromium

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
VIEWS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "wide": {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "light"},
}


def pages():
    """Addresses of the pages of the table of contents, without ``.html``, in reading order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]


def launch_options():
    return {"executable_path": chromium(), "args": FLAGS.split()}


def visit(page, address):
    """Open a built page from disk and wait until its fonts and equations are there."""
    page.goto((SITE / f"{address}.html").as_uri(), wait_until="load")
    page.evaluate("() => window.MathJax && MathJax.startup && MathJax.startup.promise.then(() => true)")
    page.evaluate("() => document.fonts.ready.then(() => true)")
