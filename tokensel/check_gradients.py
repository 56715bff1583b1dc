"""Checks of gradients in score space, and of what they are at the start of training."""

import numpy as np

from tokensel.check_corpora import corpora, with_scores
from tokensel.check_feedback import Case, Exercise, Law, Slip, judge
from tokensel.check_tokens import (
    PER_TOKEN,
    WRONG_SIGNED_FREQUENCIES,
    counts_of,
    shares,
    signed_frequency,
    signed_mean,
    softmax,
)


def score_gradient(answer):
    r"""Check a function that computes the push on the scores, :math:`-\partial L/\partial a_s`.

    Parameters
    ----------
    answer : callable
        Called as ``answer(corpus, scores, values)`` with a `Corpus` and two NumPy arrays of shape (S,);
        returns an array of that shape.

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> ts.check.score_gradient(lambda *arguments: ts.score_space.gradients(*arguments).scores)
    Not yet. That is the gradient itself. The push is what a step of descent adds.
    """
    return judge(_SCORE_GRADIENT, answer)


def one_step_values(answer):
    r"""Check a function that predicts how one gradient step changes the values, to leading order.

    The start has random embeddings of high dimension, and :math:`\lVert v\rVert=1`.

    Parameters
    ----------
    answer : callable
        Called as ``answer(corpus, step_size)`` with a `Corpus` and a float; returns the predicted changes of
        the values, shape (S,).

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> feedback = ts.check.one_step_values(lambda corpus, step_size: step_size * corpus.average_frequency)
    >>> feedback.right
    False
    """
    return judge(_ONE_STEP_VALUES, answer)


def first_push(answer):
    r"""Check a function that predicts the first push on the scores at :math:`p=0`, :math:`b=c\,\alpha`.

    Parameters
    ----------
    answer : callable
        Called as ``answer(corpus, scale)`` with a `Corpus` and the float c; returns :math:`\beta` to first
        order in c, shape (S,).

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> feedback = ts.check.first_push(lambda corpus, scale: scale * corpus.average_signed_frequency)
    >>> feedback.right
    False
    """
    return judge(_FIRST_PUSH, answer)


def _sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


def _push(corpus, scores, values, *, attention=softmax, residual=None, centre=True):
    """The push on the scores with one of its parts replaced."""
    q = attention(counts_of(corpus), scores)
    logits = q @ values
    g = (
        corpus.labels * _sigmoid(-corpus.labels * logits)
        if residual is None
        else residual(corpus.labels, logits)
    )
    return (g[:, None] * q * (values - (logits[:, None] if centre else 0))).mean(axis=0)


def _value_push(corpus, scores, values):
    q = softmax(counts_of(corpus), scores)
    return (corpus.labels * _sigmoid(-corpus.labels * (q @ values))) @ q / corpus.n_sequences


def _diagonal_push(corpus, scores, values):
    q = softmax(counts_of(corpus), scores)
    g = corpus.labels * _sigmoid(-corpus.labels * (q @ values))
    return (g[:, None] * q * (1 - q) * values).mean(axis=0)


def _with(**parts):
    return lambda corpus, scores, values: _push(corpus, scores, values, **parts)


_ADDS_TO_ZERO = (
    "All pushes together must add to zero, since attention can only move from token to token; yours do not."
)
_SCORE_GRADIENT = Exercise(
    call="answer(corpus, scores, values)",
    **PER_TOKEN,
    shape=lambda corpus, scores, values: (corpus.n_tokens,),
    right=_push,
    cases=with_scores,
    slips=(
        Slip(
            lambda *case: case[0].n_sequences * _push(*case),
            "You add up over the sequences, and the loss is a mean.",
        ),
        Slip(
            _with(centre=False),
            "When the attention on one token grows, that on the others of the sequence shrinks. That second "
            "part is missing.",
        ),
        Slip(
            _diagonal_push, "A score moves the attention on all tokens of its sequence, not only on its own."
        ),
        Slip(
            _with(residual=lambda y, f: y / 2),
            "Your residuals are those of logits zero. How large is the residual of a sequence that is "
            "already classified well?",
        ),
        Slip(
            _with(residual=lambda y, f: y * _sigmoid(y * f)),
            "Your residual grows when a sequence is classified better. Check the sign inside the sigmoid.",
        ),
        Slip(
            _with(residual=lambda y, f: _sigmoid(-y * f)),
            "The labels are missing in your residuals: a negative sequence pushes the other way.",
        ),
        Slip(
            _with(residual=lambda y, f: y * 1.0),
            "Every sequence pushes equally hard with you: where is the derivative of the logistic loss?",
        ),
        Slip(
            _value_push, "That is the push on the values. The scores enter the logit through the attention."
        ),
        Slip(
            _with(attention=lambda counts, scores: shares(counts.astype(float))),
            "You use frequencies where attention belongs: they agree only as long as all scores are equal.",
        ),
        Slip(
            _with(attention=lambda counts, scores: softmax((counts > 0).astype(int), scores)),
            "Your attention forgets the counts: a token that stands twice asks twice.",
        ),
    ),
    laws=(
        Law(
            lambda push, corpus, scores, values: abs(push.sum()) <= 1e-3 * np.abs(push).max(),
            _ADDS_TO_ZERO,
        ),
    ),
    sign="That is the gradient itself. The push is what a step of descent adds.",
    hint="Go by the chain rule: loss, logit, attention, score. Compare each factor with a small difference.",
)


