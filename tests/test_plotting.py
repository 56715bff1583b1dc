"""The figures: what is drawn, in which order, and whether every reader can tell it apart."""

import itertools
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from tokensel import plotting

# The just noticeable difference of CIE 1976 L*a*b* is about 2.3 (Mahy, Van Eycken and Oosterlinck 1994). We
# ask for five of them.
CLEARLY_SEEN = 5 * 2.3
# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SEEN_BY = {
    "normal sight": np.eye(3),
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(colour):
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(linear_rgb):
    """CIE 1976 L*a*b* under D65."""
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ratio = matrix @ np.clip(linear_rgb, 0, 1) / np.sum(matrix, axis=1)
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.fixture
def ax():
    return Figure().subplots()


def drawn_first(ax):
    """The line under all others."""
    return min(ax.lines, key=lambda line: (line.get_zorder(), ax.lines.index(line)))


@pytest.mark.parametrize("pair", list(itertools.combinations(plotting.COLOURS, 2)), ids="-".join)
def test_colours_stay_apart(pair):
    one, other = (linear(plotting.COLOURS[kind]) for kind in pair)
    for reader, sight in SEEN_BY.items():
        seen = np.linalg.norm(lab(sight @ one) - lab(sight @ other))
        assert seen >= CLEARLY_SEEN, f"{reader}: {seen:.1f}"
    in_grey = abs(lab(one)[0] - lab(other)[0])
    assert in_grey >= CLEARLY_SEEN, f"in grey: {in_grey:.1f}"


@pytest.mark.parametrize("kind", plotting.COLOURS)
def test_colours_stand_out_from_white(kind):
    luminance = linear(plotting.COLOURS[kind]) @ [0.2126, 0.7152, 0.0722]
    assert 1.05 / (luminance + 0.05) >= 3  # WCAG 2.2, 1.4.11


def test_colour_never_stands_alone(ax):
    assert len(set(plotting.MARKERS.values())) == 3
    plotting.top_tokens(["up", "down"], [1, 1], values=[1, -1], ax=ax)
    hatches = [patch.get_hatch() for patch in ax.patches]
    assert len(set(hatches)) == 2
    curves = {str(i): [0, i] for i in range(4)}
    plotting.training_curves(curves, ax=(lines := Figure().subplots()))
    assert len({line.get_linestyle() for line in lines.lines}) == 4
    assert len({line.get_color() for line in lines.lines}) == 4


