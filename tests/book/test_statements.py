"""Statements of the book: each has a contract test and uses registered symbols only."""

import re
from pathlib import Path

import nbformat
import pytest
import symbol_registry
from browsing import ROOT, pages

CLAIMS = {"theorem", "proposition", "corollary", "lemma"}
# TeX that stands for no symbol of ours: functions, relations, operators, brackets, layout.
PLAIN_TEX = r"""
\frac \tfrac \dfrac \sqrt \sum \prod \int \max \min \sup \inf \arg \log \exp \lim \liminf \limsup \cos
\dim \Pr
\le \leq \ge \geq \ne \neq \ll \gg \in \notin \subset \subseteq \cup \cap \setminus \emptyset \to
\mapsto \infty
\iff \Rightarrow \Longrightarrow \Leftrightarrow \implies \forall \exists \approx \sim \simeq \asymp \propto
\equiv \colon \mid \partial \nabla \cdot \times \odot \pm \mp \circ \top \perp \parallel \star \ast \square
\vert \Vert \lvert \rvert \lVert \rVert \langle \rangle \lceil \rceil \lfloor \rfloor \{ \} \| \left \right
\big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl \biggr \middle \quad \qquad \, \; \: \! \\ \%
\dots \ldots \cdots \prime \limits \nolimits \displaystyle \textstyle \underbrace \overbrace
"""
ACCENTS = r"\\(?:hat|widehat|bar|overline|dot|ddot|tilde|mathcal|mathbf|mathbb|boldsymbol)(?![A-Za-z])"


def texts():
    """The Markdown of every page, chapters and others."""
    for address in pages():
        path = ROOT / f"{address}.ipynb"
        if path.is_file():
            cells = nbformat.read(path, as_version=4).cells
            yield address, "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        else:
            (path,) = (p for p in (ROOT / f"{address}.md", ROOT / f"{address}.rst") if p.is_file())
            yield address, path.read_text(encoding="utf-8")


def statements():
    """(page, kind, label, text) of each statement."""
    fence = re.compile(
        r"^(:{3,}|`{3,})\{prf:(\w+)\}[^\n]*\n((?::[a-z]+:[^\n]*\n)*)(.*?)^\1[ ]*$", re.M | re.S
    )
    for address, text in texts():
        for _, kind, options, body in fence.findall(text):
            label = re.search(r"^:label: (\S+)", options, re.M)
            yield address, kind, label and label[1], body


def symbols(tex):
    """The symbols of a formula: letters, Latin and Greek, with the accent (``\\hat p``) they wear."""
    tex = re.sub(r"\\(?:begin|end)\{[^}]*\}", " ", tex)
    tex = re.sub(r"\\(?:text|textbf|textit|mathrm|operatorname|mathsf|label|tag)\*?\{[^{}]*\}", " ", tex)
    found = set()
    for accent, accented, command, letter in re.findall(
        rf"({ACCENTS})\s*\{{?(\\[A-Za-z]+|[A-Za-z0-9])\}}?|(\\[A-Za-z]+|\\.)|([A-Za-z])", tex
    ):
        if accent:
            found.add(f"{accent} {accented}")
        elif letter or command not in {*PLAIN_TEX.split(), "\\ "}:
            found.add(letter or command)
    return found


def formulas(text):
    return [double or single for double, single in re.findall(r"\$\$(.*?)\$\$|\$([^$]+)\$", text, re.S)]


def registered():
    registry = symbol_registry.load(ROOT / "book" / "notation.yml")
    return {entry["symbol"] for section in registry["sections"] for entry in section["symbols"]}


def test_symbols_of_a_formula():
    assert symbols(r"\tfrac{\eta_0}{2}\alpha_s \hat{p}_\sigma\cdot\hat p \text{if } \mathcal S") == {
        r"\eta", r"\alpha", "s", r"\hat p", r"\sigma", r"\mathcal S"
    }  # fmt: skip


def test_statements_use_registered_symbols():
    known, unknown = registered(), []
    for address, kind, label, text in statements():
        if kind in CLAIMS | {"definition"}:
            used = set().union(*map(symbols, formulas(text)))
            unknown += [f"{address}, {label}: {symbol}" for symbol in sorted(used - known)]
    assert unknown == [], "register them in book/notation.yml"


def test_no_symbol_is_registered_twice():
    registry = symbol_registry.load(ROOT / "book" / "notation.yml")
    entries = [e for section in registry["sections"] for e in section["symbols"]]
    names = [e["symbol"] for e in entries]
    assert sorted(names) == sorted(set(names))
    terms = [e["term"] for e in entries if "definition" in e] + [e["term"] for e in registry["terms"]]
    assert sorted(terms) == sorted(set(terms))


def test_claims_have_labels():
    claims = [(address, kind, label) for address, kind, label, _ in statements() if kind in CLAIMS]
    assert claims
    assert [claim for claim in claims if not claim[2]] == []
    labels = [label for _, _, label in claims]
    assert sorted(labels) == sorted(set(labels))


def test_each_claim_has_its_contract_and_each_contract_its_claim():
    expected = {f"test_{label.replace('-', '_')}.py" for _, kind, label, _ in statements() if kind in CLAIMS}
    files = {path.name for path in Path(ROOT / "tests" / "contracts").glob("test_*.py")}
    assert files == expected


@pytest.mark.parametrize("kind", ["theorem", "corollary"])
def test_statements_are_found_at_all(kind):
    """A change of fences must not empty the tests above."""
    assert any(k == kind for _, k, _, _ in statements())
