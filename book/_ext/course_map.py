"""The map of the course: a box for each chapter, one row below those that it needs, as SVG.

Arrows that skip rows bend around the boxes, and each row is ordered so that arrows cross little.
"""

from itertools import pairwise

from sphinx.errors import ExtensionError

WIDTH, HEIGHT, GAP, ROW, BEND = 132, 30, 8, 66, 12
# What the name of a file cannot spell.
SPELLINGS = {"imdb": "IMDB", "u-shape": "U shape", "yelp": "Yelp"}


def short_name(address):
    """A chapter in a word or two: the name of its file."""
    name = address.rsplit("/", 1)[1]
    return SPELLINGS.get(name, name.replace("-", " "))


def ancestors(chapters):
    """For each address all chapters that it stands on, directly or not."""
    above = {}
    for chapter in chapters:
        direct = [*chapter.needed, *chapter.needed_in_part]
        late = [address for address in direct if address not in above]
        if late:
            raise ExtensionError(f"{chapter.address} needs {', '.join(late)}, which no earlier chapter is")
        above[chapter.address] = set(direct).union(*(above[address] for address in direct))
    return above


def arrows(chapters):
    """Pairs (needed, needing, all of it?) without those that follow from others."""
    above, found = ancestors(chapters), []
    for chapter in chapters:
        direct = [*chapter.needed, *chapter.needed_in_part]
        for address in direct:
            if not any(address in above[other] for other in direct):
                found.append((address, chapter.address, address in chapter.needed))
    return found


def rows_of(chapters, edges):
    """Rows of the map from top to bottom, with a bend ``(start, end, row)`` where an arrow passes a row."""
    level = {}
    for chapter in chapters:
        level[chapter.address] = max((level[a] + 1 for a, b, _ in edges if b == chapter.address), default=0)
    rows = [[] for _ in range(max(level.values()) + 1)]
    steps = set()
    for address, row in level.items():
        rows[row].append(address)
    for start, end, _ in edges:
        path = [start, *((start, end, row) for row in range(level[start] + 1, level[end])), end]
        for row, bend in enumerate(path[1:-1], level[start] + 1):
            rows[row].append(bend)
        steps |= set(pairwise(path))
    return untangled(rows, steps), steps


def crossings(rows, steps):
    place = {item: i for row in rows for i, item in enumerate(row)}
    count = 0
    for upper in rows:
        leaving = [(place[a], place[b]) for a, b in steps if a in upper]
        count += sum(a < c and b > d for a, b in leaving for c, d in leaving)
    return count


def untangled(rows, steps):
    """The rows, each sorted by the mean place of its neighbours in the row above or below, at its best."""
    best = rows
    for sweep in range(12):
        rows = [list(row) for row in rows]
        order = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for i in order:
            fixed = {item: place for place, item in enumerate(rows[i - 1 if sweep % 2 == 0 else i + 1])}

            def mean(item, fixed=fixed, row=rows[i]):
                near = [fixed[b if a == item else a] for a, b in steps if item in (a, b)
                        and (b if a == item else a) in fixed]  # fmt: skip
                return sum(near) / len(near) if near else row.index(item)

            rows[i] = sorted(rows[i], key=mean)
        if crossings(rows, steps) < crossings(best, steps):
            best = rows
    return best


def course_map(chapters):
    """The map as SVG, in the colour of the text around it."""
    edges = arrows(chapters)
    rows, _ = rows_of(chapters, edges)
    wide = {item: WIDTH if isinstance(item, str) else BEND for row in rows for item in row}
    lengths = [sum(wide[item] + GAP for item in row) - GAP for row in rows]
    across, down = max(lengths) + 4, len(rows) * ROW - (ROW - HEIGHT) + 4
    centre = {}
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        left = (across - length) / 2
        for item in row:
            centre[item] = (left + wide[item] / 2, 2 + i * ROW)
            left += wide[item] + GAP
    parts = []
    for start, end, whole in edges:
        path = [start, *(item for row in rows for item in row if item[:2] == (start, end)), end]
        x, y = centre[start]
        curve = f"M{x:.0f} {y + HEIGHT}"
        for item in path[1:]:
            below, top = centre[item]
            y = top - ROW + HEIGHT
            curve += f"C{x:.0f} {y + 18} {below:.0f} {top - 18} {below:.0f} {top}"
            if item != end:
                curve += f"V{top + HEIGHT}"
            x = below
        dashes = "" if whole else ' stroke-dasharray="5 4"'
        parts.append(f'<path d="{curve}" fill="none" marker-end="url(#course-arrow)"{dashes}/>')
    for chapter in chapters:
        x, y = centre[chapter.address]
        parts.append(
            f'<rect x="{x - WIDTH / 2:.0f}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4" fill="none"/>'
            f'<text x="{x:.0f}" y="{y + 20}" text-anchor="middle" stroke="none" fill="currentColor">'
            f"{short_name(chapter.address)}</text>"
        )
    said = (
        f"{len(chapters)} chapters as boxes in {len(rows)} rows. An arrow goes from a chapter to each that "
        "needs it; it is dashed where one section does. The list below says the same in words."
    )
    return (
        f'<svg class="course-map" viewBox="0 0 {across:.0f} {down}" role="img" aria-label="{said}" '
        f'style="display:block;width:100%;max-width:{1.25 * across:.0f}px;height:auto;margin:1rem auto" '
        'stroke="currentColor" stroke-width="1.2" font-size="14">'
        '<defs><marker id="course-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="currentColor" stroke="none"/></marker></defs>'
        f"{''.join(parts)}</svg>"
    )
