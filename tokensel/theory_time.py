"""How fast the cls embedding selects: bounds for all times, and the law of late times to its second order.

Times and loss gaps are logarithms: a flow followed to the end exceeds what a float64 can hold.
"""

import math
from typing import NamedTuple

import numpy as np

from tokensel.arguments import positive_number, real_array, whole_number


def log_loss_gap_bound(log_time, loss_gap, attention, squared_norm):
    r"""Bound on the loss gap at every time, in logs.

    .. math:: D(t)\le\Big[\frac1{D_0}+\frac{\theta^2}{\lVert u\rVert^2}\,t\Big]^{-1}

    One important token a sequence, the others of equal value, and no two pairs at an obtuse angle (as for
    orthonormal embeddings and one set of important tokens): :math:`\theta` is the smallest attention on an
    important token at the start, :math:`u=\hat p`, from every start. One important token a sequence and a
    good start: :math:`\theta` is `good_start_attention`, and u a guide, such as a solution of
    :math:`Eu=\mathbf 1_{\text{important}}+c\mathbf 1`.

    Parameters
    ----------
    log_time : float or array_like
        :math:`\log t`, with :math:`-\infty` for t = 0, as in ``FlowPath.log_time``.
    loss_gap : float
        :math:`D_0>0`, the loss gap at the start.
    attention : float
        :math:`\theta`, above 0 and at most 1.
    squared_norm : float
        :math:`\lVert u\rVert^2>0`.

    Returns
    -------
    float or numpy.ndarray
        The logarithm of the right-hand side, in the shape of ``log_time``.

    Raises
    ------
    ValueError, TypeError
        A number is not positive, ``attention`` above 1, or a time is NaN or infinite.

    Notes
    -----
    Goes beyond the paper. Proved in the chapter "Why the important tokens win" (thm-important-tokens,
    thm-good-start).

    Examples
    --------
    >>> import numpy as np
    >>> from tokensel import theory
    >>> bound = theory.log_loss_gap_bound([-np.inf, 0, 900], loss_gap=0.5, attention=0.5, squared_norm=2)
    >>> bound.round(4).tolist()
    [-0.6931, -0.7538, -897.9206]
    """
    log_time = log_times(log_time)
    loss_gap, squared_norm = (
        positive_number("loss_gap", loss_gap),
        positive_number("squared_norm", squared_norm),
    )
    attention = positive_number("attention", attention)
    if attention > 1:
        raise ValueError(f"attention must be at most 1, got {attention}")
    gain = 2 * math.log(attention) - math.log(squared_norm)
    return plain(-np.logaddexp(-math.log(loss_gap), log_time + gain))


def unselected_attention_bound(log_loss_gap, n_sequences, magnitude):
    r"""Attention that any sequence can still give to irrelevant tokens, from the loss gap.

    .. math:: 1-Q_i\le\frac{n\,D}{|b_k|\,\sigma(-|b_k|)}

    for sequences of one important token k among tokens of value 0.

    Parameters
    ----------
    log_loss_gap : float or array_like
        :math:`\log D`, as in ``FlowPath.log_loss_gap``.
    n_sequences : int
        n.
    magnitude : float
        :math:`|b_k|>0`, of the sequence's important token.

    Returns
    -------
    float or numpy.ndarray
        The right-hand side, in the shape of ``log_loss_gap``; infinite where it exceeds float64.

    Raises
    ------
    ValueError, TypeError
        A number is not positive, or a loss gap is NaN.

    Notes
    -----
    Proved in the chapter "Why the important tokens win" (thm-important-tokens).

    Examples
    --------
    >>> from tokensel import theory
    >>> round(theory.unselected_attention_bound(-10.0, n_sequences=20, magnitude=1.0), 5)
    0.00338
    """
    log_loss_gap = real_array("log_loss_gap", log_loss_gap)
    if np.isnan(log_loss_gap).any():
        raise ValueError("log_loss_gap must not be NaN: the loss must not lie below its limit")
    n_sequences, magnitude = whole_number("n_sequences", n_sequences), positive_number("magnitude", magnitude)
    factor = math.log(n_sequences) - math.log(magnitude) + float(np.logaddexp(0, magnitude))
    with np.errstate(over="ignore"):
        return plain(np.exp(log_loss_gap + factor))


class LateFlow(NamedTuple):
    r"""Where gradient flow tends: :math:`\log(L-L_\sigma)`, :math:`\log\lVert\nabla L\rVert`,
    :math:`\lVert p\rVert`.

    Examples
    --------
    That of :func:`tokensel.theory.late_flow`.
    """

    log_loss_gap: np.ndarray
    log_gradient_norm: np.ndarray
    norm: np.ndarray


