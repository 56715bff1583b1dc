"""Float32, on the CPU and on CUDA where there is one, against embedding lookup in float64."""

import copy

import numpy as np
import pytest
import torch

import tokensel as ts
from tokensel import rounding

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def instance(seed, scale):
    """Sequences of very different lengths with repeated tokens; scores that differ by about the scale."""
    rng = np.random.default_rng(seed)
    n_tokens, dim = int(rng.integers(5, 300)), int(rng.integers(1, 80))
    sequences = [rng.integers(0, n_tokens, rng.integers(1, 200)).tolist() for _ in range(60)]
    labels = rng.choice([-1, 1], 60)
    corpus = ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=n_tokens)
    model = ts.AttentionClassifier.initialise(n_tokens, dim, seed=seed, output=rng.standard_normal(dim))
    with torch.no_grad():
        model.cls *= scale / torch.linalg.vector_norm(model.scores(), torch.inf)
    return sequences, labels, corpus, model


def looked_up(model, sequences, labels):
    """Scores, values, logits, loss and gradients from the definitions, in float64, by autograd."""
    E, p, v = (part.detach().clone().requires_grad_() for part in model.parameters())
    a, b = E @ p, E @ v
    logits = torch.stack([torch.softmax(a[tokens], 0) @ b[tokens] for tokens in sequences])
    loss = torch.nn.functional.softplus(-torch.tensor(labels) * logits, threshold=1e3).mean()
    grads = torch.autograd.grad(loss, (a, b, E, p))
    return [x.detach() for x in (a, b, logits, loss, *grads)]


def in_float32(model, corpus, device):
    single = copy.deepcopy(model).float().to(device)
    single.loss(corpus).backward()
    scores, values = single.scores().detach(), single.values().detach()
    loss, by_score, by_value = ts.score_space.gradients(corpus, scores, values)
    parts = (
        scores,
        values,
        single(corpus),
        loss,
        by_score,
        by_value,
        single.embeddings.grad,
        single.cls.grad,
    )
    return [part.detach().cpu().double() for part in parts]


def shares(model, sequences, labels, corpus, device):
    """The largest measured error of each kind as a share of its bound."""
    bound = rounding.bounds(model, corpus)
    found = {}
    exact, single = looked_up(model, sequences, labels), in_float32(model, corpus, device)
    for name, limit, mine, right in zip(bound._fields, bound, single, exact, strict=True):
        error = (mine - right).abs().numpy()
        if name == "embeddings_gradient":
            error = np.linalg.norm(error, axis=1)
        limit = np.asarray(limit)
        assert (error[limit == 0] == 0).all(), name  # tokens that stand in no sequence
        found[name] = (error[limit > 0] / limit[limit > 0]).max()
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0, 300.0])
@pytest.mark.parametrize("seed", range(6))
def test_float32_stays_within_its_bounds(seed, scale, device):
    sequences, labels, corpus, model = instance(seed, scale)
    found = shares(model, sequences, labels, corpus, device)
    assert max(found.values()) <= 1, found


def test_the_bounds_would_notice_a_shorter_format():
    """Embeddings rounded to bfloat16, with 2^15 times the error of float32, break all but two."""
    sequences, labels, corpus, model = instance(0, 1.0)
    bound = rounding.bounds(model, corpus)
    coarse = copy.deepcopy(model).bfloat16().double()
    for name, limit, mine, right in zip(
        bound._fields,
        bound,
        looked_up(coarse, sequences, labels),
        looked_up(model, sequences, labels),
        strict=True,
    ):
        error = (mine - right).abs().numpy()
        if name == "embeddings_gradient":
            error = np.linalg.norm(error, axis=1)
        # In sums over all sequences or all tokens, errors of both signs average out.
        assert (error > limit).any() == (name not in ("loss", "cls_gradient")), name


def test_the_bounds_scale_with_the_format():
    """All of them are proportional to the rounding unit, but for its square."""
    _, _, corpus, model = instance(1, 1.0)
    for single, double in zip(
        rounding.bounds(model, corpus), rounding.bounds(model, corpus, torch.float64), strict=True
    ):
        there = np.asarray(double) > 0
        ratio = np.asarray(single)[there] / np.asarray(double)[there]
        np.testing.assert_allclose(ratio, 2.0**29, rtol=1e-2)


def test_the_logits_of_a_text_model():
    """The sizes of the text chapters: 250 distinct tokens of 12,000, d = 256, scores up to 10 apart."""
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 12_000, 250).tolist() for _ in range(50)]
    corpus = ts.Corpus.from_sequences(sequences, labels=rng.choice([-1, 1], 50), n_tokens=12_000)
    model = ts.AttentionClassifier.initialise(12_000, 256, seed=0)
    with torch.no_grad():
        model.cls *= 5.0 / model.scores().abs().max()
    bound = rounding.bounds(model, corpus)
    assert bound.logits.max() < 1e-3 * model.values().abs().max().item()


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (None, TypeError, "model must be an AttentionClassifier, got NoneType"),
        (
            ts.AttentionClassifier.initialise(3, 2, dtype=torch.float32),
            TypeError,
            "float64, the model before",
        ),
        (ts.AttentionClassifier.initialise(4, 2), ValueError, "the corpus has 3 tokens"),
        (
            ts.AttentionClassifier([[1e8, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 1.0], [0.0, 1.0]),
            ValueError,
            "no bound: take float64",
        ),
    ],
)
def test_bad_input_is_named(model, error, message):
    corpus = ts.Corpus.from_sequences([[0, 1], [2]], labels=[1, -1])
    with pytest.raises(error, match=message):
        rounding.bounds(model, corpus)
