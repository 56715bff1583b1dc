"""Rows and labels as scikit-learn hands them over: texts, or counts and other weights of tokens."""

import numpy as np

from tokensel.corpus import Corpus, _strings, tokenise

# A weight below this share of its row's largest counts as none. So in units of the smallest none is above
# 1e9, and `score_space` can take sums of 1e14 in single precision.
LEAST_SHARE = 1e-9


def texts(X):
    """Return texts as a tuple of str, one at least."""
    if getattr(X, "ndim", 1) != 1:
        raise ValueError(
            f'with input="texts" X must be a list of texts, got an array of shape {X.shape}: '
            'pick the column that holds them, or use input="counts"'
        )
    if not (strings := _strings("X", X)):
        raise ValueError("X is empty: it needs at least one text")
    return strings


def refuse_texts(X):
    """Refuse texts where counts are asked for: scikit-learn would speak of floats only."""
    rows = X.tolist() if getattr(X, "ndim", 2) == 1 and hasattr(X, "tolist") else X
    text = rows[0] if isinstance(rows, list | tuple) and rows else rows
    if isinstance(text, str):
        raise ValueError(
            f'with input="counts" X must be a matrix of counts, but it holds texts, such as {text!r:.40}: '
            'leave input="texts", the default, or count them first'
        )


def two_classes(y):
    """Return the two labels, sorted, and which of them each row has.

    Examples
    --------
    >>> two_classes(np.array(["spam", "ham", "spam"]))
    (array(['ham', 'spam'], dtype='<U4'), array([1, 0, 1]))
    """
    from sklearn.utils.multiclass import check_classification_targets, type_of_target

    check_classification_targets(y)
    if (kind := type_of_target(y, input_name="y")) != "binary":
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
    classes, label = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(f"y must hold two classes, but it holds one class only: {classes.tolist()[0]!r}")
    return classes, label


def held_back(label, fraction, rng):
    """Return rows to train on and rows to hold back, with the same share of each class, in their order."""
    held = []
    for c in (0, 1):
        rows = np.flatnonzero(label == c)
        if len(rows) < 2:
            raise ValueError(
                "early_stopping needs at least two rows of each class, one to train on and one to hold back, "
                f"but one class has a single row among {len(label)}"
            )
        size = min(max(round(fraction * len(rows)), 1), len(rows) - 1)
        held.append(rng.choice(rows, size, replace=False))
    held = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(len(label)), held), held


def parted(X, *parts):
    """Return the rows of each part, of texts or of a matrix."""
    return [tuple(X[i] for i in rows) if isinstance(X, tuple) else X[rows] for rows in parts]


def counted(texts, vocabulary=None):
    """Return how often each word stands in each text, (n, S), and the words: all, or a given vocabulary.

    Examples
    --------
    >>> counts, words = counted(["great, great film", "?"])
    >>> counts.toarray(), words.tolist()
    (array([[1., 2.], [0., 0.]]), ['film', 'great'])
    """
    from sklearn.feature_extraction.text import CountVectorizer

    if vocabulary is None and not any(map(tokenise, texts)):
        raise ValueError(f"X holds no token in any of its {len(texts)} texts")
    vectorizer = CountVectorizer(analyzer=tokenise, lowercase=False, vocabulary=vocabulary, dtype=float)
    return canonical(vectorizer.fit_transform(texts)), vectorizer.get_feature_names_out()


def canonical(X):
    """Return a copy of X as CSR array, sorted, without duplicates and stored zeros."""
    from scipy.sparse import csr_array

    counts = csr_array(X, copy=True)
    try:
        counts.check_format()
    except ValueError as error:  # its arrays were set by hand
        raise ValueError(f"X is a sparse matrix whose arrays do not fit together: {error}") from None
    counts.sum_duplicates()
    counts.eliminate_zeros()
    return counts


def as_corpus(counts, label):
    """Return the rows that hold a token as a corpus, or None where none does.

    Only the shares of a row matter. `score_space` takes the weights of a row to be 1 or more, as numbers of
    tokens are. So each row is multiplied by a power of two, which rounds nothing, that lifts its smallest
    weight there.

    Examples
    --------
    >>> as_corpus(canonical([[0.25, 0.5], [0, 0], [3, 0]]), np.array([1, 0, 0])).counts.toarray()
    array([[1. , 2. ], [1.5, 0. ]])
    """
    known = np.diff(counts.indptr) > 0
    if not known.any():
        return None
    counts = counts[known]
    starts, sizes = counts.indptr[:-1], np.diff(counts.indptr)
    largest = np.maximum.reduceat(counts.data, starts)
    counts.data[counts.data < np.repeat(LEAST_SHARE * largest, sizes)] = 0
    smallest = np.minimum.reduceat(np.where(counts.data > 0, counts.data, np.inf), starts)
    _, exponent = np.frexp(smallest)  # smallest is below 2**exponent, and at least half of that
    counts.data = np.ldexp(counts.data, np.repeat(1 - exponent, sizes))
    counts.eliminate_zeros()
    return Corpus._trusted(counts, np.where(label[known] == 1, 1, -1), None, None, counts.sum(axis=1))
