"""A progress bar shows where it is wanted and nowhere else."""

import numpy as np
import pytest

from tokensel import progress as module
from tokensel.progress import progress


@pytest.fixture(autouse=True)
def _live(monkeypatch):
    """The tests decide for themselves whether a page is being built."""
    monkeypatch.delenv("TOKENSEL_STATIC", raising=False)


def _shown(capsys):
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.mark.parametrize("work", [[1, 2, 3], range(3), np.arange(3)])
def test_iterates_over_the_work(work):
    assert list(progress(work, show=False)) == list(work)


def test_true_shows_a_bar_with_its_description(capsys):
    with progress(np.int64(4), show=True, description="training", unit="review") as bar:
        bar.update(4)
        bar.refresh()
    shown = _shown(capsys)
    assert "training" in shown
    assert "4/4" in shown
    assert "review" in shown


def test_false_shows_nothing(capsys):
    list(progress(range(1000), show=False))
    assert _shown(capsys) == ""


def test_a_page_being_built_shows_nothing_even_when_asked(capsys, monkeypatch):
    monkeypatch.setenv("TOKENSEL_STATIC", "1")
    list(progress(range(10), show=True))
    assert _shown(capsys) == ""


def test_nothing_is_shown_where_nobody_watches(capsys, monkeypatch):
    monkeypatch.setattr(module, "AUTOMATIC_DELAY", 1e-9)
    list(progress(range(10)))  # pytest's standard error is not a terminal
    assert _shown(capsys) == ""


def test_somebody_watching_sees_long_work_only(capsys, monkeypatch):
    monkeypatch.setattr(module, "_somebody_watches", lambda: True)
    list(progress(range(10)))
    assert _shown(capsys) == ""
    monkeypatch.setattr(module, "AUTOMATIC_DELAY", 1e-9)
    with progress(10, description="long") as bar:
        for _ in range(10):
            bar.update()
            bar.refresh()
    assert "long" in _shown(capsys)


def test_work_of_unknown_length_counts_up(capsys):
    with progress(show=True, description="flow") as bar:
        bar.update(7)
        bar.refresh()
    assert "7step" in _shown(capsys)


def test_show_must_be_a_truth_value():
    with pytest.raises(TypeError, match="progress must be True, False or None, got 'yes'"):
        progress(range(3), show="yes")
