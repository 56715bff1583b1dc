"""Samplers: each corpus satisfies the hypothesis that its sampler is named after."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokensel import samplers


def rows_of(corpus):
    """Each sequence as a list of token ids, by plain loops."""
    return [
        [s for s, times in enumerate(row) for _ in range(times)] for row in corpus.counts.toarray().tolist()
    ]


designs = st.fixed_dictionaries(
    {
        "n_sequences": st.integers(4, 25).map(lambda pairs: 2 * pairs),
        "length": st.integers(2, 9),
        "n_important": st.sampled_from([2, 4, 6, 8]),
        "n_irrelevant": st.integers(1, 12),
        "seed": st.integers(0, 2**32),
    }
)


@settings(deadline=None)  # other work on the machine is no failure
@given(designs, st.booleans())
def test_one_important_token_and_balance(design, mirror):
    corpus = samplers.one_important_token(**design, mirror=mirror)
    n, n_important = design["n_sequences"], design["n_important"]
    assert corpus.counts.shape == (n, n_important + design["n_irrelevant"])
    assert corpus.lengths.tolist() == [design["length"]] * n
    assert corpus.labels.tolist() == [1, -1] * (n // 2)

    used = Counter()
    for row, label in zip(rows_of(corpus), corpus.labels.tolist(), strict=True):
        important = [s for s in row if s < n_important]
        assert len(important) == 1
        used[important[0]] += 1
        assert label == (1 if important[0] < n_important // 2 else -1)
    for tokens in (range(n_important // 2), range(n_important // 2, n_important)):
        times = [used[s] for s in tokens]
        assert sum(times) == n // 2
        assert min(times) >= 1
        assert max(times) - min(times) <= 1


@settings(deadline=None)
@given(designs)
def test_mirrored_irrelevant_tokens_have_alpha_exactly_zero(design):
    corpus = samplers.one_important_token(**design)
    n_important = design["n_important"]
    assert (corpus.average_signed_frequency[n_important:] == 0).all()
    assert set(corpus.token_kinds[n_important:]) <= {"irrelevant", "absent"}
    assert set(corpus.token_kinds[: n_important // 2]) == {"completely positive"}
    assert set(corpus.token_kinds[n_important // 2 : n_important]) == {"completely negative"}
    # Each pair shares its irrelevant tokens, so the first pairs alone are mirrored as well.
    rows = [[s for s in row if s >= n_important] for row in rows_of(corpus)]
    assert rows[::2] == rows[1::2]
    assert (corpus[: 2 * (len(rows) // 4)].average_signed_frequency[n_important:] == 0).all()


def test_defaults():
    corpus = samplers.one_important_token()
    assert (corpus.n_sequences, corpus.n_tokens, set(corpus.lengths)) == (200, 26, {8})
    assert corpus.token_kinds.tolist() == (
        ["completely positive"] * 3 + ["completely negative"] * 3 + ["irrelevant"] * 20
    )


def test_equal_use_gives_equal_alpha():
    corpus = samplers.one_important_token(n_sequences=120, length=8, n_important=6, n_irrelevant=20, seed=3)
    # Each important token stands once in 20 of 120 sequences of 8: |α| = 20 / (120 · 8), summed as integers.
    assert corpus.average_signed_frequency[:6].tolist() == [20 / 8 / 120] * 3 + [-20 / 8 / 120] * 3


def test_unmirrored_irrelevant_tokens_are_not_balanced():
    corpus = samplers.one_important_token(seed=0, mirror=False)
    assert (corpus.average_signed_frequency[6:] != 0).sum() > 10
    # The signed count of a token is a sum of 1,400 independent terms with variance at most 1 / 20.
    assert np.abs(corpus.average_signed_frequency[6:]).max() < 5 * math.sqrt(1400 / 20) / (200 * 8)


def test_irrelevant_tokens_are_drawn_uniformly():
    corpus = samplers.one_important_token(n_sequences=4000, length=9, n_irrelevant=10, seed=1)
    times = corpus.counts.sum(axis=0)[6:]
    # 2,000 pairs draw 8 tokens of 10, each counted twice: binomial counts within five standard deviations.
    expected, deviation = 2 * 16_000 / 10, 2 * math.sqrt(16_000 * 0.1 * 0.9)
    assert np.abs(times - expected).max() < 5 * deviation


@pytest.mark.parametrize("sampler", [samplers.one_important_token, samplers.random_tokens])
def test_seeds(sampler):
    def counts(seed):
        return sampler(seed=seed).counts.toarray().tolist()

    np.random.seed(5)  # noqa: NPY002 - the global state must neither matter nor move
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert counts(7) == counts(7) == counts(np.int64(7)) == counts(np.random.default_rng(7))
    assert counts(7) != counts(8)
    rng = np.random.default_rng(7)
    assert counts(rng) != counts(rng)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.mark.parametrize("sampler", [samplers.one_important_token, samplers.random_tokens])
@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (None, TypeError, "seed must be an int or a numpy.random.Generator, got None"),
        (True, TypeError, "seed must be an int"),
        (0.5, TypeError, "seed must be an int"),
        (-1, ValueError, "seed must be at least 0, got -1"),
    ],
)
def test_seeds_refused(sampler, seed, error, message):
    with pytest.raises(error, match=message):
        sampler(seed=seed)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_sequences": 201}, ValueError, "n_sequences must be even, half for each class; got 201"),
        ({"n_sequences": 4}, ValueError, "got 4 sequences for 6 important tokens"),
        ({"n_sequences": 20.0}, TypeError, "n_sequences must be a whole number, got 20.0"),
        ({"n_important": 5}, ValueError, "n_important must be even, half for each class; got 5"),
        ({"n_important": 0}, ValueError, "n_important must be at least 2, got 0"),
        ({"length": 1}, ValueError, "length must be at least 2, got 1"),
        ({"length": True}, TypeError, "length must be a whole number, got True"),
        ({"n_irrelevant": 0}, ValueError, "n_irrelevant must be at least 1, got 0"),
        ({"mirror": 1}, TypeError, "mirror must be True or False, got 1"),
    ],
)
def test_one_important_token_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        samplers.one_important_token(**arguments)


@settings(deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(0, 6),
    st.floats(0, 1),
    st.floats(0, 3),
    st.integers(0, 2**32),
)
def test_random_tokens_sizes(n_sequences, n_tokens, shortest, more, positive_share, zipf, seed):
    corpus = samplers.random_tokens(
        n_sequences, n_tokens, shortest, shortest + more, positive_share, zipf=zipf, seed=seed
    )
    assert corpus.counts.shape == (n_sequences, n_tokens)
    assert corpus.lengths.min() >= shortest
    assert corpus.lengths.max() <= shortest + more
    assert (corpus.labels == 1).sum() == round(positive_share * n_sequences)


@pytest.mark.parametrize("zipf", [0.0, 1.0])
def test_random_tokens_have_the_stated_law(zipf):
    corpus = samplers.random_tokens(
        4000, n_tokens=8, shortest=2, longest=6, positive_share=0.3, zipf=zipf, seed=2
    )
    weights = np.array([1 / (s + 1) ** zipf for s in range(8)])
    p = weights / weights.sum()
    n_places = int(corpus.lengths.sum())
    times = corpus.counts.sum(axis=0)
    # Binomial counts: none of 8 is five standard deviations off.
    assert (np.abs(times - n_places * p) < 5 * np.sqrt(n_places * p * (1 - p))).all()
    each_length = np.bincount(corpus.lengths, minlength=7)[2:]
    assert (np.abs(each_length - 800) < 5 * math.sqrt(4000 * 0.2 * 0.8)).all()
    # Labels are independent of lengths and tokens: a mean of m labels is -0.4, its spread below m ** -0.5.
    assert abs(corpus.labels[corpus.lengths > 3].mean() + 0.4) < 5 / math.sqrt(2000)
    with_rare = corpus.counts[:, [7]].toarray().ravel() > 0
    assert abs(corpus.labels[with_rare].mean() + 0.4) < 5 / math.sqrt(with_rare.sum())


def test_random_tokens_of_one_class():
    assert set(samplers.random_tokens(positive_share=1).labels) == {1}
    assert set(samplers.random_tokens(positive_share=0).labels) == {-1}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_sequences": 0}, ValueError, "n_sequences must be at least 1"),
        ({"n_tokens": 0}, ValueError, "n_tokens must be at least 1"),
        ({"shortest": 0}, ValueError, "shortest must be at least 1, got 0"),
        ({"shortest": 5, "longest": 4}, ValueError, "longest must be at least shortest, got 4 and 5"),
        ({"longest": 4.5}, TypeError, "longest must be a whole number, got 4.5"),
        ({"positive_share": 1.5}, ValueError, "positive_share must be from 0 to 1, got 1.5"),
        ({"positive_share": math.nan}, ValueError, "positive_share must be finite, got nan"),
        ({"positive_share": "half"}, TypeError, "positive_share must be a number, got 'half'"),
        ({"zipf": None}, TypeError, "zipf must be a number, got None"),
        ({"zipf": -1}, ValueError, "zipf must be at least 0, got -1"),
        ({"zipf": math.inf}, ValueError, "zipf must be finite, got inf"),
    ],
)
def test_random_tokens_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        samplers.random_tokens(**arguments)


def test_graded_tokens_draws_each_place_by_its_class():
    """Counts of each token in each class are binomial: all of them within five standard deviations."""
    n_tokens, length, n = 7, 5, 40_000
    corpus = samplers.graded_tokens(n_sequences=n, n_tokens=n_tokens, length=length, seed=3)
    assert corpus.lengths.tolist() == [length] * n
    assert corpus.labels.tolist() == [1, -1] * (n // 2)
    for label in (1, -1):
        places = n // 2 * length
        for s in range(n_tokens):
            share = (1 + label * (2 * s / (n_tokens - 1) - 1)) / n_tokens
            times = corpus.counts[corpus.labels == label][:, [s]].sum()
            assert abs(times - places * share) <= 5 * math.sqrt(places * share * (1 - share)) + 1e-9
    assert corpus.token_kinds[0] == "completely negative"
    assert corpus.token_kinds[-1] == "completely positive"


def test_graded_tokens_is_reproducible_and_refuses_odd_sizes():
    first, again = (samplers.graded_tokens(n_sequences=10, seed=5) for _ in range(2))
    assert (first.counts != again.counts).nnz == 0
    with pytest.raises(ValueError, match="n_sequences must be even"):
        samplers.graded_tokens(n_sequences=9)
    with pytest.raises(ValueError, match="n_tokens"):
        samplers.graded_tokens(n_tokens=1)
    with pytest.raises(TypeError, match="length"):
        samplers.graded_tokens(length=2.5)
