"""The kernels against what they replace: softmax over the tokens as they stand, and 50-digit arithmetic.

Tolerances. Let u be the distance from 1 to the next number, B the largest |value|, k the most distinct
tokens of a sequence, n the number of sequences and D the largest distance between a shift and a score that
counts. A weight exp(a - m) carries the rounding of a - m, at most D u / 2, and a few u of its own (exp, the
count); a sum of k terms adds k u at most. So a normaliser, a numerator relative to its absolute terms, and
attention are off by a share w = (D + k + 8) u at most, and logits by 2 w B. The slope of the logistic loss
is at most 1 and changes by at most a quarter of the change of its argument. So the loss is off by 2 w B and
its own n + 4 roundings; a gradient with respect to values by w + n u + w B / 2 times the attention it adds
up, at most 1; one with respect to scores by 2 B times that, and 2 w B for the logit in b - f. D is the
range of the scores where that is small. Else a row is settled only by a shift at most 637 (float64) or 56
(float32) away from its largest score, and a token further than 45 below that score counts for less than u.
What underflows costs T u² (1 + 2 B) more in a sequence of T tokens, which only shows where the values are
as small.
"""

import gc
import tracemalloc
import weakref

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tokensel import Corpus, memory, score_space

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
DTYPES = [torch.float64, torch.float32]
FURTHEST = {torch.float64: 637.0, torch.float32: 56.0}


def tolerances(corpus, scores, values):
    """Bounds for logits, loss, gradient by scores and gradient by values: see the top of this file."""
    unit = torch.finfo(scores.dtype).eps
    span = float(scores.max()) - float(scores.min())
    distance = min(span, FURTHEST[scores.dtype] + 45)
    largest = float(values.abs().max())
    lost = corpus.lengths.max() * unit**2 * (1 + 2 * largest)
    share = (distance + np.diff(corpus.counts.indptr).max() + 8) * unit
    by_value = share + corpus.n_sequences * unit + share * largest / 2 + lost
    logits = 2 * share * largest + lost
    loss = logits + (corpus.n_sequences + 4) * unit * (1 + largest)  # the loss is at most log 2 + B
    return logits, loss, 2 * largest * by_value + logits, by_value


def random_sequences(rng, n_sequences, n_tokens, longest):
    """Sequences of different lengths in which tokens repeat."""
    return [rng.integers(0, n_tokens, rng.integers(1, longest + 1)).tolist() for _ in range(n_sequences)]


def exact(sequences, labels, scores, values):
    """Logits, attention, loss and its gradients in 50 digits, token by token, from the definitions."""
    with mpmath.workdps(50):
        a, b = ([mpmath.mpf(float(x)) for x in numbers] for numbers in (scores, values))
        by_score, by_value = [mpmath.mpf(0)] * len(a), [mpmath.mpf(0)] * len(a)
        logits, attention, loss = [], [], mpmath.mpf(0)
        for sequence, label in zip(sequences, labels, strict=True):
            weights = [mpmath.exp(a[s] - max(a[r] for r in sequence)) for s in sequence]
            logit = sum(w * b[s] for w, s in zip(weights, sequence, strict=True)) / sum(weights)
            slope = -int(label) / (1 + mpmath.exp(int(label) * logit)) / len(sequences)
            row = [mpmath.mpf(0)] * len(a)
            for w, s in zip(weights, sequence, strict=True):
                row[s] += w / sum(weights)
                by_value[s] += slope * w / sum(weights)
                by_score[s] += slope * w / sum(weights) * (b[s] - logit)
            logits.append(logit)
            attention.append(row)
            loss += mpmath.log(1 + mpmath.exp(-int(label) * logit)) / len(sequences)
        return tuple(
            np.array(part, dtype=np.float64) for part in (logits, attention, loss, by_score, by_value)
        )


