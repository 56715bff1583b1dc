r"""How far the probabilities of a classifier can be trusted: log loss, temperature, reliability.

A logit :math:`f_i` says that sequence i is positive with probability :math:`\operatorname{sigmoid}(f_i)`.
Everything here takes labels of -1 and +1 and logits, of whatever model, as NumPy arrays or tensors.
"""

from typing import NamedTuple

import numpy as np

from tokensel.arguments import real_array, whole_number


def log_loss(labels, logits):
    r"""Return the mean logistic loss :math:`\frac1n\sum_i\log(1+e^{-y_if_i})`, in nats.

    Parameters
    ----------
    labels : (n,) array_like
        :math:`y_i`, -1 or +1.
    logits : (n,) array_like or tensor
        :math:`f_i`.

    Returns
    -------
    float
        :math:`\log2` for a model that knows nothing.

    Raises
    ------
    TypeError, ValueError
        If labels and logits are not such arrays of one length.

    Examples
    --------
    >>> log_loss([1, -1], [0.0, 0.0])
    0.6931471805599453
    """
    labels, logits = _checked(labels, logits)
    return float(np.logaddexp(0, -labels * logits).mean())


def temperature(labels, logits):
    r"""Return the number by which the logits are best divided: it makes their log loss least.

    .. math:: \theta=\arg\min_{e^{-4}\le\theta\le e^4}\frac1n\sum_i\log\big(1+e^{-y_if_i/\theta}\big)

    Above 1 the model was too sure, below 1 too modest. No prediction changes. Find it on sequences that were
    not trained on, and not on those that a result is reported on.

    Parameters
    ----------
    labels, logits
        As for :func:`log_loss`.

    Returns
    -------
    float
        To about five digits. At an end of the interval where the best lies beyond it: near 55 for logits
        that know nothing, near 0.02 for logits of which none is wrong.

    Raises
    ------
    TypeError, ValueError
        As of :func:`log_loss`.

    Examples
    --------
    Twice as sure as it may be: right three times in four, with odds of nine to one.

    >>> round(temperature([1, 1, 1, -1], [np.log(9)] * 4), 3)
    2.0
    """
    from scipy.optimize import minimize_scalar

    labels, logits = _checked(labels, logits)
    found = minimize_scalar(
        lambda log_theta: np.logaddexp(0, -labels * logits / np.exp(log_theta)).mean(),
        bounds=(-4, 4),
        method="bounded",
    )
    return float(np.exp(found.x))


class Reliability(NamedTuple):
    r"""What :func:`reliability` finds, group by group, from the least to the largest probability.

    Attributes
    ----------
    told : ndarray, (k,)
        Mean probability of being positive, as the model has it.
    found : ndarray, (k,)
        Share that is positive.
    deviation : ndarray, (k,)
        Standard deviation of ``found`` if the model is calibrated:
        :math:`\frac1m\sqrt{\sum_iP_i(1-P_i)}` over the m sequences of the group.

    Examples
    --------
    That of :func:`tokensel.calibration.reliability`.
    """

    told: np.ndarray
    found: np.ndarray
    deviation: np.ndarray

    @property
    def error(self):
        """float : expected calibration error, the mean distance of ``found`` from ``told``.

        Examples
        --------
        >>> found = Reliability(np.array([0.2, 0.9]), np.array([0.3, 0.7]), deviation=np.ones(2))
        >>> round(found.error, 6)
        0.15
        """
        return float(np.abs(self.found - self.told).mean())

    @property
    def error_by_chance(self):
        r"""float : the error of a calibrated model, :math:`\sqrt{2/\pi}` times the mean deviation.

        Examples
        --------
        That of :func:`tokensel.calibration.reliability`.
        """
        return float(np.sqrt(2 / np.pi) * self.deviation.mean())


def reliability(labels, logits, groups=12):
    """Compare probabilities with shares, in groups of equally many sequences by rising probability.

    Parameters
    ----------
    labels, logits
        As for :func:`log_loss`.
    groups : int, default 12
        k; at most as many as there are sequences.

    Returns
    -------
    Reliability
        ``told``, ``found`` and ``deviation``; ``error`` and ``error_by_chance``.

    Raises
    ------
    TypeError, ValueError
        As of :func:`log_loss`; or if there are more groups than sequences.

    Examples
    --------
    >>> found = reliability([-1, 1, 1, 1], [-1.0, -1.0, 1.0, 1.0], groups=2)
    >>> found.told.round(2), found.found
    (array([0.27, 0.73]), array([0.5, 1. ]))
    >>> round(found.error, 2), round(found.error_by_chance, 2)
    (0.25, 0.25)
    """
    labels, logits = _checked(labels, logits)
    groups = whole_number("groups", groups)
    if groups > len(labels):
        raise ValueError(f"groups must be at most {len(labels)}, the number of sequences; got {groups}")
    probability = np.exp(-np.logaddexp(0, -logits))
    parts = np.array_split(np.argsort(logits, kind="stable"), groups)
    return Reliability(
        told=np.array([probability[part].mean() for part in parts]),
        found=np.array([np.mean(labels[part] > 0) for part in parts]),
        deviation=np.array(
            [np.sqrt(np.sum(probability[part] * (1 - probability[part]))) / len(part) for part in parts]
        ),
    )


def _checked(labels, logits):
    labels, logits = real_array("labels", labels), real_array("logits", logits)
    if logits.ndim != 1 or logits.size == 0 or labels.shape != logits.shape:
        raise ValueError(
            f"labels and logits must hold one number a sequence, got shapes {labels.shape} and {logits.shape}"
        )
    if not np.isin(labels, (-1, 1)).all():
        raise ValueError("labels must be -1 or +1, as those of a Corpus are")
    if not np.isfinite(logits).all():
        raise ValueError(f"logits holds {int((~np.isfinite(logits)).sum())} numbers that are not finite")
    return labels, logits
