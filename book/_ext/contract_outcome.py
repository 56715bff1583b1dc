"""The outcome of the contracts, `_build/contracts.json`: written when all of them passed, read by the page
"Verified statements" and by `make test`, which then need not run them a second time.

``python book/_ext/contract_outcome.py`` runs every file of ``tests/contracts/``, one process a core. The
outcome holds a hash of the package, the contracts and the pinned versions; once they change, it is none.
"""

import contextlib
import io
import json
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from content_hash import contracts_hash

ROOT = Path(__file__).resolve().parents[2]
OUTCOME = Path("_build") / "contracts.json"


def fresh_outcome(root):
    """What all contracts of this very package left behind when they passed; None if that is not known."""
    path = root / OUTCOME
    if not path.is_file():
        return None
    outcome = json.loads(path.read_text(encoding="utf-8"))
    return outcome if outcome["hash"] == contracts_hash(root) else None


def run_contract(root, path):
    """Run one contract in this process; return what it left behind, or what pytest said when it failed."""
    os.chdir(root)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()) as said,
    ):
        evidence = Path(folder) / "evidence.json"
        exit_code = pytest.main([str(path), "--evidence", str(evidence), "-q", "-p", "no:cacheprovider"])
        if exit_code != pytest.ExitCode.OK:
            return {}, f"{path.relative_to(root)} failed\n{said.getvalue()}"
        return json.loads(evidence.read_text(encoding="utf-8")), None


def run_contracts(root):
    """Run all contracts and write their outcome; return what is to be said, and whether they passed."""
    began = time.perf_counter()
    outcome = {"hash": contracts_hash(root), "statements": {}}
    (root / OUTCOME).unlink(missing_ok=True)
    # The longest file first, so that it does not run alone at the end.
    paths = sorted((root / "tests" / "contracts").glob("test_*.py"), key=lambda p: p.stat().st_size)[::-1]
    workers = min(len(paths), os.cpu_count())
    # Processes share the cores: threads that outnumber them wait for one another.
    os.environ["OMP_NUM_THREADS"] = str(max(1, os.cpu_count() // workers))
    failures = []
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for statements, failure in pool.map(run_contract, [root] * len(paths), paths):
            outcome["statements"] |= statements
            failures += [failure] if failure else []
    if failures:
        return "\n\n".join(failures), False
    (root / OUTCOME).parent.mkdir(exist_ok=True)
    (root / OUTCOME).write_text(json.dumps(outcome, indent=1), encoding="utf-8")
    return (
        f"all contracts passed: {summary(outcome)}, in {time.perf_counter() - began:.0f} s",
        True,
    )


def summary(outcome):
    statements = outcome["statements"].values()
    tests = sum(test["passed"] for statement in statements for test in statement["tests"].values())
    return f"{tests} tests of {len(statements)} statements"


if __name__ == "__main__":
    said, passed = run_contracts(ROOT)
    print(said)
    sys.exit(not passed)
