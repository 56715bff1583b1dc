"""Counting the rows of a CSV file, up to a million of them: rows a second, and memory that stays flat."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import measure

SIZES = 100_000, 300_000, 1_000_000
COMPARED = SIZES[0]  # pandas and scikit-learn hold all texts at once
N_WORDS, LENGTH = 100_000, 60
READER = "pandas and CountVectorizer"


def main():
    """Make the files, count each one in a process of its own, and print what that took."""
    with tempfile.TemporaryDirectory() as folder:
        path, rows = Path(folder, "reviews.csv"), []
        for n in SIZES:
            write(path, n)
            size = path.stat().st_size
            # Twice from an empty cache: another process may disturb one of them.
            contenders = ["from_csv", "from_csv"] + [READER] * 2 * (n == COMPARED)
            found = {}
            for k, name in enumerate(contenders):
                cache = Path(folder, f"cache-{n}-{k}")
                found.setdefault(name, []).append(measured(name, path, cache))
                if name == "from_csv" and k == 1:
                    found["from_csv, from the cache"] = [measured(name, path, cache) for _ in range(2)]
            rows += [(name, n, size, best(runs)) for name, runs in found.items()]
    print(
        f"Rows of a CSV as counts: {LENGTH} tokens a row on average, from {N_WORDS:,} words with frequencies "
        "by Zipf's law. Each run is a process of its own; the shorter time and the larger memory of two. "
        "Memory is the peak of anonymous memory above what stands after the imports; bytes per row are its "
        "growth over the rows that came with it.\n"
    )
    table, before = [], {}
    for name, n, size, run in sorted(rows, key=lambda row: (row[0] == READER, row[0], row[1])):
        more = ""
        if name in before:
            fewer, peak = before[name]
            more = f"{(run['peak'] - peak) / (n - fewer):.0f}"
        before[name] = n, run["peak"]
        numbers = [f"{size / 1e6:.0f}"]
        for clock in ("seconds", "cpu"):
            numbers += [f"{run[clock]:.1f}", f"{n / run[clock]:,.0f}"]
        table.append((name, f"{n:,}", *numbers, f"{run['peak'] / 1e6:.0f}", more))
    clocks = ("seconds", "rows/s", "CPU seconds", "rows per CPU second")
    header = ("", "rows", "file (MB)", *clocks, "memory (MB)", "bytes per row")
    measure.table(header, table)


def write(path, n):
    """Write a file of n rows, the same whenever it is written: stars, and a text."""
    rng = np.random.default_rng(0)
    probabilities = 1 / np.arange(1, N_WORDS + 1)
    cumulated = np.cumsum(probabilities / probabilities.sum())
    words = np.array([f"{'aeiou'[s % 5]}{s:x}" for s in range(N_WORDS)], dtype=object)
    with path.open("w", encoding="utf-8") as file:
        file.write("stars,review\n")
        for _ in range(0, n, 10_000):
            lengths = 1 + rng.poisson(LENGTH - 1, 10_000)
            drawn = words[np.searchsorted(cumulated, rng.random(lengths.sum()))]
            stars = rng.choice([1, 2, 4, 5], 10_000)
            starts = np.cumsum(lengths) - lengths
            for star, start, length in zip(stars, starts, lengths, strict=True):
                file.write(f'{star},"{" ".join(drawn[start : start + length])}."\n')


def measured(name, path, cache):
    """Count a file in a process of its own, and watch its anonymous memory from outside, 100 times a second.

    The kernel keeps no peak of anonymous memory alone, and its peak of all resident memory also holds the
    pages of mapped files, which it takes back whenever it needs them.
    """
    command = [sys.executable, "-m", "benchmarks.csv_rows", name, str(path)]
    environment = os.environ | {"TOKENSEL_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            peak = max(peak, anonymous(status))
            time.sleep(0.01)
        printed = process.stdout.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    run = json.loads(printed)
    return {"seconds": run["seconds"], "cpu": run["cpu"], "peak": peak - run["standing"]}


def anonymous(status):
    """Bytes of anonymous memory of a process; 0 where it has just ended."""
    lines = status.read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def best(runs):
    """Return the shortest times and the largest memory of some runs."""
    least = {name: min(run[name] for run in runs) for name in ("seconds", "cpu")}
    return least | {"peak": max(run["peak"] for run in runs)}


def count(name, path):
    """Count a file, and print the seconds, those of the processor, and the memory that stood before."""
    if name == READER:
        import pandas as pd
        from sklearn.feature_extraction.text import CountVectorizer

        def run():
            frame = pd.read_csv(path)
            frame = frame[frame["stars"] != 3]
            return CountVectorizer().fit_transform(frame["review"]), frame["stars"] > 3
    else:
        import tokensel as ts

        def run():
            return ts.datasets.from_csv(path, "review", "stars", positive=[4, 5], negative=[1, 2])

    standing = anonymous(Path("/proc/self/status"))
    start, start_cpu = time.perf_counter(), time.process_time()
    kept = run()
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    del kept
    print(json.dumps({"seconds": seconds, "cpu": cpu, "standing": standing}))


if __name__ == "__main__":
    if sys.argv[1:]:
        count(*sys.argv[1:])
    else:
        main()
