"""Checks of arguments: each error names the argument, what it got and what it needs."""

import math
import numbers
import os
from pathlib import Path

import numpy as np


def whole_number(name, number, least=1):
    """Return an integer (True and False are none) of at least ``least`` as an int.

    Examples
    --------
    >>> whole_number("dim", np.int32(5))
    5
    """
    if isinstance(number, bool) or not isinstance(number, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {number!r}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return int(number)


def real_number(name, number, least=-math.inf):
    """Return a finite number of at least ``least`` as a float.

    Examples
    --------
    >>> real_number("step_size", 40, least=0)
    40.0
    """
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        raise TypeError(f"{name} must be a number, got {number!r}")
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return float(number)


def positive_number(name, number):
    """Return a finite number above 0 as a float.

    Examples
    --------
    >>> positive_number("magnitude", 2)
    2.0
    """
    if not real_number(name, number) > 0:
        raise ValueError(f"{name} must be positive, got {number}")
    return float(number)


def file_path(name, path):
    """Return where a file or folder is, with the folder that ``~`` stands for.

    Examples
    --------
    >>> str(file_path("path", "reviews.csv"))
    'reviews.csv'
    """
    try:
        found = Path(path).expanduser()
    except TypeError:
        raise TypeError(f"{name} must be a path, as str or pathlib.Path; got {path!r:.80}") from None
    except RuntimeError:
        raise ValueError(f"{name} must not begin with a home folder that nobody has, got {path!r}") from None
    try:
        possible = b"\0" not in os.fsencode(found)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ValueError(f"{name} must be a path that can exist on this machine, got {path!r}")
    return found


def generator(seed):
    """Return the random generator of a seed; a generator is used as it stands.

    Examples
    --------
    >>> int(generator(0).integers(100))
    85
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral):
        raise TypeError(f"seed must be an int or a numpy.random.Generator, got {seed!r}")
    return np.random.default_rng(whole_number("seed", seed, 0))


def as_array(name, entries):
    """Return entries of any kind as a NumPy array; a tensor leaves its graph and device.

    Examples
    --------
    >>> import torch
    >>> as_array("labels", torch.tensor([1, -1]))
    array([ 1, -1])
    """
    try:
        if hasattr(entries, "detach"):  # a tensor, known without importing torch
            entries = entries.detach().cpu()  # NumPy knows neither graphs nor torch's short floats
            return (entries.double() if entries.is_floating_point() else entries).numpy()
        return np.asarray(entries)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from error


def real_array(name, numbers):
    """Return numbers as a float64 array; a tensor leaves its graph and device.

    Examples
    --------
    >>> import torch
    >>> real_array("scores", torch.ones(2, requires_grad=True))
    array([1., 1.])
    """
    numbers = as_array(name, numbers)
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be real numbers, got an array of {numbers.dtype}")
    return numbers.astype(np.float64, copy=False)


def token_mask(tokens, n_tokens):
    """Return which tokens are meant, (S,) of bool: by their ids, or by such a mask.

    Examples
    --------
    >>> token_mask([0, 2], 3)
    array([ True, False,  True])
    """
    given = as_array("tokens", tokens)
    if given.dtype == bool:
        if given.shape != (n_tokens,):
            raise ValueError(
                f"tokens as a mask must have one entry for each of the {n_tokens:,} tokens, "
                f"got shape {given.shape}"
            )
        return given.copy()
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError(f"tokens must be a list of token ids or a mask of bools, got {tokens!r}")
    if given.size and (given.min() < 0 or given.max() >= n_tokens):
        raise ValueError(f"tokens must be from 0 to {n_tokens - 1}, got {given.min()} to {given.max()}")
    mask = np.zeros(n_tokens, bool)
    mask[given.astype(np.int64)] = True
    return mask
