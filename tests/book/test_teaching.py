"""The page for teachers: chapters say truly what they need and take, and the paths keep what they promise."""

import ast
import json
import re

import course_map
import course_table
import matplotlib as mpl
import nbformat
import pytest
from browsing import ROOT, pages
from sphinx.errors import ExtensionError
from verified_statements import statements

PAGE = (ROOT / "book" / "reference" / "teaching.md").read_text(encoding="utf-8")
NEXT = "## What to read next"
FOLDED = re.compile(
    r"^(:{3,})\{(?:prf:proof\}[ ]*\n:class: dropdown|dropdown\})[^\n]*\n.*?^\1[ ]*$", re.M | re.S
)


@pytest.fixture(scope="module")
def course():
    return {chapter.address: chapter for chapter in course_table.course(ROOT)}


def notebook(address):
    return nbformat.read(ROOT / f"{address}.ipynb", as_version=4).cells


def prose(address):
    """All Markdown of a chapter, with the texts that its code makes."""
    cells = notebook(address)
    return "\n\n".join(texts(cell.source) if cell.cell_type == "code" else cell.source for cell in cells)


def texts(source):
    """The strings in a cell that computes prose."""
    if "Markdown(" not in source:
        return ""
    strings = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return " ".join(string for string in strings if isinstance(string, str))


# Opening boxes


def test_every_chapter_opens_with_the_box(course):
    assert list(course) == [address for address in pages() if (ROOT / f"{address}.ipynb").is_file()]
    for address in course:
        before, box, _ = prose(address).partition(":::{admonition} This chapter")
        assert box, address
        assert re.fullmatch(r"# [^\n]+\n\n", before.lstrip("\n")), address


BOX = """\
# Title

:::{{admonition}} This chapter
**Needs:** {needs}

**Yields:** a thing. You can do it.

**Takes:** {takes}
:::
"""
NEEDS, TAKES = "sums. From this book: [a chapter](a.ipynb).", "10 minutes to read; under a minute to compute."


def a_chapter(folder, needs=NEEDS, takes=TAKES, more=()):
    cells = [nbformat.v4.new_markdown_cell(BOX.format(needs=needs, takes=takes)), *more]
    (folder / "part").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "part" / "b.ipynb")
    return course_table.read(folder, "Part", "part/b")


def test_the_box_is_read(tmp_path):
    needs = (
        "sums, and\nproducts. From this book: [one](a.ipynb), [two](../other/c.ipynb).\n"
        "For the end also: [$p$](d.ipynb)."
    )
    takes = "10 minutes to read, 5 more with the folded proofs; about a minute to compute. A note."
    exercise = ":::{exercise} Title\n:label: ex-one\n\nThen `ts.check.attention(answer)`.\n:::"
    plain = exercise.replace("ts.check", "ts.nothing")
    explorer = "ts.explore(draw, alt=alt, k=range(3), m={'values': [1]})"
    cells = [nbformat.v4.new_markdown_cell(f"{exercise}\n\n{plain}"), nbformat.v4.new_code_cell(explorer)]
    chapter = a_chapter(tmp_path, needs, takes, cells)
    assert (chapter.title, chapter.mathematics) == ("Title", "sums, and products")
    assert chapter.needed == ["part/a", "other/c"]
    assert chapter.needed_in_part == ["part/d"]
    assert (chapter.minutes, chapter.proofs, chapter.computing) == (10, 5, "about a minute")
    assert (chapter.exercises, chapter.answered, chapter.sliders) == (2, 1, ("k", "m"))


@pytest.mark.parametrize(
    ("needs", "takes"),
    [
        ("sums.", TAKES),
        ("sums. From this book: nothing", TAKES),
        (NEEDS, "about ten minutes to read; under a minute to compute."),
        (NEEDS, "10 minutes to read; an hour to compute."),
        (NEEDS, "10 minutes to read."),
    ],
)
def test_a_box_in_another_form_fails_the_build(tmp_path, needs, takes):
    with pytest.raises(ExtensionError, match="part/b"):
        a_chapter(tmp_path, needs, takes)


def test_needs_name_earlier_chapters_only(course):
    seen = set()
    for chapter in course.values():
        assert {*chapter.needed, *chapter.needed_in_part} <= seen, chapter.address
        seen.add(chapter.address)


def test_a_need_that_comes_later_fails_the_build(course):
    with pytest.raises(ExtensionError, match="no earlier chapter"):
        course_map.ancestors(list(course.values())[::-1])


