"""`Selection`: one token picked in each sequence, and the order it asks of the scores."""

import reprlib
from functools import cached_property

import numpy as np
import torch

from tokensel.arguments import real_array
from tokensel.corpus import Corpus


class InfeasibleSelection(ValueError):
    r"""No cls embedding scores the selected tokens above all others.

    It carries the proof. Either the pairs run in a circle, or a convex combination of the pairs'
    differences :math:`z_{\tau s}=E_\tau-E_s` is zero (Farkas' lemma): if every :math:`p\cdot z_{\tau s}` were
    positive, so would be their combination.

    Attributes
    ----------
    cycle : list of int or None
        Tokens each of which is to score above the next, and the last above the first: as short as possible.
    pairs : (m, 2) array of int or None
        Where there is no cycle: pairs (selected, other) ...
    weights : (m,) array or None
        ... and their positive weights, which sum to 1, with :math:`\sum_jw_jz_j=0` up to rounding.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1], [0, 1]], labels=[+1, -1])
    >>> try:  # 0 above 1 in the first sequence, 1 above 0 in the second
    ...     ts.max_margin([[1.0, 0.0], [0.0, 1.0]], ts.Selection(corpus, [0, 1]))
    ... except ts.InfeasibleSelection as infeasible:
    ...     infeasible.cycle
    [0, 1]
    """

    def __init__(self, message, cycle=None, pairs=None, weights=None):
        super().__init__(message)
        self.cycle = cycle
        self.pairs = pairs
        self.weights = weights


