"""Sphinx extension: the whole book as one PDF beside the site, printed by the machine's Chromium.

When pages were written, a browser puts the articles of all pages into one document (``printed_book.js``),
with its links leading inside it, and prints it once: outline, tags and links come from the browser. A second
print, of the contents alone, brings in the page numbers. The browser's requests are answered from the site's
folder and no others leave it. Without a browser there is no PDF, and the page that would link to it says how
to get it. The PDF is made anew only if a page, a style or this extension changed.

By hand: ``python book/_ext/printed_book.py SITE TARGET.pdf``.
"""

import html
import os
import re
import shutil
import sys
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from docutils import nodes
from docutils.parsers.rst import Directive
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, TextStringObject
from sphinx.util import logging

from content_hash import content_hash

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent
NAME = "attention-that-selects.pdf"
INDEX = "book/index.html"
SUBJECT = "Which tokens softmax attention selects, and why: theorems, proofs, simulations, real text"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
# The width of the text on A4 with the margins of printed_book.css, in CSS pixels.
WIDTH = round((210 - 2 * 21) / 25.4 * 96)


class Book(NamedTuple):
    """What the cover says: title, author, and the site's public address with a slash at its end."""

    title: str
    author: str
    address: str


def chromium():
    """The machine's Chromium or Chrome, or None."""
    names = [os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"]
    return next((path for name in names if (path := shutil.which(name))), None)


def make(site, target, book, browser):
    """Print the pages of the folder ``site`` into the file ``target``."""
    printed, front, headings = print_pages(site, book, browser)
    writer = PdfWriter(BytesIO(printed), incremental=True)
    for page, numbered in zip(writer.pages, front.pages, strict=False):
        replace_drawing(writer, page, numbered)
    name_entries(writer, headings)
    writer.add_metadata(
        {"/Title": book.title, "/Author": book.author, "/Subject": SUBJECT, "/Creator": "tokensel"}
    )
    partial = target.with_suffix(".part")
    writer.write(partial)
    partial.replace(target)


def print_pages(site, book, browser):
    """The printed book as bytes; a reader of its first pages, with page numbers in the contents; headings."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=browser, args=FLAGS.split())
        page = chrome.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        page.set_default_timeout(0)  # a busy machine is slow, not wrong
        page.emulate_media(media="print")
        page.route("**/*", lambda route: answer(route, site, book))
        page.goto(book.address + "printed-book")
        page.add_script_tag(content=(HERE / "printed_book.js").read_text(encoding="utf-8"))
        rules = (HERE / "printed_book.css").read_text(encoding="utf-8")
        headings = page.evaluate("([index, rules]) => assembleBook(index, rules)", [INDEX, rules])
        page.emulate_media(media="null")  # so that only printing lays the whole book out
        options = {"prefer_css_page_size": True, "print_background": True}
        printed = page.pdf(**options, tagged=True, outline=True)
        page.evaluate("pages => numberContents(pages)", page_numbers(printed))
        front = page.pdf(**options, tagged=True)
        chrome.close()
    return printed, PdfReader(BytesIO(front)), headings


def answer(route, site, book):
    """Answer a request of the browser from the site's folder; there is no other answer."""
    address = route.request.url
    if address == book.address + "printed-book":
        route.fulfill(body=shell(book), content_type="text/html")
        return
    path = site / unquote(urlsplit(address).path[len(urlsplit(book.address).path) :])
    if address.startswith(book.address) and path.is_file():
        route.fulfill(path=path)
    else:
        route.abort()


def shell(book):
    """The document before the site's styles and chapters come into it: nothing but the cover."""
    title, author, address = map(html.escape, book)
    return f"""<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8"><title>{title}</title></head>
<body><main><section id="cover">
<p class="title">{title}</p>
<p class="subtitle"></p>
<p class="author">{author}</p>
<p class="imprint">Version {metadata.version("tokensel")}. The book on the web, where figures move and code
runs: <a href="{address}">{address}</a>.
Proofs and solutions, which fold out there, are all open here.
Code that only draws a figure is left out here; there it is one click away.</p>
</section></main></body></html>"""


def page_numbers(printed):
    """The page, counted from 1, on which each named place of a PDF lies."""
    reader = PdfReader(BytesIO(printed))
    number = {page.indirect_reference.idnum: k + 1 for k, page in enumerate(reader.pages)}
    return {
        name.lstrip("/"): number[place.raw_get("/Page").idnum]
        for name, place in reader.named_destinations.items()
    }


def replace_drawing(writer, page, drawn):
    """Let a page show what another draws; its links and its place in the document's structure stay."""
    for key in ("/Contents", "/Resources"):
        page[NameObject(key)] = drawn.raw_get(key).clone(writer)


def name_entries(writer, headings):
    """Name the outline's entries: the browser leaves out formulas, and the space where a heading goes on."""

    def walk(entry):
        while entry is not None:
            entry = entry.get_object()
            yield entry
            yield from walk(entry.get("/First"))
            entry = entry.get("/Next")

    entries = list(walk(writer.root_object["/Outlines"].get("/First")))
    for entry, heading in zip(entries, headings, strict=True):
        entry[NameObject("/Title")] = TextStringObject(heading)


def cache_key(site):
    """Hash of what the PDF is made of, and the file that keeps it."""
    # Pictures are named after what they show, so that a new one is a new page.
    files = [*site.glob("book/**/*.html"), *site.glob("_static/**/*.css")]
    own = sorted(HERE.glob("printed_book.*"))
    return content_hash(site, sorted(files)) + content_hash(HERE, own), site.parent / "printed_book.key"


def print_book(app, exception):
    """Make the PDF after the pages, if there is a browser and anything changed."""
    if exception is not None or app.builder.name != "html":
        return
    site = Path(app.outdir)
    target, browser = site / NAME, chromium()
    if browser is None:
        target.unlink(missing_ok=True)  # it would be one of older pages
        return
    key, kept = cache_key(site)
    if target.is_file() and kept.is_file() and kept.read_text() == key:
        return
    logger.info("printing the whole book as one PDF...")
    make(site, target, Book(app.config.html_title, app.config.author, app.config.html_baseurl), browser)
    kept.write_text(key)


class PrintedBook(Directive):
    """Where the PDF is: a link, or how to get it."""

    def run(self):
        return [printed_book_place()]


class printed_book_place(nodes.General, nodes.Element):
    """A place that becomes a paragraph about the PDF when its page is written."""


def say_where(app, doctree, docname):
    for place in list(doctree.findall(printed_book_place)):
        paragraph = nodes.paragraph(classes=["printed-book"])
        if app.builder.name == "html" and chromium():
            address = "../" * docname.count("/") + NAME
            paragraph += nodes.reference("", "The whole book as one PDF", refuri=address, internal=True)
            paragraph += nodes.Text(", to print or to read where there is no browser.")
        else:
            paragraph += nodes.Text("Built on a machine with Chromium or Chrome, this book is also one PDF.")
        place.replace_self(paragraph)


def mark_outdated(app, env, added, changed, removed):
    """The page with the link is written again when a browser came or went."""
    before, env.printed_book_browser = getattr(env, "printed_book_browser", None), chromium() is not None
    return [INDEX.removesuffix(".html")] if before is not env.printed_book_browser else []


def setup(app):
    app.add_node(printed_book_place)
    app.add_directive("printed-book", PrintedBook)
    app.connect("env-get-outdated", mark_outdated)
    app.connect("doctree-resolved", say_where)
    app.connect("build-finished", print_book)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}


def main():
    import yaml

    if len(sys.argv) != 3 or not (Path(sys.argv[1]) / INDEX).is_file():
        sys.exit("usage: python book/_ext/printed_book.py SITE TARGET.pdf, where SITE is a built _build/html")
    site, target = map(Path, sys.argv[1:])
    config = yaml.safe_load((HERE.parents[1] / "_config.yml").read_text(encoding="utf-8"))
    canonical = re.search(r'rel="canonical" href="([^"]+)"', (site / INDEX).read_text(encoding="utf-8"))
    book = Book(config["title"], config["author"], canonical[1].removesuffix(INDEX))
    make(site, target, book, chromium() or sys.exit("no Chromium or Chrome on this machine"))


if __name__ == "__main__":
    main()
