"""A sweep is nested loops, wherever its runs are made, and says with which settings one failed."""

import io
import itertools
import os
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
import torch

import tokensel as ts
from tokensel import sweeps


def product(a, b):
    return {"product": a * b, "process": os.getpid()}


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_rows_come_in_the_order_of_nested_loops(n_jobs):
    rows = ts.sweep(product, n_jobs=n_jobs, b=[3, 1, 2], a=range(2))
    assert [(row["b"], row["a"], row["product"]) for row in rows] == [
        (b, a, a * b) for b in [3, 1, 2] for a in range(2)
    ]
    assert [list(row) for row in rows] == [["b", "a", "product", "process"]] * 6
    assert ({row["process"] for row in rows} == {os.getpid()}) == (n_jobs != 2)


@pytest.mark.parametrize("result", [None, 3.5, [1, 2], (1, 2)])
def test_a_result_that_is_no_dict_has_a_name(result):
    assert ts.sweep(lambda seed: result, seed=[0]) == [{"seed": 0, "result": result}]


def test_a_dict_is_left_as_it_was():
    result = {"loss": 1.0}
    assert ts.sweep(lambda seed: result, seed=[0, 1])[1] == {"seed": 1, "loss": 1.0}
    assert result == {"loss": 1.0}


def test_the_settings_may_be_any_values():
    values = [None, "word", (1, 2), {"lr": 0.1}]
    assert [row["option"] for row in ts.sweep(lambda option: 0, option=values)] == values


@pytest.mark.parametrize(
    "values",
    [np.arange(3), torch.arange(3), (n for n in range(3)), iter([0, 1, 2])],
    ids=["NumPy", "torch", "generator", "iterator"],
)
def test_arrays_and_generators_give_ordinary_numbers(values):
    rows = ts.sweep(lambda seed: type(seed).__name__, seed=values)
    assert rows == [{"seed": seed, "result": "int"} for seed in range(3)]


def test_settings_may_have_the_names_of_its_own_arguments():
    assert ts.sweep(lambda function: function, function=[1, 2])[1] == {"function": 2, "result": 2}


def trained(seed, learning_rate):
    corpus = ts.samplers.one_important_token(n_sequences=20, length=4, n_irrelevant=6, seed=seed)
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=8, seed=seed)
    ts.fit(model, corpus, steps=3, learning_rate=learning_rate, batch_size=7, seed=seed)
    return {"cls": model.cls.tolist()}


def test_seeds_alone_decide_what_is_random():
    alone, together = (
        ts.sweep(trained, n_jobs=n_jobs, seed=range(3), learning_rate=[0.1, 0.5]) for n_jobs in (1, 2)
    )
    assert alone == together
    assert len({tuple(row["cls"]) for row in alone}) == 6


def no_threes(a, b):
    if a == 3:
        raise KeyError("three")
    return a


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_keeps_its_kind_and_names_the_settings(n_jobs):
    with pytest.raises(KeyError, match="three") as failure:
        ts.sweep(no_threes, n_jobs=n_jobs, a=[1, 2, 3], b=["x"])
    assert failure.value.__notes__ == ["in the run of the sweep with a=3, b='x'"]


class Awkward(Exception):
    """Unpickled, it would be made from its message alone."""

    def __init__(self, reason, where):
        super().__init__(f"{reason} in {where}")


def awkward(seed):
    raise Awkward("fog", "London")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_that_cannot_travel_still_says_what_it_was(n_jobs):
    with pytest.raises(RuntimeError, match="Awkward: fog in London") as failure:
        ts.sweep(awkward, n_jobs=n_jobs, seed=[5])
    assert failure.value.__notes__ == ["in the run of the sweep with seed=5"]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_result_that_hides_a_setting_is_refused(n_jobs):
    with pytest.raises(ValueError, match="with a=1, b=2 has the key 'a', which is a setting"):
        ts.sweep(same_name, n_jobs=n_jobs, a=[1], b=[2])


def same_name(a, b):
    return {"a": 0, "loss": 1}


def test_a_result_without_a_name_cannot_hide_a_setting_either():
    with pytest.raises(ValueError, match="'result', which is a setting"):
        ts.sweep(lambda result: 0, result=[1])


