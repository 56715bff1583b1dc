"""`highlight`: a text with the attention that each of its words receives."""

import re
from bisect import bisect_right
from collections.abc import Mapping
from html import escape
from itertools import accumulate

import numpy as np
import torch

from tokensel.arguments import real_array, whole_number
from tokensel.corpus import TOKEN, tokenise

_TOP = 5  # how many words the line below the text names
_CONTEXT = 6  # words that an excerpt keeps on each side of a heavy one
_FAINTEST = 0.02  # share of the largest weight below which no colour could be seen


def highlight(text, weights, *, values=None, excerpt=None, caption=None):
    """Draw a text with each word's background as strong as its attention.

    Words are split as `Corpus.from_texts` splits them. The words with most attention are also bold and
    underlined, and named with their numbers below the text. Whatever the text holds shows as text.

    Parameters
    ----------
    text : str
        A review.
    weights : dict of str to float, or array_like, shape (T,)
        Attention by token (one that is not in the dict has none), or one number per word of the text, in
        reading order. Non-negative.
    values : dict of str to float, or array_like, shape (T,), optional
        :math:`b_s`, whose sign says to which class the token pulls: colour and underline then tell positive
        (underlined) from negative (dashed).
    excerpt : int, optional
        Show about so many words only, those around the heaviest ones.
    caption : str, optional
        A line above the text, such as where it comes from.

    Returns
    -------
    HighlightedText
        An object that a notebook displays.

    Raises
    ------
    TypeError
        If ``text`` or ``caption`` is not a string, ``excerpt`` not an int, or a weight or value not a number;
        or if ``weights`` or ``values`` is sparse, as what ``model.attention`` returns.
    ValueError
        If the text holds no word, there are more or fewer numbers than words, or a number is not finite or,
        among the weights, negative.

    Examples
    --------
    >>> highlight("A superb film!", {"superb": 0.7, "film": 0.05}, values={"superb": 1.5, "film": -0.2})
    A [superb] film!
    Most attention: superb 0.7 (positive).

    From a model: attention in the text, here the first of the corpus, and values, both by word.

    >>> import tokensel as ts
    >>> texts = ["A great film, great!", "a boring film"]
    >>> corpus = ts.Corpus.from_texts(texts, labels=[+1, -1])
    >>> model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=16, seed=0)
    >>> history = ts.fit(model, corpus, steps=50, learning_rate=0.1)
    >>> weights = dict(zip(corpus.vocabulary, model.attention(corpus).to_dense()[0].tolist()))
    >>> ts.highlight(texts[0], weights, values=dict(zip(corpus.vocabulary, model.values().tolist())))
    A [great] film, [great]!
    Most attention: great 1 (positive).
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be one review, a string, got {type(text).__name__}")
    tokens = tokenise(text)
    if not tokens:
        raise ValueError(f"text holds no word: {text[:60]!r}")
    weights = _per_word("weights", weights, tokens)
    if weights.min() < 0:
        raise ValueError(
            f"weights holds {weights.min():g}: attention is never negative; signs of tokens go into values"
        )
    values = None if values is None else _per_word("values", values, tokens)
    if excerpt is not None:
        excerpt = whole_number("excerpt", excerpt)
    if caption is not None and not isinstance(caption, str):
        raise TypeError(f"caption must be a str, got {caption!r}")
    return HighlightedText(text, tokens, weights, values, excerpt, caption)


class HighlightedText:
    """What `highlight` returns: shows itself as HTML, and as plain text where there is no page."""

    def __init__(self, text, tokens, weights, values, excerpt, caption):
        self._text, self._caption = text, caption
        self._tokens, self._weights, self._values = tokens, weights, values
        self._shown = _excerpt(weights, excerpt)
        heaviest = {}
        for i in np.argsort(-weights, kind="stable"):
            if weights[i] >= max(weights.max() / 10, np.finfo(float).tiny):
                heaviest.setdefault(tokens[i], i)
        self._top = dict(list(heaviest.items())[:_TOP])

    def __repr__(self):
        words = self._assemble(lambda i, word: f"[{word}]" if self._tokens[i] in self._top else word, str)
        return "\n".join(line for line in (self._caption, words, self._key()) if line)

    def _repr_html_(self):
        caption = f'<p class="tokensel-caption">{escape(self._caption)}</p>' if self._caption else ""
        return (
            f'<div class="tokensel-highlight tex2jax_ignore mathjax_ignore"><style>{_CSS}</style>{caption}'
            f'<p class="tokensel-text">{self._assemble(self._mark, escape)}</p>'
            f'<p class="tokensel-key">{escape(self._key())}</p></div>'
        )

    def _assemble(self, show_word, show_between):
        """The shown words and what stands between them; an ellipsis where words are left out."""
        pieces, position, previous = [], 0, -1
        spans = _spans(self._text)
        for i in self._shown:
            start, end = spans[i]
            if i == previous + 1:
                pieces.append(show_between(_breaks(self._text[position:start])))
            else:
                pieces.append(" … " if pieces else "… ")
            pieces.append(show_word(i, self._text[start:end]))
            position, previous = end, i
        is_end = previous == len(spans) - 1
        pieces.append(show_between(_breaks(self._text[position:])) if is_end else " …")
        return "".join(pieces).strip()

    def _mark(self, i, word):
        share = self._weights[i] / self._weights.max() if self._weights.max() > 0 else 0.0
        if share < _FAINTEST:
            return escape(word)
        sign = "plain" if self._values is None else _SIGNS[int(np.sign(self._values[i]))]
        title = f"attention {self._weights[i]:.2g}"
        if self._values is not None:
            title += f", value {self._values[i]:+.2g}"
        classes = f"{sign} top" if self._tokens[i] in self._top else sign
        return f'<mark class="{classes}" style="--w:{share:.2f}" title="{title}">{escape(word)}</mark>'

    def _key(self):
        if not self._top:
            return "No word of this text has attention."
        named = []
        for token, i in self._top.items():
            sign = "" if self._values is None else f" ({_SIGNS[int(np.sign(self._values[i]))]})"
            named.append(f"{token} {self._weights[i]:.2g}{sign}")
        return f"Most attention: {', '.join(named)}."


_SIGNS = {1: "positive", -1: "negative", 0: "irrelevant"}


def _per_word(name, given, tokens):
    if isinstance(given, Mapping):
        given = [given.get(token, 0.0) for token in tokens]
    elif hasattr(given, "tocsr") or getattr(given, "layout", torch.strided) != torch.strided:
        raise TypeError(
            f"{name} must not be sparse, got shape {tuple(given.shape)}: of attention take the text's row "
            "as a dict, dict(zip(corpus.vocabulary, model.attention(corpus).to_dense()[row].tolist()))"
        )
    numbers = real_array(name, given)
    if numbers.shape != (len(tokens),):
        raise ValueError(
            f"{name} needs one number for each of the text's {len(tokens)} words, or a dict by token; "
            f"got shape {numbers.shape}"
        )
    if not np.isfinite(numbers).all():
        word = tokens[int(np.argmin(np.isfinite(numbers)))]
        raise ValueError(f"{name} holds a number that is not finite, at the word {word!r}")
    return numbers


def _spans(text):
    """Where in the text each of its tokens stands."""
    # Blanks of the same length keep the places. Lower case can be longer than the original: "İ" becomes two.
    lowered = text.lower().replace("<br />", " " * len("<br />"))
    starts = list(accumulate((len(character.lower()) for character in text), initial=0))
    return [
        (bisect_right(starts, match.start()) - 1, bisect_right(starts, match.end() - 1))
        for match in TOKEN.finditer(lowered)
    ]


def _breaks(between):
    return re.sub("<br />", "\n", between, flags=re.IGNORECASE)


def _excerpt(weights, n_words):
    """The places of the words to show: windows around the heaviest, up to about ``n_words``."""
    if n_words is None or n_words >= len(weights):
        return list(range(len(weights)))
    reach = min(_CONTEXT, (n_words - 1) // 2)
    shown = set()
    for i in np.argsort(-weights, kind="stable"):
        window = set(range(max(i - reach, 0), min(i + reach + 1, len(weights))))
        if shown and len(shown | window) > n_words:
            break
        shown |= window
    return sorted(shown)


_CSS = """
.tokensel-highlight{--ink:#1f1f1f;--card:#fff;--edge:#c9c9c9;--positive:255 171 125;--negative:158 190 245;
--irrelevant:205 205 205;--plain:250 212 92;background:var(--card);color:var(--ink);
border:1px solid var(--edge);border-radius:.25rem;padding:.75rem 1rem;margin:0 0 1rem;line-height:1.75;
overflow-wrap:anywhere}
.tokensel-highlight p{margin:0;color:inherit}
.tokensel-highlight .tokensel-text{white-space:pre-line}
.tokensel-highlight .tokensel-caption{font-weight:600;margin-bottom:.25rem}
.tokensel-highlight .tokensel-key{margin-top:.5rem;padding-top:.5rem;border-top:1px solid var(--edge);
font-size:.9em;line-height:1.5}
.tokensel-highlight mark{color:inherit;background:rgb(var(--hue)/var(--w));padding:.1em;
margin:0 -.1em;border-radius:.15em}
.tokensel-highlight mark.positive{--hue:var(--positive)}
.tokensel-highlight mark.negative{--hue:var(--negative)}
.tokensel-highlight mark.irrelevant{--hue:var(--irrelevant)}
.tokensel-highlight mark.plain{--hue:var(--plain)}
.tokensel-highlight mark.top{font-weight:700;text-decoration:underline 2px;text-underline-offset:.2em}
.tokensel-highlight mark.negative.top{text-decoration-style:dashed}
html[data-theme=dark] .tokensel-highlight,body[data-jp-theme-light=false] .tokensel-highlight,
html[theme=dark] .tokensel-highlight{--ink:#f0f0f0;--card:#1b1f26;--edge:#555b66;--positive:150 58 14;
--negative:38 82 160;--irrelevant:84 84 84;--plain:112 88 10}
@media print{.tokensel-highlight mark{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
html[data-theme=dark] .bd-content div.cell_output .text_html:has(>.tokensel-highlight):not(.dataframe){
background:none;padding:0}
"""
