"""What one gradient step writes into the embeddings: its bound, its law to first order, and its noise."""

import math
from typing import NamedTuple

import numpy as np

from tokensel.arguments import as_array, real_array, real_number, whole_number


def one_step_bound(step_size, average_frequency, epsilon, output_norm=1.0, *, cls_norm):
    r"""Bound on how far one gradient step is from :math:`\frac{\eta_0}{2}\alpha_s v` (Theorem "one step").

    .. math::

        \Big\lVert E_{1,s}-E_{0,s}-\tfrac{\eta_0}{2}\alpha_sv\Big\rVert \le \eta_0\,\nu_s\Big[\lVert v\rVert
        \Big(\tfrac{e^{2\varepsilon}-1}{2}+\tfrac{\varepsilon}{4}e^{2\varepsilon}\Big)
        +\lVert p_0\rVert\,e^{2\varepsilon}\big(\tfrac12+\tfrac\varepsilon4\big)2\varepsilon\Big]

    Parameters
    ----------
    step_size : float
        :math:`\eta_0 \ge 0`.
    average_frequency : float or array_like
        :math:`\nu_s`, of one token or of all: numbers in [0, 1].
    epsilon : float
        :math:`\varepsilon`, the largest absolute score or value at the start.
    output_norm, cls_norm : float
        :math:`\lVert v\rVert` and :math:`\lVert p_0\rVert`.

    Returns
    -------
    float or numpy.ndarray
        The right-hand side, in the shape of ``average_frequency``. Infinite where it exceeds float64.

    Raises
    ------
    ValueError, TypeError
        A number is negative or not finite, or a frequency is above 1.

    Examples
    --------
    >>> import numpy as np
    >>> from tokensel import theory
    >>> theory.one_step_bound(40.0, [0.0, 0.1, 0.2], epsilon=0.05, cls_norm=1.0).round(3) + 0.0
    array([0.   , 0.492, 0.984])
    """
    step_size = real_number("step_size", step_size, 0)
    epsilon = real_number("epsilon", epsilon, 0)
    output_norm = real_number("output_norm", output_norm, 0)
    cls_norm = real_number("cls_norm", cls_norm, 0)
    frequency = real_array("average_frequency", average_frequency)
    wrong = frequency[~((frequency >= 0) & (frequency <= 1))]
    if wrong.size:
        raise ValueError(f"average_frequency must be from 0 to 1, a mean of frequencies; got {wrong[0]}")
    with np.errstate(over="ignore"):
        growth = np.exp(2 * epsilon)
        along_output = np.expm1(2 * epsilon) / 2 + epsilon / 4 * growth
        along_cls = growth * (0.5 + epsilon / 4) * 2 * epsilon
        # A token that never occurs, or a zero vector, contributes nothing even to an infinite bracket.
        parts = ((output_norm, along_output), (cls_norm, along_cls))
        bracket = sum(norm * part for norm, part in parts if norm)
        factor = step_size * frequency
        bound = np.multiply(factor, bracket, out=np.zeros_like(factor), where=factor > 0)
    return bound if bound.ndim else float(bound)


def one_step_epsilon(n_tokens, dim, confidence, cls_norm, output_norm=1.0):
    r"""How large the largest score or value at a Gaussian start can be, with a given confidence.

    With the entries of :math:`E_0` independent :math:`N(0,1/d)`, and :math:`p_0`, v independent of them,

    .. math::

        \varepsilon=\max_s\max(|E_{0,s}\cdot p_0|,\,|E_{0,s}\cdot v|)
        \le\max(\lVert v\rVert,\lVert p_0\rVert)\sqrt{\frac{2\log(4S/\delta)}{d}}
        \quad\text{with probability at least }1-\delta.

    Parameters
    ----------
    n_tokens, dim : int
        S and d.
    confidence : float
        :math:`1-\delta`, between 0 and 1.
    cls_norm, output_norm : float
        :math:`\lVert p_0\rVert` and :math:`\lVert v\rVert`.

    Returns
    -------
    float
        The right-hand side.

    Raises
    ------
    ValueError, TypeError
        A size is not a positive whole number, a norm is negative, or ``confidence`` is not inside (0, 1).

    Examples
    --------
    >>> from tokensel import theory
    >>> round(theory.one_step_epsilon(n_tokens=26, dim=256, confidence=0.95, cls_norm=1.0), 3)
    0.244
    """
    n_tokens, dim = whole_number("n_tokens", n_tokens), whole_number("dim", dim)
    if not 0 < real_number("confidence", confidence, 0) < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence}")
    norm = max(real_number("cls_norm", cls_norm, 0), real_number("output_norm", output_norm, 0))
    return norm * math.sqrt(2 * math.log(4 * n_tokens / (1 - confidence)) / dim)


class OneStepRows(NamedTuple):
    r"""The two columns of :math:`(E_1-E_0)/\eta_0`, a matrix with rows in the span of v and :math:`p_0`.

    Examples
    --------
    That of :func:`tokensel.theory.one_step_first_order`.
    """

    along_output: np.ndarray
    along_cls: np.ndarray


