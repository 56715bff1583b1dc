r"""The model and its gradients in score space: what depends on the scores and values of the vocabulary alone.

The embeddings enter the logits only through the :math:`2S` numbers :math:`a = Ep` and :math:`b = Ev`. So a
forward pass is two columns multiplied by the counts, a backward pass is two columns multiplied by their
transpose, and nothing of size sequences times length times dimension is ever formed.
"""

import warnings
import weakref
from typing import NamedTuple

import numpy as np
import torch

from tokensel.corpus import Corpus

# How many shifts that all rows share are tried before the rows still unsettled get one of their own, and the
# share of all rows below which their own shifts are cheaper than one more product with every count.
_MOST_SHIFTS = 4
_FEW_ROWS = 1 / 16


class Gradients(NamedTuple):
    r"""The loss and its gradients with respect to scores and values, as :func:`gradients` returns them."""

    loss: torch.Tensor
    scores: torch.Tensor
    values: torch.Tensor


def logits(corpus, scores, values):
    r"""Return the logits of a softmax attention layer with the given scores and values.

    .. math:: f_i = \sum_s q_{is} b_s, \qquad q_{is} = \frac{C_{is} e^{a_s}}{\sum_r C_{ir} e^{a_r}}

    Parameters
    ----------
    corpus : Corpus
        :math:`n` sequences over :math:`S` tokens, with counts :math:`C`.
    scores : (S,) tensor or array
        :math:`a`. Only differences within a sequence matter, and they may be as large as the format holds.
    values : (S,) tensor or array
        :math:`b`, of the same dtype and on the same device as the scores.

    Returns
    -------
    (n,) tensor
        :math:`f`, differentiable once with respect to scores and values.

    Raises
    ------
    ValueError
        If scores or values are not :math:`S` finite numbers, or differ in dtype or device.
    TypeError
        If the corpus is not a `Corpus`, or the numbers are neither float32 nor float64.

    Notes
    -----
    A sequence's sums are relative to a shift :math:`m`: its normaliser is
    :math:`Z_i = \sum_s C_{is} e^{a_s - m}`. One shift serves all sequences as long as :math:`Z_i` is at least
    the square root of the smallest normal number; any other sequence is computed again with a lower shift,
    in the end with its own largest score.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1, 1], [2]], labels=[+1, -1], n_tokens=3)
    >>> ts.score_space.logits(corpus, [0.0, 0.0, 5.0], [3.0, 0.0, -1.0])
    tensor([ 1., -1.], dtype=torch.float64)
    """
    counts = _counts_for(corpus, scores := _numbers("scores", scores), values := _numbers("values", values))
    return _Logits.apply(scores, values, counts)


def loss(corpus, scores, values):
    r"""Return the logistic loss of a softmax attention layer with the given scores and values.

    .. math:: L = \frac1n \sum_i \log(1 + e^{-y_i f_i})

    Parameters
    ----------
    corpus : Corpus
    scores, values : (S,) tensor or array
        As for :func:`logits`.

    Returns
    -------
    scalar tensor
        :math:`L`, differentiable once with respect to scores and values.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1], [2]], labels=[+1, -1], n_tokens=3)
    >>> ts.score_space.loss(corpus, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    tensor(0.6931, dtype=torch.float64)
    """
    counts = _counts_for(corpus, scores := _numbers("scores", scores), values := _numbers("values", values))
    return _logistic(counts.labels * _Logits.apply(scores, values, counts))


def gradients(corpus, scores, values):
    r"""Return the logistic loss and its gradients with respect to scores and values, without autograd.

    With :math:`g_i = y_i \sigma(-y_i f_i)`,

    .. math::
        \partial_{b_s} L = -\frac1n \sum_i g_i q_{is}, \qquad
        \partial_{a_s} L = -\frac1n \sum_i g_i q_{is} (b_s - f_i).

    Parameters
    ----------
    corpus : Corpus
    scores, values : (S,) tensor or array
        As for :func:`logits`.

    Returns
    -------
    Gradients
        Named tuple `loss` (scalar), `scores` :math:`\partial L/\partial a` (S,) and `values`
        :math:`\partial L/\partial b` (S,), detached.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1], [2]], labels=[+1, -1], n_tokens=3)
    >>> ts.score_space.gradients(corpus, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]).values
    tensor([-0.1250, -0.1250,  0.2500], dtype=torch.float64)
    """
    counts = _counts_for(corpus, scores := _numbers("scores", scores), values := _numbers("values", values))
    with torch.no_grad():
        attended = _Attended(counts, scores, values)
        margins = counts.labels * attended.logits
        pull = -counts.labels * torch.sigmoid(-margins) / len(margins)
        return Gradients(_logistic(margins), *attended.pull_back(pull, values))