def late_flow(log_time, squared_norm):
    r"""The law of late times, whatever the lengths, labels and values.

    .. math::

        t\,(L-L_\sigma)\to\lVert\hat p\rVert^2,\qquad t\,\lVert\nabla L\rVert\to\lVert\hat p\rVert,\qquad
        \frac{\lVert p\rVert}{\log t}\to\lVert\hat p\rVert

    Parameters
    ----------
    log_time : float or array_like
        :math:`\log t`.
    squared_norm : float
        :math:`\lVert\hat p\rVert^2>0`, with :math:`\hat p` the max-margin solution.

    Returns
    -------
    LateFlow
        Three numbers or arrays in the shape of ``log_time``. The first two have errors that vanish; the norm
        is right in relation to its size (the error stays bounded, or grows more slowly).

    Raises
    ------
    ValueError, TypeError
        ``squared_norm`` is not positive, or a time is NaN or infinite.

    Notes
    -----
    Goes beyond the paper: chapter "How fast: time times loss gap", theorem ``thm-rates``. It asks that
    attention selects, that the direction is that of :math:`\hat p`, and positive coefficients on the tight
    pairs; no more.

    Examples
    --------
    >>> from tokensel import theory
    >>> law = theory.late_flow(900.0, squared_norm=4.0)
    >>> round(law.log_loss_gap, 4), round(law.log_gradient_norm, 4), law.norm
    (-898.6137, -899.3069, 1800.0)
    """
    log_time = log_times(log_time)
    squared = positive_number("squared_norm", squared_norm)
    logs = (math.log(squared) - log_time, math.log(squared) / 2 - log_time, math.sqrt(squared) * log_time)
    return LateFlow(*map(plain, logs))


def late_offset(differences, coefficients, cls):
    r"""What the data leave of :math:`p-\hat p\log t` in the span of the tight pairs, at late times.

    .. math::

        \rho^*=\arg\min_\rho\;\sum_j\Gamma_je^{-\rho\cdot z_j}+\hat p\cdot\rho
        \quad\text{over }\rho\in\mathrm{span}\{z_j\},\qquad
        \Gamma_je^{-\rho^*\cdot z_j}=\lambda_j

    with :math:`\lambda` multipliers of :math:`\hat p=\sum_j\lambda_jz_j`. It depends on values, labels and
    counts, not on the start. The part of :math:`p-\hat p\log t` orthogonal to all tight pairs tends to
    something that start and transient decide, and no formula gives.

    Parameters
    ----------
    differences : array_like, (k, d)
        :math:`z_j=E_\tau-E_s` of **all** tight pairs, those with :math:`\hat p\cdot z_j=1`
        (``MaxMargin.support_pairs``), but those of equal values.
    coefficients : array_like, (k,)
        :math:`\Gamma_j>0` (``Selection.pair_coefficients``).
    cls : array_like, (d,)
        :math:`\hat p`.

    Returns
    -------
    numpy.ndarray, (d,)
        :math:`\rho^*`.

    Raises
    ------
    ValueError, TypeError
        The shapes do not fit; a pair is not tight; a coefficient is not positive; or no multipliers are
        positive on all tight pairs, and :math:`p-\hat p\log t` has no limit.
    RuntimeError
        Newton's method did not end.

    Notes
    -----
    Goes beyond the paper: chapter "How fast: time times loss gap", proposition ``prop-second-order``. Damped
    Newton steps in the span, where the function is strictly convex.

    Examples
    --------
    >>> import numpy as np
    >>> from tokensel import theory
    >>> theory.late_offset([[1, -1]], [0.25], [0.5, -0.5])  # exp(-2 x) / 4 = 1/2
    array([-0.34657359,  0.34657359])
    """
    from scipy.optimize import linprog

    differences, cls = real_array("differences", differences), real_array("cls", cls)
    coefficients = real_array("coefficients", coefficients)
    if differences.ndim != 2 or 0 in differences.shape:
        raise ValueError(f"differences must have shape (k, d), none of them 0; got {differences.shape}")
    n_pairs, dim = differences.shape
    if coefficients.shape != (n_pairs,) or cls.shape != (dim,):
        raise ValueError(
            f"coefficients and cls must have shapes ({n_pairs},) and ({dim},) beside differences of shape "
            f"{differences.shape}, got {coefficients.shape} and {cls.shape}"
        )
    if not (np.isfinite(coefficients).all() and (coefficients > 0).all()):
        raise ValueError(f"coefficients must be positive and finite, got {coefficients.min()}")
    margins = differences @ cls
    # A solution of hard-margin problems leaves tight pairs this close to 1 (`max_margin`).
    wrong = np.flatnonzero(~(np.abs(margins - 1) < 1e-6))
    if wrong.size:
        raise ValueError(
            f"differences must be those of tight pairs, with cls · z = 1, but for pair {wrong[0]} it is "
            f"{margins[wrong[0]]:g}"
        )
    _, singular, rows = np.linalg.svd(differences, full_matrices=False)
    span = rows[singular > singular[0] * 1e-10]
    z, p = differences @ span.T, span @ cls  # in coordinates of the span
    # The largest that the smallest multiplier can be. HiGHS meets its constraints within 1e-7.
    smallest = linprog(
        np.append(np.zeros(n_pairs), -1.0),
        A_eq=np.column_stack([z.T, z.sum(axis=0)]),
        b_eq=p,
        bounds=[(0, None)] * n_pairs + [(0, 1)],
    )
    if smallest.status != 0 or smallest.x[-1] < 1e-7:
        raise ValueError(
            "cls must be a combination of the differences with positive weights on all of them; "
            "without, p - cls log t grows for ever and has no limit"
        )
    logs, squared = np.log(coefficients), p @ p

    def objective(x):
        with np.errstate(over="ignore"):
            forces = np.exp(logs - z @ x)
        return forces, forces.sum() + p @ x

    x = p * (np.logaddexp.reduce(logs) - math.log(squared)) / squared  # the minimum along cls
    forces, height = objective(x)
    for _ in range(200):
        slope = p - forces @ z
        step = np.linalg.solve(z.T @ (forces[:, None] * z), -slope)
        fall = -slope @ step  # the decrease still to come is half of it, once it is small
        if fall < 1e-24 * squared:
            return (x + step) @ span
        size = 1.0
        while fall > 1e-12 * squared:  # below, rounding hides any decrease, and whole steps converge
            trial = objective(x + size * step)[1]
            if trial <= height - size * fall / 4:
                break
            size /= 2
        x = x + size * step
        forces, height = objective(x)
    raise RuntimeError("no offset found in 200 steps: the pairs are too nearly dependent for float64")


