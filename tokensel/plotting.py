"""The figures of the book: arrays and an axes in, the same axes out.

Every function draws what theory predicts first, dashed and nearly black, and what was measured on top, so
that a figure can disagree with its prediction. One palette serves the whole book. Its colours stay apart for
colour-blind readers and in grey, and each goes with a marker, a line style or a hatch: never colour alone.

Importing this module changes nothing; :func:`use_style` does, once, at the top of a chapter.
"""

from collections.abc import Mapping

import numpy as np

from tokensel.arguments import real_array, real_number, whole_number

# Lightness (CIE L*) falls by at least 12 from each to the next, which is what is left in grey.
# Each has a contrast of at least 3:1 with white, the least that WCAG 2.2 asks of graphics.
COLOURS = {
    "positive": "#c5460a",
    "negative": "#1f4b99",
    "irrelevant": "#919191",
    "prediction": "#151515",
}
# The triangles point the way the token pulls the logit.
MARKERS = {"positive": "^", "negative": "v", "irrelevant": "o"}
HATCHES = {"positive": "", "negative": "///", "irrelevant": ""}
_DASHES = {"negative": "-", "positive": "--", "irrelevant": "-.", "prediction": ":"}

FIGURE_SIZE = (7.0, 4.0)  # inches
DPI = 160


def use_style():
    """Set the book's one matplotlib style: sizes that read on a phone, fonts that come with matplotlib.

    The only function of the package that changes matplotlib's global settings (``matplotlib.rcParams``).

    Examples
    --------
    >>> import matplotlib
    >>> from tokensel import plotting
    >>> with matplotlib.rc_context():
    ...     plotting.use_style()
    ...     print(matplotlib.rcParams["figure.figsize"], matplotlib.rcParams["figure.dpi"])
    [7.0, 4.0] 160.0
    """
    import matplotlib as mpl

    ink = "#262626"
    mpl.rc("figure", figsize=FIGURE_SIZE, dpi=DPI, facecolor="white")
    mpl.rc("figure.constrained_layout", use=True)
    mpl.rc("savefig", dpi=DPI, facecolor="white")
    mpl.rc("font", family=["DejaVu Sans"], size=14)
    mpl.rc("mathtext", fontset="dejavusans")
    mpl.rc("text", color=ink)
    mpl.rc("axes", labelsize=14, titlesize=14, titlelocation="left", labelcolor=ink, edgecolor=ink)
    mpl.rc("axes", linewidth=0.8, axisbelow=True, grid=False, prop_cycle=_cycle())
    mpl.rc("axes.spines", top=False, right=False)
    mpl.rc("xtick", labelsize=13, color=ink)
    mpl.rc("ytick", labelsize=13, color=ink)
    mpl.rc("legend", fontsize=13, frameon=False, handlelength=1.6)
    mpl.rc("grid", color="#d9d9d9", linewidth=0.7)
    mpl.rc("lines", linewidth=2.0, markersize=7)
    mpl.rc("hatch", linewidth=0.8)


def prediction_and_measurement(
    predicted,
    measured,
    *,
    ax,
    band=None,
    kind=None,
    label="measured",
    names=("prediction", "measurement"),
):
    r"""Draw the measured numbers against the predicted ones, over the line where they agree.

    Parameters
    ----------
    predicted, measured : array_like, shape (k,)
        What theory says and what was seen.
    ax : matplotlib.axes.Axes
    band : float or array_like, shape (k,), optional
        Half-width of the band :math:`|\text{measured}-\text{predicted}|\le\text{band}` that theory allows.
    kind : {"positive", "negative", "irrelevant"}, optional
        Colour and marker of the points; round and dark blue without it.
    label : str
        Name of the points in the legend.
    names : tuple of str
        Axis labels, with their symbols.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    ValueError
        If the two arrays differ in length, are empty or hold a number that is not finite, if the band does
        not fit them or is negative, or if there is no such kind.

    Examples
    --------
    >>> import matplotlib.figure
    >>> ax = matplotlib.figure.Figure().subplots()
    >>> ax = prediction_and_measurement([0.1, 0.2], [0.11, 0.19], ax=ax, band=0.05)
    """
    predicted, measured = _columns(predicted=predicted, measured=measured)
    ends = np.array([predicted.min(), predicted.max()])
    ax.plot(ends, ends, color=COLOURS["prediction"], linestyle="--", linewidth=1.6, label="prediction")
    if band is not None:
        order = np.argsort(predicted)
        half = real_array("band", band)
        if half.shape not in ((), predicted.shape) or not np.all((half >= 0) & (half < np.inf)):
            raise ValueError(
                f"band must be one finite number or {len(predicted)}, none of them negative; got {band}"
            )
        half, line = np.broadcast_to(half, predicted.shape)[order], predicted[order]
        ax.fill_between(
            line,
            line - half,
            line + half,
            color=COLOURS["prediction"],
            alpha=0.12,
            linewidth=0,
            label="bound",
        )
    _points(ax, predicted, measured, kind, label)
    return _finish(ax, *names)


