"""Synthetic corpora, each sampler named after the hypothesis that its corpora satisfy."""

import itertools
import math

import numpy as np

from tokensel.arguments import generator, real_number, whole_number
from tokensel.corpus import Corpus


def one_important_token(n_sequences=200, length=8, n_important=6, n_irrelevant=20, seed=0, mirror=True):
    r"""Each sequence holds one important token, once, among irrelevant ones.

    With :math:`K` = ``n_important`` and :math:`M` = ``n_irrelevant``: the tokens 0 to :math:`K/2-1` are
    completely positive, :math:`K/2` to :math:`K-1` completely negative, and :math:`K` to :math:`K+M-1`
    irrelevant. A sequence of class :math:`y` holds one important token of that class and ``length - 1``
    irrelevant tokens, drawn uniformly and with replacement. All important tokens of a class are used equally
    often, up to one sequence.

    Sequences come in pairs: :math:`2j` is positive, :math:`2j+1` negative. In a *mirrored* corpus both hold
    the same irrelevant tokens, so that :math:`\alpha_s=0` exactly for each of these, also in
    ``corpus[:2 * j]``. (In a small corpus an irrelevant token may not be drawn at all.)
    Drawn independently (``mirror=False``), irrelevant tokens have :math:`\alpha_s\ne0` by chance, of order
    :math:`n^{-1/2}`, and can be selected for it.

    Parameters
    ----------
    n_sequences : int, default 200
        Even, and at least ``n_important``, so that each important token is used.
    length : int, default 8
        Tokens in each sequence, at least 2.
    n_important : int, default 6
        Even: half of them positive, half negative.
    n_irrelevant : int, default 20
    seed : int or numpy.random.Generator, default 0
    mirror : bool, default True
        Use each drawn multiset of irrelevant tokens in a positive and in a negative sequence.

    Returns
    -------
    Corpus
        ``n_sequences`` sequences over ``n_important + n_irrelevant`` tokens, without a vocabulary.

    Raises
    ------
    TypeError
        If a size is not an int, ``seed`` neither an int nor a Generator, or ``mirror`` not a bool.
    ValueError
        If a size is too small, or ``n_sequences`` or ``n_important`` odd.

    Examples
    --------
    >>> corpus = one_important_token(n_sequences=20, length=4, n_important=2, n_irrelevant=3, seed=0)
    >>> corpus
    Corpus(20 sequences: 10 positive, 10 negative; 4 tokens long; vocabulary of 5 tokens)
    >>> corpus.average_signed_frequency
    array([ 0.125, -0.125,  0.   ,  0.   ,  0.   ])
    """
    n_important = _even("n_important", n_important)
    n_sequences = _even("n_sequences", n_sequences)
    if n_sequences < n_important:
        raise ValueError(
            f"n_sequences must be at least n_important, so that each important token is used; "
            f"got {n_sequences} sequences for {n_important} important tokens"
        )
    length = whole_number("length", length, 2)
    n_irrelevant = whole_number("n_irrelevant", n_irrelevant)
    if not isinstance(mirror, bool):
        raise TypeError(f"mirror must be True or False, got {mirror!r}")
    rng = generator(seed)

    n_pairs, half = n_sequences // 2, n_important // 2
    important = np.stack([rng.permutation(np.arange(n_pairs) % half) + k for k in (0, half)], axis=1)
    irrelevant = rng.integers(n_important, n_important + n_irrelevant, size=(n_pairs, 2, length - 1))
    if mirror:
        irrelevant[:, 1] = irrelevant[:, 0]
    sequences = np.concatenate([important[:, :, None], irrelevant], axis=2)  # (pair, class, place)
    labels = np.tile([1, -1], n_pairs)
    return Corpus.from_sequences(sequences.reshape(n_sequences, length), labels, n_important + n_irrelevant)