def test_a_chapter_needs_what_it_cites(course):
    """Statements of earlier chapters, through whatever chain of needs; later ones are what to read next."""
    home = {statement.label: statement.page for statement in statements(ROOT) if statement.label}
    below = {}
    for address, chapter in course.items():
        direct = [*chapter.needed, *chapter.needed_in_part]
        below[address] = set(direct).union(*(below[other] for other in direct))
        main, _, further = prose(address).partition(NEXT)
        shown = {other for _, other in course_table.links(further, address)}
        shown |= set(re.findall(r"\{doc\}`(?:[^`<]*<)?/([\w/-]+)>?`", further))
        cited = {home[label] for label in re.findall(r"\{prf:ref\}`(?:[^`<]*<)?([\w-]+)>?`", main)}
        later = {other for other in cited if list(course).index(other) > list(course).index(address)}
        assert cited - later - {address} <= below[address], address
        assert later <= shown, address


# Times


def seconds(text):
    """Three words a second, two seconds for a formula in the line, eight for a line of displayed formula."""
    displayed = re.findall(r"\$\$(.*?)\$\$", text, re.S)
    text = re.sub(r"\$\$.*?\$\$|```.*?```|\{[^}\n]*\}`[^`]*`", " ", text, flags=re.S)
    inline = len(re.findall(r"\$[^$]+\$", text))
    words = len(re.findall(r"[^\W\d_][\w'’-]*", re.sub(r"\$[^$]+\$", " ", text)))
    return words / 3 + 2 * inline + 8 * sum(1 + formula.count(r"\\") for formula in displayed)


def reading(address):
    """Minutes of the main text, and of the folded proofs at half the pace; no exercises."""
    written, looking = [], 0
    for cell in notebook(address):
        tags = cell.metadata.get("tags", [])
        text, exercises, _ = cell.source.partition("## Exercises")
        if cell.cell_type == "markdown":
            written.append(text)
            if exercises:
                break
            continue
        figure = cell.metadata.get("mystnb", {}).get("figure")
        looking += 30 * bool(figure) + 30 * ("ts.explore(" in text)
        written += [figure["caption"]] if figure else []
        if "remove-cell" not in tags:
            written.append(texts(text))
            looking += 0 if {"hide-input", "remove-input"} & {*tags} else 2 * len(text.splitlines())
    text = "\n\n".join(written)
    folded = sum(seconds(match[0]) for match in FOLDED.finditer(text))
    return (seconds(FOLDED.sub("", text)) + looking) / 60, 2 * folded / 60


def test_seconds_of_a_text():
    text = "One two three, four $x$ five: $$a\\\\b$$ six."
    assert seconds(text) == 6 / 3 + 2 + 2 * 8


def test_reading_times_are_what_the_text_takes(course):
    """Stated in steps of five minutes; readers differ by more than a quarter, or five minutes."""
    for address, chapter in course.items():
        for stated, counted in zip((chapter.minutes, chapter.proofs), reading(address), strict=True):
            assert stated % 5 == 0, address
            assert abs(stated - counted) <= max(5, counted / 4), (address, stated, round(counted))


# The page


def test_the_page_names_every_chapter(course):
    for address in course:
        assert f"/{address}>`" in PAGE or f"{{doc}}`/{address}`" in PAGE, address


def sections(page):
    """(level, minutes promised or None, text up to the next heading) of each heading with its subsections."""
    heads = list(re.finditer(r"^(#{2,3}) [^\n]*?(?:\((\d+) minutes\))?$", page, re.M))
    ends = [*(head.start() for head in heads[1:]), len(page)]
    return [(len(h[1]), h[2] and int(h[2]), page[h.end() : end]) for h, end in zip(heads, ends, strict=True)]


def rows(text):
    """The first column of a table of minutes or points."""
    return [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.M)]


def unkept(page):
    """Promises of a page that its tables and lists do not keep."""
    found, whole = [], None
    for level, promised, text in sections(page):
        if whole and level == 2:
            found += [whole] if whole[0] != whole[1] else []
            whole = None
        if promised and rows(text):
            found += [(promised, sum(rows(text)))] if promised != sum(rows(text)) else []
        elif promised and level == 2:
            whole = (promised, 0)
        if whole and level == 3:
            whole = (whole[0], whole[1] + (promised or 0))
        for minutes, homework in re.findall(r"^Homework \((\d+) minutes\): (.*?)[.;]$", text, re.M | re.S):
            total = sum(map(int, re.findall(r"` \((\d+)\)", homework)))
            found += [(int(minutes), total)] if int(minutes) != total else []
    return found


def test_paths_take_the_minutes_that_they_promise():
    promised = [minutes for _, minutes, _ in sections(PAGE) if minutes]
    assert promised == [90, 540, *[90] * 6]
    assert PAGE.count("Homework (") == 4
    assert unkept(PAGE) == []


@pytest.mark.parametrize(
    ("this", "that"),
    [
        ("(540 minutes)", "(450 minutes)"),
        ("\n| 17 |", "\n| 16 |"),
        ("Homework (40", "Homework (45"),
        ("` (20).", "` (25)."),
    ],
)
def test_a_promise_that_is_not_kept_is_found(this, that):
    assert this in PAGE
    assert unkept(PAGE.replace(this, that, 1)) != []


