"""What the cls embedding selects: max-margin solutions in closed form, starts that select, and a trap."""

from typing import NamedTuple

import numpy as np

from tokensel.arguments import as_array, positive_number, real_array, real_number, whole_number


class SymmetricMaxMargin(NamedTuple):
    r"""The max-margin solution :math:`\hat p` where all important tokens of a class play the same part.

    .. math:: \hat p=\mu_+\!\!\sum_{\text{positive}}\!\!e_k+\mu_-\!\!\sum_{\text{negative}}\!\!e_k
        +\mu_0\!\!\sum_{\text{irrelevant}}\!\!e_s\;(+\;p_v v)

    Attributes
    ----------
    on_positive, on_negative, on_irrelevant : float
        :math:`\mu_+`, :math:`\mu_-` and :math:`\mu_0`, one number for every token of the kind.
    along_output : float
        :math:`\hat p\cdot v`.
    squared_norm : float
        :math:`\lVert\hat p\rVert^2`, the limit of time times loss gap.
    effective_important : float
        :math:`K_{\mathrm{eff}}`, with :math:`\lVert\hat p\rVert^2=K_{\mathrm{eff}}M/(K_{\mathrm{eff}}+M)`.

    Examples
    --------
    That of :func:`tokensel.theory.orthonormal_max_margin`.
    """

    on_positive: float
    on_negative: float
    on_irrelevant: float
    along_output: float
    squared_norm: float
    effective_important: float


def orthonormal_max_margin(n_positive, n_negative, n_irrelevant, magnitude=1.0):
    r"""The max-margin solution that selects the important tokens, for orthonormal embeddings.

    .. math::

        \hat p=\tfrac{M}{K+M}\sum_{\text{important}}E_k-\tfrac{K}{K+M}\sum_{\text{irrelevant}}E_s,\qquad
        \lVert\hat p\rVert^2=\tfrac{KM}{K+M},\qquad \hat p\cdot v=\tfrac{M}{K+M}\,B\,(K_+-K_-)

    Each sequence holds one important token. The formula holds if and only if every group A of important
    tokens meets its share of the irrelevant ones: at least :math:`|A|M/K` of them. So it does where every
    important token meets every irrelevant one, or where the margins balance: all lengths are equal, every
    important token stands, once, in equally many sequences, and every irrelevant token equally often in all.

    Parameters
    ----------
    n_positive, n_negative : int
        :math:`K_+` and :math:`K_-`, the important tokens of each sign; :math:`K=K_++K_-\ge1`.
    n_irrelevant : int
        M, at least 1.
    magnitude : float, default 1
        :math:`B\ge0`: important tokens have values :math:`\pm B`, irrelevant ones 0. Only
        ``along_output`` depends on it.

    Returns
    -------
    SymmetricMaxMargin
        ``effective_important`` is K.

    Raises
    ------
    ValueError, TypeError
        A size is not a whole number or too small, or ``magnitude`` is negative or not finite.

    Notes
    -----
    Our derivation: KKT with all pairs tight. Proved in the chapter "Why the important tokens win"
    (prop-closed-form).

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.orthonormal_max_margin(2, 2, 4)
    SymmetricMaxMargin(on_positive=0.5, on_negative=0.5, on_irrelevant=-0.5, along_output=0.0,
                       squared_norm=2.0, effective_important=4.0)
    """
    n_positive, n_negative, n_irrelevant = _sizes(n_positive, n_negative, n_irrelevant)
    magnitude = real_number("magnitude", magnitude, 0)
    n_important = n_positive + n_negative
    important = n_irrelevant / (n_important + n_irrelevant)
    return SymmetricMaxMargin(
        on_positive=important,
        on_negative=important,
        on_irrelevant=-n_important / (n_important + n_irrelevant),
        along_output=important * magnitude * (n_positive - n_negative),
        squared_norm=n_important * important,
        effective_important=float(n_important),
    )