def random_tokens(n_sequences=200, n_tokens=50, shortest=1, longest=12, positive_share=0.5, zipf=0.0, seed=0):
    r"""Tokens, lengths and labels drawn independently: nothing but chance ties a token to a class.

    Each length is uniform on ``shortest`` to ``longest``; each place holds token :math:`s` with probability
    proportional to :math:`(s+1)^{-z}`, whatever stands elsewhere, so tokens repeat. The number of positive
    sequences is fixed and their places are drawn. This is the corpus without hypotheses: what holds for any
    corpus must hold for each of these, and with few sequences they are as irregular as can be.

    Parameters
    ----------
    n_sequences : int, default 200
    n_tokens : int, default 50
        Size of the vocabulary; in a small corpus some tokens may stand nowhere.
    shortest, longest : int, default 1 and 12
        Range of the lengths, both included.
    positive_share : float from 0 to 1, default 0.5
        ``round(positive_share * n_sequences)`` sequences are positive; 0 and 1 give one class alone.
    zipf : float, default 0.0
        :math:`z\ge0`. At 0 all tokens are equally frequent; words of a language have :math:`z\approx1`.
    seed : int or numpy.random.Generator, default 0

    Returns
    -------
    Corpus

    Raises
    ------
    TypeError
        If a size is not an int, ``seed`` neither an int nor a Generator, or ``positive_share`` or ``zipf``
        not a number.
    ValueError
        If a size is not positive, ``longest`` below ``shortest``, ``positive_share`` outside 0 to 1, or
        ``zipf`` negative or not finite.

    Examples
    --------
    >>> corpus = random_tokens(n_sequences=30, n_tokens=9, shortest=2, longest=5, positive_share=0.9, seed=0)
    >>> int((corpus.labels == 1).sum()), int(corpus.lengths.min()), int(corpus.lengths.max())
    (27, 2, 5)
    """
    n_sequences = whole_number("n_sequences", n_sequences)
    n_tokens = whole_number("n_tokens", n_tokens)
    shortest = whole_number("shortest", shortest)
    longest = whole_number("longest", longest)
    if longest < shortest:
        raise ValueError(f"longest must be at least shortest, got {longest} and {shortest}")
    if not 0 <= real_number("positive_share", positive_share) <= 1:
        raise ValueError(f"positive_share must be from 0 to 1, got {positive_share}")
    zipf = real_number("zipf", zipf, 0)
    rng = generator(seed)

    lengths = rng.integers(shortest, longest, size=n_sequences, endpoint=True)
    weights = np.arange(1, n_tokens + 1) ** -zipf
    tokens = rng.choice(n_tokens, size=lengths.sum(), p=weights / weights.sum())
    labels = np.full(n_sequences, -1)
    labels[rng.permutation(n_sequences)[: round(positive_share * n_sequences)]] = 1
    return Corpus.from_sequences(np.split(tokens, np.cumsum(lengths)[:-1]), labels, n_tokens)


