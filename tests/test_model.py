"""`AttentionClassifier` against softmax attention written out with NumPy; its gradients against autograd."""

import copy

import numpy as np
import pytest
import torch

from tokensel import AttentionClassifier, Corpus, memory

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
DTYPES = [torch.float64, torch.float32]


@pytest.fixture
def sequences():
    rng = np.random.default_rng(11)
    return [rng.integers(0, 9, rng.integers(1, 7)) for _ in range(25)]  # tokens repeat, lengths differ


@pytest.fixture
def corpus(sequences):
    return Corpus.from_sequences(sequences, labels=np.resize([1, -1, -1], 25), n_tokens=9)


def written_out(model, sequences):
    """Scores, values, and each sequence's attention and logit: softmax over its tokens, one after another."""
    embeddings, cls, output = (x.detach().cpu().double().numpy() for x in model.parameters())
    attention, logits = np.zeros((len(sequences), len(embeddings))), []
    for i, sequence in enumerate(sequences):
        rows = embeddings[sequence]
        weights = np.exp(rows @ cls)
        weights /= weights.sum()
        np.add.at(attention[i], sequence, weights)
        logits.append(weights @ rows @ output)
    return embeddings @ cls, embeddings @ output, attention, np.array(logits)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_output_is_that_of_softmax_attention(sequences, corpus, dtype, device):
    rng = np.random.default_rng(12)
    model = AttentionClassifier(
        *(torch.tensor(rng.standard_normal(shape), dtype=dtype, device=device) for shape in ((9, 5), 5, 5))
    )
    scores, values, attention, logits = written_out(model, sequences)
    # Products of 5 terms and softmax over at most 6 tokens, all numbers below 10: some tens of roundings.
    bound = 50 * 10 * torch.finfo(dtype).eps
    for ours, expected in (
        (model.scores(), scores),
        (model.values(), values),
        (model.attention(corpus).to_dense(), attention),
        (model(corpus), logits),
        (model.loss(corpus), np.log1p(np.exp(-corpus.labels * logits)).mean()),
    ):
        assert ours.dtype == dtype
        assert ours.device == model.embeddings.device
        np.testing.assert_allclose(ours.detach().cpu(), expected, rtol=0, atol=bound)
    np.testing.assert_array_equal(model.predict(corpus).cpu(), np.where(logits >= 0, 1, -1))


@pytest.mark.parametrize("frozen", [(), ("embeddings",), ("output",), ("cls", "output")])
def test_gradients_are_those_of_embedding_lookup(sequences, corpus, frozen):
    model = AttentionClassifier.initialise(9, 6, seed=1)
    lookup = {name: x.detach().clone().requires_grad_() for name, x in model.named_parameters()}
    rows = [torch.nn.functional.embedding(torch.tensor(s), lookup["embeddings"]) for s in sequences]
    logits = torch.stack([torch.softmax(r @ lookup["cls"], 0) @ r @ lookup["output"] for r in rows])
    torch.log1p(torch.exp(-torch.tensor(corpus.labels) * logits)).mean().backward()
    for name in frozen:
        getattr(model, name).requires_grad_(False)
    model.loss(corpus).backward()
    for name, parameter in model.named_parameters():
        if name in frozen:
            assert parameter.grad is None
        else:  # float64: equal to some tens of roundings of the largest entry
            assert (parameter.grad - lookup[name].grad).abs().max() <= 1e-14 * (
                1 + lookup[name].grad.abs().max()
            )


def test_the_gradient_of_the_embeddings_has_rank_two(corpus):
    model = AttentionClassifier.initialise(9, 6, seed=2)
    model.loss(corpus).backward()
    singular = torch.linalg.svdvals(model.embeddings.grad)
    assert singular[1] > 1e-6 * singular[0]
    assert singular[2] < 1e-14 * singular[0]


def test_a_sequence_of_one_token_has_its_value_and_ties_are_positive():
    corpus = Corpus.from_sequences([[0, 0], [1], [2]], labels=[1, -1, 1], n_tokens=3)
    model = AttentionClassifier([[2, 0], [-1, 0], [0, 0]], cls=[3, 1], output=[1, 1])
    assert model(corpus).tolist() == [2.0, -1.0, 0.0]
    assert model.predict(corpus).tolist() == [1, -1, 1]


