r"""Interior-point method for the hard-margin problem of many pairs, and what certifies any solution of it.

The problem, for embeddings E and pairs j = (selected, other) with differences :math:`z_j`, is
:math:`\min\frac12\lVert p\rVert^2` subject to :math:`p\cdot z_j\ge1`. A solver answers with multipliers
:math:`\lambda\ge0` alone: they name a point of the hull of the differences, and that names p.
"""

import numpy as np

# A pair is tight when its margin is at most this above 1.
TIGHT = 1e-6
# The method stops at this KKT residual. Then 1 - cos between p and the solution is no larger, to first order.
TARGET = 1e-8
# Where a convex combination of differences is this short, measured by the typical length of an embedding,
# there is no margin: rounding leaves combinations of 1e-14 or so that are zero in exact arithmetic.
NO_MARGIN = 1e-12


class Order:
    """Pairs (selected, other) of tokens 0 .. n - 1, as the two sparse maps between tokens and pairs.

    No pair occurs twice or both ways.
    """

    def __init__(self, pairs, n_tokens):
        self.selected, self.other = np.ascontiguousarray(pairs.T)
        self.n_tokens = n_tokens

    def __len__(self):
        return len(self.selected)

    def differences(self, scores):
        """Score of the selected token less that of the other, (m,)."""
        return scores[self.selected] - scores[self.other]

    def net(self, weights):
        """Weights of the pairs in which a token is selected less those in which it is the other, (n,)."""
        selected = np.bincount(self.selected, weights, self.n_tokens)
        return selected - np.bincount(self.other, weights, self.n_tokens)


def typical_length(embeddings):
    """Root mean square distance of the embeddings from their mean."""
    squares = sum(np.square(block).sum() for block in _centred_blocks(embeddings))
    return np.sqrt(squares / len(embeddings))


def hull_point(embeddings, order, duals):
    r"""Return :math:`x=\sum\lambda_jz_j/\sum\lambda_j` and its norm, which no margin exceeds."""
    point = embeddings.T @ order.net(duals) / duals.sum()
    return point, np.linalg.norm(point)


def solution(embeddings, order, duals):
    r"""The p and the multipliers that a point x of the hull names: :math:`p=x/\lVert x\rVert^2`."""
    point, distance = hull_point(embeddings, order, duals)
    return point / distance**2, duals / (duals.sum() * distance**2)


def kkt_residual(embeddings, order, cls, duals):
    r"""How far p and :math:`\lambda\ge0` are from the KKT conditions, and the margins :math:`p\cdot z_j`.

    The residual is the largest of :math:`\lVert p-\sum\lambda_jz_j\rVert/\lVert p\rVert`,
    :math:`\max_j(1-p\cdot z_j)_+` and :math:`\sum\lambda_j|p\cdot z_j-1|/\sum\lambda_j`.
    """
    margins = order.differences(embeddings @ cls)
    unstationary = np.linalg.norm(cls - embeddings.T @ order.net(duals)) / np.linalg.norm(cls)
    slack = duals @ np.abs(margins - 1) / duals.sum()
    return float(max(unstationary, 0.0, 1 - margins.min(), slack)), margins


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # they end the method, not the program
def solve_pairs(embeddings, order, scale):
    r"""Multipliers of all pairs, up to a factor, by a predictor-corrector method.

    With slacks s and multipliers :math:`\lambda`, let :math:`D=\lambda/s` weight the pairs and L be the
    Laplacian of their graph. A Newton step solves :math:`(G^{-1}+L)\,da=h` with :math:`G=EE^\top` for the
    scores, or :math:`(I+E^\top LE)\,dp=E^\top h` for p: a dense matrix of the size of the tokens or of the
    dimension, however many pairs there are. p itself is held as :math:`E^\top w`, one number w a token.

    If no p satisfies the pairs, the multipliers grow along a convex combination that is zero.

    Parameters
    ----------
    embeddings : (n, d) array of float64
    order : Order
        Pairs without a cycle.
    scale : float
        The `typical_length` of the embeddings.

    Returns
    -------
    ndarray, (m,)
        Multipliers, zero on slack pairs. The `kkt_residual` of their `solution` is at most `TARGET` or, where
        float64 allows no more, the smallest there was; or their `hull_point` is shorter than `NO_MARGIN`
        times ``scale``.

    References
    ----------
    S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optim. 2, 1992.
    J. Gondzio, "Multiple centrality corrections in a primal-dual method for linear programming", 1996.
    """
    n, dim = embeddings.shape
    in_cls_space = 2 * dim**2 * n + dim**3 / 3 < n**3 / 3  # what one Newton matrix costs
    factorise = (_cls_space if in_cls_space else _score_space)(embeddings, order, scale)

    # Start from ridge regression of the margins on 1, with slacks and multipliers made positive.
    ridge = np.full(len(order), 0.1)
    missing = 1 - order.differences(factorise(ridge)(order.net(ridge)))
    weights = order.net(ridge * missing)  # w
    shift = max(np.abs(missing).mean(), 1e-3)
    slacks, duals = np.maximum(-missing, 0) + shift, ridge * (np.maximum(missing, 0) + shift)

    best, smallest, since_best = duals, np.inf, 0
    for _ in range(100):  # about 12 are needed, twice as many where there are hardly any digits
        if hull_point(embeddings, order, duals)[1] <= 1e-3 * scale:
            zero = _combined_to_zero(embeddings, order, duals, scale)
            if zero is not None:
                return zero
        residual, _ = kkt_residual(embeddings, order, *solution(embeddings, order, duals))
        since_best += 1
        if residual < smallest:
            best, smallest, since_best = duals, residual, 0
        if residual <= TARGET / 10 or (smallest < 1e-6 and since_best == 6):
            break

        scores = embeddings @ (embeddings.T @ weights) / scale**2
        system = _System(order, slacks, duals, scores, weights)
        try:
            system.solve = factorise(system.quotients)
        except np.linalg.LinAlgError:
            break  # the digits are spent; whoever asked checks what there is
        d_slacks, d_duals, length = _step(system)
        if not length > 0:
            break
        if length < 1:  # stop short of the boundary, by less and less
            length *= 1 - np.clip(residual, 1e-8, 0.01)
        slacks, duals = slacks + length * d_slacks, duals + length * d_duals
        weights = weights + length * (order.net(d_duals) - system.dual_gap)
    return _without_slack_pairs(embeddings, order, best, factorise, scale) if smallest < 1e-6 else best