def one_step_first_order(frequencies, labels, scores, values):
    r"""The rows of one gradient step to first order in the scores a and values b at the start.

    .. math::

        \tfrac1{\eta_0}(E_1-E_0)=\big[\tfrac12\alpha+\tfrac12H^ya-\tfrac14Hb\big]v^\top
        +\tfrac12H^yb\,p_0^\top+O(\nu\varepsilon^2),\qquad
        H_{sr}=\tfrac1n\sum_i\varphi_{is}\varphi_{ir},\quad
        H^y_{sr}=\tfrac1n\sum_iy_i\varphi_{is}\big([r=s]-\varphi_{ir}\big).

    Parameters
    ----------
    frequencies : numpy.ndarray or scipy.sparse array
        :math:`\varphi` of shape (n, S), as in ``Corpus.frequencies``.
    labels : array_like
        y of shape (n,), each +1 or -1.
    scores, values : array_like
        a and b, of shape (S,), or (S, k) for k starts at once.

    Returns
    -------
    OneStepRows
        Two arrays of the shape of ``scores``: the coefficients on v and on :math:`p_0`.

    Raises
    ------
    ValueError
        The shapes do not fit, scores or values are not finite, frequencies are none (negative, or a row that
        does not sum to 1, as in ``Corpus.counts``), or a label is not +1 or -1.

    Notes
    -----
    At a Gaussian start a and b are Gaussian, so this is the law of the noise: goes beyond the paper
    (chapter "One gradient step").

    Examples
    --------
    >>> import numpy as np
    >>> from tokensel import theory
    >>> rows = theory.one_step_first_order(np.eye(2), [1, -1], scores=[0.0, 0.0], values=[0.1, 0.1])
    >>> rows.along_output
    array([ 0.2375, -0.2625])
    """
    frequencies, labels = checked_with_labels(frequencies, labels)
    scores, values = real_array("scores", scores), real_array("values", values)
    n_sequences, n_tokens = frequencies.shape
    if scores.shape != values.shape or scores.shape[:1] != (n_tokens,) or scores.ndim > 2:
        raise ValueError(
            f"scores and values must both have shape ({n_tokens},) or ({n_tokens}, k), "
            f"got {scores.shape} and {values.shape}"
        )
    if not (np.isfinite(scores).all() and np.isfinite(values).all()):
        raise ValueError("scores and values must be finite")

    def against_tokens(per_sequence):  # (n, ...) -> (S, ...): the mean over sequences, weighted by frequency
        return frequencies.T @ per_sequence / n_sequences

    def signed(per_sequence):
        return (labels * per_sequence.T).T

    alpha = against_tokens(labels)
    mean_score, mean_value = frequencies @ scores, frequencies @ values
    of_scores = (alpha * scores.T).T - against_tokens(signed(mean_score))  # H^y a
    of_values = (alpha * values.T).T - against_tokens(signed(mean_value))  # H^y b
    along_output = ((alpha + of_scores.T) / 2).T - against_tokens(mean_value) / 4
    return OneStepRows(along_output, of_values / 2)


def one_step_noise(frequencies, labels, dim, cls_norm=1.0, output_norm=1.0):
    r"""Root mean square distance of one step from :math:`\frac{\eta_0}2\alpha_sv`, per unit of step size.

    .. math::

        \sqrt{\mathbb E\lVert E_{1,s}-E_{0,s}-\tfrac{\eta_0}2\alpha_sv\rVert^2}\,/\,\eta_0\approx
        \frac{\lVert v\rVert}{\sqrt d}\sqrt{\tfrac12\lVert p_0\rVert^2\,\lVert H^y_s\rVert^2
        +\tfrac1{16}\lVert v\rVert^2\lVert H_s\rVert^2}

    over Gaussian starts :math:`E_0`, for :math:`p_0` orthogonal to v (at random it nearly is) and to leading
    order in 1/d; :math:`H_s` and :math:`H^y_s` are rows of the matrices of `one_step_first_order`.

    Parameters
    ----------
    frequencies, labels
        As in `one_step_first_order`. The cost is that of an S by S matrix.
    dim : int
        d.
    cls_norm, output_norm : float
        :math:`\lVert p_0\rVert` and :math:`\lVert v\rVert`.

    Returns
    -------
    numpy.ndarray
        One number a token, shape (S,).

    Raises
    ------
    ValueError, TypeError
        As in `one_step_first_order`; or a size is not positive, or a norm negative.

    Examples
    --------
    >>> import numpy as np
    >>> from tokensel import theory
    >>> theory.one_step_noise(np.ones((2, 1)), [1, -1], dim=400)  # one token, everywhere: only H is left
    array([0.0125])
    """
    frequencies, labels = checked_with_labels(frequencies, labels)
    dim = whole_number("dim", dim)
    cls_norm = real_number("cls_norm", cls_norm, 0)
    output_norm = real_number("output_norm", output_norm, 0)
    together, signed, _ = _responses(frequencies, labels)
    of_logits = output_norm / 4 * np.linalg.norm(together, axis=1)
    of_attention = cls_norm / math.sqrt(2) * np.linalg.norm(signed, axis=1)
    return output_norm / math.sqrt(dim) * np.hypot(of_attention, of_logits)


