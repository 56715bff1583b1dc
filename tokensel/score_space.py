r"""The model and its gradients in score space: what depends on the scores and values of the vocabulary alone.

The embeddings enter the logits only through the :math:`2S` numbers :math:`a = Ep` and :math:`b = Ev`. So a
forward pass is two columns multiplied by the counts, a backward pass is two columns multiplied by their
transpose, and nothing of size sequences times length times dimension is ever formed.
"""

import math
import warnings
import weakref
from typing import NamedTuple

import numpy as np
import torch

from tokensel import memory
from tokensel.arguments import real_array, token_mask
from tokensel.corpus import Corpus

# Sequences too far below the first shift get a lower one, which they share: so many times at most, and while
# more than this share of all sequences is left. The rest get one each. One more shared shift costs about two
# thirds of a gradient; a shift each, for all sequences, about fifteen gradients.
_MOST_SHIFTS = 8
_FEW_ROWS = 1 / 32


class Gradients(NamedTuple):
    r"""The loss and its gradients with respect to scores and values, as :func:`gradients` returns them.

    Examples
    --------
    That of :func:`tokensel.score_space.gradients`.
    """

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
        :math:`b`, of the same dtype and on the same device as the scores. An array goes where the scores are.

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
    MemoryError
        If the counts do not fit on the device: they are made there once per dtype, with their transpose.

    Notes
    -----
    A sequence's normaliser :math:`Z_i = \sum_s C_{is} e^{a_s - m}` is relative to a shift :math:`m`. The
    largest score serves every sequence whose :math:`Z_i` stays far from underflow; the others are computed
    again with a lower shift, in the end with their own largest score. On CUDA these last sums have
    no fixed order, and their last digits may differ from run to run.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1, 1], [2]], labels=[+1, -1], n_tokens=3)
    >>> ts.score_space.logits(corpus, [0.0, 0.0, 5.0], [3.0, 0.0, -1.0])
    tensor([ 1., -1.], dtype=torch.float64)
    """
    scores, values = _real_tensors(scores, values)
    counts = _counts_for(corpus, scores, values)
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
    scores, values = _real_tensors(scores, values)
    counts = _counts_for(corpus, scores, values)
    return _logistic(counts.labels * _Logits.apply(scores, values, counts))


def gradients(corpus, scores, values):
    r"""Return the logistic loss and its gradients with respect to scores and values, without autograd.

    With :math:`g_i = y_i \operatorname{sigmoid}(-y_i f_i)`,

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
    scores, values = _real_tensors(scores, values)
    counts = _counts_for(corpus, scores, values)
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
    scores = real_tensor("scores", scores)
    counts = _counts_for(corpus, scores)
    n_pairs, index = counts.matrix.values().shape[0], counts.matrix.col_indices().element_size()
    memory.require(
        # Of every pair its row, its place and its token, and four numbers on the way to its weight.
        n_pairs * (16 + index + 4 * scores.element_size()),
        f"the attention of {corpus.n_sequences:,} sequences on {n_pairs:,} distinct tokens",
        scores.device,
    )
    own = _OwnShift(counts, torch.arange(counts.labels.shape[0], device=scores.device), scores)
    share = own.weights / own.normaliser.index_select(0, own.row)
    return _csr(counts.matrix.crow_indices(), counts.matrix.col_indices(), share, counts.matrix.shape)


def attention_on(corpus, scores, tokens):
    r"""Return how much attention each sequence gives to a set of tokens, taken together.

    .. math:: Q_i = \sum_{s \in \mathcal S} q_{is}

    Parameters
    ----------
    corpus : Corpus
    scores : (S,) tensor or array
        As for :func:`attention`.
    tokens : sequence of int, or (S,) array of bool
        :math:`\mathcal S`: ids of tokens, or a mask over the vocabulary.

    Returns
    -------
    (n,) tensor
        :math:`Q`, from 0 to 1.

    Raises
    ------
    TypeError, ValueError
        If the scores do not suit, or the tokens are neither ids of the vocabulary nor such a mask.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1, 1, 2], [2, 2]], labels=[+1, -1], n_tokens=3)
    >>> ts.score_space.attention_on(corpus, [0.0, 0.0, 0.0], [0, 1])
    tensor([0.7500, 0.0000], dtype=torch.float64)
    """
    shares = attention(corpus, scores).detach()
    return shares @ torch.from_numpy(token_mask(tokens, corpus.n_tokens)).to(shares)


