"""Theorem "one step": it holds in every instance, is nearly sharp, and needs each of its hypotheses."""

import numpy as np
import pytest
import torch

import tokensel as ts

ORIGIN = "paper's claim, our derivation"
SETTING = r"""Any corpus: unequal lengths, repeated tokens, one class or two. Any $E_0$, $p_0$ and $v$, of any
norm, and any step size."""
HYPOTHESES = {
    "scores": r"All scores at the start lie in $[-\varepsilon,\varepsilon]$.",
    "values": r"All values at the start lie in $[-\varepsilon,\varepsilon]$.",
    "first": "It is one step, from the start.",
    "normal": r"For the size of $\varepsilon$: the entries of $E_0$ are independent and normal, of variance "
    "$1/d$.",
    "independent": r"For the size of $\varepsilon$: $E_0$ is independent of $p_0$ and $v$.",
}


def _numpy(tensor):
    return tensor.detach().numpy()


def _epsilon(model):
    return max(np.abs(_numpy(model.scores())).max(), np.abs(_numpy(model.values())).max())


def _error(model, corpus, step_size, alpha=None):
    """Distance of every row of one step from its prediction, shape (S,)."""
    alpha = corpus.average_signed_frequency if alpha is None else alpha
    stepped = ts.one_step(model, corpus, step_size)
    moved = _numpy(stepped.embeddings) - _numpy(model.embeddings)
    return np.linalg.norm(moved - step_size / 2 * np.outer(alpha, _numpy(model.output)), axis=1)


def _bound(model, corpus, step_size, epsilon=None):
    return ts.theory.one_step_bound(
        step_size,
        corpus.average_frequency,
        _epsilon(model) if epsilon is None else epsilon,
        output_norm=np.linalg.norm(_numpy(model.output)),
        cls_norm=np.linalg.norm(_numpy(model.cls)),
    )


def _random_corpus(rng, n_tokens, n_sequences, positive_share, longest=12):
    favoured = rng.dirichlet(np.full(n_tokens, 0.5))  # a few frequent tokens, so that tokens repeat
    lengths = rng.integers(1, longest + 1, n_sequences)
    sequences = [rng.choice(n_tokens, size=length, p=favoured) for length in lengths]
    labels = np.where(rng.random(n_sequences) < positive_share, 1, -1)
    return ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=n_tokens)


def _instance(seed):
    """Any corpus, any start: only a model and a corpus, no hypothesis."""
    rng = np.random.default_rng(seed)
    dim, n_tokens = int(2 ** rng.uniform(4, 14)), int(rng.integers(2, 40))
    share = rng.choice([0.0, 0.05, 0.5, 0.9, 1.0])
    corpus = _random_corpus(rng, n_tokens, int(rng.integers(1, 60)), share)
    direction = rng.choice([rng.standard_normal(dim), rng.choice([-1.0, 1.0], dim), np.eye(1, dim)[0]])
    output = direction / np.linalg.norm(direction) * 10 ** rng.uniform(-2, np.log10(200))
    cls = rng.standard_normal(dim) / np.sqrt(dim) * 10 ** rng.uniform(-1, 1)
    embeddings = rng.standard_normal((n_tokens, dim)) / np.sqrt(dim) * 10 ** rng.uniform(-2, 0)
    return ts.AttentionClassifier(embeddings, cls, output), corpus, 10 ** rng.uniform(-1, 4)


N_INSTANCES = 240


@pytest.mark.parametrize("block", range(8))
def test_the_bound_holds_for_every_token_of_every_instance(block, evidence):
    for seed in range(block, N_INSTANCES, 8):
        model, corpus, step_size = _instance(seed)
        error, bound = _error(model, corpus, step_size), _bound(model, corpus, step_size)
        # E_1 - E_0 is a difference of float64 numbers: it carries the rounding of its two terms.
        rounding = np.finfo(float).eps * np.linalg.norm(_numpy(model.embeddings), axis=1)
        assert np.all(error <= bound + rounding), f"instance {seed}"
        worst = np.argmax(error / (bound + rounding))
        evidence.bound(error[worst], bound[worst] + rounding[worst])


