"""`gradient_flow`: the design of the chapters to norms 400 and 1000, and 20,000 sequences to norm 200."""

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

from benchmarks import measure
from tokensel.flow import gradient_flow
from tokensel.maxmargin import cosine, max_margin
from tokensel.model import AttentionClassifier
from tokensel.samplers import one_important_token
from tokensel.training import one_step

THIS = "benchmarks.flow"
SEEDS = range(1000, 1020)  # not those of the tests
# Important tokens and step size: attention that selects well, and that hardly does.
LARGE = [(100, 1000), (100, 40)]


def main():
    """Print one table of 20 small flows, and one of large ones."""
    small = run("small")
    print(
        f"Gradient flow; the small flows on {measure.THREADS} threads. On a busy machine more are slower: "
        "they wait for each other, and CPU time counts that as well.\n"
    )
    rows = []
    for name, unit in (
        ("to norm 400 (s)", ""),
        ("to norm 1000 (s)", ""),
        ("1 - cosine", "e"),
        ("error of tD", "e"),
    ):
        numbers = np.array(small[name])
        rows.append(
            (name, *(f"{x:.1e}" if unit else f"{x:.2f}" for x in (np.median(numbers), numbers.max())))
        )
    measure.table((f"n = 200, T = 8, K = 6, M = 20, d = 256, {len(SEEDS)} seeds", "median", "worst"), rows)
    large = [((*sizes, n), run("large", *sizes, threads=n)) for sizes in LARGE for n in (1, measure.THREADS)]
    measure.table(
        (
            "n = 20,000, T = 50, S = 5,000, d = 512: K, step size, threads",
            "to norm 200 (s)",
            "CPU (s)",
            "peak (GB)",
            "points",
            "log time",
            "status",
        ),
        [
            (
                f"{k:,}, {step:,}, {threads}",
                f"{result['seconds']:.1f}",
                f"{result['cpu']:.1f}",
                f"{result['peak']:.2f}",
                f"{result['points']:,}",
                f"{result['log_time']:.2f}",
                result["status"],
            )
            for (k, step, threads), result in large
        ],
    )


def run(what, *sizes, threads=measure.THREADS):
    """Measure in a fresh process with a fixed number of threads, and read what it printed."""
    threads = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    command = [sys.executable, "-m", THIS, what, *map(str, sizes)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | threads)
    return json.loads(done.stdout)


def small():
    """Times, and how far direction and t(L - L_sigma) are from what cvxpy says, at norm 1000."""
    results = {"to norm 400 (s)": [], "to norm 1000 (s)": [], "1 - cosine": [], "error of tD": []}
    for seed in SEEDS:
        corpus = one_important_token(seed=seed)
        model = one_step(AttentionClassifier.initialise(corpus.n_tokens, 256, seed=seed), corpus, 40.0)
        if seed == SEEDS[0]:
            gradient_flow(model, corpus, 10.0)  # loads SciPy
        for norm in (400.0, 1000.0):
            start = time.perf_counter()
            path = gradient_flow(model, corpus, norm)
            results[f"to norm {norm:.0f} (s)"].append(time.perf_counter() - start)
        solution = max_margin(model.embeddings, path.selection, model.values())
        results["1 - cosine"].append(1 - cosine(path.cls[-1], solution.cls))
        product = np.exp(path.log_time[-1] + path.log_loss_gap[-1])
        results["error of tD"].append(abs(product * solution.margin**2 - 1))
    return results


def large(n_important, step_size):
    corpus = one_important_token(20_000, 50, n_important, 5_000 - n_important)
    model = one_step(AttentionClassifier.initialise(corpus.n_tokens, 512), corpus, step_size)
    clock, cpu = time.perf_counter(), time.process_time()
    path = gradient_flow(model, corpus, 200.0)
    return {
        "seconds": time.perf_counter() - clock,
        "cpu": time.process_time() - cpu,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "points": len(path.norm),
        "log_time": float(path.log_time[-1]),
        "status": path.status,
    }


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps({"small": small, "large": large}[sys.argv[1]](*map(int, sys.argv[2:]))))
    else:
        main()