def one_step_max_margin(n_positive, n_negative, n_irrelevant, magnitude):
    r"""The max-margin solution for the embeddings that one gradient step makes, :math:`E_s=e_s+b_sv`.

    .. math::

        K_{\mathrm{eff}}=K-\frac{B^2\Delta^2}{1+B^2K},\qquad
        \lVert\hat p\rVert^2=\frac{K_{\mathrm{eff}}M}{K_{\mathrm{eff}}+M},\qquad
        \hat p\cdot v=\frac{B\Delta}{1+B^2K}\,\frac{M}{K_{\mathrm{eff}}+M},\qquad\Delta=K_+-K_-

    with :math:`e_s` orthonormal and orthogonal to v, :math:`\lVert v\rVert=1`, values :math:`\pm B` on the
    important and 0 on the irrelevant tokens. Each sequence holds one important token, and every important
    token meets every irrelevant one.

    Parameters
    ----------
    n_positive, n_negative, n_irrelevant : int
        :math:`K_+`, :math:`K_-` and M, as in `orthonormal_max_margin`.
    magnitude : float
        :math:`B\ge0`. At 0 the numbers are those of `orthonormal_max_margin`.

    Returns
    -------
    SymmetricMaxMargin
        The coefficients are those on the :math:`e_s`, beside ``along_output`` on v.

    Raises
    ------
    ValueError, TypeError
        As in `orthonormal_max_margin`.

    Notes
    -----
    :math:`\hat p` is orthogonal to v exactly where both classes have as many important tokens. Our
    derivation, proved in the chapter "Why the important tokens win" (thm-one-step-embeddings).

    Examples
    --------
    >>> from tokensel import theory
    >>> solution = theory.one_step_max_margin(n_positive=2, n_negative=0, n_irrelevant=3, magnitude=1.0)
    >>> round(solution.effective_important, 4), round(solution.squared_norm, 4)
    (0.6667, 0.5455)
    """
    n_positive, n_negative, n_irrelevant = _sizes(n_positive, n_negative, n_irrelevant)
    magnitude = real_number("magnitude", magnitude, 0)
    n_important = n_positive + n_negative
    # Both of these, and the sums below, are sums of positive terms: nothing cancels for large B.
    shrink = 1 / (1 + magnitude * magnitude * n_important)
    weight = 1 / (n_important + 1 / magnitude / magnitude) if magnitude else 0.0  # B^2 / (1 + B^2 K)
    effective = n_important * shrink + 4 * n_positive * n_negative * weight
    gap = n_irrelevant / (effective + n_irrelevant)  # 1 - nu
    bend = magnitude and (n_positive - n_negative) / (1 / magnitude + magnitude * n_important)
    return SymmetricMaxMargin(
        on_positive=gap * (shrink + 2 * n_negative * weight),
        on_negative=gap * (shrink + 2 * n_positive * weight),
        on_irrelevant=-effective / (effective + n_irrelevant),
        along_output=gap * bend,
        squared_norm=effective * gap,
        effective_important=effective,
    )


def trap_boundary(n_positive, n_irrelevant, positive_value):
    r"""The value of a single negative token above which its class can be lost.

    .. math:: b_-^*=b_++\Big(\frac1{K_+}+\frac2M\Big)\frac1{b_+}

    Embeddings as in `one_step_max_margin`, but with values :math:`b_+` on :math:`K_+` positive tokens,
    :math:`-b_-` on one negative token and 0 on M irrelevant ones; sequences of one important and one
    irrelevant token, all pairs. Where :math:`b_->b_-^*` an open set of starts ends with every negative
    sequence on an irrelevant token; where :math:`b_-<b_-^*` no start does.

    Parameters
    ----------
    n_positive, n_irrelevant : int
        :math:`K_+` and M, at least 1.
    positive_value : float
        :math:`b_+>0`.

    Returns
    -------
    float
        :math:`b_-^*`.

    Raises
    ------
    ValueError, TypeError
        A size is not a positive whole number, or ``positive_value`` not a positive one.

    Notes
    -----
    Our derivation: proposition "prop-trap-boundary" of the chapter "Where selection stops". Which starts are
    trapped is not known in closed form; the nearer to the boundary, the farther out they are.

    Examples
    --------
    >>> from tokensel import theory
    >>> theory.trap_boundary(n_positive=2, n_irrelevant=4, positive_value=1.0)
    2.0
    """
    n_positive = whole_number("n_positive", n_positive)
    n_irrelevant = whole_number("n_irrelevant", n_irrelevant)
    positive_value = positive_number("positive_value", positive_value)
    return positive_value + (1 / n_positive + 2 / n_irrelevant) / positive_value


