"""The loop that `fit` and `distributed.fit` share: measure, add up over processes, step."""

import itertools
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from tokensel import score_space
from tokensel.arguments import generator, positive_number, real_number, whole_number
from tokensel.callers import warn
from tokensel.memory import require
from tokensel.progress import progress as progress_bar

PARAMETERS = ("embeddings", "cls", "output")
OPTIMIZERS = ("sgd", "adam")


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

    Examples
    --------
    That of :func:`tokensel.fit`.
    """

    loss: np.ndarray
    accuracy: np.ndarray
    validation_accuracy: np.ndarray
    cls_norm: np.ndarray

    @property
    def best_step(self):
        """int or None : the first step with the highest validation accuracy; None where none was measured.

        Examples
        --------
        >>> accuracy = np.array([0.5, 0.8, 0.7])
        >>> history = History(accuracy, accuracy, validation_accuracy=accuracy, cls_norm=accuracy)
        >>> history.best_step
        1
        """
        if np.isnan(self.validation_accuracy).all():
            return None
        return int(np.nanargmax(self.validation_accuracy))

    def __repr__(self):
        if len(self.loss) == 0:
            return "History(nothing measured)"
        steps = len(self.loss) - 1
        held_out, best = "", self.best_step
        if best is not None:
            held_out = f"; validation accuracy {self.validation_accuracy[best]:.3f} at best, at step {best:,}"
        return (
            f"History({steps:,} step{'s' * (steps != 1)}; loss {self.loss[0]:.4f} to {self.loss[-1]:.4f}; "
            f"accuracy {self.accuracy[0]:.3f} to {self.accuracy[-1]:.3f}{held_out})"
        )


@dataclass
class Settings:
    """The arguments of `fit` that are neither model nor corpora, checked."""

    steps: int
    optimizer: str
    learning_rate: float
    train: tuple
    batch_size: int | None
    seed: int | np.random.Generator
    progress: bool | None
    cls_penalty: float
    patience: int | None
    on_step: Callable | None

    def __post_init__(self):
        whole_number("steps", self.steps, 0)
        if not isinstance(self.optimizer, str) or self.optimizer not in OPTIMIZERS:
            raise ValueError(
                f"optimizer must be one of {', '.join(map(repr, OPTIMIZERS))}, got {self.optimizer!r}"
            )
        positive_number("learning_rate", self.learning_rate)
        if isinstance(self.train, str) or not isinstance(self.train, Iterable):
            raise TypeError(f'train must be a tuple of names such as ("cls",), got {self.train!r}')
        self.train = names = tuple(self.train)
        unknown = [name for name in names if name not in PARAMETERS]
        if unknown or not names or len(set(names)) < len(names):
            raise ValueError(f"train must name one or more of {PARAMETERS}, each once, got {names!r}")
        if self.batch_size is not None:
            whole_number("batch_size", self.batch_size)
        generator(self.seed)
        if real_number("cls_penalty", self.cls_penalty, 0) > 0 and "cls" not in names:
            raise ValueError(
                f'cls_penalty={self.cls_penalty:g} needs "cls" among the trained parameters, got {names!r}'
            )
        if self.patience is not None:
            whole_number("patience", self.patience)
        if self.on_step is not None and not callable(self.on_step):
            raise TypeError(
                f"on_step must be a function of (step, scores, values) or None, got {self.on_step!r}"
            )


class Share:
    """The sequences that this process trains on and is measured on: here, all of them."""

    shared = False  # whether other processes take part

    def __init__(self, corpus, validation):
        self.corpus, self.validation = corpus, validation
        self.first = 0  # position of the first sequence among those of all processes
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


def train_on(share, model, settings):
    """Train as `fit` says, on the sequences of all processes, of which this one has its share."""
    if settings.patience is not None and share.validation is None:
        raise ValueError(
            f"patience={settings.patience} needs a validation corpus: training stops when the accuracy on it "
            "no longer rises"
        )
    # Also where the reader has autograd off for good, as in torch.inference_mode().
    with torch.inference_mode(False), _Interrupts(wait=share.shared) as interrupts:
        history = _descend(share, model, settings, interrupts)
        if interrupts.pressed:
            done = max(len(history.loss) - 1, 0)
            message = f"training was interrupted after {done} of {settings.steps} steps"
            warn(message, RuntimeWarning)
    return history


def _descend(share, model, settings, interrupts):
    steps, patience, validation = settings.steps, settings.patience, share.validation
    parameters = tensors(model)
    trained = [parameters[name] for name in settings.train]
    # Gradient and undo; Adam's two moments; the best parameters, and the next best while they are copied.
    copies = 2 + 2 * (settings.optimizer == "adam") + 2 * (patience is not None)
    n_bytes = copies * sum(tensor.nbytes for tensor in trained)
    require(n_bytes, "gradients and the optimiser's state", trained[0].device)
    require(4 * 8 * (steps + 1), f"the history of {steps:,} steps")
    for name in ("learning_rate", "cls_penalty"):
        require_representable(name, getattr(settings, name), trained[0].dtype)
    optimizer = _optimizer(settings, trained)
    batches = _batches(share.n_sequences, settings.batch_size, generator(settings.seed))

    measured = np.full((4, steps + 1), np.nan)  # loss, accuracy, validation accuracy, norm of p
    n_measured = n_waited = 0
    before, before_step = [torch.empty_like(t) for t in trained], None  # where the step under way started
    best, best_step = None, None  # with patience: the parameters at the best step so far
    gradients = None
    try:
        with progress_bar(steps, show=settings.progress, description="training") as bar:
            for step in range(steps + 1):
                rows, size, epoch_starts = next(batches)
                validates = validation is not None and (epoch_starts or step == steps)
                left = step - 1 if patience is None else best_step
                scores = torch.mv(parameters["embeddings"], parameters["cls"])
                values = torch.mv(parameters["embeddings"], parameters["output"])
                _require_finite(torch.stack((scores, values)), step, settings, left)

                # All that the processes add up: gradients in scores and values, loss, how many are right.
                numbers = scores.new_zeros(2 * len(scores) + 2 + (validation is not None))
                by_score, by_value, rest = numbers.tensor_split((len(scores), 2 * len(scores)))
                if (part := share.part(rows)) is not None:
                    rest[0], rest[1] = _slope(part, scores, values, size, out=(by_score, by_value))
                if validates:
                    rest[2] = _right(validation, score_space.logits(validation, scores, values)).sum()
                interrupted = share.add_up(numbers, interrupts.pressed)
                _require_finite(rest, step, settings, left)

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
                if settings.on_step is not None:
                    settings.on_step(step, scores, values)
                if interrupted:
                    interrupts.pressed = True  # perhaps in another process
                if step == steps or interrupted or (patience is not None and n_waited >= patience):
                    break

                gradients = chain_rule(parameters, by_score, by_value, settings.train, out=gradients)
                if settings.cls_penalty > 0:
                    gradients["cls"].add_(parameters["cls"], alpha=settings.cls_penalty)
                for name in settings.train:
                    parameters[name].grad = gradients[name]
                torch._foreach_copy_(before, trained)
                before_step = step
                optimizer.step()
                bar.update()
                bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
    except KeyboardInterrupt:
        if share.shared:  # the others would wait for this process
            raise
        interrupts.pressed = True
    finally:
        interrupts.wait = True
        history = History(*measured[:, :n_measured])
        if before_step is not None and before_step == n_measured - 1:  # begun but not measured: undo it
            _copy(before, trained)
        if best is not None and history.best_step < n_measured - 1:
            _copy(best, trained)
    return history


class _Interrupts:
    """Ctrl-C while training: noted, so that the step under way becomes whole; pressed again, raised."""

    def __init__(self, wait):
        self.pressed = False
        self.wait = wait  # whether a second press has to wait too

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


def tensors(model):
    """The model's tensors by name: the same storage, outside autograd."""
    return {name: getattr(model, name).detach() for name in PARAMETERS}


def chain_rule(parameters, scores_gradient, values_gradient, names, out=None):
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


def require_representable(name, number, dtype):
    """Refuse a number that is finite but, in the model's own format, would not be."""
    if number > (largest := torch.finfo(dtype).max):
        raise ValueError(f"{name} must be at most {largest:.3g} for a model in {dtype}, got {number:g}")


def _require_finite(numbers, step, settings, left):
    if torch.isfinite(numbers).all():
        return
    if step == 0:
        raise FloatingPointError(
            "the loss of the model as given is not finite: check its embeddings and vectors"
        )
    raise FloatingPointError(
        f"the loss stopped being finite at step {step} with learning rate {settings.learning_rate:g}; "
        f"the model is left as it was after step {left}. Use a smaller learning rate"
        f"{' or cls_penalty' * (settings.cls_penalty > 0)}."
    )


def _optimizer(settings, trained):
    rate = float(settings.learning_rate)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(trained, lr=rate)
    # Fused: one pass over the dense embeddings instead of seven.
    return torch.optim.Adam(trained, lr=rate, fused=trained[0].device.type in ("cpu", "cuda"))
