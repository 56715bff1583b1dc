r"""`TokenSelector`: the attention layer as a scikit-learn classifier of texts."""

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    check_non_negative,
    validate_data,
)

from tokensel import saving, score_space
from tokensel.arguments import positive_number, real_number, whole_number
from tokensel.estimator_rows import (
    as_corpus,
    canonical,
    counted,
    held_back,
    parted,
    refuse_texts,
    texts,
    two_classes,
)
from tokensel.model import AttentionClassifier
from tokensel.training import OPTIMIZERS, fit


class TokenSelector(ClassifierMixin, BaseEstimator):
    r"""A scikit-learn classifier that attends to few tokens of a text, and says which.

    .. math:: f(X) = \sum_s q_s b_s, \qquad q_s = \frac{C_s e^{a_s}}{\sum_r C_r e^{a_r}}, \qquad
              \hat P(\text{classes\_}[1]) = \operatorname{sigmoid}(f)

    with :math:`C_s` how often token s stands in the text, :math:`a = Ep` the scores and :math:`b = Ev` the
    values of the tokens. The embeddings E and p are trained together by :func:`tokensel.fit`, as in the
    chapters about real text.

    Parameters
    ----------
    input : {"texts", "counts"}, default "texts"
        What X is. ``"texts"``: an iterable of n str, split into tokens as `Corpus` does. ``"counts"``: an
        (n, S) array, DataFrame or SciPy sparse matrix of counts, or of any other weights that are not
        negative. Only the shares of a row count; a weight below 1e-9 of the row's largest counts as none.
    dim : int, default 256
        Dimension d of the embeddings.
    steps : int, default 200
        Number of updates.
    learning_rate : float, default 0.01
    optimizer : {"adam", "sgd"}, default "adam"
    min_document_frequency : int, default 1
        In how many of the training rows a token must stand; other tokens are not known to the model.
    cls_penalty : float, default 0
        The loss that is minimised is :math:`L + \frac12\,\text{cls\_penalty}\,\lVert p\rVert^2`: less
        selective attention.
    early_stopping : bool, default False
        Hold back a share of the rows of each class, measure accuracy on them, and keep the model of the best
        step. Their tokens have no say in the vocabulary.
    validation_fraction : float, default 0.1
        The share, between 0 and 1; at least one row of each class.
    patience : int, default 10
        With early stopping, training ends when validation accuracy has not risen for so many measurements.
    batch_size : int, optional
        Rows in a minibatch; by default all of them.
    dtype : {"float32", "float64"}, default "float32"
        Of the model. Predictions are evaluated in float64 from its scores and values.
    device : str, default "cpu"
        Where it is trained: "cpu", "cuda", ...
    random_state : int, RandomState instance or None, default 0
        Of the start, the rows held back and the order of minibatches.

    Attributes
    ----------
    classes_ : ndarray, (2,)
        The two labels, sorted. A positive logit speaks for ``classes_[1]``.
    vocabulary_ : tuple of str, or ndarray of int
        What each row of the embeddings stands for: a word, or a column of X.
    model_ : AttentionClassifier
    history_ : History
        Loss, accuracy, validation accuracy and norm of p over the steps.
    n_features_in_ : int
        With ``input="counts"``: number of columns of X.
    feature_names_in_ : ndarray of str
        With ``input="counts"`` and a DataFrame: their names.

    Raises
    ------
    ValueError, TypeError
        From ``fit``: a parameter, X or y is not what it must be. scikit-learn's own words where it has any.
    FloatingPointError
        From ``fit``: training diverged; use a smaller learning rate.

    Warns
    -----
    RuntimeWarning
        From ``fit``: training was interrupted (the stop button, Ctrl-C). The estimator is then fitted, with
        the model and the history so far, as scikit-learn's own networks are. If it is interrupted earlier,
        while texts are counted, it is left unfitted.

    Notes
    -----
    Tokens that no training row holds are ignored, in counts too. Where no token is left the logit is 0: such
    a row plays no part in training, and it is predicted as ``classes_[0]`` with probability one half.

    Examples
    --------
    >>> import tokensel as ts
    >>> texts = ["a great film", "great fun", "a boring film", "boring and slow", "a slow start, great end"]
    >>> labels = ["liked", "liked", "disliked", "disliked", "liked"]
    >>> selector = ts.TokenSelector(dim=64, steps=100).fit(texts, labels)
    >>> selector.predict(["what a great evening", "so boring"]).tolist()
    ['liked', 'disliked']
    >>> selector.decision_function(["what a great evening", "so boring"]) > 0
    array([ True, False])
    >>> bool(selector.predict_proba(["what a great evening"])[0, 1] > 0.5)
    True
    >>> [token for token, score in selector.top_tokens(2)]
    ['great', 'boring']
    >>> token, weight = selector.explain("a great film")[0]
    >>> token, weight > 0.5
    ('great', True)
    """

    def __init__(
        self,
        input="texts",
        dim=256,
        steps=200,
        learning_rate=0.01,
        optimizer="adam",
        min_document_frequency=1,
        cls_penalty=0.0,
        early_stopping=False,
        validation_fraction=0.1,
        patience=10,
        batch_size=None,
        dtype="float32",
        device="cpu",
        random_state=0,
    ):
        self.input = input
        self.dim = dim
        self.steps = steps
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.min_document_frequency = min_document_frequency
        self.cls_penalty = cls_penalty
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.batch_size = batch_size
        self.dtype = dtype
        self.device = device
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        kind, is_text = tags.input_tags, self.input == "texts"
        kind.string, kind.two_d_array = is_text, not is_text
        kind.sparse = kind.positive_only = not is_text
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "model_")

    def fit(self, X, y):
        """Train on texts or counts.

        Parameters
        ----------
        X : iterable of n str, or (n, S) array or sparse matrix
            See ``input``.
        y : (n,) array
            Labels with exactly two values, of any kind.

        Returns
        -------
        TokenSelector
            Itself.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # so that a fit that fails leaves no half of an older one
        self._check_parameters()
        _require_device(self.device)
        _require_whole(y)
        if self.input == "texts":
            X, y = texts(X), validate_data(self, "no_validation", y)
            check_consistent_length(X, y)
        else:
            refuse_texts(X)
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=float)
        classes, label = two_classes(y)
        if self.input == "counts":
            check_non_negative(X, "TokenSelector (input X)")
        # One generator for all: scikit-learn's own are of NumPy's old kind.
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        vocabulary, corpus, validation = self._corpora(X, label, rng)
        model = AttentionClassifier.initialise(
            corpus.n_tokens, self.dim, rng, getattr(torch, self.dtype), self.device
        )
        self.history_ = fit(
            model,
            corpus,
            steps=self.steps,
            optimizer=self.optimizer,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            validation=validation,
            seed=rng,
            cls_penalty=self.cls_penalty,
            patience=self.patience if self.early_stopping else None,
        )
        self.classes_, self.vocabulary_, self.model_ = classes, vocabulary, model
        return self

    @property
    def decision_function(self):
        """The logits: ``decision_function(X)`` is a float64 array of shape (n,).

        Positive for ``classes_[1]``, and 0 where no token is known. Only a fitted estimator has it.
        """
        # scikit-learn has a check that gives every classifier with this and `predict_proba` negative numbers,
        # whatever its tags say (1.9). It looks before `fit`; NotFittedError is an AttributeError.
        check_is_fitted(self)
        return self._logits

    def predict(self, X):
        """Return the label of each row: ``classes_[1]`` where the logit is positive.

        Parameters
        ----------
        X : (n,) sequence of str, or with counts (n, S) array, sparse matrix or DataFrame

        Returns
        -------
        (n,) array
        """
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]

    def predict_proba(self, X):
        """Return the probabilities of the two classes, in the order of ``classes_``.

        Parameters
        ----------
        X : (n,) sequence of str, or with counts (n, S) array, sparse matrix or DataFrame

        Returns
        -------
        (n, 2) float64 array
        """
        from scipy.special import expit

        logits = self.decision_function(X)
        return np.column_stack([expit(-logits), expit(logits)])

    def top_tokens(self, k=20, label=None):
        """Return the tokens that ask for most attention.

        Parameters
        ----------
        k : int, default 20
            How many at most.
        label : optional
            One of ``classes_``: only tokens whose value speaks for it.

        Returns
        -------
        list of (token, score)
            By falling score. A token is a word, with counts the name or number of a column.

        Raises
        ------
        ValueError, TypeError
            If ``k`` is no whole number or negative, or ``label`` is none of ``classes_``.
        sklearn.exceptions.NotFittedError
            Before ``fit``.
        """
        check_is_fitted(self)
        k = whole_number("k", k)
        scores, values = (numbers.numpy() for numbers in self._scores_and_values())
        tokens = np.argsort(-scores, kind="stable")
        if label is not None:
            labels = self.classes_.tolist()
            if np.ndim(label) or label not in labels:
                raise ValueError(f"label must be one of {labels}, got {label!r}")
            tokens = tokens[(values[tokens] > 0) if label == labels[1] else (values[tokens] < 0)]
        return [(self._name(s), float(scores[s])) for s in tokens[:k]]

    def explain(self, text):
        """Return what the model attends to in one text.

        Parameters
        ----------
        text : str, or with counts one row of X
            The row as an array of shape (S,) or (1, S), sparse or dense, or a DataFrame of one row.

        Returns
        -------
        list of (token, weight)
            The known tokens of the text, each once, by falling attention; the weights sum to 1. Empty where
            no token is known.

        Raises
        ------
        TypeError
            If ``text`` is no str, or with counts is one.
        ValueError
            If counts are not one row, or not of as many columns as in ``fit``.
        sklearn.exceptions.NotFittedError
            Before ``fit``.
        """
        check_is_fitted(self)
        if self.input == "texts":
            if not isinstance(text, str):
                raise TypeError(f"text must be one str, got {text!r}")
            X = [text]
        else:
            refuse_texts(text)
            if hasattr(text, "to_frame"):  # one row of a DataFrame, which keeps the names of the columns
                text = text.to_frame().T
            if np.ndim(text) == 1:
                text = (text if hasattr(text, "reshape") else np.array(text)).reshape(1, -1)
            X = text
            if np.shape(X)[:1] != (1,):
                raise ValueError(f"text must be one row of counts, got shape {np.shape(X)}")
        corpus = as_corpus(self._counts(X), np.zeros(1))
        if corpus is None:
            return []
        weights = score_space.attention(corpus, self._scores_and_values()[0]).values().numpy()
        order = np.argsort(-weights, kind="stable")
        return [(self._name(corpus.counts.indices[j]), float(weights[j])) for j in order]

    def save(self, path):
        """Write the fitted estimator to one safetensors file, with its description as JSON inside.

        The file is whole or not there: what stood under that name is replaced only once the new file is
        written, and known to load.

        Parameters
        ----------
        path : str or path

        Raises
        ------
        ValueError
            If labels are of a kind that cannot be written (str, bool, int and float can), if
            ``random_state`` is a RandomState (set it to an int or None), or if a parameter has been set to
            what ``fit`` would refuse.
        OSError
            If the file cannot be written; FileNotFoundError if its folder is not there.

        Examples
        --------
        >>> import os, tempfile
        >>> import tokensel as ts
        >>> texts, labels = ["a great film", "great fun", "boring", "a boring plot"], [1, 1, 0, 0]
        >>> selector = ts.TokenSelector(dim=8, steps=20).fit(texts, labels)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "reviews.safetensors")
        ...     selector.save(path)
        ...     again = ts.TokenSelector.load(path)
        >>> bool((again.decision_function(texts) == selector.decision_function(texts)).all())
        True
        """
        check_is_fitted(self)
        saving.save(self, path)

    @classmethod
    def load(cls, path, device="cpu"):
        """Read an estimator that ``save`` has written; its predictions are the same, bit for bit.

        Nothing in the file is run, and all that it holds is checked.

        Parameters
        ----------
        path : str or path
        device : str, default "cpu"
            Where to put the model, whatever device it was trained on.

        Returns
        -------
        TokenSelector

        Raises
        ------
        ValueError
            If the file is damaged, of another kind or of another version; the message says which.
        OSError
            If it cannot be read.

        Examples
        --------
        That of :meth:`tokensel.TokenSelector.save`.
        """
        _require_device(device)
        return saving.load(cls, path, str(device))

    def _check_parameters(self):
        if self.input not in ("texts", "counts"):
            raise ValueError(f'input must be "texts" or "counts", got {self.input!r}')
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f'dtype must be "float32" or "float64", got {self.dtype!r}')
        if not isinstance(self.device, str | torch.device):
            raise TypeError(f'device must be a str such as "cpu" or "cuda", got {self.device!r}')
        if not isinstance(self.early_stopping, bool | np.bool_):
            raise TypeError(f"early_stopping must be True or False, got {self.early_stopping!r}")
        for name, least in (("dim", 1), ("steps", 0), ("min_document_frequency", 1), ("patience", 1)):
            whole_number(name, getattr(self, name), least)
        if self.batch_size is not None:
            whole_number("batch_size", self.batch_size)
        positive_number("learning_rate", self.learning_rate)
        real_number("cls_penalty", self.cls_penalty, 0)
        if not 0 < real_number("validation_fraction", self.validation_fraction) < 1:
            raise ValueError(f"validation_fraction must lie between 0 and 1, got {self.validation_fraction}")
        check_random_state(self.random_state)

    def _corpora(self, X, label, rng):
        """The vocabulary, what to train and what to validate on; the last has no say in the first."""
        X_held = None
        if self.early_stopping:
            rest, held = held_back(label, float(self.validation_fraction), rng)
            (X, X_held), label, label_held = parted(X, rest, held), label[rest], label[held]
        counts, words = counted(X) if self.input == "texts" else (canonical(X), None)
        least = self.min_document_frequency
        known = np.flatnonzero(np.bincount(counts.indices, minlength=counts.shape[1]) >= least)
        if known.size == 0:
            raise ValueError(
                f"no token stands in at least min_document_frequency={least} of the "
                f"{len(label)} training rows"
            )
        vocabulary = known if words is None else tuple(words[known].tolist())
        corpus = as_corpus(counts[:, known], label)
        if X_held is None:
            return vocabulary, corpus, None
        counts = canonical(X_held)[:, known] if words is None else counted(X_held, vocabulary)[0]
        validation = as_corpus(counts, label_held)
        if validation is None:
            raise ValueError(
                f"none of the {len(label_held)} rows held back for early_stopping holds a token of the "
                "training rows: give more rows, or set early_stopping=False"
            )
        return vocabulary, corpus, validation

    def _logits(self, X):
        counts = self._counts(X)
        logits = np.zeros(counts.shape[0])
        if (corpus := as_corpus(counts, np.zeros(len(logits)))) is not None:
            known = np.diff(counts.indptr) > 0
            logits[known] = score_space.logits(corpus, *self._scores_and_values()).numpy()
        return logits

    def _counts(self, X):
        """Counts of the known tokens in rows to be predicted, (n, S)."""
        if self.input == "texts":
            return counted(texts(X), self.vocabulary_)[0]
        refuse_texts(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=float, reset=False)
        check_non_negative(X, "TokenSelector (input X)")
        return canonical(X)[:, self.vocabulary_]

    @torch.no_grad()
    def _scores_and_values(self):
        """Scores and values on the CPU in float64, so that no prediction depends on its neighbours."""
        return self.model_.scores().cpu().double(), self.model_.values().cpu().double()

    def _name(self, token):
        if self.input == "texts":
            return self.vocabulary_[token]
        column = int(self.vocabulary_[token])
        return self.feature_names_in_[column] if hasattr(self, "feature_names_in_") else column


def _require_whole(y):
    """Refuse labels of pandas that are missing: scikit-learn's own complaint would not say what is."""
    if hasattr(y, "isna") and np.any(np.asarray(y.isna())):
        raise ValueError(f"y must hold a label for each row, but {np.asarray(y.isna()).sum()} are missing")


def _require_device(device):
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:  # torch without CUDA fails an assertion
        raise ValueError(f"device {device!r} cannot be used here: {error}") from error