class Lookup(torch.nn.Module):
    """What a reader would write: embeddings looked up, softmax over the sequence, autograd for the rest."""

    def __init__(self, embeddings, cls, output):
        super().__init__()
        self.embeddings, self.cls, self.output = (
            torch.nn.Parameter(x.detach().clone()) for x in (embeddings, cls, output)
        )

    def forward(self, sequences):
        logits = []
        for sequence in sequences:
            rows = torch.nn.functional.embedding(
                torch.tensor(sequence, device=self.embeddings.device), self.embeddings
            )
            logits.append(torch.softmax(rows @ self.cls, 0) @ rows @ self.output)
        return torch.stack(logits)

    def loss(self, sequences, labels):
        signs = torch.tensor(labels, dtype=self.cls.dtype, device=self.cls.device)
        return torch.log1p(torch.exp(-signs * self(sequences))).mean()


@st.composite
def problems(draw):
    """A small corpus, and scores and values that the dtype holds exactly, with any range of scores."""
    dtype = draw(st.sampled_from(DTYPES))
    n_tokens = draw(st.integers(1, 7))
    tokens = st.integers(0, n_tokens - 1)
    sequences = draw(st.lists(st.lists(tokens, min_size=1, max_size=8), min_size=1, max_size=6))
    labels = draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sequences), max_size=len(sequences)))
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 90.0, 700.0, 2e3, 1e6]))
    numbers = st.lists(st.floats(-1, 1, width=32), min_size=n_tokens, max_size=n_tokens)
    scores = torch.tensor(draw(numbers), dtype=torch.float64).mul(scale).to(dtype)
    values = (
        torch.tensor(draw(numbers), dtype=torch.float64).mul(draw(st.sampled_from([1.0, 20.0]))).to(dtype)
    )
    return sequences, labels, scores, values


@pytest.mark.parametrize("most_shifts", [1, 8], ids=["own shifts", "shared shifts"])
@given(problem=problems())
@settings(max_examples=150, deadline=None)
def test_every_number_is_that_of_exact_arithmetic(most_shifts, problem):
    sequences, labels, scores, values = problem
    corpus = Corpus.from_sequences(sequences, labels=labels, n_tokens=len(scores))
    with pytest.MonkeyPatch.context() as patch:
        # So few sequences never need more than eight shared shifts: allow one, and the rest get their own.
        patch.setattr(score_space, "_MOST_SHIFTS", most_shifts)
        logits = score_space.logits(corpus, scores, values)
        gradients = score_space.gradients(corpus, scores, values)
    attention = score_space.attention(corpus, scores).to_dense()
    expected = exact(sequences, labels, scores, values)
    for_logits, for_loss, for_scores, for_values = tolerances(corpus, scores, values)
    np.testing.assert_allclose(logits, expected[0], rtol=0, atol=for_logits)
    # attention() gives every row its own shift: a token that counts is at most 45 below it.
    share = (45 + 8 + 8) * torch.finfo(scores.dtype).eps
    np.testing.assert_allclose(attention, expected[1], rtol=0, atol=share)
    np.testing.assert_allclose(gradients.loss, expected[2], rtol=0, atol=for_loss)
    np.testing.assert_allclose(gradients.scores, expected[3], rtol=0, atol=for_scores)
    np.testing.assert_allclose(gradients.values, expected[4], rtol=0, atol=for_values)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("span", [1.0, 100.0, 1e3, 2e3, 1e6])
def test_many_sequences_with_both_kinds_of_shift(span, dtype, device):
    rng = np.random.default_rng(int(span))
    sequences = random_sequences(rng, n_sequences=150, n_tokens=40, longest=5)
    labels = rng.choice([-1, 1], 150)
    corpus = Corpus.from_sequences(sequences, labels=labels, n_tokens=40)
    scores = torch.tensor(rng.uniform(0, span, 40), dtype=dtype, device=device)
    values = torch.tensor(rng.standard_normal(40), dtype=dtype, device=device)
    attended = score_space._Attended(score_space._counts_for(corpus, scores, values), scores, values)
    # Uniform scores fill their range, so the cases reach one shift, several, and shifts of their own.
    reach = 2 * FURTHEST[dtype]
    assert (len(attended.shared) > 1) == (span > reach)
    assert (attended.own is not None) == (span > score_space._MOST_SHIFTS * reach)
    gradients = score_space.gradients(corpus, scores, values)
    expected = exact(sequences, labels, scores.cpu(), values.cpu())
    _, for_loss, for_scores, for_values = tolerances(corpus, scores, values)
    np.testing.assert_allclose(gradients.loss.cpu(), expected[2], rtol=0, atol=for_loss)
    np.testing.assert_allclose(gradients.scores.cpu(), expected[3], rtol=0, atol=for_scores)
    np.testing.assert_allclose(gradients.values.cpu(), expected[4], rtol=0, atol=for_values)


