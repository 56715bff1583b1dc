"""What training makes of IMDB at full size, how long it takes, and what held-out reviews say of it."""

import resource
import sys
import time

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import tokensel as ts
from benchmarks import measure
from tokensel.calibration import log_loss, temperature

DIM, STEPS, LEARNING_RATE, CUT = 256, 200, 0.01, 20
SEEDS = range(5)
THIS = "benchmarks.imdb"


def main():
    """Print tables of training, of the shape of the scores, of feasible subsets and of held-out accuracy."""
    torch.set_num_threads(measure.THREADS)
    corpus = ts.datasets.imdb(min_document_frequency=CUT)
    print(
        f"IMDB: {len(corpus):,} reviews, {corpus.n_tokens:,} words in at least {CUT} of them, d = {DIM}, "
        f"{STEPS} full-batch Adam steps at {LEARNING_RATE}, {measure.THREADS} threads. "
        "Correlations: words in more than 50 reviews, unless another number is given; a range is from the "
        f"lowest to the highest of {len(SEEDS)} seeds. "
        "Groups: ten of equally many words, by posterior difference.\n"
    )
    training_tables(corpus)
    shape_table(corpus)
    subset_table(corpus)
    held_out_tables()


def training_tables(corpus):
    """Print what one step and joint training reach, and the time and memory that training takes."""
    runs = ts.sweep(trained, corpus=[corpus], dtype=[torch.float32], seed=SEEDS, n_jobs=1)
    runs += ts.sweep(trained, corpus=[corpus], dtype=[torch.float64], seed=[0], n_jobs=1)
    for run in runs:
        run["dtype"] = name_of(run["dtype"])
    columns = (
        "one step (s)",
        "corr(change of b, α)",
        "training (s)",
        "accuracy",
        "corr(a, abs Δ)",
        "corr(b, Δ)",
    )
    single = [run for run in runs if run["dtype"] == "float32"]
    measure.table(
        ("seed, dtype", *columns),
        [(f"{run['seed']}, {run['dtype']}", *(f"{run[c]:.4g}" for c in columns)) for run in runs]
        + [("float32: mean (range)", *(span([run[c] for run in single]) for c in columns))],
    )
    measure.table(
        ("a process of its own, dtype", "loads cached counts (s)", "trains (s)", "peak memory (GB)"),
        [(dtype, *measure.in_a_process_of_its_own(THIS, dtype).split()) for dtype in ("float32", "float64")],
    )


def trained(corpus, dtype, seed):
    """Measure one step and joint training from one start."""
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, DIM, seed=seed, dtype=dtype)
    before = numbers(model.values())
    clock = time.perf_counter()
    stepped = ts.one_step(model, corpus, step_size=1.0)
    one_step = time.perf_counter() - clock
    moved = numbers(stepped.values()) - before

    clock = time.perf_counter()
    history = ts.fit(model, corpus, steps=STEPS, learning_rate=LEARNING_RATE, progress=False)
    training = time.perf_counter() - clock

    often = corpus.document_frequency > 50
    difference = corpus.posterior_difference[often]
    scores, values = numbers(model.scores())[often], numbers(model.values())[often]
    return {
        "one step (s)": one_step,
        "corr(change of b, α)": correlation(moved, corpus.average_signed_frequency),
        "training (s)": training,
        "accuracy": history.accuracy[-1],
        "corr(a, abs Δ)": correlation(scores, abs(difference)),
        "corr(b, Δ)": correlation(values, difference),
    }


def shape_table(corpus):
    """Print the shape of the scores over Δ, of three ways to train and of shuffled labels."""
    shuffled = {
        seed: ts.Corpus(corpus.counts, np.random.default_rng(seed).permutation(corpus.labels))
        for seed in SEEDS
    }
    found = corpus.document_frequency
    often, frequent = found > 50, found > len(corpus) // 10
    rows = []
    for name, way, of, words in (
        ("one step", one_step_scores, None, often),
        ("p alone, words in more than a tenth of the reviews", p_alone_scores, None, frequent),
        ("p alone, other words", p_alone_scores, None, often & ~frequent),
        ("jointly", joint_scores, None, often),
        ("jointly, by gradient descent", plain_scores, None, often),
        ("jointly, shuffled labels", joint_scores, shuffled, often),
    ):
        own, true, means = [], [], []
        for seed in SEEDS:
            trained_on = corpus if of is None else of[seed]
            scores, difference = way(trained_on, seed)[words], trained_on.posterior_difference[words]
            own.append(correlation(scores, abs(difference)))
            true.append(correlation(scores, abs(corpus.posterior_difference[words])))
            groups = np.array_split(np.argsort(difference, kind="stable"), 10)
            means.append([scores[group].mean() for group in groups])
        rows.append((name, span(own), span(true), " ".join(f"{m:.2g}" for m in np.mean(means, axis=0))))
    measure.table(
        ("scores", "corr with own abs Δ", "corr with abs Δ of the true labels", "mean of the ten groups"),
        rows,
    )


def start(corpus, seed):
    """Draw a start in float32."""
    return ts.AttentionClassifier.initialise(corpus.n_tokens, DIM, seed=seed, dtype=torch.float32)


def one_step_scores(corpus, seed):
    """Return the scores after one step of the embeddings and the cls embedding."""
    return numbers(ts.one_step(start(corpus, seed), corpus, step_size=500.0).scores())