class Advantages(NamedTuple):
    r"""What attention can reach in each sequence, and what it gets from the wrong tokens.

    Attributes
    ----------
    best : ndarray, (n,)
        :math:`\bar m_i=\max_{s\in X_i}y_ib_s`.
    others : ndarray, (n,)
        :math:`m_i`, the same over the tokens of :math:`X_i` that are not important; :math:`-\infty` where
        there are none.

    Examples
    --------
    That of :func:`tokensel.theory.advantages`.
    """

    best: np.ndarray
    others: np.ndarray


def advantages(counts, labels, values, important):
    r"""Largest :math:`y_ib_s` of each sequence, over all its tokens and over those that are not important.

    Parameters
    ----------
    counts : numpy.ndarray or scipy.sparse array
        Shape (n, S), as ``Corpus.counts``; only which tokens stand where matters.
    labels : array_like
        y of shape (n,), each +1 or -1.
    values : array_like
        b of shape (S,).
    important : array_like
        Shape (S,), bool: which tokens are important.

    Returns
    -------
    Advantages
        ``best`` and ``others``.

    Raises
    ------
    ValueError, TypeError
        The shapes do not fit; or the tokens are not important: a sequence holds none of them, or one of its
        other tokens has a :math:`y_ib_s` as large as one of them.

    Notes
    -----
    Important tokens in the sense of the chapter "Why the important tokens win" (thm-good-start), if one set
    serves all sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from tokensel import theory
    >>> theory.advantages([[1, 0, 2], [0, 1, 1]], [1, -1], [0.5, -2.0, 0.1], [True, True, False])
    Advantages(best=array([0.5, 2. ]), others=array([ 0.1, -0.1]))
    """
    from scipy.sparse import coo_array

    counts = counts if hasattr(counts, "tocoo") else real_array("counts", counts)
    if counts.ndim != 2 or 0 in counts.shape:
        raise ValueError(f"counts must have shape (n, S), none of them 0; got {counts.shape}")
    counts = coo_array(counts)
    labels, values = as_array("labels", labels), real_array("values", values)
    important = as_array("important", important)
    n_sequences, n_tokens = counts.shape
    if labels.shape != (n_sequences,) or not np.isin(labels, (-1, 1)).all():
        raise ValueError(f"labels must be {n_sequences} numbers +1 or -1, one a sequence; got {labels}")
    if values.shape != (n_tokens,) or not np.isfinite(values).all():
        raise ValueError(f"values must be {n_tokens} finite numbers, one a token; got {values}")
    if important.shape != (n_tokens,) or important.dtype != bool:
        raise ValueError(f"important must be {n_tokens} times True or False, one a token; got {important}")
    row, token = (index[counts.data > 0] for index in counts.coords)
    signed, kind = labels[row] * values[token], important[token]
    best, others, least = (np.full(n_sequences, start) for start in (-np.inf, -np.inf, np.inf))
    np.maximum.at(best, row, signed)
    np.maximum.at(others, row[~kind], signed[~kind])
    np.minimum.at(least, row[kind], signed[kind])
    for i in np.flatnonzero(np.isinf(least) | (least <= others)):
        if np.isinf(least[i]):
            raise ValueError(f"every sequence must hold an important token, but sequence {i} holds none")
        raise ValueError(
            f"important tokens must suit the label better than others, but in sequence {i} an important "
            f"token has y b = {least[i]:g} and another {others[i]:g}"
        )
    return Advantages(best, others)


