"""What contracts leave behind for the page "Verified statements": instances tried, and how tight they were.

Each contract file states its ``SETTING`` (what is allowed throughout), its ``HYPOTHESES`` (name to words),
both in Markdown, and its ``ORIGIN``, one of

- "paper's claim, our derivation": the paper's abstract claims it, statement and proof are this book's;
- "beyond the paper": the abstract says nothing of the kind;
- "tool": an identity or a criterion that proofs stand on, and that is no claim about training.

A test of the conclusion calls the fixture `evidence` once for each instance whose hypotheses it has checked;
a counterexample carries ``@pytest.mark.drops("name")``. With ``--evidence PATH`` pytest writes all of it to a
JSON file at the end, failures included. With ``--reuse-contracts`` (``make test``) contracts are left out if
the build of the book has run these very contracts on this very package, and all passed.
"""

import json
import math
import statistics
from pathlib import Path
from typing import NamedTuple

import contract_outcome
import numpy as np
import pytest

STATEMENTS = pytest.StashKey[dict]()
CONTRACTS = Path(__file__).parent


class Evidence:
    """Figures from all instances of one test function."""

    def __init__(self):
        self.ratios, self.errors, self.exact = [], [], 0

    def bound(self, measured, bound):
        """An instance of ``measured <= bound``: kept is their ratio, 1 where the bound is attained."""
        measured, bound = float(measured), float(bound)
        assert 0 <= measured <= bound < math.inf
        self.ratios.append(measured / bound if bound else 1.0)

    def limit(self, measured, predicted):
        """An instance of an equality or a limit: kept is the relative error, or the absolute one of 0."""
        error = abs(float(measured) - float(predicted)) / (abs(float(predicted)) or 1.0)
        assert error < math.inf
        self.errors.append(error)

    def holds(self, instances=1):
        """Instances of a yes-or-no conclusion, which the test has asserted itself."""
        self.exact += int(instances)

    def found(self):
        found = {"holds": {"instances": self.exact}} if self.exact else {}
        for kind, numbers in (("bounds", self.ratios), ("limits", self.errors)):
            if numbers:
                largest, median = max(numbers), statistics.median(numbers)
                found[kind] = {"instances": len(numbers), "largest": largest, "median": median}
        return found


def together(several):
    """What several tests found, as if they were one."""
    whole = Evidence()
    for one in several:
        whole.ratios += one.ratios
        whole.errors += one.errors
        whole.exact += one.exact
    return whole


class Tested:
    """One test function: which hypotheses it drops, how its runs ended, and its evidence."""

    def __init__(self, item):
        self.drops = [name for mark in item.iter_markers("drops") for name in mark.args]
        self.counts, self.seconds, self.evidence = {"passed": 0, "failed": 0, "skipped": 0}, 0.0, Evidence()

    def note(self, report):
        self.seconds += report.duration
        if report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] += 1

    def record(self):
        return {"drops": self.drops, "seconds": self.seconds, "found": self.evidence.found()} | self.counts


def tested(item):
    """The record of a test function, in that of the statement whose contract its file is."""
    label = item.path.stem.removeprefix("test_").replace("_", "-")
    statement = item.config.stash[STATEMENTS].setdefault(
        label,
        {
            "origin": getattr(item.module, "ORIGIN", None),
            "setting": getattr(item.module, "SETTING", None),
            "hypotheses": getattr(item.module, "HYPOTHESES", None),
            "tests": {},
        },
    )
    if item.originalname not in statement["tests"]:
        statement["tests"][item.originalname] = Tested(item)
    return statement["tests"][item.originalname]


def pytest_addoption(parser):
    parser.addoption("--evidence", metavar="PATH", help="write what the contracts leave behind as JSON")


def pytest_configure(config):
    config.stash[STATEMENTS] = {}
    config.addinivalue_line("markers", "drops(*hypotheses): a counterexample without these hypotheses")


def pytest_ignore_collect(collection_path, config):
    if collection_path.parent == CONTRACTS and reused(config):
        return True
    return None


def reused(config):
    """The outcome that stands for running the contracts, if that was asked for and there is one."""
    asked = config.getoption("reuse_contracts", False)
    return contract_outcome.fresh_outcome(config.rootpath) if asked else None


def pytest_terminal_summary(terminalreporter, config):
    outcome = reused(config)
    if outcome:
        terminalreporter.write_line(
            f"contracts not repeated: {contract_outcome.summary(outcome)} passed in the build of the book, "
            "with this very package"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if isinstance(item, pytest.Function):
        tested(item).note(report)
    return report


def pytest_sessionfinish(session):
    path = session.config.getoption("evidence", None)
    if path:
        statements = {}
        for label, statement in session.config.stash[STATEMENTS].items():
            tests = statement["tests"]
            statements[label] = statement | {
                "found": together(test.evidence for test in tests.values()).found(),
                "tests": {name: test.record() for name, test in tests.items()},
            }
        Path(path).write_text(json.dumps(statements, indent=1), encoding="utf-8")


@pytest.fixture
def evidence(request):
    """Where a test of the conclusion records its instances."""
    record = tested(request.node)
    assert not record.drops, "a counterexample is no evidence for the statement"
    return record.evidence


class Saddle(NamedTuple):
    """One positive sequence, and a curve of p that the flow follows although p-hat points elsewhere."""

    corpus: object
    embeddings: np.ndarray
    output: np.ndarray
    direction: np.ndarray  # tight on both pairs, with one multiplier positive and one negative
    offset: np.ndarray  # on the curve p = direction log t + offset + o(1)
    curve: np.ndarray  # (k, 3), in the order of time


@pytest.fixture(scope="session")
def saddle():
    """The saddle of the chapter on gradient flow, followed backwards: what repels forwards then attracts."""
    from scipy.integrate import solve_ivp

    import tokensel as ts

    embeddings = np.array([[0, 0, 1.0], [-1, 0, 1], [-1.5, -2, 1]])
    output = np.array([1.0, -1.0, 0.0])
    b = embeddings @ output
    z = embeddings[0] - embeddings[1:]
    direction = np.array([1, -0.25, 0])
    multipliers, coefficients = np.array([19 / 16, -1 / 8]), (b[0] - b[1:]) / 2
    offset = np.append(np.linalg.solve(z[:, :2], np.log(coefficients / multipliers)), 0)

    def backwards(_, p):
        """The gradient of the loss over its norm: up to a factor, the sum over the three pairs of tokens."""
        gaps = z @ p
        share = np.exp(-(gaps - gaps.min()))
        between = share[0] * np.exp(-gaps[1]) * (b[1] - b[2]) * (embeddings[1] - embeddings[2])
        force = (share * (b[0] - b[1:])) @ z + between
        return -force / np.linalg.norm(force)

    lengths = np.linspace(0, 295, 60)  # from a norm of about 300 down to about 5
    solution = solve_ivp(
        backwards, (0, 295), 300 * direction / np.linalg.norm(direction) + offset,
        method="LSODA", t_eval=lengths, rtol=1e-11, atol=1e-11,
    )  # fmt: skip
    assert solution.success
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], labels=[+1])
    return Saddle(corpus, embeddings, output, direction, offset, solution.y.T[::-1])
