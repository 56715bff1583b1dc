"""The error of one step against a step of autograd through an embedding lookup."""

import numpy as np
import pytest
import torch

import tokensel as ts


def lookup_step(model, corpus, step_size):
    """E_1 - E_0 by autograd, one sequence and one place after the other."""
    E = model.embeddings.detach().clone().requires_grad_()
    p, v = model.cls.detach(), model.output.detach()
    losses = []
    for i, label in enumerate(corpus.labels):
        row = corpus.counts[[i]]
        x = torch.tensor(np.repeat(row.indices, row.data))
        f = torch.softmax(E[x] @ p, 0) @ (E[x] @ v)
        losses.append(torch.log1p(torch.exp(-int(label) * f)))
    torch.stack(losses).mean().backward()
    return -step_size * E.grad.numpy()


@pytest.mark.parametrize("step_size", [0.5, 80.0])
def test_both_sides_are_those_of_the_theorem(step_size):
    corpus = ts.samplers.random_tokens(n_sequences=15, n_tokens=9, seed=1)
    model = ts.AttentionClassifier.initialise(9, dim=40, seed=2)
    long = ts.AttentionClassifier(model.embeddings, model.cls * 1.5, model.output * 2)
    found = ts.one_step_error(long, corpus, step_size)

    E, p, v = (x.detach().numpy() for x in (long.embeddings, long.cls, long.output))
    phi = corpus.counts.toarray() / corpus.counts.toarray().sum(axis=1, keepdims=True)
    aim = step_size / 2 * np.outer(corpus.labels @ phi / 15, v)
    expected = np.linalg.norm(lookup_step(long, corpus, step_size) - aim, axis=1) / step_size
    # E_0 + step - E_0 loses digits of the size of E_0.
    np.testing.assert_allclose(found.measured, expected, rtol=1e-10, atol=1e-15 / step_size)

    epsilon = max(abs(E @ p).max(), abs(E @ v).max())
    growth = np.exp(2 * epsilon)
    omega = np.linalg.norm(v) * ((growth - 1) / 2 + epsilon / 4 * growth)
    omega += np.linalg.norm(p) * epsilon * growth * (1 + epsilon / 2)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-14)
    np.testing.assert_allclose(found.allowed, phi.mean(axis=0) * omega, rtol=1e-12)
    assert (found.measured <= found.allowed + 1e-14).all()


def test_the_model_stays_as_it_is_and_single_precision_works():
    corpus = ts.samplers.one_important_token(20, 4, 2, 3, seed=0)
    model = ts.AttentionClassifier.initialise(5, dim=64, seed=0, dtype=torch.float32)
    before = model.embeddings.detach().clone()
    found = ts.one_step_error(model, corpus, 40.0)
    assert torch.equal(model.embeddings, before)
    exact = ts.one_step_error(ts.AttentionClassifier.initialise(5, dim=64, seed=0), corpus, 40.0)
    np.testing.assert_allclose(
        found.measured, exact.measured, atol=1e-5
    )  # 2^-23 of rows of length one or two


@pytest.mark.parametrize(("step", "error"), [(0, ValueError), (-1.0, ValueError), ("a", TypeError)])
def test_a_step_of_no_length_is_refused(step, error):
    corpus = ts.samplers.one_important_token(20, 4, 2, 3, seed=0)
    with pytest.raises(error, match="step_size"):
        ts.one_step_error(ts.AttentionClassifier.initialise(5, dim=8), corpus, step)
