"""`TokenSelector` against scikit-learn's own checks and against attention written out text by text."""

import re
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_array, csc_matrix, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_decision_proba_consistency, check_estimator

import tokensel as ts
from tokensel.corpus import tokenise

# Scores and values are evaluated in the dtype of the model, everything after in float64. In float64 rounding
# alone separates two ways to sum some ten terms of order one; in float32 the sums of dim terms are off by eps
# times their number.
ROUNDING = 1e-12
SINGLE = 1e-5

WORDS = {True: ["great", "superb", "moving"], False: ["dull", "slow", "awful"]}
SHARED = ["the", "film", "was", "a", "story", "don't"]


def reviews(n=40, seed=0):
    """Texts of shared words and one word that tells the class; their classes, alternating."""
    rng = np.random.default_rng(seed)
    liked = np.arange(n) % 2 == 0
    texts = [
        " ".join([*rng.choice(SHARED, rng.integers(2, 9)), rng.choice(WORDS[bool(like)]), "film"])
        for like in liked
    ]
    return texts, liked


def small(**options):
    return ts.TokenSelector(**{"dim": 16, "steps": 30, "learning_rate": 0.1, "dtype": "float64"} | options)


TEXTS, LIKED = reviews()
NEW_TEXTS = ["Superb, superb film<br />was DULL", "the the story", "unknown words only", "", "great"]
COUNTS = CountVectorizer(analyzer=tokenise).fit_transform(TEXTS)


def parameters(selector):
    return [
        getattr(selector.model_, name).detach().double().numpy() for name in ("embeddings", "cls", "output")
    ]


def same_model(one, other):
    return all(np.array_equal(a, b) for a, b in zip(parameters(one), parameters(other), strict=True))


def attention(weights, scores):
    """Of one row, by logarithms, so that nothing overflows: q proportional to w exp(a)."""
    logs = np.log(weights) + scores
    shares = np.exp(logs - logs.max())
    return shares / shares.sum()


def logit(selector, text):
    """Look the embeddings up word by word."""
    E, p, v = parameters(selector)
    words = re.findall(r"\w[\w']*", text.lower().replace("<br />", " "))
    rows = [E[selector.vocabulary_.index(word)] for word in words if word in selector.vocabulary_]
    return float(attention(np.ones(len(rows)), np.array(rows) @ p) @ np.array(rows) @ v) if rows else 0.0


# --- scikit-learn's conventions ---


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="default"),
        pytest.param(
            {"dim": 16, "steps": 50, "learning_rate": 0.05, "dtype": "float64", "early_stopping": True},
            id="early stopping",
        ),
    ],
)
def test_check_estimator_passes_on_counts(options):
    with warnings.catch_warnings():
        # The check of array API inputs needs SCIPY_ARRAY_API=1 before SciPy is imported: for all of pytest.
        warnings.filterwarnings("ignore", "Skipping check check_array_api_input", SkipTestWarning)
        results = check_estimator(ts.TokenSelector(input="counts", **options), on_fail="raise")
    unusual = {result["check_name"]: result["status"] for result in results if result["status"] != "passed"}
    assert unusual.items() <= {"check_array_api_input": "skipped"}.items()
    assert len(results) > 40


def test_probabilities_and_logits_have_the_same_order():
    """scikit-learn's check, which passes us over: its numbers must not be negative here."""

    class Shifted(ts.TokenSelector):
        def fit(self, X, y):
            return super().fit(X + 1, y)  # its numbers are above -1

        def _counts(self, X):
            return super()._counts(X + 1)

        def decision_function(self, X):  # here also before fit
            return self._logits(X)

    check_decision_proba_consistency("Shifted", Shifted(input="counts"))


def test_tags_say_what_is_accepted():
    texts, counts = (get_tags(ts.TokenSelector(input=kind)).input_tags for kind in ("texts", "counts"))
    assert (texts.string, texts.two_d_array, texts.sparse, texts.positive_only) == (True, False, False, False)
    assert (counts.string, counts.two_d_array, counts.sparse, counts.positive_only) == (
        False,
        True,
        True,
        True,
    )
    assert not get_tags(ts.TokenSelector()).classifier_tags.multi_class


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.predict(["a"]),
        lambda s: s.predict_proba(["a"]),
        lambda s: s.decision_function(["a"]),
        lambda s: s.top_tokens(3),
        lambda s: s.explain("a"),
        lambda s: s.save("never.safetensors"),
    ],
)
def test_before_fit_everything_says_so(use):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        use(ts.TokenSelector())


