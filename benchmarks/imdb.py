"""What one step and joint training reach on IMDB, how long they take, and what held-out reviews say of it."""

import itertools
import resource
import sys
import time

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

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
    held_out_tables()


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


def splits():
    """Yield name, training, validation and unseen corpus: five splits of the training reviews, then the
    official one.

    Each review is unseen in one of the five. Copies of a review stand in one part together, and the
    vocabulary is cut on the training part. Reviews of one film may straddle the parts, which the official
    split avoids.
    """
    everything = ts.datasets.imdb(min_document_frequency=1)
    starts = everything.counts.indptr
    seen = {}  # reviews with the same words, as copies have, share a group
    groups = np.array(
        [
            seen.setdefault(
                (everything.counts.indices[a:b].tobytes(), everything.counts.data[a:b].tobytes()), len(seen)
            )
            for a, b in itertools.pairwise(starts)
        ]
    )
    tenth = np.random.default_rng(0).permutation(len(seen))[groups] * 10 // len(seen)
    for fifth in range(5):
        unseen = tenth // 2 == fifth
        validation = tenth == (2 * fifth + 2) % 10
        train = everything[~unseen & ~validation]
        words = np.flatnonzero(train.document_frequency >= CUT)
        yield (
            f"fifth {fifth}",
            *(
                ts.Corpus(
                    everything.counts[rows][:, words],
                    everything.labels[rows],
                    vocabulary=[everything.vocabulary[s] for s in words],
                )
                for rows in (~unseen & ~validation, validation, unseen)
            ),
        )
    folder = ts.datasets._folder(None)
    if (folder / "aclImdb_v1.tar.gz").is_file() or (folder / "aclImdb").is_dir():
        train = ts.datasets.imdb(min_document_frequency=CUT)
        yield (
            "the official test reviews",
            train[tenth > 0],
            train[tenth == 0],
            ts.datasets.imdb(subset="test", min_document_frequency=CUT),
        )
    else:
        print("The official test reviews are not at hand (TOKENSEL_DATA names no folder that holds them).\n")


def held_out(train, validation, unseen):
    """Return the step, and by method the logits on the unseen reviews and their temperature.

    Every choice (step, strength of the regularisation, temperature) is made on the validation reviews.
    """
    model = ts.AttentionClassifier.initialise(train.n_tokens, DIM, seed=0, dtype=torch.float32)
    models = []
    history = ts.fit(
        model,
        train,
        steps=STEPS,
        learning_rate=LEARNING_RATE,
        validation=validation,
        on_step=lambda step, scores, values: models.append((scores, values)),
        progress=False,
    )
    logits = {
        name: [ts.score_space.logits(part, *models[step]).double().numpy() for part in (validation, unseen)]
        for name, step in (("attention", history.best_step), (f"{STEPS} steps", STEPS))
    }
    weights = TfidfTransformer().fit(train.counts)
    for name, read, strengths in (
        ("LR counts", lambda corpus: corpus.counts.astype(float), (0.01, 0.03, 0.1)),
        ("LR TF-IDF", lambda corpus: weights.transform(corpus.counts), (1, 3, 10)),
        ("LR frequencies", lambda corpus: corpus.frequencies, (300, 1000, 3000)),
    ):
        tried = [LogisticRegression(C=C, max_iter=5000).fit(read(train), train.labels) for C in strengths]
        best = max(tried, key=lambda each: each.score(read(validation), validation.labels))
        logits[name] = [best.decision_function(read(part)) for part in (validation, unseen)]
    return history.best_step, {
        name: (there, temperature(validation.labels, here)) for name, (here, there) in logits.items()
    }


def held_out_tables():
    """Print accuracy and log loss on unseen reviews, split by split, and of the five splits together."""
    steps, by_split, labels = {}, {}, {}
    for name, *parts in splits():
        steps[name], by_split[name] = held_out(*parts)
        labels[name] = parts[-1].labels
    fifths = [name for name in by_split if name.startswith("fifth")]
    together = "the five together"
    methods = list(by_split[fifths[0]])
    right = {
        name: {method: (f >= 0) == (labels[name] > 0) for method, (f, _) in by_split[name].items()}
        for name in by_split
    }
    right[together] = {method: np.concatenate([right[name][method] for name in fifths]) for method in methods}
    steps[together] = f"{min(steps[f] for f in fifths)} to {max(steps[f] for f in fifths)}"
    measure.table(
        (
            "accuracy on unseen reviews",
            "n",
            "at step",
            *methods,
            *(f"attention less {m}" for m in methods[2:]),
        ),
        [
            (
                name,
                f"{len(each['attention']):,}",
                steps[name],
                *(f"{each[method].mean():.4f}" for method in methods),
                *(difference(each["attention"], each[method]) for method in methods[2:]),
            )
            for name, each in right.items()
        ],
    )
    measure.table(
        ("log loss on unseen reviews, after a temperature", *methods),
        [
            (
                name,
                *(
                    f"{log_loss(labels[name], f):.4f}, {log_loss(labels[name], f / t):.4f}"
                    for f, t in each.values()
                ),
            )
            for name, each in by_split.items()
        ],
    )


def difference(first, second):
    """Return the difference of two accuracies in points with its standard error, review by review."""
    gain = 100 * (first.astype(float) - second)
    return f"{gain.mean():+.2f} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.2f}"


def log_loss(labels, logits):
    """Return the mean logistic loss."""
    return np.logaddexp(0, -labels * logits).mean()


def temperature(labels, logits):
    """Return the number that makes the log loss least when the logits are divided by it."""
    found = minimize_scalar(
        lambda log_t: log_loss(labels, logits / np.exp(log_t)), bounds=(-4, 4), method="bounded"
    )
    return np.exp(found.x)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(f"{peak_memory(sys.argv[1]):.2f}")
    else:
        main()
