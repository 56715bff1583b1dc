"""Training: the one gradient step of the theory, and as many as you like."""

import itertools
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
    """What training did: arrays of ``steps + 1`` numbers, entry k about the model after k steps.

    Entry 0 is the model as it was given, the last entry the model as it was left. With the full batch
    ``loss`` and ``accuracy`` are those of the whole training corpus. With minibatches they are those of the
    minibatch that step k + 1 uses, before it uses it (the last entry: of the minibatch that would have been
    next): noisy, but never flattered by having just been trained on.

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
):
    r"""Train the model in place on the logistic loss :math:`L = \frac1n\sum_i\log(1+e^{-y_if_i})`.

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

    Returns
    -------
    History
        Loss, accuracy, validation accuracy and norm of p over the steps.

    Raises
    ------
    TypeError, ValueError
        An argument is not what it must be; the message says which, what it got and what it needs.
    FloatingPointError
        Scores, values or loss stopped being finite. The model is left as it was after the last step at which
        they were.

    Warns
    -----
    RuntimeWarning
        Training was interrupted (the stop button, Ctrl-C). The model and the history are left as they were
        after the last whole step, and the history is returned.

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
    steps = whole_number("steps", steps, 0)
    train = _names(train)
    if validation is not None:
        _check_validation(validation, corpus)
    parameters = _parameters(model)
    trained = [parameters[name] for name in train]
    optimizer = _optimizer(optimizer, trained, real_number("learning_rate", learning_rate))
    batches = _batches(corpus, batch_size, generator(seed))

    measured = np.full((4, steps + 1), np.nan)  # loss, accuracy, validation accuracy, norm of p
    n_measured = 0
    kept, kept_step = [torch.empty_like(t) for t in trained], None  # the parameters before the step under way
    gradients = None
    try:
        with progress_bar(steps, show=progress, description="training") as bar:
            for step in range(steps + 1):
                batch, epoch_starts = next(batches)
                scores = torch.mv(parameters["embeddings"], parameters["cls"]).requires_grad_()
                values = torch.mv(parameters["embeddings"], parameters["output"]).requires_grad_()
                _require_finite(scores, values, step, learning_rate)
                with torch.enable_grad():  # also where the reader has it off
                    loss, measured[1, step] = _loss_and_accuracy(batch, scores, values)
                _require_finite(loss, loss, step, learning_rate)
                measured[0, step] = loss.item()
                if validation is not None and (epoch_starts or step == steps):
                    with torch.no_grad():
                        _, measured[2, step] = _loss_and_accuracy(validation, scores, values)
                measured[3, step] = parameters["cls"].norm().item()
                n_measured = step + 1
                if step == steps:
                    break

                loss.backward()
                gradients = _chain_rule(parameters, scores.grad, values.grad, train, out=gradients)
                for name in train:
                    parameters[name].grad = gradients[name]
                torch._foreach_copy_(kept, trained)
                kept_step = step
                optimizer.step()
                bar.update()
                bar.set_postfix(loss=f"{measured[0, step]:.4f}", refresh=False)
    except KeyboardInterrupt:
        done = max(n_measured - 1, 0)
        warnings.warn(f"training was interrupted after {done} of {steps} steps", RuntimeWarning, stacklevel=2)
    finally:
        if kept_step is not None and kept_step == n_measured - 1:  # begun but not measured: undo it
            for parameter, before in zip(trained, kept, strict=True):
                parameter.copy_(before)
    return History(*measured[:, :n_measured])


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


def _batches(corpus, batch_size, rng):
    """Minibatches without end, each with whether an epoch starts with it."""
    if batch_size is None:
        return itertools.repeat((corpus, True))
    batch_size = whole_number("batch_size", batch_size)
    return _shuffled(corpus, batch_size, rng)


def _shuffled(corpus, batch_size, rng):
    while True:
        order = rng.permutation(corpus.n_sequences)
        for first in range(0, corpus.n_sequences, batch_size):
            yield corpus[order[first : first + batch_size]], first == 0


def _loss_and_accuracy(corpus, scores, values):
    """Logistic loss, and the share of sequences with the right label (+1 where the logit is >= 0)."""
    logits = score_space.logits(corpus, scores, values)
    labels = torch.tensor(corpus.labels, dtype=logits.dtype, device=logits.device)
    loss = score_space._logistic(labels * logits)
    return loss, ((logits >= 0) == (labels > 0)).double().mean().item()


def _require_finite(first, second, step, learning_rate):
    if torch.isfinite(first).all() and torch.isfinite(second).all():
        return
    if step == 0:
        raise FloatingPointError(
            "the loss of the model as given is not finite: check its embeddings and vectors"
        )
    raise FloatingPointError(
        f"the loss stopped being finite at step {step} with learning rate {learning_rate:g}; "
        f"the model is left as it was after step {step - 1}. Use a smaller learning rate."
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