def test_a_sequence_far_below_the_top_token_keeps_its_softmax():
    # One shift for all would give the second sequence 0/0, for any range past 745 (float64) or 103 (float32).
    corpus = Corpus.from_sequences([[0], [1, 2]], labels=[1, -1], n_tokens=3)
    for dtype, top in ((torch.float64, 2e3), (torch.float32, 200.0)):
        scores = torch.tensor([top, 0.0, 1.0], dtype=dtype, requires_grad=True)
        values = torch.tensor([0.0, 0.0, 1.0], dtype=dtype, requires_grad=True)
        logits = score_space.logits(corpus, scores, values)
        sigmoid = 1 / (1 + np.exp(-1.0))
        unit = torch.finfo(dtype).eps
        assert logits[1].item() == pytest.approx(sigmoid, abs=20 * unit)
        logits[1].backward()
        slope = sigmoid * (1 - sigmoid)
        np.testing.assert_allclose(scores.grad, [0, -slope, slope], atol=20 * unit)
        np.testing.assert_allclose(values.grad, [0, 1 - sigmoid, sigmoid], atol=20 * unit)


def test_scores_as_large_as_the_format_holds():
    corpus = Corpus.from_sequences([[0, 1], [1, 2], [2]], labels=[1, -1, 1], n_tokens=3)
    for dtype in DTYPES:
        largest = torch.finfo(dtype).max
        scores = torch.tensor([largest, -largest, 0.0], dtype=dtype)  # the difference of two overflows
        values = torch.tensor([1.0, 2.0, 3.0], dtype=dtype)
        assert score_space.logits(corpus, scores, values).tolist() == [1.0, 3.0, 3.0]
        gradients = score_space.gradients(corpus, scores, values)
        # Every sequence attends to one token, whose b - f vanishes up to the rounding of the two, up to 3.
        assert gradients.scores.abs().max() <= 4 * 3 * torch.finfo(dtype).eps
        slopes = (
            torch.tensor([-1, 1, -1], dtype=dtype) * torch.sigmoid(torch.tensor([-1, 3, -3], dtype=dtype)) / 3
        )
        expected = torch.stack((slopes[0], torch.zeros((), dtype=dtype), slopes[1] + slopes[2]))
        np.testing.assert_allclose(gradients.values, expected, rtol=0, atol=4 * torch.finfo(dtype).eps)
        assert score_space.attention(corpus, scores).to_dense().tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_token_in_no_sequence_changes_nothing(dtype):
    corpus = Corpus.from_sequences([[0, 1], [1, 1, 2]], labels=[1, -1], n_tokens=3)
    with_absent = Corpus.from_sequences([[0, 1], [1, 1, 2]], labels=[1, -1], n_tokens=4)
    scores = torch.tensor([0.5, -1.0, 2.0, torch.finfo(dtype).max], dtype=dtype)
    values = torch.tensor([1.0, -1.0, 0.25, 7.0], dtype=dtype)
    alone = score_space.gradients(corpus, scores[:3], values[:3])
    beside = score_space.gradients(with_absent, scores, values)
    assert torch.equal(alone.loss, beside.loss)
    for name in ("scores", "values"):
        assert torch.equal(
            getattr(beside, name), torch.cat((getattr(alone, name), torch.zeros(1, dtype=dtype)))
        )


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_all_parameters_equal_those_of_embedding_lookup(device):
    # In float64 they differ by some hundred roundings of 1e-16; 1e-10 of the largest entry is the promise.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sequences = random_sequences(rng, n_sequences=30, n_tokens=25, longest=12)
        labels = rng.choice([-1, 1], 30)
        corpus = Corpus.from_sequences(sequences, labels=labels, n_tokens=25)
        start = [torch.tensor(rng.standard_normal(shape), device=device) for shape in ((25, 16), 16, 16)]
        lookup = Lookup(*start)
        lookup.loss(sequences, labels).backward()
        embeddings, cls, output = (x.requires_grad_() for x in start)
        score_space.loss(corpus, embeddings @ cls, embeddings @ output).backward()
        for ours, theirs in zip((embeddings, cls, output), lookup.parameters(), strict=True):
            assert (ours.grad - theirs.grad).abs().max() <= 1e-10 * theirs.grad.abs().max()


