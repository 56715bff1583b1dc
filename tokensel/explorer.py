"""`explore`: a figure that the reader moves with sliders, with or without a kernel."""

import base64
import inspect
import io
import itertools
import json
import os
import re
import string
from collections.abc import Iterable, Mapping
from html import escape
from typing import NamedTuple

import numpy as np

from tokensel.plotting import DPI

MAX_FRAMES = 60
MAX_CHARACTERS = 1_500_000  # of base64, which is what a page carries

_SETTINGS = ("values", "label", "initial", "format", "time")


def explore(draw, *, alt=None, **parameters):
    """Show a figure that the reader moves with one slider per parameter.

    With a kernel the sliders are ipywidgets, and each move draws. Where ``TOKENSEL_STATIC=1`` is set, as in
    the book's build, every combination of values is drawn once and the page moves without a kernel.

    Parameters
    ----------
    draw : callable
        ``draw(**values)`` returns a new matplotlib figure; the same values must give the same figure, and all
        figures one size.
    alt : str or callable
        Required: what the figure says in words, for readers who do not see it. A template such as
        ``"margin at {k} tokens"``, or ``alt(**values)``. It must change with the state.
    **parameters : iterable or dict
        The values of each parameter of ``draw``, or a dict of ``values`` and, as needed, ``label`` (its name
        in the page), ``initial`` (the value to start from; else the first), ``format`` (a template such as
        ``"{:.1f} s"`` or a function from a value to text) and ``time`` (True adds a play button).

    Returns
    -------
    ipywidgets.VBox or Frames
        An object that a notebook displays.

    Raises
    ------
    TypeError
        If ``draw`` does not take these parameters or does not return a figure, or if ``alt`` is missing.
    ValueError
        If a parameter has no values, the same one twice, or an initial value that is not among them; if
        ``alt`` names what is no parameter, says nothing or never changes; in a static page also if there are
        more than 60 states or 1.5 MB of frames, or if the figure changes size.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> def draw(power):
    ...     figure = Figure(figsize=(3, 2))
    ...     figure.subplots().plot([0, 1, 2], [0, 1, 2**power])
    ...     return figure
    >>> explorer = explore(draw, alt="A curve that ends at 2 to the power {power}", power=[1, 2, 3])
    """
    if not parameters:
        raise TypeError("explore needs at least one parameter with its values, such as k=range(1, 13)")
    parameters = [_parameter(name, given) for name, given in parameters.items()]
    _check_call("draw", draw, parameters)
    if callable(alt):
        _check_call("alt", alt, parameters)
    describe = _describer(alt, parameters)
    describe(_initial(parameters))
    if os.environ.get("TOKENSEL_STATIC") == "1":
        return _frames(draw, describe, parameters)
    return _widgets(draw, describe, parameters)


