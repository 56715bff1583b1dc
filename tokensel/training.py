"""Training: the one gradient step of the theory, and as many as you like."""

from tokensel import score_space
from tokensel.arguments import real_number
from tokensel.corpus import Corpus
from tokensel.model import AttentionClassifier
from tokensel.training_loop import (
    OPTIMIZERS,
    History,
    Settings,
    Share,
    chain_rule,
    require_representable,
    tensors,
    train_on,
)

__all__ = ["OPTIMIZERS", "History", "fit", "one_step"]


def one_step(model, corpus, step_size):
    r"""One gradient step on the embeddings and the cls embedding, both taken at the start.

    .. math:: E_1 = E_0 - \eta_0 \nabla_E L(E_0, p_0), \qquad p_1 = p_0 - \eta_0 \nabla_p L(E_0, p_0)

    The output vector v stays as it is, and so does ``model``.

    Parameters
    ----------
    model : AttentionClassifier
        The start :math:`(E_0, p_0, v)`.
    corpus : Corpus
        n sequences over the model's S tokens; all of them are used.
    step_size : float
        :math:`\eta_0 \ge 0`.

    Returns
    -------
    AttentionClassifier
        A new model :math:`(E_1, p_1, v)`, of the same dtype and on the same device.

    Raises
    ------
    TypeError
        ``model`` or ``corpus`` is something else.
    ValueError
        ``step_size`` is negative or not finite, or model and corpus differ in their number of tokens.

    Notes
    -----
    Chapter "One gradient step" proves that row s of :math:`E_1 - E_0` is :math:`\frac{\eta_0}{2}\alpha_s v`
    up to noise of order :math:`d^{-1/2}`.

    Examples
    --------
    Token 0 stands in the positive sequence only, token 1 in the negative one only, token 2 in both.

    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], labels=[+1, -1], n_tokens=3)
    >>> model = ts.AttentionClassifier.initialise(n_tokens=3, dim=4096, seed=0)
    >>> stepped = ts.one_step(model, corpus, step_size=40.0)
    >>> ((stepped.values() - model.values()) / 20.0).detach().numpy().round(2) + 0.0
    array([ 0.26, -0.25,  0.  ])
    >>> corpus.average_signed_frequency
    array([ 0.25, -0.25,  0.  ])
    """
    _check_pair(model, corpus)
    step_size = real_number("step_size", step_size, 0)
    require_representable("step_size", step_size, model.embeddings.dtype)
    start = tensors(model)
    gradients = score_space.gradients(corpus, model.scores().detach(), model.values().detach())
    slope = chain_rule(start, gradients.scores, gradients.values, ("embeddings", "cls"))
    return AttentionClassifier(
        start["embeddings"].sub(slope["embeddings"], alpha=step_size),
        start["cls"].sub(slope["cls"], alpha=step_size),
        start["output"].clone(),
    )


def fit(
    model,
    corpus,
    steps=200,
    optimizer="adam",
    learning_rate=0.01,
    train=("embeddings", "cls"),
    batch_size=None,
    validation=None,
    seed=0,
    progress=None,
    cls_penalty=0.0,
    patience=None,
    on_step=None,
):
    r"""Train the model in place on the logistic loss :math:`L = \frac1n\sum_i\log(1+e^{-y_if_i})`.

    A penalty :math:`\lambda` on the cls embedding makes it :math:`L + \frac\lambda2\lVert p\rVert^2`.

    Parameters
    ----------
    model : AttentionClassifier
        Trained in place. Parameters not named in ``train`` keep their numbers; no parameter's
        ``requires_grad`` or ``grad`` is touched.
    corpus : Corpus
        The training sequences.
    steps : int
        Number of parameter updates (with minibatches too: an epoch is n / ``batch_size`` of them).
    optimizer : {"adam", "sgd"}
        ``torch.optim.Adam`` or plain gradient descent, ``torch.optim.SGD``.
    learning_rate : float
        Positive.
    train : tuple of str
        Which of "embeddings" (E), "cls" (p) and "output" (v) to train.
    batch_size : int, optional
        Sequences in a minibatch. The corpus is shuffled anew each epoch; the last minibatch of an epoch holds
        what is left. None: every step uses the whole corpus.
    validation : Corpus, optional
        Held-out sequences over the same vocabulary; only measured, never trained on.
    seed : int or numpy.random.Generator
        Of the shuffling. Same seed, same result.
    progress : bool, optional
        Show a progress bar. None: only where somebody can watch it.
    cls_penalty : float
        :math:`\lambda \ge 0`. It keeps p short, so that attention stays spread out. The history's loss is L.
    patience : int, optional
        Early stopping: training ends when the validation accuracy has not risen for so many measurements.
        However it ends, the model is left as it was at ``history.best_step``. Needs ``validation``.
    on_step : callable, optional
        ``on_step(step, scores, values)`` is called at every step that enters the history, first with step 0,
        the start. Scores and values are (S,) tensors outside autograd, of this step alone: keep them if you
        like. What it returns is ignored, what it raises ends training.

    Returns
    -------
    History
        Loss, accuracy, validation accuracy and norm of p over the steps that training took.

    Raises
    ------
    TypeError, ValueError
        An argument is not what it must be; the message says which, what it got and what it needs.
    MemoryError
        Gradients and the optimiser's state would not fit.
    FloatingPointError
        Scores, values or loss stopped being finite. The model is left as it was after the last step at which
        they were (with ``patience``, at the best step).

    Warns
    -----
    RuntimeWarning
        Training was interrupted (the stop button, Ctrl-C). It ends with the step under way, and the history
        is returned. A second Ctrl-C does not wait for that step: it is undone.

    Notes
    -----
    E enters only through the scores and values, so autograd runs on 2S numbers; the chain rule
    :math:`\nabla_EL = \partial_aL\,p^\top + \partial_bL\,v^\top` (chapter "One gradient step") does the rest.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], labels=[+1, -1], n_tokens=3)
    >>> model = ts.AttentionClassifier.initialise(n_tokens=3, dim=16, seed=0)
    >>> history = ts.fit(model, corpus, steps=50, learning_rate=0.1)
    >>> len(history.loss), bool(history.loss[-1] < history.loss[0]), float(history.accuracy[-1])
    (51, True, 1.0)
    """
    _check_pair(model, corpus)
    _check_validation(validation, corpus)
    settings = Settings(
        steps,
        optimizer,
        learning_rate,
        train,
        batch_size,
        seed,
        progress,
        cls_penalty,
        patience,
        on_step,
    )
    return train_on(Share(corpus, validation), model, settings)


def _check_pair(model, corpus):
    if not isinstance(model, AttentionClassifier):
        raise TypeError(f"model must be an AttentionClassifier, got {type(model).__name__}")
    if not isinstance(corpus, Corpus):
        raise TypeError(f"corpus must be a Corpus, got {type(corpus).__name__}")
    model._checked(corpus)


def _check_validation(validation, corpus):
    if validation is None:
        return
    if not isinstance(validation, Corpus):
        raise TypeError(f"validation must be a Corpus or None, got {type(validation).__name__}")
    if validation.n_tokens != corpus.n_tokens or validation.vocabulary != corpus.vocabulary:
        raise ValueError(
            f"validation must have the vocabulary of the training corpus ({corpus.n_tokens} tokens) but has "
            f"its own ({validation.n_tokens} tokens): build it with vocabulary=corpus.vocabulary"
        )