@pytest.mark.parametrize("span", [1.0, 1500.0])
def test_gradcheck(span):
    rng = np.random.default_rng(3)
    corpus = Corpus.from_sequences(random_sequences(rng, 6, 5, 6), labels=[1, -1, 1, 1, -1, -1], n_tokens=5)
    scores = torch.tensor(rng.permutation(np.linspace(0, span, 5)) + rng.random(5), requires_grad=True)
    values = torch.tensor(rng.standard_normal(5), requires_grad=True)
    for function in (score_space.logits, score_space.loss):
        torch.autograd.gradcheck(lambda a, b, function=function: function(corpus, a, b), (scores, values))
    torch.autograd.gradcheck(lambda a: score_space.attention(corpus, a).values(), (scores,))


def test_autograd_and_gradients_give_the_same():
    rng = np.random.default_rng(4)
    corpus = Corpus.from_sequences(
        random_sequences(rng, 20, 9, 6), labels=rng.choice([-1, 1], 20), n_tokens=9
    )
    scores = torch.tensor(rng.uniform(0, 900, 9), requires_grad=True)
    values = torch.tensor(rng.standard_normal(9), requires_grad=True)
    loss = score_space.loss(corpus, scores, values)
    loss.backward()
    gradients = score_space.gradients(corpus, scores, values)
    assert not any(part.requires_grad for part in gradients)
    assert torch.equal(gradients.loss, loss.detach())
    # One computes sigmoid(-m), the other the derivative of logaddexp: a few roundings of numbers up to 1.
    np.testing.assert_allclose(gradients.scores, scores.grad, rtol=0, atol=4e-15)
    np.testing.assert_allclose(gradients.values, values.grad, rtol=0, atol=4e-15)


def test_one_input_alone_may_ask_for_its_gradient():
    corpus = Corpus.from_sequences([[0, 1], [1, 2]], labels=[1, -1], n_tokens=3)
    numbers = torch.tensor([0.1, 0.2, 0.4], dtype=torch.float64)
    both = score_space.gradients(corpus, numbers, numbers)
    for name in ("scores", "values"):
        arguments = {"scores": numbers, "values": numbers, name: numbers.clone().requires_grad_()}
        score_space.loss(corpus, **arguments).backward()
        np.testing.assert_allclose(arguments[name].grad, getattr(both, name), rtol=0, atol=1e-15)


def test_flipping_labels_and_values_flips_the_gradient_of_values_only():
    # Every operation is odd or even in the sign of the values, and so is rounding: equal to the last bit.
    rng = np.random.default_rng(5)
    sequences, labels = random_sequences(rng, 30, 12, 6), rng.choice([-1, 1], 30)
    corpus = Corpus.from_sequences(sequences, labels=labels, n_tokens=12)
    flipped = Corpus.from_sequences(sequences, labels=-labels, n_tokens=12)
    scores, values = rng.uniform(0, 900, 12), rng.standard_normal(12)
    one, other = (
        score_space.gradients(corpus, scores, values),
        score_space.gradients(flipped, scores, -values),
    )
    assert torch.equal(one.loss, other.loss)
    assert torch.equal(one.scores, other.scores)
    assert torch.equal(one.values, -other.values)