class Heaviest(NamedTuple):
    r"""The token of each sequence that has most attention, as :func:`heaviest` returns it.

    Examples
    --------
    That of :func:`tokensel.score_space.heaviest`.
    """

    tokens: torch.Tensor
    attention: torch.Tensor


def heaviest(corpus, scores):
    r"""Return the token that has most attention in each sequence, and how much it has.

    .. math:: \sigma(i) = \arg\max_s q_{is}, \qquad q_{i\sigma(i)}

    Once attention has selected, this is the token of highest score, and the logit is its value. Before, a
    token that stands there more often may outweigh it.

    Parameters
    ----------
    corpus : Corpus
    scores : (S,) tensor or array
        As for :func:`attention`.

    Returns
    -------
    Heaviest
        ``tokens``, an (n,) int64 tensor of ids, the lowest where several have as much; ``attention``, an (n,)
        tensor.

    Raises
    ------
    TypeError, ValueError
        If the scores do not suit.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1, 1], [2, 0]], labels=[+1, -1], n_tokens=3)
    >>> tokens, shares = ts.score_space.heaviest(corpus, [0.0, 0.0, 1.0])
    >>> tokens.tolist(), shares.numpy().round(3).tolist()
    ([1, 2], [0.667, 0.731])
    """
    shares = attention(corpus, scores).detach()
    first, last = shares.crow_indices()[:-1], shares.crow_indices()[1:]
    rows = torch.repeat_interleave(torch.arange(len(corpus), device=first.device), last - first)
    most = shares.values().new_zeros(len(corpus)).scatter_reduce(0, rows, shares.values(), "amax")
    there = shares.values() == most[rows]
    tokens = torch.full_like(first, corpus.n_tokens)
    tokens = tokens.scatter_reduce(0, rows[there], shares.col_indices()[there].to(tokens.dtype), "amin")
    return Heaviest(tokens.long(), most)


class _Logits(torch.autograd.Function):
    """Scores and values to logits; the backward pass is two columns multiplied by the transposed counts."""

    @staticmethod
    def forward(ctx, scores, values, counts):
        ctx.attended = _Attended(counts, scores, values)
        ctx.save_for_backward(values)  # so that torch notices a change in place before the backward pass
        return ctx.attended.logits.clone()  # the output itself would keep its graph, hence itself, alive

    @staticmethod
    def backward(ctx, pull):
        # torch's own mark, once_differentiable, lets torch.autograd.grad return zeros as second derivatives.
        if torch.is_grad_enabled():
            raise RuntimeError("logits and loss can be differentiated once only: no create_graph=True")
        (values,) = ctx.saved_tensors
        return *ctx.attended.pull_back(pull, values), None


