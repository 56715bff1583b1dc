r"""How long may the one step be: values lost in noise at small steps, a class lost at large ones."""

import math

import numpy as np

from tokensel.arguments import positive_number, real_array, real_number, whole_number
from tokensel.theory_time import plain


def best_token_probability(step_size, dim, signed_frequency, n_others):
    r"""Probability that the value of an important token suits the label best among those of its sequence.

    .. math::

        P(h,m)=\int\phi(z)\,\Phi(z+h)^m\,dz,\qquad h=\tfrac{\eta_0}2|\alpha_k|\sqrt d

    Values :math:`N(0,1/d)+\frac{\eta_0}2\alpha_s` are independent, and the others have :math:`\alpha_s=0`:
    the important one must beat the largest of m noises. :math:`\phi` and :math:`\Phi` are density and
    distribution function of N(0, 1).

    Parameters
    ----------
    step_size : float or array_like
        :math:`\eta_0\ge0`.
    dim : int or array_like
        d, positive.
    signed_frequency : float
        :math:`\alpha_k` of the important token; its sign plays no part.
    n_others : int, or (n,) array of int
        m, the distinct irrelevant tokens of the sequence; of several sequences, to average over them.

    Returns
    -------
    float or numpy.ndarray
        In the shape to which ``step_size`` and ``dim`` broadcast, to about ten digits.

    Raises
    ------
    ValueError, TypeError
        A number is not finite or out of its range.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.best_token_probability([0, 10, 20, 40], 128, signed_frequency=1 / 48, n_others=6).round(3)
    array([0.143, 0.474, 0.821, 0.998])

    Two sequences beside one with six others:

    >>> round(theory.best_token_probability(20, 128, signed_frequency=1 / 48, n_others=[6, 5, 5]), 3)
    0.834
    """
    step_size, dim = _finite("step_size", step_size), _dimensions(dim)
    if not (step_size >= 0).all():
        raise ValueError(f"step_size must not be negative, got {step_size.min():g}")
    signed_frequency = real_number("signed_frequency", signed_frequency)
    sizes, times = _sequence_sizes(n_others)

    try:
        np.broadcast_shapes(step_size.shape, dim.shape)
    except ValueError:
        raise ValueError(
            f"step_size and dim must fit together, got shapes {step_size.shape} and {dim.shape}"
        ) from None

    from scipy.special import ndtr

    height = step_size / 2 * abs(signed_frequency) * np.sqrt(dim)
    # The integrand is smooth and dies like exp(-z^2/2): the trapezoidal rule converges faster than any power.
    z = np.linspace(-9.0, 9.0, 721)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    below = ndtr(z + height[..., None])
    parts = [np.minimum(below**m @ density, 1.0) for m in sizes]
    return plain(np.tensordot(times / times.sum(), parts, axes=1))


def noise_step_size(dim, signed_frequency, n_others):
    r"""The step size at which the signal in a value is as large as the largest of m noises.

    .. math:: \tfrac{\eta_0}2|\alpha_k|=\sqrt{\frac{2\log m}d}

    Parameters
    ----------
    dim : int or array_like
        d, positive.
    signed_frequency : float
        :math:`\alpha_k\ne0` of the important token.
    n_others : int
        m, the distinct irrelevant tokens of a sequence, at least 2.

    Returns
    -------
    float or numpy.ndarray
        :math:`\eta_0`, in the shape of ``dim``.

    Raises
    ------
    ValueError, TypeError
        A number is not finite or out of its range.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.noise_step_size([128, 512], signed_frequency=1 / 48, n_others=6).round(2)
    array([16.06,  8.03])
    """
    dim, signed_frequency = _dimensions(dim), real_number("signed_frequency", signed_frequency)
    if signed_frequency == 0:
        raise ValueError("signed_frequency must not be 0: no step gives such a token a signal")
    n_others = whole_number("n_others", n_others, 2)
    return plain(2 / abs(signed_frequency) * np.sqrt(2 * math.log(n_others) / dim))


