"""Where the selection goes wrong for ever: small examples, each named after the hypothesis that it drops.

From these starts gradient flow selects tokens that do not suit the labels best, and stays. All of them
satisfy a condition that is open: starts near by are trapped as well. Why is theorem "thm-reachable" of the
chapter "Where selection stops".
"""

from typing import NamedTuple

import numpy as np

from tokensel.arguments import positive_number, real_number, whole_number
from tokensel.corpus import Corpus
from tokensel.model import AttentionClassifier
from tokensel.samplers import full_co_occurrence
from tokensel.selection import Selection


class Trap(NamedTuple):
    """A model to start from, its corpus, and the selection in which the flow stays.

    Examples
    --------
    That of :func:`tokensel.traps.shared_tokens`.
    """

    model: AttentionClassifier
    corpus: Corpus
    selection: Selection


def shared_tokens():
    r"""Orthonormal embeddings, one class; but tokens stand in several sequences, with different partners.

    The first of the sequences {0, 1, 2}, {2, 3}, {2, 4} stays on token 1, although token 0 has a larger
    value: the others hold token 2 up, token 1 rises above it and so leaves 0 behind. From p = 0 token 0 is
    selected.

    Returns
    -------
    Trap

    Examples
    --------
    >>> import tokensel as ts
    >>> trap = shared_tokens()
    >>> path = ts.gradient_flow(trap.model, trap.corpus, until_norm=400.0)
    >>> path.selection.tokens, ts.Selection.best(trap.corpus, trap.model.values()).tokens
    (array([1, 2, 2]), array([0, 2, 2]))
    """
    corpus = Corpus.from_sequences([[0, 1, 2], [2, 3], [2, 4]], [1, 1, 1])
    start = 8 * np.array([0, 1.25, 0.25, -0.75, -0.75])
    model = AttentionClassifier(np.eye(5), start, np.array([0.5, 0.1, -0.2, -0.5, -0.5]))
    return Trap(model, corpus, Selection(corpus, [1, 2, 2]))


def dependent_embeddings():
    r"""One sequence of three tokens; but their embeddings are neither orthogonal nor of equal length.

    Attention stays on token 1 of value 0, although token 0 has value 1/2: raising 1 above 2 raises it above 0
    twice as fast.

    Returns
    -------
    Trap

    Examples
    --------
    >>> import tokensel as ts
    >>> trap = dependent_embeddings()
    >>> ts.gradient_flow(trap.model, trap.corpus, until_norm=400.0).selection.tokens
    array([1])
    """
    corpus = Corpus.from_sequences([[0, 1, 2]], [1])
    embeddings = np.array([[-2.0, 1, 1], [0, 0, 1], [-1, 0, 1]])
    model = AttentionClassifier(embeddings, np.array([6.0, 0, 0]), np.array([0.2, 0.9, 0]))
    return Trap(model, corpus, Selection(corpus, [1]))


def outvoted(n_copies=8):
    r"""One important token a sequence, irrelevant values 0, start p = 0; but the embeddings are correlated.

    One positive sequence {0, 2} faces ``n_copies`` negative sequences {1, 3}. The differences of the two
    pairs are at an obtuse angle, so the many push the one to its irrelevant token 2. With at most 6 copies
    both classes find their token; with 7 or more the positive sequence is lost.

    Parameters
    ----------
    n_copies : int, default 8

    Returns
    -------
    Trap
        Its ``selection`` is the wrong one, also where there are too few copies for it.

    Raises
    ------
    TypeError, ValueError
        If ``n_copies`` is not a positive int.

    Examples
    --------
    >>> import tokensel as ts
    >>> for n_copies in (6, 7):
    ...     trap = outvoted(n_copies)
    ...     print(ts.gradient_flow(trap.model, trap.corpus, until_norm=400.0).selection.tokens[:2])
    [0 1]
    [2 1]
    """
    n_copies = whole_number("n_copies", n_copies)
    corpus = Corpus.from_sequences([[0, 2]] + [[1, 3]] * n_copies, [1] + [-1] * n_copies)
    differences = np.array([[1, 0, 0, 0], [-0.3, np.sqrt(0.07), 0, 0]])  # of length 1 and 0.4
    irrelevant = np.eye(4)[2:]
    output = np.array([1, -0.7 / np.sqrt(0.07), 0, 0])  # the values are 1, -1, 0, 0
    model = AttentionClassifier(np.vstack([irrelevant + differences, irrelevant]), np.zeros(4), output)
    return Trap(model, corpus, Selection(corpus, [2] + [1] * n_copies))


def unequal_magnitudes(n_positive=2, n_irrelevant=4, positive_value=1.0, negative_value=3.0, distance=30.0):
    r"""The embeddings of one gradient step, :math:`E_s=e_s+b_sv`; but important values differ in magnitude.

    Values :math:`b_+` on the positive tokens, :math:`-b_-` on the one negative token, 0 on irrelevant ones;
    sequences of one important and one irrelevant token, all pairs. The start is ``distance`` times the
    shortest cls embedding that selects every positive token over every irrelevant one. It scores the negative
    token below the irrelevant ones. Where :math:`b_-` exceeds `theory.trap_boundary` it stays there, if
    the distance is large enough: the nearer :math:`b_-` is to the boundary, the larger it must be.

    Parameters
    ----------
    n_positive, n_irrelevant : int, default 2 and 4
        :math:`K_+` and M.
    positive_value, negative_value : float, default 1 and 3
        :math:`b_+` and :math:`b_-`, positive. Below the boundary the flow leaves.
    distance : float, default 30
        At least 0.

    Returns
    -------
    Trap
        Token :math:`K_+` is the negative one. In the negative sequences, ``selection`` has the irrelevant
        token, also where the values do not make it last.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive int, a value not positive, or ``distance`` negative.

    Examples
    --------
    >>> import tokensel as ts
    >>> ts.theory.trap_boundary(n_positive=2, n_irrelevant=4, positive_value=1.0)
    2.0
    >>> trap = unequal_magnitudes(negative_value=3.0)
    >>> ts.gradient_flow(trap.model, trap.corpus, until_norm=400.0).selection.tokens
    array([0, 0, 0, 0, 1, 1, 1, 1, 3, 4, 5, 6])
    """
    n_positive = whole_number("n_positive", n_positive)
    n_irrelevant = whole_number("n_irrelevant", n_irrelevant)
    positive_value = positive_number("positive_value", positive_value)
    negative_value = positive_number("negative_value", negative_value)
    distance = real_number("distance", distance, 0)
    corpus = full_co_occurrence(n_positive, 1, n_irrelevant, length=2)
    n_tokens = corpus.n_tokens
    values = np.zeros(n_tokens)
    values[:n_positive], values[n_positive] = positive_value, -negative_value
    output = np.append(np.zeros(n_tokens), 1.0)
    direction = np.concatenate(
        [
            np.full(n_positive, n_irrelevant),
            [0.0],
            np.full(n_irrelevant, -n_positive),
            [n_positive * n_irrelevant * positive_value],
        ]
    )
    direction /= n_irrelevant + n_positive + n_positive * n_irrelevant * positive_value**2
    model = AttentionClassifier(np.column_stack([np.eye(n_tokens), values]), distance * direction, output)
    important, irrelevant = corpus.counts.indices.reshape(-1, 2).T
    return Trap(model, corpus, Selection(corpus, np.where(important < n_positive, important, irrelevant)))