def test_initialise_draws_what_the_theory_assumes():
    n_tokens, dim = 3000, 100
    model = AttentionClassifier.initialise(n_tokens, dim, seed=0)
    np.testing.assert_array_equal(model.output.detach().abs() * np.sqrt(dim), 1.0)
    assert set(np.sign(model.output.detach().numpy())) == {-1, 1}
    entries = model.embeddings.detach().numpy().ravel() * np.sqrt(dim)
    # 300,000 standard normal entries: the mean is N(0, 1/N), the mean square N(1, 2/N). Five deviations.
    assert abs(entries.mean()) < 5 / np.sqrt(entries.size)
    assert abs((entries**2).mean() - 1) < 5 * np.sqrt(2 / entries.size)
    cls = model.cls.detach().numpy() * np.sqrt(dim)
    assert abs((cls**2).mean() - 1) < 5 * np.sqrt(2 / dim)


def test_one_seed_gives_one_model_in_every_dtype():
    double, again = (AttentionClassifier.initialise(7, 4, seed=3) for _ in range(2))
    single = AttentionClassifier.initialise(7, 4, seed=3, dtype=torch.float32)
    generator = AttentionClassifier.initialise(7, 4, seed=np.random.default_rng(3))
    other = AttentionClassifier.initialise(7, 4, seed=4)
    for name, parameter in double.named_parameters():
        assert torch.equal(parameter, getattr(again, name))
        assert torch.equal(parameter, getattr(generator, name))
        assert torch.equal(parameter.float(), getattr(single, name))
    assert not torch.equal(double.embeddings, other.embeddings)
    assert single.cls.dtype == torch.float32


def test_initialise_leaves_global_random_numbers_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    AttentionClassifier.initialise(7, 4, seed=3)
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(("dtype", "n_bytes"), [(torch.float32, 12_000), (torch.float64, 16_000)])
def test_embeddings_larger_than_memory_are_refused(monkeypatch, dtype, n_bytes):
    """A thousand numbers are drawn in float64, rounded (or not) and copied into the model."""
    monkeypatch.setattr(memory, "available", lambda device: n_bytes)
    AttentionClassifier.initialise(n_tokens=100, dim=10, dtype=dtype)
    monkeypatch.setattr(memory, "available", lambda device: n_bytes - 1)
    with pytest.raises(MemoryError, match=f"the embeddings of 100 tokens in 10 dim.*{n_bytes:,} bytes"):
        AttentionClassifier.initialise(n_tokens=100, dim=10, dtype=dtype)


def test_the_output_vector_can_be_given():
    model = AttentionClassifier.initialise(7, 4, seed=3, output=[1, 0, 0, 0], dtype=torch.float32)
    assert model.output.tolist() == [1, 0, 0, 0]
    assert model.output.dtype == torch.float32
    drawn = AttentionClassifier.initialise(7, 4, seed=3, dtype=torch.float32)
    assert torch.equal(model.embeddings, drawn.embeddings)


def test_parameters_are_copies():
    embeddings, cls, output = np.eye(3), torch.ones(3, dtype=torch.float64), np.ones(3)
    model = AttentionClassifier(embeddings, cls, output)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    np.testing.assert_array_equal(embeddings, np.eye(3))
    np.testing.assert_array_equal(cls, 1.0)
    np.testing.assert_array_equal(output, 1.0)


def test_parameters_of_another_model_start_without_its_graph(corpus):
    model = AttentionClassifier.initialise(9, 6, seed=2)
    moved = AttentionClassifier(model.embeddings * 2, model.cls, model.output)
    assert all(parameter.is_leaf and parameter.requires_grad for parameter in moved.parameters())
    moved.loss(corpus).backward()
    assert model.embeddings.grad is None


def test_it_is_an_ordinary_module(corpus, tmp_path):
    model = AttentionClassifier.initialise(9, 6, seed=2)
    expected = model(corpus)
    assert torch.equal(copy.deepcopy(model)(corpus), expected)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other = AttentionClassifier.initialise(9, 6, seed=5)
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(other(corpus), expected)
    assert model.float()(corpus).dtype == torch.float32
    assert "n_tokens=9, dim=6" in repr(model)


