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
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from content_hash import contracts_hash

ROOT = Path(__file__).resolve().parents[2]
OUTCOME = Path("_build") / "contracts.json"


def fresh_outcome(root):
    """What all contracts of this very package left behind when they passed; None if that is not known."""
    try:
        outcome = json.loads((root / OUTCOME).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # not there, or damaged: to be had again from the contracts
        return None
    known = isinstance(outcome, dict) and outcome.get("hash") == contracts_hash(root)
    return outcome if known else None


def end_with_parent():
    """Let this process end when the one that started it was killed: it would wait for work for ever."""

    def wait():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


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
        statements = json.loads(evidence.read_text(encoding="utf-8"))
    skipped = [
        name
        for statement in statements.values()
        for name, test in statement["tests"].items()
        if test["skipped"]
    ]
    if skipped:
        return {}, f"{path.relative_to(root)} failed\nskipped, or expected to fail: {', '.join(skipped)}"
    return statements, None


def run_contracts(root):
    """Run all contracts and write their outcome; return what is to be said, and whether they passed."""
    began = time.perf_counter()
    outcome = {"hash": contracts_hash(root), "statements": {}}
    # The longest file first, so that it does not run alone at the end.
    paths = sorted((root / "tests" / "contracts").glob("test_*.py"), key=lambda p: p.stat().st_size)[::-1]
    if not paths:
        return "no contracts in tests/contracts", False
    workers = min(len(paths), os.cpu_count())
    # Processes share the cores: threads that outnumber them wait for one another.
    os.environ["OMP_NUM_THREADS"] = str(max(1, os.cpu_count() // workers))
    failures, unfinished = [], []
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), end_with_parent) as pool:
        runs = {path: pool.submit(run_contract, root, path) for path in paths}
        for path, run in runs.items():
            try:
                statements, failure = run.result()
            except BrokenProcessPool:
                unfinished.append(str(path.relative_to(root)))
                continue
            outcome["statements"] |= statements
            failures += [failure] if failure else []
    if unfinished:
        failures.append(f"a process died, killed or out of memory; not finished: {', '.join(unfinished)}")
    if failures:
        (root / OUTCOME).unlink(missing_ok=True)  # these very contracts may have passed before
        return "\n\n".join(failures), False
    _write(root / OUTCOME, outcome)
    return (
        f"all contracts passed: {summary(outcome)}, in {time.perf_counter() - began:.0f} s",
        True,
    )


def _write(path, outcome):
    """Write all of it or nothing: another build may be reading."""
    path.parent.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        json.dump(outcome, file, indent=1)
    os.replace(file.name, path)


def summary(outcome):
    statements = outcome["statements"].values()
    tests = sum(test["passed"] for statement in statements for test in statement["tests"].values())
    return f"{tests} tests of {len(statements)} statements"


if __name__ == "__main__":
    said, passed = run_contracts(ROOT)
    print(said)
    sys.exit(not passed)
