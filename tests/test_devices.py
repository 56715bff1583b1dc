"""Everything that takes a model or its numbers takes them from any device.

The checks run on a simulated device, which every machine has (``elsewhere.py``), and on CUDA where there is
one. They compare with the CPU: on the simulated device all digits are the same; on CUDA sums are in another
order.
"""

import copy
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

import tokensel as ts


def close(there, here, device, factor=1.0):
    """The same numbers on the device, up to the rounding of some hundred terms of order 1."""
    assert there.device.type == torch.device(device).type, f"on {there.device}, not on {device}"
    assert there.dtype == here.dtype
    tolerance = 0.0 if device == "elsewhere" else 1e3 * factor * torch.finfo(here.dtype).eps
    torch.testing.assert_close(there.detach().cpu(), here.detach(), rtol=tolerance, atol=tolerance)


def example(device, dtype=torch.float64):
    """A corpus, and one model on the CPU and on the device."""
    corpus = ts.samplers.one_important_token(n_sequences=40, length=5, n_important=2, n_irrelevant=8, seed=0)
    start = ts.AttentionClassifier.initialise(corpus.n_tokens, 16, seed=0, dtype=dtype)
    here = ts.one_step(start, corpus, step_size=20.0)
    there = ts.AttentionClassifier(*(part.detach().to(device) for part in here.parameters()))
    return corpus, here, there


def check_a_model_is_drawn_there(device):
    for dtype in (torch.float32, torch.float64):
        here, there = (
            ts.AttentionClassifier.initialise(7, 4, seed=1, dtype=dtype, device=where)
            for where in ("cpu", device)
        )
        for mine, its in zip(here.parameters(), there.parameters(), strict=True):
            close(its, mine, device)
    given = ts.AttentionClassifier.initialise(7, 4, device=device, output=[1.0, 0.0, 0.0, 0.0])
    assert given.output.tolist() == [1.0, 0.0, 0.0, 0.0]


def check_a_model_can_be_moved(device):
    corpus, here, _ = example(device)
    there = copy.deepcopy(here).to(device)
    close(there(corpus), here(corpus), device)
    back = there.to("cpu")
    close(back(corpus), here(corpus), "cpu")


def check_arrays_and_lists_join_the_embeddings(device):
    """They have no device: a point of a flow, which is NumPy, makes a model with embeddings on the device."""
    corpus, here, there = example(device)
    cls, output = here.cls.detach().numpy(), here.output.tolist()
    close(ts.AttentionClassifier(there.embeddings, cls, output)(corpus), here(corpus), device)
    scores, values = here.scores().detach(), here.values().detach()
    close(ts.score_space.loss(corpus, scores.to(device), values.numpy()), here.loss(corpus), device)


def check_outputs(device):
    corpus, here, there = example(device)
    for output in ("scores", "values"):
        close(getattr(there, output)(), getattr(here, output)(), device)
    for output in ("forward", "loss", "predict"):
        close(getattr(there, output)(corpus), getattr(here, output)(corpus), device)
    its, mine = there.attention(corpus), here.attention(corpus)
    for part in ("crow_indices", "col_indices", "values"):
        close(getattr(its, part)(), getattr(mine, part)(), device)


def check_gradients(device):
    corpus, here, there = example(device)
    for model in (here, there):
        model.loss(corpus).backward()
    for mine, its in zip(here.parameters(), there.parameters(), strict=True):
        close(its.grad, mine.grad, device)
    mine, its = (
        ts.score_space.gradients(corpus, model.scores().detach(), model.values().detach())
        for model in (here, there)
    )
    for a, b in zip(its, mine, strict=True):
        close(a, b, device)
    if device != "elsewhere":  # where torch does not know that attention is sparse
        (there.attention(corpus).values() ** 2).sum().backward()


def check_scores_far_apart(device):
    """Rows with a shift of their own, and with shared ones."""
    corpus, _, _ = example(device)
    rng = np.random.default_rng(0)
    scores, values = (
        torch.tensor(rng.uniform(-3e3, 3e3, corpus.n_tokens)),
        torch.ones(corpus.n_tokens).double(),
    )
    values[::2] = -1.0
    mine = ts.score_space.gradients(corpus, scores, values)
    its = ts.score_space.gradients(corpus, scores.to(device), values.to(device))
    for a, b in zip(its, mine, strict=True):
        close(a, b, device, factor=3e3)  # the scores are that large


