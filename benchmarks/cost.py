"""What a step costs as sequences, vocabulary, dimension and length grow, beside embedding lookup."""

import itertools
import time

import numpy as np
import torch

import tokensel as ts
from benchmarks import measure
from benchmarks.device import zipf_corpus

# One size is varied at a time: sequences n, tokens of the vocabulary S, dimension d and length T. With the
# first two the pairs cost most, with the last two the embeddings do.
SERIES = {
    "n": [(n, 2_000, 16, 200) for n in (1_000, 4_000, 16_000, 64_000)],
    "T": [(8_000, 5_000, 16, length) for length in (25, 100, 400, 1_600)],
    "S": [(100, n_tokens, 256, 50) for n_tokens in (3_000, 10_000, 30_000, 100_000)],
    "d": [(100, 20_000, dim, 50) for dim in (32, 128, 512, 2_048)],
}
GRID = list(itertools.product((1_000, 8_000), (5_000, 40_000), (32, 256), (50, 400)))
SECONDS = 1.0  # spent on each size and way
LARGEST_LOOKUP = 1.0e9  # bytes of the embeddings of all tokens of all sequences


def main():
    """Print the series with their exponents, and one model of the time fitted to them and to a grid."""
    torch.set_num_threads(1)
    measured = {size: timed(size) for size in {*itertools.chain(*SERIES.values()), *GRID}}
    rows = []
    for letter, sizes in SERIES.items():
        of_size = [size["nSdT".index(letter)] for size in sizes]
        driver = [measured[size][0] if letter in "nT" else size[1] * size[2] for size in sizes]
        rows.append(
            (
                letter,
                " to ".join(f"{x:,}" for x in (of_size[0], of_size[-1])),
                " to ".join(f"{x:.2g}" for x in (driver[0], driver[-1])),
                *(" / ".join(f"{1e3 * measured[size][k]:.3g}" for size in sizes) for k in (1, 2)),
                *(exponent(driver, [measured[size][k] for size in sizes]) for k in (1, 2)),
            )
        )
    print("One step (loss and gradients of E, p and v), float32: seconds of one core.\n")
    measure.table(
        (
            "varied",
            "from, to",
            "pairs or S·d",
            "score space (ms)",
            "embedding lookup (ms)",
            "exponent",
            "its exponent",
        ),
        rows,
    )
    print(
        "Exponents: the slope of log time over the two largest sizes, in the distinct (sequence, token) "
        "pairs for n and T, in S·d for S and d; 1 is linear. Where lookup would need more than "
        f"{LARGEST_LOOKUP / 1e9:.0f} GB for its embeddings it is left out.\n"
    )
    print(model_of(measured))


def timed(size):
    """Return the distinct pairs of a problem of this size, and the seconds of a step in either way."""
    n_sequences, n_tokens, dim, length = size
    corpus = zipf_corpus(n_sequences, n_tokens, length, equal=True)
    model = ts.AttentionClassifier.initialise(n_tokens, dim, seed=0, dtype=torch.float32)
    # What the counts hold, written out again: the order within a sequence does not matter.
    tokens = torch.from_numpy(np.repeat(corpus.counts.indices, corpus.counts.data).astype(np.int64))
    tokens, labels = tokens.reshape(n_sequences, length), torch.tensor(corpus.labels)

    def lookup():
        model.zero_grad()
        rows = torch.nn.functional.embedding(tokens, model.embeddings)  # (n, T, d)
        logits = (torch.softmax(rows @ model.cls, 1) * (rows @ model.output)).sum(1)
        (-torch.nn.functional.logsigmoid(labels * logits).mean()).backward()

    def score_space():
        model.zero_grad()
        model.loss(corpus).backward()

    fits = 4 * n_sequences * length * dim <= LARGEST_LOOKUP
    return corpus.counts.nnz, core_seconds(score_space), core_seconds(lookup) if fits else np.nan


def core_seconds(step):
    """Return the least time that one core works on a step: other work on the machine hardly disturbs it."""
    step()
    times, end = [], time.monotonic() + SECONDS
    while not times or time.monotonic() < end:
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)


def exponent(driver, seconds):
    """Return the slope of log time over the two largest sizes that were measured, as text."""
    known = [(x, t) for x, t in zip(driver, seconds, strict=True) if not np.isnan(t)][-2:]
    if len(known) < 2:
        return ""
    (x, t), (y, u) = known
    return f"{np.log(u / t) / np.log(y / x):.2f}"


def model_of(measured):
    """Fit c0 + c1 pairs + c2 S·d to the times, with relative residuals, and say how well it does."""
    from scipy.optimize import nnls

    seconds = np.array([found[1] for found in measured.values()])
    terms = np.array([(1.0, found[0], size[1] * size[2]) for size, found in measured.items()])
    costs, _ = nnls(terms / seconds[:, None], np.ones(len(seconds)))
    residual = terms @ costs / seconds - 1
    return (
        f"Over {len(seconds)} sizes (these and a grid), the time of a step is {1e3 * costs[0]:.2g} ms + "
        f"{1e9 * costs[1]:.2g} ns a pair + {1e9 * costs[2]:.2g} ns for each of the S·d entries, within "
        f"{np.sqrt(np.mean(residual**2)):.0%} (root mean square; at most {np.abs(residual).max():.0%}), "
        f"while the times themselves span a factor of {seconds.max() / seconds.min():,.0f}."
    )


if __name__ == "__main__":
    main()
