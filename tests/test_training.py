"""`one_step` and `fit` against the model a reader would write first: embedding lookup, softmax, autograd."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

import tokensel as ts
from tokensel import memory, score_space

# Float64 rounding of sums of some hundred terms, over at most ten steps; parameters are of order one.
ROUNDING = 1e-11
PARAMETERS = ("embeddings", "cls", "output")


def _sequences(seed, n=30, n_tokens=12):
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(0, n_tokens, rng.integers(1, 9)).tolist() for _ in range(n)]
    return sequences, np.where(rng.random(n) < 0.7, 1, -1)


def _corpus(seed=0, n=30, n_tokens=12):
    sequences, labels = _sequences(seed, n, n_tokens)
    return ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=n_tokens)


def _model(seed=0, n_tokens=12, dim=5, **options):
    return ts.AttentionClassifier.initialise(n_tokens, dim, seed=seed, **options)


def _lookup_logits(embeddings, cls, output, sequences):
    rows = [embeddings[torch.tensor(sequence)] for sequence in sequences]
    return torch.stack([torch.softmax(row @ cls, 0) @ (row @ output) for row in rows])


def _lookup_loss(embeddings, cls, output, sequences, labels):
    logits = _lookup_logits(embeddings, cls, output, sequences)
    return torch.log1p(torch.exp(-torch.tensor(labels) * logits)).mean()


def _copies(model):
    return {name: getattr(model, name).detach().clone() for name in PARAMETERS}


def _same(model, tensors, tolerance=0.0):
    for name, tensor in tensors.items():
        torch.testing.assert_close(getattr(model, name).detach(), tensor, rtol=tolerance, atol=tolerance)


# --- one step ---


@pytest.mark.parametrize("seed", range(5))
def test_one_step_is_the_gradient_step_of_the_lookup_model(seed):
    sequences, labels = _sequences(seed)
    corpus = ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=12)
    model = _model(seed)
    start = {name: tensor.requires_grad_() for name, tensor in _copies(model).items()}
    _lookup_loss(*start.values(), sequences, labels).backward()
    stepped = ts.one_step(model, corpus, step_size=7.0)
    expected = {name: (tensor - 7.0 * tensor.grad).detach() for name, tensor in start.items()}
    expected["output"] = start["output"].detach()
    _same(stepped, expected, ROUNDING)


def test_one_step_leaves_the_start_alone_and_shares_nothing_with_it():
    model, corpus = _model(dtype=torch.float32), _corpus()
    before = _copies(model)
    stepped = ts.one_step(model, corpus, step_size=3.0)
    assert all(getattr(stepped, name).dtype == torch.float32 for name in PARAMETERS)
    with torch.no_grad():
        for name in PARAMETERS:
            getattr(stepped, name).zero_()
    _same(model, before)
    assert all(getattr(model, name).grad is None for name in PARAMETERS)


def test_a_step_of_size_zero_stays():
    model = _model()
    _same(ts.one_step(model, _corpus(), step_size=0.0), _copies(model))


@pytest.mark.parametrize(
    ("step_size", "error", "words"),
    [
        (-1.0, ValueError, "step_size must be at least 0, got -1"),
        (float("nan"), ValueError, "step_size must be finite, got nan"),
        ("big", TypeError, "step_size must be a number, got 'big'"),
    ],
)
def test_one_step_says_what_is_wrong_with_the_step_size(step_size, error, words):
    with pytest.raises(error, match=words):
        ts.one_step(_model(), _corpus(), step_size)


# --- fit against the same optimiser on the lookup model ---

SUBSETS = [
    ("cls",),
    ("output",),
    ("embeddings",),
    ("embeddings", "cls"),
    ("cls", "output"),
    ("embeddings", "cls", "output"),
]


@pytest.mark.parametrize("train", SUBSETS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_fit_is_the_optimiser_of_torch_on_the_lookup_model(optimizer, train):
    sequences, labels = _sequences(3)
    corpus = ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=12)
    model = _model(3)
    theirs = {name: tensor.requires_grad_() for name, tensor in _copies(model).items()}
    rate = 0.5 if optimizer == "sgd" else 0.05
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    reference = kind([theirs[name] for name in train], lr=rate, foreach=False)
    losses, accuracies, norms = [], [], []
    for step in range(9):
        loss = _lookup_loss(*theirs.values(), sequences, labels)
        logits = _lookup_logits(*theirs.values(), sequences).detach().numpy()
        losses.append(loss.item())
        accuracies.append(np.mean(np.sign(logits) == labels))
        norms.append(theirs["cls"].norm().item())
        if step < 8:
            reference.zero_grad()
            loss.backward()
            reference.step()
    history = ts.fit(model, corpus, steps=8, optimizer=optimizer, learning_rate=rate, train=train)
    _same(model, {name: tensor.detach() for name, tensor in theirs.items()}, ROUNDING)
    np.testing.assert_allclose(history.loss, losses, atol=ROUNDING)
    np.testing.assert_array_equal(history.accuracy, accuracies)
    np.testing.assert_allclose(history.cls_norm, norms, atol=ROUNDING)
    assert np.isnan(history.validation_accuracy).all()
    assert history.validation_accuracy.shape == history.loss.shape == (9,)


def test_parameters_that_are_not_trained_and_all_flags_stay_as_they_were():
    model = _model()
    model.embeddings.requires_grad_(False)
    model.output.requires_grad_(False)
    model.cls.grad = torch.ones(5, dtype=torch.float64)
    before = _copies(model)
    ts.fit(model, _corpus(), steps=3, train=("embeddings", "cls"))
    assert not torch.equal(model.embeddings, before["embeddings"])
    assert not torch.equal(model.cls, before["cls"])
    assert torch.equal(model.output, before["output"])
    assert [getattr(model, name).requires_grad for name in PARAMETERS] == [False, True, False]
    assert model.embeddings.grad is None
    assert torch.equal(model.cls.grad, torch.ones(5, dtype=torch.float64))


def test_float32_stays_float32():
    model = _model(dtype=torch.float32)
    history = ts.fit(model, _corpus(), steps=2)
    assert model.embeddings.dtype == torch.float32
    assert history.loss.dtype == np.float64


def test_no_steps_only_measures():
    model, corpus = _model(), _corpus()
    before = _copies(model)
    history = ts.fit(model, corpus, steps=0)
    _same(model, before)
    np.testing.assert_allclose(history.loss, [model.loss(corpus).item()], rtol=ROUNDING)


def test_the_loss_of_a_very_wrong_model_keeps_its_digits():
    # log(1 + e^25) is 25 + e^-25; a softplus that cuts off at 20 would lose the e^-25 = 1.4e-11.
    corpus = ts.Corpus.from_sequences([[0]], labels=[-1], n_tokens=1)
    model = ts.AttentionClassifier([[25.0]], cls=[0.0], output=[1.0])
    history = ts.fit(model, corpus, steps=0)
    assert history.loss[0] == pytest.approx(25 + np.exp(-25.0), abs=1e-14)
    corpus = ts.Corpus.from_sequences([[0]], labels=[+1], n_tokens=1)
    assert ts.fit(model, corpus, steps=0).loss[0] == pytest.approx(np.exp(-25.0), rel=1e-9)


# --- the penalty on the cls embedding ---


@pytest.mark.parametrize("train", [("cls",), ("embeddings", "cls"), ("embeddings", "cls", "output")])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_penalty_is_that_of_autograd_on_the_lookup_model(optimizer, train):
    sequences, labels = _sequences(4)
    corpus = ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=12)
    model = _model(4)
    theirs = {name: tensor.requires_grad_() for name, tensor in _copies(model).items()}
    rate = 0.5 if optimizer == "sgd" else 0.05
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    reference = kind([theirs[name] for name in train], lr=rate, foreach=False)
    losses = []
    for step in range(9):
        loss = _lookup_loss(*theirs.values(), sequences, labels)
        losses.append(loss.item())
        if step < 8:
            reference.zero_grad()
            (loss + 0.7 / 2 * (theirs["cls"] ** 2).sum()).backward()
            reference.step()
    history = ts.fit(
        model, corpus, steps=8, optimizer=optimizer, learning_rate=rate, train=train, cls_penalty=0.7
    )
    _same(model, {name: tensor.detach() for name, tensor in theirs.items()}, ROUNDING)
    np.testing.assert_allclose(history.loss, losses, atol=ROUNDING)  # the penalty is no part of it


def test_without_a_penalty_not_one_bit_changes():
    plain, penalised = _model(), _model()
    ts.fit(plain, _corpus(), steps=5)
    ts.fit(penalised, _corpus(), steps=5, cls_penalty=0.0)
    _same(penalised, _copies(plain))


# --- early stopping ---

RISING_AND_FALLING = (2, 4, 5, 9)  # seeds of runs that stop early and late, at once and never


def _follow(accuracies, patience):
    """The rule by hand: at which step training stops, and which step was best."""
    best, waited = None, 0
    for step, accuracy in enumerate(accuracies):
        if np.isnan(accuracy):
            continue
        if best is None or accuracy > accuracies[best]:
            best, waited = step, 0
        else:
            waited += 1
        if waited == patience:
            return step, best
    return len(accuracies) - 1, best


@pytest.mark.parametrize("patience", [1, 2, 4, 100])
@pytest.mark.parametrize("seed", RISING_AND_FALLING)
def test_patience_on_a_run_of_the_lookup_model_followed_by_hand(seed, patience):
    sequences, labels = _sequences(seed)
    held_out, held_out_labels = _sequences(seed + 100, n=21)
    model = _model(seed)
    theirs = {name: tensor.requires_grad_() for name, tensor in _copies(model).items()}
    reference = torch.optim.SGD([theirs["embeddings"], theirs["cls"]], lr=8.0)
    accuracies, states = [], []
    for _ in range(16):
        logits = _lookup_logits(*theirs.values(), held_out).detach().numpy()
        accuracies.append(np.mean((logits >= 0) == (held_out_labels > 0)))
        states.append({name: tensor.detach().clone() for name, tensor in theirs.items()})
        reference.zero_grad()
        _lookup_loss(*theirs.values(), sequences, labels).backward()
        reference.step()
    stop, best = _follow(accuracies, patience)
    history = ts.fit(
        model,
        ts.Corpus.from_sequences(sequences, labels=labels, n_tokens=12),
        steps=15,
        optimizer="sgd",
        learning_rate=8.0,
        validation=ts.Corpus.from_sequences(held_out, labels=held_out_labels, n_tokens=12),
        patience=patience,
    )
    np.testing.assert_array_equal(history.validation_accuracy, accuracies[: stop + 1])
    assert history.best_step == best
    _same(model, states[best], 1e3 * ROUNDING)  # steps of size 8 stretch what rounding began


def test_the_runs_followed_by_hand_stop_early_late_at_once_and_never():
    """Else the test above would show little."""
    ends = set()
    for seed in RISING_AND_FALLING:
        held_out = _corpus(seed + 100, n=21)
        options = {"optimizer": "sgd", "learning_rate": 8.0, "validation": held_out}
        history = ts.fit(_model(seed), _corpus(seed), steps=15, **options)
        ends |= {_follow(history.validation_accuracy, patience) for patience in (1, 2, 4, 100)}
    assert {best for _, best in ends} >= {0, 3, 11}
    assert {stop for stop, _ in ends} >= {1, 4, 7, 15}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("patience", [1, 3])
def test_patience_with_minibatches_counts_measurements_and_leaves_the_best_model(optimizer, patience):
    options = {"optimizer": optimizer, "learning_rate": 0.3, "batch_size": 4, "validation": _corpus(1)}
    whole = ts.fit(_model(), _corpus(n=10), steps=40, **options)
    stop, best = _follow(whole.validation_accuracy, patience)
    assert stop < 40  # else there is nothing to see
    model = _model()
    history = ts.fit(model, _corpus(n=10), steps=40, patience=patience, **options)
    np.testing.assert_array_equal(history.loss, whole.loss[: stop + 1])
    np.testing.assert_array_equal(history.validation_accuracy, whole.validation_accuracy[: stop + 1])
    assert history.best_step == best
    expected = _model()
    ts.fit(expected, _corpus(n=10), steps=best, **options)
    _same(model, _copies(expected))


def test_the_best_step_is_the_first_of_the_highest_validation_accuracy():
    history = ts.training.History(*np.array([[0.5] * 4, [0.5] * 4, [np.nan, 0.7, 0.9, 0.9], [1.0] * 4]))
    assert history.best_step == 2
    assert dataclasses.replace(history, validation_accuracy=np.full(4, np.nan)).best_step is None
    assert ts.training.History(*np.empty((4, 0))).best_step is None
    assert ts.fit(_model(), _corpus(), steps=2).best_step is None


# --- a function called at every step ---


@pytest.mark.parametrize("batch_size", [None, 7])
def test_on_step_sees_every_step_of_the_history(batch_size):
    seen = []
    options = {"batch_size": batch_size, "seed": 3}
    history = ts.fit(
        _model(), _corpus(), steps=5, on_step=lambda step, *rest: seen.append((step, *rest)), **options
    )
    assert [step for step, *_ in seen] == list(range(6)) == list(range(len(history.loss)))
    for step, scores, values in seen:
        assert not scores.requires_grad
        assert not values.requires_grad
        model = _model()
        ts.fit(model, _corpus(), steps=step, **options)
        torch.testing.assert_close(scores, model.scores().detach(), rtol=ROUNDING, atol=ROUNDING)
        torch.testing.assert_close(values, model.values().detach(), rtol=ROUNDING, atol=ROUNDING)


def test_what_on_step_does_to_its_tensors_changes_nothing():
    plain, watched = _model(), _model()
    ts.fit(plain, _corpus(), steps=5)
    ts.fit(watched, _corpus(), steps=5, on_step=lambda step, a, b: (a.zero_(), b.zero_()))
    _same(watched, _copies(plain))


@pytest.mark.parametrize("patience", [None, 50])
def test_an_error_of_on_step_ends_training_with_the_model_of_that_step(patience):
    def fail(step, scores, values):
        if step == 3:
            raise LookupError("my own error")

    model, held_out = _model(), _corpus(1)
    with pytest.raises(LookupError, match="my own error"):
        ts.fit(model, _corpus(), steps=9, validation=held_out, patience=patience, on_step=fail)
    expected = _model()
    history = ts.fit(expected, _corpus(), steps=3, validation=held_out)
    if patience is not None:
        expected = _model()
        ts.fit(expected, _corpus(), steps=history.best_step)
    _same(model, _copies(expected))


# --- what the history means ---


def test_entry_k_is_the_model_after_k_steps():
    corpus, held_out = _corpus(0), _corpus(1)
    history = ts.fit(_model(), corpus, steps=6, validation=held_out)
    for steps in range(7):
        model = _model()
        ts.fit(model, corpus, steps=steps)
        assert history.loss[steps] == pytest.approx(model.loss(corpus).item(), rel=ROUNDING)
        right = model.predict(held_out).numpy() == held_out.labels
        assert history.validation_accuracy[steps] == right.mean()
        assert history.cls_norm[steps] == pytest.approx(model.cls.norm().item(), rel=ROUNDING)


def test_the_validation_corpus_is_never_trained_on():
    plain, watched = _model(), _model()
    ts.fit(plain, _corpus(0), steps=5)
    ts.fit(watched, _corpus(0), steps=5, validation=_corpus(1))
    _same(watched, _copies(plain))


def test_a_full_batch_step_is_one_forward_and_one_backward_pass(monkeypatch):
    calls = []
    logits = score_space.logits
    monkeypatch.setattr(score_space, "logits", lambda *args: calls.append(1) or logits(*args))
    ts.fit(_model(), _corpus(), steps=10)
    assert len(calls) == 11  # one a step, and the measurement of the end


# --- minibatches ---


def test_an_epoch_uses_every_sequence_once_in_an_order_of_its_own(monkeypatch):
    corpus, used = _corpus(n=10), []
    take = ts.Corpus.__getitem__
    monkeypatch.setattr(ts.Corpus, "__getitem__", lambda self, rows: used.append(rows) or take(self, rows))
    ts.fit(_model(), corpus, steps=9, batch_size=4)  # three minibatches an epoch
    assert [len(rows) for rows in used] == [4, 4, 2] * 3 + [4]
    epochs = [np.concatenate(used[3 * k : 3 * k + 3]).tolist() for k in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_a_minibatch_step_is_a_step_on_those_sequences_alone(monkeypatch):
    corpus, used = _corpus(n=10), []
    take = ts.Corpus.__getitem__
    with monkeypatch.context() as patch:
        patch.setattr(ts.Corpus, "__getitem__", lambda self, rows: used.append(rows) or take(self, rows))
        model = _model()
        history = ts.fit(model, corpus, steps=2, optimizer="sgd", learning_rate=0.3, batch_size=4)
    by_hand = _model()
    for step in range(2):
        assert history.loss[step] == pytest.approx(by_hand.loss(corpus[used[step]]).item(), rel=ROUNDING)
        ts.fit(by_hand, corpus[used[step]], steps=1, optimizer="sgd", learning_rate=0.3)
    assert history.loss[2] == pytest.approx(by_hand.loss(corpus[used[2]]).item(), rel=ROUNDING)
    _same(model, _copies(by_hand), ROUNDING)


def test_one_minibatch_of_everything_is_the_full_batch():
    full, shuffled = _model(), _model()
    ts.fit(full, _corpus(), steps=4)
    ts.fit(shuffled, _corpus(), steps=4, batch_size=1000)
    _same(shuffled, _copies(full), ROUNDING)


def test_with_minibatches_validation_is_measured_once_an_epoch_and_at_the_end():
    history = ts.fit(_model(), _corpus(n=10), steps=7, batch_size=4, validation=_corpus(1))
    assert np.flatnonzero(~np.isnan(history.validation_accuracy)).tolist() == [0, 3, 6, 7]


@pytest.mark.parametrize("batch_size", [None, 7])
def test_the_same_seed_gives_the_same_result_to_the_last_bit(batch_size):
    corpus, models, histories = _corpus(), [], []
    for seed in (5, 5, np.random.default_rng(5)):
        models.append(_model())
        histories.append(ts.fit(models[-1], corpus, steps=9, batch_size=batch_size, seed=seed))
    for model, history in zip(models[1:], histories[1:], strict=True):
        _same(model, _copies(models[0]))
        np.testing.assert_array_equal(history.loss, histories[0].loss)


def test_another_seed_shuffles_otherwise_and_the_global_state_plays_no_part():
    corpus, one, other = _corpus(), _model(), _model()
    np.random.seed(1)  # noqa: NPY002 - the global state that must play no part
    torch.manual_seed(1)
    state = torch.get_rng_state()
    ts.fit(one, corpus, steps=3, batch_size=5, seed=1)
    ts.fit(other, corpus, steps=3, batch_size=5, seed=2)
    assert not torch.equal(one.embeddings, other.embeddings)
    assert torch.equal(torch.get_rng_state(), state)


# --- when it goes wrong ---


@pytest.mark.parametrize("batch_size", [None, 8])
def test_a_loss_that_stops_being_finite_leaves_the_last_finite_model(batch_size):
    corpus = _corpus()
    options = {"optimizer": "sgd", "learning_rate": 1e160, "batch_size": batch_size}
    model = _model()
    with pytest.raises(FloatingPointError) as caught:
        ts.fit(model, corpus, steps=50, **options)
    message = str(caught.value)
    assert "learning rate 1e+160" in message
    failed = int(message.split("at step ")[1].split()[0])
    assert f"left as it was after step {failed - 1}" in message
    assert np.isfinite(model.loss(corpus).item())
    before = _model()
    ts.fit(before, corpus, steps=failed - 1, **options)
    _same(model, _copies(before))
    with pytest.raises(FloatingPointError):
        ts.fit(_model(), corpus, steps=failed, **options)


def test_with_patience_a_loss_that_stops_being_finite_leaves_the_best_model():
    options = {"optimizer": "sgd", "learning_rate": 1e60, "validation": _corpus(1)}
    model = _model()
    with pytest.raises(FloatingPointError, match=r"stopped being finite at step (\d+)") as caught:
        ts.fit(model, _corpus(), steps=50, patience=50, **options)
    failed, left = map(int, re.findall(r"step (\d+)", str(caught.value)))
    expected = _model()
    history = ts.fit(expected, _corpus(), steps=failed - 1, **options)
    assert left == history.best_step < failed - 1
    best = _model()
    ts.fit(best, _corpus(), steps=left, **options)
    _same(model, _copies(best))


def test_a_model_whose_scores_overflow_from_the_start_is_named():
    model = ts.AttentionClassifier([[1e200], [1.0]], cls=[1e200], output=[1.0])
    corpus = ts.Corpus.from_sequences([[0, 1]], labels=[1], n_tokens=2)
    with pytest.raises(FloatingPointError, match="the model as given"):
        ts.fit(model, corpus, steps=1)


def _press(monkeypatch, owner, name, call, after, times):
    """Press Ctrl-C in the ``call``-th call of a function, after it has done its work or before."""
    original, calls = getattr(owner, name), []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == call and not after:
            [signal.raise_signal(signal.SIGINT) for _ in range(times)]
        result = original(*args, **kwargs)
        if len(calls) == call and after:
            [signal.raise_signal(signal.SIGINT) for _ in range(times)]
        return result

    monkeypatch.setattr(owner, name, interrupted)


PLACES = {
    "after an update": (torch.optim.SGD, "step", True),
    "before an update": (torch, "_foreach_copy_", True),
    "in the forward pass": (score_space, "logits", False),
    "after the forward pass": (score_space, "logits", True),
}


@pytest.mark.parametrize("patience", [None, 20])
@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_leaves_model_and_history_at_the_last_whole_step(
    monkeypatch, place, times, batch_size, patience
):
    owner, name, after = PLACES[place]
    options = {"optimizer": "sgd", "learning_rate": 2.0, "batch_size": batch_size, "validation": _corpus(1)}
    corpus, model = _corpus(), _model()
    with monkeypatch.context() as patch:
        _press(patch, owner, name, 8, after, times)
        with pytest.warns(RuntimeWarning, match=r"interrupted after \d of 40 steps"):
            history = ts.fit(model, corpus, steps=40, patience=patience, **options)
    done = len(history.loss) - 1
    # The eighth call is that of the eighth update, or the forward pass of the second corpus at step 3 (full
    # batch) or at step 5 (where the second epoch starts). Pressed twice, that step is undone.
    last = {score_space: 3 if batch_size is None else 5}.get(owner, 8)
    assert done == last - (times == 2)
    whole = _model()
    expected = ts.fit(whole, corpus, steps=done, **options)
    np.testing.assert_array_equal(history.loss, expected.loss)
    np.testing.assert_array_equal(history.cls_norm, expected.cls_norm)
    if patience is not None:
        whole = _model()
        ts.fit(whole, corpus, steps=history.best_step, **options)
    _same(model, _copies(whole))


def test_an_interrupt_before_anything_was_measured_changes_nothing(monkeypatch):
    model = _model()
    before = _copies(model)
    _press(monkeypatch, score_space, "logits", call=1, after=False, times=2)
    with pytest.warns(RuntimeWarning, match="interrupted after 0 of 9 steps"):
        history = ts.fit(model, _corpus(), steps=9)
    assert len(history.loss) == 0
    _same(model, before)


def test_an_interrupt_in_the_very_last_step_is_not_lost(monkeypatch):
    _press(monkeypatch, score_space, "logits", call=10, after=True, times=1)
    with pytest.warns(RuntimeWarning, match="interrupted after 9 of 9 steps"):
        assert len(ts.fit(_model(), _corpus(), steps=9).loss) == 10


@pytest.mark.parametrize("learning_rate", [0.1, 1e160])
def test_training_hands_back_what_ctrl_c_did_before(learning_rate):
    before = signal.getsignal(signal.SIGINT)
    assert before is signal.default_int_handler
    try:
        ts.fit(_model(), _corpus(), optimizer="sgd", learning_rate=learning_rate, steps=50)
    except FloatingPointError:
        assert learning_rate == 1e160
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_of_your_own_is_left_alone():
    heard = []
    previous = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        model = _model()
        history = ts.fit(
            model,
            _corpus(),
            steps=4,
            on_step=lambda step, *_: step == 2 and signal.raise_signal(signal.SIGINT),
        )
    finally:
        signal.signal(signal.SIGINT, previous)
    assert heard == [1]
    assert len(history.loss) == 5


def test_training_in_a_thread_needs_no_signals():
    expected, model = _model(), _model()
    ts.fit(expected, _corpus(), steps=5)
    thread = threading.Thread(target=ts.fit, args=(model, _corpus()), kwargs={"steps": 5})
    thread.start()
    thread.join()
    _same(model, _copies(expected))


INTERRUPTED = """
import sys, warnings
import numpy as np, torch
import tokensel as ts

