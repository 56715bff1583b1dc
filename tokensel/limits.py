r"""Where a flow can end: the conditions of the theorem on reachable selections, checked."""

from typing import NamedTuple

import numpy as np

from tokensel.arguments import real_number
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
