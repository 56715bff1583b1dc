"""`max_margin`: the shortest cls embedding that selects given tokens, with a certificate of optimality."""

import warnings
from typing import NamedTuple

import numpy as np

from tokensel.interior_point import (
    NO_MARGIN,
    TARGET,
    TIGHT,
    Order,
    hull_point,
    kkt_residual,
    solution,
    solve_pairs,
    typical_length,
)
from tokensel.selection import InfeasibleSelection, Selection, real_array, refuse_model, shortest_cycle

# Up to so many pairs and tokens cvxpy solves the problem. Soon above, its factorisations take minutes.
_ORDINARY_PAIRS = 2_000
_ORDINARY_TOKENS = 500
# No solution leaves with a larger KKT residual.
_KKT = 1e-6


class MaxMargin(NamedTuple):
    r"""Solution of a hard-margin problem. All of it can be checked without knowing how it was found.

    Attributes
    ----------
    cls : ndarray, (d,)
        :math:`\hat p=\sum_j\lambda_jz_j`.
    margin : float
        :math:`\gamma=1/\lVert\hat p\rVert`: the largest margin that a cls embedding of norm 1 can have.
    support_pairs : ndarray, (k, 2)
        The tight pairs (selected, other): :math:`\hat p\cdot z_j=1` within 1e-6, whatever their multiplier.
    duals : ndarray, (k,)
        :math:`\lambda_j\ge0`, one for each support pair. They sum to :math:`\lVert\hat p\rVert^2`. Where the
        differences of the support pairs are dependent, other multipliers would do as well.
    kkt_residual : float
        The largest of :math:`\lVert\hat p-\sum\lambda_jz_j\rVert/\lVert\hat p\rVert`, of the worst violation
        :math:`\max_j(1-\hat p\cdot z_j)_+` over all pairs, and of
        :math:`\sum\lambda_j|\hat p\cdot z_j-1|\,/\sum\lambda_j`. All are zero at the solution only; near it,
        1 - cos between ``cls`` and the solution is no larger than the residual.

    Examples
    --------
    That of :func:`tokensel.max_margin`.
    """

    cls: np.ndarray
    margin: float
    support_pairs: np.ndarray
    duals: np.ndarray
    kkt_residual: float

    def __repr__(self):
        n_pairs, dim = len(self.support_pairs), len(self.cls)
        return (
            f"MaxMargin(margin {self.margin:.6g} in {dim:,} dimension{'s' * (dim > 1)}; "
            f"{n_pairs:,} support pair{'s' * (n_pairs > 1)}; KKT residual {self.kkt_residual:.1e})"
        )


