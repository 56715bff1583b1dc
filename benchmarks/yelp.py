"""The U-shape on the reviews of Yelp that are at hand, its spread over five seeds, and how long it takes."""

import resource
import sys
import time
import warnings

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import tokensel as ts
from benchmarks import measure

DIM, STEPS, LEARNING_RATE, CUT = 256, 200, 0.01, 20
SEEDS = range(5)
MOST = 50_000  # reviews to train on: of the 560,000 of the official archive, that many at random
FEW = 5_000
THIS = "benchmarks.yelp"


def main():
    """Print a table of reading, one of training over the seeds, and one of linear classifiers."""
    torch.set_num_threads(measure.THREADS)
    try:
        reading = read()
    except ts.datasets.DatasetNotFound as error:
        print(f"No reviews of Yelp to measure: {error}\n")
        return
    train, held = corpora()
    print(
        f"Yelp: {len(train):,} training reviews, {train.n_tokens:,} words in at least {CUT} of them; "
        f"{len(held):,} held-out reviews, looked at after every step. d = {DIM}, float32, {STEPS} full-batch "
        f"Adam steps at {LEARNING_RATE}, {measure.THREADS} threads. Correlations of scores a and values b: "
        "words in more than 50 reviews. Groups: ten of equally many of those, by posterior difference.\n"
    )
    measure.table(("reading all training reviews", "s", "reviews/s"), reading)
    header = (
        "training reviews, seed",
        "training, watched (s)",
        "accuracy",
        "held-out peak",
        "at step",
        "end",
        "corr(a, abs Δ)",
        "corr(a, abs α/ν)",
        "corr(b, Δ)",
        "mean score of the ten groups",
    )
    for n in sorted({FEW, min(MOST, len(train))}):
        rows = [trained(train, held, n, seed) for seed in SEEDS]
        measure.table(header, [*map(shown, rows), *map(shown, band(rows))])
    measure.table(
        ("logistic regression, default settings", "held-out accuracy", "s"),
        [linear(train, held, weights) for weights in ("counts", "TF-IDF")],
    )
    measure.table(
        ("a process that loads the counts and trains once", "GB"),
        [("peak memory", measure.in_a_process_of_its_own(THIS, "memory").strip())],
    )


def reviews(subset, cache=True):
    """Return a corpus without the few reviews that hold none of the words."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* left out", UserWarning)
        return ts.datasets.yelp(subset, CUT, cache=cache, download_if_missing=False)


def read():
    """Measure reading from the archive, and from the cache of counts."""
    rows = []
    reviews("train")  # so that the counts are kept
    for name, cache in (("from the archive", False), ("from the cache of counts", True)):
        clock = time.perf_counter()
        n = len(reviews("train", cache))
        seconds = time.perf_counter() - clock
        rows.append((name, f"{seconds:.2f}", f"{n / seconds:,.0f}"))
    return rows


def corpora():
    """Return training and held-out reviews, of the training reviews at most `MOST`."""
    train = some(reviews("train"), MOST, seed=0)
    return train, reviews("test").restrict(train.vocabulary, empty="leave out")


def some(corpus, n, seed):
    """Return at most n reviews, drawn at random, in the words that stand in at least `CUT` of them."""
    corpus = corpus[np.sort(np.random.default_rng(seed).permutation(len(corpus))[:n])]
    return corpus.restrict(corpus.document_frequency >= CUT, empty="leave out")


def trained(train, held, n, seed):
    """Train from one start, on n of the reviews; return the row's numbers."""
    train = some(train, n, seed) if n < len(train) else train
    held = held.restrict(train.vocabulary, empty="leave out")
    model = ts.AttentionClassifier.initialise(train.n_tokens, DIM, seed=seed, dtype=torch.float32)
    clock = time.perf_counter()
    history = ts.fit(model, train, STEPS, learning_rate=LEARNING_RATE, validation=held, progress=False)
    training = time.perf_counter() - clock

    often = train.document_frequency > 50
    difference = train.posterior_difference[often]
    label = (train.average_signed_frequency / train.average_frequency)[often]
    scores, values = (x.detach().double().numpy()[often] for x in (model.scores(), model.values()))
    peak = int(np.argmax(history.validation_accuracy))
    return [
        f"{len(train):,}, {seed}",
        training,
        history.accuracy[-1],
        history.validation_accuracy[peak],
        peak,
        history.validation_accuracy[-1],
        np.corrcoef(scores, np.abs(difference))[0, 1],
        np.corrcoef(scores, np.abs(label))[0, 1],
        np.corrcoef(values, difference)[0, 1],
        np.array([scores[g].mean() for g in np.array_split(np.argsort(difference, kind="stable"), 10)]),
    ]


def band(rows):
    """Return the lowest, the mean and the highest of each column."""
    columns = list(zip(*rows, strict=True))[1:]
    return [
        [name, *(function(column, axis=0) for column in map(np.array, columns))]
        for name, function in (("lowest", np.min), ("mean", np.mean), ("highest", np.max))
    ]


def shown(row):
    """Return a row as text."""
    name, seconds, *numbers, groups = row
    accuracy, best, step, end, *correlations = numbers
    return (
        name,
        f"{seconds:.1f}",
        f"{accuracy:.4f}",
        f"{best:.4f}",
        f"{step:.0f}",
        f"{end:.4f}",
        *(f"{x:.3f}" for x in correlations),
        " ".join(f"{mean:.1f}" for mean in groups),
    )


def linear(train, held, weights):
    """Measure scikit-learn's logistic regression on the same words."""
    clock = time.perf_counter()
    steps = [TfidfTransformer()] if weights == "TF-IDF" else []
    fitted = make_pipeline(*steps, LogisticRegression(max_iter=5000)).fit(train.counts, train.labels)
    return (
        weights,
        f"{fitted.score(held.counts, held.labels):.4f}",
        f"{time.perf_counter() - clock:.1f}",
    )


def peak_memory():
    """Return the gigabytes of resident memory that loading and training took at most, Python included."""
    torch.set_num_threads(measure.THREADS)
    train, _ = corpora()
    model = ts.AttentionClassifier.initialise(train.n_tokens, DIM, seed=0, dtype=torch.float32)
    ts.fit(model, train, steps=STEPS, learning_rate=LEARNING_RATE, progress=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(f"{peak_memory():.2f}")
    else:
        main()