def test_a_clone_has_the_parameters_and_nothing_else():
    fitted = small(cls_penalty=0.25).fit(TEXTS, LIKED)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "model_")
    assert same_model(copy.fit(TEXTS, LIKED), fitted)


# --- what is computed ---


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", ROUNDING), ("float32", SINGLE)])
def test_logits_are_those_of_attention_word_by_word(dtype, tolerance):
    selector = small(dtype=dtype).fit(TEXTS, LIKED)
    expected = [logit(selector, text) for text in TEXTS + NEW_TEXTS]
    found = selector.decision_function(TEXTS + NEW_TEXTS)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    assert found.dtype == np.float64
    assert selector.model_.cls.dtype == getattr(torch, dtype)


def test_predictions_and_probabilities_follow_from_the_logits():
    selector = small().fit(TEXTS, np.where(LIKED, "yes", "no"))
    logits = selector.decision_function(NEW_TEXTS)
    probabilities = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(selector.predict_proba(NEW_TEXTS)[:, 1], probabilities, rtol=1e-14)
    np.testing.assert_allclose(selector.predict_proba(NEW_TEXTS).sum(1), 1, rtol=1e-15)
    assert selector.classes_.tolist() == ["no", "yes"]
    assert selector.predict(NEW_TEXTS).tolist() == ["yes" if f > 0 else "no" for f in logits]
    assert selector.score(TEXTS, np.where(LIKED, "yes", "no")) == 1.0


def test_it_trains_what_fit_trains():
    """From the same start, on the corpus that `Corpus.from_texts` makes."""
    options = {"steps": 12, "optimizer": "sgd", "learning_rate": 3.0}
    model = small(**options | {"steps": 0}).fit(TEXTS, LIKED).model_
    corpus = ts.Corpus.from_texts(TEXTS, LIKED)
    history = ts.fit(model, corpus, **options, cls_penalty=0.3)
    selector = small(**options, cls_penalty=0.3).fit(TEXTS, LIKED)
    for name in ("embeddings", "cls", "output"):
        assert torch.equal(getattr(selector.model_, name), getattr(model, name))
    assert selector.history_.loss.tolist() == history.loss.tolist()
    assert selector.vocabulary_ == corpus.vocabulary


def test_a_penalty_shortens_the_cls_embedding():
    norms = [
        small(cls_penalty=penalty).fit(TEXTS, LIKED).history_.cls_norm[-1]
        for penalty in (0.0, 0.01, 0.1, 1.0)
    ]
    assert norms == sorted(norms, reverse=True)
    assert norms[-1] < norms[0] / 2


def test_minibatches_and_dtype_and_device_are_passed_on():
    selector = small(batch_size=8, steps=11, device=torch.device("cpu"), dtype="float32").fit(TEXTS, LIKED)
    assert len(selector.history_.loss) == 12
    assert not same_model(selector, small(steps=11, dtype="float32").fit(TEXTS, LIKED))


def test_rare_tokens_are_cut_in_texts_and_in_counts():
    frequency = {
        word: sum(word in tokenise(text) for text in TEXTS) for text in TEXTS for word in tokenise(text)
    }
    expected = sorted(word for word, times in frequency.items() if times >= 8)
    of_texts = small(min_document_frequency=8).fit(TEXTS, LIKED)
    assert 0 < len(expected) < len(frequency)
    assert list(of_texts.vocabulary_) == expected
    of_counts = small(input="counts", min_document_frequency=8).fit(COUNTS, LIKED)
    assert of_counts.vocabulary_.tolist() == [sorted(frequency).index(word) for word in expected]
    assert same_model(of_texts, of_counts)


def test_rows_without_known_tokens_play_no_part():
    selector = small(min_document_frequency=2).fit(TEXTS, LIKED)
    extra = small(min_document_frequency=2).fit(["rarissima", "", *TEXTS], [True, False, *LIKED])
    assert same_model(selector, extra)
    unknown = ["rarissima", "", "?!"]
    assert extra.decision_function(unknown).tolist() == [0, 0, 0]
    assert extra.predict_proba(unknown).tolist() == [[0.5, 0.5]] * 3
    assert extra.predict(unknown).tolist() == [False] * 3
    assert extra.explain("rarissima") == []
    assert extra.decision_function(["film", "rarissima"])[0] == selector.decision_function(["film"])[0] != 0


