"""The page "Verified statements": what contracts leave behind, when it is made anew, and what it shows."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import contract_outcome
import pytest
import yaml
from browsing import ROOT
from content_hash import contracts_hash
from verified_statements import CLAIMS, PAGE, number, sentence, statements

CONTRACT = """
from pathlib import Path

import pytest

ORIGIN = "tool"
SETTING = "Any $x$."
HYPOTHESES = {"small": "$x$ is at most one.", "real": "$x$ is real."}


@pytest.mark.parametrize("x", [0.25, 0.5, 1.0])
def test_the_square_is_below(x, evidence):
    with Path("runs.txt").open("a") as runs:
        runs.write("run ")
    evidence.bound(x**2, x)
    evidence.limit(x + x**2, x)


def test_it_holds(evidence):
    evidence.holds(4)
    evidence.holds()


@pytest.mark.drops("small", "real")
def test_without_it_the_square_is_above():
    assert 2**2 > 2
"""
FAILING = """
SETTING, ORIGIN, HYPOTHESES = "None.", "tool", {}


def test_the_sum_is_right(evidence):
    evidence.holds()
    assert 1 + 1 == 3
"""
CHAPTER = """# A chapter

:::{prf:theorem} Squares $x^2$
:label: thm-square

Below one $x^2\\le x$.
:::
"""


class Book:
    """A copy of the book's extensions around one statement with its contract."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("book/_ext", "book/_static"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "book" / "reference").mkdir()
        (folder / "tests" / "contracts").mkdir(parents=True)
        (folder / "tests" / "book").mkdir()
        for name in (
            *("_config.yml", "pyproject.toml", "requirements.lock", f"{PAGE}.md"),
            *("book/references.bib", "book/notation.yml"),
            *("tests/conftest.py", "tests/book/browsing.py", "tests/contracts/conftest.py"),
        ):
            shutil.copy(ROOT / name, folder / name)
        self.write("tokensel/__init__.py", "")
        self.write("book/index.md", "# A book\n")
        self.write("book/chapter.md", CHAPTER)
        self.write("book/cited.md", "# Cited\n\n```{bibliography}\n```\n")
        self.write("tests/contracts/test_thm_square.py", CONTRACT)
        parts = [
            {"caption": "Numbers", "chapters": [{"file": "book/chapter"}]},
            {"caption": "Reference", "chapters": [{"file": PAGE}, {"file": "book/cited"}]},
        ]
        self.write("_toc.yml", yaml.safe_dump({"format": "jb-book", "root": "book/index", "parts": parts}))

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, *command):
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def contracts(self):
        return self.run(sys.executable, "book/_ext/contract_outcome.py")

    def pytest(self, *arguments):
        # Not `python -m pytest`, which would import the empty package of this folder.
        return self.run(Path(sys.executable).with_name("pytest"), "-q", *arguments)

    def build(self):
        return self.run(Path(sys.executable).with_name("jupyter-book"), "build", ".", "-W", "-n")

    def runs(self):
        """How often the test that leaves a trace ran since the last time this was asked."""
        path = self.folder / "runs.txt"
        count = len(path.read_text().split()) if path.exists() else 0
        path.unlink(missing_ok=True)
        return count

    def page(self):
        return (self.folder / "_build" / "html" / f"{PAGE}.html").read_text(encoding="utf-8")


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


def test_outcome_holds_what_the_tests_left(book):
    done = book.contracts()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 tests of 1 statements" in done.stdout
    statement = json.loads((book.folder / "_build" / "contracts.json").read_text())["statements"][
        "thm-square"
    ]
    assert (statement["origin"], statement["setting"]) == ("tool", "Any $x$.")
    assert list(statement["hypotheses"]) == ["small", "real"]
    below, holds, without = statement["tests"].values()
    assert below["found"]["bounds"] == {"instances": 3, "largest": 1.0, "median": 0.5}
    assert below["found"]["limits"] == {"instances": 3, "largest": 1.0, "median": 0.5}
    assert (below["passed"], below["failed"], below["drops"]) == (3, 0, [])
    assert holds["found"]["holds"] == {"instances": 5}
    assert without["drops"] == ["small", "real"]
    assert without["found"] == {}
    assert statement["found"] == below["found"] | holds["found"]