def attention(corpus, scores):
    r"""Return the attention of every sequence on its tokens.

    .. math:: q_{is} = \frac{C_{is} e^{a_s}}{\sum_r C_{ir} e^{a_r}}

    Parameters
    ----------
    corpus : Corpus
    scores : (S,) tensor or array
        As for :func:`logits`.

    Returns
    -------
    (n, S) sparse CSR tensor
        :math:`q`, one entry for each entry of the counts and in their order; every row sums to 1. Its
        `values()` are differentiable with respect to the scores.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1, 1], [2]], labels=[+1, -1], n_tokens=3)
    >>> ts.score_space.attention(corpus, [0.0, 0.0, 5.0]).to_dense()
    tensor([[0.3333, 0.6667, 0.0000],
            [0.0000, 0.0000, 1.0000]], dtype=torch.float64)
    """
    counts = _counts_for(corpus, scores := _numbers("scores", scores))
    own = _OwnShift(counts, torch.arange(counts.labels.shape[0], device=scores.device), scores)
    share = own.weights / own.normaliser.index_select(0, own.row)
    return _csr(counts.matrix.crow_indices(), counts.matrix.col_indices(), share, counts.matrix.shape)


class _Logits(torch.autograd.Function):
    """Scores and values to logits; the backward pass is two columns multiplied by the transposed counts."""

    @staticmethod
    def forward(ctx, scores, values, counts):
        ctx.attended = _Attended(counts, scores, values)
        ctx.save_for_backward(values)  # so that torch notices a change in place before the backward pass
        return ctx.attended.logits.clone()  # the output itself would keep its graph, hence itself, alive

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, pull):
        (values,) = ctx.saved_tensors
        return *ctx.attended.pull_back(pull, values), None


class _Attended:
    r"""One forward pass, and what its backward pass needs again.

    Every row i is *settled* by a shift m for which :math:`Z_i = \sum_s C_{is} e^{a_s-m}` is at least
    :math:`\theta`, the square root of the smallest normal number. A weight that underflows is wrong by less
    than :math:`\theta^2`, so :math:`Z_i` by less than :math:`T_i\theta^2 \le T_i\theta Z_i` and :math:`f_i`
    by less than :math:`T_i\theta(1 + \max|b|)`: far below rounding (:math:`\theta` is 1e-154 in float64 and
    1e-19 in float32). Attention larger than :math:`\theta` keeps its full relative precision, and
    :math:`1/Z_i \le 1/\theta` cannot overflow in the backward pass.
    """

    def __init__(self, counts, scores, values):
        self.counts = counts
        self.shifted = []  # one pair for each shared shift: weights (S,), settled rows (n,)
        self.own = None
        threshold = torch.finfo(scores.dtype).tiny ** 0.5
        self.normaliser, self.logits, unsettled = None, None, None
        eligible = scores if counts.absent is None else scores.masked_fill(counts.absent, -torch.inf)
        for _ in range(_MOST_SHIFTS):
            # Tokens above a lower shift stand in settled rows only: at most 1 keeps them from overflowing.
            weights = (scores - eligible.max()).clamp_(max=0).exp_()
            sums = counts.matrix @ torch.stack((weights, weights * values), 1)  # (n, 2)
            normaliser, logits = sums[:, 0], sums[:, 1] / sums[:, 0]
            settled = normaliser >= threshold
            if unsettled is None:
                self.normaliser, self.logits, unsettled = normaliser, logits, ~settled
            else:
                settled &= unsettled
                self.normaliser = torch.where(settled, normaliser, self.normaliser)
                self.logits = torch.where(settled, logits, self.logits)
                unsettled = unsettled & ~settled
            self.shifted.append((weights, settled))
            left = int(unsettled.sum())
            if left <= _FEW_ROWS * len(unsettled):
                break
            # A row with a weight of at least the threshold is settled, so the others only hold lower scores.
            eligible = eligible.masked_fill(weights >= threshold, -torch.inf)
        if left:
            rows = unsettled.nonzero().squeeze(1)
            self.own = _OwnShift(counts, rows, scores)
            self.own.logits = self.own.sums(self.own.weights * values.index_select(0, self.own.token))
            self.own.logits /= self.own.normaliser
            self.logits = self.logits.index_copy(0, rows, self.own.logits)

    def pull_back(self, pull, values):
        """Return the gradients of the logits, weighted by `pull` (n,), for the scores and for the values."""
        columns = torch.stack((pull, pull * self.logits), 1) / self.normaliser[:, None]
        if len(self.shifted) > 1 or self.own is not None:
            columns = [torch.where(settled[:, None], columns, 0) for _, settled in self.shifted]
        else:
            columns = [columns]
        products = self.counts.transposed @ torch.cat(columns, 1)  # (S, 2 times shifts)
        by_value = sum(w * products[:, 2 * k] for k, (w, _) in enumerate(self.shifted))
        by_score = values * by_value
        by_score -= sum(w * products[:, 2 * k + 1] for k, (w, _) in enumerate(self.shifted))
        if self.own is not None:
            own = self.own
            share = own.weights * (pull.index_select(0, own.rows) / own.normaliser).index_select(0, own.row)
            gap = values.index_select(0, own.token) - own.logits.index_select(0, own.row)
            by_value.index_add_(0, own.token, share)
            by_score.index_add_(0, own.token, share * gap)
        return by_score, by_value