# --- counts of every kind ---

MAKERS = {
    "dense": lambda X: X.toarray(),
    "list": lambda X: X.toarray().tolist(),
    "single": lambda X: X.toarray().astype(np.float32),
    "bytes": lambda X: X.toarray().astype(np.uint8),
    "csr_array": csr_array,
    "csr_matrix": csr_matrix,
    "csc_array": csc_array,
    "csc_matrix": csc_matrix,
    "coo_array": coo_array,
    "frame": lambda X: pd.DataFrame(X.toarray()),
    "nullable frame": lambda X: pd.DataFrame(X.toarray()).astype("Int64"),
    "unsorted, doubled, with zeros": lambda X: _untidy(X),
}


def _untidy(X):
    rows, columns = X.nonzero()
    rows, columns = np.tile(rows, 3)[::-1], np.tile(columns, 3)[::-1]
    data = np.concatenate([X.data * 0.25, X.data * 0.75, X.data * 0.0])[::-1]
    order = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=X.shape[0]))])
    return csr_array((data[order], columns[order], indptr), shape=X.shape)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_counts_of_any_layout_give_the_model_of_the_texts(make):
    X = make(COUNTS)
    before = X.copy()
    selector = small(input="counts").fit(X, LIKED)
    of_texts = small().fit(TEXTS, LIKED)
    assert same_model(selector, of_texts)
    assert selector.n_features_in_ == COUNTS.shape[1]
    assert selector.decision_function(X).tolist() == of_texts.decision_function(TEXTS).tolist()
    if hasattr(X, "indices"):
        assert X.data.tolist() == before.data.tolist()  # ours to read only
        assert X.indices.tolist() == before.indices.tolist()


def test_a_data_frame_gives_its_names():
    words = CountVectorizer(analyzer=tokenise).fit(TEXTS).get_feature_names_out()
    frame = pd.DataFrame(COUNTS.toarray(), columns=words)
    selector = small(input="counts").fit(frame, LIKED)
    of_texts = small().fit(TEXTS, LIKED)
    assert selector.feature_names_in_.tolist() == words.tolist()
    assert selector.top_tokens(5) == of_texts.top_tokens(5)
    for row in (frame.iloc[[3]], frame.iloc[3]):
        assert selector.explain(row) == of_texts.explain(TEXTS[3])
    with pytest.raises(ValueError, match="feature names should match"):
        selector.predict(frame.iloc[:, ::-1])


def _known(scores, dtype="float64"):
    """An estimator on counts with the scores given and the values 1, 2, 3, ..."""
    selector = ts.TokenSelector(input="counts", dim=2, steps=0, dtype=dtype)
    selector.fit(np.eye(len(scores)), np.arange(len(scores)) % 2)
    _set(selector, scores)
    return selector


def _set(selector, scores):
    number = getattr(np, selector.dtype)
    embeddings = np.column_stack([scores, np.arange(1, len(scores) + 1)]).astype(number)
    selector.model_ = ts.AttentionClassifier(embeddings, np.array([1, 0], number), np.array([0, 1], number))


SIX = {dtype: _known(np.zeros(6), dtype) for dtype in ("float32", "float64")}


@given(
    weights=st.lists(st.floats(1e-5, 1e3), min_size=1, max_size=6),
    scores=st.lists(st.floats(-300, 300, width=32), min_size=6, max_size=6),
    scale=st.sampled_from([2.0**-1000, 1e-290, 2.0**-30, 1.0, 3.0, 2.0**40, 1e290]),
    dtype=st.sampled_from(["float32", "float64"]),
)
@settings(deadline=None, max_examples=100)
def test_weights_count_by_their_shares(weights, scores, scale, dtype):
    """Any positive weights: q is proportional to w exp(a), however small or large all of them are."""
    selector = SIX[dtype]
    _set(selector, scores)
    row = np.zeros((1, 6))
    row[0, : len(weights)] = weights
    scores, values = np.array(scores[: len(weights)]), np.arange(1.0, len(weights) + 1)
    expected = attention(np.array(weights), scores) @ values
    found = selector.decision_function(row * scale)
    # Scores hold in either dtype, the rest is float64; rounding a difference of 600 is off by 1e-13.
    np.testing.assert_allclose(found, [expected], rtol=1e-11)
    explained = selector.explain(row * scale)
    assert sum(weight for _, weight in explained) == pytest.approx(1, abs=ROUNDING)
    if np.frexp(scale)[0] == 0.5:  # a power of two rounds nothing
        assert found.tolist() == selector.decision_function(row).tolist()


