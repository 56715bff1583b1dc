r"""Where a flow ends and where it can: the hypotheses of the two theorems on directions, checked."""

from typing import NamedTuple

import numpy as np

from tokensel.arguments import real_number
from tokensel.flow import FlowPath
from tokensel.maxmargin import MaxMargin, max_margin
from tokensel.model import AttentionClassifier
from tokensel.selection import Selection


class Reachability(NamedTuple):
    r"""What decides whether gradient flow can end in a selection, as `reachability` finds it.

    Attributes
    ----------
    solution : MaxMargin
        :math:`\hat p_\sigma`, over the pairs of different values.
    pairs : ndarray, (m, 2)
        All pairs (selected, other) of the selection.
    gaps : ndarray, (m,)
        :math:`\hat p_\sigma\cdot z_j`: at least 1 on pairs of different values.
    coefficients : ndarray, (m,)
        :math:`\Gamma_j`: positive where the data want the selected token above the other.
    tight : ndarray, (m,), bool
        The pairs of different values whose gap is 1.

    Examples
    --------
    That of :func:`tokensel.reachability`.
    """

    solution: MaxMargin
    pairs: np.ndarray
    gaps: np.ndarray
    coefficients: np.ndarray
    tight: np.ndarray

    @property
    def reachable(self):
        r"""bool : whether all tight pairs are wanted, and all tokens of equal value below the selected one.

        Then all flows that start far enough out along :math:`\hat p_\sigma` end in this selection. Where it
        is False, the flow may end there all the same: the theorem says nothing.

        Examples
        --------
        That of :func:`tokensel.reachability`.
        """
        return bool((self.coefficients[self.tight] > 0).all() and (self.gaps > 0).all())


def reachability(model, selection, tolerance=1e-6):
    r"""Check whether gradient flow on p can end in a selection: thm-reachable.

    .. math::

        \Gamma_j>0\quad\text{for every pair }j\text{ with }\hat p_\sigma\cdot z_j=1

    Pairs with slack may be wanted or not. The selection of a flow that has been followed far is one to ask
    about; so is any other.

    Parameters
    ----------
    model : AttentionClassifier
        Its embeddings and values; where its p stands does not matter.
    selection : Selection
        :math:`\sigma`.
    tolerance : float, default 1e-6
        Pairs with a gap of at most 1 + ``tolerance`` count as tight.

    Returns
    -------
    Reachability

    Raises
    ------
    InfeasibleSelection
        If no p selects these tokens.
    TypeError, ValueError
        If model and selection are something else or do not suit each other, or all pairs have equal values.

    Examples
    --------
    The trap of chapter "Where selection stops": token 1 is not the best of its sequence, and yet a limit.

    >>> import tokensel as ts
    >>> trap = ts.traps.shared_tokens()
    >>> found = ts.reachability(trap.model, trap.selection)
    >>> found.reachable, found.pairs[found.coefficients < 0].tolist()
    (True, [[1, 0]])
    """
    if not isinstance(model, AttentionClassifier):
        raise TypeError(f"model must be an AttentionClassifier, got {type(model).__name__}")
    if not isinstance(selection, Selection):
        raise TypeError(f"selection must be a Selection, got {type(selection).__name__}")
    tolerance = real_number("tolerance", tolerance, 0)
    values = model.values().detach().cpu().numpy()
    solution = max_margin(model.embeddings, selection, values)
    selected, others = selection.pairs.T
    scores = model.embeddings.detach().cpu().numpy().astype(float) @ solution.cls
    gaps = scores[selected] - scores[others]
    tight = (gaps <= 1 + tolerance) & (values[selected] != values[others])
    return Reachability(solution, selection.pairs, gaps, selection.pair_coefficients(values), tight)


def failed_hypothesis(model, path, tolerance=0.01):
    r"""Say which hypothesis of the theorem on the direction of the flow fails along a path, if any does.

    With none, p tends to the direction of :math:`\hat p` over the pairs of different values (thm-direction):
    compare ``path.cls[-1]`` with :func:`tokensel.max_margin` of ``path.selection``.

    Parameters
    ----------
    model : AttentionClassifier
        The one that the flow started from; its embeddings and values count.
    path : FlowPath
        A flow followed far, for instance to :math:`\log t` of a thousand: what is said is what can be seen at
        its last point.
    tolerance : float, default 0.01
        Pairs whose gap exceeds the smallest one by at most this share count as smallest.

    Returns
    -------
    str or None
        ``"no pair"``: all tokens of each sequence have the value of the selected one, nothing can move.
        ``"finite norm"``: the flow came to rest. ``"no unique maximiser"``: attention stays divided.
        ``"wrong sign"``: the data do not want one of the pairs of smallest gap, :math:`\Gamma_j\le0`.

    Raises
    ------
    TypeError
        If model or path are something else.
    ValueError
        If they do not belong to each other, or the tolerance is negative.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1], [0, 1]], labels=[+1, -1])
    >>> model = ts.AttentionClassifier([[1, 0], [0, 1]], cls=[0.3, 0.0], output=[1.0, -1.0])
    >>> ts.failed_hypothesis(model, ts.gradient_flow(model, corpus))
    'finite norm'
    """
    if not isinstance(model, AttentionClassifier):
        raise TypeError(f"model must be an AttentionClassifier, got {type(model).__name__}")
    if not isinstance(path, FlowPath):
        raise TypeError(f"path must come from gradient_flow, got {type(path).__name__}")
    tolerance = real_number("tolerance", tolerance, 0)
    embeddings = model.embeddings.detach().cpu().numpy().astype(float)
    if (path.selection.corpus.n_tokens, path.cls.shape[1]) != embeddings.shape:
        raise ValueError(
            f"the path has {path.selection.corpus.n_tokens:,} tokens in {path.cls.shape[1]:,} dimensions, "
            f"the model has embeddings of shape {embeddings.shape}"
        )
    values, (selected, others) = model.values().detach().cpu().numpy(), path.selection.pairs.T
    scores = embeddings @ path.cls[-1]
    gaps = scores[selected] - scores[others]
    if (gaps < -1e-9 * np.abs(scores).max()).any():  # a sum of d products rounds to far less
        raise ValueError(
            "the path does not belong to the model: at its last point, the model's embeddings score a token "
            "above the one that the path selects"
        )
    forced = values[selected] != values[others]
    if not forced.any():
        return "no pair"
    if path.status == "stationary":
        return "finite norm"
    if not path.settled:
        return "no unique maximiser"
    gaps = gaps[forced]
    smallest = gaps <= (1 + tolerance) * gaps.min()
    wanted = path.selection.pair_coefficients(values)[forced][smallest] > 0
    return None if wanted.all() else "wrong sign"