def max_margin(embeddings, selection, values=None):
    r"""The shortest cls embedding that scores every selected token above the others by 1.

    .. math::

        \hat p=\arg\min\tfrac12\lVert p\rVert^2\quad\text{s.t.}\quad p\cdot(E_{\sigma(i)}-E_s)\ge1
        \quad\text{for all }i\text{ and }s\in X_i\setminus\{\sigma(i)\}

    Its direction separates the selected tokens from the others by the largest margin. Where attention
    settles on these tokens and the data want it to (chapter "Gradient flow"), gradient flow on p tends to it
    when ``values`` is given: pairs of equal value exert no force, and drop out. Without it they are
    constraints like the others, and the flow need not end there.

    Parameters
    ----------
    embeddings : (S, d) array or tensor
        :math:`E`. float32 is promoted: the solution is always float64.
    selection : Selection
        :math:`\sigma`, over the same S tokens.
    values : (S,) array or tensor, optional
        :math:`b=Ev`, such as ``model.values()``. Pairs of tokens with equal values drop out.

    Returns
    -------
    MaxMargin
        ``cls``, ``margin``, ``support_pairs``, ``duals`` and ``kkt_residual``.

    Raises
    ------
    InfeasibleSelection
        If no p selects these tokens. It carries the proof: a shortest cycle of pairs, or a convex
        combination of their differences that is zero.
    TypeError, ValueError
        If embeddings or values are not finite numbers of the right shape, or no pair is left.
    RuntimeError
        If the solution misses its certificate: ``kkt_residual`` above 1e-6.

    Notes
    -----
    cvxpy (Clarabel) solves the problem in score space, where each constraint is the difference of two scores.
    Non-negative least squares on its tight pairs [1]_ then turns nine digits into thirteen: among their
    convex combinations it finds the shortest, x, and :math:`\hat p=x/\lVert x\rVert^2`. Pairs that this
    violates join the tight ones, until there are none. If the shortest combination is zero, no p exists.

    From 2,000 pairs or 500 tokens on, an interior-point method of our own solves the same problem to a KKT
    residual of 1e-8. Its linear systems are no larger than the tokens or the dimension; pairs cost little.

    References
    ----------
    .. [1] C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", chapter 23, 1974.

    Examples
    --------
    Orthonormal embeddings, two selected tokens, each beside both others: the squared norm is 2·2/(2 + 2).

    >>> from tokensel.corpus import Corpus
    >>> corpus = Corpus.from_sequences([[0, 2, 3], [1, 2, 3]], labels=[+1, -1])
    >>> solution = max_margin(np.eye(4), Selection(corpus, [0, 1]))
    >>> solution.cls.round(6), round(solution.margin, 6)
    (array([ 0.5,  0.5, -0.5, -0.5]), 1.0)
    >>> len(solution.support_pairs), solution.duals.sum().round(6)
    (4, np.float64(1.0))

    Tokens 0 and 1 have the same value. The flow leaves the gap between them as it is, and ends in the
    direction of the solution with ``values``.

    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1, 2]], labels=[+1])
    >>> model = ts.AttentionClassifier(np.eye(3), cls=[0.2, 0, 0], output=[1, 1, 0])
    >>> path = ts.gradient_flow(model, corpus, until_norm=400.0)
    >>> without = ts.max_margin(model.embeddings, path.selection)
    >>> solution = ts.max_margin(model.embeddings, path.selection, values=model.values())
    >>> solution  # doctest: +ELLIPSIS
    MaxMargin(margin 1.41421 in 3 dimensions; 1 support pair; KKT residual ...)
    >>> round(ts.cosine(path.cls[-1], without.cls), 2), round(ts.cosine(path.cls[-1], solution.cls), 5)
    (0.86, 0.99999)
    """
    if not isinstance(selection, Selection):
        raise TypeError(
            f"selection must be a Selection, got {type(selection).__name__}: pass path.selection, or "
            "ts.Selection(corpus, tokens)"
        )
    embeddings = _checked_embeddings(embeddings, selection.corpus.n_tokens)
    pairs, cycle = selection.pairs, selection.cycle
    if values is not None:
        values = _checked_values(values, selection.corpus.n_tokens)
        pairs = pairs[values[pairs[:, 0]] != values[pairs[:, 1]]]
        cycle = cycle and shortest_cycle(pairs)
    if len(pairs) == 0:
        raise ValueError(
            "the selection leaves no pair: every sequence holds one distinct token"
            f"{'' if values is None else ', or others of equal value'}, so every cls embedding selects it"
        )
    name = _namer(selection.corpus.vocabulary)
    if cycle:
        raise InfeasibleSelection(
            "no cls embedding selects these tokens, whatever the embeddings: their order runs in a circle, "
            + " above ".join(map(name, [*cycle, cycle[0]])),
            cycle=cycle,
        )
    _refuse_equal_embeddings(embeddings, pairs, name)

    tokens, local = np.unique(pairs, return_inverse=True)
    order = Order(local.reshape(-1, 2), len(tokens))
    rows = embeddings if len(tokens) == len(embeddings) else embeddings[tokens]
    scale, mean = typical_length(rows), rows.mean(axis=0)
    if np.linalg.norm(mean) > scale:  # a common part cancels in every difference: leave it no digits
        rows = rows - mean
    ordinary = len(pairs) <= _ORDINARY_PAIRS and len(tokens) <= _ORDINARY_TOKENS
    cls, duals = (_by_cvxpy if ordinary else _by_interior_point)(rows, order, scale)
    if cls is None:
        used = duals > 0
        raise InfeasibleSelection(
            f"no cls embedding selects these tokens: a convex combination of the differences of "
            f"{np.count_nonzero(used):,} of the {len(pairs):,} pairs is zero. The order has no cycle, but "
            f"the embeddings are affinely dependent ({len(tokens):,} embeddings in dimension "
            f"{embeddings.shape[1]:,})",
            pairs=pairs[used],
            weights=duals[used] / duals.sum(),
        )
    residual, margins = kkt_residual(rows, order, cls, duals)
    norm = float(np.linalg.norm(cls))
    if not residual <= _KKT:
        raise RuntimeError(
            f"the max-margin solution misses its certificate: KKT residual {residual:.1e}, above {_KKT:.0e}. "
            f"The margin, about {1 / norm:.1e}, may be too small for float64 beside embeddings that are "
            f"about {scale:.1e} apart"
        )
    support = (margins <= 1 + TIGHT) | (duals > 0)
    return MaxMargin(cls, 1 / norm, pairs[support], duals[support], residual)