def test_a_weight_far_below_the_largest_counts_as_none():
    selector = _known([0.0, 500.0, 0.0])
    assert selector.explain([1.0, 2e-9, 0.0])[0][0] == 1  # e^500 makes up for it
    assert selector.explain([1.0, 0.5e-9, 0.0]) == [(0, 1.0)]


def test_fractional_weights_train_as_counts_do():
    """tf-idf, say; and a row times a number is the same row."""
    X = TfidfVectorizer(analyzer=tokenise).fit_transform(TEXTS)
    selector = small(input="counts").fit(X, LIKED)
    assert selector.score(X, LIKED) == 1.0
    scaled = small(input="counts").fit(X.multiply(2.0 ** np.arange(-20, 20)[:, None]).tocsr(), LIKED)
    assert same_model(selector, scaled)


def test_columns_that_no_training_row_holds_are_ignored():
    wide = np.zeros((len(TEXTS), COUNTS.shape[1] + 7))
    wide[:, 4:-3] = COUNTS.toarray()
    selector = small(input="counts").fit(wide, LIKED)
    assert selector.vocabulary_.tolist() == list(range(4, wide.shape[1] - 3))
    assert same_model(selector, small(input="counts").fit(COUNTS, LIKED))
    row = wide[:1].copy()
    row[0, :4] = 100
    assert selector.decision_function(row) == selector.decision_function(wide[:1])
    assert {token for token, _ in selector.top_tokens(1000)} == set(range(4, wide.shape[1] - 3))


# --- labels ---

LABELS = {
    "bool": [False, True],
    "int": [3, 7],
    "minus one": [-1, 1],
    "str": ["neg", "pos"],
    "unicode": ["schön", "öde"],
    "float": [0.0, 1.0],
    "NumPy bool": [np.False_, np.True_],
    "int8": [np.int8(-2), np.int8(5)],
    "uint64": [np.uint64(1), np.uint64(2**63)],
    "NumPy str": [np.str_("a"), np.str_("b")],
}


@pytest.mark.parametrize("pair", LABELS.values(), ids=LABELS)
def test_any_two_labels(pair):
    y = [pair[int(like)] for like in LIKED]
    selector = small().fit(TEXTS, y)
    assert selector.classes_.tolist() == pair
    assert selector.classes_.dtype == np.array(pair).dtype
    predicted = selector.predict(TEXTS)
    assert predicted.tolist() == y
    assert predicted.dtype == selector.classes_.dtype
    assert selector.decision_function(["superb"]) > 0 > selector.decision_function(["awful"])
    for label, words in zip(pair, (WORDS[False], WORDS[True]), strict=True):
        speak = [word for word, _ in selector.top_tokens(99, label)]
        assert set(words) <= set(speak)
        assert selector.predict(speak).tolist() == [label] * len(speak)  # a text of this word alone


@pytest.mark.parametrize(
    ("kind", "dtype"), [("str", "str"), ("object", object), ("category", "category"), ("string", "string")]
)
def test_labels_in_a_series(kind, dtype):
    y = pd.Series(np.where(LIKED, "up", "down"), index=np.arange(100, 140)).astype(dtype)
    selector = small().fit(pd.Series(TEXTS, index=np.arange(100, 140)), y)
    assert selector.classes_.tolist() == ["down", "up"]
    assert selector.predict(pd.Series(NEW_TEXTS[:2])).tolist() == selector.predict(NEW_TEXTS[:2]).tolist()


def test_swapped_names_swap_the_sign():
    one, other = small().fit(TEXTS, LIKED), small().fit(TEXTS, ~LIKED)
    losses = one.history_.loss[0], other.history_.loss[0]
    f = small(steps=0).fit(TEXTS, LIKED).decision_function(TEXTS)
    y = np.where(LIKED, 1, -1)
    np.testing.assert_allclose(losses, [np.log1p(np.exp(-y * f)).mean(), np.log1p(np.exp(y * f)).mean()])


# --- what it says ---