def p_alone_scores(corpus, seed):
    """Return the scores after one step on the embeddings and gradient descent on p alone, from zero."""
    one = ts.one_step(start(corpus, seed), corpus, step_size=500.0)
    model = ts.AttentionClassifier(one.embeddings, torch.zeros(DIM), one.output)
    ts.fit(model, corpus, STEPS, "sgd", learning_rate=200.0, train=("cls",), progress=False)
    return numbers(model.scores())


def joint_scores(corpus, seed):
    """Return the scores after joint training."""
    model = start(corpus, seed)
    ts.fit(model, corpus, steps=STEPS, learning_rate=LEARNING_RATE, progress=False)
    return numbers(model.scores())


def plain_scores(corpus, seed):
    """Return the scores after joint training by gradient descent instead of Adam."""
    model = start(corpus, seed)
    ts.fit(model, corpus, STEPS, "sgd", learning_rate=50.0, progress=False)
    return numbers(model.scores())


def subset_table(corpus):
    """Print how much a feasible subset keeps of the selection that the labels ask for, and in what time."""
    model = start(corpus, 0)
    ts.fit(model, corpus, steps=STEPS, learning_rate=LEARNING_RATE, progress=False)
    values = numbers(model.values())
    asked = ts.Selection.best(corpus, values)
    strongest = np.argsort(-abs(values[asked.tokens]), kind="stable")
    orders = {"most different words first": {}, "strongest word first": {"order": strongest}}
    orders |= {f"random, seed {seed}": {"seed": seed} for seed in SEEDS}
    rows = []
    for name, order in orders.items():
        clock = time.perf_counter()
        kept = ts.feasible_subset(asked, **order)
        seconds = time.perf_counter() - clock
        pairs = ts.Selection(corpus[kept], asked.tokens[kept]).pairs
        rows.append((name, f"{len(kept):,}", f"{len(pairs):,}", f"{seconds:.1f}"))
    measure.table(
        (f"order of the {len(corpus):,} reviews, {len(asked.pairs):,} pairs", "kept", "pairs", "seconds"),
        rows,
    )


def in_one_process(dtype):
    """Return seconds to load the cached counts, seconds to train, and the peak of resident memory in GB."""
    torch.set_num_threads(measure.THREADS)
    clock = time.perf_counter()
    corpus = ts.datasets.imdb(min_document_frequency=CUT)
    loaded = time.perf_counter()
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, DIM, seed=0, dtype=getattr(torch, dtype))
    ts.fit(model, corpus, steps=STEPS, learning_rate=LEARNING_RATE, progress=False)
    trained_at = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return loaded - clock, trained_at - loaded, peak


def numbers(tensor):
    """Return a float64 array."""
    return tensor.detach().double().numpy()


def name_of(dtype):
    """Return float32 for torch.float32."""
    return str(dtype).removeprefix("torch.")


def correlation(x, y):
    """Return Pearson's coefficient."""
    return np.corrcoef(x, y)[0, 1]


def span(measured):
    """Return the mean of measurements and their range."""
    return f"{np.mean(measured):.3g} ({min(measured):.3g} to {max(measured):.3g})"


def splits():
    """Yield name, training, validation and unseen corpus: five splits of the training reviews, then the
    official one.

    Each review is unseen in one of the five; any two of the five share more than half of their training
    reviews. Copies of a review stand in one part together, and the vocabulary is cut on the training part.
    Reviews of one film may straddle the parts, which the official split avoids.
    """
    everything = ts.datasets.imdb(min_document_frequency=1)
    groups = everything.copy_groups
    n_different = groups.max() + 1
    tenth = np.random.default_rng(0).permutation(n_different)[groups] * 10 // n_different
    for fifth in range(5):
        unseen = tenth // 2 == fifth
        validation = tenth == (2 * fifth + 2) % 10
        parts = [everything[rows] for rows in (~unseen & ~validation, validation, unseen)]
        words = parts[0].document_frequency >= CUT
        yield f"fifth {fifth}", *(part.restrict(words) for part in parts)
    try:
        official = ts.datasets.imdb(subset="test", min_document_frequency=CUT, download_if_missing=False)
    except ts.datasets.DatasetNotFound:
        print("The official test reviews are not at hand (TOKENSEL_DATA names no folder that holds them).\n")
        return
    train = ts.datasets.imdb(min_document_frequency=CUT)
    yield "the official test reviews", train[tenth > 0], train[tenth == 0], official


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
    for name, reading, strengths in (
        ("LR counts", [], (0.01, 0.03, 0.1)),
        ("LR TF-IDF", [TfidfTransformer()], (0.5, 1, 2, 4, 8)),
        ("LR frequencies", [Normalizer("l1")], (300, 1000, 3000)),
    ):
        tried = [
            # Gradients in frequencies are small: a solver of first order would stop too early.
            make_pipeline(*reading, LogisticRegression(C=C, solver="newton-cg", tol=1e-5, max_iter=5000)).fit(
                train.counts, train.labels
            )
            for C in strengths
        ]
        best = max(tried, key=lambda each: each.score(validation.counts, validation.labels))
        logits[name] = [best.decision_function(part.counts) for part in (validation, unseen)]
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


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*(f"{number:.2f}" for number in in_one_process(sys.argv[1])))
    else:
        main()