def amplification_exponent(n_important, n_irrelevant, magnitude):
    r"""How strongly two classes of opposite value compete, once one step has written the values.

    .. math:: \kappa=\frac{1/K+B^2}{1/K+1/M}

    Parameters
    ----------
    n_important : int
        K, the important tokens of both classes together, half of them in each: even.
    n_irrelevant : int
        M.
    magnitude : float
        :math:`B>0`, the size of the important tokens' values.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        ``n_important`` is odd, a size is not a positive whole number, or ``magnitude`` is not positive.

    Examples
    --------
    >>> from tokensel import theory
    >>> round(theory.amplification_exponent(n_important=6, n_irrelevant=20, magnitude=2.5), 3)
    29.615
    """
    kappa, _, _ = _classes(n_important, n_irrelevant, 2, magnitude)
    return kappa


def log_amplification(mean_gap, n_important, n_irrelevant, length, magnitude, start=0.0):
    r"""Logarithm of the growth of a small lead of one class (Proposition "amplification", part 2).

    .. math::

        \kappa\,\log\frac{G(\bar x)}{G(\bar x_0)},\qquad G=\operatorname{sigmoid}(-Bq)\,B\,q(1-q),\qquad
        q=\frac{e^x}{e^x+T-1}

    Parameters
    ----------
    mean_gap : float or array_like
        :math:`\bar x=\frac12(x_++x_-)`, the mean of the score gaps of the two classes.
    n_important, n_irrelevant
        As in `amplification_exponent`.
    length : int
        T, at least 2.
    magnitude
        As in `amplification_exponent`.
    start : float, default 0.0
        :math:`\bar x_0`; 0 for attention spread evenly.

    Returns
    -------
    float or numpy.ndarray
        In the shape of ``mean_gap``.

    Raises
    ------
    ValueError, TypeError
        As in `amplification_exponent`, or a gap is not finite.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.log_amplification([0.0, 1.0, 3.0], 6, 20, length=8, magnitude=1.25).round(3)
    array([0.   , 4.006, 0.597])
    """
    kappa, length, magnitude = _classes(n_important, n_irrelevant, length, magnitude)
    gap, start = _finite("mean_gap", mean_gap), real_number("start", start)
    return plain(kappa * (_log_force(gap, length, magnitude) - _log_force(start, length, magnitude)))


def class_lead(mean_gap, lead, n_important, n_irrelevant, length, magnitude, start=0.0):
    r"""The lead of one class over the other, of any size, as the mean gap grows.

    .. math::

        \frac{d\tilde x}{d\bar x}=\kappa\,\frac{G(x_+)-G(x_-)}{G(x_+)+G(x_-)},\qquad x_\pm=\bar x\pm\tilde x

    with :math:`\kappa` and G as in `log_amplification`.

    Parameters
    ----------
    mean_gap : float or array_like
        :math:`\bar x`, not below ``start``.
    lead : float
        :math:`\tilde x` at the start: half the difference of the two score gaps.
    n_important, n_irrelevant, length, magnitude, start
        As in `log_amplification`.

    Returns
    -------
    float or numpy.ndarray
        :math:`\tilde x`, in the shape of ``mean_gap``, to about eight digits.

    Raises
    ------
    ValueError, TypeError
        As in `log_amplification`, or a mean gap is below ``start``.
    RuntimeError
        The integrator gave up.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.class_lead([0.0, 1.0, 2.0], 1e-3, 6, 20, length=8, magnitude=1.25).round(4)
    array([0.001 , 0.0549, 0.0718])
    """
    design = _classes(n_important, n_irrelevant, length, magnitude)
    gap, start = _finite("mean_gap", mean_gap), real_number("start", start)
    if gap.min(initial=start) < start:
        raise ValueError(f"mean_gap only grows: it must not be below start = {start:g}, got {gap.min():g}")
    lead = real_number("lead", lead)
    if gap.size == 0:
        return plain(np.zeros(gap.shape))
    # The integrator wants an interval, however near to the start the gaps are.
    end = max(gap.max(initial=start), start + 1e-3 * max(1.0, abs(start)))
    solution = _leads(start, end, np.array([lead]), design)
    return plain(solution.sol(gap.ravel())[0].reshape(gap.shape))