torch.set_num_threads(1)
corpus = ts.samplers.one_important_token(60, length=6, n_important=4, n_irrelevant=20, seed=0)
held_out = ts.samplers.one_important_token(30, length=6, n_important=4, n_irrelevant=20, seed=1)

def train(steps, patience=None, batch_size=None, on_step=None):
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, 40, seed=0)
    return model, ts.fit(
        model, corpus, steps, learning_rate=1e-3, batch_size=batch_size, validation=held_out,
        patience=patience, on_step=on_step,
    )

def started(step, *_):
    if step == 0:
        print("started", flush=True)

for patience, batch_size in [(None, None), (10**6, None), (None, 8), (10**6, 8)] * 3:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, history = train(10**5, patience, batch_size, started)
    assert ["interrupted after" in str(w.message) for w in caught] == [True], caught
    steps = len(history.loss) - 1
    assert 0 < steps < 10**5
    whole, expected = train(steps, None, batch_size)
    for name in ("loss", "accuracy", "cls_norm"):
        np.testing.assert_array_equal(getattr(history, name), getattr(expected, name))
    if patience is not None:
        whole, _ = train(history.best_step, None, batch_size)
    for name in ("embeddings", "cls", "output"):
        assert torch.equal(getattr(model, name), getattr(whole, name)), name
    print("consistent", flush=True)