def test_failing_test_shows_as_failing_and_leaves_no_outcome(book):
    assert book.contracts().returncode == 0
    book.write("tests/contracts/test_prop_sum.py", FAILING)
    book.pytest("tests/contracts", "--evidence", "evidence.json")
    left = json.loads((book.folder / "evidence.json").read_text())
    assert left["prop-sum"]["tests"]["test_the_sum_is_right"]["failed"] == 1
    assert left["thm-square"]["tests"]["test_it_holds"]["failed"] == 0
    done = book.contracts()
    assert done.returncode != 0
    assert "tests/contracts/test_prop_sum.py failed" in done.stdout
    assert "assert (1 + 1) == 3" in done.stdout
    assert not (book.folder / "_build" / "contracts.json").exists()


def test_wrong_evidence_fails_its_test(book):
    wrong = [
        "evidence.bound(2, 1)",
        "evidence.bound(-1, 1)",
        "evidence.bound(1, float('inf'))",
        "evidence.limit(float('nan'), 1)",
    ]
    tests = [f"def test_{k}(evidence):\n    {line}\n" for k, line in enumerate(wrong)]
    marked = "@pytest.mark.drops('small')\ndef test_marked(evidence):\n    evidence.holds()\n"
    text = "import pytest\n\n\n" + "\n\n".join([*tests, marked])
    book.write("tests/contracts/test_thm_square.py", text)
    done = book.pytest("tests/contracts")
    assert "4 failed, 1 error" in done.stdout
    assert "a counterexample is no evidence" in done.stdout


def test_damaged_outcome_is_none_and_is_made_anew(book):
    book.write("_build/contracts.json", "")
    for left in (b"", b"[]", b'{"statements": {}}', b"null", b"\xff", b'{"hash"'):
        (book.folder / contract_outcome.OUTCOME).write_bytes(left)
        assert contract_outcome.fresh_outcome(book.folder) is None
    assert "5 passed" in book.pytest("--reuse-contracts").stdout
    assert book.contracts().returncode == 0
    assert contract_outcome.fresh_outcome(book.folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{CONTRACT}\n\ndef test_left_out():\n    pytest.skip('no time')\n", "test_left_out"),
        (f"{CONTRACT}\n\n@pytest.mark.xfail\ndef test_wrong():\n    assert 1 + 1 == 3\n", "test_wrong"),
        (CONTRACT.replace("holds(4)", "holds(4)\n    import warnings; warnings.warn('careful')"), "careful"),
        (f"{CONTRACT}\n\ndef test_dies():\n    import os; os._exit(3)\n", "a process died"),
        ("raise RuntimeError('at import')\n", "at import"),
        ("", "no tests ran"),
    ],
)
def test_contract_that_did_not_wholly_pass_is_named_and_leaves_no_outcome(book, text, words):
    assert book.contracts().returncode == 0
    book.write("tests/contracts/test_thm_square.py", text)
    done = book.contracts()
    assert done.returncode != 0
    assert words in done.stdout
    assert "tests/contracts/test_thm_square.py" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert contract_outcome.fresh_outcome(book.folder) is None


def test_contract_that_fails_on_a_second_run_takes_the_outcome_back(book):
    flag = "from pathlib import Path\n\n\ndef test_once():\n    Path('once.txt').touch(exist_ok=False)\n"
    book.write("tests/contracts/test_prop_once.py", flag)
    assert book.contracts().returncode == 0
    assert contract_outcome.fresh_outcome(book.folder)
    assert book.contracts().returncode != 0
    assert contract_outcome.fresh_outcome(book.folder) is None


def test_killed_run_leaves_no_process_and_no_outcome(book):
    slow = "import time\n\n\ndef test_slow():\n    open('slow.txt', 'w').close()\n    time.sleep(600)\n"
    book.write("tests/contracts/test_prop_slow.py", slow)
    run = subprocess.Popen(
        [sys.executable, "book/_ext/contract_outcome.py"], cwd=book.folder, stdout=subprocess.PIPE
    )
    while not (book.folder / "slow.txt").exists():
        assert run.poll() is None
        time.sleep(0.05)
    run.kill()
    # Its workers hold the same pipe, which ends with the last of them.
    assert run.communicate(timeout=60) == (b"", None)
    assert contract_outcome.fresh_outcome(book.folder) is None


def test_no_contracts_at_all_is_no_pass(book):
    (book.folder / "tests" / "contracts" / "test_thm_square.py").unlink()
    done = book.contracts()
    assert done.returncode != 0
    assert "no contracts" in done.stdout


