"""What chance alone makes of the statistics of a token, in closed form."""

import math
from typing import NamedTuple

import numpy as np

from tokensel.arguments import whole_number
from tokensel.theory_one_step import checked_frequencies, checked_with_labels

# The middle binomial coefficient of 1000 is the last that a float64 can hold.
_MOST_SEQUENCES = 1000


class CoinFlipDifference(NamedTuple):
    r"""The law of the posterior difference under coin-flip labels, as `coin_flip_difference` gives it.

    Attributes
    ----------
    differences : ndarray, (n_s + 1,)
        The values that :math:`\Delta_s` can take, from -1 to 1.
    probabilities : ndarray, (n_s + 1,)
        How likely each is.

    Examples
    --------
    That of :func:`tokensel.theory.coin_flip_difference`.
    """

    differences: np.ndarray
    probabilities: np.ndarray


def coin_flip_difference(document_frequency):
    r"""Law of the posterior difference of a token if labels are independent fair coin flips.

    .. math:: \Pr\Big(\Delta_s=\frac{2k}{n_s}-1\Big)=2^{-n_s}\binom{n_s}{k},\qquad k=0,\dots,n_s

    Its mean is 0, its variance :math:`1/n_s`, and a token is completely positive with probability
    :math:`2^{-n_s}`. See prop-token-noise.

    Parameters
    ----------
    document_frequency : int
        :math:`n_s`, the number of sequences that hold the token; from 1 to 1000, beyond which the law is
        normal for every purpose.

    Returns
    -------
    CoinFlipDifference

    Raises
    ------
    TypeError
        If the document frequency is not an int.
    ValueError
        If it is not from 1 to 1000.

    Examples
    --------
    >>> coin_flip_difference(2).differences
    array([-1.,  0.,  1.])
    >>> coin_flip_difference(2).probabilities
    array([0.25, 0.5 , 0.25])
    """
    n_s = whole_number("document_frequency", document_frequency)
    if n_s > _MOST_SEQUENCES:
        raise ValueError(f"document_frequency must be at most {_MOST_SEQUENCES}, got {n_s}")
    positive = np.arange(n_s + 1)
    # Exact integers first: 2**-1000 and the largest coefficient are both within float64.
    probabilities = np.array([math.ldexp(math.comb(n_s, k), -n_s) for k in range(n_s + 1)])
    return CoinFlipDifference((2 * positive - n_s) / n_s, probabilities)


def frequency_spread(frequencies):
    r"""Spread of the frequency of each token over the sequences that hold it, relative to its mean there.

    .. math::

        \chi_s=\frac1{\langle\varphi\rangle}\sqrt{\langle\varphi^2\rangle-\langle\varphi\rangle^2},\qquad
        \Big|\frac{\alpha_s}{\nu_s}-\Delta_s\Big|\le\chi_s\sqrt{1-\Delta_s^2}

    with means over the :math:`n_s` sequences with :math:`\varphi_{is}>0`. It bounds how far the average label
    of a token's places can lie from its posterior difference. See prop-token-statistics.

    Parameters
    ----------
    frequencies : array_like or SciPy sparse array, shape (n, S)
        :math:`\varphi`, as in ``Corpus.frequencies``; each row sums to 1.

    Returns
    -------
    numpy.ndarray
        Shape (S,); 0 for a token of one frequency, NaN for one that no sequence holds.

    Raises
    ------
    ValueError
        If the frequencies are not a matrix of non-negative numbers with rows that sum to 1.

    Examples
    --------
    >>> frequency_spread([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]]).round(3)
    array([0.333, 0.2  ,   nan])
    """
    values, tokens, (_, n_tokens) = _entries(checked_frequencies(frequencies))
    values, tokens = values[values > 0], tokens[values > 0]
    held = np.bincount(tokens, minlength=n_tokens)
    present = held > 0
    mean = np.divide(np.bincount(tokens, values, n_tokens), held, out=np.ones(n_tokens), where=present)
    squares = np.bincount(tokens, (values / mean[tokens] - 1) ** 2, n_tokens)
    return np.sqrt(np.divide(squares, held, out=np.full(n_tokens, np.nan), where=present))


def coin_flip_deviation(frequencies):
    r"""Standard deviation of each :math:`\alpha_s` if labels are independent fair coin flips.

    .. math:: \sqrt{\operatorname{Var}\alpha_s}=\frac1n\sqrt{\sum_i\varphi_{is}^2}

    The mean of :math:`\alpha_s` is then 0. See prop-token-noise.

    Parameters
    ----------
    frequencies : array_like or SciPy sparse array, shape (n, S)
        :math:`\varphi`, as in ``Corpus.frequencies``; each row sums to 1.

    Returns
    -------
    numpy.ndarray
        Shape (S,); 0 for a token that no sequence holds.

    Raises
    ------
    ValueError
        If the frequencies are not a matrix of non-negative numbers with rows that sum to 1.

    Examples
    --------
    >>> coin_flip_deviation([[0.5, 0.5], [0.0, 1.0]]).round(3)
    array([0.25 , 0.559])
    """
    values, tokens, (n_sequences, n_tokens) = _entries(checked_frequencies(frequencies))
    return np.sqrt(np.bincount(tokens, values**2, minlength=n_tokens)) / n_sequences


def shuffled_deviation(frequencies, labels):
    r"""Standard deviation of each :math:`\alpha_s` if the labels are shuffled, every order equally likely.

    .. math::

        \sqrt{\operatorname{Var}\alpha_s}=\sqrt{\frac{1-\bar y^2}{n(n-1)}\sum_i(\varphi_{is}-\nu_s)^2}

    with :math:`\bar y` the mean label; the mean of :math:`\alpha_s` is then :math:`\bar y\,\nu_s`. Unlike
    coin flips, shuffling keeps the size of the classes, so a token that fills the same share of every
    sequence has no noise. See prop-token-noise.

    Parameters
    ----------
    frequencies : array_like or SciPy sparse array, shape (n, S)
        :math:`\varphi`; two sequences at least.
    labels : (n,) array
        :math:`y_i`, -1 or +1. Only their mean matters.

    Returns
    -------
    numpy.ndarray
        Shape (S,).

    Raises
    ------
    ValueError
        If frequencies or labels are not such arrays, or there is one sequence only.

    Examples
    --------
    >>> shuffled_deviation([[0.5, 0.5], [0.0, 1.0]], [1, -1])
    array([0.25, 0.25])
    """
    frequencies, labels = checked_with_labels(frequencies, labels)
    values, tokens, (n_sequences, n_tokens) = _entries(frequencies)
    if n_sequences < 2:
        raise ValueError("frequencies must hold two sequences at least: one label cannot be shuffled")
    nu = np.bincount(tokens, values, minlength=n_tokens) / n_sequences
    # Entries that are not stored are 0, at a distance of nu from the mean.
    absent = n_sequences - np.bincount(tokens, minlength=n_tokens)
    squares = np.bincount(tokens, (values - nu[tokens]) ** 2, minlength=n_tokens) + absent * nu**2
    return np.sqrt((1 - labels.mean() ** 2) * squares / (n_sequences * (n_sequences - 1)))


def _entries(frequencies):
    """The stored entries of a matrix, the column of each, and its shape."""
    from scipy.sparse import csr_array

    frequencies = csr_array(frequencies)
    return frequencies.data, frequencies.indices, frequencies.shape
