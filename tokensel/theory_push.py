r"""What the first gradients look like: the push on the scores of a graded corpus, the rank of one step."""

import math

import numpy as np

from tokensel.arguments import real_array, real_number, whole_number


def graded_push(leanings, length, scale=1.0, at=None):
    r"""First push on the scores of a graded corpus of ever more sequences, to first order in the values.

    .. math::

        \beta(\zeta)=\frac c{2S^2}\Big(1-\frac1T\Big)\Big[\zeta^2-\frac1S\sum_r\zeta_r^2\Big]

    at p = 0 and values :math:`b=c\,\alpha`. Tokens and their leanings are those of
    :func:`tokensel.samplers.graded_tokens`. See prop-parabola.

    Parameters
    ----------
    leanings : (S,) array_like
        :math:`\zeta`, from -1 to 1, with sum 0.
    length : int
        T.
    scale : float, default 1
        :math:`c\ge0`.
    at : array_like, optional
        Leanings at which to draw the parabola; those of the tokens, if not given.

    Returns
    -------
    numpy.ndarray
        :math:`\beta`, one number for each of ``at``. Above zero the score is pushed up.

    Raises
    ------
    TypeError, ValueError
        A leaning lies outside -1 to 1, they do not add up to 0, or a size is not positive.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.graded_push([-1, 0, 1], length=2).round(4)
    array([ 0.0093, -0.0185,  0.0093])
    """
    leanings = real_array("leanings", leanings)
    length, scale = whole_number("length", length), real_number("scale", scale, 0)
    if leanings.ndim != 1 or not leanings.size or not (np.abs(leanings) <= 1).all():
        raise ValueError(f"leanings must be a list of numbers from -1 to 1, got {leanings!r}")
    # Numbers of size one at most, each good to a rounding.
    if abs(total := math.fsum(leanings)) > 1e-12 * len(leanings):
        raise ValueError(f"leanings must add up to 0, got {total:g}")
    at = leanings if at is None else real_array("at", at)
    if not np.isfinite(at).all():
        raise ValueError(f"at must be finite, got {at.tolist()}")
    steepness = scale / (2 * len(leanings) ** 2) * (1 - 1 / length)
    return steepness * (at**2 - np.mean(leanings**2))


def second_singular_value_bound(step_size, forces, cls, output):
    r"""How much one gradient step on the embeddings can differ from a matrix of rank one.

    .. math::

        \sigma_2(E_1-E_0)\le\eta_0\,\lVert\beta\rVert\,\lVert p_0^\perp\rVert,\qquad
        p_0^\perp=p_0-\frac{p_0\cdot v}{\lVert v\rVert^2}\,v

    All further singular values are zero. See prop-rank-two.

    Parameters
    ----------
    step_size : float
        :math:`\eta_0\ge0`.
    forces : (S,) array_like
        :math:`\beta_s=-\partial L/\partial a_s` at the start.
    cls, output : (d,) array_like
        :math:`p_0` and :math:`v\ne0`.

    Returns
    -------
    float
        The right-hand side.

    Raises
    ------
    TypeError, ValueError
        The step size is negative, cls and output differ in shape, or output is zero.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.second_singular_value_bound(2.0, [3, -4], cls=[1, 0.5], output=[1, 0])
    5.0
    """
    step_size = real_number("step_size", step_size, 0)
    forces, cls, output = (
        real_array(name, numbers) for name, numbers in (("forces", forces), ("cls", cls), ("output", output))
    )
    for name, numbers in (("forces", forces), ("cls", cls), ("output", output)):
        if not np.isfinite(numbers).all():
            raise ValueError(f"{name} must be finite, got {numbers!r}")
    if forces.ndim != 1:
        raise ValueError(f"forces must hold one number a token, got shape {forces.shape}")
    if cls.ndim != 1 or cls.shape != output.shape:
        raise ValueError(
            f"cls and output must be vectors of one length, got shapes {cls.shape}, {output.shape}"
        )
    if not (length := np.linalg.norm(output)):
        raise ValueError("output must not be zero: it has no direction")
    unit = output / length
    return float(step_size * np.linalg.norm(forces) * np.linalg.norm(cls - (cls @ unit) * unit))
