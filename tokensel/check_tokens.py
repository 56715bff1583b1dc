"""Checks of attention and of the statistics of tokens."""

import numpy as np

from tokensel.check_corpora import corpora, with_scores
from tokensel.check_feedback import Case, Exercise, Feedback, Law, Slip, judge

PER_TOKEN = {"gives": "one number for each token of the vocabulary"}


def attention(answer):
    r"""Check a function that computes attention, :math:`q_{is}=C_{is}e^{a_s}\big/\sum_rC_{ir}e^{a_r}`.

    Parameters
    ----------
    answer : callable
        Called as ``answer(counts, scores)`` with the counts :math:`C`, shape (n, S), and the scores
        :math:`a`, shape (S,), both NumPy; returns q, shape (n, S).

    Returns
    -------
    Feedback
        True if the answer is right. Overflow at huge scores is remarked on and counts as right.

    Examples
    --------
    >>> import tokensel as ts
    >>> ts.check.attention(lambda counts, scores: counts * scores)
    Not yet. Attention is never negative. Which function makes a positive number of any score?
    """
    feedback = judge(_ATTENTION, answer)
    if feedback and not judge(_HUGE_SCORES, answer):
        return Feedback(
            True,
            f"{feedback.message} One remark: where scores are hundreds apart, exp leaves the range of the "
            "numbers and your function loses its way. Adding a constant to all scores of a sequence changes "
            "no attention: choose it well, sequence by sequence, and the function stands any scores.",
        )
    return feedback


def average_signed_frequency(answer):
    r"""Check a function that computes the average signed frequency :math:`\alpha_s` of each token.

    Parameters
    ----------
    answer : callable
        Called as ``answer(corpus)`` with a `Corpus`; returns :math:`\alpha`, shape (S,).

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> feedback = ts.check.average_signed_frequency(lambda corpus: corpus.average_frequency)
    >>> feedback.right
    False
    """
    return judge(_SIGNED_FREQUENCY, answer)


def posterior_difference(answer):
    r"""Check a function that computes :math:`\Delta_s=\hat P(y{=}1\mid s\in X)-\hat P(y{=}{-}1\mid s\in X)`.

    Parameters
    ----------
    answer : callable
        Called as ``answer(corpus)`` with a `Corpus`; returns :math:`\Delta`, shape (S,), NaN where it is not
        defined.

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> feedback = ts.check.posterior_difference(lambda corpus: corpus.average_signed_frequency)
    >>> feedback.right
    False
    """
    return judge(_POSTERIOR, answer)


def shares(weights):
    """Rows divided by their sums."""
    return weights / weights.sum(axis=1, keepdims=True)


def softmax(counts, scores):
    """Attention, row-stable."""
    held = np.where(counts > 0, scores, -np.inf)
    return shares(counts * np.exp(held - held.max(axis=1, keepdims=True)))


def counts_of(corpus):
    return corpus.counts.toarray()


def signed_mean(corpus, weights):
    """The mean over all sequences of label times weights (n, S)."""
    return corpus.labels @ weights / corpus.n_sequences


# --- attention