def power_law(
    sizes,
    measured,
    *,
    exponent,
    ax,
    constant=None,
    kind=None,
    label="measured",
    names=("size", "error"),
):
    r"""Draw measurements in log-log axes over the predicted law :math:`y = c\,x^{\text{exponent}}`.

    Parameters
    ----------
    sizes : array_like, shape (k,)
        Positive sizes :math:`x`, such as the dimension :math:`d`.
    measured : array_like, shape (k,) or (k, repeats)
        Positive numbers measured at each size; of several repeats each is drawn, and their median larger.
    exponent : float
        The predicted slope. Drawn first.
    ax : matplotlib.axes.Axes
    constant : float, optional
        The predicted :math:`c`. Without it the law passes through the median at the smallest size: then
        only the slope is a prediction, and the legend says so.
    kind, label, names
        As in :func:`prediction_and_measurement`.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    ValueError
        If a number is not positive or finite, or the shapes do not match.

    Examples
    --------
    >>> import matplotlib.figure
    >>> ax = matplotlib.figure.Figure().subplots()
    >>> ax = power_law([64, 256, 1024], [0.11, 0.07, 0.035], exponent=-0.5, ax=ax)
    """
    repeats = real_array("measured", measured)
    if repeats.ndim not in (1, 2) or repeats.size == 0:
        raise ValueError(f"measured must have shape (k,) or (k, repeats), got shape {repeats.shape}")
    repeats = repeats.reshape(len(repeats), -1)
    sizes, medians = _columns(sizes=sizes, measured=np.median(repeats, axis=1))
    exponent = real_number("exponent", exponent)
    constant = None if constant is None else real_number("constant", constant)
    if sizes.min() <= 0 or repeats.min() <= 0 or (constant is not None and constant <= 0):
        raise ValueError(
            "a power law needs positive sizes, positive measurements and a positive constant: "
            "its axes are logarithmic"
        )
    if not np.isfinite(repeats).all():
        raise ValueError("measured must be finite")
    order = np.argsort(sizes)
    sizes, medians, repeats = sizes[order], medians[order], repeats[order]
    law = f"prediction: slope {exponent:g}".replace("-", "\N{MINUS SIGN}")
    if constant is None:
        constant, law = medians[0] / sizes[0] ** exponent, law + " (height fitted)"
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.plot(
        sizes,
        constant * sizes**exponent,
        color=COLOURS["prediction"],
        linestyle="--",
        linewidth=1.6,
        label=law,
    )
    if repeats.shape[1] > 1:
        every = np.repeat(sizes, repeats.shape[1])
        ax.plot(every, repeats.ravel(), ".", color=_colour(kind), alpha=0.35, markersize=4, zorder=2)
        label = f"{label} (median of {repeats.shape[1]})"
    _points(ax, sizes, medians, kind, label)
    return _finish(ax, *names)


