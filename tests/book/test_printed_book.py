"""The whole book as one PDF, and single pages on paper."""

import re
from types import SimpleNamespace

import browsing
import printed_book
import pytest
from docutils import nodes
from docutils.utils import new_document
from pypdf import PdfReader

A4 = (595.3, 841.9)  # points
MARGIN = 21 / 25.4 * 72  # left and right, as printed_book.css has it
CONTENT = "article.bd-article"


@pytest.fixture(scope="module")
def reader(site):
    target = site / printed_book.NAME
    if printed_book.chromium() is None:
        pytest.skip("no Chromium or Chrome on this machine (set CHROMIUM to its path), so no PDF was made")
    assert target.is_file(), "`make book` makes it where there is a browser"
    return PdfReader(target)


@pytest.fixture(scope="module")
def written(reader):
    """Of each page the text and its runs, as `runs_of_text` finds them."""
    return [runs_of_text(page) for page in reader.pages]


@pytest.fixture(scope="module")
def sheets(written):
    """The text of each page without any space: how letters are spaced is the PDF's business."""
    return [squeeze(text) for text, _ in written]


def squeeze(text):
    return re.sub(r"\s+", "", text)


def title(heading):
    """A heading as a pattern: whatever its formulas look like on paper."""
    parts = []
    for child in heading.children:
        if getattr(child, "get", lambda _: None)("class") == ["headerlink"]:
            continue
        formula = getattr(child, "select", None) and "math" in child.get("class", [])
        parts.append(".+" if formula else re.escape(squeeze(child.get_text())))
    return "".join(parts)


@pytest.fixture(scope="module")
def expected(soups):
    """(level, pattern, page of the site) of each heading the outline must have, in order."""
    entries = [(0, "Contents", None)]
    index = soups[browsing.pages()[0]]
    for entry in index.select("nav.bd-docs-nav :is(p.caption, li.toctree-l1 > a)"):
        if entry.name == "p":
            entries.append((0, re.escape(squeeze(entry.get_text())), None))
            continue
        home = entry["href"] == "#" or entry["href"].endswith("index.html")
        address = browsing.pages()[0] if home else "book/" + entry["href"].removesuffix(".html")
        for heading in soups[address].select(":is(h1, h2, h3, h4)"):
            if not heading.find_parent("article"):
                continue
            level = int(heading.name[1]) - (1 if home else 0)
            text = "Aboutthisbook" if home and heading.name == "h1" else title(heading)
            entries.append((level, text, address))
    return entries


@pytest.fixture(scope="module")
def outline(reader):
    """(level, title, number of the page, counted from 0) of each entry."""
    found = []

    def walk(entries, level):
        for entry in entries:
            if isinstance(entry, list):
                walk(entry, level + 1)
            else:
                found.append((level, entry.title, reader.get_destination_page_number(entry)))

    walk(reader.outline, 0)
    return found


@pytest.fixture(scope="module")
def span(expected, outline):
    """Where each page of the site lies in the PDF: first and last page, counted from 0."""
    starts = {}
    for (_, _, address), (_, _, number) in zip(expected, outline, strict=True):
        if address:
            starts.setdefault(address, number)
    ends = [*(start - 1 for start in list(starts.values())[1:]), None]
    return {address: (start, end) for (address, start), end in zip(starts.items(), ends, strict=True)}


def test_outline_is_the_table_of_contents(expected, outline):
    assert [level for level, _, _ in outline] == [level for level, _, _ in expected]
    for (_, pattern, _), (_, text, _) in zip(expected, outline, strict=True):
        assert re.fullmatch(pattern, squeeze(text)), f"{text!r} where {pattern!r} was due"


def test_outline_leads_to_the_headings(expected, outline, sheets):
    for (_, pattern, _), (_, text, number) in zip(expected, outline, strict=True):
        assert re.search(pattern, sheets[number]), f"{text!r} does not stand on page {number + 1}"


def test_contents_give_the_right_page_numbers(outline, reader, sheets):
    end = next(number for _, text, number in outline if text.strip() == "About this book")
    contents = "".join(sheets[1:end])
    for level, text, number in outline[1:]:
        if level <= 2 and "$" not in text and text.isascii():
            assert f"{squeeze(text)}{number + 1}" in contents, text