def test_top_tokens_are_ordered_by_score():
    selector = small().fit(TEXTS, LIKED)
    E, p, v = parameters(selector)
    scores, values = dict(zip(selector.vocabulary_, E @ p, strict=True)), E @ v
    everything = selector.top_tokens(10**6)
    assert sorted(everything) == sorted((word, pytest.approx(a)) for word, a in scores.items())
    found = [a for _, a in everything]
    assert found == sorted(found, reverse=True)
    assert selector.top_tokens(4) == everything[:4]
    speaks_for = dict(zip(selector.vocabulary_, values > 0, strict=True))
    for label in (False, True):
        assert selector.top_tokens(99, label) == [(w, a) for w, a in everything if speaks_for[w] == label]


def test_explain_gives_the_attention_on_each_token():
    selector = small().fit(TEXTS, LIKED)
    E, p, _ = parameters(selector)
    words, times = ["dull", "film", "superb", "was"], [1, 1, 2, 1]
    weights = attention(times, np.array([E[selector.vocabulary_.index(word)] @ p for word in words]))
    explained = selector.explain("Superb, superb film<br />was DULL, unknown")
    assert dict(explained) == pytest.approx(dict(zip(words, weights, strict=True)))
    assert [word for word, _ in explained] == [words[i] for i in np.argsort(-weights)]
    assert sum(w for _, w in explained) == pytest.approx(1, abs=ROUNDING)


def test_explain_takes_a_row_of_counts_in_every_form():
    selector = small(input="counts").fit(COUNTS, LIKED)
    expected = small().fit(TEXTS, LIKED)
    expected = [
        (sorted(expected.vocabulary_).index(word), weight) for word, weight in expected.explain(TEXTS[5])
    ]
    dense = COUNTS[[5]].toarray()
    for row in (dense, dense[0], dense[0].tolist(), COUNTS[[5]], csc_array(COUNTS[[5]]), coo_array(dense[0])):
        explained = selector.explain(row)
        assert explained == expected
        assert all(type(token) is int for token, _ in explained)


# --- early stopping ---


def _marked(n=60, minority=20):
    """Reviews of which each has a word of its own, so that the vocabulary tells who was trained on."""
    texts, _ = reviews(n)
    liked = np.arange(n) >= minority
    rng = np.random.default_rng(1)
    own = [f"{rng.choice(WORDS[bool(like)])} own{i}" for i, like in enumerate(liked)]
    return [f"{text} {words}" for text, words in zip(texts, own, strict=True)], liked


def _held(selector, n):
    return [i for i in range(n) if f"own{i}" not in selector.vocabulary_]


def test_early_stopping_holds_back_a_share_of_each_class():
    texts, liked = _marked()
    held = {}
    for seed in (0, 0, 1):
        selector = small(early_stopping=True, validation_fraction=0.2, random_state=seed).fit(texts, liked)
        found = _held(selector, 60)
        assert (len(found), int(liked[found].sum())) == (12, 8)
        assert held.setdefault(seed, found) == found
    assert held[0] != held[1]


def test_early_stopping_keeps_the_model_of_the_best_step():
    texts, liked = _marked()
    rng = np.random.default_rng(3)
    noisy = np.where(rng.random(60) < 0.3, ~liked, liked)  # so that training accuracy and the best step part
    selector = small(early_stopping=True, validation_fraction=0.4, patience=7, steps=200).fit(texts, noisy)
    history = selector.history_
    held = _held(selector, 60)
    # 0 logits aside (there are none), predicted labels are what the accuracy of the history is about.
    accuracy = selector.score([texts[i] for i in held], noisy[held])
    assert accuracy == pytest.approx(np.max(history.validation_accuracy))
    assert 0 < history.best_step < len(history.loss) - 1 < 200
    assert len(history.loss) - 1 == history.best_step + 7


def test_early_stopping_on_counts_holds_the_same_rows_back():
    texts, liked = _marked()
    X = CountVectorizer(analyzer=tokenise).fit_transform(texts)
    of_counts, of_texts = (
        small(input=kind, early_stopping=True).fit(data, liked)
        for kind, data in (("counts", X), ("texts", texts))
    )
    assert same_model(of_counts, of_texts)
    assert of_counts.history_.validation_accuracy.tolist() == of_texts.history_.validation_accuracy.tolist()