"""


def test_ctrl_c_at_random_moments_of_a_real_process():
    moments = np.random.default_rng(int(time.time())).uniform(0, 0.2, 12)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with process:
        for moment in moments:
            line = process.stdout.readline()
            if line != "started\n":
                break
            time.sleep(moment)
            process.send_signal(signal.SIGINT)
            if process.stdout.readline() != "consistent\n":
                break
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, f"moments {moments}: {errors}"


# --- bad input ---


@pytest.mark.parametrize(
    ("options", "copies"),
    [({"optimizer": "sgd"}, 2), ({}, 4), ({"patience": 3, "validation": _corpus(1)}, 6)],
)
def test_what_training_needs_beside_the_model_is_refused_where_it_does_not_fit(monkeypatch, options, copies):
    n_bytes = copies * (12 * 5 + 5) * 8  # of E and p: gradient, undo, two moments of Adam, best and next best
    monkeypatch.setattr(memory, "available", lambda device: n_bytes - 1)
    model = _model()
    before = _copies(model)
    with pytest.raises(MemoryError, match=rf"optimiser's state: that would need .*{n_bytes:,} bytes"):
        ts.fit(model, _corpus(), steps=3, **options)
    _same(model, before)
    monkeypatch.setattr(memory, "available", lambda device: max(n_bytes, 10_000))  # of counts, too
    ts.fit(model, _corpus(), steps=3, **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"optimizer": "adamw"}, ValueError, "optimizer must be one of 'sgd', 'adam', got 'adamw'"),
        ({"optimizer": torch.optim.Adam}, ValueError, "optimizer must be one of 'sgd', 'adam'"),
        ({"learning_rate": 0}, ValueError, "learning_rate must be positive, got 0"),
        ({"learning_rate": float("inf")}, ValueError, "learning_rate must be finite, got inf"),
        ({"learning_rate": "0.1"}, TypeError, "learning_rate must be a number, got '0.1'"),
        ({"steps": -1}, ValueError, "steps must be at least 0, got -1"),
        ({"steps": 2.5}, TypeError, "steps must be a whole number, got 2.5"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        ({"batch_size": 1.5}, TypeError, "batch_size must be a whole number, got 1.5"),
        ({"train": ()}, ValueError, "train must name one or more of"),
        ({"train": ("cls", "cls")}, ValueError, "each once, got"),
        ({"train": ("queries",)}, ValueError, "train must name one or more of .* got \\('queries',\\)"),
        ({"train": "cls"}, TypeError, "train must be a tuple of names .*, got 'cls'"),
        ({"train": 5}, TypeError, "train must be a tuple of names .*, got 5"),
        ({"seed": None}, TypeError, "seed must be an int or a numpy.random.Generator, got None"),
        ({"seed": -1, "batch_size": 1}, ValueError, "seed must be at least 0, got -1"),
        ({"validation": [[0, 1]]}, TypeError, "validation must be a Corpus or None, got list"),
        (
            {"validation": _corpus(n_tokens=9)},
            ValueError,
            "vocabulary .* its own .9 tokens",
        ),
        ({"cls_penalty": -0.1}, ValueError, "cls_penalty must be at least 0, got -0.1"),
        ({"cls_penalty": "l2"}, TypeError, "cls_penalty must be a number, got 'l2'"),
        (
            {"cls_penalty": 0.1, "train": ("embeddings",)},
            ValueError,
            'cls_penalty=0.1 needs "cls" among the trained parameters',
        ),
        ({"patience": 5}, ValueError, "patience=5 needs a validation corpus"),
        ({"patience": 0, "validation": _corpus()}, ValueError, "patience must be at least 1, got 0"),
        ({"patience": True, "validation": _corpus()}, TypeError, "patience must be a whole number, got True"),
        ({"on_step": 5}, TypeError, "on_step must be a function of .step, scores, values. or None, got 5"),
        ({"progress": "yes"}, TypeError, "progress must be True, False or None, got 'yes'"),
    ],
)
def test_fit_says_what_is_wrong_and_trains_nothing(options, error, words):
    model = _model()
    before = _copies(model)
    with pytest.raises(error, match=words):
        ts.fit(model, _corpus(), **options)
    _same(model, before)


def test_a_validation_corpus_with_other_words_is_refused():
    train = ts.Corpus.from_texts(["good film", "bad film"], labels=[1, -1])
    other = ts.Corpus.from_texts(["fine film", "poor film"], labels=[1, -1])
    assert train.n_tokens == other.n_tokens
    with pytest.raises(ValueError, match=r"vocabulary=corpus\.vocabulary"):
        ts.fit(_model(n_tokens=train.n_tokens), train, validation=other)


@pytest.mark.parametrize("function", [lambda *a: ts.one_step(*a, step_size=1.0), ts.fit])
def test_model_and_corpus_must_be_what_they_are_called_and_fit_together(function):
    with pytest.raises(TypeError, match="model must be an AttentionClassifier, got ndarray"):
        function(np.eye(3), _corpus())
    with pytest.raises(TypeError, match="corpus must be a Corpus, got list"):
        function(_model(), [[0, 1]])
    with pytest.raises(ValueError, match="corpus has 12 tokens, but the model has embeddings for 9"):
        function(_model(n_tokens=9), _corpus())


def test_progress_reports_on_request_only(capsys, monkeypatch):
    monkeypatch.delenv("TOKENSEL_STATIC", raising=False)
    ts.fit(_model(), _corpus(), steps=3)
    assert capsys.readouterr().err == ""
    ts.fit(_model(), _corpus(), steps=3, progress=True)
    assert "training" in capsys.readouterr().err


def test_fit_also_trains_where_autograd_is_off():
    expected, model = _model(), _model()
    ts.fit(expected, _corpus(), steps=5, progress=False)
    with torch.no_grad():
        ts.fit(model, _corpus(), steps=5, progress=False)
    assert torch.equal(model.embeddings, expected.embeddings)


def test_history_in_one_line():
    history = ts.training.History(
        *np.array([[0.7, 0.6, 0.5], [0.5, 0.8, 1.0], [np.nan, 0.75, 0.5], [1.0, 1.0, 1.0]])
    )
    expected = "History(2 steps; loss 0.7000 to 0.5000; accuracy 0.500 to 1.000"
    assert repr(history) == expected + "; validation accuracy 0.750 at best, at step 1)"
    unmeasured = dataclasses.replace(history, validation_accuracy=np.full(3, np.nan))
    assert repr(unmeasured) == expected + ")"
    assert repr(ts.training.History(*np.empty((4, 0)))) == "History(nothing measured)"


# --- what a format or a mode of torch cannot do ---


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", ["learning_rate", "cls_penalty"])
def test_a_number_that_is_infinite_in_the_models_format_is_named(name, optimizer):
    model = _model(dtype=torch.float32)
    start = _copies(model)
    with pytest.raises(ValueError, match=rf"{name} must be at most 3.4e\+38 .* torch.float32, got 1e\+39"):
        ts.fit(model, _corpus(), steps=2, optimizer=optimizer, **{name: 1e39})
    _same(model, start)


def test_a_step_size_that_is_infinite_in_the_models_format_is_named():
    with pytest.raises(ValueError, match=r"step_size must be at most 3.4e\+38"):
        ts.one_step(_model(dtype=torch.float32), _corpus(), step_size=1e39)


def test_divergence_under_a_penalty_names_both():
    with pytest.raises(FloatingPointError, match=r"Use a smaller learning rate or cls_penalty\.$"):
        ts.fit(_model(), _corpus(), steps=5, optimizer="sgd", cls_penalty=1e200)


def test_a_history_larger_than_memory_is_refused():
    with pytest.raises(MemoryError, match="the history of 1,000,000,000,000,000 steps: that would need 32"):
        ts.fit(_model(), _corpus(), steps=10**15)


def test_training_works_where_autograd_is_off_for_good():
    plain, other = _model(), _model()
    ts.fit(plain, _corpus(), steps=3)
    with torch.inference_mode():
        ts.fit(other, _corpus(), steps=3)
    _same(other, _copies(plain))


def test_the_warning_of_an_interruption_points_at_the_call_of_fit():
    def press(step, scores, values):
        raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted after 0 of 3 steps") as caught:
        ts.fit(_model(), _corpus(), steps=3, on_step=press)
    assert caught[0].filename == __file__