def _without_slack_pairs(embeddings, order, duals, factorise, scale):
    r"""Multipliers that are exactly zero on slack pairs, by the method of multipliers.

    Every interior point has positive multipliers, and of thousands even the small ones matter. Near the
    solution :math:`\lambda_j\leftarrow(\lambda_j+c(1-p\cdot z_j))_+` is zero on slack pairs. Newton's method
    finds the p that is stationary with these, one factor for each set of pairs; then they are renewed. Where
    float64 does not allow that, they are cut off instead, or stay.
    """
    _, margins = kkt_residual(embeddings, order, *solution(embeddings, order, duals))
    best = np.where(margins <= 1 + TIGHT, duals, 0.0)
    smallest, _ = kkt_residual(embeddings, order, *solution(embeddings, order, best))
    multipliers, weights, factored, solve = duals, order.net(duals), None, None
    for stiffness in (1e2, 1e2, 1e3, 1e4, 1e5):
        solved = None  # the pairs for which p is stationary
        for _ in range(4):
            missing = 1 - order.differences(embeddings @ (embeddings.T @ weights) / scale**2)
            trial = np.maximum(multipliers + stiffness * missing, 0.0)
            residual, _ = kkt_residual(embeddings, order, *solution(embeddings, order, trial))
            if residual < smallest:
                best, smallest = trial, residual
            if residual <= TARGET:
                return trial
            active = trial > 0
            if np.array_equal(active, solved):
                break
            if not np.array_equal(stiffness * active, factored):
                factored = stiffness * active
                solve = factorise(factored)
            gap = order.net(trial) - weights
            weights = weights + gap - order.net(factored * order.differences(solve(gap)))
            solved = active
        multipliers = trial
    return best if smallest < 1e-6 else duals


def _combined_to_zero(embeddings, order, duals, scale):
    """Change the multipliers of a short combination in proportion so that it is zero, or return None.

    The change is the solution of a weighted least-squares problem, refined like that of any linear system.
    While a combination shortens, multipliers that it does without stay behind, as far as it is short.
    """
    shortness = hull_point(embeddings, order, duals)[1] / scale
    duals = np.where(duals > np.sqrt(shortness) * duals.mean(), duals, 0.0)
    quotients = duals * (1e8 / duals.mean())
    solve = _cls_space(embeddings, order, scale)(quotients)
    for _ in range(4):
        duals = duals - quotients * order.differences(solve(order.net(duals)))
    zero = duals.min() >= 0 and hull_point(embeddings, order, duals)[1] <= NO_MARGIN * scale
    return duals if zero else None