def one_step_sign_probability(frequencies, labels, step_size, dim, cls_norm=1.0, output_norm=1.0):
    r"""Probability that one step from a Gaussian start gives a token's value the sign of :math:`\alpha_s`.

    To first order the value after the step is Gaussian, with mean and variance

    .. math::

        \tfrac{\eta_0}2\lVert v\rVert^2\alpha_s,\qquad
        \frac{\lVert v\rVert^2}d\Big[\sum_r\big([r=s]-\tfrac{\eta_0}4\lVert v\rVert^2H_{sr}\big)^2
        +\tfrac{\eta_0^2}4\lVert v\rVert^2\lVert p_0\rVert^2\lVert H^y_s\rVert^2\Big].

    Parameters
    ----------
    frequencies, labels
        As in `one_step_first_order`. The cost is that of an S by S matrix.
    step_size : float
        :math:`\eta_0 \ge 0`.
    dim : int
        d.
    cls_norm, output_norm : float
        :math:`\lVert p_0\rVert` and :math:`\lVert v\rVert`; positive output norm.

    Returns
    -------
    numpy.ndarray
        One probability a token, shape (S,): 1/2 where :math:`\alpha_s` is zero, and nowhere less.

    Raises
    ------
    ValueError, TypeError
        As in `one_step_noise`.

    Examples
    --------
    >>> import numpy as np
    >>> from tokensel import theory
    >>> theory.one_step_sign_probability(np.eye(2), [1, -1], step_size=1.0, dim=64).round(4)
    array([0.9889, 0.9889])
    >>> theory.one_step_sign_probability(np.ones((2, 1)), [1, -1], step_size=8.0, dim=64)
    array([0.5])
    """
    frequencies, labels = checked_with_labels(frequencies, labels)
    step_size = real_number("step_size", step_size, 0)
    dim = whole_number("dim", dim)
    cls_norm, output_norm = real_number("cls_norm", cls_norm, 0), real_number("output_norm", output_norm, 0)
    if output_norm == 0:
        raise ValueError("output_norm must be positive: a zero output vector makes every value zero")
    together, signed, alpha = _responses(frequencies, labels)
    gain = step_size * output_norm**2
    by_values = output_norm * np.linalg.norm(np.eye(len(alpha)) - gain / 4 * together, axis=1)
    by_scores = cls_norm * gain / 2 * np.linalg.norm(signed, axis=1)
    mean, deviation = gain / 2 * np.abs(alpha), np.hypot(by_values, by_scores) / math.sqrt(dim)
    distance = np.where(mean > 0, np.inf, 0.0)  # where the first order has no noise at all
    np.divide(mean, deviation, out=distance, where=deviation > 0)
    return np.array([(1 + math.erf(x / math.sqrt(2))) / 2 for x in distance])


def _responses(frequencies, labels):
    """The matrices H and H^y of `one_step_first_order`, and alpha."""
    if hasattr(frequencies, "toarray"):
        frequencies = frequencies.toarray()
    together = frequencies.T @ frequencies / len(labels)
    alpha = frequencies.T @ labels / len(labels)
    return together, np.diag(alpha) - frequencies.T @ (labels[:, None] * frequencies) / len(labels), alpha


def checked_with_labels(frequencies, labels):
    """Return frequencies as `checked_frequencies` does, and labels as an array of -1.0 and +1.0.

    Examples
    --------
    >>> checked_with_labels([[0.25, 0.75]], [1])
    (array([[0.25, 0.75]]), array([1.]))
    """
    frequencies = checked_frequencies(frequencies)
    n_sequences, labels = frequencies.shape[0], as_array("labels", labels)
    if labels.shape != (n_sequences,) or not np.isin(labels, (-1, 1)).all():
        raise ValueError(f"labels must be {n_sequences} numbers +1 or -1, one a sequence; got {labels}")
    return frequencies, labels.astype(float)


def checked_frequencies(frequencies):
    """Return frequencies, dense or sparse, each row of which sums to 1.

    Examples
    --------
    >>> checked_frequencies([[0.25, 0.75]])
    array([[0.25, 0.75]])
    """
    if not hasattr(frequencies, "toarray"):  # anything but a SciPy sparse array
        frequencies = real_array("frequencies", frequencies)
    if frequencies.ndim != 2 or 0 in frequencies.shape:
        raise ValueError(f"frequencies must have shape (n, S), none of them 0; got {frequencies.shape}")
    sums = np.ravel(frequencies.sum(axis=1))
    # Rounding, even of float32, moves a sum by far less; counts of two tokens or more are further off.
    if not (frequencies.min() >= 0 and np.all(np.abs(sums - 1) < 1e-3)):
        raise ValueError(
            "frequencies must not be negative, and each row must sum to 1, as in Corpus.frequencies; got "
            f"numbers from {frequencies.min():g} and sums from {sums.min():g} to {sums.max():g}"
        )
    return frequencies