def links(reader):
    for number, page in enumerate(reader.pages):
        for annotation in page.get("/Annots", []):
            link = annotation.get_object()
            if link["/Subtype"] == "/Link":
                yield number + 1, link


def test_links_inside_lead_somewhere(reader):
    names = reader.named_destinations
    inside = [(number, str(link["/Dest"])) for number, link in links(reader) if "/Dest" in link]
    assert [place for place in inside if place[1] not in names] == []
    # As many as the site has between its pages, at the least.
    assert len(inside) >= 300


def test_links_outside_are_public_and_few_lead_back_to_the_site(reader, soups):
    outside = [str(link["/A"]["/URI"]) for _, link in links(reader) if "/A" in link]
    assert [uri for uri in outside if not re.match(r"https?://[a-z0-9.-]+\.[a-z]{2,}/", uri)] == []
    explorers = sum(len(soup.select(".tokensel-explorer")) for soup in soups.values())
    back = {uri for uri in outside if re.search(r"github\.io/[^#]*book/.*\.html", uri)}
    assert len(back) <= explorers, "a link between pages of the book leads to the web"


def test_statements_stand_in_their_chapters(soups, span, sheets):
    found = 0
    for address, (start, end) in span.items():
        text = "".join(sheets[start : end + 1 if end is not None else None])
        for name in soups[address].select(f"{CONTENT} .proof > .admonition-title .caption-number"):
            assert squeeze(name.get_text()) in text, f"{address}: {name.get_text()}"
            found += 1
    assert found >= 30


def test_proofs_and_solutions_are_open(soups, span, sheets):
    """The last words in prose of every proof and solution stand in the chapter."""
    found = 0
    for address, (start, end) in span.items():
        text = "".join(sheets[start : end + 1 if end is not None else None])
        for paragraph in soups[address].select(f"{CONTENT} .dropdown p:not(.admonition-title)"):
            if not paragraph.select(".math, a, code") and len(words := squeeze(paragraph.get_text())) > 30:
                assert words[-25:] in re.sub(r"\d+$", "", text), f"{address}: {paragraph.get_text()}"
                found += 1
    assert found >= 10  # most have a formula, a link or code in their paragraphs


def test_formulas_are_set(sheets):
    """Also those in the titles of boxes that fold on the site."""
    assert [number for number, text in enumerate(sheets, 1) if r"\(" in text] == []


def test_drawings_are_there(soups, span, sheets):
    """The map of chapters, say: its words are there beside those of the text."""
    found = 0
    for address, (start, end) in span.items():
        text = "".join(sheets[start : end + 1 if end is not None else None])
        for drawing in soups[address].select(f"{CONTENT} svg[role=img]"):
            around = squeeze(drawing.find_parent("article").get_text())
            for word in map(squeeze, drawing.stripped_strings):
                assert text.count(word) >= around.count(word), f"{address}: {word}"
                found += 1
    assert found >= 10


def test_explorers_say_their_state_and_where_they_move(soups, span, sheets):
    for address, (start, end) in span.items():
        text = "".join(sheets[start : end + 1 if end is not None else None])
        explorers = soups[address].select(f"{CONTENT} .tokensel-explorer")
        shown = re.findall(r"Shownis(.+?)\.Onthepageontheweb", text)
        assert len(shown) == len(explorers), address
        for explorer, said in zip(explorers, shown, strict=True):
            state = [squeeze(output.get_text()) for output in explorer.select("output")]
            assert all(value in said for value in state), (address, state, said)


def runs_of_text(page):
    """The text of a page, and its runs: (x, y, size, text, font), in points from the lower left corner."""
    found = []

    def note(text, current, matrix, font, size):
        if text.strip():
            *_, e, f = matrix
            x, y = e * current[0] + f * current[2] + current[4], e * current[1] + f * current[3] + current[5]
            scale = abs(matrix[0] * current[0])
            found.append((x, y, size * scale, text, str((font or {}).get("/BaseFont"))))

    return page.extract_text(visitor_text=note), found


