"""Statements of the book: each has a contract test, in full, and uses registered symbols only."""

import ast
import re

import pytest
import symbol_registry
from browsing import ROOT
from verified_statements import CLAIMS, statements

CONTRACTS = sorted((ROOT / "tests" / "contracts").glob("test_*.py"))
ORIGINS = {"paper's claim, our derivation", "beyond the paper", "tool"}
# TeX that stands for no symbol of ours: functions, relations, operators, brackets, layout.
PLAIN_TEX = r"""
\frac \tfrac \dfrac \sqrt \sum \prod \int \max \min \sup \inf \arg \log \exp \lim \liminf \limsup \cos
\dim \Pr
\le \leq \ge \geq \ne \neq \ll \gg \in \notin \subset \subseteq \cup \cap \setminus \emptyset \to
\mapsto \infty \leftrightarrow
\iff \Rightarrow \Longrightarrow \Leftrightarrow \implies \forall \exists \approx \sim \simeq \asymp \propto
\equiv \colon \mid \partial \nabla \cdot \times \odot \pm \mp \circ \top \perp \parallel \star \ast \square
\vert \Vert \lvert \rvert \lVert \rVert \langle \rangle \lceil \rceil \lfloor \rfloor \{ \} \| \left \right
\big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl \biggr \middle \quad \qquad \, \; \: \! \\ \%
\dots \ldots \cdots \prime \limits \nolimits \displaystyle \textstyle \underbrace \overbrace
\dot
"""  # a dot is the derivative by time of what it stands on: see \dot p in the registry
ACCENTS = r"\\(?:hat|widehat|bar|overline|tilde|mathcal|mathbf|mathbb|boldsymbol)(?![A-Za-z])"


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
    for statement in statements(ROOT):
        if statement.kind in CLAIMS | {"definition"}:
            used = set().union(*map(symbols, formulas(statement.text)))
            where = f"{statement.page}, {statement.label}"
            unknown += [f"{where}: {symbol}" for symbol in sorted(used - known)]
    assert unknown == [], "register them in book/notation.yml"


def test_no_symbol_is_registered_twice():
    registry = symbol_registry.load(ROOT / "book" / "notation.yml")
    entries = [e for section in registry["sections"] for e in section["symbols"]]
    names = [e["symbol"] for e in entries]
    assert sorted(names) == sorted(set(names))
    terms = [e["term"] for e in entries if "definition" in e] + [e["term"] for e in registry["terms"]]
    assert sorted(terms) == sorted(set(terms))


def test_claims_have_labels_and_titles():
    claims = [statement for statement in statements(ROOT) if statement.kind in CLAIMS]
    assert claims
    assert [claim.page for claim in claims if not claim.label or not claim.title] == []
    labels = [claim.label for claim in claims]
    assert sorted(labels) == sorted(set(labels))


def test_each_claim_has_its_contract_and_each_contract_its_claim():
    claims = {statement.label for statement in statements(ROOT) if statement.kind in CLAIMS}
    assert {path.name for path in CONTRACTS} == {f"test_{label.replace('-', '_')}.py" for label in claims}


@pytest.mark.parametrize("kind", ["theorem", "corollary"])
def test_statements_are_found_at_all(kind):
    """A change of fences must not empty the tests above."""
    assert any(statement.kind == kind for statement in statements(ROOT))


def constants(tree):
    """Names and values that a module spells out."""
    return {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("ORIGIN", "SETTING", "HYPOTHESES")
    }


def dropped(function):
    """The hypotheses that a test is marked to do without."""
    calls = [mark for mark in function.decorator_list if isinstance(mark, ast.Call)]
    return {
        argument.value
        for call in calls
        if ast.unparse(call.func) == "pytest.mark.drops"
        for argument in call.args
    }


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda path: path.stem)
def test_each_contract_is_complete(path):
    """Where the statement comes from, what it allows, and a counterexample for each of its hypotheses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = constants(tree)
    assert said["ORIGIN"] in ORIGINS
    assert said["SETTING"].strip()
    assert all(words.strip() for words in said["HYPOTHESES"].values())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    tests = [function for function in functions if function.name.startswith("test_")]
    assert set().union(*map(dropped, tests)) == set(said["HYPOTHESES"])
    recording = [t for t in tests if "evidence" in [argument.arg for argument in t.args.args]]
    assert recording, "no test of the conclusion leaves evidence"
