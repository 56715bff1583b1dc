"""Sphinx extension: what each chapter needs, yields and takes, made from the chapters themselves.

Every chapter opens with a box "This chapter". Three directives read these boxes while the book is built, so
that the page for teachers cannot disagree with them: ``course-map`` draws which chapter needs which,
``course-table`` lists times and exercises, ``course-needs`` says what each needs and yields.
"""

import ast
import posixpath
import re
from pathlib import Path
from typing import NamedTuple

import nbformat
import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from course_map import course_map, short_name

BOX = re.compile(r"^:::\{admonition\} This chapter\n(.*?)^:::[ ]*$", re.M | re.S)
# The normal form of the box, on three lines once its paragraphs are joined.
FORM = re.compile(
    r"\*\*Needs:\*\* (?P<mathematics>.+?)\. From this book: (?P<chapters>.+?)\."
    r"(?: For (?P<purpose>[^.]+?) also: (?P<more>.+?)\.)?\n"
    r"\*\*Yields:\*\* (?P<yields>.+\.)\n"
    r"\*\*Takes:\*\* (?P<minutes>\d+) minutes to read(?:, (?P<proofs>\d+) more with the folded proofs)?; "
    r"(?P<computing>[a-z ]+) to compute\.(?P<note> .+\.)?"
)
# What a box may say of computing, and how the table puts it.
COMPUTING = {
    "under half a minute": "< 30 s",
    "under a minute": "< 1 min",
    "about a minute": "1 min",
    "about a minute and a half": "1½ min",
}
LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\.ipynb\)")


class Chapter(NamedTuple):
    """A chapter as its opening box and its cells describe it."""

    part: str
    address: str
    title: str
    mathematics: str
    chapters: str
    purpose: str | None
    more: str | None
    yields: str
    minutes: int
    proofs: int
    computing: str
    note: str
    exercises: int
    answered: int
    sliders: tuple[str, ...]

    @property
    def needed(self):
        """Addresses of the chapters that all of this one stands on."""
        return [address for _, address in links(self.chapters, self.address)]

    @property
    def needed_in_part(self):
        """Addresses of the chapters that one section of this one stands on."""
        return [address for _, address in links(self.more or "", self.address)]


def links(text, address):
    """Text and address of each link of a chapter to a chapter."""
    folder = posixpath.dirname(address)
    return [(words, posixpath.normpath(posixpath.join(folder, path))) for words, path in LINK.findall(text)]


def read(root, part, address):
    """One chapter; an error names the chapter whose box is not in the normal form."""
    cells = nbformat.read(root / f"{address}.ipynb", as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    box = BOX.search(text)
    lines = "\n".join(" ".join(paragraph.split()) for paragraph in (box[1] if box else "").split("\n\n"))
    form = FORM.fullmatch(lines)
    if form is None or form["computing"] not in COMPUTING:
        raise ExtensionError(
            f'{address} does not open with a box "This chapter" in the normal form:\n{lines}'
        )
    exercises = re.findall(r"^(:{3,})\{exercise\}[^\n]*\n(.*?)^\1[ ]*$", text, re.M | re.S)
    found = form.groupdict()
    return Chapter(
        part=part,
        address=address,
        title=re.search(r"^# (.+)$", text, re.M)[1],
        exercises=len(exercises),
        answered=sum("ts.check." in exercise for _, exercise in exercises),
        sliders=tuple(
            slider for cell in cells if cell.cell_type == "code" for slider in explorer(cell.source)
        ),
        **found | {"minutes": int(found["minutes"]), "proofs": int(found["proofs"] or 0)},
    )


def explorer(source):
    """The sliders of a cell's ``ts.explore``, by name."""
    if "ts.explore(" not in source:
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        keyword.arg
        for call in calls
        if ast.unparse(call.func) == "ts.explore"
        for keyword in call.keywords
        if keyword.arg != "alt"
    ]


def course(root):
    """All chapters in reading order."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    return [
        read(root, part["caption"], chapter["file"])
        for part in toc["parts"]
        for chapter in part["chapters"]
        if (root / f"{chapter['file']}.ipynb").is_file()
    ]


def from_page(text, address, page):
    """A chapter's text with its links as another page has to write them."""

    def link(match):
        target = links(match[0], address)[0][1]
        return f"[{match[1]}]({posixpath.relpath(target, posixpath.dirname(page))}.ipynb)"

    return LINK.sub(link, text)


def hours(minutes):
    return f"{minutes // 60} h {minutes % 60:02d}" if minutes >= 60 else f"{minutes} min"


def times_table(chapters):
    """Reading, computing, exercises and sliders of each chapter."""
    rows = [("Chapter", "Reading", "Proofs", "Computing", "Exercises", "Sliders")]
    for chapter in chapters:
        rows.append(
            (
                f"{{doc}}`{short_name(chapter.address)} </{chapter.address}>`",
                hours(chapter.minutes),
                hours(chapter.proofs) if chapter.proofs else "",
                COMPUTING[chapter.computing],
                f"{chapter.exercises} ({chapter.answered})",
                ", ".join(f"`{slider}`" for slider in chapter.sliders),
            )
        )
    counts = [
        sum(getattr(chapter, what) for chapter in chapters)
        for what in ("minutes", "proofs", "exercises", "answered")
    ]
    rows.append(("**All**", hours(counts[0]), hours(counts[1]), "", f"{counts[2]} ({counts[3]})", ""))
    lines = ["````{list-table}", ":header-rows: 1", ":class: course", ""]
    for row in rows:
        lines += [f"{'* -' if i == 0 else '  -'} {cell}".rstrip() for i, cell in enumerate(row)]
    return [*lines, "````"]


def needs_list(chapters, page):
    """What each chapter needs and yields, in its own words, part by part."""
    lines, part = [], None
    for chapter in chapters:
        if chapter.part != part:
            part = chapter.part
            lines += [f"### {part}", ""]
        also = f" For {chapter.purpose} also: {chapter.more}." if chapter.more else ""
        needs = f"{chapter.mathematics}. From this book: {chapter.chapters}.{also}"
        lines += [
            f"{{doc}}`/{chapter.address}`",
            f": **Needs:** {from_page(needs, chapter.address, page)}",
            "",
            f"  **Yields:** {from_page(chapter.yields, chapter.address, page)}",
            "",
        ]
    return lines


class CourseDirective(SphinxDirective):
    """Common to all: read the chapters, and have the page read again when one of them changes."""

    has_content = False

    def chapters(self):
        root = Path(self.env.srcdir)
        self.env.note_dependency(__file__)
        self.env.note_dependency(str(root / "_toc.yml"))
        chapters = course(root)
        for chapter in chapters:
            self.env.note_dependency(str(root / f"{chapter.address}.ipynb"))
        return chapters

    def parsed(self, lines):
        parent = self.state_machine.node.__class__()
        text = StringList(lines, self.env.doc2path(self.env.docname))
        self.state.nested_parse(text, self.content_offset, parent, match_titles=True)
        return parent.children


class CourseTable(CourseDirective):
    def run(self):
        return self.parsed(times_table(self.chapters()))


class CourseNeeds(CourseDirective):
    def run(self):
        return self.parsed(needs_list(self.chapters(), self.env.docname))


class CourseMap(CourseDirective):
    def run(self):
        return [nodes.raw("", course_map(self.chapters()), format="html")]


def setup(app):
    app.add_directive("course-map", CourseMap)
    app.add_directive("course-needs", CourseNeeds)
    app.add_directive("course-table", CourseTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