def test_nothing_is_written_beyond_the_edges(written):
    for number, (_, runs) in enumerate(written, 1):
        for x, _, size, text, font in runs:
            if re.fullmatch(r"[\ue000-\uf8ff]+", text.strip()):
                continue  # MathJax stretches braces with a long row of pieces and clips it
            assert x >= MARGIN - 3, f"page {number}: {text!r} begins at {x:.0f} points"
            # Letters of a typewriter are three fifths as wide as high, which measures lines of code.
            line = max(text.strip("\n").split("\n"), key=len)
            width = 0.602 * size * len(line.rstrip()) if "Mono" in font else 0
            assert x + width <= A4[0] - MARGIN + 3, f"page {number}: {text!r} ends at {x + width:.0f} points"


def test_no_page_is_nearly_empty_before_its_chapter_ends(written, outline, span):
    """A box or a figure that must not break goes to the next page, but leaves a quarter filled."""
    last = {end for _, end in span.values()} | {len(written) - 1, 0}
    last.add(next(number for _, text, number in outline if text.strip() == "About this book") - 1)
    for number, (_, runs) in enumerate(written):
        if number not in last:
            foot = A4[1] * 0.08
            lowest = min((y for _, y, *_ in runs if y > foot), default=A4[1])
            assert lowest < 0.75 * A4[1], f"page {number + 1} ends at {lowest:.0f} points"


def test_pages_are_a4_tagged_in_english_and_the_book_says_what_it_is(reader):
    root = reader.trailer["/Root"]
    assert all(page.mediabox.width == pytest.approx(A4[0], abs=1) for page in reader.pages)
    assert all(page.mediabox.height == pytest.approx(A4[1], abs=1) for page in reader.pages)
    assert root["/Lang"] == "en"
    assert root["/MarkInfo"]["/Marked"]
    said = reader.metadata
    assert (said.title, said.author) == ("Attention that selects", "The tokensel authors")
    assert "attention" in said.subject


def test_it_fits_into_a_mail_and_names_no_file_of_this_machine(site, reader):
    written = (site / printed_book.NAME).read_bytes()
    assert len(written) * 4 / 3 <= 25_000_000  # as an attachment, four characters for three bytes
    for own in ("file:", str(browsing.ROOT), "localhost", "127.0.0.1", "printed-book"):
        assert own.encode() not in written, own


# Making it, without a browser and again.


@pytest.fixture
def app(tmp_path):
    (tmp_path / "html" / "book").mkdir(parents=True)
    (tmp_path / "html" / "_static").mkdir()
    (tmp_path / "html" / "book" / "index.html").write_text("<p>one")
    builder = SimpleNamespace(name="html")
    config = SimpleNamespace(html_title="T", author="A", html_baseurl="https://t.example/t/")
    return SimpleNamespace(outdir=tmp_path / "html", builder=builder, config=config)


def said(app):
    document = new_document("book/index")
    document += printed_book.printed_book_place()
    printed_book.say_where(app, document, "book/index")
    return document


def test_without_a_browser_there_is_no_pdf_and_the_page_says_so(app, monkeypatch):
    monkeypatch.setattr(printed_book, "chromium", lambda: None)
    (app.outdir / printed_book.NAME).write_bytes(b"of older pages")
    printed_book.print_book(app, None)
    assert not (app.outdir / printed_book.NAME).exists()
    assert list(said(app).findall(nodes.reference)) == []
    assert "Chromium" in said(app).astext()


def test_with_a_browser_the_page_links_to_the_pdf(app, monkeypatch):
    monkeypatch.setattr(printed_book, "chromium", lambda: "/usr/bin/chromium")
    (link,) = said(app).findall(nodes.reference)
    assert link["refuri"] == f"../{printed_book.NAME}"