def frame(figure):
    """Encode a figure as a frame of a page, and close it.

    The same figure gives the same bytes: no date, no version, a palette chosen without chance.

    Parameters
    ----------
    figure : matplotlib.figure.Figure

    Returns
    -------
    bytes
        A PNG of at most 64 colours at 160 dots per inch.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from PIL import Image

    drawn = io.BytesIO()
    # A figure cropped to its content would change size from state to state.
    with mpl.rc_context({"savefig.bbox": None}):
        figure.savefig(drawn, format="png", dpi=DPI, facecolor="white", pil_kwargs={"compress_level": 1})
    plt.close(figure)
    # Maximum coverage keeps rare colours, such as one small marker; splitting at medians merges them.
    drawing = Image.open(drawn).convert("RGB")
    picture = drawing.quantize(64, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    picture.putpalette(exact_palette(drawing, picture))
    encoded = io.BytesIO()
    picture.save(encoded, format="PNG", optimize=True)
    return encoded.getvalue()


def exact_palette(drawing, picture):
    """The palette of a quantised drawing; a colour of a hundredth of all pixels or more is kept as it is.

    A grey area would else be bluish in one frame and not in the next.
    """
    from PIL import Image

    pixels = drawing.width * drawing.height
    colours = [colour for count, colour in sorted(drawing.getcolors(pixels)) if count >= pixels / 100]
    row = Image.new("RGB", (len(colours), 1))
    row.putdata(colours)
    entries = row.quantize(palette=picture, dither=Image.Dither.NONE).tobytes()
    palette = picture.getpalette()
    for entry, colour in zip(entries, colours, strict=True):  # the most frequent comes last and stays
        palette[3 * entry : 3 * entry + 3] = colour
    return palette


class Frames:
    """All states of an explorer, drawn: what `explore` returns for a page without a kernel.

    Attributes
    ----------
    states : list of dict
        The parameters' values, the last parameter moving fastest.
    frames : list of bytes
        The PNG of each state, as `frame` makes it.
    alts : list of str
        The alt text of each state.
    initial : int
        The state that shows first, and without JavaScript.
    """

    def __init__(self, parameters, states, frames, alts, initial):
        self.states, self.frames, self.alts, self.initial = states, frames, alts, initial
        self._parameters = parameters

    def __repr__(self):
        moves = "; ".join(f"{p.label}: {', '.join(p.texts)}" for p in self._parameters)
        return f"Explorer ({moves}). {self.alts[self.initial]}"

    def _repr_html_(self):
        width, height = _png_size(self.frames[0])
        states = [{name: _json(value) for name, value in state.items()} for state in self.states]
        sources = ["data:image/png;base64," + base64.b64encode(png).decode() for png in self.frames]
        data = {
            "texts": [p.texts for p in self._parameters],
            "states": states,
            "alts": self.alts,
            "sources": [None if i == self.initial else source for i, source in enumerate(sources)],
        }
        rows, shown = [], []
        for p in self._parameters:
            text = escape(p.texts[p.initial])
            shown.append(f"{escape(p.label)} {text}")
            rows.append(
                f'<div class="tokensel-row"><label><span>{escape(p.label)}</span>'
                f'<input type="range" min="0" max="{len(p.texts) - 1}" step="1" value="{p.initial}" hidden '
                f'autocomplete="off" aria-valuetext="{text}" data-name="{escape(p.name)}"></label>'
                # The slider itself says its value; said twice, it would be chatter.
                f'<output aria-live="off">{text}</output>'
                + ('<button type="button" hidden>Play</button>' if p.time else "")
                + "</div>"
            )
        name = max(len(p.label) for p in self._parameters)
        value = max(len(text) for p in self._parameters for text in p.texts)
        labels = ", ".join(p.label for p in self._parameters)
        play = "6rem" if any(p.time for p in self._parameters) else "0"
        return (
            f'<div class="tokensel-explorer tex2jax_ignore mathjax_ignore" role="group" '
            f'aria-label="{escape(labels)}" data-state="{escape(json.dumps(states[self.initial]))}" '
            f'style="--name:{min(name, 24)}ch;--value:{min(value, 16) + 1}ch;--play:{play}">'
            f"<style>{_EXPLORER_CSS}</style>{''.join(rows)}"
            f'<img src="{sources[self.initial]}" alt="{escape(self.alts[self.initial])}" '
            f'width="{width}" height="{height}" decoding="sync">'
            '<p class="tokensel-said" aria-live="polite" aria-atomic="true"></p>'
            f"<noscript><p>This figure's sliders need JavaScript. It shows {', '.join(shown)}.</p></noscript>"
            # "<" never stands in the data, so that no text of theirs can end the element.
            f'<script type="application/json">{json.dumps(data).replace("<", chr(92) + "u003c")}</script>'
            f"<script>{_EXPLORER_JS}</script></div>"
        )


class _Parameter(NamedTuple):
    name: str
    values: list
    texts: list
    label: str
    initial: int
    time: bool


def _parameter(name, given):
    settings = dict(given) if isinstance(given, Mapping) else {"values": given}
    unknown = set(settings) - set(_SETTINGS)
    if unknown or "values" not in settings:
        what = f"has no setting {sorted(unknown)[0]!r}" if unknown else "needs its values"
        raise ValueError(f"the parameter {name} {what}; a dict may hold {', '.join(_SETTINGS)}")
    values = settings["values"]
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} = {values!r} is one value: a slider needs several, such as {name}=[{values!r}, ...]"
        )
    values = list(values)
    if any(getattr(value, "ndim", 0) for value in values):
        raise TypeError(f"the parameter {name} must hold single values, but arrays are among them")
    # NumPy's and torch's scalars become Python's, which templates and JSON can write.
    values = [value.item() if hasattr(value, "item") else value for value in values]
    if not values:
        raise ValueError(f"the parameter {name} has no values: a slider needs at least one")
    for i, value in enumerate(values):
        if value in values[:i]:
            raise ValueError(f"the parameter {name} holds the value {value!r} twice")
    texts = _texts(name, values, settings.get("format", _plain))
    if len(set(texts)) < len(texts):
        twice = next(text for i, text in enumerate(texts) if text in texts[:i])
        raise ValueError(
            f"format writes two values of the parameter {name} alike, as {twice!r}: needs more digits"
        )
    initial = settings.get("initial", values[0])
    if initial not in values:
        raise ValueError(
            f"initial = {initial!r} is not among the values of {name}: {', '.join(map(str, values))}"
        )
    label = settings.get("label", name.replace("_", " "))
    if not isinstance(label, str) or not label.strip():
        raise ValueError(f"label must be the name that readers see of the parameter {name}, got {label!r}")
    return _Parameter(name, values, texts, label, values.index(initial), bool(settings.get("time", False)))


def _texts(name, values, write):
    if not isinstance(write, str) and not callable(write):
        raise TypeError(
            f"format of the parameter {name} must be a template such as '{{:.1f}} s' or a function, "
            f"got {write!r}"
        )
    try:
        return [str(write.format(value) if isinstance(write, str) else write(value)) for value in values]
    except Exception as error:
        if isinstance(write, str):
            raise ValueError(
                f"format = {write!r} cannot write the values of the parameter {name}: {error}"
            ) from error
        error.add_note(f"This was in the format of the parameter {name}.")
        raise


def _plain(value):
    return f"{value:g}".replace("-", "\N{MINUS SIGN}") if isinstance(value, float) else str(value)


def _initial(parameters):
    return {p.name: p.values[p.initial] for p in parameters}


def _check_call(what, function, parameters):
    try:
        inspect.signature(function).bind(**_initial(parameters))
    except TypeError as error:
        names = ", ".join(p.name for p in parameters)
        raise TypeError(
            f"{what} must take the parameters {names} and no other needed ones: {error}"
        ) from error


def _describer(alt, parameters):
    """The function from values to alt text."""
    names = {p.name for p in parameters}
    if isinstance(alt, str):
        try:
            fields = [field for _, field, _, _ in string.Formatter().parse(alt) if field is not None]
        except ValueError as error:
            raise ValueError(
                f"alt is no template ({error}); a brace of the text is written twice: {alt!r}"
            ) from None
        used = {re.split(r"[.\[]", field)[0] for field in fields}
        if not used <= names:
            raise ValueError(
                f"alt uses {{{min(used - names)}}}, but the parameters are {', '.join(sorted(names))}"
            )
        if not used:
            raise ValueError("alt must change with the state: write parameters into it, such as '... at {k}'")
    elif not callable(alt):
        raise TypeError(
            "explore needs alt, the figure in words for readers who do not see it: a template such as "
            f"'... at {{k}}' or a function of the values; got {alt!r}"
        )

    def describe(values):
        text = alt.format(**values) if isinstance(alt, str) else alt(**values)
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"alt must say what the figure shows at {_state(values)}, got {text!r}")
        return text

    return describe


def _state(values):
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _drawn(draw, values):
    """The frame at these values; every figure that drawing opened is closed again."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    before = set(plt.get_fignums())
    try:
        figure = draw(**values)
        if not isinstance(figure, Figure):
            raise TypeError(
                f"draw must return a matplotlib figure, such as ax.figure, got {type(figure).__name__}"
            )
        return frame(figure)
    except Exception as error:
        error.add_note(f"This was while drawing the figure at {_state(values)}.")
        raise
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def _frames(draw, describe, parameters):
    sizes = [len(p.values) for p in parameters]
    total = int(np.prod(sizes))
    if total > MAX_FRAMES:
        raise ValueError(
            f"{' × '.join(map(str, sizes))}{f' = {total}' if len(sizes) > 1 else ''} states, but a page "
            f"holds at most {MAX_FRAMES} of one explorer: give fewer values"
        )
    states = [
        dict(zip([p.name for p in parameters], values, strict=True))
        for values in itertools.product(*(p.values for p in parameters))
    ]
    alts = [describe(values) for values in states]
    if total > 1 and len(set(alts)) == 1:
        raise ValueError(f"alt must change with the state, but always says {alts[0]!r}")
    frames, characters = [], 0
    for values in states:
        frames.append(_drawn(draw, values))
        if _png_size(frames[-1]) != _png_size(frames[0]):
            raise ValueError(
                f"the figure at {_state(values)} differs in size from the first: the page would jump"
            )
        characters += 4 * ((len(frames[-1]) + 2) // 3)
        if characters > MAX_CHARACTERS:
            raise ValueError(
                f"the first {len(frames)} of {total} frames hold {characters / 1e6:.1f} MB, but a page holds "
                f"at most {MAX_CHARACTERS / 1e6:.1f} MB of one explorer: fewer points or fewer values help"
            )
    initial = states.index(_initial(parameters))
    return Frames(parameters, states, frames, alts, initial)


def _json(value):
    """The value where JSON can write it, else its text."""
    exact = isinstance(value, (str, int)) or (isinstance(value, float) and np.isfinite(value))
    return value if exact else str(value)


def _png_size(png):
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def _widgets(draw, describe, parameters):
    import ipywidgets

    sliders, rows = [], []
    for p in parameters:
        slider = ipywidgets.SelectionSlider(
            options=list(zip(p.texts, p.values, strict=True)),
            index=p.initial,
            description=p.label,
            style={"description_width": "initial"},
            layout={"width": "95%", "max_width": "42rem"},
        )
        sliders.append(slider)
        if p.time:
            play = ipywidgets.Play(value=p.initial, min=0, max=len(p.values) - 1, interval=600)
            ipywidgets.jslink((play, "value"), (slider, "index"))
            rows.append(ipywidgets.HBox([slider, play]))
        else:
            rows.append(slider)
    # An HTML widget, because the image widget cannot carry an alt text.
    picture = ipywidgets.HTML()

    def show(_=None):
        values = {p.name: slider.value for p, slider in zip(parameters, sliders, strict=True)}
        try:
            source, text = base64.b64encode(_drawn(draw, values)).decode(), describe(values)
        except Exception as error:
            # Jupyter hides the errors of a slider's callback: say it in the figure's place as well.
            picture.value = f"<pre>{escape(f'{type(error).__name__}: {error}')}</pre>"
            raise
        style = "max-width:100%;height:auto"
        picture.value = f'<img src="data:image/png;base64,{source}" alt="{escape(text)}" style="{style}">'

    show()
    for slider in sliders:
        slider.observe(show, names="value")
    return ipywidgets.VBox([*rows, picture])


_EXPLORER_CSS = """
.tokensel-explorer{position:relative;margin:0 0 1rem}
.tokensel-explorer [hidden]{display:none!important}
.tokensel-row{display:grid;align-items:center;min-height:2.25rem;
grid-template:"name range value play"/var(--name) minmax(6rem,1fr) var(--value) var(--play)}
.tokensel-row label{display:contents}
.tokensel-row span{grid-area:name}
.tokensel-row input{grid-area:range;height:2rem;margin:0 .75rem;accent-color:#1f4b99;cursor:pointer}
.tokensel-row output{grid-area:value;font-weight:600;font-variant-numeric:tabular-nums}
.tokensel-row button{grid-area:play;min-height:2rem;margin-inline-start:.75rem;font:inherit;color:inherit;
background:none;border:1px solid currentColor;border-radius:.25rem;cursor:pointer}
.tokensel-row :is(input,button):focus-visible{outline:3px solid #1f4b99;outline-offset:2px}
.tokensel-said{position:absolute;width:1px;height:1px;margin:0;overflow:hidden;clip-path:inset(50%);
white-space:nowrap}
.tokensel-explorer img{display:block;max-width:100%;height:auto;margin:.25rem 0 0;background:#fff}
@media (max-width:40rem){
.tokensel-row{grid-template:"name value play" "range range range"/minmax(0,1fr) auto var(--play)}
.tokensel-row input{margin:0 0 .25rem}}
.tokensel-explorer:not([data-ready]) .tokensel-row{display:flex;gap:.75rem}
@media print{.tokensel-explorer .tokensel-row{display:flex;gap:.75rem}
.tokensel-row input,.tokensel-row button{display:none!important}}
html[data-theme=dark] .tokensel-row input{accent-color:#8ab4f8}
html[data-theme=dark] .tokensel-row :is(input,button):focus-visible{outline-color:#8ab4f8}
html[data-theme=dark] .bd-content div.cell_output .text_html:has(>.tokensel-explorer):not(.dataframe){
background:none;color:inherit;padding:0}
"""

_EXPLORER_JS = """
for (const root of document.querySelectorAll(".tokensel-explorer:not([data-ready])")) {
  root.dataset.ready = "";
  const {texts, states, alts, sources} = JSON.parse(root.querySelector("script").textContent);
  const said = root.querySelector(".tokensel-said");
  const image = root.querySelector("img"), inputs = [...root.querySelectorAll("input")];
  sources[sources.indexOf(null)] = image.src;
  // Where a page keeps frames as files, their addresses are relative, and those that images tell are not.
  sources.forEach((source, i) => {
    if (!source.startsWith("data:")) sources[i] = new URL(source, document.baseURI).href;
  });
  // A screen reader hears the new description once the sliders rest, not at each step of a movement.
  let rest = null, playing = false;
  const say = () => {
    clearTimeout(rest);
    if (!playing) rest = setTimeout(() => { said.textContent = image.alt; }, 1000);
  };
  const show = () => {
    let state = 0;
    inputs.forEach((input, j) => {
      const text = texts[j][input.value], output = input.closest(".tokensel-row").querySelector("output");
      state = state * texts[j].length + Number(input.value);
      input.setAttribute("aria-valuetext", text);
      if (output.textContent !== text) output.textContent = text;
    });
    if (image.src !== sources[state]) image.src = sources[state];
    image.alt = alts[state];
    root.dataset.state = JSON.stringify(states[state]);
  };
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  for (const input of inputs) {
    const row = input.closest(".tokensel-row"), button = row.querySelector("button");
    let timer = null;
    input.hidden = false;
    input.addEventListener("input", () => { stop(); show(); say(); });
    const stop = () => {
      if (timer !== null) playing = false;
      clearInterval(timer);
      timer = null;
      if (button) button.textContent = still.matches ? "Step" : "Play";
    };
    const step = () => {
      input.value = Number(input.value) === Number(input.max) ? 0 : Number(input.value) + 1;
      show();
      if (Number(input.value) === Number(input.max)) stop();
    };
    if (button) {
      button.hidden = false;
      button.addEventListener("click", () => {
        if (timer !== null) {
          stop();
          return say();
        }
        step();
        say();
        if (still.matches || Number(input.value) === Number(input.max)) return;
        button.textContent = "Pause";
        clearTimeout(rest);
        playing = true;
        timer = setInterval(() => {
          step();
          say();
        }, 600);
      });
      still.addEventListener("change", stop);
    }
    stop();
  }
  show();
}
"""
