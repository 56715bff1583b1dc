"""Sphinx extension: the page "Verified statements", made from what the contracts left behind.

Before the page is read, the contracts are run if no outcome of this very package is there. A contract that
fails ends the build; so the page never shows an outcome that is stale or bad.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import yaml
from docutils.statemachine import StringList
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import contract_outcome

logger = logging.getLogger(__name__)

PAGE = "book/reference/verified"
CLAIMS = {"theorem", "proposition", "corollary", "lemma"}


class Statement(NamedTuple):
    """A statement of the book, as its source has it."""

    part: str
    page: str
    kind: str
    label: str | None
    title: str
    text: str


def source(root, address):
    """The Markdown of a page: of its text cells, if it is a notebook."""
    path = root / f"{address}.ipynb"
    if path.is_file():
        cells = nbformat.read(path, as_version=4).cells
        return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    (path,) = (p for p in (root / f"{address}.md", root / f"{address}.rst") if p.is_file())
    return path.read_text(encoding="utf-8")


def statements(root):
    """Every theorem, definition and the like of the book, in reading order."""
    fence = re.compile(
        r"^(:{3,}|`{3,})\{prf:(\w+)\}([^\n]*)\n((?::[a-z]+:[^\n]*\n)*)(.*?)^\1[ ]*$", re.M | re.S
    )
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    for part in toc["parts"]:
        for chapter in part["chapters"]:
            for _, kind, title, options, text in fence.findall(source(root, chapter["file"])):
                label = re.search(r"^:label: (\S+)", options, re.M)
                yield Statement(
                    part["caption"], chapter["file"], kind, label and label[1], title.strip(), text
                )


def verify(app, env, added, changed, removed):
    """Run the contracts unless their outcome is known; the page is then read again."""
    root = Path(app.srcdir)
    if PAGE not in env.found_docs or contract_outcome.fresh_outcome(root):
        return []
    logger.info("running the contracts ...")
    done = subprocess.run(
        [sys.executable, root / "book" / "_ext" / "contract_outcome.py"], capture_output=True, text=True
    )
    if done.returncode:
        raise ExtensionError(f"contracts failed\n\n{done.stdout}\n{done.stderr}")
    logger.info(done.stdout.strip())
    return [PAGE]


def number(value):
    """Two significant digits in TeX; what is not one up to rounding does not become one."""
    if 0.995 <= value < 1 - 1e-9:
        return f"1-{number(1 - value)}"
    mantissa, exponent = f"{value:.1e}".split("e")
    if value == 0 or -3 <= int(exponent) <= 1:
        return f"{value:.2g}"
    return rf"{mantissa}\cdot10^{{{int(exponent)}}}"


def sentence(words):
    """Words as a sentence of the page, on one line."""
    line = " ".join(words.split()).rstrip(".")
    return f"{line[0].upper()}{line[1:]}."


# What the name of a function cannot spell.
SPELLINGS = {
    "kkt": "KKT",
    "euclidean": "Euclidean",
    "max margin": "max-margin",
    "co occurrence": "co-occurrence",
    "scores values and counts": "scores, values and counts",
    "part 1 the slope": "part 1, the slope",
    "part 3 far ahead": "part 3, far ahead",
}


def words_of(name):
    """The name of a test, which says what it finds."""
    words = name.removeprefix("test_").replace("_", " ")
    for plain, spelled in SPELLINGS.items():
        words = words.replace(plain, spelled)
    return words


def plural(count, word):
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def figures(found):
    """Evidence in words, one line for each kind."""
    for kind, measure in (("bounds", "share of the bound"), ("limits", "relative error")):
        if kind in found:
            of = found[kind]
            yield (
                f"{plural(of['instances'], 'instance')}, {measure} at most ${number(of['largest'])}$, "
                f"median ${number(of['median'])}$"
            )
    if "holds" in found:
        yield f"{plural(found['holds']['instances'], 'instance')} of yes or no, all as stated"


def hypotheses(contract):
    """Each hypothesis in words, and below it the tests that show what goes wrong without it."""
    for name, words in contract["hypotheses"].items():
        yield f"- {sentence(words)}"
        for test, of in contract["tests"].items():
            if name in of["drops"]:
                yield f"  - [Without it]{{.without}}: {words_of(test)}."


def conclusions(contract):
    """Each test that drops no hypothesis, with what it found."""
    for name, of in contract["tests"].items():
        if not of["drops"]:
            found = "; ".join(figures(of["found"]))
            yield f"- {sentence(words_of(name) + (': ' + found if found else ''))}"


def card(statement, contract):
    """One statement of the page, as Markdown: its evidence, and folded away how it was come by."""
    file = f"tests/contracts/test_{statement.label.replace('-', '_')}.py"
    tests = contract["tests"].values()
    passed, seconds = (sum(test[key] for test in tests) for key in ("passed", "seconds"))
    count = len(contract["hypotheses"])
    needed = {0: "No hypotheses", 1: "One hypothesis, needed"}.get(count, f"{count} hypotheses, each needed")
    return [
        ":::::{container} contract",
        f"{{prf:ref}}`{statement.label}` **{statement.title}** [{contract['origin']}]{{.origin}}",
        "",
        *(f"- {line}" for line in figures(contract["found"])),
        "",
        f"::::{{dropdown}} {needed}; {plural(passed, 'test')}",
        f"**Setting:** {sentence(contract['setting'])}",
        "",
        *(["**Hypotheses,** and what goes wrong without each:", ""] if count else []),
        *hypotheses(contract),
        "",
        "**Conclusion,** as tested:",
        "",
        *conclusions(contract),
        "",
        f"All passed, in {f'{seconds:.0f} s' if seconds >= 1 else 'under 1 s'}: `{file}`",
        "::::",
        ":::::",
        "",
    ]


def page_markdown(claims, outcome):
    """All cards, under the part and the chapter they belong to."""
    lines, part, page = [], None, None
    for statement in claims:
        if statement.part != part:
            part = statement.part
            lines += [f"## {part}", ""]
        if statement.page != page:
            page = statement.page
            lines += [f"From {{doc}}`/{page}`:", ""]
        lines += card(statement, outcome["statements"][statement.label])
    return lines


class VerifiedStatements(SphinxDirective):
    """All statements of the book with what their contracts found."""

    has_content = False

    def run(self):
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / contract_outcome.OUTCOME))
        self.env.note_dependency(__file__)
        claims = [statement for statement in statements(root) if statement.kind in CLAIMS]
        for page in {claim.page for claim in claims}:
            self.env.note_dependency(self.env.doc2path(page))
        outcome = contract_outcome.fresh_outcome(root)
        if outcome is None:
            raise ExtensionError("package or contracts changed while the book was built: build it once more")
        for claim in claims:
            if claim.label not in outcome["statements"]:
                raise ExtensionError(
                    f"{claim.kind} {claim.label} of {claim.page} has no file in tests/contracts"
                )
        parent = self.state_machine.node.__class__()
        text = StringList(page_markdown(claims, outcome), str(root / contract_outcome.OUTCOME))
        self.state.nested_parse(text, self.content_offset, parent, match_titles=True)
        return parent.children


def setup(app):
    app.add_directive("verified-statements", VerifiedStatements)
    app.connect("env-get-outdated", verify)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