@given(problem=problems())
@settings(max_examples=60, deadline=None)
def test_the_gradient_of_the_scores_sums_to_zero(problem):
    # Adding a number to all scores changes nothing.
    sequences, labels, scores, values = problem
    corpus = Corpus.from_sequences(sequences, labels=labels, n_tokens=len(scores))
    gradients = score_space.gradients(corpus, scores, values)
    bound = len(scores) * tolerances(corpus, scores, values)[2]
    assert abs(float(gradients.scores.sum())) <= bound


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("margin", [25.0, 600.0])
def test_the_loss_keeps_its_digits_far_from_zero(margin, sign):
    # log(1 + exp(-m)) is about exp(-m) for large m and m for very negative m, where softplus drops exp(m).
    corpus = Corpus.from_sequences([[0]], labels=[1], n_tokens=1)
    loss = score_space.loss(corpus, [0.0], [sign * margin]).item()
    with mpmath.workdps(400):
        expected = float(mpmath.log(1 + mpmath.exp(-sign * mpmath.mpf(margin))))
    assert loss == pytest.approx(expected, rel=4 * np.finfo(float).eps, abs=0)


def test_a_loss_that_underflows_is_zero_without_a_sign():
    corpus = Corpus.from_sequences([[0]], labels=[1], n_tokens=1)
    assert f"{score_space.loss(corpus, [0.0], [1e6]).item():.1f}" == "0.0"


def test_attention_has_the_pattern_of_the_counts():
    rng = np.random.default_rng(6)
    sequences = random_sequences(rng, 20, 9, 6)
    corpus = Corpus.from_sequences(sequences, labels=rng.choice([-1, 1], 20), n_tokens=9)
    attention = score_space.attention(corpus, rng.uniform(0, 1e6, 9))
    assert attention.shape == (20, 9)
    assert attention.layout == torch.sparse_csr
    np.testing.assert_array_equal(attention.crow_indices(), corpus.counts.indptr)
    np.testing.assert_array_equal(attention.col_indices(), corpus.counts.indices)
    # Six terms that were each divided by their sum.
    np.testing.assert_allclose(attention.to_dense().sum(1), 1.0, rtol=0, atol=12 * np.finfo(float).eps)


def test_attention_is_differentiable():
    corpus = Corpus.from_sequences([[0, 1, 1, 2]], labels=[1], n_tokens=3)
    scores = torch.tensor([0.3, -0.2, 1.0], dtype=torch.float64, requires_grad=True)
    plain = scores.detach().clone().requires_grad_()
    score_space.attention(corpus, scores).values()[1].backward()
    torch.softmax(plain[torch.tensor([0, 1, 1, 2])], 0)[1:3].sum().backward()
    np.testing.assert_allclose(scores.grad, plain.grad, rtol=0, atol=1e-15)


def test_any_module_can_train_through_it():
    class Bottleneck(torch.nn.Module):
        """Scores and values from two layers on features of the tokens."""

        def __init__(self, features):
            super().__init__()
            self.features = features
            self.hidden, self.heads = torch.nn.Linear(4, 5).double(), torch.nn.Linear(5, 2).double()

        def forward(self, corpus):
            scores, values = self.heads(torch.tanh(self.hidden(self.features))).unbind(1)
            return score_space.loss(corpus, scores, values)

    rng = np.random.default_rng(7)
    corpus = Corpus.from_sequences([[0, 2, 3], [1, 2, 3], [0, 3], [1, 2]], labels=[1, -1, 1, -1], n_tokens=4)
    torch.manual_seed(0)
    module = Bottleneck(torch.tensor(rng.standard_normal((4, 4))))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        loss = module(corpus)
        loss.backward()
        optimizer.step()
    # Tokens 0 and 1 tell the labels, so the loss can fall from log 2 to 0; a fifth needs all four sequences.
    assert loss < np.log(2) / 5


