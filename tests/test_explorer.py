"""`explore` with and without a kernel. What a browser does with the page: test_explorer_browser.py."""

import base64
import html.parser
import io
import json
import re
import struct

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tokensel import explorer, plotting
from tokensel.explorer import explore, frame


def draw(k, scale=1.0):
    figure, ax = plt.subplots(figsize=(3, 2))
    for i, colour in enumerate(plotting.COLOURS.values()):
        ax.plot([0, i + 1], [0, k * scale], color=colour, linewidth=3)
    ax.set_ylim(0, 10)
    return figure


@pytest.fixture
def static(monkeypatch):
    monkeypatch.setenv("TOKENSEL_STATIC", "1")


@pytest.fixture
def live(monkeypatch):
    monkeypatch.delenv("TOKENSEL_STATIC", raising=False)


class Page(html.parser.HTMLParser):
    """The elements of an explorer: (tag, attributes, tags around it), and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), tuple(self.open)))
        if tag not in ("img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)

    def find(self, tag):
        return [(attributes, around) for name, attributes, around in self.elements if name == tag]


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


# --- without a kernel ---


def test_every_state_is_drawn_once_in_order(static):
    calls = []

    def counted(**values):
        calls.append(values)
        return draw(**values)

    shown = explore(counted, alt="{k} {scale}", k=range(1, 3), scale=np.array([0.5, 2.0, 3.0]))
    expected = [{"k": k, "scale": scale} for k in (1, 2) for scale in (0.5, 2.0, 3.0)]
    assert calls == shown.states == expected
    assert shown.alts == ["1 0.5", "1 2.0", "1 3.0", "2 0.5", "2 2.0", "2 3.0"]
    assert shown.frames == [frame(draw(**state)) for state in expected]
    assert all(type(state["scale"]) is float for state in shown.states)


def test_the_same_figure_gives_the_same_bytes(static):
    first, again = (explore(draw, alt="{k}", k=[1, 2, 3])._repr_html_() for _ in range(2))
    assert first == again


def test_a_frame_holds_pixels_and_nothing_else():
    png = frame(draw(5))
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, position = [], 8
    while position < len(png):
        (length,) = struct.unpack(">I", png[position : position + 4])
        chunks.append(png[position + 4 : position + 8].decode())
        position += length + 12
    assert set(chunks) == {"IHDR", "PLTE", "IDAT", "IEND"}
    picture = Image.open(io.BytesIO(png))
    assert picture.mode == "P"
    assert picture.size == (3 * 160, 2 * 160)


def test_a_frame_keeps_the_colours_of_the_figure():
    drawn = io.BytesIO()
    figure = draw(5)
    figure.savefig(drawn, format="png", dpi=160)
    plt.close(figure)
    difference = abs(pixels(frame(draw(5))) - pixels(drawn.getvalue())).max()
    # 64 colours spread over the whole cube would stand 64 levels apart; a figure mixes a few hues with white,
    # and we ask for four times nearer.
    assert difference <= 16
    assert (pixels(frame(draw(5)))[0, 0] == 255).all()


def test_a_filled_area_has_its_very_colour_in_every_frame():
    """A grey that is bluish in one frame and not in the next would look as if it meant something."""
    for k in range(1, 6):
        figure, (left, right) = plt.subplots(1, 2)
        left.fill([0, 1, 1, 0], [0, 0, 1, 1], color="#e8e8e8")
        for kind, colour in plotting.COLOURS.items():
            right.plot([0, k], [len(kind), 1], color=colour)
        assert (pixels(frame(figure)) == 0xE8).all(axis=-1).mean() > 0.1


def test_a_frame_of_the_books_size_is_light():
    rng = np.random.default_rng(0)
    with plt.rc_context():
        plotting.use_style()
        figure, ax = plt.subplots()
        x = rng.normal(size=100)
        plotting.prediction_and_measurement(x, x + rng.normal(size=100) / 10, ax=ax)
        png = frame(figure)
    assert Image.open(io.BytesIO(png)).size == (1120, 640)
    assert len(png) <= 30 * 1024


def test_a_crop_to_content_does_not_change_the_size():
    with plt.rc_context({"savefig.bbox": "tight"}):
        assert Image.open(io.BytesIO(frame(draw(1)))).size == (480, 320)


def test_the_page_stands_alone(static):
    shown = explore(
        draw,
        alt='</script> from 0 to <{k}> & "{scale}"',
        k={
            "values": [1, 2, 4],
            "label": "tokens </script> & k",
            "initial": 2,
            "format": "{} tokens",
            "time": True,
        },
        scale=[-0.5, 2.0],
    )
    page = Page(shown._repr_html_())
    ((image, _),) = page.find("img")
    assert image["src"] == "data:image/png;base64," + base64.b64encode(shown.frames[shown.initial]).decode()
    assert image["alt"] == '</script> from 0 to <2> & "-0.5"'
    assert (image["width"], image["height"]) == ("480", "320")
    inputs = page.find("input")
    assert [attributes["type"] for attributes, _ in inputs] == ["range", "range"]
    assert [(a["min"], a["max"], a["step"], a["value"]) for a, _ in inputs] == [
        ("0", "2", "1", "1"),
        ("0", "1", "1", "0"),
    ]
    assert [a["aria-valuetext"] for a, _ in inputs] == ["2 tokens", "\N{MINUS SIGN}0.5"]
    assert all(around[-1] == "label" for _, around in inputs)
    assert [a["aria-live"] for a, _ in page.find("output")] == ["off", "off"]
    assert len(page.find("button")) == 1
    assert len(page.find("noscript")) == 1
    # No identifiers, so that an explorer can stand twice on a page; nothing that a page would fetch.
    assert not any("id" in attributes for _, attributes, _ in page.elements)
    assert not re.search(r"https?:|//cdn|url\(|@import", shown._repr_html_())
    assert [a["src"][:5] for _, a, _ in page.elements if "src" in a or "href" in a] == ["data:"]
    data, program = page.scripts
    data = json.loads(data)
    assert "</script" not in program
    assert data["states"] == shown.states
    assert data["alts"] == shown.alts
    assert data["texts"] == [["1 tokens", "2 tokens", "4 tokens"], ["\N{MINUS SIGN}0.5", "2"]]
    assert [i for i, source in enumerate(data["sources"]) if source is None] == [shown.initial]
    assert json.loads(page.elements[0][1]["data-state"]) == {"k": 2, "scale": -0.5}


def test_plain_text_says_what_the_figure_shows(static):
    shown = explore(draw, alt="up to {k}", k={"values": [1, 2], "initial": 2})
    assert repr(shown) == "Explorer (k: 1, 2). up to 2"


def test_values_that_json_does_not_know(static):
    shown = explore(draw, alt="{k} {scale}", k=[1], scale=[0.0, float("inf")])
    data = json.loads(Page(shown._repr_html_()).scripts[0], parse_constant=pytest.fail)
    assert data["states"] == [{"k": 1, "scale": 0.0}, {"k": 1, "scale": "inf"}]


def test_figures_are_closed_even_after_an_error(static):
    kept = plt.figure()
    before = plt.get_fignums()
    explore(draw, alt="{k}", k=[1, 2])
    assert plt.get_fignums() == before

    def broken(k):
        plt.figure()
        plt.figure()
        raise RuntimeError("no such corpus")

    with pytest.raises(RuntimeError, match="no such corpus") as error:
        explore(broken, alt="{k}", k=[3])
    assert error.value.__notes__ == ["This was while drawing the figure at k = 3."]
    assert plt.get_fignums() == before
    plt.close(kept)


def test_too_many_states_are_refused_before_any_is_drawn(static):
    with pytest.raises(ValueError, match=r"8 × 8 = 64 states.*at most 60"):
        explore(lambda k, j: pytest.fail("drawn"), alt="{k}", k=range(8), j=range(8))


def test_sixty_states_are_allowed(static):
    shown = explore(lambda k: Figure(figsize=(1, 1)), alt="{k}", k=range(60))
    assert len(shown.frames) == 60


def test_too_heavy_frames_are_refused(static):
    def noise(k):
        figure = Figure(figsize=(7, 4))
        figure.figimage(np.random.default_rng(k).uniform(size=(640, 1120)))
        return figure

    frames = [frame(noise(k)) for k in range(4)]
    encoded = np.cumsum([len(base64.b64encode(png)) for png in frames])
    assert encoded[-1] > 1.5e6  # else this noise tests nothing
    drawn = int(np.argmax(encoded > 1.5e6)) + 1
    with pytest.raises(ValueError, match=rf"first {drawn} of 4 frames.*at most 1\.5 MB"):
        explore(noise, alt="{k}", k=range(4))


def test_figures_of_different_sizes_are_refused(static):
    with pytest.raises(ValueError, match=r"k = 2 differs in size"):
        explore(lambda k: Figure(figsize=(k, 1)), alt="{k}", k=[1, 2])


def test_an_alt_text_that_never_changes_is_refused(static):
    with pytest.raises(ValueError, match="always says 'a curve'"):
        explore(draw, alt=lambda k: "a curve", k=[1, 2])


# --- with a kernel ---


def shown_by(box):
    """The PNG and alt text that the live explorer shows."""
    picture = box.children[-1]
    attributes = Page(picture.value).find("img")[0][0]
    return base64.b64decode(attributes["src"].removeprefix("data:image/png;base64,")), attributes["alt"]


def test_moving_a_slider_draws_anew(live):
    box = explore(draw, alt="{k} & {scale}", k={"values": [1, 2, 4], "initial": 2}, scale=[0.5, 2.0])
    k, scale, _ = box.children
    assert (k.value, scale.value) == (2, 0.5)
    assert shown_by(box) == (frame(draw(2, 0.5)), "2 & 0.5")
    k.value = 4
    assert shown_by(box) == (frame(draw(4, 0.5)), "4 & 0.5")
    scale.index = 1
    assert shown_by(box) == (frame(draw(4, 2.0)), "4 & 2.0")
    assert plt.get_fignums() == []


def test_live_sliders_say_labels_and_formatted_values(live):
    box = explore(draw, alt="{k}", k={"values": [1, 2], "label": "tokens", "format": lambda k: f"{k} of 2"})
    assert box.children[0].description == "tokens"
    assert box.children[0].label == "1 of 2"


def test_a_parameter_of_time_can_be_played(live):
    box = explore(draw, alt="{k}", k={"values": [1, 2, 4], "initial": 2, "time": True})
    slider, play = box.children[0].children
    assert (play.min, play.max, play.value) == (0, 2, 1)
    slider.index = 2
    assert shown_by(box)[0] == frame(draw(4))


def test_an_error_while_moving_is_shown_and_raised(live):
    def broken(k):
        if k == 2:
            raise ValueError("<no> such k")
        return draw(k)

    box = explore(broken, alt="{k}", k=[1, 2])
    with pytest.raises(ValueError, match="<no> such k"):
        box.children[0].value = 2
    assert box.children[-1].value == "<pre>ValueError: &lt;no&gt; such k</pre>"
    box.children[0].value = 1
    assert shown_by(box)[1] == "1"


# --- bad input, in either way ---


@pytest.mark.parametrize("where", ["static", "live"])
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: explore(draw, k=[1, 2]), TypeError, "explore needs alt"),
        (lambda: explore(draw, alt=3, k=[1, 2]), TypeError, "explore needs alt.*got 3"),
        (lambda: explore(draw, alt="a curve", k=[1, 2]), ValueError, "alt must change"),
        (lambda: explore(draw, alt="{n}", k=[1, 2]), ValueError, r"alt uses \{n\}, but the parameters are k"),
        (lambda: explore(draw, alt="{}", k=[1, 2]), ValueError, r"alt uses \{\}"),
        (lambda: explore(draw, alt=lambda k: " ", k=[1, 2]), ValueError, "alt must say .* at k = 1"),
        (lambda: explore(draw, alt=lambda n: "n", k=[1, 2]), TypeError, "alt must take the parameters k"),
        (lambda: explore(draw, alt="{k}"), TypeError, "at least one parameter"),
        (lambda: explore(draw, alt="{n}", n=[1, 2]), TypeError, "draw must take the parameters n"),
        (lambda: explore(draw, alt="{k}", k=3), TypeError, r"k = 3 is one value.*k=\[3, ...\]"),
        (lambda: explore(draw, alt="{k}", k="abc"), TypeError, "k = 'abc' is one value"),
        (lambda: explore(draw, alt="{k}", k=[]), ValueError, "k has no values"),
        (lambda: explore(draw, alt="{k}", k=[1, 2, 1]), ValueError, "k holds the value 1 twice"),
        (lambda: explore(draw, alt="{k}", k={"values": [1, 2], "initial": 3}), ValueError, "initial = 3"),
        (
            lambda: explore(draw, alt="{k}", k={"values": [1, 2], "start": 1}),
            ValueError,
            "no setting 'start'",
        ),
        (lambda: explore(draw, alt="{k}", k={"initial": 1}), ValueError, "k needs its values"),
        (
            lambda: explore(draw, alt="{k}", k={"values": [0.11, 0.12], "format": "{:.1f}"}),
            ValueError,
            "two values of the parameter k alike, as '0.1'",
        ),
        (
            lambda: explore(draw, alt="{k}", k={"values": ["a", "b"], "format": "{:.1f}"}),
            ValueError,
            r"format = '\{:.1f\}' cannot write the values of the parameter k",
        ),
        (
            lambda: explore(draw, alt="{k}", k={"values": [1, 2], "format": "{k}"}),
            ValueError,
            r"format = '\{k\}' cannot write",
        ),
        (
            lambda: explore(draw, alt="{k}", k={"values": [1, 2], "format": 3}),
            TypeError,
            "format of the parameter k must be a template",
        ),
        (
            lambda: explore(draw, alt="{k}", k={"values": [1, 2], "label": " "}),
            ValueError,
            "label must be the name that readers see of the parameter k, got ' '",
        ),
        (lambda: explore(draw, alt="{k", k=[1, 2]), ValueError, "alt is no template"),
        (lambda: explore(draw, alt="{k}", k=np.eye(2)), TypeError, "k must hold single values"),
        (
            lambda: explore(lambda k: 3, alt="{k}", k=[1, 2]),
            TypeError,
            "must return a matplotlib figure.*int",
        ),
        (lambda: explore(lambda k: draw(k).axes[0], alt="{k}", k=[1]), TypeError, r"ax\.figure.*got Axes"),
    ],
)
def test_bad_input(request, where, call, error, message):
    request.getfixturevalue(where)
    with pytest.raises(error, match=message):
        call()
    assert plt.get_fignums() == []


def test_the_budget_is_the_books():
    assert (explorer.MAX_FRAMES, explorer.MAX_CHARACTERS) == (60, 1_500_000)