@pytest.mark.parametrize("fraction", [1e-6, 1 - 1e-6])
def test_at_least_one_review_of_each_class_is_on_either_side(fraction):
    texts, liked = _marked()
    held = _held(small(early_stopping=True, validation_fraction=fraction).fit(texts, liked), 60)
    assert sorted(np.bincount(liked[held])) == ([1, 1] if fraction < 0.5 else [19, 39])


def test_too_few_reviews_for_early_stopping():
    with pytest.raises(ValueError, match=r"at least two rows of each class.*single row among 3"):
        small(early_stopping=True).fit(["a b", "a c", "a d"], [0, 0, 1])
    with pytest.raises(
        ValueError, match=r"none of the 2 rows held back .* holds a token of the training rows"
    ):
        small(early_stopping=True).fit(["a", "b", "c", "d"], [0, 0, 1, 1])


# --- together with scikit-learn's tools ---


def test_grid_search_over_texts():
    grid = {"cls_penalty": [0.0, 50.0], "min_document_frequency": [1, 2], "steps": [0, 25]}
    search = GridSearchCV(small(), grid, cv=3).fit(TEXTS, LIKED)
    assert len(search.cv_results_["params"]) == 8
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.best_params_["steps"] == 25
    assert search.predict(["superb", "awful"]).tolist() == [True, False]
    assert search.best_estimator_.explain("superb") == [("superb", 1.0)]


def test_pipelines_of_counts():
    pipeline = make_pipeline(CountVectorizer(analyzer=tokenise), small(input="counts"))
    grid = {"countvectorizer__min_df": [1, 5], "tokenselector__cls_penalty": [0.0, 0.01]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(TEXTS, LIKED)
    assert search.best_score_ == 1.0
    np.testing.assert_array_equal(
        pipeline.fit(TEXTS, LIKED).decision_function(TEXTS),
        small().fit(TEXTS, LIKED).decision_function(TEXTS),
    )
    assert make_pipeline(small()).fit(TEXTS, LIKED).predict(["superb"]).tolist() == [True]


def test_set_output_does_no_harm():
    frame = pd.DataFrame(COUNTS.toarray(), columns=[f"w{i}" for i in range(COUNTS.shape[1])])
    pipeline = make_pipeline(MinMaxScaler(), small(input="counts")).set_output(transform="pandas")
    predicted = pipeline.fit(frame, LIKED).predict(frame)
    assert isinstance(predicted, np.ndarray)
    assert pipeline[-1].top_tokens(1)[0][0] in frame.columns


def test_cross_validation_calibration_and_learning_curves():
    texts, liked = reviews(90)
    assert cross_val_score(small(), texts, liked, cv=StratifiedKFold(3)).tolist() == [1, 1, 1]
    calibrated = CalibratedClassifierCV(small(), cv=3).fit(texts, liked)
    probabilities = calibrated.predict_proba(["superb", "awful"])[:, 1]
    assert probabilities[0] > 0.5 > probabilities[1]
    _, _, scores = learning_curve(small(), texts, liked, cv=3, train_sizes=[0.2, 1.0], error_score="raise")
    assert scores.shape == (2, 3)
    assert scores[-1].min() == 1.0


# --- randomness ---


def test_the_random_state():
    fit = lambda state: small(random_state=state, batch_size=8, early_stopping=True).fit(TEXTS, LIKED)  # noqa: E731
    assert same_model(fit(0), fit(0))
    assert same_model(fit(0), fit(np.int64(0)))
    assert not same_model(fit(0), fit(1))
    assert not same_model(fit(None), fit(None))
    assert same_model(fit(np.random.RandomState(5)), fit(5))
    state = np.random.RandomState(5)
    assert not same_model(fit(state), fit(state))


def test_one_seed_gives_one_start_in_either_precision():
    single, double = (small(dtype=dtype, steps=0).fit(TEXTS, LIKED) for dtype in ("float32", "float64"))
    for one, other in zip(parameters(single), parameters(double), strict=True):
        np.testing.assert_array_equal(one, other.astype(np.float32))


# --- bad input ---

BAD_PARAMETERS = {
    "input": "words",
    "dim": 0,
    "steps": -1,
    "learning_rate": 0.0,
    "optimizer": "lbfgs",
    "min_document_frequency": 0,
    "cls_penalty": -0.1,
    "early_stopping": "yes",
    "validation_fraction": 1.0,
    "patience": 0,
    "batch_size": 0,
    "dtype": "float16",
    "device": 3,
    "random_state": -1,
}


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS.items())
def test_a_parameter_that_makes_no_sense(name, value):
    selector = ts.TokenSelector(**{name: value})  # scikit-learn's convention: said by fit
    with pytest.raises((ValueError, TypeError), match="Seed must be" if name == "random_state" else name):
        selector.fit(TEXTS, LIKED)


