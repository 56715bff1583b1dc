"""Synthetic corpora, each sampler named after the hypothesis that its corpora satisfy."""

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


def _even(name, value):
    if whole_number(name, value, 2) % 2:
        raise ValueError(f"{name} must be even, half for each class; got {value}")
    return int(value)
