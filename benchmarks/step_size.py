"""Which step sizes select: the phase diagram of chapter "How long may the step be?" on a finer grid."""

import numpy as np
from scipy.stats import binomtest

from benchmarks import measure
from tokensel import phases, theory
from tokensel.samplers import one_important_token
from tokensel.selection import Selection

DIMS = (128, 512, 2048, 8192)
STEPS = (5, 10, 20, 40, 80, 120, 160, 200, 240, 320, 400, 480, 640, 1280)
SEEDS = 24
K, M, T = 6, 20, 8
ALPHA = 1 / (K * T)


def main():
    """Print three tables: the step of both E and p, the step of E alone, and the unmirrored sampler."""
    print(
        f"n = 200, T = {T}, K = {K}, M = {M}, {SEEDS} seeds a cell, flows to log t = 40. `important`: share "
        "of sequences that select an important token; `best`: where it has the best value; `lost`: seeds in "
        "which one class selects none anywhere, with the 95 % interval (Clopper-Pearson).\n"
    )
    for name, dims, options in (
        ("step on E and p", DIMS, {}),
        ("p = 0", DIMS[:3], {"from_zero": True}),
        ("step on E and p, unmirrored", (512,), {"mirror": False}),
    ):
        rows = [row(dim, step, **options) for dim in dims for step in STEPS]
        header = (f"{name}: d", "step", "important", "best", "predicted", "lost", "interval", "predicted")
        measure.table(header, rows)


def row(dim, step, **options):
    shares = np.array([selected(dim, step, seed, **options) for seed in range(SEEDS)])
    lost = int((shares[:, :2].min(axis=1) == 0).sum())
    interval = binomtest(lost, SEEDS).proportion_ci(method="exact")
    best = theory.best_token_probability(step, dim, ALPHA, distinct())
    return (
        dim,
        step,
        f"{shares[:, :2].mean():.3f}",
        f"{shares[:, 2].mean():.3f}",
        f"{best:.3f}",
        f"{lost} of {SEEDS}",
        f"{interval.low:.2f}-{interval.high:.2f}",
        # The estimate presumes that the signal stands above the noise.
        f"{theory.lost_class_probability(step / 2 * ALPHA, dim, K, M, T):.2f}" if best > 0.99 else "noise",
    )


def distinct():
    """How many distinct irrelevant tokens the sequences of one corpus hold."""
    return np.diff(one_important_token(seed=0).counts.indptr) - 1


def selected(dim, step, seed, mirror=True, from_zero=False):
    """Share of positive and of negative sequences that select an important token; share where it is best."""
    corpus, model = phases.after_one_step(step, dim, seed, mirror=mirror)
    if from_zero:
        model = model.with_cls(np.zeros(dim))
    shares = phases.selected_shares(model, corpus, range(K), tolerance=1e-5)
    best = Selection.best(corpus, model.values()).tokens < K
    return *shares, best.mean()


if __name__ == "__main__":
    main()