def u_shape(posterior_difference, scores, *, ax, predicted=None, groups=10, points=True, name="score $a_s$"):
    r"""Draw the mean score of equally large groups of tokens against their :math:`\Delta_s`.

    Parameters
    ----------
    posterior_difference : array_like, shape (S,)
        :math:`\Delta_s`; tokens without one (NaN: they stand in no sequence) are left out.
    scores : array_like, shape (S,)
        :math:`a_s`, or any other number per token.
    ax : matplotlib.axes.Axes
    predicted : callable or array_like, shape (S,), optional
        What theory says, drawn first: a function of :math:`\Delta` gives a curve; one number per token
        gives the line through its means over the same groups.
    groups : int
        How many groups of equally many tokens; ten are deciles.
    points : bool
        Also draw each token, faintly.
    name : str
        Label of the vertical axis.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    ValueError
        If the lengths differ, a score is not finite, or there are fewer tokens than groups.

    Examples
    --------
    >>> import matplotlib.figure, numpy
    >>> ax = matplotlib.figure.Figure().subplots()
    >>> difference = numpy.linspace(-1, 1, 50)
    >>> ax = u_shape(difference, difference**2, predicted=lambda x: x**2, ax=ax)
    """
    difference = real_array("posterior_difference", posterior_difference)
    scores = real_array("scores", scores)
    if difference.ndim != 1 or difference.shape != scores.shape:
        raise ValueError(
            f"posterior_difference and scores need one number per token each, "
            f"got shapes {difference.shape} and {scores.shape}"
        )
    known = ~np.isnan(difference)
    difference, scores = _columns(posterior_difference=difference[known], scores=scores[known])
    groups = whole_number("groups", groups)
    if groups > len(scores):
        raise ValueError(f"groups = {groups}: needs to be between 1 and the number of tokens, {len(scores)}")
    order = np.argsort(difference, kind="stable")
    parts = np.array_split(order, groups)
    centres = np.array([difference[part].mean() for part in parts])
    if predicted is not None:
        if callable(predicted):
            x = np.linspace(difference.min(), difference.max(), 201)
            x, y = _columns(difference=x, predicted=predicted(x))
        else:
            per_token = real_array("predicted", predicted)
            if per_token.shape != known.shape:
                raise ValueError(
                    f"predicted needs one number per token, shape {known.shape}, got shape {per_token.shape}"
                )
            x, y = centres, np.array([per_token[known][part].mean() for part in parts])
        ax.plot(x, y, color=COLOURS["prediction"], linestyle="--", linewidth=1.6, label="prediction")
    if points:
        ax.plot(
            difference,
            scores,
            ".",
            color=COLOURS["irrelevant"],
            alpha=0.25,
            markersize=3,
            zorder=1,
        )
        # The legend shows a point as it cannot be drawn thousands of times: large and opaque.
        ax.plot([], [], ".", color=COLOURS["irrelevant"], markersize=6, label="one token")
    means = np.array([scores[part].mean() for part in parts])
    joined = {"color": "#555555", "linestyle": "-", "linewidth": 1}
    ax.plot(centres, means, zorder=3, **joined)
    for kind, chosen in (
        ("negative", centres < 0),
        ("irrelevant", centres == 0),
        ("positive", centres > 0),
    ):
        if chosen.any():
            line = _points(ax, centres[chosen], means[chosen], kind, f"mean, {kind} tokens")
            # On the line that joins the means, so that the legend shows them on it.
            line.set(markerfacecolor=_colour(kind), **joined)
    ax.locator_params(axis="x", nbins=5)
    return _finish(ax, r"posterior difference $\Delta_s$", name)