def test_second_derivatives_are_refused():
    corpus = Corpus.from_sequences([[0, 1]], labels=[1], n_tokens=2)
    scores = torch.tensor([0.1, 0.2], requires_grad=True)
    values = torch.tensor([0.3, 0.4], requires_grad=True)
    loss = score_space.loss(corpus, scores, values)
    with pytest.raises(RuntimeError, match="differentiated once only"):
        torch.autograd.grad(loss, scores, create_graph=True)
    # Nor may they silently be zero.
    with pytest.raises(RuntimeError, match="differentiated once only"):
        torch.autograd.functional.hessian(lambda a: score_space.loss(corpus, a, values), scores)


def test_a_corpus_first_used_in_inference_mode_can_be_trained_on():
    corpus = Corpus.from_sequences([[0, 1], [1, 1]], labels=[1, -1], n_tokens=2)
    scores = torch.tensor([0.1, 0.2], requires_grad=True)
    with torch.inference_mode():
        score_space.loss(corpus, scores, scores)
    score_space.loss(corpus, scores, scores).backward()
    assert torch.isfinite(scores.grad).all()


def test_a_change_in_place_before_the_backward_pass_is_noticed():
    corpus = Corpus.from_sequences([[0, 1]], labels=[1], n_tokens=2)
    values = torch.tensor([0.3, 0.4], requires_grad=True)
    loss = score_space.loss(corpus, torch.tensor([0.1, 0.2]), values)
    with torch.no_grad():
        values.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_counts_are_built_once_for_each_corpus_dtype_and_device(monkeypatch):
    corpus = Corpus.from_sequences([[0, 1], [1]], labels=[1, -1], n_tokens=2)
    build, built = score_space._build, []
    monkeypatch.setattr(score_space, "_build", lambda *key: built.append(key[1:]) or build(*key))
    for dtype in (torch.float64, torch.float32, torch.float64):
        numbers = torch.zeros(2, dtype=dtype)
        score_space.logits(corpus, numbers, numbers)
        score_space.attention(corpus, numbers)
    assert built == [(torch.float64, torch.device("cpu")), (torch.float32, torch.device("cpu"))]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_memory_asked_for_is_the_memory_taken(monkeypatch, dtype):
    """NumPy tells tracemalloc of every array: the peak is what was asked for, plus Python's own objects."""
    rng = np.random.default_rng(0)
    corpus = Corpus.from_sequences(random_sequences(rng, 400, 3000, 400), rng.choice([-1, 1], 400), 3000)
    asked = []
    monkeypatch.setattr(memory, "require", lambda n_bytes, *_: asked.append(n_bytes))
    tracemalloc.start()
    try:
        score_space._build(corpus, dtype, torch.device("cpu"))
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (expected,) = asked
    assert expected > 500_000
    assert expected <= taken <= expected + 20_000