def test_the_instances_cover_what_the_theorem_allows():
    instances = [_instance(seed) for seed in range(N_INSTANCES)]
    dims = [model.cls.numel() for model, _, _ in instances]
    norms = [model.output.norm().item() for model, _, _ in instances]
    corpora = [corpus for _, corpus, _ in instances]
    assert min(dims) < 32
    assert max(dims) > 8192
    assert min(norms) < 0.1
    assert max(norms) > 100
    assert any(len(np.unique(corpus.labels)) == 1 for corpus in corpora)
    assert any(0 < np.mean(corpus.labels == 1) < 0.2 for corpus in corpora)
    assert sum(len(np.unique(corpus.lengths)) > 1 for corpus in corpora) > N_INSTANCES / 2
    assert sum(corpus.counts.max() > 1 for corpus in corpora) > N_INSTANCES / 2
    # Beyond epsilon = 1 the exponentials alone would satisfy the bound: most instances test it below.
    assert np.mean([_epsilon(model) < 1 for model, _, _ in instances]) > 0.5


def test_the_error_falls_as_one_over_the_root_of_the_dimension():
    corpus = ts.samplers.one_important_token(
        n_sequences=200, length=8, n_important=6, n_irrelevant=20, seed=0
    )
    dims = 4 ** np.arange(2, 8)  # 16 ... 16384
    errors = []
    for dim in dims:
        starts = [ts.AttentionClassifier.initialise(corpus.n_tokens, int(dim), seed=s) for s in range(20)]
        shares = [_error(model, corpus, 1.0) / corpus.average_frequency for model in starts]
        errors.append(np.mean(shares))
    slope = np.polyfit(np.log(dims), np.log(errors), 1)[0]
    # 20 starts leave about 5 % of noise in each mean, so 0.01 in the slope; at d = 16 the second order shows.
    assert abs(slope + 0.5) < 0.05


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_the_first_bracket_is_nearly_attained(epsilon, evidence):
    length, tiny = (
        10**7,
        1e-6,
    )  # one token of score epsilon, the others of score -epsilon; all values -epsilon
    corpus = ts.Corpus([[1, length - 1]], labels=[1])
    embeddings = [[epsilon / tiny, -epsilon], [-epsilon / tiny, -epsilon]]
    model = ts.AttentionClassifier(embeddings, cls=[tiny, 0.0], output=[0.0, 1.0])
    ratio = _error(model, corpus, 1e7)[0] / _bound(model, corpus, 1e7)[0]
    # Missing: epsilon^2/60 (the cubic term of the sigmoid), of order 1/length, and of order |p_0|.
    assert 1 - epsilon**2 / 50 - 1e-5 < ratio
    evidence.bound(ratio, 1.0)


# --- how large epsilon is ---


def _largest(rng, n_tokens, dim, entries=None, output=None):
    """Epsilon and the norm of p_0 at a random start."""
    embeddings = (rng.standard_normal((n_tokens, dim)) if entries is None else entries) / np.sqrt(dim)
    cls = rng.standard_normal(dim) / np.sqrt(dim)
    output = rng.choice([-1.0, 1.0], dim) / np.sqrt(dim) if output is None else output
    return max(np.abs(embeddings @ cls).max(), np.abs(embeddings @ output).max()), np.linalg.norm(cls)


@pytest.mark.parametrize(("n_tokens", "dim", "delta"), [(5, 16, 0.1), (30, 64, 0.05), (200, 128, 0.2)])
def test_epsilon_exceeds_its_bound_no_more_often_than_promised(n_tokens, dim, delta, evidence):
    rng, n_starts, above, far_above = np.random.default_rng(0), 1000, 0, 0
    for _ in range(n_starts):
        epsilon, cls_norm = _largest(rng, n_tokens, dim)
        promised = ts.theory.one_step_epsilon(n_tokens, dim, 1 - delta, cls_norm=cls_norm)
        above += epsilon > promised
        far_above += epsilon > promised / 2
    evidence.bound(
        above / n_starts, delta + 4 * np.sqrt(delta * (1 - delta) / n_starts)
    )  # four standard errors
    assert far_above / n_starts > delta  # and half the bound would not do: it has the right order


@pytest.mark.drops("independent")
def test_an_output_vector_that_has_seen_the_embeddings_makes_epsilon_large():
    rng = np.random.default_rng(0)
    for _ in range(20):  # at every start, though it is promised at one in a thousand
        embeddings = rng.standard_normal((20, 4096))
        epsilon, cls_norm = _largest(rng, 20, 4096, embeddings, embeddings[0] / np.linalg.norm(embeddings[0]))
        assert epsilon > 5 * ts.theory.one_step_epsilon(20, 4096, 0.999, cls_norm=cls_norm)