def good_start_threshold(best, others):
    r"""The loss gap below which a start selects the important tokens.

    .. math:: L(0)-L_{\text{best}}\le\frac1n\min_i\,[\ell(m_i)-\ell(\bar m_i)],\qquad\ell(x)=\log(1+e^{-x})

    Where one global set of tokens is important (as `advantages` checks) and some u has
    :math:`Eu=\mathbf 1_{\text{important}}+c\mathbf 1`, gradient flow from such a start brings attention on
    important tokens to 1 in every sequence. No larger number would do for all corpora: in
    `traps.outvoted`, starts that exceed it by as little as one likes are trapped.

    Parameters
    ----------
    best, others : array_like
        :math:`\bar m_i` and :math:`m_i` of shape (n,), from `advantages`.

    Returns
    -------
    float
        The right-hand side; infinite where every sequence holds important tokens only.

    Raises
    ------
    ValueError, TypeError
        The two are not arrays of one length, ``best`` is not finite, or not above ``others``.

    Notes
    -----
    Our derivation of the paper's argument that the loss of a wrong selection would exceed that of the start.
    Proved in the chapter "Why the important tokens win" (thm-good-start), for more general u.

    Examples
    --------
    >>> from tokensel import theory
    >>> round(theory.good_start_threshold(best=[1.0, 1.0], others=[0.0, 0.0]), 4)  # (log 2 - l(1)) / 2
    0.1899
    """
    best, others = _ordered(best, others)
    jump = np.logaddexp(0, -others) - np.logaddexp(0, -best)
    return float(jump.min() / len(best))


def good_start_attention(loss_gap, best, others):
    r"""Attention on important tokens that a good start never goes below, in any sequence.

    .. math::

        \theta=\min_i\frac{\ell^{-1}(nD_0+\ell(\bar m_i))-m_i}{\bar m_i-m_i},\qquad
        \ell^{-1}(y)=-\log(e^y-1)

    Enters the bound of `log_loss_gap_bound`.

    Parameters
    ----------
    loss_gap : float
        :math:`D_0=L(0)-L_{\text{best}}`, not negative and below `good_start_threshold`.
    best, others : array_like
        :math:`\bar m_i` and :math:`m_i` of shape (n,), from `advantages`.

    Returns
    -------
    float
        :math:`\theta`, above 0 and at most 1.

    Raises
    ------
    ValueError, TypeError
        As in `good_start_threshold`; or the start is not good: ``loss_gap`` reaches the threshold.

    Notes
    -----
    Proved in the chapter "Why the important tokens win" (thm-good-start).

    Examples
    --------
    >>> from tokensel import theory
    >>> round(theory.good_start_attention(0.1, best=[1.0, 1.0], others=[0.0, 0.0]), 4)
    0.3994
    """
    best, others = _ordered(best, others)
    loss_gap = real_number("loss_gap", loss_gap, 0)
    threshold = good_start_threshold(best, others)
    if loss_gap >= threshold:
        raise ValueError(
            f"loss_gap must be below good_start_threshold, {threshold:.6g}, for the start to select; "
            f"got {loss_gap:.6g}"
        )
    mixed = np.isfinite(others)
    if not mixed.any():
        return 1.0
    best, others = best[mixed], others[mixed]
    loss = len(mixed) * loss_gap + np.logaddexp(0, -best)  # the largest that the sequence can have
    inverse = -loss - np.log(-np.expm1(-loss))
    return float(min(1.0, ((inverse - others) / (best - others)).min()))


def _ordered(best, others):
    best, others = real_array("best", best), real_array("others", others)
    if best.ndim != 1 or not best.size or best.shape != others.shape:
        raise ValueError(
            "best and others must have one number a sequence each, got shapes "
            f"{best.shape} and {others.shape}"
        )
    wrong = np.flatnonzero(~(np.isfinite(best) & (others < best)))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"best must be finite and above others, but in sequence {i} they are {best[i]} and {others[i]}"
        )
    return best, others


def _sizes(n_positive, n_negative, n_irrelevant):
    n_positive = whole_number("n_positive", n_positive, 0)
    n_negative = whole_number("n_negative", n_negative, 0)
    if n_positive + n_negative == 0:
        raise ValueError("n_positive and n_negative must not both be 0: no token would be important")
    return n_positive, n_negative, whole_number("n_irrelevant", n_irrelevant)