def test_it_is_made_again_only_when_a_page_or_a_style_changed(app, monkeypatch):
    made = []

    def make(site, target, book, browser):
        made.append(book)
        target.write_bytes(b"%PDF")

    monkeypatch.setattr(printed_book, "chromium", lambda: "/usr/bin/chromium")
    monkeypatch.setattr(printed_book, "make", make)
    for change, total in (
        (lambda: None, 1),
        (lambda: None, 1),
        (lambda: (app.outdir / "book" / "index.html").write_text("<p>two"), 2),
        (lambda: (app.outdir / "_static" / "book.css").write_text("p { color: red }"), 3),
        (lambda: (app.outdir / printed_book.NAME).unlink(), 4),
    ):
        change()
        printed_book.print_book(app, None)
        assert len(made) == total
    printed_book.print_book(app, RuntimeError("the build failed"))
    assert len(made) == 4
    assert made[0] == ("T", "A", "https://t.example/t/")


# One page on paper.

# What Chromium leaves of A4 with its own margins of a centimetre, in CSS pixels.
PAPER = {"width": 718, "height": 1000}


@pytest.fixture(scope="module", params=browsing.pages())
def paper(request, site, browser):
    page = browser.new_context(viewport=PAPER, color_scheme="dark").new_page()
    browsing.visit(page, request.param)
    page.emulate_media(media="print")
    yield page
    page.context.close()


def test_paper_has_no_navigation_and_nothing_to_press(paper):
    shown = paper.evaluate(
        """() => [...document.querySelectorAll('nav, header, footer, button, input, select, .headerlink')]
            .filter(node => node.checkVisibility() && node.getBoundingClientRect().height > 0)
            .map(node => node.outerHTML.slice(0, 120))"""
    )
    assert shown == []


def test_paper_shows_proofs_and_solutions(paper):
    """The theme opens them when a print begins; the styles alone must do."""
    hidden = paper.evaluate(
        """() => [...document.querySelectorAll('.bd-article :is(.dropdown, details:not(.hide)) p')]
            .filter(node => !node.closest('details.hide') && !node.closest('summary'))
            .filter(node => node.textContent.trim())
            .filter(node => !node.checkVisibility({visibilityProperty: true, opacityProperty: true})
                || node.getBoundingClientRect().height === 0)
            .map(node => node.textContent.slice(0, 80))"""
    )
    assert hidden == []


def test_paper_cuts_nothing_off(paper):
    """Nothing reaches over the paper's right edge, and nothing scrolls."""
    wide = paper.evaluate(
        """() => [...document.querySelectorAll('.bd-article *')]
            .filter(node => node.checkVisibility() && !node.closest('mjx-assistive-mml, mjx-ext, .tooltip'))
            .filter(node => node.getBoundingClientRect().right > innerWidth + 1
                || (node.scrollWidth > node.clientWidth + 1 && node.clientWidth
                    && getComputedStyle(node).overflowX !== 'visible'))
            .map(node => node.outerHTML.slice(0, 160))"""
    )
    assert wide == []


def test_paper_is_white_and_its_links_are_dark(paper):
    """Also where the reader's screen is dark."""
    light = paper.evaluate(
        """() => {
            const grey = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number)
                .reduce((sum, part, k) => sum + part * [0.299, 0.587, 0.114][k], 0)
            const links = [...document.querySelectorAll('.bd-article a')]
                .filter(node => node.checkVisibility())
            return {
                ground: grey(getComputedStyle(document.body).backgroundColor),
                text: grey(getComputedStyle(document.querySelector('.bd-article p')).color),
                links: links.map(node => grey(getComputedStyle(node).color)),
            }
        }"""
    )
    assert light["ground"] > 250
    assert light["text"] < 60
    assert [grey for grey in light["links"] if grey > 110] == []


def test_an_explorer_is_printed_as_the_reader_left_it(browser, site, soups):
    address = next(address for address, soup in soups.items() if soup.select(".tokensel-explorer"))
    page = browser.new_context(viewport=PAPER).new_page()
    browsing.visit(page, address)
    slider = page.locator(".tokensel-explorer input").first
    before = page.locator(".tokensel-explorer output").first.inner_text()
    slider.press("ArrowRight")
    page.emulate_media(media="print")
    after = page.locator(".tokensel-explorer output").first
    assert after.is_visible()
    assert after.inner_text() != before
    assert not slider.is_visible()
    page.context.close()
