"""`tokensel.distributed` in real processes, against one process and against lookup with autograd."""

import inspect
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch

import tokensel as ts
from tokensel import distributed

PARAMETERS = ("embeddings", "cls", "output")
PATIENCE = 120  # seconds for processes to start and to end: a busy machine needs many for the imports alone


def corpus(seed=0, n=31, n_tokens=12):
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(0, n_tokens, rng.integers(1, 9)).tolist() for _ in range(n)]
    return ts.Corpus.from_sequences(sequences, np.where(rng.random(n) < 0.6, 1, -1), n_tokens=n_tokens)


def model(seed=0, n_tokens=12, dim=5, dtype=torch.float64):
    return ts.AttentionClassifier.initialise(n_tokens, dim, seed=seed, dtype=dtype)


# What every process of the tests begins with.
COMMON = f"""
import json, os, signal, sys, time, warnings
import numpy as np
import torch
import tokensel as ts

torch.set_num_threads(1)

{inspect.getsource(corpus)}
{inspect.getsource(model)}
"""

SETTINGS = {
    "adam": {"steps": 20},
    "gradient descent": {"steps": 20, "optimizer": "sgd", "learning_rate": 0.5},
    "all three parameters": {"steps": 20, "train": PARAMETERS, "learning_rate": 0.05},
    "penalty": {"steps": 20, "cls_penalty": 0.3, "learning_rate": 0.05},
    "minibatches": {"steps": 20, "batch_size": 4, "learning_rate": 0.05},
    "minibatches larger than the corpus": {"steps": 5, "batch_size": 1000, "seed": 3},
    "validation": {"steps": 20, "validation": 1, "learning_rate": 0.05},
    "patience": {"steps": 60, "validation": 5, "learning_rate": 0.05, "patience": 4},
    "patience and minibatches": {
        "steps": 60,
        "validation": 4,
        "learning_rate": 0.05,
        "batch_size": 8,
        "patience": 2,
    },
}