def check_one_step(device):
    corpus, here, there = example(device)
    mine, its = (ts.one_step(model, corpus, step_size=3.0) for model in (here, there))
    for a, b in zip(its.parameters(), mine.parameters(), strict=True):
        close(a, b, device)


def check_fit(device):
    corpus, here, there = example(device)
    options = {"optimizer": "sgd", "learning_rate": 0.5, "steps": 5, "validation": corpus[:9]}
    mine, its = (ts.fit(model, corpus, batch_size=7, seed=3, **options) for model in (here, there))
    for a, b in zip(there.parameters(), here.parameters(), strict=True):
        close(a, b, device)
    np.testing.assert_allclose(its.loss, mine.loss, rtol=1e-12)
    np.testing.assert_array_equal(its.validation_accuracy, mine.validation_accuracy)
    # Adam's first steps divide a gradient by its own size, rounding included: only the loss is comparable.
    mine, its = (
        ts.fit(model, corpus, steps=5, train=("embeddings", "cls", "output")) for model in (here, there)
    )
    np.testing.assert_allclose(its.loss, mine.loss, rtol=1e-6)


def check_fit_with_its_options(device):
    corpus, _, there = example(device)
    seen = []
    history = ts.fit(
        there,
        corpus,
        steps=6,
        validation=corpus[:9],
        cls_penalty=0.1,
        patience=2,
        on_step=lambda step, scores, values: seen.append((step, scores, values)),
    )
    assert len(seen) == len(history.loss)
    assert seen[-1][1].device.type == device
    assert there.cls.device.type == device


def check_gradient_flow(device):
    corpus, here, there = example(device)
    mine, its = (ts.gradient_flow(model, corpus, until_norm=30.0) for model in (here, there))
    np.testing.assert_allclose(its.cls[-1], mine.cls[-1], rtol=1e-6, atol=1e-6)  # the flow's own tolerance
    np.testing.assert_array_equal(its.selection.tokens, mine.selection.tokens)


def check_selections_and_margins(device):
    corpus, here, there = example(device)
    for model in (here, there):
        model.best = ts.Selection.best(corpus, model.values())
        model.now = ts.Selection.of(corpus, model.scores())
        model.solution = ts.max_margin(model.embeddings, model.best, values=model.values())
        model.coefficients = model.best.pair_coefficients(model.values())
    np.testing.assert_array_equal(there.best.tokens, here.best.tokens)
    np.testing.assert_array_equal(there.now.tokens, here.now.tokens)
    np.testing.assert_allclose(there.solution.cls, here.solution.cls, rtol=1e-5)  # its certificate's
    np.testing.assert_allclose(there.coefficients, here.coefficients, rtol=1e-12)
    again = ts.Selection(corpus, torch.tensor(here.best.tokens, device=device))
    np.testing.assert_array_equal(again.tokens, here.best.tokens)
    order = torch.arange(40, device=device)
    np.testing.assert_array_equal(ts.feasible_subset(again, order=order), np.arange(40))
    assert ts.cosine(there.cls, there.cls) == pytest.approx(1.0, abs=1e-15)


def check_corpora(device):
    rows = [torch.tensor([0, 2], device=device), torch.tensor([1], device=device)]
    corpus = ts.Corpus.from_sequences(rows, labels=torch.tensor([1, -1], device=device))
    assert corpus.counts.toarray().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert corpus[torch.tensor([1], device=device)].labels.tolist() == [-1]
    dense = ts.Corpus(torch.tensor([[1, 0, 2]], device=device), labels=[1])
    assert dense.counts.toarray().tolist() == [[1, 0, 2]]


def check_pictures(device):
    import matplotlib.figure

    corpus = ts.Corpus.from_texts(["great film", "boring film"], labels=[+1, -1], keep_texts=True)
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, 4, seed=0, device=device)
    scores, values = model.scores(), model.values()
    ax = matplotlib.figure.Figure().subplots()
    ts.plotting.prediction_and_measurement(scores, values, ax=ax)
    ts.plotting.u_shape(corpus.posterior_difference, scores, ax=ax, groups=2, predicted=values)
    ts.plotting.top_tokens(corpus.vocabulary, scores, ax=ax, values=values)
    ts.plotting.attention_bars(corpus.vocabulary, scores.abs(), ax=ax, values=values)
    ts.plotting.training_curves({"scores": scores}, ax=ax)
    ts.plotting.power_law([1, 2, 3], scores.abs() + 1, exponent=1.0, ax=ax)
    ts.plotting.band(range(3), torch.stack((scores, values)), ax)
    shown = ts.highlight("great film", scores.abs()[:2], values=values[:2])
    assert "film" in shown._repr_html_()
    attention = model.attention(corpus)
    assert attention.device.type == device


