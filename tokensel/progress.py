"""One progress bar for all long work: silent in the built book and off on request."""

import numbers
import os
import sys

# A bar for work that ends at once is noise: an automatic bar waits this long before it appears.
AUTOMATIC_DELAY = 1.0  # seconds


def progress(work=None, show=None, description=None, unit="step"):
    """Progress bar over ``work``: iterate over it, or ``update`` it by hand.

    Parameters
    ----------
    work : iterable, int or None
        What is to be done: an iterable to loop over, the number of steps when you call ``update``
        yourself, or None when that number is not known.
    show : bool or None
        True shows a bar, False shows none. None shows one where somebody can watch it (a terminal or a
        notebook), and only once the work has lasted a second. While a page of the book is built
        (``TOKENSEL_STATIC=1`` in the environment) there is never a bar.
    description : str, optional
        Words in front of the bar.
    unit : str
        What one step is called.

    Returns
    -------
    tqdm.tqdm
        The bar. Use it as a context manager, so that it is closed when the work fails.

    Raises
    ------
    TypeError
        ``show`` is not True, False or None.

    Examples
    --------
    >>> from tokensel.progress import progress
    >>> sum(progress([1, 2, 3], show=False))
    6
    >>> with progress(2, show=False) as bar:
    ...     bar.update()
    ...     bar.update()
    """
    from tqdm.auto import tqdm  # here, so that `import tokensel` stays quick

    if show is not None and not isinstance(show, bool):
        raise TypeError(f"progress must be True, False or None, got {show!r}")
    static = os.environ.get("TOKENSEL_STATIC") == "1"
    watched = _somebody_watches() if show is None else show
    options = {
        "disable": static or not watched,
        "delay": AUTOMATIC_DELAY if show is None else 0.0,
        "desc": description,
        "unit": unit,
        "leave": False,
    }
    if work is None or isinstance(work, numbers.Integral):
        return tqdm(total=work, **options)
    return tqdm(work, **options)


def _somebody_watches():
    """Whether standard error is a terminal, or the code runs in a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return sys.stderr.isatty() or hasattr(shell, "kernel")