class Processes:
    """Processes that run the same script, as torchrun would start them, on a port of their own."""

    def __init__(self, folder, script, size, argument="", missing=()):
        path = folder / "script.py"
        path.write_text(COMMON + textwrap.dedent(script))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.folder, self.all = folder, {}
        for rank in set(range(size)) - set(missing):
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "OMP_NUM_THREADS": 1}
            place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            with (folder / f"errors-{rank}").open("w") as errors:
                self.all[rank] = subprocess.Popen(
                    [sys.executable, str(path), str(folder), argument],
                    env=os.environ | {name: str(value) for name, value in place.items()},
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.all.values():
            process.kill()
            process.wait()

    def errors(self, rank):
        return (self.folder / f"errors-{rank}").read_text()

    def wait_for(self, name):
        """Wait until every process has made the file name-rank."""
        start = time.monotonic()
        while not all((self.folder / f"{name}-{rank}").exists() for rank in self.all):
            ended = [rank for rank, process in self.all.items() if process.poll() is not None]
            assert not ended, self.errors(ended[0])
            assert time.monotonic() - start < PATIENCE
            time.sleep(0.02)

    def ended(self, ranks, within):
        """Return the exit codes of processes that have to end within so many seconds."""
        end = time.monotonic() + within
        return [self.all[rank].wait(timeout=max(end - time.monotonic(), 0.1)) for rank in ranks]


def run(folder, script, size):
    """Run a script in so many processes and return what each wrote into the file said-rank."""
    with Processes(folder, script, size) as processes:
        codes = processes.ended(range(size), PATIENCE)
        assert codes == [0] * size, processes.errors(int(np.argmax(np.abs(codes))))
        return [json.loads((folder / f"said-{rank}").read_text()) for rank in range(size)]


# --- the same as one process ---

TRAIN = """
with ts.distributed.processes(timeout=60) as group:
    for k, (name, settings) in enumerate(SETTINGS.items()):
        if "validation" in settings:
            settings["validation"] = ts.distributed.shard(corpus(settings["validation"], n=17))
        trained = model()
        history = ts.distributed.fit(trained, ts.distributed.shard(corpus()), **settings)
        parameters = {name: p.detach().numpy() for name, p in trained.named_parameters()}
        np.savez(f"{sys.argv[1]}/{k}-{group.rank}.npz", **vars(history), **parameters)
    rows = [ts.distributed.shard(corpus(n=n)).n_sequences for n in (3, 4, 5, 31)]

    sums, gradients, sent = [], [], []
    all_reduce, step = torch.distributed.all_reduce, torch.optim.SGD.step

    def adding(numbers):
        all_reduce(numbers)
        sums.append(numbers.tolist())
        sent.append(numbers.numel() * numbers.element_size())

    def stepping(optimizer):
        gradients.append([p.grad.tolist() for p in optimizer.param_groups[0]["params"]])
        step(optimizer)

    torch.distributed.all_reduce, torch.optim.SGD.step = adding, stepping
    own = ts.distributed.shard(corpus())
    fit = ts.distributed.fit
    fit(model(), own, steps=1, optimizer="sgd", train=PARAMETERS)
    counted = {}
    runs = [(5, "float64", 0), (500, "float64", 0), (5, "float32", 0), (5, "float64", 1)]
    for dim, dtype, held_out in runs:
        sent.clear()
        start = model(dim=dim, dtype=getattr(torch, dtype))
        fit(start, own, steps=7, validation=own if held_out else None)
        counted[f"{dim} {dtype} {held_out}"] = list(sent)
    said = {"rows": rows, "sums": sums[0], "gradients": gradients[0], "sent": counted}
with open(f"{sys.argv[1]}/said-{group.rank}", "w") as file:
    json.dump(said, file)
"""


@pytest.fixture(scope="module", params=[2, 3])
def trained(request, tmp_path_factory):
    """Folder of what 2 or 3 processes saved, what each said, and how many they were."""
    folder = tmp_path_factory.mktemp("trained")
    script = f"SETTINGS, PARAMETERS = {SETTINGS!r}, {PARAMETERS!r}\n{TRAIN}"
    return folder, run(folder, script, request.param), request.param


def _loaded(trained, name):
    folder, _, size = trained
    k = list(SETTINGS).index(name)
    return [np.load(folder / f"{k}-{rank}.npz") for rank in range(size)]


def _alone(name, seed=None):
    """What one process makes of the same settings, from the same start or from one moved by a rounding."""
    settings = dict(SETTINGS[name])
    if "validation" in settings:
        settings["validation"] = corpus(settings["validation"], n=17)
    trained = model()
    if seed is not None:
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for numbers in trained.parameters():
                up = torch.rand(numbers.shape, generator=draw, dtype=numbers.dtype) - 0.5
                numbers.copy_(torch.nextafter(numbers, numbers + up))
    history = ts.fit(trained, corpus(), **settings)
    return vars(history) | {name: p.detach().numpy() for name, p in trained.named_parameters()}


@pytest.mark.parametrize("name", SETTINGS)
def test_all_processes_end_with_the_same_bits(trained, name):
    first, *others = _loaded(trained, name)
    for other in others:
        assert sorted(other) == sorted(first)
        for part in first:
            assert other[part].tobytes() == first[part].tobytes(), part


@pytest.mark.parametrize("name", SETTINGS)
def test_what_they_train_is_what_one_process_trains(trained, name):
    """Up to rounding, stretched as this training stretches it.

    Processes add up in another order than one process does; nothing else differs. How far training stretches
    a rounding is shown by single runs from starts of which every number was moved by one. As every step adds
    its own roundings, of sums of up to 31 terms of either sign, the largest of ten such runs is allowed for
    each step, four times.
    """
    expected, found = _alone(name), _loaded(trained, name)[0]
    moved = [_alone(name, seed) for seed in range(10)]
    for part in (*PARAMETERS, "loss", "cls_norm"):
        stretched = max(np.abs(run[part] - expected[part]).max() for run in moved)
        tolerance = 4 * SETTINGS[name]["steps"] * stretched
        assert tolerance < 1e-9  # else the comparison would show little
        np.testing.assert_allclose(found[part], expected[part], rtol=0, atol=tolerance)
    np.testing.assert_array_equal(found["accuracy"], expected["accuracy"])
    np.testing.assert_array_equal(found["validation_accuracy"], expected["validation_accuracy"])


def test_the_settings_show_early_stopping_and_minibatches_with_nothing_for_a_process():
    """Else the tests above would show little."""
    for name in ("patience", "patience and minibatches"):
        held_out = corpus(SETTINGS[name]["validation"], n=17)
        history = ts.fit(model(), corpus(), **SETTINGS[name] | {"validation": held_out})
        assert 0 < history.best_step < len(history.loss) - 1 < SETTINGS[name]["steps"]
    batches = np.split(np.random.default_rng(0).permutation(31), range(4, 31, 4))  # of the first epoch
    assert any(len(set(np.searchsorted([10, 20], batch, side="right"))) < 3 for batch in batches)


def _lookup_gradients():
    """Loss and gradients of the lookup model, by autograd."""
    data, start = corpus(), model()
    E, p, v = (getattr(start, name).detach().clone().requires_grad_() for name in PARAMETERS)
    scores, values = (E @ p).detach().requires_grad_(), (E @ v).detach().requires_grad_()
    losses = []
    for a, b in ((E @ p, E @ v), (scores, values)):
        logits = []
        for row in data.counts.toarray():
            tokens = np.repeat(np.arange(12), row)
            logits.append(torch.softmax(a[tokens], 0) @ b[tokens])
        logits = torch.stack(logits)
        losses.append(torch.log1p(torch.exp(-torch.tensor(data.labels) * logits)).mean())
        losses[-1].backward()
    right = ((logits >= 0).numpy() == (data.labels > 0)).sum()
    return losses[0].item(), right, [t.grad.numpy() for t in (scores, values, E, p, v)]


def test_the_gradients_are_those_of_autograd_on_the_lookup_model_to_1e_12(trained):
    loss, right, expected = _lookup_gradients()
    for said in trained[1]:
        numbers = np.array(said["sums"])
        assert len(numbers) == 2 * 12 + 2
        assert numbers[24] == pytest.approx(loss, rel=1e-12)
        assert numbers[25] == right
        found = [numbers[:12], numbers[12:24], *map(np.array, said["gradients"])]
        for gradient, reference in zip(found, expected, strict=True):
            assert np.abs(gradient - reference).max() <= 1e-12 * np.abs(reference).max()


def test_the_gradients_are_those_of_one_process_to_1e_12(trained):
    start = model()
    alone = ts.score_space.gradients(corpus(), start.scores(), start.values())
    for said in trained[1]:
        for found, expected in zip(
            np.split(np.array(said["sums"]), [12, 24])[:2], (alone.scores, alone.values), strict=True
        ):
            assert np.abs(found - expected.numpy()).max() <= 1e-12 * expected.abs().max()


def test_what_is_added_up_does_not_grow_with_the_dimension(trained):
    for said in trained[1]:
        # One sum a step, one for the measurement of the end, and one to leave together.
        assert said["sent"] == {
            "5 float64 0": [8 * (2 * 12 + 2)] * 9,
            "500 float64 0": [8 * (2 * 12 + 2)] * 9,
            "5 float32 0": [4 * (2 * 12 + 2)] * 9,
            "5 float64 1": [8 * (2 * 12 + 3)] * 9,
        }


def test_shards_differ_by_one_sequence_at_most(trained):
    rows = np.array([said["rows"] for said in trained[1]])
    assert rows.sum(0).tolist() == [3, 4, 5, 31]
    assert (rows.max(0) - rows.min(0) <= 1).all()


# --- wrong use, and what one process meets alone: all of them say so, and none waits ---

ERRORS = """
from tokensel import counting

said = {}


def attempt(name, function):
    start = time.monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function()
        except Exception as error:
            result = [type(error).__name__, str(error)]
    said[name] = [result, [str(w.message) for w in caught], time.monotonic() - start]


with ts.distributed.processes(timeout=30) as group:
    one, rank = group.rank == 1, group.rank
    own = ts.distributed.shard(corpus())
    fit, shard = ts.distributed.fit, ts.distributed.shard

    def words(*texts):
        return ts.Corpus.from_texts(texts, [1] * len(texts))

    attempt("too few", lambda: shard(corpus(n=1)))
    attempt("no corpus", lambda: shard([[0, 1]] if one else corpus()))
    attempt("other corpus", lambda: shard(corpus(n=30 if one else 31)))
    attempt("other words", lambda: fit(model(n_tokens=2), words("a b") if one else words("a c")))
    attempt("other size", lambda: fit(model(n_tokens=11 + rank), corpus(n_tokens=11 + rank)))
    attempt("other model", lambda: fit(model(seed=rank), own))
    attempt("other dimension", lambda: fit(model(dim=5 + rank), own))
    attempt("other dtype", lambda: fit(model(dtype=torch.float32 if one else torch.float64), own))
    attempt("other settings", lambda: fit(model(), own, learning_rate=0.1 * (1 + rank)))
    attempt("other seed", lambda: fit(model(), own, batch_size=4, seed=rank))
    attempt("other call", lambda: fit(model(), own) if one else shard(corpus()))
    attempt("validation in one", lambda: fit(model(), own, validation=own if one else None))
    attempt("wrong argument", lambda: fit(model(), own, steps=-1))
    attempt("wrong argument in one", lambda: fit(model(), own, steps=-1 if one else 5))
    attempt("no model in one", lambda: fit(None if one else model(), own))
    attempt("patience", lambda: fit(model(), own, patience=5))

    def fail(step, scores, values):
        if one and step == 3:
            raise LookupError("my own error")

    trained = model()
    attempt("failure in one", lambda: fit(trained, own, steps=9, optimizer="sgd", on_step=fail))
    said["model after a failure"] = trained.embeddings.tolist()
    attempt("failure at the end", lambda: fit(model(), own, steps=3, on_step=fail))
    attempt("not finite", lambda: fit(model(), own, steps=50, optimizer="sgd", learning_rate=1e160))
    attempt("within", lambda: ts.distributed.processes().__enter__())

    def press(step, scores, values):
        if one and step == 4:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)  # among several processes a second one waits too

    trained = model()
    attempt("interrupt", lambda: fit(trained, own, steps=9, optimizer="sgd", on_step=press).loss.tolist())
    said["model after an interrupt"] = trained.embeddings.tolist()

    rows = [("good film" if k % 2 else "bad film", 1 if k % 2 else -1) for k in range(9)]
    folder = os.path.join(sys.argv[1], f"counts-{group.rank}")
    os.mkdir(folder)
    mapped = counting.count(rows, folder=folder)
    texts = tuple(text for text, _ in rows)
    mapped = ts.Corpus._trusted(mapped.counts, mapped.labels, mapped.vocabulary, texts, mapped.lengths)
    part = shard(mapped)
    said["mapped"] = [
        np.shares_memory(part.counts.data, mapped.counts.data),
        np.shares_memory(part.counts.indices, mapped.counts.indices),
        part.counts.toarray().tolist(),
        *(part.labels.tolist(), part.lengths.tolist(), part.vocabulary, part.texts),
    ]
    attempt("whole corpus", lambda: fit(model(), corpus(), steps=2).loss.tolist())
    alike = corpus()[np.zeros(30, dtype=int)]
    attempt("shards that are alike", lambda: fit(model(), shard(alike), steps=2).loss.tolist())
    attempt("still working", lambda: fit(model(), own, steps=2).loss.tolist())
with open(f"{sys.argv[1]}/said-{group.rank}", "w") as file:
    json.dump(said, file)
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    return run(tmp_path_factory.mktemp("refused"), ERRORS, 2)


@pytest.mark.parametrize(
    ("name", "kinds", "words"),
    [
        (
            "too few",
            "ValueError",
            "a corpus of 1 sequence cannot be shared out to 2 processes: start 1 at most",
        ),
        ("no corpus", ("ProcessLost", "TypeError"), "corpus must be a Corpus, got list"),
        ("other corpus", "ValueError", "corpus differs .*needs the same corpus in every process"),
        (
            "other words",
            "ValueError",
            "vocabulary differs between process 0 and process 1: make the shards of one",
        ),
        ("other size", "ValueError", "vocabulary differs between process 0 and process 1"),
        (
            "other model",
            "ValueError",
            "model differs .*: initialise it with the same seed, or load the same file",
        ),
        ("other dimension", "ValueError", "model differs between process 0 and process 1"),
        ("other dtype", "ValueError", "dtype differs .*: torch.float64 in one, torch.float32 in the other"),
        ("other settings", "ValueError", "learning_rate differs .*: 0.1 in one, 0.2 in the other"),
        ("other seed", "ValueError", "seed differs .*: the shuffling must be the same"),
        ("other call", "ValueError", "call differs .*: shard in one, fit in the other"),
        ("validation in one", "ValueError", "validation differs .*: None in one, a corpus in the other"),
        ("wrong argument", "ValueError", "steps must be at least 0, got -1"),
        ("wrong argument in one", ("ProcessLost", "ValueError"), "steps must be at least 0, got -1"),
        (
            "no model in one",
            ("ProcessLost", "TypeError"),
            "model must be an AttentionClassifier, got NoneType",
        ),
        ("patience", "ValueError", "patience=5 needs a validation corpus"),
        ("failure in one", ("ProcessLost", "LookupError"), "my own error"),
        ("failure at the end", ("ProcessLost", "LookupError"), "my own error"),
        ("not finite", "FloatingPointError", "the loss stopped being finite at step 1"),
        ("within", "RuntimeError", "in a group of processes already"),
    ],
)
def test_every_process_says_what_is_wrong(refused, name, kinds, words):
    kinds = (kinds, kinds) if isinstance(kinds, str) else kinds
    for said, kind in zip(refused, kinds, strict=True):
        error, _, seconds = said[name]
        assert error[0] == kind
        assert re.search(words, error[1]), error[1]
        assert seconds < 25  # nobody waited for the timeout of 30 s


def test_a_failure_after_the_last_step_is_not_said_to_be_at_a_step(refused):
    assert refused[0]["failure at the end"][0][1] == (
        "process 1 of 2 failed after the last step, so all stop: LookupError: my own error"
    )


def test_who_did_not_fail_hears_which_process_did_where_and_with_what(refused):
    assert refused[0]["failure in one"][0][1] == (
        "process 1 of 2 failed on the way to step 4, so all stop: LookupError: my own error"
    )
    assert refused[0]["wrong argument in one"][0][1] == (
        "process 1 of 2 failed in fit, so all stop: ValueError: steps must be at least 0, got -1"
    )


@pytest.mark.parametrize(("name", "steps"), [("model after a failure", 3), ("model after an interrupt", 5)])
def test_a_failure_or_an_interrupt_in_one_leaves_all_with_the_same_whole_step(refused, name, steps):
    expected = model()
    ts.fit(expected, corpus(), steps=steps, optimizer="sgd")
    assert refused[0][name] == refused[1][name]
    np.testing.assert_allclose(refused[0][name], expected.embeddings.detach(), rtol=0, atol=1e-14)


def test_an_interrupt_in_one_process_ends_all_at_the_same_step_with_a_warning(refused):
    expected = ts.fit(model(), corpus(), steps=5, optimizer="sgd").loss
    for said in refused:
        losses, caught, _ = said["interrupt"]
        np.testing.assert_allclose(losses, expected, rtol=1e-13)
        assert caught == ["training was interrupted after 5 of 9 steps"]


def test_shards_of_counts_in_a_file_stay_there(refused):
    expected = [[[1, 1, 0], [0, 1, 1]][k % 2] for k in range(9)]
    for said, first, end in zip(refused, (0, 4), (4, 9), strict=True):
        data_stays, indices_stay, counts, labels, lengths, vocabulary, texts = said["mapped"]
        assert data_stays
        assert indices_stay
        assert counts == expected[first:end]
        assert labels == [[-1, 1][k % 2] for k in range(first, end)]
        assert lengths == [2] * (end - first)
        assert vocabulary == ["bad", "film", "good"]
        assert texts == [["bad film", "good film"][k % 2] for k in range(first, end)]


@pytest.mark.parametrize(("name", "n"), [("whole corpus", 31), ("shards that are alike", 15)])
def test_the_same_sequences_in_all_processes_are_noticed(refused, name, n):
    alone = corpus() if n == 31 else corpus()[np.zeros(30, dtype=int)]
    expected = ts.fit(model(), alone, steps=2).loss
    for said in refused:
        losses, caught, _ = said[name]
        np.testing.assert_allclose(losses, expected, rtol=1e-13)
        assert len(caught) == 1
        assert re.match(rf"all 2 processes hold the same {n} sequences, .*distributed\.shard\(", caught[0])


def test_after_all_these_errors_the_processes_still_work_together(refused):
    expected = ts.fit(model(), corpus(), steps=2).loss
    for said in refused:
        np.testing.assert_allclose(said["still working"][0], expected, rtol=1e-13)


@pytest.mark.parametrize(
    "call", [lambda: distributed.fit(model(), corpus()), lambda: distributed.shard(corpus())]
)
def test_without_processes_the_message_says_how_to_start_them(call):
    with pytest.raises(
        RuntimeError, match=r"within `with ts\.distributed\.processes\(\):`.* torch\.distributed\.run"
    ):
        call()


@pytest.mark.parametrize("timeout", [0, -1.0, "long"])
def test_the_timeout_is_a_number_of_seconds(timeout):
    with pytest.raises((ValueError, TypeError), match="timeout must be"), distributed.processes(timeout):
        pass


def test_fit_takes_the_arguments_of_fit():
    alone, shared = inspect.signature(ts.fit), inspect.signature(distributed.fit)
    assert list(alone.parameters.values()) == list(shared.parameters.values())


def test_one_process_alone_trains_the_same_bits_as_fit(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    shared, alone = model(), model()
    with distributed.processes(timeout=60) as group:
        assert group == (0, 1, torch.device("cpu"))
        history = distributed.fit(shared, distributed.shard(corpus()), steps=9, batch_size=4)
    expected = ts.fit(alone, corpus(), steps=9, batch_size=4)
    np.testing.assert_array_equal(history.loss, expected.loss)
    assert torch.equal(shared.embeddings, alone.embeddings)
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("local_rank", [0, 1, 2])
def test_on_a_machine_with_two_gpus_each_of_two_processes_gets_its_own(monkeypatch, local_rank):
    """Which GPU and which backend: what NCCL does with them cannot be seen here."""
    started = {}

    def start(backend, timeout):
        started.update(backend=backend, seconds=timeout.total_seconds())

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: started.update(device=device))
    monkeypatch.setattr(torch.distributed, "init_process_group", start)
    monkeypatch.setenv("TORCH_NCCL_BLOCKING_WAIT", "1")  # put back afterwards
    place = {"RANK": 4, "LOCAL_RANK": local_rank, "WORLD_SIZE": 6, "MASTER_ADDR": "alpha", "MASTER_PORT": 1}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    if local_rank == 2:
        with pytest.raises(RuntimeError, match="there are 2 GPUs here, none for process 2 of this machine"):
            distributed.processes(timeout=60).__enter__()
        return
    with distributed.processes(timeout=60) as group:
        assert group == (4, 6, torch.device("cuda", local_rank))
    expected = {"backend": "cpu:gloo,cuda:nccl", "seconds": 60, "device": torch.device("cuda", local_rank)}
    assert started == expected


# --- processes that die, hang or fail ---

LONG = """
def note(name, text=""):
    path = f"{sys.argv[1]}/{name}-{group.rank}"
    with open(path + ".part", "w") as file:
        file.write(text)
    os.replace(path + ".part", path)


with ts.distributed.processes(timeout=3) as group:
    own, trained, steps = ts.distributed.shard(corpus(n=300)), model(), []

    def on_step(step, scores, values):
        steps.append(step)
        if step == 20:
            note("started", str(os.getpid()))

    try:
        ts.distributed.fit(trained, own, steps=10**6, on_step=on_step)
    except RuntimeError as error:
        expected = model()
        ts.fit(expected, corpus(n=300), steps=steps[-1])
        assert (expected.embeddings - trained.embeddings).abs().max() < 1e-8
        note("said", f"{steps[-1]} {error}")
        raise
"""


@pytest.mark.parametrize(("how", "size"), [("kill", 3), ("stop", 2)])
def test_a_process_that_dies_or_hangs_ends_all_with_the_step_and_what_to_do(tmp_path, how, size):
    with Processes(tmp_path, LONG, size, how) as processes:
        processes.wait_for("started")
        processes.all[1].send_signal(signal.SIGKILL if how == "kill" else signal.SIGSTOP)
        others = [rank for rank in range(size) if rank != 1]
        # The timeout of 3 s, and what a busy machine needs to train up to the same step once more.
        assert processes.ended(others, PATIENCE) == [1] * len(others)
        for rank in others:
            step, message = (tmp_path / f"said-{rank}").read_text().split(" ", 1)
            lost = re.search(
                rf"process {rank} of {size} lost another one at step (\d+), having waited (\d+\.\d) s .*"
                "Start all of them again; if one is only slow, with a longer timeout",
                message,
            )
            assert lost, message
            assert int(lost[1]) == int(step) + 1
            assert (3 <= float(lost[2]) < 10) if how == "stop" else (float(lost[2]) < 3)
            assert "ProcessLost" in processes.errors(rank)
        if how == "stop":  # once it goes on, it finds the others gone
            processes.all[1].send_signal(signal.SIGCONT)
            assert processes.ended([1], PATIENCE) == [1]
            assert "lost another one at step" in processes.errors(1)
        else:
            assert processes.ended([1], 1) == [-signal.SIGKILL]


def test_a_process_that_fails_outside_of_training_ends_the_others(tmp_path):
    script = """
        with ts.distributed.processes(timeout=60) as group:
            own = ts.distributed.shard(corpus())
            if group.rank == 1:
                raise LookupError("no such file")
            ts.distributed.fit(model(), own)
    """
    with Processes(tmp_path, script, 2) as processes:
        assert processes.ended([0, 1], PATIENCE) == [1, 1]
        assert "ProcessLost: process 0 of 2 lost another one in fit" in processes.errors(0)
        assert "LookupError: no such file" in processes.errors(1)


def test_a_process_that_never_starts_is_not_waited_for_longer_than_the_timeout(tmp_path):
    script = """
        start = time.monotonic()
        try:
            with ts.distributed.processes(timeout=2):
                pass
        finally:
            open(f"{sys.argv[1]}/said-0", "w").write(str(time.monotonic() - start))
    """
    with Processes(tmp_path, script, 2, missing=[1]) as processes:
        assert processes.ended([0], PATIENCE) == [1]
        assert "ProcessLost: process 0 of 2 has not met the others within 2 s" in processes.errors(0)
        assert 1.5 < float((tmp_path / "said-0").read_text()) < 10


ENDED = """
from pathlib import Path

with ts.distributed.processes(timeout=60) as group:
    ts.distributed.fit(model(), ts.distributed.shard(corpus()), steps=1)
threads = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
with open(f"{sys.argv[1]}/said-{group.rank}", "w") as file:
    json.dump(threads, file)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the threads of a process are told by Linux")
def test_no_thread_of_the_group_outlives_it(tmp_path):
    """One that does may abort the process as it exits: a run that was right is then told as failed."""
    for threads in run(tmp_path, ENDED, 2):
        assert [name for name in threads if "gloo" in name] == []


# --- as torchrun starts them ---


def _torchrun(folder, script, *options, **environment):
    path = folder / "script.py"
    path.write_text(script)
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options, str(path), str(folder), ""],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _started(folder, launcher):
    """Wait until both workers train, and return their process ids."""
    start = time.monotonic()
    paths = [folder / f"started-{rank}" for rank in (0, 1)]
    while not all(path.exists() for path in paths):
        assert launcher.poll() is None, launcher.communicate()[0]
        assert time.monotonic() - start < PATIENCE
        time.sleep(0.02)
    return [int(path.read_text()) for path in paths]