@pytest.mark.parametrize("backend", ["threading", "multiprocessing", "loky", "sequential"])
def test_any_backend_of_joblib_serves(backend):
    with joblib.parallel_config(backend, n_jobs=2):
        rows = ts.sweep(thread, n=range(6))
    assert [row["n"] for row in rows] == list(range(6))
    here, elsewhere = os.getpid(), {row["process"] for row in rows} - {os.getpid()}
    assert bool(elsewhere) == (backend in ("multiprocessing", "loky"))
    if backend == "threading":
        assert {row["thread"] for row in rows} != {threading.get_ident()}
        assert {row["process"] for row in rows} == {here}


def thread(n):
    return {"process": os.getpid(), "thread": threading.get_ident()}


def test_functions_of_a_notebook_run_in_other_processes(tmp_path):
    """A script's functions stand in __main__, as a notebook's do; they use what stands around them."""
    script = tmp_path / "notebook.py"
    script.write_text("""
import numpy as np
import tokensel as ts

BASE = 10

def helper(seed):
    return BASE + seed

class Odd(ValueError):
    pass

def function(seed):
    if seed == 7:
        raise Odd("seven")
    return {"value": helper(seed), "kind": type(np.float64(1)).__name__}

if __name__ == "__main__":
    print(ts.sweep(function, n_jobs=2, seed=[1, 2]))
    try:
        ts.sweep(function, n_jobs=2, seed=[6, 7])
    except ValueError as error:
        print(type(error).__name__, error, error.__notes__)
    print(ts.sweep(lambda seed: helper(seed), n_jobs=2, seed=[3]))
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[{'seed': 1, 'value': 11, 'kind': 'float64'}, {'seed': 2, 'value': 12, 'kind': 'float64'}]",
        "Odd seven ['in the run of the sweep with seed=7']",
        "[{'seed': 3, 'result': 13}]",
    ]


@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_the_bar_counts_runs(monkeypatch, backend):
    monkeypatch.delenv("TOKENSEL_STATIC", raising=False)
    monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
    bars, make = [], sweeps.progress_bar
    monkeypatch.setattr(sweeps, "progress_bar", lambda *a, **k: bars.append(make(*a, **k)) or bars[-1])
    with joblib.parallel_config(backend, n_jobs=2):
        ts.sweep(product, progress=True, a=range(5), b=[1])
    assert (bars[0].n, bars[0].total) == (5, 5)
    assert "sweep" in screen.getvalue()


def test_no_bar_where_nobody_asked(capsys):
    ts.sweep(product, progress=False, a=range(5), b=[1])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "at least one setting"),
        ({"seed": []}, ValueError, "seed has no values"),
        ({"seed": range(0), "dim": [3]}, ValueError, "seed has no values"),
        ({"seed": 3}, TypeError, r"seed must be a list of values, got 3: write seed=\[3\]"),
        ({"optimizer": "adam"}, TypeError, r"optimizer must be a list of values, got 'adam'"),
        ({"seed": {1, 2}}, TypeError, "seed must be a list"),  # in no particular order
        ({"seed": {1: 2}}, TypeError, "seed must be a list"),
        ({"seed": torch.tensor(1)}, TypeError, "seed must be a list"),
        ({"seed": itertools.count()}, ValueError, "seed has more than 1,000,000 values: is it without end"),
        ({"seed": [0], "n_jobs": "2"}, TypeError, "n_jobs must be a whole number, got '2'"),
        (
            {"a": range(10**5), "b": range(10**5), "c": range(10**5)},
            MemoryError,
            "1,000,000,000,000,000 runs",
        ),
    ],
)
def test_bad_input_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        ts.sweep(lambda **_: 0, **arguments)


def test_the_function_must_be_one():
    with pytest.raises(TypeError, match="function must be callable, got 3"):
        ts.sweep(3, seed=[1])


class NoParts(Exception):
    def __reduce__(self):
        raise OSError("not to be taken apart")


class NoTuple(Exception):
    def __reduce__(self):
        return "NoTuple"


@pytest.mark.parametrize("kind", [NoParts, NoTuple, StopIteration])
def test_odd_errors_end_the_sweep_under_their_names(kind):
    def fails(seed):
        raise kind("this")

    with pytest.raises(RuntimeError, match=f"{kind.__name__}: this") as caught:
        ts.sweep(fails, seed=[0])
    assert caught.value.__notes__ == ["in the run of the sweep with seed=0"]