def direction_constant(offset, cls):
    r"""Limit of :math:`(1-\cos(p,\hat p))\log^2t`.

    .. math::

        1-\cos(p,\hat p)=\frac{\lVert\rho_\infty^\perp\rVert^2}{2\lVert\hat p\rVert^2\log^2t}+O(\log^{-3}t),
        \qquad p=\hat p\log t+\rho_\infty+o(1)

    with :math:`\rho_\infty^\perp` the part of :math:`\rho_\infty` orthogonal to :math:`\hat p`.

    Parameters
    ----------
    offset : array_like, (d,)
        :math:`\rho_\infty`, which only a flow can give, as it depends on the start:
        :math:`p-\hat p\log t` at a late time. `late_offset` is its part in the span of the tight pairs; with
        it alone the result is a lower bound, attained where the tight pairs span all that moves.
    cls : array_like, (d,)
        :math:`\hat p`, not zero.

    Returns
    -------
    float
        The constant.

    Raises
    ------
    ValueError, TypeError
        The shapes do not fit, a number is not finite, or ``cls`` is zero.

    Notes
    -----
    Goes beyond the paper: chapter "How fast: time times loss gap", proposition ``prop-second-order``.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.direction_constant(offset=[3.0, 1.0], cls=[2.0, 0.0])
    0.125
    """
    offset, cls = real_array("offset", offset), real_array("cls", cls)
    if offset.ndim != 1 or offset.shape != cls.shape:
        raise ValueError(f"offset and cls must be vectors of one length, got {offset.shape} and {cls.shape}")
    if not (np.isfinite(offset).all() and np.isfinite(cls).all()):
        raise ValueError("offset and cls must be finite")
    if not cls.any():
        raise ValueError("cls must not be zero: it has no direction")
    squared = cls @ cls
    across = offset - offset @ cls / squared * cls
    return float(across @ across / (2 * squared))


def log_times(log_time):
    """Return times in logs as an array, -inf for time zero."""
    log_time = real_array("log_time", log_time)
    if not (log_time < np.inf).all():
        raise ValueError("log_time must be finite, or -inf for time zero")
    return log_time


def plain(numbers):
    """Return an array as it is, and a single number as a float."""
    return numbers if np.ndim(numbers) else float(numbers)