def lowest_class_gap(lead, n_important, n_irrelevant, length, magnitude, start=0.0):
    r"""How far the score gap of the class behind sinks before it comes back.

    .. math:: \min_{\bar x\ge\bar x_0}\;\bar x-|\tilde x(\bar x)|

    with :math:`\tilde x` as in `class_lead`. It is reached at the start, or at :math:`\bar x\le\log(T-1)`,
    beyond which no lead grows.

    Parameters
    ----------
    lead : float or array_like
        :math:`\tilde x` at the start, of either sign.
    n_important, n_irrelevant, length, magnitude, start
        As in `log_amplification`.

    Returns
    -------
    float or numpy.ndarray
        In the shape of ``lead``, to about five digits.

    Raises
    ------
    ValueError, TypeError, RuntimeError
        As in `class_lead`.

    Examples
    --------
    >>> from tokensel import theory
    >>> [round(theory.lowest_class_gap(0.1, 6, 20, 8, magnitude), 2) for magnitude in (0.4, 2.5, 6.7)]
    [-0.1, -9.65, -1.35]
    """
    design = _classes(n_important, n_irrelevant, length, magnitude)
    start, lead = real_number("start", start), np.abs(_finite("lead", lead))
    end = math.log(design[1] - 1)
    if end <= start or lead.size == 0:
        return plain(start - lead)
    mean = np.linspace(start, end, 1001)
    ahead = _leads(start, end, lead.ravel(), design, 1e-7).sol(mean)  # (leads, 1001)
    return plain((mean - ahead).min(axis=1).reshape(lead.shape))


def runaway_gap(length, magnitude):
    r"""The mean gap below which a class that is far ahead still gains (Proposition "amplification", part 3).

    .. math:: \bar x_\infty=\log(T-1)+\tfrac12\log\frac2{1+e^B}

    Parameters
    ----------
    length : int
        T, at least 2.
    magnitude : float
        :math:`B>0`.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        ``length`` is not a whole number from 2, or ``magnitude`` is not positive.

    Examples
    --------
    >>> from tokensel import theory
    >>> round(theory.runaway_gap(length=8, magnitude=2.5), 4)
    1.003
    """
    length, magnitude = whole_number("length", length, 2), positive_number("magnitude", magnitude)
    return float(math.log(length - 1) + (math.log(2) - np.logaddexp(0, magnitude)) / 2)


def runaway_magnitude(length):
    r"""The size of values beyond which a class far ahead gains nothing more, from evenly spread attention.

    .. math:: B=\log\big(2(T-1)^2-1\big),\qquad\text{where}\quad\bar x_\infty=0

    Parameters
    ----------
    length : int
        T, at least 2.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        ``length`` is not a whole number from 2.

    Examples
    --------
    >>> from tokensel import theory
    >>> round(theory.runaway_magnitude(8), 4)
    4.5747
    """
    return math.log(2 * (whole_number("length", length, 2) - 1) ** 2 - 1)


def lost_class_probability(magnitude, dim, n_important, n_irrelevant, length):
    r"""Estimate: how likely a class sinks so deep that the noise of irrelevant values takes its attention.

    The lead at the start is taken as Gaussian, with the variance it has at :math:`p_1` to leading order. The
    class counts as lost when its lowest gap is one at which its attention q on the important token returns
    more slowly than the noise values, of size :math:`d^{-1/2}`, part the irrelevant tokens:

    .. math::

        \tilde x_0\sim N\Big(0,\tfrac1d\big[\tfrac1K+B^2(1+\tfrac4K+\tfrac4M)\big]\Big),\qquad
        \tfrac12Bq\Big(\tfrac1K+\tfrac1{2M}+\tfrac{B^2}2\Big)<\frac1{4M\sqrt d}

    Not a theorem. It knows nothing of whether a trap is there (Theorem "reachable"), and its constants are
    those of a comparison of orders of magnitude; chapter "How long may the step be?" holds it to the data.
    It presumes values well above the noise, :math:`B\sqrt d\gg1`. Far below, nothing ever returns faster than
    the noise acts, and the estimate is 1: there `best_token_probability` is the one to ask.

    Parameters
    ----------
    magnitude : float
        :math:`B=\frac{\eta_0}2|\alpha_k|`.
    dim : int or array_like
        d, positive.
    n_important, n_irrelevant, length
        As in `log_amplification`.

    Returns
    -------
    float or numpy.ndarray
        In the shape of ``dim``.

    Raises
    ------
    ValueError, TypeError, RuntimeError
        As in `lowest_class_gap`, or ``dim`` is not positive.

    Examples
    --------
    >>> from tokensel import theory
    >>> [round(theory.lost_class_probability(B, 512, 6, 20, 8), 2) for B in (0.8, 1.7, 2.5, 3.3, 6.7)]
    [0.0, 0.44, 0.94, 0.64, 0.0]
    """
    from scipy.special import ndtr

    magnitude, dim = _classes(n_important, n_irrelevant, length, magnitude)[2], _dimensions(dim)
    if dim.size == 0:
        return plain(np.zeros(dim.shape))
    return_speed = 1 / n_important + 1 / (2 * n_irrelevant) + magnitude**2 / 2
    log_attention = -np.log(2 * n_irrelevant * np.sqrt(dim) * magnitude * return_speed)
    deepest = math.log(length - 1) + log_attention  # attention this small is e^x / (T - 1)
    spread = np.sqrt((1 / n_important + magnitude**2 * (1 + 4 / n_important + 4 / n_irrelevant)) / dim)
    # Leads far below one standard deviation, or above eight, decide nothing.
    leads = np.geomspace(1e-4 * spread.min(), 8 * spread.max(), 121)
    lowest = lowest_class_gap(leads, n_important, n_irrelevant, length, magnitude)  # falls with the lead
    needed = np.interp(deepest, lowest[::-1], np.log(leads[::-1]), left=np.inf, right=-np.inf)
    return plain(2 * ndtr(-np.exp(needed) / spread))


