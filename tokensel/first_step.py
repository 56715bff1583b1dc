r"""One gradient step as it was made, beside what the theorem on it allows."""

from typing import NamedTuple

import numpy as np

from tokensel.theory_one_step import one_step_bound
from tokensel.training import one_step


class OneStepError(NamedTuple):
    r"""How far the rows of one step lie from their prediction, and how far they may.

    Attributes
    ----------
    measured : ndarray, (S,)
        :math:`\lVert E_{1,s}-E_{0,s}-\frac{\eta_0}2\alpha_sv\rVert/\eta_0`.
    allowed : ndarray, (S,)
        :math:`\nu_s\omega`, the theorem's bound for it.
    epsilon : float
        :math:`\varepsilon`, the largest score or value of the start in size.

    Examples
    --------
    That of :func:`tokensel.one_step_error`.
    """

    measured: np.ndarray
    allowed: np.ndarray
    epsilon: float


def one_step_error(model, corpus, step_size=1.0):
    r"""Make one gradient step and compare each row of it with the theorem's prediction.

    .. math::

        \Big\lVert E_{1,s}-E_{0,s}-\frac{\eta_0}2\alpha_sv\Big\rVert\le\eta_0\,\nu_s\,\omega

    Both sides are in proportion to the step and are given for a step of 1. The measured side is rounded:
    where it is zero, about :math:`10^{-16}\lVert E_{0,s}\rVert/\eta_0` is left. See thm-one-step.

    Parameters
    ----------
    model : AttentionClassifier
        The start :math:`(E_0,p_0,v)`; it stays as it is.
    corpus : Corpus
    step_size : float, default 1
        :math:`\eta_0>0`.

    Returns
    -------
    OneStepError
        ``measured``, ``allowed`` and ``epsilon``.

    Raises
    ------
    TypeError, ValueError
        As :func:`tokensel.one_step`; and if the step size is zero.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.samplers.one_important_token(seed=0)
    >>> model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=1024, seed=0)
    >>> error = ts.one_step_error(model, corpus)
    >>> bool((error.measured <= error.allowed).all())
    True
    """
    stepped = one_step(model, corpus, step_size)
    if not step_size:
        raise ValueError("step_size must be positive: the error is given per unit of it")
    before, after, scores, values, cls, output = (
        tensor.detach().cpu().numpy()
        for tensor in (
            model.embeddings,
            stepped.embeddings,
            model.scores(),
            model.values(),
            model.cls,
            model.output,
        )
    )
    predicted = step_size / 2 * np.outer(corpus.average_signed_frequency, output)
    measured = np.linalg.norm(after - before - predicted, axis=1) / step_size
    epsilon = float(max(np.abs(scores).max(), np.abs(values).max()))
    norms = {"cls_norm": float(np.linalg.norm(cls)), "output_norm": float(np.linalg.norm(output))}
    return OneStepError(measured, one_step_bound(1.0, corpus.average_frequency, epsilon, **norms), epsilon)