def test_a_path_costs_what_its_parts_cost(course):
    def read(opening):
        lists = re.findall(rf"{opening}:\s(.*?)\.", PAGE, re.S)
        assert lists != []
        named = [address for some in lists for address in re.findall(r"</([\w/-]+)>`", some)]
        assert len(named) == len(set(named))
        return sum(course[address].minutes for address in named)

    costs = {
        name: tuple(map(int, numbers.split(" | ")))
        for name, numbers in re.findall(r"^\| ([A-Z][a-z ]+) \| ((?:\d+ \| )+\d+) \|$", PAGE, re.M)
    }
    homework = sum(map(int, re.findall(r"^Homework \((\d+) minutes\)", PAGE, re.M)))
    assert costs == {
        "One lecture": (90, read("To read afterwards"), 0),
        "Two weeks": (540, read("Chapters"), homework),
    }


def test_every_exercise_has_its_minutes_and_the_same_everywhere(course):
    labels = {
        label
        for address in course
        for label in re.findall(r"^:{3,}\{exercise\}[^\n]*\n:label: (\S+)", prose(address), re.M)
    }
    _, _, table = PAGE.partition("## Exercises and the minutes they take")
    table = table.split("\n## ")[0]
    listed = re.findall(r"\{ref\}`(ex-[\w-]+)` \((\d+)\)", table)
    assert sorted(label for label, _ in listed) == sorted(labels)
    minutes = dict(listed)
    elsewhere = re.findall(r"\{ref\}`(ex-[\w-]+)` \((\d+)\)", PAGE)
    elsewhere += [(b, a) for a, b in re.findall(r"^\| (\d+) \|[^|]*\{ref\}`(ex-[\w-]+)`", PAGE, re.M)]
    elsewhere += [(b, a) for a, b in re.findall(r"^\| (\d+) \|[^|]*\| \{ref\}`(ex-[\w-]+)`", PAGE, re.M)]
    assert len(elsewhere) > len(listed)
    assert {(label, time) for label, time in elsewhere if minutes[label] != time} == set()


def test_a_project_is_worth_a_hundred_points():
    assert sum(rows(PAGE.partition("| Points |")[2].split("\n## ")[0])) == 100


def explorers(soup):
    """The sliders of each explorer of a built page: name to the values that it shows."""
    for explorer in soup.select(".tokensel-explorer"):
        shown = json.loads(explorer.select_one("script[type='application/json']").string)["texts"]
        yield {
            slider["data-name"]: values
            for slider, values in zip(explorer.select("input"), shown, strict=True)
        }


def test_explorers_have_the_states_that_teachers_are_told_to_show(soups):
    told = re.findall(
        r"Explorer of (?:the )?\{doc\}`[^`<]*</([\w/-]+)>`: ((?:`\w+` = [^;|]+?(?:; |\. ))+)", PAGE
    )
    assert len(told) == PAGE.count("Explorer of ")
    for address, sliders in told:
        shown = {name: values for explorer in explorers(soups[address]) for name, values in explorer.items()}
        for name, values in re.findall(r"`(\w+)` = ([^;]+?)(?:; |\. )", sliders):
            assert {*values.split(", ")} <= {*shown[name]}, (address, name)


def test_the_table_names_the_sliders_of_the_built_pages(course, soups):
    for address, chapter in course.items():
        shown = [name for explorer in explorers(soups[address]) for name in explorer]
        if shown:  # a page built without its data has none
            assert tuple(shown) == chapter.sliders, address


def test_a_name_is_one_slider_of_a_chapter(course):
    """Teachers are told a slider by its chapter and name, also where the chapter has two explorers."""
    for address, chapter in course.items():
        assert len({*chapter.sliders}) == len(chapter.sliders), address


@pytest.mark.parametrize("code", re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S))
def test_code_of_the_page_runs(code, monkeypatch):
    monkeypatch.setenv("TOKENSEL_STATIC", "1")
    mpl.use("Agg")
    exec(compile(code, "teaching", "exec"), {"__name__": "teaching"})


# The map


def test_the_map_shows_every_chapter_and_no_arrow_that_follows_from_others(course):
    chapters = list(course.values())
    drawn = course_map.course_map(chapters)
    assert drawn.count("<rect") == len(chapters)
    edges = course_map.arrows(chapters)
    assert drawn.count("marker-end") == len(edges)
    assert drawn.count("stroke-dasharray") == sum(not whole for *_, whole in edges)
    for start, end, _ in edges:  # without this arrow there is no way from one to the other
        reached, waiting = set(), [start]
        while waiting:
            here = waiting.pop()
            reached.add(here)
            waiting += [b for a, b, _ in edges if a == here and (a, b) != (start, end) and b not in reached]
        assert end not in reached
