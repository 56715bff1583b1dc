"""Counted posterior differences: the largest that chance makes, and how much fresh sequences confirm."""

import numpy as np

from tokensel.arguments import real_array, whole_number


def largest_by_chance(n_tokens, document_frequency):
    r"""Mean of the largest posterior difference, in size, of tokens whose labels are fair coin flips.

    .. math::

        \mathbb E\max_{s\le m}|\Delta_s|=\sum_x x\,\big[\Pr(|\Delta|\le x)^m-\Pr(|\Delta|<x)^m\big]
        \le\sqrt{\frac{2\log(2m)}{n_s}}

    for m tokens in :math:`n_s` sequences each, independent of one another; the bound holds for dependent ones
    too. Derived in the chapter on overfitting.

    Parameters
    ----------
    n_tokens : int
        m.
    document_frequency : int
        :math:`n_s`.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If one of the two is not a positive int.

    Examples
    --------
    >>> largest_by_chance(1, 2), largest_by_chance(100, 20).__round__(2)
    (0.5, 0.6)
    """
    from scipy.special import bdtr

    m, n_s = whole_number("n_tokens", n_tokens), whole_number("document_frequency", document_frequency)
    level = np.arange(n_s % 2, n_s + 1, 2)  # |positive - negative|, the values it can take
    few = (n_s - level) // 2 - 1  # sequences of the smaller class, where the level is exceeded
    beyond = np.where(few >= 0, 2 * bdtr(np.maximum(few, 0), n_s, 0.5), 0.0)
    with np.errstate(divide="ignore"):  # all coins beyond the lowest level: probability 0
        at_most = np.exp(m * np.log1p(-np.minimum(beyond, 1.0)))
    return float(np.sum(level / n_s * np.diff(at_most, prepend=0.0)))


def difference_noise(posterior_difference, document_frequency):
    r"""Estimate how much chance adds to the variance of a counted posterior difference.

    .. math::

        \frac{1-\Delta_s^2}{n_s-1},\qquad
        \mathbb E\,\frac{1-\Delta_s^2}{n_s-1}=\frac{1-\delta_s^2}{n_s}=\operatorname{Var}\Delta_s

    where :math:`\delta_s` is the true difference and the :math:`n_s` labels are independent.

    Parameters
    ----------
    posterior_difference : (k,) array_like
        :math:`\Delta_s` as counted, from -1 to 1.
    document_frequency : (k,) array_like
        :math:`n_s`, two at least: one label does not tell how much it scatters.

    Returns
    -------
    numpy.ndarray
        Shape (k,).

    Raises
    ------
    TypeError, ValueError
        If the two are not such arrays of one length.

    Examples
    --------
    >>> difference_noise([0.0, 1.0, -0.5], [5, 5, 4])
    array([0.25, 0.  , 0.25])
    """
    differences, n_s = _differences(posterior_difference, document_frequency)
    return (1 - differences**2) / (n_s - 1)


def share_kept(posterior_difference, document_frequency):
    r"""How much of the counted posterior differences of some tokens fresh sequences will confirm.

    .. math:: R=1-\frac{\text{noise}}{\operatorname{Var}(\Delta)},\qquad
              \text{noise}=\frac1k\sum_s\frac{1-\Delta_s^2}{n_s-1}

    The slope of the best straight prediction of :math:`\Delta'_s`, counted on other sequences of the same
    kind, from :math:`\Delta_s`: an estimate, from the training sequences alone. Near zero it may come out
    negative. Derived in the chapter on overfitting; psychometrics calls it reliability.

    Parameters
    ----------
    posterior_difference, document_frequency : (k,) array_like
        As for :func:`difference_noise`: the tokens of one group, about equally frequent; two at least, with
        differences that are not all the same.

    Returns
    -------
    float
        R, at most 1.

    Raises
    ------
    TypeError, ValueError
        As of :func:`difference_noise`; also if all differences are the same.

    Examples
    --------
    >>> share_kept([0.5, -0.5, 0.5, -0.5], [16, 16, 16, 16])
    0.8
    """
    noise = difference_noise(posterior_difference, document_frequency)
    differences = real_array("posterior_difference", posterior_difference)
    spread = np.var(differences)
    if not np.ptp(differences) > 0:  # the mean rounds, so that the variance of equal numbers may not be 0
        raise ValueError("posterior_difference must hold numbers that differ: nothing else can be confirmed")
    return float(1 - noise.mean() / spread)


def _differences(posterior_difference, document_frequency):
    differences = real_array("posterior_difference", posterior_difference)
    n_s = real_array("document_frequency", document_frequency)
    if differences.ndim != 1 or differences.size == 0 or differences.shape != n_s.shape:
        raise ValueError(
            "posterior_difference and document_frequency must hold one number a token, got shapes "
            f"{differences.shape} and {n_s.shape}"
        )
    if not (np.abs(differences) <= 1).all():  # NaN, of a token in no sequence, is refused too
        raise ValueError("posterior_difference must hold numbers from -1 to 1 only")
    if not (n_s >= 2).all():
        raise ValueError(f"document_frequency must be 2 at least, got {n_s.min():g}")
    return differences, n_s
