"""`max_margin` with 200,000 pairs, and beside what a reader would write: all differences, given to cvxpy."""

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

from benchmarks import measure
from tokensel.corpus import Corpus
from tokensel.maxmargin import max_margin
from tokensel.selection import InfeasibleSelection, Selection

THIS = "benchmarks.max_margin"
SECONDS, GIGABYTES = 60, 2  # a solver that needs more is given no larger problem
# Every one of K important tokens beside every one of M others, Gaussian embeddings.
COMPLETE = [
    (10, 200, 220),
    (20, 400, 440),
    (30, 600, 660),
    (40, 800, 880),
    (50, 1000, 1100),
    (100, 2000, 2200),
]
# Pairs drawn among N selected and N other tokens: dimensions that make all orders possible, and that do not.
DRAWN = [(4000, 8200), (4000, 2200)]
N_DRAWN = 200_000


def main():
    """Print one table of both solvers over growing complete designs, and one of drawn pairs."""
    print(
        f"Max-margin, Gaussian embeddings, {measure.THREADS} threads, each in a process of its own. Times "
        "include loading cvxpy where it is used, about 2 s.\n"
    )
    rows, fits = [], True
    for sizes in COMPLETE:
        ours = run("max_margin", "complete", *sizes)
        direct = run("dense", "complete", *sizes) if fits else {"outcome": "not tried"}
        fits = fits and "seconds" in direct and direct["seconds"] < SECONDS and direct["peak"] < GIGABYTES
        rows.append(
            (" × ".join(f"{size:,}" for size in sizes), f"{ours['pairs']:,}", *cells(ours), *cells(direct))
        )
    measure.table(
        (
            "K × M, d",
            "pairs",
            "max_margin (s)",
            "CPU (s)",
            "peak (GB)",
            "KKT residual",
            "‖p̂‖²",
            "all differences in cvxpy (s)",
            "CPU (s)",
            "peak (GB)",
            "KKT residual",
            "‖p̂‖²",
        ),
        rows,
    )
    drawn = [(sizes, run("max_margin", "drawn", *sizes)) for sizes in DRAWN]
    measure.table(
        ("drawn from", "d", "pairs", "max_margin (s)", "CPU (s)", "peak (GB)", "KKT residual", "‖p̂‖²"),
        [(f"{n:,} × {n:,}", f"{dim:,}", f"{N_DRAWN:,}", *cells(result)) for (n, dim), result in drawn],
    )


def run(solver, design, *sizes):
    """Solve in a fresh process with a fixed number of threads, and read what it printed."""
    threads = {
        name: str(measure.THREADS)
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
    }
    done = subprocess.run(
        [sys.executable, "-m", THIS, solver, design, *map(str, sizes)],
        capture_output=True,
        text=True,
        env=os.environ | threads,
    )
    # Killed by the kernel for its memory, or given up by the solver: say so in the table.
    return json.loads(done.stdout) if done.returncode == 0 else {"outcome": f"exit status {done.returncode}"}


def cells(result):
    if "seconds" not in result:
        return result["outcome"], "", "", "", ""
    return (
        f"{result['seconds']:.1f}",
        f"{result['cpu']:.1f}",
        f"{result['peak']:.2f}",
        f"{result['residual']:.1e}",
        result["outcome"],
    )


def one(solver, design, *sizes):
    """Solve one problem and print a line of JSON: time and memory, and the KKT residual computed anew."""
    embeddings, selection = (complete if design == "complete" else drawn)(*sizes)
    pairs = selection.pairs
    clock, cpu = time.perf_counter(), time.process_time()
    try:
        p, support, duals = (ours if solver == "max_margin" else dense)(embeddings, selection)
        outcome = f"{p @ p:.6f}"
    except InfeasibleSelection as error:
        p, support, duals = None, error.pairs, error.weights
        outcome = "none exists: a convex combination is zero"
    seconds, cpu = time.perf_counter() - clock, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    residual = kkt(embeddings, pairs, p, support, duals)
    print(
        json.dumps(
            {
                "pairs": len(pairs),
                "seconds": seconds,
                "cpu": cpu,
                "peak": peak / 1e9,
                "residual": residual,
                "outcome": outcome,
            }
        )
    )


def complete(n_important, n_irrelevant, dim):
    """One sequence for each important token, with all irrelevant ones."""
    n_tokens = n_important + n_irrelevant
    sequences = [[k, *range(n_important, n_tokens)] for k in range(n_important)]
    corpus = Corpus.from_sequences(sequences, labels=np.ones(n_important))
    return gaussian(n_tokens, dim), Selection(corpus, range(n_important))


def drawn(n_each, dim):
    """Sequences of two tokens, no pair twice: a selected one of the first half, and one of the second."""
    codes = np.random.default_rng(1).choice(n_each**2, N_DRAWN, replace=False)
    sequences = np.column_stack([codes // n_each, n_each + codes % n_each])
    corpus = Corpus.from_sequences(sequences, labels=np.ones(N_DRAWN), n_tokens=2 * n_each)
    return gaussian(2 * n_each, dim), Selection(corpus, sequences[:, 0])


def gaussian(n_tokens, dim):
    embeddings = np.random.default_rng(0).standard_normal((n_tokens, dim))
    embeddings /= np.sqrt(dim)
    return embeddings


def ours(embeddings, selection):
    solution = max_margin(embeddings, selection)
    return solution.cls, solution.support_pairs, solution.duals


def dense(embeddings, selection):
    """Give cvxpy the matrix of all differences, as one would write it down."""
    import cvxpy as cp

    differences = embeddings[selection.pairs[:, 0]] - embeddings[selection.pairs[:, 1]]
    p = cp.Variable(embeddings.shape[1])
    above = differences @ p >= 1
    cp.Problem(cp.Minimize(cp.sum_squares(p) / 2), [above]).solve(solver=cp.CLARABEL)
    return p.value, selection.pairs, above.dual_value


def kkt(embeddings, pairs, p, support, duals):
    """The worst of the conditions; or, without a p, how long the combination is that should be zero."""
    combined = np.zeros(embeddings.shape[1])
    for start in range(0, len(support), 1000):  # a thousand differences at a time
        part = slice(start, start + 1000)
        combined += duals[part] @ (embeddings[support[part, 0]] - embeddings[support[part, 1]])
    if p is None:
        return float(np.linalg.norm(combined))
    scores = embeddings @ p
    margins = scores[pairs[:, 0]] - scores[pairs[:, 1]]
    tight = scores[support[:, 0]] - scores[support[:, 1]]
    return float(
        max(
            np.linalg.norm(p - combined) / np.linalg.norm(p),
            1 - margins.min(),
            -duals.min() / duals.max(),
            duals @ np.abs(tight - 1) / duals.sum(),
        )
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        one(*sys.argv[1:3], *map(int, sys.argv[3:]))
    else:
        main()