def test_outcome_is_stale_once_anything_changed_that_it_depends_on(book):
    assert contract_outcome.fresh_outcome(book.folder) is None
    outcome = {"hash": contracts_hash(book.folder), "statements": {}}
    book.write("_build/contracts.json", json.dumps(outcome))
    assert contract_outcome.fresh_outcome(book.folder) == outcome
    for name in (
        *("tokensel/__init__.py", "tests/contracts/test_thm_square.py", "tests/contracts/conftest.py"),
        *("requirements.lock", "pyproject.toml"),
    ):
        before = (book.folder / name).read_text()
        book.write(name, before + "# changed\n")
        assert contract_outcome.fresh_outcome(book.folder) is None, name
        book.write(name, before)
        assert contract_outcome.fresh_outcome(book.folder) == outcome, name
    book.write("tests/contracts/test_thm_new.py", "")
    assert contract_outcome.fresh_outcome(book.folder) is None


def test_contracts_are_left_out_only_when_asked_and_only_while_fresh(book):
    again = "contracts not repeated: 5 tests of 1 statements passed in the build of the book"
    assert book.contracts().returncode == 0
    assert book.runs() == 3
    left_out = book.pytest("--reuse-contracts")
    assert again in left_out.stdout
    assert book.runs() == 0
    by_hand = book.pytest("tests/contracts")
    assert "5 passed" in by_hand.stdout
    assert again not in by_hand.stdout
    assert book.runs() == 3
    book.write("tokensel/__init__.py", "changed = True\n")
    stale = book.pytest("--reuse-contracts")
    assert stale.returncode == 0
    assert again not in stale.stdout
    assert book.runs() == 3


def test_build_runs_contracts_once_and_shows_what_they_left(book):
    built = book.build()
    assert built.returncode == 0, built.stdout + built.stderr
    assert book.runs() == 3
    page = book.page()
    assert "Without it" in page
    assert "3 instances" in page
    assert "5 instances of yes or no, all as stated" in page
    assert "The square is below" in page
    again = book.build()
    assert again.returncode == 0
    assert book.runs() == 0

    book.write("tests/contracts/test_thm_square.py", CONTRACT.replace("0.25, ", ""))
    changed = book.build()
    assert changed.returncode == 0, changed.stdout + changed.stderr
    assert book.runs() == 2
    assert "2 instances" in book.page()

    shutil.move(book.folder / "tests/contracts/test_thm_square.py", book.folder / "tests/contracts/test_x.py")
    lacking = book.build()
    assert lacking.returncode != 0
    told = " ".join((lacking.stdout + lacking.stderr).split())
    assert "theorem thm-square of book/chapter has no file in tests/contracts" in told

    book.write("tests/contracts/test_prop_sum.py", FAILING)
    failed = book.build()
    told = failed.stdout + failed.stderr
    assert failed.returncode != 0
    assert "contracts failed" in told
    assert "tests/contracts/test_prop_sum.py failed" in told
    assert "assert (1 + 1) == 3" in told


@pytest.mark.parametrize(
    ("value", "tex"),
    [
        (0, "0"), (1, "1"), (0.5, "0.5"), (0.934, "0.93"), (41, "41"), (0.0123, "0.012"),
        (1 - 1e-12, "1"), (0.996, "1-0.004"), (0.999996, r"1-4.0\cdot10^{-6}"),
        (1.26e-7, r"1.3\cdot10^{-7}"), (3.0e-16, r"3.0\cdot10^{-16}"), (1234, r"1.2\cdot10^{3}"),
    ],
)  # fmt: skip
def test_numbers_of_the_page(value, tex):
    assert number(value) == tex


def test_words_become_sentences():
    assert sentence("all lengths\n are equal") == "All lengths are equal."
    assert sentence("$x\\le1$.") == "$x\\le1$."


def test_page_shows_every_claim_with_its_hypotheses_and_instances(soups):
    outcome = contract_outcome.fresh_outcome(ROOT)
    assert outcome, "the outcome is stale; run `make book` first"
    cards = soups[PAGE].select(".contract")
    claims = [statement for statement in statements(ROOT) if statement.kind in CLAIMS]
    assert len(cards) == len(claims)
    for card, claim in zip(cards, claims, strict=True):
        contract = outcome["statements"][claim.label]
        tests = contract["tests"].values()
        assert sum(test["failed"] + test["skipped"] for test in tests) == 0
        shown = card.get_text(" ", strip=True)
        for name in contract["hypotheses"]:
            assert any(name in test["drops"] and test["passed"] for test in tests), (claim.label, name)
        counts = [of["instances"] for of in contract["found"].values()]
        assert counts, claim.label
        assert all(f"{count:,} instance" in shown for count in counts), claim.label
        assert len(card.select(".without")) == sum(len(test["drops"]) for test in tests)
