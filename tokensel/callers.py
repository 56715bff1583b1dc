"""Warnings that point at the reader's own line, however deep in the package their reason lies."""

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn(message, category):
    """Warn at the line that called the package: Python shows that line, and warns once for each such line.

    Parameters
    ----------
    message : str
    category : type
        A subclass of Warning.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("two texts are left out", UserWarning)
    >>> str(caught[0].message)
    'two texts are left out'
    """
    frame, level = sys._getframe(1), 2
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