class Selection:
    r"""One token :math:`\sigma(i)\in X_i` picked in each sequence.

    A cls embedding p selects it when :math:`p\cdot(E_{\sigma(i)}-E_s)>0` for every other token s of every
    sequence: an order on the tokens, one condition a pair.

    Parameters
    ----------
    corpus : Corpus
        n sequences over S tokens.
    tokens : (n,) array of int
        ``tokens[i]`` is the id of the token selected in sequence i; it must stand there.

    Attributes
    ----------
    corpus : Corpus
    tokens : ndarray, (n,), int64

    Raises
    ------
    TypeError
        If ``corpus`` is not a Corpus or token ids are not integers.
    ValueError
        If there is not one token a sequence, or a token does not stand in its sequence.

    See Also
    --------
    Selection.of : the tokens of largest score.
    Selection.best : the tokens that suit the labels best.

    Notes
    -----
    Where two tokens of a sequence tie, `of` and `best` take the one with the smaller id. Only numbers that
    are exactly equal tie.

    Examples
    --------
    >>> corpus = Corpus.from_sequences([[0, 2, 3], [1, 2, 3], [0, 3]], labels=[+1, -1, +1])
    >>> selection = Selection(corpus, [0, 1, 0])
    >>> selection.pairs
    array([[0, 2],
           [0, 3],
           [1, 2],
           [1, 3]])
    >>> sorted(selection.order_graph.edges)
    [(0, 2), (0, 3), (1, 2), (1, 3)]
    >>> selection.cycle is None
    True
    >>> Selection(corpus, [0, 1, 3]).cycle  # 0 above 3 in the first sequence, 3 above 0 in the last
    [0, 3]
    """

    def __init__(self, corpus, tokens):
        if not isinstance(corpus, Corpus):
            raise TypeError(f"corpus must be a Corpus, got {type(corpus).__name__}")
        tokens = _token_ids(tokens, corpus.n_sequences)
        counts = corpus.counts
        row = np.repeat(np.arange(corpus.n_sequences), np.diff(counts.indptr))
        hits = np.flatnonzero(counts.indices == tokens[row])
        missing = np.setdiff1d(np.arange(corpus.n_sequences), row[hits])
        if missing.size:
            i = missing[0]
            there = counts.indices[counts.indptr[i] : counts.indptr[i + 1]].tolist()
            raise ValueError(
                f"tokens[{i}] is {tokens[i]}, which does not stand in sequence {i}: it holds "
                f"{reprlib.repr(there)}"
            )
        tokens.flags.writeable = False
        vars(self).update(corpus=corpus, tokens=tokens, _row=row, _selected_counts=counts.data[hits])

    @classmethod
    def of(cls, corpus, scores):
        r"""Tokens of largest score: :math:`\sigma(i)=\arg\max_{s\in X_i}a_s`.

        Parameters
        ----------
        corpus : Corpus
        scores : (S,) array or tensor
            :math:`a=Ep`.

        Returns
        -------
        Selection

        Raises
        ------
        TypeError, ValueError
            If scores are not S finite numbers.

        Examples
        --------
        >>> corpus = Corpus.from_sequences([[0, 2, 3], [1, 2, 3]], labels=[+1, -1])
        >>> Selection.of(corpus, [0.3, -1.0, 0.2, 0.2]).tokens
        array([0, 2])
        """
        scores = _one_a_token("scores", scores, corpus)
        return cls(corpus, _largest(corpus, scores[corpus.counts.indices]))

    @classmethod
    def best(cls, corpus, values):
        r"""Tokens that suit the label best: :math:`\sigma(i)=\arg\max_{s\in X_i}y_ib_s`.

        No attention reaches a smaller loss than all attention on these.

        Parameters
        ----------
        corpus : Corpus
        values : (S,) array or tensor
            :math:`b=Ev`.

        Returns
        -------
        Selection

        Raises
        ------
        TypeError, ValueError
            If values are not S finite numbers.

        Examples
        --------
        >>> corpus = Corpus.from_sequences([[0, 2, 3], [1, 2, 3]], labels=[+1, -1])
        >>> Selection.best(corpus, [0.5, -0.5, 0.1, 0.0]).tokens
        array([0, 1])
        """
        values = _one_a_token("values", values, corpus)
        label = np.repeat(corpus.labels, np.diff(corpus.counts.indptr))
        return cls(corpus, _largest(corpus, label * values[corpus.counts.indices]))

    @cached_property
    def pairs(self):
        r"""ndarray, (m, 2), int64 : every :math:`(\sigma(i),s)` with :math:`s\in X_i\setminus\{\sigma(i)\}`.

        Each once, sorted by the selected token, then by the other. A sequence of one token has no pair.
        """
        pairs = np.column_stack(np.divmod(np.unique(self._pair_codes), self.corpus.n_tokens))
        pairs.flags.writeable = False
        return pairs

    @cached_property
    def order_graph(self):
        """networkx.DiGraph : an edge from the selected token to the other, for every pair."""
        import networkx as nx

        return nx.DiGraph(self.pairs.tolist())

    @cached_property
    def cycle(self):
        """List of int or None : tokens that would each have to score above the next, and the last above the
        first, in a circle as short as possible. With one, no embeddings can realise the selection.
        """
        return shortest_cycle(self.pairs)

    def pair_coefficients(self, values):
        r"""How strongly the data want each selected token above the other, once attention has settled.

        .. math::

            \Gamma_{\tau s}=\frac1n\sum_{i:\,\sigma(i)=\tau,\ s\in X_i}\operatorname{sigmoid}(-y_ib_\tau)\,
            \frac{C_{is}}{C_{i\tau}}\;y_i(b_\tau-b_s),\qquad\operatorname{sigmoid}(x)=\frac1{1+e^{-x}}

        Near the limit the loss gap is :math:`\sum\Gamma_{\tau s}e^{-p\cdot(E_\tau-E_s)}` over the pairs.

        Parameters
        ----------
        values : (S,) array or tensor
            :math:`b=Ev`.

        Returns
        -------
        ndarray, (m,)
            One coefficient for each row of ``pairs``; positive where attention gains by the pair. Exactly 0
            where the two values are equal: such a pair exerts no force.

        Raises
        ------
        TypeError, ValueError
            If values are not S finite numbers.

        Examples
        --------
        >>> corpus = Corpus.from_sequences([[0, 1], [0, 1, 1]], labels=[+1, -1])
        >>> Selection(corpus, [0, 0]).pair_coefficients([1.0, 0.0]).round(4)
        array([-0.5966])
        """
        values = _one_a_token("values", values, self.corpus)
        counts, labels = self.corpus.counts, self.corpus.labels
        chosen = values[self.tokens]  # (n,)
        # log sigmoid(-x) = -log(1 + e^x), which neither overflows nor loses a small sigmoid.
        weight = np.exp(-np.logaddexp(0.0, labels * chosen)) * labels / self._selected_counts
        row, other = self._row[self._is_other], counts.indices[self._is_other]
        terms = weight[row] * counts.data[self._is_other] * (chosen[row] - values[other])
        codes, place = np.unique(self._pair_codes, return_inverse=True)
        return np.bincount(place, terms, minlength=len(codes)) / self.corpus.n_sequences

    def __len__(self):
        return len(self.tokens)

    def __repr__(self):
        n, distinct = len(self.tokens), len(np.unique(self.tokens))
        return f"Selection({n:,} sequences, {distinct:,} distinct tokens selected, {len(self.pairs):,} pairs)"

    def __setattr__(self, name, value):
        # Pairs and cycle are computed once: they would silently disagree with other tokens.
        raise AttributeError(f"cannot set {name!r}: a Selection does not change; make a new one")

    def __reduce__(self):
        # NumPy unpickles arrays as writable.
        return type(self), (self.corpus, self.tokens)

    @cached_property
    def _is_other(self):
        """For every entry of ``corpus.counts``: is its token another than the selected one?"""
        return self.corpus.counts.indices != self.tokens[self._row]

    @cached_property
    def _pair_codes(self):
        """:math:`\\sigma(i)S+s` for every sequence i and other token s in it."""
        row, other = self._row[self._is_other], self.corpus.counts.indices[self._is_other]
        return self.tokens[row] * self.corpus.n_tokens + other


