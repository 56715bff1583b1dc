"""What one step and joint training reach on IMDB, how long they take, and what held-out reviews say of it."""

import resource
import sys
import time

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit

import tokensel as ts
from benchmarks import measure

DIM, STEPS, LEARNING_RATE, CUT = 256, 200, 0.01, 20
SEEDS = range(3)
THIS = "benchmarks.imdb"


def main():
    """Print a table of training, one of memory and one of held-out accuracy."""
    torch.set_num_threads(measure.THREADS)
    corpus = ts.datasets.imdb(min_document_frequency=CUT, keep_texts=True)
    print(
        f"IMDB: {len(corpus):,} reviews, {corpus.n_tokens:,} words in at least {CUT} of them, d = {DIM}, "
        f"{STEPS} full-batch Adam steps at {LEARNING_RATE}, {measure.THREADS} threads. "
        "Correlations of scores and values: words in more than 50 reviews. "
        "Groups: ten of equally many of those, by posterior difference.\n"
    )
    measure.table(
        (
            "seed, dtype",
            "one step (s)",
            "corr(change of b, α)",
            "training (s)",
            "accuracy",
            "corr(a, |Δ|)",
            "corr(b, Δ)",
            "mean score of the ten groups",
        ),
        [trained(corpus, seed, torch.float32) for seed in SEEDS] + [trained(corpus, 0, torch.float64)],
    )
    measure.table(
        ("a process that loads the reviews and trains, dtype", "peak memory (GB)"),
        [(dtype, measure.in_a_process_of_its_own(THIS, dtype).strip()) for dtype in ("float32", "float64")],
    )
    measure.table(
        (
            "held-out reviews",
            "n",
            "words",
            "peak",
            "at step",
            "end",
            "training, end",
            "LR counts",
            "LR TF-IDF",
        ),
        [held_out(name, *corpora) for name, corpora in splits(corpus)],
    )


def trained(corpus, seed, dtype):
    """Measure one step and joint training from one start."""
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, DIM, seed=seed, dtype=dtype)
    before = model.values().detach().double().numpy()
    clock = time.perf_counter()
    stepped = ts.one_step(model, corpus, step_size=1.0)
    one_step = time.perf_counter() - clock
    moved = stepped.values().detach().double().numpy() - before

    clock = time.perf_counter()
    history = ts.fit(model, corpus, steps=STEPS, learning_rate=LEARNING_RATE, progress=False)
    training = time.perf_counter() - clock

    often = corpus.document_frequency > 50
    difference = corpus.posterior_difference[often]
    scores, values = (x.detach().double().numpy()[often] for x in (model.scores(), model.values()))
    groups = np.array_split(np.argsort(difference, kind="stable"), 10)
    return (
        f"{seed}, {str(dtype).removeprefix('torch.')}",
        f"{one_step:.2f}",
        f"{np.corrcoef(moved, corpus.average_signed_frequency)[0, 1]:.4f}",
        f"{training:.1f}",
        f"{history.accuracy[-1]:.4f}",
        f"{np.corrcoef(scores, abs(difference))[0, 1]:.3f}",
        f"{np.corrcoef(values, difference)[0, 1]:.3f}",
        " ".join(f"{scores[group].mean():.1f}" for group in groups),
    )


def peak_memory(dtype):
    """Return the gigabytes of resident memory that loading and training took at most, Python included."""
    torch.set_num_threads(measure.THREADS)
    corpus = ts.datasets.imdb(min_document_frequency=CUT)
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, DIM, seed=0, dtype=getattr(torch, dtype))
    ts.fit(model, corpus, steps=STEPS, learning_rate=LEARNING_RATE, progress=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def splits(corpus):
    """Yield name, training and held-out corpus: fifths of the training reviews, and the official test set.

    Copies of a review never straddle a split, and the vocabulary is cut on the training side. Reviews of one
    film may straddle those of the training reviews, which the official split avoids.
    """
    rows = zip(corpus.counts.indptr[:-1], corpus.counts.indptr[1:], strict=True)
    seen = {}  # reviews with the same words, as copies have, share a group
    groups = [
        seen.setdefault((corpus.counts.indices[a:b].tobytes(), corpus.counts.data[a:b].tobytes()), len(seen))
        for a, b in rows
    ]
    for seed in SEEDS:
        splitter = GroupShuffleSplit(n_splits=1, test_size=0.2, random_state=seed)
        sides = [
            ([corpus.texts[i] for i in side], corpus.labels[side])
            for side in next(splitter.split(groups, groups=groups))
        ]
        train = ts.Corpus.from_texts(*sides[0], min_document_frequency=CUT)
        yield (
            f"a fifth of the training reviews, seed {seed}",
            (
                train,
                ts.Corpus.from_texts(*sides[1], vocabulary=train.vocabulary),
            ),
        )
    folder = ts.datasets._folder(None)
    if (folder / "aclImdb_v1.tar.gz").is_file() or (folder / "aclImdb").is_dir():
        yield (
            "the official test reviews",
            (
                corpus,
                ts.datasets.imdb(subset="test", min_document_frequency=CUT),
            ),
        )
    else:
        print("The official test reviews are not at hand (TOKENSEL_DATA names no folder that holds them).\n")


def held_out(name, train, held):
    """Measure held-out accuracy over the steps, and that of logistic regression with default settings."""
    model = ts.AttentionClassifier.initialise(train.n_tokens, DIM, seed=0, dtype=torch.float32)
    history = ts.fit(model, train, steps=STEPS, learning_rate=LEARNING_RATE, validation=held, progress=False)
    peak = int(np.argmax(history.validation_accuracy))
    counts = LogisticRegression(max_iter=5000).fit(train.counts.astype(float), train.labels)
    weights = TfidfTransformer().fit(train.counts)
    tfidf = LogisticRegression(max_iter=5000).fit(weights.transform(train.counts), train.labels)
    return (
        name,
        f"{len(held):,}",
        f"{train.n_tokens:,}",
        f"{history.validation_accuracy[peak]:.4f}",
        peak,
        f"{history.validation_accuracy[-1]:.4f}",
        f"{history.accuracy[-1]:.4f}",
        f"{counts.score(held.counts.astype(float), held.labels):.4f}",
        f"{tfidf.score(weights.transform(held.counts), held.labels):.4f}",
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(f"{peak_memory(sys.argv[1]):.2f}")
    else:
        main()
