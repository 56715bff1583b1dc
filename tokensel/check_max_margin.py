"""Checks of small max-margin problems: two vectors to find by hand, and a feasible part of a selection."""

from collections.abc import Iterator, Set

import numpy as np

from tokensel.check_feedback import Feedback, Unusable, numbers
from tokensel.corpus import Corpus
from tokensel.selection import Selection

# A vector worked out by hand is exact; one from a solver of low accuracy is right to about three digits.
_TOLERANCE = 1e-3
_NAMES = ("z₁", "z₂")


def max_margin_two_pairs(answer):
    r"""Check the shortest p with :math:`p\cdot z\ge1` for the pairs :math:`z_1=(2,0)` and :math:`z_2=(1,2)`.

    Parameters
    ----------
    answer : (2,) array_like
        The vector.

    Returns
    -------
    Feedback
        True if the answer is right, to a thousandth.

    Examples
    --------
    >>> import tokensel as ts
    >>> ts.check.max_margin_two_pairs([1, 1])
    Not yet. Every pair reaches one with room to spare: a shorter multiple of your vector would do.
    """
    return _judge(
        answer, np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([0.5, 0.25]), np.array([0.1875, 0.125])
    )


def two_token_max_margin(answer):
    r"""Check the max-margin solution for two tokens with :math:`E=I`, the first of them selected.

    Parameters
    ----------
    answer : (2,) array_like
        The vector :math:`\hat p`.

    Returns
    -------
    Feedback
        True if the answer is right, to a thousandth.

    Examples
    --------
    >>> import tokensel as ts
    >>> ts.check.two_token_max_margin([1, 0])
    Not yet. Every constraint holds, but there is a shorter vector that does as well.
    """
    return _judge(answer, np.array([[1.0, -1.0]]), np.array([0.5, -0.5]), np.array([0.5]))


def feasible_subset(answer):
    r"""Check a maximal feasible part of a selection: no dropped sequence could return.

    The sequences are {0, 1}, {1, 2}, {2, 0} and {0, 3}, with tokens 0, 1, 2 and 3 selected; the embeddings
    are affinely independent.

    Parameters
    ----------
    answer : sequence of int or of bool
        The rows that are kept, counted from 0, or one True or False for each row.

    Returns
    -------
    Feedback
        True for any maximal feasible part.

    Examples
    --------
    >>> import tokensel as ts
    >>> ts.check.feasible_subset([3])
    Not yet. What you keep is feasible, but a sequence that you dropped could return. Maximal means that none
    can.
    """
    try:
        rows = _rows(answer, 4)
    except Unusable as unusable:
        return Feedback(False, str(unusable))
    if not _feasible(rows):
        return Feedback(
            False,
            "What you keep is not feasible: some tokens would each have to score above the next, round a "
            "cycle. Draw an arrow from each selected token to the other token of its sequence.",
        )
    if any(_feasible(rows | {row}) for row in range(4) if row not in rows):
        return Feedback(
            False,
            "What you keep is feasible, but a sequence that you dropped could return. Maximal means that "
            "none can.",
        )
    return Feedback(
        True,
        "What you keep is feasible, and none of the others can return. It need not be the only such part.",
    )


def _judge(answer, pairs, right, multipliers):
    """Feedback on the shortest p with p.z >= 1 for all pairs z, of which all are tight."""
    try:
        if callable(answer):
            raise Unusable("This check needs the vector itself, two numbers, and got a function.")
        vector = numbers("Your answer", answer).astype(float)
        if vector.shape != (2,):
            raise Unusable(
                f"Your answer must be a vector of two numbers, shape (2,), and has shape {vector.shape}."
            )
        if not np.isfinite(vector).all():
            raise Unusable("Your answer holds NaN or infinity.")
    except Unusable as unusable:
        return Feedback(False, str(unusable))

    def close(other):
        return np.allclose(vector, other, rtol=0, atol=_TOLERANCE)

    if close(right):
        return Feedback(True, "It satisfies every constraint, and no shorter vector does.")
    with np.errstate(over="ignore"):  # what overflows is too long in any case
        return Feedback(False, _wrong_vector(vector, close, pairs, right, multipliers))


def _wrong_vector(vector, close, pairs, right, multipliers):
    """What to say to a vector that is not the right one."""
    products = pairs @ vector
    parallel = (1 - _TOLERANCE**2) * np.linalg.norm(vector) * np.linalg.norm(right)
    if close(0 * right):
        return "The zero vector separates nothing: no product is above zero."
    if vector @ right <= -parallel:
        return "Your vector points the wrong way: it gives the other token the larger score. Check the sign."
    if len(multipliers) == len(vector) and close(multipliers):
        return "Those are the multipliers of the pairs. Which combination of the pairs do they make?"
    if close(right / (right @ right)):
        return (
            "The direction is right. That is the shortest vector of the hull of the pairs, the solution "
            "of the dual: its length is the margin, and the length asked for is another function of the "
            "margin."
        )
    if close(right / np.linalg.norm(right)):
        return "The direction is right. Its length is not free to be a unit: the constraints fix it."
    if vector @ right >= parallel:
        way = "too long" if vector @ right > right @ right else "too short"
        return f"The direction is right, the vector is {way}: what must the smallest product be?"
    short = np.flatnonzero(products < 1 - _TOLERANCE)
    for index, pair in enumerate(pairs):
        if len(pairs) > 1 and close(pair / (pair @ pair)):
            return f"That is the shortest vector for {_NAMES[index]} alone. What does the other pair say?"
    if len(short) == len(pairs) and (products <= 0).all():
        return (
            "No product is above zero: your vector gives no selected token the larger score. Check the sign."
        )
    if len(short):
        names = " and ".join(_NAMES[index] for index in short) if len(pairs) > 1 else "the pair"
        return f"A constraint is broken: the product with {names} stays below one."
    if products.min() > 1 + _TOLERANCE:
        return "Every pair reaches one with room to spare: a shorter multiple of your vector would do."
    return "Every constraint holds, but there is a shorter vector that does as well."


def _rows(answer, n_rows):
    """The rows of an answer as a set."""
    if callable(answer):
        raise Unusable("This check needs the rows that are kept, and got a function.")
    array = numbers("Your answer", list(answer) if isinstance(answer, Set | Iterator) else answer, "iufb")
    if array.ndim != 1:
        raise Unusable(f"The rows must be a list of numbers, and what you gave has shape {array.shape}.")
    if array.dtype == bool:
        if len(array) != n_rows:
            raise Unusable(
                f"A mask says True or False for each of the four rows, and yours has {len(array)}."
            )
        array = np.flatnonzero(array)
    if not np.all(array == np.round(array)):
        raise Unusable("Rows are whole numbers, counted from zero.")
    if np.any((array < 0) | (array >= n_rows)):
        raise Unusable("There is no such row: rows are counted from zero, and there are four of them.")
    if len(set(array)) < len(array):
        raise Unusable("A row stands twice in your answer. Name each row that is kept once.")
    return {int(row) for row in array}


def _feasible(rows):
    """Whether some scores put every selected token of these rows above the other token of its sequence."""
    if not rows:
        return True
    rows = sorted(rows)
    corpus = Corpus.from_sequences([[0, 1], [1, 2], [2, 0], [0, 3]], labels=[1, 1, 1, 1], n_tokens=4)
    return Selection(corpus[rows], np.array([0, 1, 2, 3])[rows]).cycle is None