def check_the_estimator(device):
    corpus, _, _ = example(device)
    options = {"input": "counts", "dim": 8, "steps": 5, "optimizer": "sgd"}
    mine, its = (
        ts.TokenSelector(**options, device=where).fit(corpus.counts, corpus.labels)
        for where in ("cpu", device)
    )
    for a, b in zip(its.model_.parameters(), mine.model_.parameters(), strict=True):
        close(a, b, device)
    np.testing.assert_array_equal(its.predict(corpus.counts), mine.predict(corpus.counts))


def check_the_estimator_reads_texts(device):
    texts, labels = ["great film", "boring film", "great", "boring and long"], ["good", "bad", "good", "bad"]
    options = {"dim": 8, "steps": 5, "optimizer": "sgd", "learning_rate": 1.0}
    mine, its = (ts.TokenSelector(**options, device=where).fit(texts, labels) for where in ("cpu", device))
    for a, b in zip(its.model_.parameters(), mine.model_.parameters(), strict=True):
        close(a, b, device)
    np.testing.assert_allclose(its.predict_proba(texts), mine.predict_proba(texts), rtol=1e-5)  # float32
    assert [word for word, _ in its.top_tokens(3)] == [word for word, _ in mine.top_tokens(3)]
    assert [word for word, _ in its.explain("great and long")] == [
        word for word, _ in mine.explain("great and long")
    ]
    with tempfile.TemporaryDirectory() as folder:
        its.save(Path(folder, "model.safetensors"))
        again = ts.TokenSelector.load(Path(folder, "model.safetensors"), device=device)
    assert again.model_.cls.device.type == device
    np.testing.assert_array_equal(again.predict_proba(texts), its.predict_proba(texts))


def check_theory(device):
    corpus, here, there = example(device)
    mine, its = (
        ts.theory.one_step_first_order(corpus.frequencies, corpus.labels, model.scores(), model.values())
        for model in (here, there)
    )
    for a, b in zip(its, mine, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


CHECKS = [name for name in dir() if name.startswith("check_")]


needs_backends_in_python = pytest.mark.skipif(
    not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no backends written in Python, of which the simulated device is one",
)


@pytest.fixture(scope="module")
def elsewhere():
    """What each check raised on the simulated device, in a process of its own."""
    script = Path(__file__).with_name("elsewhere.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", script, *CHECKS], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_backends_in_python
@pytest.mark.parametrize("check", CHECKS)
def test_on_a_simulated_device(elsewhere, check):
    if elsewhere[check] is not None:
        pytest.fail(elsewhere[check])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("check", CHECKS)
def test_on_cuda(check):
    globals()[check]("cuda")


MISTAKES = """
device = "elsewhere"
torch.ones(3, device=device) + torch.ones(3)  # a tensor of the CPU beside one of the device
torch.ones(3, device=device) @ torch.ones(3)
torch.ones(3, device=device).index_select(0, torch.tensor([1]))  # an index of the CPU
torch.stack((torch.ones(3, device=device), torch.ones(3)))
torch.ones(3, device=device).numpy()  # NumPy without .cpu()
numpy.asarray(torch.ones(3, device=device))
"""


@needs_backends_in_python
def test_the_simulated_device_notices_mistakes():
    """And does what is right: without this, checks that pass on it would mean nothing."""
    first, *mistakes = MISTAKES.strip().splitlines()
    code = f"""
import numpy, torch, elsewhere
{first}
with elsewhere.Watch():
    print(((torch.ones(3, device=device) * 2)[1:] + torch.tensor([1, 2], device=device)).tolist())
    for mistake in {mistakes!r}:
        try:
            exec(mistake)
        except (RuntimeError, TypeError) as error:
            print(error)
        else:
            print("not noticed:", mistake)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent, timeout=120
    )
    assert done.returncode == 0, done.stderr
    numbers, *noticed = done.stdout.splitlines()
    assert numbers == "[3.0, 4.0]"
    assert len(noticed) == len(mistakes)
    assert all("two devices" in words for words in noticed[:4])
    assert all("numpy() is not supported" in words for words in noticed[4:])