E34, V4 = np.ones((3, 4)), np.ones(4)
HOLE = E34.copy()
HOLE[1, 2] = np.nan
BAD = [
    ((V4, V4, V4), ValueError, r"embeddings must have shape \(tokens, dimension\).* got shape \(4,\)"),
    ((np.ones((0, 4)), V4, V4), ValueError, r"embeddings must have shape .* got shape \(0, 4\)"),
    ((E34, np.ones(3), V4), ValueError, r"cls must have shape \(4,\), .* got shape \(3,\)"),
    ((E34, V4, np.ones((1, 4))), ValueError, r"output must have shape \(4,\), .* got shape \(1, 4\)"),
    ((HOLE, V4, V4), ValueError, "embeddings must be finite, but the row of token 1 holds nan"),
    ((E34, V4, np.array([1, np.inf, 0, 0])), ValueError, "output must be finite, got inf"),
    ((E34, V4, V4.astype(np.float32)), ValueError, "output must have the dtype and device of the embeddings"),
    ((E34, torch.ones(4, dtype=torch.float16), V4), TypeError, "cls must be float32 or float64"),
    (([["a"]], V4, V4), TypeError, "embeddings must be real numbers"),
    (([[1.0, 2.0], [3.0]], V4, V4), ValueError, "embeddings must be an array of numbers"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD, ids=[message for *_, message in BAD])
def test_bad_parameters_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        AttentionClassifier(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_tokens": 0}, ValueError, "n_tokens must be at least 1, got 0"),
        ({"dim": 2.5}, TypeError, "dim must be a whole number, got 2.5"),
        ({"dim": True}, TypeError, "dim must be a whole number, got True"),
        (
            {"dtype": torch.float16},
            TypeError,
            "dtype must be torch.float32 or torch.float64, got torch.float16",
        ),
        ({"output": "gaussian"}, ValueError, "output must be \"signs\" or 4 numbers, got 'gaussian'"),
        ({"output": [1, 0]}, ValueError, r"output must have shape \(4,\)"),
        ({"output": None}, TypeError, "output must be real numbers"),
        ({"output": ["a"] * 4}, TypeError, "output must be real numbers"),
        ({"seed": None}, TypeError, "seed must be an int or a numpy.random.Generator, got None"),
        ({"seed": 1.5}, TypeError, "seed must be an int or a numpy.random.Generator, got 1.5"),
        ({"output": [1, 0, 0, np.nan]}, ValueError, "output must be finite"),
    ],
)
def test_bad_sizes_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        AttentionClassifier.initialise(**({"n_tokens": 3, "dim": 4} | arguments))


@pytest.mark.parametrize("method", ["__call__", "attention", "loss", "predict"])
def test_a_corpus_over_another_vocabulary_is_refused(corpus, method):
    model = AttentionClassifier.initialise(10, 6)
    with pytest.raises(ValueError, match="the corpus has 9 tokens, but the model has embeddings for 10"):
        getattr(model, method)(corpus)
    with pytest.raises(TypeError, match=r"corpus must be a tokensel\.Corpus, got list"):
        getattr(model, method)([[0, 1]])


def test_scores_that_overflowed_are_reported(corpus):
    model = AttentionClassifier(np.full((9, 2), 1e200), cls=[1e200, 0], output=[1, 0])
    with pytest.raises(ValueError, match="scores must be finite, but token 0 has inf"):
        model.loss(corpus)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_another_cls_leaves_the_rest_and_shares_nothing(dtype):
    model = AttentionClassifier.initialise(4, 3, seed=0, dtype=dtype)
    moved = model.with_cls(np.array([1.0, 2.0, 3.0]))
    assert moved.cls.tolist() == [1.0, 2.0, 3.0]
    assert moved.cls.dtype == dtype
    assert torch.equal(moved.embeddings, model.embeddings)
    assert torch.equal(moved.output, model.output)
    with torch.no_grad():
        moved.embeddings += 1
        moved.output += 1
    again = AttentionClassifier.initialise(4, 3, seed=0, dtype=dtype)
    assert torch.equal(model.embeddings, again.embeddings)
    assert torch.equal(model.output, again.output)


@pytest.mark.parametrize("cls", [[1.0, 2.0], [[1.0, 2.0, 3.0]], [1.0, np.nan, 0.0]])
def test_another_cls_must_suit_the_embeddings(cls):
    with pytest.raises(ValueError, match="cls must"):
        AttentionClassifier.initialise(4, 3, seed=0).with_cls(cls)
