"""A training step shared out to two processes, beside one process and beside data-parallel training of E."""

import json
import sys
import time

import numpy as np
import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

import tokensel as ts
from benchmarks import measure

# As many reviews and tokens as IMDB has in training; a Zipf law over the tokens gives about as many counts.
N_SEQUENCES, N_TOKENS, LENGTH = 25_000, 12_285, 223
DIMS = 64, 256, 1024
ROUNDS, STEPS, WARM_UP = 4, 8, 3


def main():
    """Print, for each dimension, the time of a step and the bytes that are added up over the processes."""
    printed = measure.in_a_process_of_its_own(
        "torch.distributed.run", "--nproc-per-node", "2", "-m", "benchmarks.distributed", "--measure"
    )
    found = json.loads(printed.splitlines()[-1])
    print(
        f"A step of Adam on E and p: {N_SEQUENCES:,} sequences over {N_TOKENS:,} tokens, "
        f"{found['n_counts']:,} counts, float32; added up by gloo on one machine.\n"
    )
    measure.table(
        ("", "d", "best (ms)", "median (ms)", "added up a step (kB)"),
        [
            (
                name,
                dim,
                f"{1e3 * times[0]:.0f}",
                f"{1e3 * measure.median(times):.0f}",
                f"{n_bytes / 1e3:,.0f}",
            )
            for dim, name, times, n_bytes in found["steps"]
        ],
    )


def print_measurements():
    """Measure all contenders in turn in two processes, and print them as JSON from the first of them."""
    with ts.distributed.processes(timeout=300) as group:
        corpus = synthetic()
        own = ts.distributed.shard(corpus)
        rows = []
        for dim in DIMS:
            contenders = {
                "one process, 1 thread": lambda model: alone(model, corpus, 1),
                "one process, 2 threads": lambda model: alone(model, corpus, 2),
                "two processes, 1 thread each": lambda model: shared(model, own),
                "two, gradients of E and p (DDP)": lambda model: data_parallel(model, own),
            }
            times, sent = {name: [] for name in contenders}, {}
            for _ in range(ROUNDS):
                for name, contender in contenders.items():
                    torch.distributed.barrier()
                    if group.rank == 0 or name.startswith("two"):
                        model = ts.AttentionClassifier.initialise(N_TOKENS, dim, dtype=torch.float32)
                        seconds, sent[name] = contender(model)
                        times[name] += seconds
            rows += [(dim, name, sorted(times[name]), sent.get(name)) for name in contenders]
        if group.rank == 0:
            print(json.dumps({"n_counts": corpus.counts.nnz, "steps": rows}))


def synthetic():
    """Return sequences of tokens drawn from a Zipf law, of lengths that spread as those of reviews do."""
    rng = np.random.default_rng(0)
    lengths = np.maximum(rng.lognormal(np.log(LENGTH) - 0.2, 0.63, N_SEQUENCES).astype(int), 10)
    frequencies = (np.arange(N_TOKENS) + 1) ** -1.06
    tokens = rng.choice(N_TOKENS, lengths.sum(), p=frequencies / frequencies.sum())
    labels = rng.choice([-1, 1], N_SEQUENCES)
    return ts.Corpus.from_sequences(np.split(tokens, lengths.cumsum()[:-1]), labels, n_tokens=N_TOKENS)


def alone(model, corpus, n_threads):
    """Train in this process alone: seconds of each step, and no bytes."""
    torch.set_num_threads(n_threads)
    moments = []
    ts.fit(model, corpus, STEPS, on_step=lambda *_: moments.append(time.perf_counter()), progress=False)
    torch.set_num_threads(1)
    return np.diff(moments)[WARM_UP:].tolist(), 0


def shared(model, own):
    """Train as `distributed.fit` does: seconds of each step, and bytes of each that are added up."""
    moments, sent = [], []
    all_reduce = torch.distributed.all_reduce

    def counted(numbers):
        sent.append(numbers.numel() * numbers.element_size())
        all_reduce(numbers)

    torch.distributed.all_reduce = counted
    try:
        ts.distributed.fit(
            model, own, STEPS, on_step=lambda *_: moments.append(time.perf_counter()), progress=False
        )
    finally:
        torch.distributed.all_reduce = all_reduce
    return np.diff(moments)[WARM_UP:].tolist(), sent[0]


def data_parallel(model, own):
    """Train as torch's DistributedDataParallel does: it adds up the gradients of E and p."""
    model.output.requires_grad_(False)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    sent, moments = [0], []

    def counted(state, bucket):
        sent[-1] += bucket.buffer().numel() * bucket.buffer().element_size()
        return allreduce_hook(state, bucket)

    parallel.register_comm_hook(None, counted)
    optimizer = torch.optim.Adam([model.embeddings, model.cls], lr=0.01, fused=True)
    labels = torch.tensor(own.labels, dtype=torch.float32)
    for _ in range(STEPS):
        sent.append(0)
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.softplus(-labels * parallel(own)).mean().backward()
        optimizer.step()
        moments.append(time.perf_counter())
    return np.diff(moments)[WARM_UP:].tolist(), sent[-1]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print_measurements()
    else:
        main()