def _still_runs(process):
    command = ["ps", "-o", "stat=", "-p", str(process)]
    state = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return state != "" and not state.startswith("Z")  # Z: ended, and nobody has asked how


@pytest.fixture
def reviews(tmp_path):
    """A folder in the form of the official archive, with a hundred reviews."""
    for part, kind in itertools.product(("train", "test"), ("pos", "neg")):
        folder = tmp_path / "data" / "aclImdb" / part / kind
        folder.mkdir(parents=True)
        for k in range(50):
            word = {"pos": "great", "neg": "boring"}[kind]
            (folder / f"{k}_9.txt").write_text(f"a {word} film, number {k}")
    return {"TOKENSEL_DATA": str(tmp_path / "data"), "TOKENSEL_CACHE": str(tmp_path / "cache")}


def _documented():
    """The script and the commands in the docstring of tokensel.distributed."""
    blocks = re.findall(r"::\n\n((?:(?:    .*)?\n)+)", distributed.__doc__)
    return [textwrap.dedent(block).strip() + "\n" for block in blocks]


def _options(command):
    words = command.replace("\\\n", " ").split()
    assert words[:3] == ["python", "-m", "torch.distributed.run"]
    assert words[-1] == "train_imdb.py"
    return words[3:-1]


def test_the_documented_script_on_one_machine(tmp_path, reviews):
    from safetensors.torch import load_file

    script, command, _ = _documented()
    launcher = _torchrun(tmp_path, script, *_options(command), **reviews)
    printed, _ = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 0, printed
    assert printed.count("History(") == 1
    assert "validation accuracy 1.000" in printed
    saved = load_file(tmp_path / "imdb.safetensors")
    assert saved["embeddings"].shape[1] == 256
    assert saved["embeddings"].dtype == torch.float32