def cosine(u, w):
    r"""Cosine of the angle between two vectors, :math:`u\cdot w/(\lVert u\rVert\lVert w\rVert)`.

    Parameters
    ----------
    u, w : (d,) array or tensor

    Returns
    -------
    float
        In [-1, 1]. Norms may be anything that float64 holds: no square overflows.

    Raises
    ------
    TypeError, ValueError
        If the two are not vectors of the same length with finite entries, or one is zero.

    Examples
    --------
    >>> cosine([1.0, 0.0], [3e200, 4e200])
    0.6
    """
    units = []
    for name, vector in (("u", u), ("w", w)):
        vector = real_array(name, vector)
        if vector.ndim != 1 or vector.size == 0:
            raise ValueError(f"{name} must be one vector, shape (d,); got shape {vector.shape}")
        if not np.isfinite(vector).all():
            raise ValueError(f"{name} must be finite")
        largest = np.abs(vector).max()
        if largest == 0:
            raise ValueError(f"{name} is the zero vector, which has no direction")
        vector = vector / largest
        units.append(vector / np.linalg.norm(vector))
    if units[0].shape != units[1].shape:
        raise ValueError(f"u and w must have the same length, got {len(units[0])} and {len(units[1])}")
    return float(np.clip(units[0] @ units[1], -1.0, 1.0))


def _by_interior_point(rows, order, scale):
    """p and multipliers; None for p, and a combination that is zero, where there is none."""
    duals = solve_pairs(rows, order, scale)
    if hull_point(rows, order, duals)[1] <= NO_MARGIN * scale:
        return None, duals
    return solution(rows, order, duals)


