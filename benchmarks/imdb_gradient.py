"""The gradient by scores and values of all IMDB reviews against the two sparse products it cannot avoid."""

import numpy as np
import torch

import tokensel as ts
from benchmarks import measure


def main():
    """Print the time of a gradient at several score ranges, beside the two products."""
    torch.set_num_threads(measure.THREADS)
    corpus = ts.datasets.imdb()
    scores, values = (
        shapes(corpus.n_tokens),
        torch.tensor(np.random.default_rng(1).standard_normal(corpus.n_tokens)),
    )
    counts = ts.score_space._build(corpus, torch.float64, torch.device("cpu"))
    tokens, sequences = (torch.ones(size, 2, dtype=torch.float64) for size in counts.matrix.shape[::-1])
    cases = {
        (shape, span): torch.tensor(unit * span) for shape, unit in scores.items() for span in (1.0, 2000.0)
    }

    def products():
        counts.matrix @ tokens
        counts.transposed @ sequences

    seconds = measure.interleaved(
        {"products": products}
        | {
            case: lambda numbers=numbers: ts.score_space.gradients(corpus, numbers, values)
            for case, numbers in cases.items()
        },
        rounds=40,
    )
    unavoidable = seconds.pop("products")
    print(
        f"Gradients by scores and values: {corpus.n_sequences:,} IMDB reviews, {corpus.n_tokens:,} tokens, "
        f"{corpus.counts.nnz:,} non-zero counts, float64, {measure.THREADS} threads. "
        "The counts and their transpose, each times two columns, with the same tensors: "
        f"best {1e3 * unavoidable[0]:.2f} ms, "
        f"median {1e3 * measure.median(unavoidable):.2f} ms.\n"
    )
    measure.table(
        ("scores", "range", "best (ms)", "median (ms)", "times the products (best)", "(median)"),
        [
            (
                shape,
                f"{span:,.0f}",
                f"{1e3 * times[0]:.2f}",
                f"{1e3 * measure.median(times):.2f}",
                f"{times[0] / unavoidable[0]:.2f}",
                f"{measure.median(times) / measure.median(unavoidable):.2f}",
            )
            for (shape, span), times in seconds.items()
        ],
    )


def shapes(n_tokens):
    """Return scores from 0 to 1 whose upper ends differ: how many reviews are far below the largest score."""
    rng = np.random.default_rng(0)
    outlier = rng.random(n_tokens) * 0.01
    outlier[rng.integers(n_tokens)] = 1.0
    drawn = {
        "uniform": rng.random(n_tokens),
        "normal": rng.standard_normal(n_tokens),
        "exponential": rng.exponential(size=n_tokens),
        "one token above the rest": outlier,
    }
    return {name: (x - x.min()) / (x.max() - x.min()) for name, x in drawn.items()}


if __name__ == "__main__":
    main()