class _System:
    """The Newton equations at one point: what they start from and what they must remove."""

    def __init__(self, order, slacks, duals, scores, weights):
        self.order, self.slacks, self.duals = order, slacks, duals
        self.primal_gap = order.differences(scores) - slacks - 1  # (m,)
        self.dual_gap = weights - order.net(duals)  # (n,)
        self.quotients = 1 / (slacks / duals + 1e-10)  # bounded, so that the matrix keeps its digits
        self.solve = None

    def direction(self, target):
        """Step that lowers the products of slacks and multipliers by ``target`` and removes both gaps."""
        push = -self.quotients * (target / self.duals + self.primal_gap)
        d_scores = self.solve(self.order.net(push) - self.dual_gap)
        d_duals = push - self.quotients * self.order.differences(d_scores)
        return -(target + self.slacks * d_duals) / self.duals, d_duals

    def length(self, d_slacks, d_duals):
        """Largest step up to 1 at which no slack and no multiplier has passed 0."""
        shrinks = max((-d_slacks / self.slacks).max(), (-d_duals / self.duals).max())
        return 1.0 if shrinks <= 1 else 1 / shrinks


def _step(system):
    """Mehrotra's predictor and corrector, then up to two corrections of centrality."""
    slacks, duals = system.slacks, system.duals
    products = slacks * duals
    d_slacks, d_duals = system.direction(products)
    length = system.length(d_slacks, d_duals)
    reached = (slacks + length * d_slacks) @ (duals + length * d_duals) / products.sum()
    centre = products.mean() * reached**3
    target = products + d_slacks * d_duals - centre
    d_slacks, d_duals = system.direction(target)
    length = system.length(d_slacks, d_duals)
    for _ in range(2):  # a factor is dear, solving with it again is not
        further = min(1.0, length + 0.3)
        ahead = (slacks + further * d_slacks) * (duals + further * d_duals)
        correction = np.maximum(np.clip(ahead, 0.1 * centre, 10 * centre) - ahead, -10 * centre)
        corrected = system.direction(target - correction)
        longer = system.length(*corrected)
        if longer <= length + 0.01:
            break
        target, (d_slacks, d_duals), length = target - correction, corrected, longer
    return d_slacks, d_duals, length


def _cls_space(embeddings, order, scale):
    """Solve (I + E^T L E) dp = E^T h and return E dp: for more tokens than dimensions."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.sparse import csr_array

    n, dim = embeddings.shape
    first, second = np.r_[order.selected, order.other], np.r_[order.other, order.selected]
    places = np.r_[first, np.arange(n)], np.r_[second, np.arange(n)]

    def factorise(quotients):
        both = np.tile(quotients, 2)
        laplacian = csr_array((np.r_[-both, np.bincount(first, both, n)], places), (n, n))
        matrix = embeddings.T @ (laplacian @ embeddings) / scale**2
        matrix[np.diag_indices(dim)] += 1
        factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
        return lambda h: embeddings @ cho_solve(factor, embeddings.T @ h) / scale**2

    return factorise


def _score_space(embeddings, order, scale):
    """Solve (G^-1 + L) da = h: for about as many dimensions as tokens, or more.

    One array holds G^-1 below its diagonal and the factor of the sum above: for thousands of tokens it is
    as large as the embeddings.
    """
    from scipy.linalg.blas import dsyrk
    from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

    n = order.n_tokens
    # Only differences of scores matter, so the mean embedding is free: one direction common to all stands in
    # for it. The small diagonal makes dependent embeddings invertible; it bends the Newton directions, but
    # the gaps that they close are computed without it.
    matrix = np.ones((n, n), order="F")
    for block in _centred_blocks(embeddings):
        matrix = dsyrk(1 / scale**2, block, beta=1.0, c=matrix, lower=1, overwrite_c=1)
    matrix[np.diag_indices(n)] += 1e-8
    matrix, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    _check(failed)
    matrix, failed = dpotri(matrix, lower=1, overwrite_c=1)
    _check(failed)
    diagonal = matrix.diagonal().copy()
    low, high = np.minimum(order.selected, order.other), np.maximum(order.selected, order.other)

    def factorise(quotients):
        for start in range(0, n, 256):
            stop = start + 256
            matrix[:start, start:stop] = matrix[start:stop, :start].T
            corner = np.tril(matrix[start:stop, start:stop], -1)
            matrix[start:stop, start:stop] = corner + corner.T
        matrix[low, high] -= quotients
        matrix[np.diag_indices(n)] = diagonal + np.bincount(np.r_[low, high], np.tile(quotients, 2), n)
        factor, failed = dpotrf(matrix, lower=0, clean=0, overwrite_a=1)
        _check(failed)
        return lambda h: dpotrs(factor, h, lower=0)[0]

    return factorise


def _check(failed):
    if failed:
        raise np.linalg.LinAlgError(f"no Cholesky factor: LAPACK stopped with {failed}")


def _centred_blocks(embeddings):
    """Embeddings less their mean, some dimensions at a time: a copy of all might not fit."""
    for start in range(0, embeddings.shape[1], 512):
        block = embeddings[:, start : start + 512]
        yield block - block.mean(axis=0)
