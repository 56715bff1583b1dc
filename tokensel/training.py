"""Training: the one gradient step of the theory, and as many as you like."""

import itertools
import signal
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from tokensel import score_space
from tokensel.arguments import generator, real_number, whole_number
from tokensel.corpus import Corpus
from tokensel.model import AttentionClassifier
from tokensel.progress import progress as progress_bar

PARAMETERS = ("embeddings", "cls", "output")
OPTIMIZERS = ("sgd", "adam")


def one_step(model, corpus, step_size):
    r"""One gradient step on the embeddings and the cls embedding, both taken at the start.

    .. math:: E_1 = E_0 - \eta_0 \nabla_E L(E_0, p_0), \qquad p_1 = p_0 - \eta_0 \nabla_p L(E_0, p_0)

    The output vector v stays as it is, and so does ``model``.

    Parameters
    ----------
    model : AttentionClassifier
        The start :math:`(E_0, p_0, v)`.
    corpus : Corpus
        n sequences over the model's S tokens; all of them are used.
    step_size : float
        :math:`\eta_0 \ge 0`.

    Returns
    -------
    AttentionClassifier
        A new model :math:`(E_1, p_1, v)`, of the same dtype and on the same device.

    Raises
    ------
    TypeError
        ``model`` or ``corpus`` is something else.
    ValueError
        ``step_size`` is negative or not finite, or model and corpus differ in their number of tokens.

    Notes
    -----
    Chapter "One gradient step" proves that row s of :math:`E_1 - E_0` is :math:`\frac{\eta_0}{2}\alpha_s v`
    up to noise of order :math:`d^{-1/2}`.

    Examples
    --------
    Token 0 stands in the positive sequence only, token 1 in the negative one only, token 2 in both.

    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], labels=[+1, -1], n_tokens=3)
    >>> model = ts.AttentionClassifier.initialise(n_tokens=3, dim=4096, seed=0)
    >>> stepped = ts.one_step(model, corpus, step_size=40.0)
    >>> ((stepped.values() - model.values()) / 20.0).detach().numpy().round(2) + 0.0
    array([ 0.26, -0.25,  0.  ])
    >>> corpus.average_signed_frequency
    array([ 0.25, -0.25,  0.  ])
    """
    _check_pair(model, corpus)
    step_size = real_number("step_size", step_size, 0)
    start = _parameters(model)
    gradients = score_space.gradients(corpus, model.scores().detach(), model.values().detach())
    slope = _chain_rule(start, gradients.scores, gradients.values, ("embeddings", "cls"))
    return AttentionClassifier(
        start["embeddings"].sub(slope["embeddings"], alpha=step_size),
        start["cls"].sub(slope["cls"], alpha=step_size),
        start["output"].clone(),
    )


@dataclass(frozen=True, repr=False)
class History:
    """What training did: arrays with one number for each step and one for the start.

    Entry k is about the model after k steps: entry 0 about the model as it was given, the last one about the
    model at the end of training. With the full batch ``loss`` and ``accuracy`` are those of the whole
    training corpus. With minibatches they are those of the minibatch that step k + 1 uses, before it uses it
    (the last entry: of the minibatch that would have been next): noisy, but never flattered by having just
    been trained on.

    Attributes
    ----------
    loss, accuracy : numpy.ndarray
        Logistic loss L (natural logarithm) and share of sequences with the right sign.
    validation_accuracy : numpy.ndarray
        The same share on the validation corpus. NaN where it was not measured: everywhere when there is no
        validation corpus; with minibatches, everywhere but at the start of each epoch and at the end.
    cls_norm : numpy.ndarray
        Norm of the cls embedding.
    """

    loss: np.ndarray
    accuracy: np.ndarray
    validation_accuracy: np.ndarray
    cls_norm: np.ndarray

    @property
    def best_step(self):
        """int or None : the first step with the highest validation accuracy; None where none was measured."""
        if np.isnan(self.validation_accuracy).all():
            return None
        return int(np.nanargmax(self.validation_accuracy))

    def __repr__(self):
        if len(self.loss) == 0:
            return "History(nothing measured)"
        steps = len(self.loss) - 1
        validation = self.validation_accuracy[-1]
        return (
            f"History({steps:,} step{'s' * (steps != 1)}; loss {self.loss[0]:.4f} to {self.loss[-1]:.4f}; "
            f"accuracy {self.accuracy[0]:.3f} to {self.accuracy[-1]:.3f}"
            f"{'' if np.isnan(validation) else f'; validation accuracy {validation:.3f}'})"
        )


