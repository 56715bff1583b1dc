r"""One cell of the phase diagram over step size and dimension: what a flow selects after one step."""

import numpy as np

from tokensel.arguments import as_array, generator, real_array, real_number, token_mask
from tokensel.corpus import Corpus
from tokensel.flow import gradient_flow
from tokensel.model import AttentionClassifier
from tokensel.samplers import one_important_token
from tokensel.training import one_step


def after_one_step(
    step_size, dim, seed=0, n_sequences=200, length=8, n_important=6, n_irrelevant=20, mirror=True
):
    r"""Draw a corpus of one important token a sequence and a start, and take one step of size :math:`\eta_0`.

    .. math:: (E_1,p_1)=(E_0,p_0)-\eta_0\nabla L(E_0,p_0)

    Parameters
    ----------
    step_size : float
        :math:`\eta_0\ge0`.
    dim : int
        d.
    seed : int or numpy.random.Generator, default 0
        One generator draws the corpus first and then the start.
    n_sequences, length, n_important, n_irrelevant, mirror
        As in :func:`tokensel.samplers.one_important_token`.

    Returns
    -------
    corpus : Corpus
    model : AttentionClassifier
        :math:`(E_1,p_1,v)`.

    Raises
    ------
    TypeError, ValueError
        As in the sampler, :meth:`tokensel.AttentionClassifier.initialise` and :func:`tokensel.one_step`.

    Examples
    --------
    >>> from tokensel import phases
    >>> corpus, model = phases.after_one_step(40, dim=512)
    >>> phases.selected_shares(model, corpus, range(6))
    array([1., 1.])
    """
    step_size, rng = real_number("step_size", step_size, 0), generator(seed)
    corpus = one_important_token(n_sequences, length, n_important, n_irrelevant, rng, mirror)
    model = AttentionClassifier.initialise(corpus.n_tokens, dim, seed=rng)
    return corpus, one_step(model, corpus, step_size)


def selected_shares(model, corpus, tokens, log_time=40.0, tolerance=1e-3):
    r"""Share of the sequences of each class in which gradient flow on p selects one of the tokens.

    A class *is lost* where its share is zero.

    Parameters
    ----------
    model : AttentionClassifier
        Where the flow starts.
    corpus : Corpus
        Sequences of both classes.
    tokens : sequence of int, or (S,) array of bool
        Ids of the important tokens, or a mask over the vocabulary.
    log_time : float, default 40
        :math:`\log t` at which the selection is read off.
    tolerance : float, default 1e-3
        Of the flow; who is selected hardly depends on it.

    Returns
    -------
    (2,) ndarray
        The share in the positive sequences, and in the negative ones.

    Raises
    ------
    TypeError, ValueError
        As in :func:`tokensel.gradient_flow`; if the tokens are neither ids of the vocabulary nor such a
        mask, or if a class has no sequence.

    Examples
    --------
    A step so long that the positive class is lost:

    >>> from tokensel import phases
    >>> corpus, model = phases.after_one_step(240, dim=512, seed=0)
    >>> phases.selected_shares(model, corpus, range(6)).min()
    np.float64(0.0)
    """
    if not isinstance(corpus, Corpus):
        raise TypeError(f"corpus must be a Corpus, got {type(corpus).__name__}")
    chosen = token_mask(tokens, corpus.n_tokens)
    path = gradient_flow(
        model, corpus, until_norm=None, until_log_time=log_time, at_log_time=(), tolerance=tolerance
    )
    return class_means(corpus, chosen[path.selection.tokens])


def class_means(corpus, numbers):
    r"""Mean over the positive sequences, and over the negative ones.

    Parameters
    ----------
    corpus : Corpus
        n sequences of both classes.
    numbers : (..., n) array
        One number for each sequence; leading axes are kept.

    Returns
    -------
    (2, ...) ndarray

    Raises
    ------
    TypeError
        If ``corpus`` is no Corpus, or the numbers are none.
    ValueError
        If the last axis has another length, or a class has no sequence.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0], [1], [1]], labels=[+1, -1, -1])
    >>> ts.phases.class_means(corpus, [1.0, 0.0, 0.5])
    array([1.  , 0.25])
    """
    if not isinstance(corpus, Corpus):
        raise TypeError(f"corpus must be a Corpus, got {type(corpus).__name__}")
    numbers = as_array("numbers", numbers)
    numbers = real_array("numbers", numbers.astype(float) if numbers.dtype == bool else numbers)
    if numbers.shape[-1:] != (corpus.n_sequences,):
        raise ValueError(
            f"numbers must have one entry for each of the {corpus.n_sequences:,} sequences in its last axis, "
            f"got shape {numbers.shape}"
        )
    sides = [corpus.labels == label for label in (1, -1)]
    if not all(side.any() for side in sides):
        raise ValueError("the corpus must hold sequences of both classes")
    return np.stack([numbers[..., side].mean(axis=-1) for side in sides])