_NORMALISER = "The shares of one sequence must add up to one, and yours do not. "
_ATTENTION = Exercise(
    call="answer(counts, scores)",
    gives="one row for each sequence and one column for each token",
    shape=lambda counts, scores: counts.shape,
    right=softmax,
    cases=lambda: tuple(
        Case(case.where, (counts_of(case.arguments[0]), case.arguments[1]))
        for case in with_scores(values=False)
    ),
    slips=(
        Slip(
            lambda counts, scores: softmax((counts > 0).astype(int), scores),
            "A token that stands more than once in a sequence asks for attention at each of its places. "
            "You treat it as if it stood there once.",
        ),
        Slip(
            lambda counts, scores: counts * np.exp(scores),
            _NORMALISER + "The softmax has a denominator.",
        ),
        Slip(
            lambda counts, scores: counts * np.exp(scores) / np.exp(scores).sum(),
            _NORMALISER
            + "You divide by a sum over the whole vocabulary; only tokens of the sequence compete.",
        ),
        Slip(
            lambda counts, scores: np.tile(np.exp(scores) / np.exp(scores).sum(), (len(counts), 1)),
            "You give attention to tokens that do not stand in the sequence, the same in all. What do the "
            "counts do?",
        ),
        Slip(
            lambda counts, scores: counts * np.exp(scores) / (counts * np.exp(scores)).sum(axis=0),
            _NORMALISER + "Your sum runs over the sequences: look at its axis.",
        ),
        Slip(
            lambda counts, scores: counts * np.exp(scores) / counts.sum(axis=1, keepdims=True),
            _NORMALISER + "You divide by the length, which normalises counts, not weights.",
        ),
        Slip(
            lambda counts, scores: shares(np.exp(counts * scores)),
            "Your counts stand in the exponent, so that a token of count zero still gets attention. Two "
            "places with one score each are not one place with twice the score.",
        ),
        Slip(
            lambda counts, scores: shares((counts > 0) * np.exp(counts * scores)),
            "Your counts stand in the exponent. Two places with one score each are not one place with "
            "twice the score.",
        ),
        Slip(
            lambda counts, scores: shares(counts.astype(float)),
            "Your attention is the frequency of the token: the scores play no part in it.",
        ),
        Slip(
            lambda counts, scores: softmax(counts, -scores),
            "A token of higher score should get more attention; with you it gets less.",
        ),
        Slip(
            lambda counts, scores: shares(counts * np.exp(scores) ** 2),
            "Your attention is sharper than it should be: the scores enter too strongly.",
        ),
    ),
    laws=(
        Law(
            lambda q, counts, scores: np.all(q >= 0),
            "Attention is never negative. Which function makes a positive number of any score?",
        ),
        Law(
            lambda q, counts, scores: np.allclose(q[counts == 0], 0, atol=1e-4),
            "A token that does not stand in a sequence gets none of its attention; with you some do.",
        ),
        Law(lambda q, counts, scores: np.allclose(q.sum(axis=1), 1, atol=1e-4), _NORMALISER.strip()),
    ),
    hint="Take one sequence of two tokens and write down the ratio of their attentions, from counts and "
    "scores.",
)

_HUGE_SCORES = Exercise(
    call=_ATTENTION.call,
    gives=_ATTENTION.gives,
    shape=_ATTENTION.shape,
    right=softmax,
    # The token of the highest score stands in the first sequence only, so one shift for all is not enough.
    cases=lambda: (
        Case(
            "huge scores", (np.array([[1, 2, 0], [0, 1, 3], [0, 2, 1]]), np.array([2000.0, -500.0, -501.0]))
        ),
    ),
    slips=(),
    hint="",
)

# --- statistics of tokens


def signed_frequency(corpus):
    return signed_mean(corpus, counts_of(corpus) / corpus.lengths[:, None])


def _average_frequency(corpus):
    return (counts_of(corpus) / corpus.lengths[:, None]).mean(axis=0)


def _delta(corpus):
    there = counts_of(corpus) > 0
    return corpus.labels @ there / there.sum(axis=0)


def _difference_of_class_means(corpus):
    frequencies = counts_of(corpus) / corpus.lengths[:, None]
    classes = [frequencies[corpus.labels == label] for label in (1, -1)]
    positive, negative = (rows.sum(axis=0) / max(len(rows), 1) for rows in classes)
    return positive - negative


# Wrong versions of alpha; the check of what one step writes meets them again.
WRONG_SIGNED_FREQUENCIES = (
    Slip(
        _average_frequency,
        "The labels play no part in your answer: a token counts for or against, by the class it stands in.",
    ),
    Slip(
        lambda corpus: corpus.labels @ counts_of(corpus) / corpus.lengths.sum(),
        "You average over all tokens of the corpus, so a long sequence weighs more than a short one. "
        "Average over sequences: each has one label, and one vote.",
    ),
    Slip(
        lambda corpus: signed_mean(corpus, counts_of(corpus)),
        "You count how often the token stands in a sequence, and forget how long the sequence is. A "
        "frequency is a share.",
    ),
    Slip(
        lambda corpus: signed_mean(corpus, counts_of(corpus) > 0),
        "You ask only whether a token stands in a sequence. A frequency says what share of the sequence "
        "it is.",
    ),
    Slip(
        lambda corpus: signed_mean(corpus, (counts_of(corpus) > 0) / corpus.lengths[:, None]),
        "You count a token once in each sequence, even where it stands there several times.",
    ),
    Slip(
        lambda corpus: signed_mean(corpus, shares(counts_of(corpus) > 0)),
        "You drop repeats before you count, both of the token and in the length of the sequence.",
    ),
    Slip(
        lambda corpus: corpus.labels @ (counts_of(corpus) / corpus.lengths[:, None]),
        "You add up over the sequences. What makes an average of a sum?",
    ),
    Slip(
        lambda corpus: (
            corpus.labels
            @ (counts_of(corpus) / corpus.lengths[:, None])
            / np.maximum((counts_of(corpus) > 0).sum(axis=0), 1)
        ),
        "You average over the sequences that hold the token, where the average runs over all: in the "
        "others its frequency is zero.",
    ),
    Slip(
        _difference_of_class_means,
        "You average within each class and subtract. That gives a small class as much weight as a large "
        "one; here all sequences weigh the same.",
    ),
    Slip(
        _delta,
        "That is the posterior difference: it asks of the sequences that hold the token which class they "
        "are of, and forgets how frequent the token is.",
    ),
    Slip(
        lambda corpus: np.nan_to_num(signed_frequency(corpus) / _average_frequency(corpus)),
        "You divide by how frequent the token is. That says how one-sided it is, and this question asks "
        "for more.",
    ),
    Slip(
        lambda corpus: np.abs(signed_frequency(corpus)),
        "Your numbers are never negative: a token can speak for either class.",
    ),
)