def shortest_cycle(pairs):
    """Shortest circle of pairs, as a list of tokens; None where the pairs are an order.

    Parameters
    ----------
    pairs : (m, 2) array of int
        Distinct pairs (selected, other).

    Examples
    --------
    >>> shortest_cycle(np.array([[0, 1], [1, 2], [2, 0], [0, 3]]))
    [0, 1, 2]
    >>> shortest_cycle(np.array([[0, 1], [1, 2]])) is None
    True
    """
    # Every token of a cycle is above another: the pairs that lead to a token never selected can go.
    pairs = pairs[np.isin(pairs[:, 1], pairs[:, 0])]
    # Two tokens above each other are by far the commonest cycle in text, and need no graph.
    size = pairs.max(initial=0) + 1
    both_ways = np.isin(pairs[:, 0] * size + pairs[:, 1], pairs[:, 1] * size + pairs[:, 0])
    if both_ways.any():
        return pairs[np.argmax(both_ways)].tolist()

    import networkx as nx

    graph = nx.DiGraph(pairs.tolist())
    shortest = None
    for component in nx.strongly_connected_components(graph):
        if len(component) == 1:
            continue
        part = graph.subgraph(component)
        for token in sorted(component):
            longest = None if shortest is None else len(shortest) - 2  # in edges: shorter by one token
            paths = nx.single_source_shortest_path(part, token, cutoff=longest)
            back = [paths[last] for last in part.predecessors(token) if last in paths]
            shortest = min(back, key=len, default=shortest)
            if len(shortest) == 3:  # the shortest possible, as no pair runs both ways
                return shortest
    return shortest


def refuse_model(name, given, instead):
    """Raise an error that says what to take from a model given in place of its numbers.

    Examples
    --------
    >>> refuse_model("values", torch.nn.Identity(), "model.values()")
    Traceback (most recent call last):
    TypeError: values must be numbers, got Identity: pass model.values()
    """
    if isinstance(given, torch.nn.Module):
        raise TypeError(f"{name} must be numbers, got {type(given).__name__}: pass {instead}")


def _one_a_token(name, numbers, corpus):
    if not isinstance(corpus, Corpus):
        raise TypeError(f"corpus must be a Corpus, got {type(corpus).__name__}")
    refuse_model(name, numbers, f"model.{name}()")
    numbers = real_array(name, numbers)
    if numbers.shape != (corpus.n_tokens,):
        raise ValueError(
            f"{name} must have shape ({corpus.n_tokens},), one a token; got shape {numbers.shape}"
        )
    if not np.isfinite(numbers).all():
        s = np.flatnonzero(~np.isfinite(numbers))[0]
        raise ValueError(f"{name} must be finite, but {name}[{s}] is {numbers[s]}")
    return numbers


def _token_ids(tokens, n_sequences):
    """Copy one token id a sequence into an array of int64."""
    if isinstance(tokens, torch.Tensor):
        tokens = tokens.cpu().numpy()
    tokens = np.asarray(tokens)
    if tokens.shape != (n_sequences,):
        raise ValueError(
            f"tokens must have shape ({n_sequences},), one token a sequence; got shape {tokens.shape}"
        )
    if tokens.dtype.kind not in "iu":
        raise TypeError(
            f"tokens must be token ids, that is integers; got an array of {tokens.dtype} "
            "(corpus.token_id(word) gives one)"
        )
    return tokens.astype(np.int64)


def _largest(corpus, numbers):
    """Token with the largest of ``numbers``, which stand beside ``corpus.counts.indices``, in each row."""
    counts = corpus.counts
    largest = np.maximum.reduceat(numbers, counts.indptr[:-1])  # no sequence is empty
    hits = np.flatnonzero(numbers == np.repeat(largest, np.diff(counts.indptr)))
    return counts.indices[hits[np.searchsorted(hits, counts.indptr[:-1])]]  # indices are sorted