@pytest.mark.drops("normal")
def test_entries_with_heavy_tails_exceed_the_promised_epsilon_too_often():
    # Variance one, but one entry in a hundred is 10: with v a unit vector a value is a single entry.
    rng, exceeded = np.random.default_rng(0), 0
    for _ in range(50):
        entries = 10.0 * rng.choice([-1, 0, 1], size=(200, 64), p=[0.005, 0.99, 0.005])
        epsilon, cls_norm = _largest(rng, 200, 64, entries, np.eye(1, 64)[0])
        exceeded += epsilon > ts.theory.one_step_epsilon(200, 64, 0.9, cls_norm=cls_norm)
    assert exceeded > 25  # promised: at most a tenth


# --- each part of the bound is needed ---


def _gaussian(seed=0, n_tokens=26, dim=256):
    return ts.AttentionClassifier.initialise(n_tokens, dim, seed=seed)


def test_without_the_norm_of_v_the_bound_fails():
    corpus = _random_corpus(np.random.default_rng(1), 10, 30, 0.5)
    start = _gaussian(1, 10)
    model = ts.AttentionClassifier(start.embeddings / 1000, start.cls, start.output * 200)
    assert np.all(_error(model, corpus, 1.0) <= _bound(model, corpus, 1.0))
    literal = ts.theory.one_step_bound(
        1.0, corpus.average_frequency, _epsilon(model), output_norm=1.0, cls_norm=model.cls.norm().item()
    )
    occurs = corpus.average_frequency > 0
    assert np.all(_error(model, corpus, 1.0)[occurs] > literal[occurs])


@pytest.mark.drops("values")
def test_values_outside_the_interval_break_the_bound():
    corpus = _random_corpus(np.random.default_rng(2), 10, 30, 0.5)
    start = _gaussian(2, 10)
    model = ts.AttentionClassifier(start.embeddings, torch.zeros_like(start.cls), start.output)
    scores_only = np.abs(_numpy(model.scores())).max()
    assert scores_only == 0
    assert _bound(model, corpus, 1.0, scores_only).max() == 0 < _error(model, corpus, 1.0).max()


@pytest.mark.drops("scores")
def test_scores_outside_the_interval_break_the_bound():
    corpus = _random_corpus(np.random.default_rng(3), 10, 30, 0.5)
    start = _gaussian(3, 10)
    embeddings, output = _numpy(start.embeddings).copy(), np.eye(1, 256)[0]
    embeddings[:, 0] = 0  # so that all values are zero
    model = ts.AttentionClassifier(embeddings, start.cls, output)
    assert np.abs(_numpy(model.values())).max() == 0
    assert _bound(model, corpus, 1.0, 0.0).max() == 0 < _error(model, corpus, 1.0).max()


def test_the_size_is_the_average_frequency_not_its_signed_counterpart():
    corpus = ts.samplers.one_important_token(seed=0)  # irrelevant tokens have alpha exactly zero
    model = _gaussian()
    with_alpha = ts.theory.one_step_bound(
        1.0,
        np.abs(corpus.average_signed_frequency),
        _epsilon(model),
        output_norm=model.output.norm().item(),
        cls_norm=model.cls.norm().item(),
    )
    irrelevant = corpus.average_signed_frequency == 0
    assert irrelevant.sum() == 20
    assert np.all(_error(model, corpus, 1.0)[irrelevant] > with_alpha[irrelevant])


def test_alpha_counts_repeats():
    corpus = ts.Corpus([[9, 1], [1, 1]], labels=[1, -1])
    once = ts.Corpus([[1, 1], [1, 1]], labels=[1, -1])  # as if each token stood in a sequence once
    model = _gaussian(n_tokens=2, dim=16384)
    assert np.all(_error(model, corpus, 1.0) <= _bound(model, corpus, 1.0))
    wrong = _error(model, corpus, 1.0, alpha=once.average_signed_frequency)
    assert np.all(wrong > _bound(model, corpus, 1.0))


@pytest.mark.drops("first")
def test_two_steps_together_break_the_bound():
    corpus = ts.samplers.one_important_token(seed=0)
    start = _gaussian(dim=16384)
    second = ts.one_step(ts.one_step(start, corpus, 100.0), corpus, 100.0)
    moved = _numpy(second.embeddings) - _numpy(start.embeddings)
    predicted = 100.0 * np.outer(corpus.average_signed_frequency, _numpy(start.output))
    error = np.linalg.norm(moved - predicted, axis=1)
    important = corpus.average_signed_frequency != 0
    assert np.all(error[important] > _bound(start, corpus, 200.0)[important])
