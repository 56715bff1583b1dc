"""The Yelp chapter, run as the build runs it, on reviews whose answers are known.

The stand-in for Yelp is made of film reviews, other ones than those it is compared with. So no word can
change its meaning from one corpus to the other: what the chapter corrects for chance must come out as one.
"""

import json

import chapter_execution
import nbformat
import numpy as np
import pytest
import stand_in
import torch
from browsing import ROOT

import tokensel as ts

CHAPTER = ROOT / "book" / "text" / "yelp.ipynb"
N_YELP, N_HELD, N_IMDB, N_IMDB_HELD = 2_000, 1_000, 5_000, 3_000
RESULTS = """
import json
print(json.dumps({
    "outside": {dim: int(n) for dim, n in outside.items()},
    "sizes": [len(yelp), len(yelp_held), len(imdb), len(imdb_held)],
    "leaning": leaning.tolist(), "alpha": alpha.tolist(), "nu": nu.tolist(),
    "heights": np.array(heights).tolist(), "correlations": np.array(sizes).tolist(),
    "shared": len(shared), "foretold": float(foretold_r), "counted": float(counted_r),
    "slope": {k: float(v) for k, v in slope.items()}, "flipped": [shared[s] for s in flipped],
    "curves": {f"{h} {t}": np.array(c).tolist() for (h, t), c in curves.items()},
    "linear": {k: float(v) for k, v in linear.items()},
    "promise": {k: v.tolist() for k, v in promise.items()},
    "selected": {f"{h}, {n}": [float(x) for x in v[:6]] for (h, n), v in selected.items()},
}))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The executed notebook, with one cell more that prints what it found."""
    folder = tmp_path_factory.mktemp("yelp")
    order = np.random.default_rng(0).permutation(25_000)
    reviews = stand_in.rows()
    reviews = [reviews[i] for i in order]
    stand_in.yelp(folder, reviews[:N_YELP], reviews[N_YELP : N_YELP + N_HELD])
    stand_in.imdb(folder, reviews[N_YELP + N_HELD : N_YELP + N_HELD + N_IMDB])
    notebook = nbformat.read(CHAPTER, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(RESULTS))
    path = folder / "yelp.ipynb"
    nbformat.write(notebook, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENSEL_DATA", str(folder))
        patch.setenv("TOKENSEL_CACHE", str(folder / "counts"))
        patch.setenv("TOKENSEL_STATIC", "1")
        patch.setenv("OMP_NUM_THREADS", "1")
        executed, _, failure = chapter_execution.run_chapter(path, timeout=120)
    assert failure is None, failure
    return executed


@pytest.fixture(scope="module")
def found(run):
    return json.loads(run.cells[-1].outputs[0].text)


def outputs(notebook):
    return [(cell, output) for cell in notebook.cells for output in cell.get("outputs", [])]


def test_no_cell_writes_to_stderr(run):
    """It would stand in the page, and fails the build; the stand-in holds a review without any word."""
    assert [cell.id for cell, output in outputs(run) if output.get("name") == "stderr"] == []


def test_each_figure_is_drawn(run):
    for cell in run.cells:
        if "figure" in cell.metadata.get("mystnb", {}):
            assert [1 for output in cell.outputs if "image/png" in output.get("data", {})] == [1], cell.id


def test_sentences_hold_numbers(run):
    """With reviews of which little is to be said the prose still must not say nonsense."""
    told = [
        output.data["text/markdown"]
        for _, output in outputs(run)
        if "text/markdown" in output.get("data", {})
    ]
    assert len(told) == sum("remove-input" in cell.metadata.get("tags", []) for cell in run.cells)
    for text in told:
        assert not {"nan", "inf", "None"} & set(text.replace("*", " ").replace("$", " ").split()), text


def test_reviews_without_a_counted_word_are_left_out(found):
    """So all sizes are those that were written, less the reviews that held no common word at all."""
    n_yelp, n_held, n_imdb, n_imdb_held = found["sizes"]
    assert n_yelp == n_imdb == N_YELP
    assert n_held == N_HELD
    assert n_imdb_held == N_IMDB_HELD


def test_no_word_leaves_the_band_of_the_theorem(found):
    assert found["outside"] == {"256": 0, "4096": 0}


def test_the_average_label_is_that_of_the_places_of_a_word(found):
    assert np.allclose(np.array(found["leaning"]) * found["nu"], found["alpha"], atol=1e-15)
    assert np.max(np.abs(found["leaning"])) <= 1


def test_scores_make_a_u_in_each_of_five_runs(found):
    """Both ends of the ten means lie above the lowest one, which is inside; one-sided words score higher."""
    for means in found["heights"]:
        lowest = int(np.argmin(means))
        assert 0 < lowest < 9
        assert min(means[0], means[-1]) > means[lowest]
    assert np.min(found["correlations"]) > 0


def test_what_chance_does_to_the_correlation_is_foretold(found):
    """The reviews are of one kind and none stands in both: three standard errors of a correlation."""
    assert found["shared"] > 500
    assert abs(found["counted"] - found["foretold"]) < 3 / np.sqrt(found["shared"])


def test_no_word_changes_sides(found):
    """With one true lean a word needs six standard errors of difference, split between both sides."""
    assert found["flipped"] == []


def test_true_leans_are_kept_as_they_are(found):
    """The slope of one lean on itself is one. Its error: that of the covariance, about as many words."""
    for slope in found["slope"].values():
        assert abs(slope - 1) < 3 / np.sqrt(found["shared"]) / found["foretold"]


def test_leaving_home_costs_nothing_where_both_are_home(found):
    """Accuracies of one run on both held-out parts differ by their sampling errors only, four of them."""
    error = np.sqrt(0.25 / N_HELD + 0.25 / N_IMDB_HELD)
    for home, away in (("IMDB", "Yelp"), ("Yelp", "IMDB")):
        at_home, abroad = (np.array(found["curves"][f"{home} {there}"]) for there in (home, away))
        assert at_home.shape == (5, 61)
        assert np.max(np.abs(at_home.mean(axis=0) - abroad.mean(axis=0))) < 4 * error
        assert at_home[:, 0].max() < 0.6  # a coin
        assert at_home.max(axis=1).min() > 0.75  # and then half as many errors


def test_linear_classifiers_beat_a_coin_by_far(found):
    assert min(found["linear"].values()) > 0.75


def test_fresh_reviews_keep_less_of_rarer_words(found):
    """Foretold from the training reviews alone; found, in order, between the rarest and the most frequent."""
    for _, foretold, at_home, abroad in found["promise"].values():
        assert foretold[0] < foretold[-1] <= 1
        assert at_home[0] < at_home[-1]
        assert abroad[0] < abroad[-1]


def test_selected_rare_words_promise_more_than_they_keep(found):
    for home in ("IMDB", "Yelp"):
        n_rare, promised, foretold, kept, _, _ = found["selected"][f"{home}, all"]
        n_usual, usual_promise, usual_foretold, usual_kept, _, _ = found["selected"][f"{home}, frequent"]
        assert n_rare < n_usual
        assert foretold < promised
        assert kept < promised
        assert promised - kept > usual_promise - usual_kept
        assert promised - foretold > usual_promise - usual_foretold


def test_reviews_of_yelp_make_the_u():
    """The figure that the book claims, where the reviews are at hand."""
    try:
        reviews = ts.datasets.yelp(download_if_missing=False)
    except ts.datasets.DatasetNotFound:
        pytest.skip("the reviews of Yelp are not on this machine, and a test downloads nothing")
    rows = np.sort(np.random.default_rng(0).permutation(len(reviews))[:5_000])
    part = reviews[rows]
    model = ts.AttentionClassifier.initialise(part.n_tokens, dim=256, seed=0, dtype=torch.float32)
    ts.fit(model, part, steps=200, progress=False)
    often = part.document_frequency > 50
    difference, scores = part.posterior_difference[often], model.scores().detach().numpy()[often]
    means = [scores[g].mean() for g in np.array_split(np.argsort(difference, kind="stable"), 10)]
    lowest = int(np.argmin(means))
    assert 0 < lowest < 9
    assert (np.diff(means[: lowest + 1]) < 0).all()
    assert (np.diff(means[lowest:]) > 0).all()
    assert np.corrcoef(scores, np.abs(difference))[0, 1] > 0.5