def training_curves(curves, *, ax, steps=None, references=None, peak=None, names=("step", "accuracy")):
    """Draw measurements over the steps of training, with reference lines.

    Parameters
    ----------
    curves : dict of str to array_like, shape (k,)
        One line each, named by its key; they differ in colour and in line style. Where a curve holds NaN it
        was not measured, as ``History.validation_accuracy`` inside an epoch: the line passes on to the next.
    ax : matplotlib.axes.Axes
    steps : array_like, shape (k,), optional
        Horizontal positions; 0, 1, ... without it.
    references : dict of str to float, optional
        Horizontal lines, drawn first, such as the accuracy of another classifier; each carries its name.
    peak : str, optional
        The curve whose highest point is marked, and told in the legend.
    names : tuple of str
        Axis labels.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    TypeError
        If ``curves`` is no dict.
    ValueError
        If a curve and ``steps`` differ in length, there are more than four curves, or ``peak`` names none.

    Examples
    --------
    >>> import matplotlib.figure
    >>> ax = matplotlib.figure.Figure().subplots()
    >>> ax = training_curves({"training": [0.5, 0.8, 0.9]}, references={"chance": 0.5}, ax=ax)
    """
    if not isinstance(curves, Mapping):
        raise TypeError(f"curves must be a dict from names to arrays, got {type(curves).__name__}")
    if not 1 <= len(curves) <= 4:
        raise ValueError(f"curves holds {len(curves)} lines: needs one to four, or they cannot be told apart")
    if peak is not None and peak not in curves:
        raise ValueError(f"peak = {peak!r} names no curve; the curves are {', '.join(map(repr, curves))}")
    for name, height in (references or {}).items():
        ax.axhline(height, color=COLOURS["prediction"], linestyle=":", linewidth=1.4)
        ax.annotate(
            name,
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize="small",
            parse_math=False,
        )
    for (name, heights), (kind, dashes) in zip(curves.items(), _DASHES.items(), strict=False):
        heights = real_array(str(name), heights)
        where = real_array("steps", np.arange(heights.size) if steps is None else steps)
        if where.shape != heights.shape:
            raise ValueError(
                f"{name} has shape {heights.shape} but steps has shape {where.shape}: needs as many"
            )
        measured = ~np.isnan(heights)
        (heights,) = _columns(**{str(name): heights[measured]})
        (where,) = _columns(steps=where[measured])
        top = int(np.argmax(heights))
        label = f"{name}: highest {heights[top]:.3f} at {where[top]:g}" if name == peak else name
        ax.plot(where, heights, color=COLOURS[kind], linestyle=dashes, label=label)
        if name == peak:
            ax.plot(where[top], heights[top], "o", color=COLOURS[kind], markeredgecolor="white", zorder=4)
    return _finish(ax, *names)


def band(x, runs, ax, *, kind=None, label="mean", names=(None, None), count=True):
    r"""Draw the mean of several runs as a line, and a band from the lowest run to the highest at each place.

    Parameters
    ----------
    x : array_like, shape (k,)
        Horizontal positions, in the order in which the line joins them.
    runs : array_like, shape (repeats, k)
        One row a run, for instance one seed each.
    ax : matplotlib.axes.Axes
    kind : {"positive", "negative", "irrelevant"}, optional
        Colour, line style and marker; those of "negative", with a round marker, without it.
    label : str
        Name of the line in the legend.
    names : tuple of str
        Axis labels.
    count : bool, default True
        Whether the legend adds how many runs there are.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    ValueError
        If a run has not one finite number per place, or there is no such kind.

    Examples
    --------
    >>> import matplotlib.figure
    >>> ax = matplotlib.figure.Figure().subplots()
    >>> ax = band([-1, 0, 1], [[2, 0, 3], [3, 1, 3]], label="score", ax=ax)
    >>> ax.get_legend().get_texts()[0].get_text()
    'score (2 runs)'
    """
    runs = real_array("runs", runs)
    if runs.ndim != 2 or runs.size == 0:
        raise ValueError(f"runs must have shape (repeats, places), one row a run; got shape {runs.shape}")
    if not np.isfinite(runs).all():
        raise ValueError(f"runs holds {int((~np.isfinite(runs)).sum())} numbers that are not finite")
    x, mean = _columns(x=x, runs=runs.mean(axis=0))
    colour = _colour(kind)
    ax.fill_between(x, runs.min(axis=0), runs.max(axis=0), color=colour, alpha=0.25, linewidth=0, zorder=2)
    added = f" ({len(runs)} run{'s' if len(runs) > 1 else ''})" if count else ""
    line = _points(ax, x, mean, kind, label + added)
    line.set(linestyle=_DASHES[kind or "negative"], linewidth=1.6)
    return _finish(ax, *names)