def _by_cvxpy(rows, order, scale):
    """The same from cvxpy, non-negative least squares and a last solution on the pairs in use."""
    import cvxpy as cp
    from scipy.linalg import solve_triangular
    from scipy.sparse import csr_array

    # Coordinates in which the embeddings span few dimensions and have a typical length of 1.
    rows, basis = rows / scale, None
    if rows.shape[1] > rows.shape[0]:
        basis, rows = np.linalg.qr(rows.T)
        rows = rows.T
    m, n = len(order), order.n_tokens
    signs = np.repeat([1.0, -1.0], m)
    incidence = csr_array((signs, (np.tile(np.arange(m), 2), np.r_[order.selected, order.other])), (m, n))
    cls, scores = cp.Variable(rows.shape[1]), cp.Variable(n)
    problem = cp.Problem(
        cp.Minimize(cp.sum_squares(cls) / 2), [scores == rows @ cls, incidence @ scores >= 1]
    )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            problem.solve(solver=cp.CLARABEL)
        solved = problem.status == cp.OPTIMAL
    except cp.SolverError:
        solved = False
    if solved:
        norm = np.linalg.norm(cls.value)
        candidates = order.differences(rows @ cls.value) <= 1 + 1e-4  # far above Clarabel's accuracy of 1e-8
    else:  # infeasible, or too hard for Clarabel: least squares decides on all pairs
        norm, candidates = 1.0, np.ones(m, dtype=bool)

    # Minimise |sum l_j z_j|^2 + (1 - sum l_j)^2 / norm^2 over l >= 0: that gives a multiple of the
    # multipliers or, if the minimum is 0, no margin. With the norm of p the two terms are of equal size.
    differences = rows[order.selected] - rows[order.other]
    target = np.append(np.zeros(rows.shape[1]), 1.0)
    while True:
        columns = np.flatnonzero(candidates)
        matrix = np.vstack([norm * differences[columns].T, np.ones(len(columns))])
        duals = np.zeros(m)
        duals[columns] = _non_negative_least_squares(matrix, target)
        if hull_point(rows, order, duals)[1] <= NO_MARGIN:
            return None, duals
        # The pairs in use are independent. Least squares spends digits twice on their condition, this once.
        used = np.flatnonzero(duals)
        q, r = np.linalg.qr(differences[used].T)
        cls = q @ solve_triangular(r, np.ones(len(used)), trans=1)
        duals[used] = np.maximum(solve_triangular(r, q.T @ cls), 0)
        violated = differences @ cls < 1 - TARGET
        if np.any(violated & ~candidates):
            candidates |= violated
        elif not 0.1 < norm / np.linalg.norm(cls) < 10:
            norm = np.linalg.norm(cls)
        else:
            return (cls if basis is None else basis @ cls) / scale, duals / scale**2


def _non_negative_least_squares(matrix, target):
    """Least squares over x >= 0, on independent columns.

    At the solution no column pulls outwards: A'(b - Ax) <= 0. Where columns depend on each other, SciPy's
    `nnls` has been seen to stop at a point at which one does; in another order of the columns it gets past
    it. If no order helps, the certificate of the caller says so.
    """
    from scipy.optimize import nnls

    columns = matrix.shape[1]
    for shift in range(columns):
        order = np.roll(np.arange(columns), shift)
        x = np.empty(columns)
        x[order], _ = nnls(matrix[:, order], target, maxiter=10 * sum(matrix.shape))
        pull = matrix.T @ (target - matrix @ x)
        if pull.max() <= 1e-6 * np.linalg.norm(matrix, axis=0).max():
            break
    return x


def _checked_embeddings(embeddings, n_tokens):
    refuse_model("embeddings", embeddings, "model.embeddings")
    embeddings = real_array("embeddings", embeddings)
    if embeddings.ndim != 2 or len(embeddings) != n_tokens or embeddings.shape[1] == 0:
        raise ValueError(
            f"embeddings must have shape ({n_tokens}, d), one row a token of the selection's corpus; "
            f"got shape {embeddings.shape}"
        )
    if not np.isfinite(embeddings).all():
        s = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))[0]
        raise ValueError(f"embeddings must be finite, but row {s} is not")
    return embeddings


def _checked_values(values, n_tokens):
    refuse_model("values", values, "model.values()")
    values = real_array("values", values)
    if values.shape != (n_tokens,):
        raise ValueError(f"values must have shape ({n_tokens},), one a token; got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("values must be finite")
    return values


def _refuse_equal_embeddings(embeddings, pairs, name):
    # + 0.0 turns -0.0 into 0.0; bytes of one row at a time keep memory flat.
    code = {s: hash((embeddings[s] + 0.0).tobytes()) for s in np.unique(pairs).tolist()}
    for selected, other in pairs.tolist():
        if code[selected] == code[other] and np.array_equal(embeddings[selected], embeddings[other]):
            raise InfeasibleSelection(
                f"no cls embedding selects {name(selected)} above {name(other)}: equal embeddings",
                pairs=np.array([[selected, other]]),
                weights=np.ones(1),
            )


def _namer(vocabulary):
    """How a message calls a token: by its word if there is one."""
    return (lambda s: f"token {s}") if vocabulary is None else (lambda s: repr(vocabulary[s]))