def test_importing_changes_no_setting():
    program = (
        "import sys\n"
        "import tokensel.plotting\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import matplotlib as mpl\n"
        "before = dict(mpl.rcParams)\n"
        "del sys.modules['tokensel.plotting']\n"
        "import tokensel.plotting\n"
        "assert dict(mpl.rcParams) == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(plotting.__file__).parents[1])


def test_drawing_changes_no_setting(ax):
    before = dict(mpl.rcParams)
    plotting.u_shape([-1, 0, 1], [1, 0, 1], groups=3, ax=ax)
    assert dict(mpl.rcParams) == before


def test_style_needs_only_fonts_of_matplotlib():
    from matplotlib.font_manager import findfont

    with mpl.rc_context():
        plotting.use_style()
        (family,) = mpl.rcParams["font.family"]
        assert Path(mpl.get_data_path()) in Path(findfont(family, fallback_to_default=False)).parents
        assert mpl.rcParams["mathtext.fontset"] == "dejavusans"


def test_letters_read_on_a_phone():
    column = 390 - 2 * 16  # CSS pixels of a phone less the page's margins
    with mpl.rc_context():
        plotting.use_style()
        width, _ = mpl.rcParams["figure.figsize"]
        for name in ("xtick.labelsize", "ytick.labelsize", "axes.labelsize", "legend.fontsize"):
            pixels = mpl.rcParams[name] / 72 / width * column
            assert pixels >= 9, name  # what we ask: three quarters of the 12 px of small print


@pytest.mark.filterwarnings("error")
def test_every_figure_renders(tmp_path):
    with mpl.rc_context():
        plotting.use_style()
        draw = [
            lambda ax: plotting.prediction_and_measurement([1, 2], [1, 2], band=[0.1, 0.2], ax=ax),
            lambda ax: plotting.power_law([1, 10], [[1, 2], [3, 4]], exponent=1, ax=ax),
            lambda ax: plotting.u_shape([-1, 0, 1], [1, 0, 1], groups=3, predicted=np.square, ax=ax),
            lambda ax: plotting.training_curves({"a": [0, 1]}, references={"$b": 0.5}, peak="a", ax=ax),
            lambda ax: plotting.band([1, 2], [[1, 2], [2, 3]], names=("step", "score"), ax=ax),
            lambda ax: plotting.top_tokens(["$5", "a_b", "x^2"], [1, 2, 3], ax=ax),
            lambda ax: plotting.attention_bars(["$", "$"], [0.5, 0.5], values=[1, -1], ax=ax),
        ]
        for function in draw:
            figure = Figure()
            ax = figure.subplots()
            assert function(ax) is ax
            figure.savefig(tmp_path / "figure.png")
            assert ax.get_xlabel() or ax.get_ylabel()


def test_prediction_and_measurement(ax):
    rng = np.random.default_rng(0)
    predicted, measured, band = rng.normal(size=(3, 20))
    plotting.prediction_and_measurement(predicted, measured, band=abs(band), kind="positive", ax=ax)
    identity = drawn_first(ax)
    assert to_hex(identity.get_color()) == plotting.COLOURS["prediction"]
    np.testing.assert_array_equal(identity.get_xdata(), identity.get_ydata())
    np.testing.assert_array_equal(identity.get_xdata(), [predicted.min(), predicted.max()])
    points = ax.lines[-1]
    np.testing.assert_array_equal(points.get_xydata(), np.column_stack([predicted, measured]))
    assert points.get_marker() == plotting.MARKERS["positive"]
    edge = {tuple(corner) for corner in ax.collections[0].get_paths()[0].vertices}
    for x, half in zip(predicted, abs(band), strict=True):
        assert {(x, x - half), (x, x + half)} <= edge


def test_power_law_of_given_constant(ax):
    sizes = np.array([256.0, 16.0, 64.0])
    repeats = np.array([[1, 2, 9], [3, 4, 20], [5, 6, 7]])
    plotting.power_law(sizes, repeats, exponent=-0.5, constant=3, ax=ax)
    law = drawn_first(ax)
    assert law.get_linestyle() == "--"
    np.testing.assert_allclose(law.get_ydata(), [3 / 4, 3 / 8, 3 / 16], rtol=1e-14)
    np.testing.assert_array_equal(ax.lines[-1].get_xydata(), [[16, 4], [64, 6], [256, 2]])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "fitted" not in law.get_label()


def test_power_law_says_when_its_height_is_fitted(ax):
    plotting.power_law([4, 16], [0.5, 0.2], exponent=-0.5, ax=ax)
    law = drawn_first(ax)
    np.testing.assert_allclose(law.get_ydata(), [0.5, 0.25], rtol=1e-14)
    assert "height fitted" in law.get_label()


def test_u_shape_draws_means_of_equal_groups(ax):
    rng = np.random.default_rng(1)
    difference = rng.uniform(-1, 1, size=57)
    difference[[3, 30]] = np.nan
    scores = rng.normal(size=57)
    scores[3] = np.nan  # of a token that stands nowhere: no matter
    predicted = rng.normal(size=57)
    plotting.u_shape(difference, scores, predicted=predicted, ax=ax)
    tokens = sorted(i for i in range(57) if i not in (3, 30))
    tokens.sort(key=lambda i: difference[i])
    groups, start = [], 0
    for size in [6] * 5 + [5] * 5:  # 55 tokens in ten groups whose sizes differ by one at most
        groups.append(tokens[start : start + size])
        start += size
    expected = [(sum(difference[i] for i in g) / len(g), sum(scores[i] for i in g) / len(g)) for g in groups]
    drawn = [
        tuple(point)
        for kind in ("negative", "positive")
        for line in ax.lines
        if line.get_label() == f"mean, {kind} tokens"
        for point in line.get_xydata()
    ]
    np.testing.assert_allclose(drawn, expected, rtol=1e-12)
    theory = next(line for line in ax.lines if line.get_label() == "prediction")
    assert ax.lines[0] is theory
    np.testing.assert_allclose(theory.get_ydata(), [np.mean(predicted[g]) for g in groups], rtol=1e-12)


def test_u_shape_legend_can_be_read(ax):
    """A token is shown large and opaque, and the means on the line that joins them."""
    plotting.u_shape([-1, -0.5, 0.5, 1], [1, 2, 3, 4], groups=4, ax=ax)
    handles = dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    token, mean = handles["one token"], handles["mean, positive tokens"]
    assert (token.get_alpha() or 1) == 1
    assert token.get_markersize() >= 6
    joined = next(line for line in ax.lines if len(line.get_xdata()) == 4 and line.get_linestyle() == "-")
    assert joined.get_color() == mean.get_color()
    assert mean.get_linestyle() == "-"
    assert to_hex(mean.get_markerfacecolor()) == plotting.COLOURS["positive"]


def test_u_shape_draws_a_curve_of_theory(ax):
    plotting.u_shape([-0.5, 0.25, 1], [1, 2, 3], groups=1, predicted=lambda x: 3 * x, points=False, ax=ax)
    x, y = ax.lines[0].get_data()
    np.testing.assert_array_equal(y, 3 * x)
    assert (x[0], x[-1]) == (-0.5, 1)
    assert all(line.get_label() != "one token" for line in ax.lines)


def test_training_curves_mark_the_peak_over_their_references(ax):
    curves = {"training": [0.5, 0.7, 0.9], "held-out": [0.5, 0.8, 0.6]}
    plotting.training_curves(curves, steps=[0, 10, 20], references={"chance": 0.5}, peak="held-out", ax=ax)
    assert to_hex(ax.lines[0].get_color()) == plotting.COLOURS["prediction"]
    assert [text.get_text() for text in ax.texts] == ["chance"]
    assert tuple(ax.lines[-1].get_xydata()[0]) == (10, 0.8)
    assert "held-out: highest 0.800 at 10" in ax.get_legend_handles_labels()[1]


def test_band_spans_the_runs(ax):
    runs = np.array([[1.0, 4.0, 2.0], [3.0, 0.0, 2.0], [2.0, 5.0, 8.0]])
    plotting.band([-1, 0, 2], runs, kind="positive", label="scores", names=("x", "y"), ax=ax)
    (line,) = ax.lines
    assert [tuple(point) for point in line.get_xydata()] == [(-1, 2), (0, 3), (2, 4)]
    assert to_hex(line.get_color()) == plotting.COLOURS["positive"]
    corners = {tuple(corner) for corner in ax.collections[0].get_paths()[0].vertices}
    assert corners == {(-1, 1), (0, 0), (2, 2), (-1, 3), (0, 5), (2, 8)}
    assert ax.get_legend_handles_labels()[1] == ["scores (3 runs)"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")


def test_band_need_not_count_its_runs(ax):
    plotting.band([0, 1], [[0, 1], [1, 2]], label="scores", count=False, ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["scores"]


def test_bands_of_different_kinds_differ_without_colour(ax):
    for kind in plotting.MARKERS:
        plotting.band([0, 1], [[0, 1]], kind=kind, ax=ax)
    assert len({line.get_marker() for line in ax.lines}) == 3
    assert len({line.get_linestyle() for line in ax.lines}) == 3


def test_bars_follow_their_tokens(ax):
    plotting.top_tokens(["b", "a", "c"], [3, 2, 1], values=[-1, 0, 1], ax=ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a", "c"]
    bars = {round(bar.get_y() + bar.get_height() / 2): bar for bar in ax.patches}
    assert [bars[i].get_width() for i in range(3)] == [3, 2, 1]
    kinds = ["negative", "irrelevant", "positive"]
    assert [to_hex(bars[i].get_facecolor()) for i in range(3)] == [plotting.COLOURS[kind] for kind in kinds]
    top, bottom = ax.transData.transform([(0, 0), (0, 2)])[:, 1]
    assert top > bottom
    plotting.attention_bars(["a", "a"], [0.25, 0.75], ax=(other := Figure().subplots()))
    assert [bar.get_height() for bar in other.patches] == [0.25, 0.75]
    assert [label.get_text() for label in other.get_xticklabels()] == ["a", "a"]
    assert not any(label.get_parse_math() for label in [*ax.get_yticklabels(), *other.get_xticklabels()])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ax: plotting.prediction_and_measurement([1], [1, 2], ax=ax), "measured holds 2 .* holds 1"),
        (lambda ax: plotting.prediction_and_measurement([], [], ax=ax), "at least one number"),
        (
            lambda ax: plotting.prediction_and_measurement([1], [np.nan], ax=ax),
            "measured holds 1 .* not finite",
        ),
        (lambda ax: plotting.power_law([1, 2], [1, 0], exponent=1, ax=ax), "positive"),
        (lambda ax: plotting.power_law([1, 2], [1], exponent=1, ax=ax), "measured holds 1"),
        (lambda ax: plotting.u_shape([0, 1], [1], ax=ax), "one number per token"),
        (lambda ax: plotting.u_shape([0, 1], [1, 2], groups=3, ax=ax), "groups = 3"),
        (lambda ax: plotting.u_shape([0, 1], [1, 2], groups=1, predicted=[1], ax=ax), "predicted"),
        (lambda ax: plotting.training_curves({}, ax=ax), "0 lines"),
        (lambda ax: plotting.training_curves({str(i): [1] for i in range(5)}, ax=ax), "5 lines"),
        (lambda ax: plotting.training_curves({"a": [1]}, peak="b", ax=ax), "'b' names no curve"),
        (
            lambda ax: plotting.training_curves({"a": [1, 2]}, steps=[1], ax=ax),
            "a has shape .* steps has shape",
        ),
        (lambda ax: plotting.band([1, 2], [1, 2], ax=ax), r"runs must have shape .* got shape \(2,\)"),
        (lambda ax: plotting.band([], np.empty((2, 0)), ax=ax), "runs must have shape"),
        (lambda ax: plotting.band([1, 2], [[1, 2, 3]], ax=ax), "runs holds 3 numbers but x holds 2"),
        (lambda ax: plotting.band([1, 2], [[1, np.nan]], ax=ax), "runs holds 1 .* not finite"),
        (lambda ax: plotting.band([1], [[1]], kind="pos", ax=ax), "kind must be .* 'pos'"),
        (lambda ax: plotting.top_tokens(["a"], [1, 2], ax=ax), "1 tokens but 2 numbers"),
        (lambda ax: plotting.attention_bars(["a"], [-0.1], ax=ax), "negative"),
        (lambda ax: plotting.attention_bars(["a"], [np.nan], ax=ax), "attention holds 1 .* not finite"),
        (
            lambda ax: plotting.prediction_and_measurement([1, 2], [1, 2], band=-1, ax=ax),
            "band must be .* none of them negative; got -1",
        ),
        (lambda ax: plotting.prediction_and_measurement([1, 2], [1, 2], band=[1] * 3, ax=ax), "band must be"),
        (
            lambda ax: plotting.prediction_and_measurement([1], [1], kind="pos", ax=ax),
            "kind must be .* 'pos'",
        ),
        (lambda ax: plotting.power_law([], [], exponent=1, ax=ax), "measured must have shape"),
        (lambda ax: plotting.power_law([1, 2], [1, 2], exponent=1, constant=-1, ax=ax), "positive constant"),
        (lambda ax: plotting.power_law([1], [[1, np.inf, 1]], exponent=1, ax=ax), "measured must be finite"),
        (lambda ax: plotting.u_shape([[0, 1]], [[1, 2]], groups=1, ax=ax), "one number per token"),
        (lambda ax: plotting.u_shape([0, 1], [1, 2], groups=0, ax=ax), "groups must be at least 1"),
        (
            lambda ax: plotting.u_shape([0, 1], [1, 2], groups=1, predicted=lambda x: 1.0, ax=ax),
            "predicted needs one dimension",
        ),
        (lambda ax: plotting.training_curves({"a": [np.nan]}, ax=ax), "a needs .* at least one number"),
        (lambda ax: plotting.training_curves({"a": [np.inf]}, ax=ax), "a holds 1 .* not finite"),
    ],
)
def test_bad_input(call, message, ax):
    with pytest.raises(ValueError, match=message):
        call(ax)


def test_tensors_that_training_follows_are_drawn(ax):
    numbers = torch.tensor([0.1, 0.2], dtype=torch.float64, requires_grad=True)
    plotting.prediction_and_measurement(numbers, numbers, ax=ax)
    plotting.power_law([1, 2], numbers, exponent=1, ax=Figure().subplots())
    plotting.u_shape([-1, 1], numbers, groups=2, ax=ax)
    plotting.training_curves({"loss": numbers}, ax=ax)
    plotting.band(numbers, numbers[None], ax=ax)
    plotting.top_tokens(["a", "b"], numbers, values=numbers, ax=ax)
    plotting.attention_bars(["a", "b"], numbers, ax=ax)
    assert [bar.get_height() for bar in ax.patches[-2:]] == [0.1, 0.2]


def test_a_curve_passes_over_what_was_not_measured(ax):
    """Minibatches measure validation accuracy at the start of each epoch only: NaN between."""
    plotting.training_curves(
        {"steps": [1, 2, 3], "validation": [0.5, np.nan, 0.75]}, peak="validation", ax=ax
    )
    line = next(line for line in ax.lines if line.get_label().startswith("validation"))
    assert line.get_xdata().tolist() == [0, 2]
    assert line.get_ydata().tolist() == [0.5, 0.75]
    assert line.get_label() == "validation: highest 0.750 at 2"