def top_tokens(tokens, scores, *, ax, values=None, name="score $a_s$"):
    """Draw one horizontal bar per token, the first on top; colour and hatch tell the sign of its value.

    Parameters
    ----------
    tokens : sequence of str, length k
        In the order wanted.
    scores : array_like, shape (k,)
        Lengths of the bars.
    ax : matplotlib.axes.Axes
    values : array_like, shape (k,), optional
        :math:`b_s`, whose sign says to which class the token pulls. Without it all bars are grey.
    name : str
        Label of the horizontal axis.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    ValueError
        If the lengths differ or a number is not finite.

    Examples
    --------
    >>> import matplotlib.figure
    >>> ax = matplotlib.figure.Figure().subplots()
    >>> ax = top_tokens(["superb", "dreck"], [2.5, 2.1], values=[1.2, -1.4], ax=ax)
    """
    heights = np.arange(len(tokens))
    _bars(ax, ax.barh, heights, tokens, values, scores=scores)
    ax.set_yticks(heights, labels=[str(token) for token in tokens], parse_math=False)
    ax.set_ylim(len(tokens) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    return _finish(ax, name, None)


def attention_bars(tokens, attention, *, ax, values=None, name="attention $q_s$"):
    """Draw the attention on each token of one sequence, in reading order.

    Parameters
    ----------
    tokens : sequence of str, length T
        The sequence; a token that repeats has a bar at each place.
    attention : array_like, shape (T,)
        Attention on each place; non-negative.
    ax : matplotlib.axes.Axes
    values : array_like, shape (T,), optional
        :math:`b_s` of each place, for colour and hatch.
    name : str
        Label of the vertical axis.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    ValueError
        If the lengths differ, a number is not finite or an attention is negative.

    Examples
    --------
    >>> import matplotlib.figure
    >>> ax = matplotlib.figure.Figure().subplots()
    >>> ax = attention_bars(["a", "great", "film"], [0.1, 0.7, 0.2], values=[0.0, 1.3, 0.1], ax=ax)
    """
    if np.any(real_array("attention", attention) < 0):
        raise ValueError("attention holds a negative number: it is a share of one, so it is never below 0")
    places = np.arange(len(tokens))
    _bars(ax, ax.bar, places, tokens, values, attention=attention)
    ax.set_xticks(
        places,
        labels=[str(token) for token in tokens],
        rotation=45,
        ha="right",
        rotation_mode="anchor",
        parse_math=False,
    )
    ax.tick_params(axis="x", length=0)
    return _finish(ax, None, name)


def _cycle():
    from cycler import cycler

    return cycler(color=[COLOURS[kind] for kind in _DASHES], linestyle=list(_DASHES.values()))


def _bars(ax, draw, places, tokens, values, **lengths):
    values = np.zeros(len(tokens)) if values is None else values
    (lengths,) = _columns(**lengths)
    if len(tokens) != len(lengths):
        raise ValueError(f"{len(tokens)} tokens but {len(lengths)} numbers: needs one number per token")
    lengths, values = _columns(tokens=lengths, values=values)
    for kind, chosen in (("positive", values > 0), ("negative", values < 0), ("irrelevant", values == 0)):
        if chosen.any():
            draw(
                places[chosen],
                lengths[chosen],
                0.78,
                color=COLOURS[kind],
                hatch=HATCHES[kind],
                edgecolor="white",
                linewidth=0,
                label=("zero" if kind == "irrelevant" else kind) + " value" if values.any() else None,
            )


def _columns(**arrays):
    """The arguments as float arrays of one common length; says which one does not fit."""
    checked = {name: real_array(name, array) for name, array in arrays.items()}
    first, *_ = checked
    for name, array in checked.items():
        if array.ndim != 1 or len(array) == 0:
            raise ValueError(f"{name} needs one dimension and at least one number, got shape {array.shape}")
        if len(array) != len(checked[first]):
            raise ValueError(
                f"{name} holds {len(array)} numbers but {first} holds {len(checked[first])}: needs as many"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds {int((~np.isfinite(array)).sum())} numbers that are not finite")
    return list(checked.values())


def _colour(kind):
    if kind is not None and kind not in MARKERS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, MARKERS))}, got {kind!r}")
    return COLOURS[kind or "negative"]


def _points(ax, x, y, kind, label):
    marker, colour = MARKERS.get(kind, "o"), _colour(kind)
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.5}
    return ax.plot(x, y, marker, color=colour, zorder=4, label=label, **edge)[0]


def _finish(ax, x_name, y_name):
    if x_name is not None:
        ax.set_xlabel(x_name)
    if y_name is not None:
        ax.set_ylabel(y_name)
    labels = ax.get_legend_handles_labels()[1]
    if labels:
        # Above the axes, where it hides nothing and stays in place while an explorer moves; about 62 letters
        # and handles fit side by side.
        columns = max(1, min(len(labels), 62 // (max(map(len, labels)) + 6)))
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, borderpad=0, ncols=columns)
    return ax