_SIGNED_FREQUENCY = Exercise(
    call="answer(corpus)",
    **PER_TOKEN,
    shape=lambda corpus: (corpus.n_tokens,),
    right=signed_frequency,
    cases=corpora,
    slips=WRONG_SIGNED_FREQUENCIES,
    sign="Your signs are all exchanged: what counts for a token, to stand in positive sequences or in "
    "negative ones?",
    factor="Right up to one constant factor. Compute by hand a corpus of one sequence with one token: "
    "what must come out?",
    hint="Take a corpus of two short sequences of different length and compute one token by hand.",
)


def _of_presence(numerator, denominator):
    """A statistic of where tokens stand: both functions get labels and presence."""

    def statistic(corpus):
        there = counts_of(corpus) > 0
        return numerator(corpus.labels, there) / denominator(corpus.labels, there)

    return statistic


def _presence(labels, there):
    return there.sum(axis=0)


def _reversed_condition(corpus):
    there = counts_of(corpus) > 0
    positive, negative = (there[corpus.labels == label].sum(axis=0) for label in (1, -1))
    return positive / np.sum(corpus.labels == 1) - negative / np.float64(np.sum(corpus.labels == -1))


_POSTERIOR = Exercise(
    call="answer(corpus)",
    **PER_TOKEN,
    shape=lambda corpus: (corpus.n_tokens,),
    right=_delta,
    cases=corpora,
    slips=(
        Slip(
            _of_presence(lambda y, there: (y + 1) / 2 @ there, _presence),
            "That is the first of the two probabilities. A difference needs both.",
        ),
        Slip(
            lambda corpus: corpus.labels @ counts_of(corpus) / counts_of(corpus).sum(axis=0),
            "You count places, so a token that stands many times in one sequence counts many times. The "
            "condition is that it stands in the sequence at all.",
        ),
        Slip(
            _of_presence(lambda y, there: y @ there, lambda y, there: float(len(y))),
            "You divide by the number of all sequences. A conditional probability looks only at those "
            "where the condition holds.",
        ),
        Slip(
            _of_presence(lambda y, there: y @ there, lambda y, there: 1.0),
            "Those are numbers of sequences, not yet probabilities.",
        ),
        Slip(
            _reversed_condition,
            "Your condition is the wrong way round: you ask how probable the token is in a class, and the "
            "question is how probable the class is where the token stands.",
        ),
        Slip(
            _of_presence(lambda y, there: y @ there, lambda y, there: _presence(y, there) + 2.0),
            "You add invented sequences to the counts. That can be wise for prediction; here the plain "
            "shares are asked for.",
        ),
        Slip(
            lambda corpus: (
                _of_presence(lambda y, there: (y + 1) / 2 @ there, _presence)(corpus)
                - np.mean(corpus.labels == 1)
            ),
            "You subtract how probable the class is at all. The question compares the two classes where "
            "the token stands.",
        ),
        Slip(
            lambda corpus: signed_frequency(corpus) / _average_frequency(corpus),
            "You weigh sequences by the frequency of the token in them. Here a sequence counts or does not.",
        ),
        Slip(
            signed_frequency, "That is the average signed frequency, which is large for frequent tokens only."
        ),
        Slip(
            lambda corpus: np.nan_to_num(_delta(corpus)),
            "Right for every token that occurs. For one that stands in no sequence there is nothing to "
            "condition on, so no number is right: mark it as undefined.",
        ),
        Slip(
            lambda corpus: np.abs(_delta(corpus)),
            "Your numbers are never negative: a token can speak for either class.",
        ),
    ),
    sign="Your signs are all exchanged: which of the two classes comes first?",
    factor="Right up to one constant factor. What must come out for a token of positive sequences only?",
    hint="Take one token, list the sequences that hold it, and read off their labels.",
)