def fit(
    model,
    corpus,
    steps=200,
    optimizer="adam",
    learning_rate=0.01,
    train=("embeddings", "cls"),
    batch_size=None,
    validation=None,
    seed=0,
    progress=None,
    cls_penalty=0.0,
    patience=None,
    on_step=None,
):
    r"""Train the model in place on the logistic loss :math:`L = \frac1n\sum_i\log(1+e^{-y_if_i})`.

    A penalty :math:`\lambda` on the cls embedding makes it :math:`L + \frac\lambda2\lVert p\rVert^2`.

    Parameters
    ----------
    model : AttentionClassifier
        Trained in place. Parameters not named in ``train`` keep their numbers; no parameter's
        ``requires_grad`` or ``grad`` is touched.
    corpus : Corpus
        The training sequences.
    steps : int
        Number of parameter updates (with minibatches too: an epoch is n / ``batch_size`` of them).
    optimizer : {"adam", "sgd"}
        ``torch.optim.Adam`` or plain gradient descent, ``torch.optim.SGD``.
    learning_rate : float
        Positive.
    train : tuple of str
        Which of "embeddings" (E), "cls" (p) and "output" (v) to train.
    batch_size : int, optional
        Sequences in a minibatch. The corpus is shuffled anew each epoch; the last minibatch of an epoch holds
        what is left. None: every step uses the whole corpus.
    validation : Corpus, optional
        Held-out sequences over the same vocabulary; only measured, never trained on.
    seed : int or numpy.random.Generator
        Of the shuffling. Same seed, same result.
    progress : bool, optional
        Show a progress bar. None: only where somebody can watch it.
    cls_penalty : float
        :math:`\lambda \ge 0`. It keeps p short, so that attention stays spread out. The history's loss is L.
    patience : int, optional
        Early stopping: training ends when the validation accuracy has not risen for so many measurements.
        However it ends, the model is left as it was at ``history.best_step``. Needs ``validation``.
    on_step : callable, optional
        ``on_step(step, scores, values)`` is called at every step that enters the history, first with step 0,
        the start. Scores and values are (S,) tensors outside autograd, of this step alone: keep them if you
        like. What it returns is ignored, what it raises ends training.

    Returns
    -------
    History
        Loss, accuracy, validation accuracy and norm of p over the steps that training took.

    Raises
    ------
    TypeError, ValueError
        An argument is not what it must be; the message says which, what it got and what it needs.
    FloatingPointError
        Scores, values or loss stopped being finite. The model is left as it was after the last step at which
        they were (with ``patience``, at the best step).

    Warns
    -----
    RuntimeWarning
        Training was interrupted (the stop button, Ctrl-C). It ends with the step under way, and the history
        is returned. A second Ctrl-C does not wait for that step: it is undone.

    Notes
    -----
    E enters only through the scores and values, so autograd runs on 2S numbers; the chain rule
    :math:`\nabla_EL = \partial_aL\,p^\top + \partial_bL\,v^\top` (chapter "One gradient step") does the rest.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], labels=[+1, -1], n_tokens=3)
    >>> model = ts.AttentionClassifier.initialise(n_tokens=3, dim=16, seed=0)
    >>> history = ts.fit(model, corpus, steps=50, learning_rate=0.1)
    >>> len(history.loss), bool(history.loss[-1] < history.loss[0]), float(history.accuracy[-1])
    (51, True, 1.0)
    """
    _check_pair(model, corpus)
    if validation is not None:
        _check_validation(validation, corpus)
    share = _Share(corpus, validation)
    settings = (
        steps,
        optimizer,
        learning_rate,
        train,
        batch_size,
        seed,
        progress,
        cls_penalty,
        patience,
        on_step,
    )
    return _train(model, share, *settings)


class _Share:
    """The sequences that this process trains on and is measured on: here, all of them."""

    def __init__(self, corpus, validation):
        self.corpus, self.validation = corpus, validation
        self.first = 0  # position of the first one among those of all processes
        self.n_sequences = corpus.n_sequences  # of all processes
        self.n_validation = 0 if validation is None else validation.n_sequences

    def part(self, rows):
        """Return those of the rows that stand here as a corpus, None if none does; rows None are all."""
        if rows is None:
            return self.corpus
        here = rows[(rows >= self.first) & (rows < self.first + self.corpus.n_sequences)] - self.first
        return self.corpus[here] if here.size else None

    def add_up(self, numbers, interrupted):
        """Replace numbers by their sums over all processes; return whether one of these was interrupted."""
        return interrupted


