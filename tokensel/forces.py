r"""`Forces`: the gradient in score space at any norm of the cls embedding, without underflow."""

from typing import NamedTuple

import numpy as np

# Numbers in a dense block of the sums that a derivative consists of.
_BLOCK = 10_000_000
# Sums of scores' exponentials further apart than this underflow.
_RANGE = 600.0
# Forces that are this much smaller than the terms they are differences of have lost too many digits.
_CANCELLED = 1e-4


class Rows(NamedTuple):
    r"""Where attention stands in each sequence, as `Forces` finds it at given scores.

    Attributes
    ----------
    m : ndarray, (n,)
        Smallest gap between the score of the top and of a rival; 0 where there is no rival.
    outside : ndarray, (n,)
        Attention on the rivals, :math:`e^m` times too large.
    short : ndarray, (n,)
        :math:`e^m(b_\sigma-f)`.
    top_value : ndarray, (n,)
        :math:`b_\sigma`.
    """

    m: np.ndarray
    outside: np.ndarray
    short: np.ndarray
    top_value: np.ndarray


class Loss(NamedTuple):
    r"""The loss above that of all attention on a selection, so that no digit is lost late in the flow.

    Attributes
    ----------
    gap : float
        :math:`e^M(L-L_\sigma)`.
    shift : float
        M.
    limit : float
        :math:`L_\sigma`.
    outside : float
        The largest attention that a sequence pays to other values than the selected token's.
    """

    gap: float
    shift: float
    limit: float
    outside: float