def _stepped(slip):
    """A wrong alpha as a wrong prediction of one step."""
    return Slip(lambda corpus, step_size: step_size / 2 * slip.wrong(corpus), slip.message)


def _scaled(scales):
    """The corpora, each with a number of its own as second argument."""
    return lambda: tuple(
        Case(case.where, (*case.arguments, scale)) for case, scale in zip(corpora(), scales, strict=True)
    )


_ONE_STEP_VALUES = Exercise(
    call="answer(corpus, step_size)",
    **PER_TOKEN,
    shape=lambda corpus, step_size: (corpus.n_tokens,),
    right=lambda corpus, step_size: step_size / 2 * signed_frequency(corpus),
    cases=_scaled([1.0, 40.0, 8.0, 3.0, 20.0, 80.0, 0.5, 10.0]),
    slips=(
        *(_stepped(slip) for slip in WRONG_SIGNED_FREQUENCIES),
        Slip(
            lambda corpus, step_size: signed_frequency(corpus) / 2,
            "The step size plays no part in your answer.",
        ),
        Slip(
            lambda corpus, step_size: step_size**2 / 2 * signed_frequency(corpus),
            "Your change grows too fast with the step size. How does one step depend on it?",
        ),
    ),
    sign="The sign is wrong everywhere: the step descends, and positive sequences want larger values.",
    factor="Right up to one constant factor. At the start all logits are close to zero: how large are "
    "residuals there?",
    hint="Put into the gradient what is true at the start: equal scores, logits near zero. Then compute "
    "one token by hand.",
)


def _first(corpus, scale, *, quadratic=1.0, common=-1.0, labels=True):
    """The first push with its two terms weighted, and with labels in the second or without."""
    frequencies = counts_of(corpus) / corpus.lengths[:, None]
    alpha = signed_frequency(corpus)
    sides = corpus.labels if labels else np.ones(corpus.n_sequences)
    second = (sides * (frequencies @ alpha)) @ frequencies / corpus.n_sequences
    return scale / 2 * (quadratic * alpha**2 + common * second)


def _first_unsquared(corpus, scale):
    return scale / 2 * signed_frequency(corpus) + _first(corpus, scale, quadratic=0)


def _first_of(shares):
    """The first push with something else for the frequencies."""

    def push(corpus, scale):
        weights = shares(corpus)
        alpha = signed_mean(corpus, weights)
        return scale / 2 * (alpha**2 - (corpus.labels * (weights @ alpha)) @ weights / corpus.n_sequences)

    return push


_FIRST_PUSH = Exercise(
    call="answer(corpus, scale)",
    **PER_TOKEN,
    shape=lambda corpus, scale: (corpus.n_tokens,),
    right=_first,
    cases=_scaled([1.0, 0.1, 0.3, 2.0, 0.02, 0.5, 0.05, 4.0]),
    slips=(
        Slip(
            lambda corpus, scale: _first(corpus, scale, common=0),
            "That is what a token gains by its own value. It competes with the other tokens of its "
            "sequences, and that part is missing.",
        ),
        Slip(
            lambda corpus, scale: _first(corpus, scale, quadratic=0),
            "That is only what the logits take away. What does a token gain by its own value?",
        ),
        Slip(
            lambda corpus, scale: _first(corpus, scale, common=1),
            "Your two terms add up, where one is a gain and one a loss.",
        ),
        Slip(
            lambda corpus, scale: _first(corpus, scale, labels=False),
            "The labels are missing in your second term. Without them, flipping all labels would change "
            "more than it should.",
        ),
        Slip(
            _first_unsquared,
            "Your first term is linear in the labels, your second quadratic. Which value multiplies the "
            "signed frequency?",
        ),
        Slip(
            lambda corpus, scale: corpus.n_sequences * _first(corpus, scale),
            "You add up over the sequences, and the loss is a mean.",
        ),
        Slip(
            _first_of(counts_of),
            "You use counts where frequencies belong: at equal scores attention is a share.",
        ),
        Slip(
            _first_of(lambda corpus: (counts_of(corpus) > 0) / corpus.lengths[:, None]),
            "You count a token once in each sequence, even where it stands there several times.",
        ),
        Slip(
            _first_of(lambda corpus: shares(counts_of(corpus) > 0)),
            "You drop repeats before you count, both of the token and in the length of the sequence.",
        ),
        Slip(
            lambda corpus, scale: _first(corpus, 1.0),
            "The scale of the values plays no part in your answer.",
        ),
        Slip(
            lambda corpus, scale: _first(corpus, scale**2),
            "Your push grows too fast with the scale of the values: only the first order is asked for.",
        ),
        Slip(
            lambda corpus, scale: _push(corpus, np.zeros(corpus.n_tokens), scale * signed_frequency(corpus)),
            "That is the push itself at this scale of the values; its first order is asked for. Which of "
            "its factors changes with the scale, and what is it when the scale is very small?",
        ),
        Slip(
            lambda corpus, scale: scale / 2 * signed_frequency(corpus),
            "That is linear in the labels, and moves tokens of the two classes in opposite directions. "
            "The push on the scores must not change when all labels flip.",
        ),
    ),
    laws=(Law(lambda push, corpus, scale: abs(push.sum()) <= 1e-3 * np.abs(push).max(), _ADDS_TO_ZERO),),
    sign="The sign is wrong everywhere: this is the direction in which the loss grows.",
    factor="Right up to one constant factor. All logits are close to zero: how large are the residuals "
    "there?",
    hint="Put attention at equal scores and residuals at logits near zero into the push on the scores.",
)