def _train(
    model,
    share,
    steps,
    optimizer,
    learning_rate,
    train,
    batch_size,
    seed,
    progress,
    cls_penalty,
    patience,
    on_step,
):
    """Train as `fit` does on the sequences of all processes, of which this one has its share."""
    steps = whole_number("steps", steps, 0)
    train = _names(train)
    cls_penalty = _penalty(cls_penalty, train)
    validation = share.validation
    _check_watching(patience, validation, on_step)
    parameters = _parameters(model)
    trained = [parameters[name] for name in train]
    optimizer = _optimizer(optimizer, trained, real_number("learning_rate", learning_rate))
    batches = _batches(share.n_sequences, batch_size, generator(seed))

    measured = np.full((4, steps + 1), np.nan)  # loss, accuracy, validation accuracy, norm of p
    n_measured = n_waited = 0
    before, before_step = [torch.empty_like(t) for t in trained], None  # where the step under way started
    best, best_step = None, None  # with patience: the parameters at the best step so far
    gradients = None
    with _Interrupts() as interrupts, progress_bar(steps, show=progress, description="training") as bar:
        try:
            for step in range(steps + 1):
                rows, size, epoch_starts = next(batches)
                validates = validation is not None and (epoch_starts or step == steps)
                left = step - 1 if patience is None else best_step
                scores = torch.mv(parameters["embeddings"], parameters["cls"])
                values = torch.mv(parameters["embeddings"], parameters["output"])
                _require_finite(torch.stack((scores, values)), step, learning_rate, left)

                numbers = scores.new_zeros(2 * len(scores) + 2 + (validation is not None))
                by_score, by_value, rest = numbers.tensor_split((len(scores), 2 * len(scores)))
                if (part := share.part(rows)) is not None:
                    rest[0], rest[1] = _slope(part, scores, values, size, out=(by_score, by_value))
                if validates:
                    rest[2] = _right(validation, score_space.logits(validation, scores, values)).sum()
                interrupted = share.add_up(numbers, interrupts.pressed)
                _require_finite(rest, step, learning_rate, left)

                loss, right, *held_out_right = rest.tolist()
                measured[0, step], measured[1, step] = loss, right / size
                if validates:
                    measured[2, step] = held_out_right[0] / share.n_validation
                measured[3, step] = parameters["cls"].norm().item()
                n_measured = step + 1
                if validates and patience is not None:
                    n_waited += 1
                    if best is None or measured[2, step] > measured[2, best_step]:
                        best, best_step, n_waited = [t.clone() for t in trained], step, 0
                if on_step is not None:
                    on_step(step, scores, values)
                if step == steps or interrupted or (patience is not None and n_waited >= patience):
                    break

                gradients = _chain_rule(parameters, by_score, by_value, train, out=gradients)
                if cls_penalty > 0:
                    gradients["cls"].add_(parameters["cls"], alpha=cls_penalty)
                for name in train:
                    parameters[name].grad = gradients[name]
                torch._foreach_copy_(before, trained)
                before_step = step
                optimizer.step()
                bar.update()
                bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
        except KeyboardInterrupt:
            interrupts.pressed = True
        finally:
            interrupts.wait = True
            history = History(*measured[:, :n_measured])
            if before_step is not None and before_step == n_measured - 1:  # begun but not measured: undo it
                _copy(before, trained)
            if best is not None and history.best_step < n_measured - 1:
                _copy(best, trained)
        if interrupts.pressed:
            done = max(n_measured - 1, 0)
            warnings.warn(
                f"training was interrupted after {done} of {steps} steps", RuntimeWarning, stacklevel=3
            )
    return history


class _Interrupts:
    """Ctrl-C while training: noted, so that the step under way becomes whole; pressed again, raised."""

    def __init__(self):
        self.pressed = False
        self.wait = False  # whether a second press has to wait too

    def __enter__(self):
        # Only the main thread is ever interrupted, and whoever has a handler of their own keeps it.
        self._handles = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._handles:
            signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_):
        if self._handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _press(self, *_):
        if self.pressed and not self.wait:
            raise KeyboardInterrupt
        self.pressed = True


def _parameters(model):
    """The model's tensors by name: the same storage, outside autograd."""
    return {name: getattr(model, name).detach() for name in PARAMETERS}


def _chain_rule(parameters, scores_gradient, values_gradient, names, out=None):
    r"""Gradients of the named parameters from those of the scores a = Ep and the values b = Ev.

    :math:`\nabla_E = \partial_a p^\top + \partial_b v^\top`, :math:`\nabla_p = E^\top\partial_a`,
    :math:`\nabla_v = E^\top\partial_b`.
    """
    E, p, v = (parameters[name] for name in PARAMETERS)
    if out is None:  # kept from step to step: a fresh (S, d) array costs more to fetch than to fill
        out = {name: torch.empty_like(parameters[name]) for name in names}
    if "embeddings" in names:
        torch.outer(scores_gradient, p, out=out["embeddings"]).addr_(values_gradient, v)
    if "cls" in names:
        torch.mv(E.T, scores_gradient, out=out["cls"])
    if "output" in names:
        torch.mv(E.T, values_gradient, out=out["output"])
    return out