def graded_tokens(n_sequences=2000, n_tokens=21, length=8, seed=0):
    r"""Tokens of every shade between completely negative and completely positive.

    Token :math:`s` has the *leaning* :math:`\zeta_s=-1+\frac{2s}{S-1}`. Each place of a sequence of class
    :math:`y` holds token :math:`s` with probability :math:`(1+y\zeta_s)/S`, whatever stands elsewhere. All
    tokens are equally frequent, and a place that holds token :math:`s` has the average label
    :math:`\zeta_s`. Sequences :math:`2j` are positive, :math:`2j+1` negative.

    Parameters
    ----------
    n_sequences : int, default 2000
        Even: half of each class.
    n_tokens : int, default 21
        S, at least 2. An odd number has a token without leaning in the middle.
    length : int, default 8
    seed : int or numpy.random.Generator, default 0

    Returns
    -------
    Corpus

    Raises
    ------
    TypeError
        If a size is not an int, or ``seed`` neither an int nor a Generator.
    ValueError
        If a size is too small, or ``n_sequences`` odd.

    Examples
    --------
    >>> corpus = graded_tokens(n_sequences=20_000, n_tokens=5, length=4, seed=0)
    >>> (corpus.average_signed_frequency / corpus.average_frequency)[[0, 1, 3, 4]].round(1)
    array([-1. , -0.5,  0.5,  1. ])
    """
    n_sequences = _even("n_sequences", n_sequences)
    n_tokens, length = whole_number("n_tokens", n_tokens, 2), whole_number("length", length)
    rng = generator(seed)
    leanings = np.linspace(-1, 1, n_tokens)
    sequences = np.empty((n_sequences, length), dtype=np.int64)
    for first, label in enumerate([1, -1]):
        share = (1 + label * leanings) / n_tokens
        sequences[first::2] = rng.choice(n_tokens, size=(n_sequences // 2, length), p=share / share.sum())
    return Corpus.from_sequences(sequences, np.tile([1, -1], n_sequences // 2), n_tokens)


def rare_and_frequent(n_sequences=2000, n_others=20):
    r"""Two tokens with one and the same :math:`\alpha>0`: one frequent and nearly balanced, one rare.

    Eight places a sequence. Token 0 fills four of them in *every* sequence, and two more of these are
    positive than negative. Token 1 fills the other four of two positive sequences and stands nowhere
    else. All other places go to ``n_others`` further tokens in turn. Nothing is random.

    .. math:: \alpha_0=\alpha_1=\frac1n,\qquad\nu_0=\frac12,\qquad\nu_1=\frac1n

    Parameters
    ----------
    n_sequences : int, default 2000
        n, even and at least 4.
    n_others : int, default 20

    Returns
    -------
    Corpus

    Raises
    ------
    TypeError, ValueError
        If a size is not an int or too small, or ``n_sequences`` odd.

    Examples
    --------
    >>> corpus = rare_and_frequent(n_sequences=100)
    >>> corpus.average_signed_frequency[:2], corpus.average_frequency[:2]
    (array([0.01, 0.01]), array([0.5 , 0.01]))
    """
    n_sequences, n_others = _even("n_sequences", n_sequences), whole_number("n_others", n_others)
    if n_sequences < 4:
        raise ValueError(f"n_sequences must be at least 4, got {n_sequences}")
    labels = np.tile([1, -1], n_sequences // 2)
    labels[1] = 1
    rest = 2 + np.arange(4 * n_sequences).reshape(n_sequences, 4) % n_others
    rest[[0, 2]] = 1
    sequences = np.hstack([np.zeros((n_sequences, 4), int), rest])
    return Corpus.from_sequences(sequences, labels, 2 + n_others)


def full_co_occurrence(n_positive=2, n_negative=2, n_irrelevant=6, length=4):
    r"""Every important token meets every irrelevant one, in the most symmetric corpus there is.

    For each important token and each subset of ``length - 1`` irrelevant tokens there is one sequence:
    :math:`n=K\binom{M}{T-1}`. Tokens 0 to :math:`K_+-1` are completely positive, :math:`K_+` to :math:`K-1`
    completely negative, and :math:`K` to :math:`K+M-1` irrelevant: :math:`\alpha_s=0` where
    :math:`K_+=K_-`. The margins balance as well: see `marginal_balance`.

    Parameters
    ----------
    n_positive, n_negative : int, default 2
        :math:`K_+` and :math:`K_-`, not both 0.
    n_irrelevant : int, default 6
        M.
    length : int, default 4
        T, from 2 to :math:`M+1`.

    Returns
    -------
    Corpus

    Raises
    ------
    TypeError
        If a size is not an int.
    ValueError
        If a size is out of its range, or the corpus would have more than a million sequences.

    Examples
    --------
    >>> full_co_occurrence()
    Corpus(80 sequences: 40 positive, 40 negative; 4 tokens long; vocabulary of 10 tokens)
    """
    n_positive, n_negative, n_irrelevant = _sizes(n_positive, n_negative, n_irrelevant)
    length, n_important = whole_number("length", length, 2), n_positive + n_negative
    if length > n_irrelevant + 1:
        raise ValueError(
            f"length must be at most n_irrelevant + 1 = {n_irrelevant + 1}, as no token is repeated; "
            f"got {length}"
        )
    n_sequences = n_important * math.comb(n_irrelevant, length - 1)
    if n_sequences > 1_000_000:
        raise ValueError(
            f"all subsets would make {n_sequences:,} sequences; choose a smaller n_irrelevant or length, or "
            "marginal_balance"
        )
    irrelevant = range(n_important, n_important + n_irrelevant)
    subsets = np.array(list(itertools.combinations(irrelevant, length - 1)))
    important = np.repeat(np.arange(n_important), len(subsets))
    sequences = np.column_stack([important, np.tile(subsets, (n_important, 1))])
    return Corpus.from_sequences(
        sequences, np.where(important < n_positive, 1, -1), n_important + n_irrelevant
    )


def marginal_balance(n_positive=2, n_negative=2, n_irrelevant=6, length=4, repeats=1, seed=0):
    r"""Important tokens are equally frequent, and so are irrelevant ones; who meets whom is drawn.

    All lengths are equal; every important token stands, once, in equally many sequences; every irrelevant
    token fills equally many places in all. Not every important token need meet every irrelevant one. The
    corpus is the smallest with these numbers, or ``repeats`` times as large. Tokens are numbered as in
    `full_co_occurrence`.

    Parameters
    ----------
    n_positive, n_negative : int, default 2
        :math:`K_+` and :math:`K_-`, not both 0.
    n_irrelevant : int, default 6
        M.
    length : int, default 4
        T, at least 2. An irrelevant token may repeat in a sequence.
    repeats : int, default 1
        Each important token stands in ``repeats`` times :math:`M/\gcd(M,\,K(T-1))` sequences.
    seed : int or numpy.random.Generator, default 0

    Returns
    -------
    Corpus

    Raises
    ------
    TypeError
        If a size is not an int, or ``seed`` neither an int nor a Generator.
    ValueError
        If a size is too small.

    Examples
    --------
    >>> corpus = marginal_balance(n_positive=1, n_negative=2, n_irrelevant=4, length=3, seed=0)
    >>> corpus.counts.sum(axis=0)
    array([2, 2, 2, 3, 3, 3, 3])
    """
    n_positive, n_negative, n_irrelevant = _sizes(n_positive, n_negative, n_irrelevant)
    length, repeats = whole_number("length", length, 2), whole_number("repeats", repeats)
    rng, n_important = generator(seed), n_positive + n_negative
    per_token = repeats * n_irrelevant // math.gcd(n_irrelevant, n_important * (length - 1))
    important = np.repeat(np.arange(n_important), per_token)
    places = len(important) * (length - 1)
    irrelevant = rng.permutation(np.arange(places) % n_irrelevant).reshape(len(important), length - 1)
    sequences = np.column_stack([important, n_important + irrelevant])
    return Corpus.from_sequences(
        sequences, np.where(important < n_positive, 1, -1), n_important + n_irrelevant
    )


def one_distinct_important_token(
    n_sequences=40, n_positive=2, n_negative=2, n_irrelevant=6, shortest=2, longest=8, seed=0
):
    r"""Each sequence holds one important token, any number of times, beside irrelevant ones; no more is true.

    Lengths, counts, the balance of the classes, and who meets whom are drawn and uneven: some important and
    some irrelevant tokens are much more frequent than others, and irrelevant tokens have
    :math:`\alpha_s\ne0`. Every important token stands in some sequence, irrelevant ones may not. Tokens are
    numbered as in `full_co_occurrence`.

    Parameters
    ----------
    n_sequences : int, default 40
        At least ``n_positive + n_negative``.
    n_positive, n_negative : int, default 2
        :math:`K_+` and :math:`K_-`, not both 0.
    n_irrelevant : int, default 6
        M.
    shortest, longest : int, default 2 and 8
        Range of the lengths, both included; at least 2.
    seed : int or numpy.random.Generator, default 0

    Returns
    -------
    Corpus

    Raises
    ------
    TypeError
        If a size is not an int, or ``seed`` neither an int nor a Generator.
    ValueError
        If a size is too small, or ``longest`` below ``shortest``.

    Examples
    --------
    >>> corpus = one_distinct_important_token(n_sequences=12, seed=0)
    >>> (corpus.counts[:, :4] > 0).sum(axis=1)
    array([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    n_positive, n_negative, n_irrelevant = _sizes(n_positive, n_negative, n_irrelevant)
    n_important = n_positive + n_negative
    n_sequences = whole_number("n_sequences", n_sequences)
    if n_sequences < n_important:
        raise ValueError(
            f"n_sequences must be at least n_positive + n_negative, so that each important token is used; "
            f"got {n_sequences} sequences for {n_important} important tokens"
        )
    shortest, longest = whole_number("shortest", shortest, 2), whole_number("longest", longest, 2)
    if longest < shortest:
        raise ValueError(f"longest must be at least shortest, got {longest} and {shortest}")
    rng = generator(seed)

    rest = rng.choice(n_important, n_sequences - n_important, p=rng.dirichlet(np.ones(n_important)))
    important = rng.permutation(np.concatenate([np.arange(n_important), rest]))
    shares = rng.dirichlet(np.ones(n_irrelevant), size=n_important)  # unequal, and different for each
    sequences = []
    for token, length in zip(
        important, rng.integers(shortest, longest, n_sequences, endpoint=True), strict=True
    ):
        times = rng.integers(1, length)  # at least one place is left
        others = n_important + rng.choice(n_irrelevant, length - times, p=shares[token])
        sequences.append(np.append(np.full(times, token), others))
    return Corpus.from_sequences(
        sequences, np.where(important < n_positive, 1, -1), n_important + n_irrelevant
    )


def two_token_cycle():
    """Two tokens, both of them in one positive and in one negative sequence.

    With values of opposite sign the positive sequence asks for one above the other, and the negative one for
    the reverse: no cls embedding selects both.

    Returns
    -------
    Corpus

    Examples
    --------
    >>> two_token_cycle().token_kinds
    array(['irrelevant', 'irrelevant'], dtype='<U19')
    """
    return Corpus.from_sequences([[0, 1], [0, 1]], [1, -1])


def _sizes(n_positive, n_negative, n_irrelevant):
    n_positive = whole_number("n_positive", n_positive, 0)
    n_negative = whole_number("n_negative", n_negative, 0)
    if n_positive + n_negative == 0:
        raise ValueError("n_positive and n_negative must not both be 0: no token would be important")
    return n_positive, n_negative, whole_number("n_irrelevant", n_irrelevant)


def _even(name, value):
    if whole_number(name, value, 2) % 2:
        raise ValueError(f"{name} must be even, half for each class; got {value}")
    return int(value)