class _Attended:
    r"""One forward pass, and what its backward pass needs again.

    A shift m *settles* row i if :math:`Z_i = \sum_s C_{is} e^{a_s-m} \ge \theta = \omega/\epsilon^2`,
    with :math:`\omega` the smallest normal number and :math:`\epsilon` the distance from 1 to the next
    one. A weight that underflows, or its product with a value, is wrong by at most :math:`\omega`. So
    :math:`Z_i` is wrong by at most the share :math:`T_i\epsilon^2`, :math:`f_i` by at most
    :math:`T_i\epsilon^2(1 + 2\max_s|b_s|)`, and attention by :math:`\epsilon^2` a token: all far below
    rounding. What remains is the rounding of :math:`a_s - m`, which moves a score by :math:`\epsilon/2`
    of that distance at most.

    A shift is the largest score it has to serve if the others are within reach of it,
    :math:`-\log\theta`: 636 in float64, 55 in float32. Else it is lower by what they lack, up to as
    much again. Then weights are at most :math:`1/\theta`, as :math:`1/Z_i` is: sums, here and in the
    backward pass, stay finite as long as :math:`T_i\max_s|b_s|` is below 1e31 in float64 and 1e14 in
    float32, and a quotient that underflows has cost at most :math:`\epsilon^2` once it is multiplied by
    a weight.
    """

    def __init__(self, counts, scores, values):
        self.counts = counts
        self.shared = []  # for each shift that rows share: weights (S,), rows it settled (n,)
        unsettled = torch.ones_like(counts.labels, dtype=torch.bool)
        self.normaliser, numerator = torch.ones_like(counts.labels), torch.zeros_like(counts.labels)
        threshold = torch.finfo(scores.dtype).tiny / torch.finfo(scores.dtype).eps ** 2
        reach = -math.log(threshold)
        left = scores
        for _ in range(_MOST_SHIFTS):
            top = left.max()
            lift = (top - scores.min() - reach).clamp(0, reach)
            # Scores above the top belong to settled rows only: they could overflow, and are not used.
            weights = (scores - (top - lift)).clamp_(max=lift).exp_()
            sums = counts.matrix @ torch.stack((weights, weights * values), 1)  # (n, 2)
            settled = unsettled & (sums[:, 0] >= threshold)
            self.normaliser = torch.where(settled, sums[:, 0], self.normaliser)
            numerator = torch.where(settled, sums[:, 1], numerator)
            self.shared.append((weights, settled))
            unsettled &= ~settled
            if unsettled.count_nonzero() <= _FEW_ROWS * len(unsettled):
                break
            # A single token of weight at least the threshold settles its row: only lower scores are left.
            left = left.masked_fill(weights >= threshold, -torch.inf)
        self.logits = numerator / self.normaliser
        self.own = None
        if unsettled.any():
            self.own = _OwnShift(counts, unsettled.nonzero().squeeze(1), scores)
            self.own.logits = self.own.sums(self.own.weights * values.index_select(0, self.own.token))
            self.own.logits /= self.own.normaliser
            self.logits.index_copy_(0, self.own.rows, self.own.logits)

    def pull_back(self, pull, values):
        """Return the gradients, in scores and in values, of the sum of the logits weighted by `pull` (n,)."""
        share = pull / self.normaliser
        columns = [torch.where(rows, x, 0) for _, rows in self.shared for x in (share, share * self.logits)]
        products = self.counts.transposed @ torch.stack(columns, 1)  # (S, 2 for each shift)
        by_score, by_value = torch.zeros_like(values), torch.zeros_like(values)
        for (weights, _), (pulled, times_logits) in zip(self.shared, products.t().split(2), strict=True):
            by_value.addcmul_(weights, pulled)
            by_score.addcmul_(weights, values * pulled - times_logits)
        if self.own is not None:
            self.own.add_pull_back(pull, values, by_score, by_value)
        return by_score, by_value


class _OwnShift:
    """Some rows, each with its own largest score as its shift: one weight for every non-zero count."""

    def __init__(self, counts, rows, scores):
        crow, col = counts.matrix.crow_indices(), counts.matrix.col_indices()
        start, end = crow.index_select(0, rows).long(), crow.index_select(0, rows + 1).long()
        self.rows = rows
        self.row = torch.repeat_interleave(end - start)  # which of the rows each non-zero is in
        entry = torch.arange(len(self.row), device=rows.device)
        entry += (end - (end - start).cumsum(0)).index_select(0, self.row)
        self.token = col.index_select(0, entry)
        score = scores.index_select(0, self.token)
        top = score.new_full(rows.shape, -torch.inf).scatter_reduce(0, self.row, score.detach(), "amax")
        self.weights = (score - top.index_select(0, self.row)).exp_()
        self.weights = self.weights * counts.matrix.values().index_select(0, entry)
        self.normaliser = self.sums(self.weights)

    def sums(self, entries):
        """Add up the entries of each row."""
        return entries.new_zeros(self.rows.shape).index_add(0, self.row, entries)

    def add_pull_back(self, pull, values, by_score, by_value):
        share = (pull.index_select(0, self.rows) / self.normaliser).index_select(0, self.row) * self.weights
        by_value.index_add_(0, self.token, share)
        gap = values.index_select(0, self.token) - self.logits.index_select(0, self.row)
        by_score.index_add_(0, self.token, share * gap)


class _Counts(NamedTuple):
    """A corpus as torch tensors of one dtype on one device."""

    matrix: torch.Tensor  # (n, S) CSR
    transposed: torch.Tensor  # (S, n) CSR
    labels: torch.Tensor  # (n,)


# Building them takes longer than using them once, so they stay as long as their corpus.
_BUILT = weakref.WeakKeyDictionary()