def test_the_documented_script_on_two_machines(tmp_path, reviews):
    """Two launchers, as on two machines; both are this one."""
    script, _, command = _documented()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    first = [{"alpha": "127.0.0.1", "29500": port}.get(word, word) for word in _options(command)]
    second = list(first)
    second[first.index("--node-rank") + 1] = "1"
    launchers = [_torchrun(tmp_path, script, *options, **reviews) for options in (first, second)]
    printed = [launcher.communicate(timeout=PATIENCE)[0] for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], printed
    assert [text.count("History(") for text in printed] == [1, 0]
    assert (tmp_path / "imdb.safetensors").exists()


def test_torchrun_ends_all_of_them_when_one_dies(tmp_path):
    launcher = _torchrun(tmp_path, COMMON + LONG, "--nproc-per-node", "2")
    workers = _started(tmp_path, launcher)
    os.kill(workers[1], signal.SIGKILL)
    printed, _ = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 1, printed
    assert not any(map(_still_runs, workers))


def test_ctrl_c_at_torchrun_ends_training_with_a_whole_step_and_the_script_goes_on(tmp_path):
    script = (
        COMMON
        + LONG.replace("        ts.distributed.fit(", "        history = ts.distributed.fit(")
        + """
    note("said", str(len(history.loss) - 1) + " " + str(steps[-1]))
"""
    )
    launcher = _torchrun(tmp_path, script, "--nproc-per-node", "2", TORCH_ELASTIC_SHUTDOWN_TIMEOUT="60")
    workers = _started(tmp_path, launcher)
    assert all(map(_still_runs, workers))
    launcher.send_signal(signal.SIGINT)
    printed, _ = launcher.communicate(timeout=PATIENCE)
    said = [(tmp_path / f"said-{rank}").read_text().split() for rank in (0, 1)]
    assert said[0] == said[1], printed
    assert said[0][0] == said[0][1]
    assert "RuntimeWarning: training was interrupted after" in printed
    assert not any(map(_still_runs, workers))
