"""Whether a flow can end in a selection: small cases by hand, and flows that were started there."""

import numpy as np
import pytest

import tokensel as ts


def test_one_sequence_by_hand():
    """Orthonormal tokens, values 1/2, 0, -1/5: p = (2, -1, -1)/3 selects token 0 with both pairs tight."""
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    model = ts.AttentionClassifier(np.eye(3), np.zeros(3), [0.5, 0.0, -0.2])
    first = ts.reachability(model, ts.Selection(corpus, [0]))
    np.testing.assert_allclose(first.solution.cls, np.array([2, -1, -1]) / 3, atol=1e-9)
    sigmoid = 1 / (1 + np.exp(0.5))
    np.testing.assert_allclose(first.coefficients, [0.5 * sigmoid, 0.7 * sigmoid], rtol=1e-14)
    assert first.tight.all()
    assert first.reachable is True

    middle = ts.reachability(model, ts.Selection(corpus, [1]))
    assert middle.pairs.tolist() == [[1, 0], [1, 2]]
    np.testing.assert_allclose(middle.coefficients, [-0.25, 0.1], rtol=1e-14)
    assert middle.reachable is False


def test_an_unwanted_pair_with_slack_does_no_harm():
    trap = ts.traps.dependent_embeddings()
    found = ts.reachability(trap.model, trap.selection)
    assert found.reachable
    assert (found.coefficients[~found.tight] < 0).any()
    assert (found.gaps[~found.tight] > 1.5).all()


def test_tokens_of_equal_value_are_not_tight_pairs_but_must_lie_below():
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    values = [1.0, 1.0, 0.0]
    below = np.array([[0.0, 0, 1], [-1, 0, 1], [-2, 0, 0]])  # last coordinate: the value
    level = np.array([[0.0, 0, 1], [0, -1, 1], [-2, 0, 0]])
    for rows, reachable in ((below, True), (level, False)):
        model = ts.AttentionClassifier(rows, np.zeros(3), [0.0, 0.0, 1.0])
        assert model.values().tolist() == values
        found = ts.reachability(model, ts.Selection(corpus, [0]))
        assert found.tight.tolist() == [False, True]
        assert found.reachable is reachable


def test_flows_started_far_out_end_where_the_theorem_says():
    counted = {True: 0, False: 0}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        corpus = ts.samplers.random_tokens(3, n_tokens=6, shortest=2, longest=4, seed=rng)
        model = ts.AttentionClassifier(rng.normal(size=(6, 8)), rng.normal(size=8), rng.normal(size=8) / 3)
        for selection in (ts.Selection.of(corpus, model.scores()), ts.Selection.best(corpus, model.values())):
            if selection.cycle:  # six rows in eight dimensions: nothing else can stand in the way
                continue
            found = ts.reachability(model, selection)
            start = model.with_cls(60 * found.solution.cls)
            path = ts.gradient_flow(start, corpus, until_norm=None, until_log_time=200.0, tolerance=1e-4)
            stayed = (path.selection.tokens == selection.tokens).all()
            counted[found.reachable] += 1
            assert stayed or not found.reachable
            if not found.reachable and (found.coefficients < 0).all():
                assert not stayed
    assert min(counted.values()) >= 2


def test_bad_input_is_named():
    corpus = ts.Corpus.from_sequences([[0, 1], [0, 1]], [1, -1])
    model = ts.AttentionClassifier(np.eye(2), np.zeros(2), [1.0, -1.0])
    with pytest.raises(TypeError, match="model must be"):
        ts.reachability(np.eye(2), ts.Selection(corpus, [0, 0]))
    with pytest.raises(TypeError, match="selection must be"):
        ts.reachability(model, [0, 1])
    with pytest.raises(ts.InfeasibleSelection):
        ts.reachability(model, ts.Selection(corpus, [0, 1]))
    with pytest.raises(ValueError, match="tolerance"):
        ts.reachability(model, ts.Selection(corpus, [0, 0]), tolerance=-1)


def one_class(values, cls=(0.0, 0.0, 0.0)):
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], [1])
    return ts.AttentionClassifier(np.eye(3), np.array(cls), values), corpus


def follow(model, corpus, log_time=1000.0):
    return ts.gradient_flow(model, corpus, until_norm=None, until_log_time=log_time, tolerance=1e-6)


def test_where_all_hypotheses_hold_none_fails_and_the_direction_is_that_of_max_margin():
    model, corpus = one_class([1.0, 0.2, -0.4])
    path = follow(model, corpus)
    assert ts.failed_hypothesis(model, path) is None
    solution = ts.max_margin(model.embeddings, path.selection, model.values())
    assert ts.cosine(path.cls[-1], solution.cls) > 0.9999


def test_each_hypothesis_that_fails_is_named():
    model, corpus = one_class([1.0, 1.0, 1.0])
    assert ts.failed_hypothesis(model, follow(model, corpus)) == "no pair"

    cycle = ts.samplers.two_token_cycle()
    opposite = ts.AttentionClassifier(np.eye(2), [0.3, 0.0], [1.0, -1.0])
    assert ts.failed_hypothesis(opposite, ts.gradient_flow(opposite, cycle)) == "finite norm"

    # Two sequences contradict each other and stay divided, while a third one selects.
    divided = ts.Corpus.from_sequences([[0, 1], [0, 1], [2, 3]], [1, -1, 1])
    model = ts.AttentionClassifier(np.eye(4), np.zeros(4), [1.0, -1.0, 1.0, 0.0])
    assert ts.failed_hypothesis(model, follow(model, divided, 100.0)) == "no unique maximiser"

    # So far out that the flow has not yet left, though it will: one of the smallest gaps is unwanted.
    model, corpus = one_class([0.5, 0.0, -0.2])
    middle = ts.Selection(corpus, [1])
    far = model.with_cls(30 * ts.max_margin(model.embeddings, middle).cls)
    assert ts.failed_hypothesis(far, follow(far, corpus, 1.0)) == "wrong sign"


def test_a_path_of_another_model_is_refused():
    model, corpus = one_class([1.0, 0.2, -0.4])
    path = follow(model, corpus, 5.0)
    other = ts.AttentionClassifier(np.eye(4), np.zeros(4), np.ones(4))
    with pytest.raises(ValueError, match="3 tokens in 3 dimensions"):
        ts.failed_hypothesis(other, path)
    mirrored = ts.AttentionClassifier(-model.embeddings, model.cls, -model.output)  # same sizes, same values
    with pytest.raises(ValueError, match="the path does not belong to the model"):
        ts.failed_hypothesis(mirrored, path)
    with pytest.raises(TypeError, match="path must come"):
        ts.failed_hypothesis(model, path.cls)
    with pytest.raises(TypeError, match="model must be"):
        ts.failed_hypothesis(np.eye(3), path)
