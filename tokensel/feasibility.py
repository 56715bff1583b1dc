"""`feasible_subset`: the sequences whose selected tokens can all be scored highest at once."""

import itertools
from typing import NamedTuple

import numpy as np

from tokensel.arguments import as_array, generator
from tokensel.selection import Selection

# Up to so many sequences all subsets are tried, the larger ones first: 4,096 at most.
_TRY_ALL = 12


class Dropped(NamedTuple):
    """What a feasible subset leaves out.

    Attributes
    ----------
    rows : ndarray, int64
        The sequences left out, sorted. None of them can return.
    pairs : ndarray, (m, 2), int64
        Pairs (selected, other) of the selection that no kept sequence has, sorted.

    Examples
    --------
    That of :func:`tokensel.feasible_subset`.
    """

    rows: np.ndarray
    pairs: np.ndarray


def feasible_subset(selection, *, order=None, seed=None, return_dropped=False):
    r"""Sequences that can be kept so that the order which the selection asks for has no cycle.

    The order graph has an edge from :math:`\sigma(i)` to s for every kept i and every other
    :math:`s\in X_i`. Without a cycle, and with affinely independent embeddings, some cls embedding selects
    :math:`\sigma(i)` in every kept sequence. The subset is maximal: each sequence left out would close a
    cycle with those kept.

    Up to 12 sequences it is a largest one. Beyond, one pass takes each sequence in turn that closes no cycle
    with those taken before: how many remain then depends on the order, and finding the most is NP-hard.

    Parameters
    ----------
    selection : Selection
        n sequences.
    order : (n,) array of int, optional
        The sequences by priority, each once; for instance ``numpy.argsort(-weights)``. By default sequences
        with more distinct tokens come first (they fit in less and less), equal ones by their row. Where
        `Selection.best` chose the tokens by values, ``numpy.argsort(-abs(values[selection.tokens]))`` keeps
        more still. Up to 12 sequences the order only decides between subsets of equal size.
    seed : int or numpy.random.Generator, optional
        Take a random order instead.
    return_dropped : bool, default False
        Return what is left out as well.

    Returns
    -------
    rows : ndarray of int64
        The sequences kept, sorted: ``corpus[rows]`` and ``selection.tokens[rows]`` make a feasible selection.
    dropped : Dropped
        Only with ``return_dropped``: the other rows, and the pairs that no kept sequence has.

    Raises
    ------
    TypeError, ValueError
        If ``selection`` is no Selection, ``order`` does not hold each of 0 to n - 1 once, ``seed`` is neither
        an int nor a Generator, or both are given.

    Notes
    -----
    Kept edges only ever add paths. So a sequence that could not be taken at its turn cannot return later, and
    one pass is enough for a maximal subset (chapter "Where selection stops"). Only selected tokens have edges
    of their own. So of each of the k distinct selected tokens it suffices to keep which others it leads to,
    as bits: :math:`k^2/8` bytes.

    Examples
    --------
    The first three sequences run in a circle; any two of them are possible.

    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1], [1, 2], [2, 0], [0, 3]], labels=[1, 1, 1, 1])
    >>> selection = ts.Selection(corpus, [0, 1, 2, 3])
    >>> selection.cycle
    [0, 1, 2]
    >>> rows, dropped = ts.feasible_subset(selection, return_dropped=True)
    >>> rows, dropped.rows, dropped.pairs
    (array([0, 1, 3]), array([2]), array([[2, 0]]))
    >>> ts.Selection(corpus[rows], selection.tokens[rows]).cycle is None
    True
    >>> ts.feasible_subset(selection, order=[3, 2, 1, 0])
    array([1, 2, 3])
    """
    if not isinstance(selection, Selection):
        raise TypeError(f"selection must be a Selection, got {type(selection).__name__}")
    order = _priority(selection, order, seed)
    selected, others = _order_graph(selection)
    find = _largest if len(selection) <= _TRY_ALL else _greedy
    rows = np.sort(np.array(find(order, selected, others), dtype=np.int64))
    if not return_dropped:
        return rows
    left = np.setdiff1d(np.arange(len(selection)), rows)
    kept, pairs = Selection(selection.corpus[rows], selection.tokens[rows]).pairs, selection.pairs
    size = selection.corpus.n_tokens
    lost = ~np.isin(pairs[:, 0] * size + pairs[:, 1], kept[:, 0] * size + kept[:, 1])
    return rows, Dropped(left, pairs[lost])


def _priority(selection, order, seed):
    n = len(selection)
    if order is not None and seed is not None:
        raise ValueError("give order or seed, not both: a seed draws a random order")
    if seed is not None:
        return generator(seed).permutation(n)
    if order is None:
        return np.argsort(-np.diff(selection.corpus.counts.indptr), kind="stable")
    order = as_array("order", order)
    if order.dtype.kind not in "iu":
        raise TypeError(f"order must hold row numbers, got an array of {order.dtype}")
    if order.shape != (n,) or not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError(f"order must hold each of the {n} rows 0 to {n - 1} once, got {order}")
    return order


def _order_graph(selection):
    """The selected tokens, numbered from 0: of each sequence its own, and its others.

    Tokens that are selected nowhere have no edge of their own, so that no cycle passes through them.
    """
    corpus = selection.corpus
    names, selected = np.unique(selection.tokens, return_inverse=True)
    number = np.full(corpus.n_tokens, -1)
    number[names] = np.arange(len(names))
    entries, row = (
        number[corpus.counts.indices],
        np.repeat(np.arange(len(selection)), np.diff(corpus.counts.indptr)),
    )
    is_edge = (entries >= 0) & (entries != selected[row])
    ends = np.searchsorted(row[is_edge], np.arange(1, len(selection)))
    return selected, np.split(entries[is_edge], ends)


def _greedy(order, selected, others):
    n_selected = selected.max() + 1
    # Bit t of reach[s]: is there a path from s to t? Every token reaches itself.
    word, bit = np.divmod(np.arange(n_selected), 64)
    bit = np.uint64(1) << bit.astype(np.uint64)
    reach = np.zeros((n_selected, word[-1] + 1), dtype=np.uint64)
    reach[np.arange(n_selected), word] = bit
    kept = []
    for i in order:
        t, below = selected[i], others[i]
        if (reach[below, word[t]] & bit[t]).any():
            continue
        kept.append(i)
        gained = np.bitwise_or.reduce(reach[below], axis=0)
        if (gained & ~reach[t]).any():
            reach[(reach[:, word[t]] & bit[t]) != 0] |= gained
    return kept


def _largest(order, selected, others):
    for size in range(len(order), 0, -1):
        for rows in itertools.combinations(order, size):
            if not _has_cycle(rows, selected, others):
                return rows
    raise AssertionError("a single sequence has no cycle")


def _has_cycle(rows, selected, others):
    edges = {}
    for i in rows:
        edges.setdefault(selected[i], set()).update(others[i].tolist())
    # Take away, again and again, what leads to nothing that is left: all of it goes unless there is a cycle.
    while edges:
        last = [t for t, below in edges.items() if edges.keys().isdisjoint(below)]
        if not last:
            return True
        for t in last:
            del edges[t]
    return False
