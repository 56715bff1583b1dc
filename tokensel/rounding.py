"""What float32 may cost: bounds that hold on every device, whatever the order of its sums."""

from typing import NamedTuple

import numpy as np
import torch

from tokensel import score_space
from tokensel.arguments import real_array
from tokensel.model import AttentionClassifier


class Bounds(NamedTuple):
    r"""How far numbers computed in a shorter format may be from exact arithmetic.

    Attributes
    ----------
    scores, values : ndarray, (S,)
        Of :math:`a=Ep` and :math:`b=Ev`.
    logits : ndarray, (n,)
    loss : float
    scores_gradient, values_gradient : ndarray, (S,)
        Of :math:`\partial L/\partial a` and :math:`\partial L/\partial b`.
    embeddings_gradient : ndarray, (S,)
        Norm of the error of each row of :math:`\nabla_EL`.
    cls_gradient : ndarray, (d,)
        Of each entry of :math:`\nabla_pL`.

    Examples
    --------
    That of :func:`tokensel.rounding.bounds`.
    """

    scores: np.ndarray
    values: np.ndarray
    logits: np.ndarray
    loss: float
    scores_gradient: np.ndarray
    values_gradient: np.ndarray
    embeddings_gradient: np.ndarray
    cls_gradient: np.ndarray


def bounds(model, corpus, dtype=torch.float32):
    r"""Bound the rounding errors of a model that is rounded to a format and evaluated in it.

    With u half the distance from 1 to the next number and :math:`\gamma_k=ku/(1-ku)`, logits are off by

    .. math::

        |\delta f_i|\le\zeta+\frac{2B\,\omega_i}{1-\omega_i},\qquad
        \omega_i=e^{\textstyle\delta+(D+k_i+12)u}-1,

    where :math:`\delta` and :math:`\zeta` are the largest errors of scores and values, at most
    :math:`\gamma_{d+2}\lVert E_s\rVert\lVert p\rVert` and :math:`\gamma_{d+2}\lVert E_s\rVert\lVert v\rVert`,
    B is the largest :math:`|b_s|`, D the range of the scores and :math:`k_i` the number of distinct tokens in
    sequence i.

    Parameters
    ----------
    model : AttentionClassifier
        The model as it is before rounding: float64.
    corpus : Corpus
    dtype : torch.dtype
        float32 (or float64, for a bound on the computation in float64).

    Returns
    -------
    Bounds

    Raises
    ------
    TypeError, ValueError
        The model is not float64, model and corpus do not match, or scores lie so far apart that in
        this format attention may be anything.

    Notes
    -----
    They hold on every device, as long as GPUs are not told to multiply in TF32 (torch does not by itself).

    Worst cases: each sum of k terms is given :math:`\gamma_k`, as if all its roundings had the same sign. So
    errors are usually smaller by orders of magnitude.

    Rounded entries of E and p, their product and the sum over d give :math:`\gamma_{d+2}`. A weight
    :math:`C_{is}e^{a_s-m}` carries the error of its score, the rounding of :math:`a_s-m`, at most Du, and at
    most 12u of exp (GPUs round it to two units in the last place), of products and of the quotient; numerator
    and normaliser add :math:`k_iu`. Where every weight of a sequence is off by a share of at most
    :math:`\omega`, its average of the values is off by at most :math:`2B\omega/(1-\omega)`.

    The slope of the loss is at most 1 and changes by at most a quarter of the change of its argument. So the
    gradients, averages over the sequences of :math:`g_iq_{is}` and :math:`g_iq_{is}(b_s-f_i)`, are off by a
    share of the average attention :math:`\bar q_s` on a token that :math:`n_s` sequences hold:

    .. math::

        |\delta\,\partial_{b_s}L|\le\bar q_s\kappa_s,\qquad
        |\delta\,\partial_{a_s}L|\le\bar q_s\big[2B\kappa_s+(\zeta+\epsilon)(1+\kappa_s)\big],\qquad
        1+\kappa_s=\big(1+\tfrac\epsilon4\big)\Big(1+\frac{2\omega}{1-\omega}\Big)(1+\gamma_{n_s+24}),

    with :math:`\omega` the largest :math:`\omega_i` and :math:`\epsilon` the largest :math:`|\delta f_i|`.
    Underflow adds at most :math:`4u^2` to the attention on a token (``score_space`` sees to that): hence to a
    logit that times the length of the sequence and 1 + 2B, and to :math:`\bar q_s\kappa_s` that times
    the share of sequences that hold the token.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.samplers.one_important_token(n_sequences=50, length=8, seed=0)
    >>> model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=64, seed=0)
    >>> bound = bounds(model, corpus)
    >>> import copy
    >>> single = copy.deepcopy(model).float()
    >>> error = (single(corpus).double() - model(corpus)).abs().detach().numpy()
    >>> bool((error <= bound.logits).all()), bool(bound.logits.max() < 1e-4)
    (True, True)
    """
    if not isinstance(model, AttentionClassifier):
        raise TypeError(f"model must be an AttentionClassifier, got {type(model).__name__}")
    if model.embeddings.dtype != torch.float64:
        raise TypeError(f"model must be float64, the model before rounding; got {model.embeddings.dtype}")
    unit = torch.finfo(dtype).eps / 2
    E, p, v = (real_array(name, getattr(model, name)) for name in ("embeddings", "cls", "output"))
    (n_tokens, dim), scores, values = E.shape, E @ p, E @ v
    exact = score_space.gradients(model._checked(corpus), scores, values)
    attention = score_space.attention(corpus, scores).values().numpy()
    attended = np.bincount(corpus.counts.indices, attention, minlength=n_tokens) / corpus.n_sequences

    def gamma(k):
        return k * unit / (1 - k * unit)

    of_scores, of_values = (gamma(dim + 2) * (np.abs(E) @ np.abs(x)) for x in (p, v))
    zeta, largest = of_values.max(), np.abs(values).max() + of_values.max()
    distance, distinct = np.ptp(scores) + 2 * of_scores.max(), np.diff(corpus.counts.indptr)
    omega = np.expm1(of_scores.max() + (distance + distinct + 12) * unit)
    if omega.max() >= 0.5:
        raise ValueError(
            f"scores that differ by {np.ptp(scores):.3g} in {dim:,} dimensions are so coarse in {dtype} that "
            "there is no bound: take float64, or shorter embeddings"
        )
    share = omega / (1 - omega)
    underflow = 4 * unit**2
    of_logits = zeta + 2 * largest * share + underflow * corpus.lengths * (1 + 2 * largest)
    epsilon = of_logits.max()
    kappa = (1 + epsilon / 4) * (1 + 2 * share.max()) * (1 + gamma(corpus.document_frequency + 24)) - 1
    of_pull = attended * kappa + underflow * corpus.document_frequency / corpus.n_sequences
    of_push = 2 * largest * of_pull + attended * (zeta + epsilon) * (1 + kappa)
    push, pull = np.abs(exact.scores.numpy()), np.abs(exact.values.numpy())
    p_norm, v_norm = np.linalg.norm(p), np.linalg.norm(v)
    return Bounds(
        scores=of_scores,
        values=of_values,
        logits=of_logits,
        loss=float(of_logits.mean() + gamma(corpus.n_sequences + 6) * (exact.loss + epsilon)),
        scores_gradient=of_push,
        values_gradient=of_pull,
        embeddings_gradient=of_push * p_norm
        + of_pull * v_norm
        + 6 * unit * ((push + of_push) * p_norm + (pull + of_pull) * v_norm),
        cls_gradient=np.abs(E).T @ (of_push + gamma(n_tokens + 2) * (push + of_push)),
    )
