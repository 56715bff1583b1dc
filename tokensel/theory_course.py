"""The exact time course of symmetric designs, where all of the flow is one number: the score gap.

Goes beyond the paper: chapter "How fast: time times loss gap", proposition ``prop-time-course``.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from tokensel.arguments import positive_number, real_array, real_number, whole_number
from tokensel.theory_time import log_times, plain


def score_gap_rate(score_gap, n_important, n_irrelevant, length, magnitude):
    r"""Speed of the score gap between important and irrelevant tokens in a symmetric design.

    .. math::

        \dot x=\Big(\frac1K+\frac1M\Big)B\,\sigma(-Bq)\,q(1-q),\qquad q=\frac{e^x}{e^x+T-1}

    Orthonormal embeddings, :math:`p(0)=0`, values :math:`\pm B` and 0; every important token stands, once, in
    equally many sequences, and every irrelevant token equally often in all (`samplers.marginal_balance`).
    Then all of :math:`p=x\,\hat p` is known, at every time.

    Parameters
    ----------
    score_gap : float or array_like
        :math:`x=a_{\text{important}}-a_{\text{irrelevant}}`.
    n_important, n_irrelevant : int
        K and M.
    length : int
        T, at least 2.
    magnitude : float
        :math:`B>0`.

    Returns
    -------
    float or numpy.ndarray
        :math:`\dot x`, in the shape of ``score_gap``.

    Raises
    ------
    ValueError, TypeError
        A size is not a whole number or too small, ``magnitude`` is not positive, or a gap is not finite.

    Examples
    --------
    >>> from tokensel import theory
    >>> round(theory.score_gap_rate(0.0, n_important=4, n_irrelevant=6, length=4, magnitude=1.3), 5)
    0.0426
    """
    gap = real_array("score_gap", score_gap)
    if not np.isfinite(gap).all():
        raise ValueError("score_gap must be finite")
    return plain(np.exp(_log_rate(gap, *_design(n_important, n_irrelevant, length, magnitude))))


def score_gap(log_time, n_important, n_irrelevant, length, magnitude):
    r"""The score gap x(t) of a symmetric design: `score_gap_rate`, integrated from x(0) = 0.

    Parameters
    ----------
    log_time : float or array_like
        :math:`\log t`, with :math:`-\infty` for t = 0.
    n_important, n_irrelevant, length, magnitude
        As in `score_gap_rate`.

    Returns
    -------
    float or numpy.ndarray
        x, in the shape of ``log_time``, to about eleven digits. The cls embedding is :math:`x\,\hat p`.

    Raises
    ------
    ValueError, TypeError
        As in `score_gap_rate`, or a time is NaN or infinite.
    RuntimeError
        The integrator gave up.

    Examples
    --------
    >>> from tokensel import theory
    >>> gap = theory.score_gap([0.0, 10.0, 900.0], n_important=4, n_irrelevant=6, length=4, magnitude=1.3)
    >>> gap.round(4).tolist()
    [0.0429, 8.9406, 898.9445]
    """
    from scipy.integrate import solve_ivp

    log_time = log_times(log_time)
    design = _design(n_important, n_irrelevant, length, magnitude)
    # In s = log(1 + t) the gap begins at 0 and ends as a straight line: no step need be short.
    stretched = np.logaddexp(0.0, log_time)
    end = max(stretched.max(initial=0.0), 1e-300)  # the integrator wants an interval
    solution = solve_ivp(
        lambda s, gap: np.exp(s + _log_rate(gap, *design)),
        (0.0, end),
        [0.0],
        method="DOP853",
        dense_output=True,
        rtol=1e-13,
        atol=1e-13,
    )
    if not solution.success:
        raise RuntimeError(f"the integrator gave up: {solution.message}")
    return plain(solution.sol(stretched.ravel())[0].reshape(log_time.shape))


def late_score_gap(log_time, n_important, n_irrelevant, length, magnitude):
    r"""The straight line that the score gap of a symmetric design tends to.

    .. math:: e^x\sim\Big(\frac1K+\frac1M\Big)B\,\sigma(-B)\,(T-1)\,t

    Parameters
    ----------
    log_time : float or array_like
        :math:`\log t`.
    n_important, n_irrelevant, length, magnitude
        As in `score_gap_rate`.

    Returns
    -------
    float or numpy.ndarray
        The logarithm of the right-hand side, in the shape of ``log_time``.

    Raises
    ------
    ValueError, TypeError
        As in `score_gap`.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.late_score_gap([0.0, 900.0], n_important=4, n_irrelevant=6, length=4, magnitude=1.3).round(4)
    array([ -1.0555, 898.9445])
    """
    log_time = log_times(log_time)
    speed, length, magnitude = _design(n_important, n_irrelevant, length, magnitude)
    constant = math.log(speed) + math.log(magnitude) - np.logaddexp(0, magnitude) + math.log(length - 1)
    return plain(constant + log_time)


class AttentionTime(NamedTuple):
    """When attention on the important tokens reaches a level, and two bounds in closed form.

    Examples
    --------
    That of :func:`tokensel.theory.attention_time`.
    """

    time: float
    lower: float
    upper: float


def attention_time(epsilon, n_important, n_irrelevant, length, magnitude):
    r"""When attention on the important tokens of a symmetric design reaches :math:`1-\epsilon`.

    .. math::

        t_\epsilon=\frac{KM}{K+M}\,\frac1B\int_{1/T}^{1-\epsilon}\frac{1+e^{Bq}}{q^2(1-q)^2}\,dq,\qquad
        \int\frac{dq}{q^2(1-q)^2}=\frac{2q-1}{q(1-q)}+2\log\frac q{1-q}

    The bounds have :math:`1+e^{B/T}` and :math:`1+e^B` in place of :math:`1+e^{Bq}`: a plateau of about
    :math:`\frac{KM}{K+M}\frac{2T}B`, then :math:`\frac{KM}{K+M}\frac{1+e^B}{B\,\epsilon}`.

    Parameters
    ----------
    epsilon : float
        From 1e-300 to :math:`1-1/T`, where attention starts.
    n_important, n_irrelevant, length, magnitude
        As in `score_gap_rate`.

    Returns
    -------
    AttentionTime
        ``time``, by quadrature to about eleven digits, ``lower`` and ``upper``; infinite beyond float64.

    Raises
    ------
    ValueError, TypeError
        As in `score_gap_rate`, or ``epsilon`` is not between its bounds.

    Examples
    --------
    >>> from tokensel import theory
    >>> times = theory.attention_time(0.01, n_important=4, n_irrelevant=6, length=4, magnitude=1.3)
    >>> [round(time, 2) for time in times]
    [911.78, 497.54, 974.47]
    """
    from scipy.integrate import quad

    epsilon = real_number("epsilon", epsilon)
    speed, length, magnitude = _design(n_important, n_irrelevant, length, magnitude)
    if not 1e-300 <= epsilon < 1 - 1 / length:
        raise ValueError(
            f"epsilon must be from 1e-300 to below 1 - 1/length = {1 - 1 / length:g}, as attention starts "
            f"from 1/length; got {epsilon:g}"
        )

    # In u = log(q / (1 - q)), dq / (q (1 - q))^2 = (2 + 2 cosh u) du, which sees small epsilon as they are.
    def slowness(u):  # over e^B, which may be too large
        q = 1 / (1 + math.exp(-u))
        return (math.exp(-magnitude) + math.exp(magnitude * (q - 1))) * (2 + 2 * math.cosh(u))

    def closed(u):
        return 2 * math.sinh(u) + 2 * u

    start, end = -math.log(length - 1), math.log1p(-epsilon) - math.log(epsilon)
    corners = sorted({start, end, *(u for u in range(-700, 700, 4) if start < u < end)})
    parts = [quad(slowness, *ends, epsabs=0, epsrel=1e-12)[0] for ends in itertools.pairwise(corners)]
    plain = closed(end) - closed(start)
    with np.errstate(over="ignore"):
        largest = np.exp(np.float64(magnitude))
        times = (
            largest * math.fsum(parts),
            (1 + np.exp(np.float64(magnitude / length))) * plain,
            (1 + largest) * plain,
        )
        return AttentionTime(*(float(time / (speed * magnitude)) for time in times))


def _log_rate(gap, speed, length, magnitude):
    r"""Logarithm of `score_gap_rate`, which late in the flow is far below float64."""
    rest = math.log(length - 1)
    total = np.logaddexp(gap, rest)
    return (
        math.log(speed * magnitude)
        - np.logaddexp(0, magnitude * np.exp(gap - total))
        + gap
        + rest
        - 2 * total
    )


def _design(n_important, n_irrelevant, length, magnitude):
    """1/K + 1/M, T and B, checked."""
    speed = 1 / whole_number("n_important", n_important) + 1 / whole_number("n_irrelevant", n_irrelevant)
    return speed, whole_number("length", length, 2), positive_number("magnitude", magnitude)
