"""A cell of the phase diagram: the same steps written out, and what the chapter says of three steps."""

import numpy as np
import pytest
import torch

import tokensel as ts
from tokensel import phases


def test_one_generator_draws_the_corpus_and_then_the_start():
    corpus, model = phases.after_one_step(
        40, dim=32, seed=5, n_sequences=20, length=4, n_important=2, n_irrelevant=3
    )
    rng = np.random.default_rng(5)
    again = ts.samplers.one_important_token(20, 4, 2, 3, seed=rng)
    start = ts.AttentionClassifier.initialise(5, 32, seed=rng)
    assert (corpus.counts.toarray() == again.counts.toarray()).all()
    np.testing.assert_array_equal(
        model.embeddings.detach(), ts.one_step(start, again, 40.0).embeddings.detach()
    )
    unmirrored, _ = phases.after_one_step(40, dim=32, seed=5, mirror=False)
    assert np.abs(unmirrored.average_signed_frequency[6:]).max() > 0


def test_shares_are_counted_by_class():
    corpus = ts.Corpus.from_sequences([[0, 1], [0, 2], [1, 2], [1, 2], [1, 2]], [1, 1, 1, -1, -1])
    rows = np.eye(3)
    model = ts.AttentionClassifier(rows, [3.0, 0.0, -3.0], [2.0, 1.0, 0.5])
    # At so early a time p has hardly moved: the order is still 0, 1, 2.
    shares = phases.selected_shares(model, corpus, [0], log_time=-5.0)
    np.testing.assert_allclose(shares, [2 / 3, 0.0])
    np.testing.assert_allclose(phases.selected_shares(model, corpus, [0, 1], log_time=-5.0), [1.0, 1.0])


def test_a_short_step_selects_some_a_middle_one_all_and_a_long_one_loses_a_class():
    shares = {}
    for step in (5, 40, 240):
        corpus, model = phases.after_one_step(step, dim=512, seed=0)
        shares[step] = phases.selected_shares(model, corpus, range(6))
    assert 0 < shares[5].min() < 1
    assert shares[40].tolist() == [1.0, 1.0]
    assert sorted(shares[240]) == [0.0, 1.0]


def test_class_means_keep_leading_axes():
    corpus = ts.Corpus.from_sequences([[0], [1], [1], [0]], [1, -1, -1, 1])
    numbers = np.arange(8.0).reshape(2, 4)
    np.testing.assert_array_equal(phases.class_means(corpus, numbers), [[1.5, 5.5], [1.5, 5.5]])
    np.testing.assert_array_equal(phases.class_means(corpus, [True, False, True, True]), [1.0, 0.5])


@pytest.mark.parametrize("tokens", [[0, 1], np.array([True, True, False]), range(2)])
def test_important_tokens_are_ids_or_a_mask(tokens):
    corpus = ts.Corpus.from_sequences([[0, 2], [1, 2], [0, 2]], [1, 1, -1])
    model = ts.AttentionClassifier(np.eye(3), [3.0, 2.0, 0.0], [2.0, 1.0, 0.5])
    assert phases.selected_shares(model, corpus, tokens, log_time=-5.0).tolist() == [1.0, 1.0]
    assert phases.selected_shares(model, corpus, [], log_time=-5.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ({0, 1}, TypeError, "a list of token ids or a mask"),
        (["0"], TypeError, "a list of token ids or a mask"),
        (None, TypeError, "a list of token ids or a mask"),
        ([0.0], TypeError, "a list of token ids or a mask"),
        ([3], ValueError, "tokens must be from 0 to 2, got 3"),
        ([True], ValueError, "one entry for each of the 3 tokens"),
    ],
)
def test_what_is_no_token_is_not_counted_as_unselected(tokens, error, message):
    corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    model = ts.AttentionClassifier(np.eye(3), np.zeros(3), [2.0, 1.0, 0.5])
    with pytest.raises(error, match=message):
        phases.selected_shares(model, corpus, tokens)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"step_size": "40"}, TypeError, "step_size must be a number, got '40'"),
        ({"step_size": None}, TypeError, "step_size must be a number"),
        ({"step_size": -1}, ValueError, "step_size must be at least 0"),
        ({"seed": None}, TypeError, "seed must be an int"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
    ],
)
def test_a_bad_step_or_seed_is_named(given, error, message):
    with pytest.raises(error, match=message):
        phases.after_one_step(**({"step_size": 4, "dim": 8} | given))


def test_class_means_take_tensors_of_any_kind():
    corpus = ts.Corpus.from_sequences([[0], [1]], [1, -1])
    for tensor in (torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.bfloat16)):
        assert phases.class_means(corpus, tensor).tolist() == [1.0, 1.0]


def test_bad_input_is_named():
    corpus = ts.Corpus.from_sequences([[0], [1]], [1, 1])
    with pytest.raises(ValueError, match="both classes"):
        phases.class_means(corpus, [1.0, 2.0])
    with pytest.raises(ValueError, match="one entry for each"):
        phases.class_means(corpus, [1.0])
    with pytest.raises(TypeError, match="corpus must be"):
        phases.class_means([1], [1.0])