class _OwnShift:
    """Weights relative to each row's own largest score, one for every non-zero count of the given rows."""

    def __init__(self, counts, rows, scores):
        start = counts.matrix.crow_indices().index_select(0, rows).long()
        lengths = counts.matrix.crow_indices().index_select(0, rows + 1).long() - start
        self.rows = rows
        self.row = torch.repeat_interleave(lengths)  # position in `rows` of each non-zero
        first = (start - lengths.cumsum(0) + lengths).index_select(0, self.row)
        entry = first + torch.arange(len(self.row), device=scores.device)
        self.token = counts.matrix.col_indices().index_select(0, entry)
        score = scores.index_select(0, self.token)
        top = score.new_full((len(rows),), -torch.inf).scatter_reduce(0, self.row, score.detach(), "amax")
        below = score - top.index_select(0, self.row)
        self.weights = below.exp() * counts.matrix.values().index_select(0, entry)
        self.normaliser = self.sums(self.weights)

    def sums(self, entries):
        """Add up the entries of each row."""
        return entries.new_zeros(len(self.rows)).index_add(0, self.row, entries)


class _Counts(NamedTuple):
    """A corpus as torch tensors of one dtype on one device."""

    matrix: torch.Tensor  # (n, S) CSR
    transposed: torch.Tensor  # (S, n) CSR
    labels: torch.Tensor  # (n,)
    absent: torch.Tensor | None  # (S,), tokens in no sequence; None if there are none


# Building them takes longer than using them once, so they stay as long as their corpus.
_BUILT = weakref.WeakKeyDictionary()


def _counts_for(corpus, scores, values=None):
    if not isinstance(corpus, Corpus):
        raise TypeError(f"corpus must be a tokensel.Corpus, got {type(corpus).__name__}")
    for name, numbers in (("scores", scores), ("values", values)):
        if numbers is None:
            continue
        if numbers.shape != (corpus.n_tokens,):
            raise ValueError(
                f"{name} must hold one number for each of the corpus's {corpus.n_tokens} tokens, "
                f"shape ({corpus.n_tokens},), got shape {tuple(numbers.shape)}"
            )
        if not (finite := torch.isfinite(numbers)).all():
            token = int((~finite).nonzero()[0])
            raise ValueError(f"{name} must be finite, but token {token} has {float(numbers[token])}")
    if values is not None and (values.dtype, values.device) != (scores.dtype, scores.device):
        raise ValueError(
            f"scores and values must have one dtype and device, got {scores.dtype} on {scores.device} "
            f"and {values.dtype} on {values.device}"
        )
    built = _BUILT.setdefault(corpus, {})
    key = scores.device, scores.dtype
    if key not in built:
        built[key] = _build(corpus, *key)
    return built[key]


def _build(corpus, device, dtype):
    def tensor(matrix):
        # MKL works with 32-bit indices: given longer ones, torch converts them at every product.
        short = np.int32 if max(*matrix.shape, matrix.nnz) < 2**31 else np.int64
        crow, col = (torch.tensor(np.asarray(part, short)) for part in (matrix.indptr, matrix.indices))
        return _csr(crow, col, torch.tensor(matrix.data).to(dtype), matrix.shape).to(device)

    transposed = corpus.counts.T.tocsr()
    absent = torch.tensor(np.diff(transposed.indptr) == 0, device=device)
    return _Counts(
        tensor(corpus.counts),
        tensor(transposed),
        torch.tensor(corpus.labels, dtype=dtype, device=device),
        absent if absent.any() else None,
    )


def _csr(crow, col, values, shape):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state", UserWarning)
        return torch.sparse_csr_tensor(crow, col, values, shape, check_invariants=False)


def _numbers(name, numbers):
    if not isinstance(numbers, torch.Tensor):
        numbers = np.asarray(numbers)
        if numbers.dtype.kind not in "biuf":
            raise TypeError(f"{name} must be real numbers, got {numbers.dtype}")
        numbers = torch.tensor(numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64))
    if numbers.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} must be float32 or float64, got {numbers.dtype}")
    return numbers


def _logistic(margins):
    # softplus switches to its asymptote at 20, which is wrong in the tenth digit.
    return -torch.nn.functional.logsigmoid(margins).mean()
