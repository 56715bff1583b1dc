"""Hidden corpora that tell wrong answers apart: each differs from the plainest one in one respect."""

from functools import cache

import numpy as np

from tokensel.check_feedback import EVERYTHING, Case
from tokensel.corpus import Corpus


@cache
def corpora():
    """Pairs of words and corpus, as cases with one argument.

    In the plainest corpus many wrong answers are right: the length that was forgotten is the same for all
    sequences, no token stands twice, the classes are equal. Each of the others breaks one of these, the last
    two all of them. Sizes and seeds are fixed, so that the same answer always gets the same feedback.

    Examples
    --------
    >>> len(corpora())
    8
    >>> corpora()[4].where
    'one class only'
    """
    return (
        _corpus("equal lengths, no repeats and classes of equal size", 0, [4] * 10, 8, 5),
        _corpus("sequences of different lengths", 1, [2, 6, 3, 7, 2, 5, 4, 3, 6, 2, 3, 5], 9, 6),
        _corpus("tokens that stand in a sequence more than once", 2, [5] * 8, 7, 4, repeats=True),
        _corpus("classes of different size", 3, [4] * 11, 9, 8),
        _corpus("one class only", 4, [4] * 9, 8, 9),
        _corpus("a token that stands in no sequence", 5, [4] * 14, 10, 7, absent=1),
        _corpus(EVERYTHING, 6, [2, 7, 3, 3, 9, 4, 2, 5, 6, 3, 8, 2, 4], 10, 6, repeats=True),
        _corpus(EVERYTHING, 7, [5, 2, 8, 3, 2, 6, 4, 9, 3, 2, 7, 5, 3, 4, 6], 12, 5, repeats=True),
    )


def _corpus(where, seed, lengths, n_tokens, n_positive, repeats=False, absent=0):
    """Draw sequences until every token but the absent ones occurs, and repeats occur where they should."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.where(np.arange(len(lengths)) < n_positive, 1, -1))
    used = n_tokens - absent
    while True:
        sequences = [rng.choice(used, length, replace=repeats) for length in lengths]
        corpus = Corpus.from_sequences(sequences, labels, n_tokens=n_tokens)
        if np.count_nonzero(corpus.document_frequency) == used and (corpus.counts.max() > 1) == repeats:
            return Case(where, (corpus,))


def with_scores(values=True):
    """The corpora with random scores and, if asked for, values; then special ones on the plainest corpus."""
    rng = np.random.default_rng(8)
    plainest = corpora()[0].arguments[0]
    drawn = [(case.where, case.arguments[0], 1.0, 1.0) for case in corpora()]
    drawn += [("equal scores", plainest, 0.0, 1.0), ("large scores", plainest, 4.0, 1.0)]
    drawn += [("values close to zero", plainest, 1.0, 1e-6)] if values else []
    cases = []
    for where, corpus, score, value in drawn:
        scores = score * rng.normal(size=corpus.n_tokens)
        more = (value * rng.normal(size=corpus.n_tokens),) if values else ()
        cases.append(Case(where, (corpus, scores, *more)))
    return tuple(cases)
