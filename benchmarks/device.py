"""A step on each device, in float32 and float64, and how far it is from float64 on the CPU.

Needs no network: the corpora are synthetic, of the sizes of IMDB and Yelp. ``python -m
benchmarks.device 0.1`` takes a tenth of the sequences.
"""

import copy
import sys
import time

import numpy as np
import torch

import tokensel as ts
from benchmarks import measure
from tokensel import rounding

DIM = 256
# Sequences, tokens, and words in a sequence on average: the training reviews, words in at least 20 of them.
SIZES = {"IMDB": (25_000, 12_285, 226), "Yelp": (560_000, 45_000, 130)}


def main(share=1.0):
    """Print, for each corpus, device and dtype, seconds, memory and errors."""
    torch.set_num_threads(measure.THREADS)
    devices = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    names = [f"CPU ({measure.THREADS} threads)", *(torch.cuda.get_device_name(i) for i in devices[1:])]
    print(f"Devices: {', '.join(names)}. d = {DIM}; scores about 25 apart.\n")
    for name, (n_sequences, n_tokens, length) in SIZES.items():
        corpus = zipf_corpus(max(int(share * n_sequences), 1), n_tokens, length)
        print(
            f"As large as {name}: {corpus.n_sequences:,} sequences of {corpus.lengths.mean():.0f} tokens, "
            f"{n_tokens:,} in the vocabulary, {corpus.counts.nnz:,} distinct (sequence, token) pairs.\n"
        )
        # Scores with a standard deviation of 3: 25 apart, as after training on text.
        exact = ts.AttentionClassifier.initialise(n_tokens, DIM, seed=0)
        with torch.no_grad():
            exact.cls *= 3.0
        right, bounds = results(exact, corpus), rounding.bounds(exact, corpus)
        rows = [
            (
                device,
                str(dtype).removeprefix("torch."),
                *measured(exact, corpus, device, dtype, right, bounds),
            )
            for device in devices
            for dtype in (torch.float32, torch.float64)
        ]
        header = ("gradients (ms)", "Adam step (ms)", "MB, standing", "MB, peak", "logits", "∇E", "∇p")
        measure.table(("device", "dtype", *header, "share of the bound"), rows)
    print(
        "Gradients: the loss, and the gradients of E, p and v; the best of several. Memory: the count "
        "tensors and the model, and what one step needs above them. Errors: the largest, relative to the "
        "largest entry, from float64 on the CPU. Last column: the largest share of its bound that any error "
        "takes (`tokensel.rounding.bounds`)."
    )


def measured(exact, corpus, device, dtype, right, bounds):
    """Return seconds, memory and errors of one device and dtype as the columns of the table."""
    model = copy.deepcopy(exact).to(device, dtype)
    cuda = torch.device(device).type == "cuda"

    def wait():
        if cuda:
            torch.cuda.synchronize(device)

    def gradients():
        model.zero_grad()
        model.loss(corpus).backward()
        wait()

    few = corpus[:20]
    ts.score_space.gradients(corpus, model.scores().detach(), model.values().detach())  # builds the counts
    model.loss(few).backward()  # starts threads and libraries
    wait()
    model.zero_grad()
    standing = standing_bytes(corpus, model)
    if cuda:
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        gradients()
        peak = torch.cuda.max_memory_allocated(device) - before
    else:
        peak = measure.memory_above_standing(gradients)

    errors, share = compare(results(model, corpus), right, bounds)
    seconds = measure.interleaved({"gradients": gradients}, rounds=7)["gradients"][0]
    long, short = (best_fit(model, corpus, steps, wait) for steps in (6, 1))
    return (
        f"{1e3 * seconds:.1f}",
        f"{1e3 * (long - short) / 5:.1f}",
        f"{standing / 1e6:.0f}",
        f"{peak / 1e6:.0f}",
        *(f"{error:.1e}" for error in errors),
        f"{share:.1e}" if dtype == torch.float32 else "",
    )


def best_fit(model, corpus, steps, wait):
    """Return the seconds of a training of so many steps, the better of two."""
    seconds = []
    for _ in range(2):
        trained = copy.deepcopy(model)
        start = time.perf_counter()
        ts.fit(trained, corpus, steps=steps, progress=False)
        wait()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def standing_bytes(corpus, model):
    """Return the bytes of the corpus's count tensors and of the model."""
    counts = ts.score_space._counts_for(corpus, model.scores().detach())
    parts = [counts.labels, *model.parameters()]
    for matrix in (counts.matrix, counts.transposed):
        parts += [matrix.crow_indices(), matrix.col_indices(), matrix.values()]
    return sum(part.numel() * part.element_size() for part in parts)


def results(model, corpus):
    """Return logits and gradients of E and p, in float64 on the CPU."""
    model.zero_grad()
    logits = model(corpus)
    ts.score_space.loss(corpus, model.scores(), model.values()).backward()
    found = (logits, model.embeddings.grad, model.cls.grad)
    found = [part.detach().cpu().double() for part in found]
    model.zero_grad()
    return found


def compare(found, right, bounds):
    """Return the largest relative error of each result, and the largest error as a share of its bound."""
    errors = [
        float((mine - its).abs().max() / its.abs().max()) for mine, its in zip(found, right, strict=True)
    ]
    logits, embeddings, cls = ((mine - its).abs().numpy() for mine, its in zip(found, right, strict=True))
    shares = (
        logits / bounds.logits,
        np.linalg.norm(embeddings, axis=1) / np.maximum(bounds.embeddings_gradient, np.finfo(float).tiny),
        cls / bounds.cls_gradient,
    )
    return errors, max(float(share.max()) for share in shares)


def zipf_corpus(n_sequences, n_tokens, length, seed=0, equal=False):
    """Return sequences whose tokens follow Zipf's law, as words do; labels are drawn at random.

    Lengths are log-normal around the mean ``length``, unless they are all to be equal.
    """
    from scipy.sparse import csr_array, vstack

    rng = np.random.default_rng(seed)
    frequency = np.cumsum((np.arange(n_tokens) + 2.7) ** -1.15)  # Mandelbrot's form, IMDB's share of repeats
    frequency /= frequency[-1]
    name = rng.permutation(n_tokens)  # frequent words stand anywhere in the alphabet
    spread = 0.0 if equal else 0.7
    lengths = length * np.exp(spread * rng.standard_normal(n_sequences) - spread**2 / 2)
    lengths = np.maximum(np.rint(lengths), 1).astype(np.int64)
    parts = []
    for chunk in np.array_split(lengths, -(-n_sequences // 20_000)):
        tokens = name[np.searchsorted(frequency, rng.random(chunk.sum()))]
        ends = np.concatenate(([0], np.cumsum(chunk)))
        counts = csr_array((np.ones(len(tokens), np.int64), tokens, ends), shape=(len(chunk), n_tokens))
        counts.sum_duplicates()
        parts.append(counts)
    return ts.Corpus(vstack(parts, format="csr"), labels=rng.choice([-1, 1], n_sequences))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