def _leads(start, end, leads, design, relative=1e-10):
    """Integrate leads of one class, each by itself, over the mean gap, with dense output."""
    from scipy.integrate import solve_ivp

    kappa, length, magnitude = design

    def slope(mean, lead):
        # (u - v) / (u + v) = tanh(log(u / v) / 2), which a large gap does not overflow.
        ahead, behind = (_log_force(mean + sign * lead, length, magnitude) for sign in (1, -1))
        return kappa * np.tanh((ahead - behind) / 2)

    smallest = np.abs(leads).min()
    solution = solve_ivp(
        slope,
        (start, end),
        leads,
        method="LSODA",
        lband=0,
        uband=0,
        dense_output=True,
        rtol=relative,
        atol=relative * min(1.0, smallest or 1.0),
    )
    if not solution.success:
        raise RuntimeError(f"the integrator gave up: {solution.message}")
    return solution


def _log_force(gap, length, magnitude):
    r"""Logarithm of :math:`G=\operatorname{sigmoid}(-Bq)\,B\,q(1-q)` at a score gap."""
    rest = math.log(length - 1)
    total = np.logaddexp(gap, rest)
    attention = np.exp(gap - total)
    return math.log(magnitude) - np.logaddexp(0, magnitude * attention) + gap + rest - 2 * total


def _sequence_sizes(n_others):
    """The distinct numbers of other tokens, each a whole number, and how often each occurs."""
    if np.ndim(n_others) == 0:
        return [whole_number("n_others", n_others)], np.ones(1)
    numbers = np.asarray(n_others)
    if numbers.ndim != 1 or not numbers.size or not np.issubdtype(numbers.dtype, np.integer):
        raise TypeError(f"n_others must be a whole number or a list of them, got {n_others!r}")
    sizes, times = np.unique(numbers, return_counts=True)
    return [whole_number("n_others", int(m)) for m in sizes], times


def _finite(name, numbers):
    numbers = real_array(name, numbers)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite")
    return numbers


def _dimensions(dim):
    dim = _finite("dim", dim)
    if not (dim > 0).all():
        raise ValueError(f"dim must be positive, got {dim.min():g}")
    return dim


def _classes(n_important, n_irrelevant, length, magnitude):
    """The exponent kappa, T and B, checked."""
    if whole_number("n_important", n_important, 2) % 2:
        raise ValueError(f"n_important must be even, half for each class; got {n_important}")
    n_irrelevant, length = whole_number("n_irrelevant", n_irrelevant), whole_number("length", length, 2)
    magnitude = positive_number("magnitude", magnitude)
    kappa = (1 / n_important + magnitude**2) / (1 / n_important + 1 / n_irrelevant)
    return kappa, length, magnitude