def test_a_device_that_is_not_there():
    with pytest.raises(ValueError, match="device 'abacus' cannot be used here"):
        small(device="abacus").fit(TEXTS, LIKED)


BAD_TEXTS = {
    "one str": ("a great film", TypeError, "X must be a list of str, got a str"),
    "missing": (["fine", None, *TEXTS[2:]], TypeError, r"X\[1\] is None"),
    "nan": (["fine", np.nan, *TEXTS[2:]], TypeError, r"X\[1\] is nan"),
    "bytes": (["fine", b"x", *TEXTS[2:]], TypeError, r"X\[1\] is b'x'"),
    "counts": (COUNTS, ValueError, 'array of shape .*input="counts"'),
    "frame": (pd.DataFrame({"text": TEXTS}), ValueError, "pick the column that holds them"),
    "none": ([], ValueError, "X is empty"),
    "no words": (["?", ""] * 20, ValueError, "no token in any of its 40 texts|holds no token"),
    "fewer": (TEXTS[:-1], ValueError, r"inconsistent numbers of samples: \[39, 40\]"),
}


@pytest.mark.parametrize(("X", "error", "words"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_texts_that_are_none(X, error, words):
    with pytest.raises(error, match=words):
        small().fit(X, LIKED)


BAD_LABELS = {
    "one class": ([1] * 40, "one class only: 1"),
    "three": (
        [0, 1, 2, 1] * 10,
        "Only binary classification is supported. The type of the target is multiclass",
    ),
    "continuous": (np.linspace(0.1, 2, 40), "Unknown label type: continuous"),
    "nan": ([0.0, np.nan] * 20, "Input y contains NaN"),
    "None": (None, "requires y to be passed, but the target y is None"),
    "columns": (np.ones((40, 2), dtype=int), r"y should be a 1d array, got an array of shape \(40, 2\)"),
}


@pytest.mark.parametrize("kind", ["texts", "counts"])
@pytest.mark.parametrize(("y", "words"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_labels_that_are_not_two(kind, y, words):
    with pytest.raises(ValueError, match=words):
        small(input=kind).fit(TEXTS if kind == "texts" else COUNTS, y)


BAD_COUNTS = {
    "negative": (-COUNTS, "Negative values in data passed to TokenSelector"),
    "one negative": (np.where(np.arange(40)[:, None] == 3, -0.5, COUNTS.toarray()), "Negative values"),
    "NaN": (np.where(np.arange(40)[:, None] == 3, np.nan, COUNTS.toarray()), "Input X contains NaN"),
    "infinity": (np.where(np.arange(40)[:, None] == 3, np.inf, COUNTS.toarray()), "infinity"),
    "flat": (np.ones(40), "Expected 2D array, got 1D array instead"),
    "texts": (TEXTS, 'must be a matrix of counts, but it holds texts, such as .*leave input="texts"'),
    "texts in an array": (np.array(TEXTS), "must be a matrix of counts, but it holds texts"),
    "texts in a column": (
        pd.Series(TEXTS, index=range(5, 45)),
        "must be a matrix of counts, but it holds texts",
    ),
    "all zero": (np.zeros((40, 3)), "no token stands in at least min_document_frequency=1 of the 40"),
}


@pytest.mark.parametrize(("X", "words"), BAD_COUNTS.values(), ids=BAD_COUNTS)
def test_counts_that_are_none(X, words):
    with pytest.raises(ValueError, match=words):
        small(input="counts").fit(X, LIKED)


def test_counts_to_predict_are_checked_too():
    selector = small(input="counts").fit(COUNTS, LIKED)
    with pytest.raises(ValueError, match="X has 3 features, but TokenSelector is expecting"):
        selector.predict(np.ones((1, 3)))
    with pytest.raises(ValueError, match="Negative values"):
        selector.predict(-COUNTS)
    for ask, texts in ((selector.predict, ["a great film"]), (selector.explain, "a great film")):
        with pytest.raises(
            ValueError, match="must be a matrix of counts, but it holds texts, such as 'a great"
        ):
            ask(texts)
    with pytest.raises(ValueError, match="NaN"):
        selector.predict(np.full((1, COUNTS.shape[1]), np.nan))
    with pytest.raises(ValueError, match=r"one row of counts, got shape \(2, "):
        selector.explain(COUNTS[:2])
    with pytest.raises(TypeError, match="text must be one str"):
        small().fit(TEXTS, LIKED).explain(TEXTS[:1])


def test_top_tokens_of_what_is_not_there():
    selector = small().fit(TEXTS, LIKED)
    with pytest.raises(ValueError, match=r"label must be one of \[False, True\], got 'liked'"):
        selector.top_tokens(3, label="liked")
    with pytest.raises(ValueError, match="k must be at least 1"):
        selector.top_tokens(0)


def test_a_cut_that_leaves_nothing():
    with pytest.raises(ValueError, match="min_document_frequency=41 of the 40 training rows"):
        small(min_document_frequency=41).fit(TEXTS, LIKED)


def test_training_that_diverges_leaves_it_unfitted():
    selector = small().fit(TEXTS, LIKED)
    with pytest.raises(FloatingPointError, match="smaller learning rate"):
        selector.set_params(optimizer="sgd", learning_rate=1e300).fit(TEXTS, LIKED)
    with pytest.raises(NotFittedError):
        selector.predict(TEXTS)


# --- Ctrl-C ---


def test_interrupted_while_training_it_is_fitted_as_far_as_it_went(monkeypatch):
    steps, step = [], torch.optim.Adam.step

    def pressed(self, *args):
        steps.append(1)
        if len(steps) == 20:
            signal.raise_signal(signal.SIGINT)
        return step(self, *args)

    monkeypatch.setattr(torch.optim.Adam, "step", pressed)
    selector = small(steps=100)
    with pytest.warns(RuntimeWarning, match="interrupted after .* of 100 steps"):
        selector.fit(TEXTS, LIKED)
    assert len(selector.history_.loss) - 1 == len(steps) == 20
    logits = selector.decision_function(TEXTS)
    loss = np.log1p(np.exp(-np.where(LIKED, 1, -1) * logits)).mean()
    np.testing.assert_allclose(loss, selector.history_.loss[-1], rtol=1e-9)
    assert selector.predict(["superb", "awful"]).tolist() == [True, False]


def test_interrupted_while_counting_it_is_unfitted():
    def pressed():
        yield from TEXTS[:10]
        raise KeyboardInterrupt

    selector = small().fit(TEXTS, LIKED)
    with pytest.raises(KeyboardInterrupt):
        selector.fit(pressed(), LIKED)
    with pytest.raises(NotFittedError):
        selector.predict(TEXTS)
    assert selector.fit(TEXTS, LIKED).score(TEXTS, LIKED) == 1.0


@pytest.mark.parametrize("dtype", ["string", "Int64"])
def test_missing_labels_of_pandas_are_said_to_be(dtype):
    y = pd.Series(["1", "0", pd.NA, "1"], dtype="string").astype(dtype)
    with pytest.raises(ValueError, match="y must hold a label for each row, but 1 are missing"):
        small().fit(TEXTS[:4], y)


def test_a_device_without_numbers_is_refused():
    with pytest.raises(ValueError, match="device 'meta' cannot be used here"):
        small(device="meta").fit(TEXTS, LIKED)


def test_a_sparse_matrix_whose_arrays_do_not_fit_together_is_refused():
    counts = csr_matrix(COUNTS, copy=True)
    counts.indices[0] = 10_000
    with pytest.raises(ValueError, match="X is a sparse matrix whose arrays do not fit together"):
        small(input="counts").fit(counts, LIKED)


def test_several_labels_are_none():
    selector = small(steps=1).fit(TEXTS, LIKED)
    for label in (np.array([True, False]), [True]):
        with pytest.raises(ValueError, match=r"label must be one of \[False, True\]"):
            selector.top_tokens(label=label)


def test_a_tensor_is_a_row_of_counts_too():
    selector = small(input="counts", steps=1).fit(COUNTS, LIKED)
    row = COUNTS[[0]].toarray()
    assert selector.explain(torch.tensor(row[0])) == selector.explain(row)