def _copy(source, target):
    for numbers, parameter in zip(source, target, strict=True):
        parameter.copy_(numbers)


def _batches(n_sequences, batch_size, rng):
    """Minibatches without end: positions (None are all), how many, and whether an epoch starts here."""
    if batch_size is None:
        return itertools.repeat((None, n_sequences, True))
    return _shuffled(n_sequences, whole_number("batch_size", batch_size), rng)


def _shuffled(n_sequences, batch_size, rng):
    while True:
        order = rng.permutation(n_sequences)
        for first in range(0, n_sequences, batch_size):
            rows = order[first : first + batch_size]
            yield rows, len(rows), first == 0


def _slope(corpus, scores, values, size, out):
    """Loss summed over the sequences and divided by size, and how many are right; its gradients go to out."""
    scores, values = scores.detach().requires_grad_(), values.detach().requires_grad_()
    with torch.enable_grad():  # also where the reader has it off
        logits = score_space.logits(corpus, scores, values)
        labels = torch.tensor(corpus.labels, dtype=logits.dtype, device=logits.device)
        loss = score_space._logistic(labels * logits) * (corpus.n_sequences / size)
    _copy(torch.autograd.grad(loss, (scores, values)), out)
    return loss.detach(), _right(corpus, logits.detach()).sum()


def _right(corpus, logits):
    """Which sequences have the right label: +1 where the logit is >= 0."""
    return (logits >= 0) == torch.tensor(corpus.labels > 0, device=logits.device)


def _require_finite(numbers, step, learning_rate, left):
    if torch.isfinite(numbers).all():
        return
    if step == 0:
        raise FloatingPointError(
            "the loss of the model as given is not finite: check its embeddings and vectors"
        )
    raise FloatingPointError(
        f"the loss stopped being finite at step {step} with learning rate {learning_rate:g}; "
        f"the model is left as it was after step {left}. Use a smaller learning rate."
    )


def _optimizer(name, tensors, learning_rate):
    if learning_rate <= 0:
        raise ValueError(f"learning_rate must be positive, got {learning_rate}")
    if name == "sgd":
        return torch.optim.SGD(tensors, lr=learning_rate)
    if name == "adam":  # one pass over the dense embeddings instead of seven
        return torch.optim.Adam(tensors, lr=learning_rate, fused=tensors[0].device.type in ("cpu", "cuda"))
    raise ValueError(f"optimizer must be one of {', '.join(map(repr, OPTIMIZERS))}, got {name!r}")


def _check_pair(model, corpus):
    if not isinstance(model, AttentionClassifier):
        raise TypeError(f"model must be an AttentionClassifier, got {type(model).__name__}")
    if not isinstance(corpus, Corpus):
        raise TypeError(f"corpus must be a Corpus, got {type(corpus).__name__}")
    model._checked(corpus)


def _check_watching(patience, validation, on_step):
    if patience is not None:
        whole_number("patience", patience)
        if validation is None:
            raise ValueError(
                f"patience={patience} needs a validation corpus: training stops when the accuracy on it no "
                "longer rises"
            )
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step must be a function of (step, scores, values) or None, got {on_step!r}")


def _penalty(cls_penalty, train):
    cls_penalty = real_number("cls_penalty", cls_penalty, 0)
    if cls_penalty > 0 and "cls" not in train:
        raise ValueError(
            f'cls_penalty={cls_penalty:g} needs "cls" among the trained parameters, got {train!r}'
        )
    return cls_penalty


def _check_validation(validation, corpus):
    if not isinstance(validation, Corpus):
        raise TypeError(f"validation must be a Corpus or None, got {type(validation).__name__}")
    if validation.n_tokens != corpus.n_tokens or validation.vocabulary != corpus.vocabulary:
        raise ValueError(
            f"validation must have the vocabulary of the training corpus ({corpus.n_tokens} tokens) but has "
            f"its own ({validation.n_tokens} tokens): build it with vocabulary=corpus.vocabulary"
        )


def _names(train):
    if isinstance(train, str) or not isinstance(train, Iterable):
        raise TypeError(f'train must be a tuple of names such as ("cls",), got {train!r}')
    names = tuple(train)
    unknown = [name for name in names if name not in PARAMETERS]
    if unknown or not names or len(set(names)) < len(names):
        raise ValueError(f"train must name one or more of {PARAMETERS}, each once, got {names!r}")
    return names
