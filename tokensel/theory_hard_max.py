r"""A direction and what it selects: how fast attention hardens along it, how often there is one at all."""

import math

import numpy as np

from tokensel.arguments import real_array, whole_number


def hard_max_bound(norm, margin, length, selected_count=1):
    r"""Attention that a sequence still gives to tokens other than the selected one, at most.

    .. math:: 1-q_{i\sigma}\le\frac{T_i-C_{i\sigma}}{C_{i\sigma}}\,e^{-R\gamma_i}

    at :math:`p=Ru`, where the unit vector u scores the selected token above all others of the sequence by
    :math:`\gamma_i`. Times the largest :math:`|b_s-b_\sigma|` of the sequence it bounds
    :math:`|f_i-b_\sigma|`. See prop-hard-max.

    Parameters
    ----------
    norm : float or array_like
        :math:`R\ge0`.
    margin : float
        :math:`\gamma_i>0`.
    length : int
        :math:`T_i`.
    selected_count : int, default 1
        :math:`C_{i\sigma}`, how often the selected token stands in the sequence.

    Returns
    -------
    float or numpy.ndarray
        In the shape of ``norm``; above 1 it says nothing.

    Raises
    ------
    TypeError, ValueError
        A number is out of its range, or the sequence is too short for so many selected tokens.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.hard_max_bound([0, 10, 20], margin=0.5, length=8).round(5)
    array([7.000e+00, 4.717e-02, 3.200e-04])
    """
    norm, margin = real_array("norm", norm), real_array("margin", margin)
    if not (norm >= 0).all():
        raise ValueError(f"norm must not be negative, got {norm.min():g}")
    if margin.ndim or not margin > 0:
        raise ValueError(f"margin must be a positive number, got {margin.tolist()}")
    if not np.isfinite(margin):
        raise ValueError(f"margin must be finite, got {margin:g}")
    count = whole_number("selected_count", selected_count)
    length = whole_number("length", length, count)
    bound = (length - count) / count * np.exp(-norm * margin)
    return bound if bound.ndim else float(bound)


def feasible_share(n_pairs, dim):
    r"""How likely a selection is feasible if the differences of its pairs point anywhere.

    .. math:: P(m,d)=2^{1-m}\sum_{k<d}\binom{m-1}k

    For m pairs whose differences :math:`z_j` are independent and symmetric, any d of them linearly
    independent almost surely: the probability that some p has :math:`p\cdot z_j>0` for all j [1]_. It is
    one half at m = 2d.

    Parameters
    ----------
    n_pairs : int
        m, up to 1000.
    dim : int
        d.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        A size is not a positive whole number, or there are more than 1000 pairs.

    References
    ----------
    .. [1] J. G. Wendel, "A Problem in Geometric Probability", Mathematica Scandinavica 11, 1962.

    Examples
    --------
    >>> from tokensel import theory
    >>> [theory.feasible_share(12, dim) for dim in (1, 6, 12)]
    [0.00048828125, 0.5, 1.0]
    """
    n_pairs, dim = whole_number("n_pairs", n_pairs), whole_number("dim", dim)
    if n_pairs > 1000:
        raise ValueError(f"n_pairs must be at most 1000, got {n_pairs}")
    # An exact integer, below 2 ** 999, divided once.
    patterns = sum(math.comb(n_pairs - 1, k) for k in range(min(dim, n_pairs)))
    return math.ldexp(patterns, 1 - n_pairs)