@pytest.mark.parametrize("function", [score_space.logits, score_space.loss, score_space.gradients])
def test_a_corpus_larger_than_memory_is_refused_with_the_bytes_it_would_need(function):
    """One number repeated 2^40 times takes no memory as it stands; as tensors the counts would take 26 TB."""
    if memory.available() is None:
        pytest.skip("this system does not say how much memory is available, so nothing is refused")
    n_pairs = 2**40
    counts = sparse.csr_array((2, 3), dtype=np.int64)
    counts.data = np.broadcast_to(np.int64(1), n_pairs)
    counts.indices = np.broadcast_to(np.int32(0), n_pairs)
    counts.indptr = np.array([0, n_pairs // 2, n_pairs])
    corpus = Corpus._trusted(counts, np.array([1, -1]), None, None, np.diff(counts.indptr))
    # The index of a token and its count, and that of a sequence and its count; pointers; labels.
    n_bytes = n_pairs * (8 + 4) * 2 + (3 + 4) * 8 + 2 * 4
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError) as refusal:
            function(corpus, torch.zeros(3), torch.zeros(3))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert f"2 sequences with {n_pairs:,} distinct" in str(refusal.value)
    assert f"({n_bytes:,} bytes) of memory on cpu, but there are" in str(refusal.value)


def test_counts_for_a_device_need_memory_there_and_here(monkeypatch):
    corpus = Corpus.from_sequences([[0, 1, 1], [2]], labels=[+1, -1], n_tokens=3)
    asked = []
    monkeypatch.setattr(memory, "require", lambda n_bytes, what, device: asked.append((n_bytes, device)))
    score_space._build(corpus, torch.float32, torch.device("meta"))
    n_bytes = 3 * (4 + 4) * 2 + (3 + 4) * 4 + 2 * 4
    assert asked == [(n_bytes, "cpu"), (n_bytes, "meta")]


def test_attention_larger_than_memory_is_refused(monkeypatch):
    corpus = Corpus.from_sequences([[0, 1, 1], [2]], labels=[+1, -1], n_tokens=3)
    score_space.logits(corpus, torch.zeros(3), torch.zeros(3))  # the counts are there
    monkeypatch.setattr(memory, "available", lambda device: 3 * 36 - 1)
    with pytest.raises(MemoryError, match=r"attention of 2 sequences on 3 distinct tokens: .*\(108 bytes\)"):
        score_space.attention(corpus, torch.zeros(3))


def test_counts_go_with_their_corpus():
    corpus = Corpus.from_sequences([[0, 1], [1]], labels=[1, -1], n_tokens=2)
    score_space.logits(corpus, [0.0, 0.0], [0.0, 0.0])
    matrix = weakref.ref(score_space._BUILT[corpus][torch.float64, torch.device("cpu")].matrix)
    assert matrix() is not None
    del corpus
    gc.collect()
    assert matrix() is None


def test_a_forward_pass_frees_its_memory_without_the_garbage_collector():
    corpus = Corpus.from_sequences([[0, 1], [1]], labels=[1, -1], n_tokens=2)
    scores = torch.zeros(2, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        logits = score_space.logits(corpus, scores, torch.zeros(2))
        attended = weakref.ref(logits.grad_fn.attended)
        assert attended() is not None
        del logits
        assert attended() is None
    finally:
        gc.enable()


def test_arrays_lists_and_tensors_are_the_same_to_it():
    corpus = Corpus.from_sequences([[0, 1], [1]], labels=[1, -1], n_tokens=2)
    read_only = np.array([1.0, 2.0])
    read_only.flags.writeable = False
    expected = score_space.logits(corpus, torch.tensor([1.0, 2.0], dtype=torch.float64), [3.0, 4.0])
    for scores in (read_only, [1, 2], np.array([1, 2]), torch.tensor([1, 2]), read_only.astype(">f8")):
        assert torch.equal(score_space.logits(corpus, scores, [3.0, 4.0]), expected)
    single = score_space.logits(corpus, np.float32([1, 2]), np.float32([3, 4]))
    assert single.dtype == torch.float32


BAD = [
    ({"scores": [0.0, 0.0]}, ValueError, r"scores .* 3 tokens .* shape \(3,\), got shape \(2,\)"),
    ({"values": [[0.0, 0.0, 0.0]]}, ValueError, r"values .* got shape \(1, 3\)"),
    ({"scores": [0.0, np.nan, 0.0]}, ValueError, "scores must be finite, but token 1 has nan"),
    ({"values": [0.0, 0.0, np.inf]}, ValueError, "values must be finite, but token 2 has inf"),
    (
        {"scores": torch.zeros(3)},
        ValueError,
        "the same dtype and device, got torch.float32 on cpu and torch.float64",
    ),
    ({"scores": torch.zeros(3, dtype=torch.float16)}, TypeError, "scores must be float32 or float64"),
    ({"values": torch.zeros(3, dtype=torch.bool)}, TypeError, "values must be float32 or float64"),
    ({"values": ["a", "b", "c"]}, TypeError, "values must be real numbers"),
    ({"values": [1j, 0, 0]}, TypeError, "values must be real numbers"),
    ({"scores": [[1.0], [1.0, 2.0]]}, ValueError, "scores must be an array of numbers"),
    ({"scores": None}, TypeError, "scores must be real numbers"),
    ({"corpus": [[0, 1], [2]]}, TypeError, "corpus must be a tokensel.Corpus, got list"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), BAD, ids=[message for *_, message in BAD])
@pytest.mark.parametrize("function", [score_space.logits, score_space.loss, score_space.gradients])
def test_bad_input_is_named(function, wrong, error, message):
    corpus = Corpus.from_sequences([[0, 1], [2]], labels=[1, -1], n_tokens=3)
    right = {"corpus": corpus, "scores": [0.0, 0.0, 0.0], "values": [0.0, 0.0, 0.0]}
    with pytest.raises(error, match=message):
        function(**(right | wrong))


@pytest.mark.parametrize(
    "tokens", [[1, 3], np.array([3, 1, 1]), np.array([False, True, False, True]), range(1, 4, 2)]
)
def test_attention_on_tokens_adds_up_their_shares(tokens):
    corpus = Corpus.from_sequences([[0, 1, 1, 3], [2, 2], [3]], labels=[1, -1, 1], n_tokens=4)
    scores = np.array([0.3, -1.2, 400.0, 2.0])
    weights = corpus.counts.toarray()[[0, 2]] * np.exp(scores - 500)
    shares = weights[:, [1, 3]].sum(axis=1) / weights.sum(axis=1)
    measured = score_space.attention_on(corpus, scores, tokens)
    np.testing.assert_allclose(measured, [shares[0], 0.0, shares[1]], rtol=1e-12)  # exp of 500
    single = score_space.attention_on(corpus, scores.astype(np.float32), tokens)
    assert single.dtype == torch.float32


def test_attention_on_no_token_is_zero_and_bad_tokens_are_named():
    corpus = Corpus.from_sequences([[0, 1]], labels=[1], n_tokens=2)
    assert score_space.attention_on(corpus, [0.0, 0.0], []).tolist() == [0.0]
    with pytest.raises(ValueError, match="from 0 to 1, got 0 to 2"):
        score_space.attention_on(corpus, [0.0, 0.0], [0, 2])
    with pytest.raises(TypeError, match="token ids"):
        score_space.attention_on(corpus, [0.0, 0.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="one entry for each"):
        score_space.attention_on(corpus, [0.0, 0.0], [True])
    with pytest.raises(TypeError, match="token ids"):
        score_space.attention_on(corpus, [0.0, 0.0], torch.zeros(2, requires_grad=True))


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=8), min_size=1, max_size=6),
    st.lists(st.integers(-2, 2), min_size=6, max_size=6),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_the_heaviest_token_is_that_of_most_attention(sequences, scores, dtype):
    corpus = Corpus.from_sequences(sequences, labels=[1] * len(sequences), n_tokens=6)
    scores = torch.tensor(scores, dtype=dtype)
    shares = score_space.attention(corpus, scores).to_dense()
    tokens, most = score_space.heaviest(corpus, scores)
    assert (tokens.dtype, most.dtype) == (torch.int64, dtype)
    for i, row in enumerate(shares.tolist()):
        assert most[i].item() == max(row)
        assert tokens[i].item() == row.index(max(row))  # the lowest id of the largest


def test_the_heaviest_token_need_not_have_the_highest_score_and_has_no_gradient():
    corpus = Corpus.from_sequences([[0, 0, 0, 1], [1, 2]], labels=[1, -1], n_tokens=3)
    scores = torch.tensor([0.0, 1.0, 300.0], requires_grad=True)
    tokens, most = score_space.heaviest(corpus, scores)
    assert tokens.tolist() == [0, 2]
    assert most[0].item() == pytest.approx(3 / (3 + np.e), rel=1e-6)  # single precision
    assert not most.requires_grad
    with pytest.raises(ValueError, match="scores"):
        score_space.heaviest(corpus, [0.0, 0.0])