class Forces:
    r"""Forces on the scores, :math:`-\partial_aL`, up to a factor :math:`e^M` that makes them of order one.

    Entries of the counts are arrays in the order of the rows. In each row those whose value equals that of
    the token on top are *tied*: the top itself, and others that it is not pulled away from. The rest are its
    *rivals*. With :math:`m_i` the smallest gap between the score of the top and theirs, their attention is
    held :math:`e^{m_i}` times too large, and so is
    :math:`b_\sigma-f_i=\sum_{s\ne\sigma}q_{is}(b_\sigma-b_s)`: it is this sum, never the difference of two
    nearly equal numbers.

    Parameters
    ----------
    counts : csr_array, (n, S)
        :math:`C`, without stored zeros or empty rows.
    labels : (n,) array
        :math:`y`, -1 and +1.
    values : (S,) array
        :math:`b`. Only values that are exactly equal are tied.

    Examples
    --------
    Two tokens with scores 2000 and 0: the force is about :math:`e^{-2000}/2`, too small for float64.

    >>> from tokensel.corpus import Corpus
    >>> corpus = Corpus.from_sequences([[0, 1]], labels=[+1])
    >>> forces = Forces(corpus.counts, corpus.labels, values=np.array([0.0, -1.0]))
    >>> push, _, M, _ = forces(np.array([2000.0, 0.0]))
    >>> push, (np.log(push[0]) - M).round(6)
    (array([ 1., -1.]), np.float64(-2000.693147))
    """

    def __init__(self, counts, labels, values):
        self.n_sequences, self.n_tokens = counts.shape
        self.tokens, self.first = counts.indices.astype(np.intp), counts.indptr[:-1].astype(np.intp)
        self.lengths = np.diff(counts.indptr)  # distinct tokens
        self.row = np.repeat(np.arange(self.n_sequences), self.lengths)
        self.counts, self.labels = counts.data.astype(float), labels.astype(float)
        self.matrix, self.transpose, self.token_values = (
            counts.astype(float),
            counts.T.tocsr().astype(float),
            values,
        )
        self.values = values[self.tokens]
        self.rival, self.pull, self.work = (np.empty(len(self.tokens)) for _ in range(3))  # reused: large
        self.lead = np.empty(len(self.tokens))
        self.top = self.first.copy()  # the place of the largest score in each row
        self._put_on_top(np.arange(self.n_sequences), self.top)

    def __call__(self, scores):
        r"""The forces at given scores.

        Parameters
        ----------
        scores : (S,) array
            :math:`a`.

        Returns
        -------
        push : ndarray, (S,)
            :math:`-e^M\partial_{a_s}L`.
        size : float
            The sum over sequences and tokens of the absolute forces that ``push`` is the sum of.
        M : float
        rows : Rows
        """
        tied, total, rows = self._attend(scores)
        factor, shift = self._factor(rows)
        self.pull *= self.rival
        self.pull *= self._repeat(factor / total)
        on_tied = tied * (factor / total * rows.short)[self.tied_row]
        size = np.abs(self.pull, out=self.work).sum() + np.abs(on_tied).sum()
        push = np.bincount(self.tokens, self.pull, self.n_tokens)
        push += np.bincount(self.tokens[self.tied], on_tied, self.n_tokens)
        return push, size, shift, rows

    def plain(self, scores):
        r"""The forces as four sparse products, for as long as they are large.

        Parameters
        ----------
        scores : (S,) array

        Returns
        -------
        push : ndarray, (S,)
            :math:`-\partial_{a_s}L`, to about twelve digits of their sum.
        loss : Loss
            Above zero, and without the attention outside.

        Both are None where scores are too far apart, or forces too small, for so many digits.
        """
        highest = scores.max()
        if highest - scores.min() > _RANGE:
            return None, None
        weight = np.exp(scores - highest)
        total = self.matrix @ weight
        logit = (self.matrix @ (weight * self.token_values)) / total
        margin = self.labels * logit
        pull = self.labels * np.exp(-np.logaddexp(0.0, margin)) / self.n_sequences  # y g / n
        by_total = pull / total
        push = weight * (
            self.token_values * (self.transpose @ by_total) - self.transpose @ (by_total * logit)
        )
        if np.abs(push).sum() < _CANCELLED * np.abs(pull).sum() * np.abs(self.token_values).max():
            return None, None
        return push, Loss(np.logaddexp(0.0, -margin).mean(), 0.0, 0.0, np.nan)

    def slope(self, scores, embeddings):
        r"""Derivative in p of :math:`E^\top` times the forces, M held fixed.

        Sequence i adds :math:`y_ig_i(\mathrm{diag}\,k-kq^\top-qk^\top)-g_i(1-g_i)kk^\top` to that of
        :math:`-n\partial_aL` in the scores, with :math:`g_i=\sigma(-y_if_i)` and :math:`k_s=q_s(b_s-f_i)`.

        Parameters
        ----------
        scores : (S,) array
        embeddings : (S, d) array
            :math:`E`.

        Returns
        -------
        ndarray, (d, d)
        """
        from scipy.sparse import csr_array

        tied, total, rows = self._attend(scores)
        factor, _ = self._factor(rows)
        attention = self.rival * self._repeat(np.exp(-rows.m) / total)
        attention[self.tied] = tied / total[self.tied_row]
        pull = self.pull * self.rival / self._repeat(total)  # e^m k
        pull[self.tied] = attention[self.tied] * rows.short[self.tied_row]
        diagonal = np.bincount(self.tokens, pull * self._repeat(factor), self.n_tokens)
        slope = embeddings.T @ (diagonal[:, None] * embeddings)
        # 1 - g, and the one of the two e^-m of kk^T that the factor does not hold.
        certain = np.abs(factor) * np.exp(-rows.m - np.logaddexp(0.0, -self._margin(rows)))
        ends, shape = np.append(self.first, len(self.tokens)), (self.n_sequences, self.n_tokens)
        attention, pull = (csr_array((data, self.tokens, ends), shape) for data in (attention, pull))
        block = max(1, _BLOCK // embeddings.shape[1])
        for start in range(0, self.n_sequences, block):
            part = slice(start, start + block)
            pulled = pull[part] @ embeddings
            mixed = pulled.T @ (factor[part, None] * (attention[part] @ embeddings))
            slope -= mixed + mixed.T + pulled.T @ (certain[part, None] * pulled)
        return slope

    def loss(self, rows):
        r"""The loss, above that of all attention on the tokens on top.

        Parameters
        ----------
        rows : Rows

        Returns
        -------
        Loss
        """
        best = self.labels * rows.top_value
        lost = np.exp(-rows.m) * self.labels * rows.short
        # ℓ(best - lost) - ℓ(best) in logarithms: as log(1 + z), z = (e^lost - 1) / (1 + e^best), where lost
        # is small and z tends to lost / (1 + e^best), and as it stands where it is not.
        growth = np.expm1(np.clip(lost, -1.0, 1.0))
        z = growth * np.exp(-np.logaddexp(0.0, best))
        with np.errstate(divide="ignore"):
            near = np.log(np.abs(rows.short) * _ratio(growth, lost) * _ratio(np.log1p(z), z))
            near -= rows.m + np.logaddexp(0.0, best)
            smaller, larger = np.sort([_log_loss(best), _log_loss(best - lost)], axis=0)
            far = larger + np.log(-np.expm1(smaller - larger))
        log_gap = np.where(np.abs(lost) < 1.0, near, far)
        shift = -log_gap.max() if np.isfinite(log_gap.max()) else 0.0
        gap = np.mean(np.sign(self.labels * rows.short) * np.exp(log_gap + shift))
        outside = np.max(np.exp(-rows.m) * rows.outside)
        return Loss(gap, shift, np.logaddexp(0.0, -best).mean(), outside)

    def _attend(self, scores):
        r"""Fill ``rival`` with the rivals' attention, unnormalised, and ``pull`` with their :math:`b_s-f_i`.

        Returns the weights of tied entries, the total of each row, and the rows.
        """
        score = np.take(scores, self.tokens, out=self.rival, mode="clip")
        highest = np.maximum.reduceat(score, self.first)
        changed = np.flatnonzero(score[self.top] != highest)
        if changed.size:
            at_top = np.flatnonzero(score == self._repeat(highest))
            self._put_on_top(changed, at_top[np.searchsorted(at_top, self.first[changed])])
        tied = self.counts[self.tied] * np.exp(score[self.tied] - highest[self.tied_row])
        score[self.tied] = -np.inf
        second = np.where(self.contested, np.maximum.reduceat(score, self.first), highest)
        score -= self._repeat(second)
        np.exp(score, out=self.rival)
        self.rival *= self.counts
        m = highest - second
        shrink = np.exp(-m)
        mass = np.add.reduceat(self.rival, self.first)
        total = np.bincount(self.tied_row, tied, self.n_sequences) + shrink * mass
        short = np.add.reduceat(np.multiply(self.rival, self.lead, out=self.work), self.first) / total
        np.subtract(self._repeat(shrink * short), self.lead, out=self.pull)
        return tied, total, Rows(m, mass / total, short, self.top_value)

    def _put_on_top(self, rows, places):
        """Note new tops of some rows, and what follows from them for all."""
        lengths = self.lengths[rows]
        entries = np.repeat(self.first[rows] - np.cumsum(lengths) + lengths, lengths) + np.arange(
            lengths.sum()
        )
        self.top[rows] = places
        self.top_value = self.values[self.top]  # not in place: it belongs to the rows of earlier calls
        self.lead[entries] = np.repeat(self.top_value[rows], lengths) - self.values[entries]  # b_σ - b_s
        self.tied = np.flatnonzero(self.lead == 0)
        self.tied_row = self.row[self.tied]
        self.contested = np.bincount(self.tied_row) < self.lengths  # by rivals

    def _repeat(self, one_a_row):
        # "clip" writes into the buffer; the default mode would copy it first.
        return np.take(one_a_row, self.row, out=self.work, mode="clip")

    def _margin(self, rows):
        r""":math:`y_if_i`."""
        return self.labels * (rows.top_value - np.exp(-rows.m) * rows.short)

    def _factor(self, rows):
        r""":math:`e^{M-m_i}y_ig_i/n`, with M such that the largest is 1/n."""
        log_factor = np.where(self.contested, -rows.m - np.logaddexp(0.0, self._margin(rows)), -np.inf)
        shift = -log_factor.max() if self.contested.any() else 0.0
        return self.labels * np.exp(log_factor + shift) / self.n_sequences, shift


def _log_loss(margin):
    """Logarithm of log(1 + e^-margin), which is -margin to the last digit from 40 on."""
    return np.where(margin > 40.0, -margin, np.log(np.logaddexp(0.0, -np.minimum(margin, 40.0))))


def _ratio(x, y):
    """x / y, and 1 where both are zero."""
    return np.divide(x, y, out=np.ones_like(x), where=y != 0)