def _counts_for(corpus, scores, values=None):
    """Check the arguments and return the corpus's counts in the dtype and on the device of the scores."""
    if not isinstance(corpus, Corpus):
        raise TypeError(f"corpus must be a tokensel.Corpus, got {type(corpus).__name__}")
    for name, numbers in (("scores", scores), ("values", values)):
        if numbers is None:
            continue
        if numbers.shape != (corpus.n_tokens,):
            raise ValueError(
                f"{name} must hold one number for each of the {corpus.n_tokens:,} tokens of the corpus, "
                f"shape ({corpus.n_tokens},), got shape {tuple(numbers.shape)}"
            )
        if not (finite := torch.isfinite(numbers)).all():
            token = int((~finite).nonzero()[0])
            raise ValueError(f"{name} must be finite, but token {token} has {numbers[token].item()}")
    if values is not None and (values.dtype, values.device) != (scores.dtype, scores.device):
        raise ValueError(
            f"scores and values must have the same dtype and device, got {scores.dtype} on {scores.device} "
            f"and {values.dtype} on {values.device}"
        )
    built = _BUILT.setdefault(corpus, {})
    key = scores.dtype, scores.device
    if key not in built:
        with torch.inference_mode(False):  # else they would never again serve a backward pass
            built[key] = _build(corpus, *key)
    return built[key]


def _build(corpus, dtype, device):
    from scipy.sparse import csr_array

    counts, real = corpus.counts, np.float32 if dtype == torch.float32 else np.float64
    index = _index_type(counts)
    (n_sequences, n_tokens), n_pairs = counts.shape, counts.nnz
    n_bytes = 2 * n_pairs * (index().itemsize + real().itemsize) + n_sequences * real().itemsize
    n_bytes += (n_sequences + n_tokens + 2) * index().itemsize
    for place in dict.fromkeys(("cpu", str(device))):  # they are made on the CPU
        memory.require(
            n_bytes,
            f"the counts of {n_sequences:,} sequences with {n_pairs:,} distinct (sequence, token) pairs, "
            f"and their transpose, in {np.dtype(real)}",
            place,
        )
    # Each array is made once, in its final type: at the peak there are these and no others.
    matrix = csr_array(
        (np.array(counts.data, real), np.array(counts.indices, index), np.array(counts.indptr, index)),
        shape=counts.shape,
    )
    parts = (
        _csr(*(torch.from_numpy(part).to(device) for part in (m.indptr, m.indices, m.data)), m.shape)
        for m in (matrix, matrix.T.tocsr())
    )
    return _Counts(*parts, torch.from_numpy(np.array(corpus.labels, real)).to(device))


def _index_type(counts):
    # MKL multiplies with 32-bit indices: longer ones are converted at every product.
    return np.int32 if max(*counts.shape, counts.nnz) < 2**31 else np.int64


def _csr(crow, col, values, shape):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state", UserWarning)
        return torch.sparse_csr_tensor(crow, col, values, shape, check_invariants=False)


def _real_tensors(scores, values):
    scores = real_tensor("scores", scores)
    return scores, real_tensor("values", values, scores.device)


def real_tensor(name, numbers, device="cpu"):
    """Return numbers as a tensor: float32 and float64 are kept, integers and lists become float64.

    A tensor stays where it is; an array or a list goes to the device.

    Parameters
    ----------
    name : str
        What the numbers are called in an error.
    numbers : tensor or array_like
    device : torch.device or str, default "cpu"

    Returns
    -------
    torch.Tensor

    Raises
    ------
    TypeError
        If a tensor is neither real nor of integers, or an array holds no numbers.
    ValueError
        If an array holds NaN or an infinite number.

    Examples
    --------
    >>> real_tensor("scores", [1, 2])
    tensor([1., 2.], dtype=torch.float64)
    """
    if not isinstance(numbers, torch.Tensor):
        single = getattr(numbers, "dtype", None) == np.float32
        numbers = real_array(name, numbers).astype(np.float32 if single else np.float64)
        return torch.tensor(numbers, device=device)
    if numbers.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        return numbers.double()
    if numbers.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} must be float32 or float64, got {numbers.dtype}")
    return numbers


def _logistic(margins):
    # torch's softplus is not exact enough: from 20 on it returns its argument, wrong in the tenth digit.
    return torch.logaddexp(-margins, margins.new_zeros(())).mean()
