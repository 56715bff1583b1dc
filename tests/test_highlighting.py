"""`highlight`: the words of a text, their attention, and nothing of the text that a page would obey."""

import html.parser
import re

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import tokensel as ts
from tokensel import highlighting
from tokensel.corpus import tokenise
from tokensel.highlighting import highlight

REVIEW = "This film is superb.<br /><br />Never DULL, isn't it? <script>alert('x')</script> & <b>bold</b>"


class Shown(html.parser.HTMLParser):
    """What a page shows of a highlighted text: its paragraphs, and each marked word with its attributes."""

    def __init__(self, shown):
        super().__init__()
        self.paragraphs, self.marks, self.tags, self.in_style = [], [], set(), False
        self.feed(shown._repr_html_())
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.in_style = tag == "style"
        if tag == "p":
            self.paragraphs.append("")
        if tag == "mark":
            self.marks.append(["", dict(attributes)])

    def handle_endtag(self, tag):
        self.in_style = False
        if tag == "mark":
            self.marks[-1].append("closed")

    def handle_data(self, data):
        if not self.in_style:
            self.paragraphs[-1] += data
        if self.marks and len(self.marks[-1]) == 2:
            self.marks[-1][0] += data

    def words(self):
        return [word for word, *_ in self.marks]

    def strengths(self):
        return [float(attributes["style"].removeprefix("--w:")) for _, attributes, _ in self.marks]


def test_words_carry_their_attention():
    shown = Shown(highlight(REVIEW, {"superb": 0.4, "dull": 0.1, "isn't": 0.2, "elsewhere": 0.3}))
    assert shown.words() == ["superb", "DULL", "isn't"]
    assert shown.strengths() == [1, 0.25, 0.5]
    assert [a["title"] for _, a, _ in shown.marks] == ["attention 0.4", "attention 0.1", "attention 0.2"]
    assert shown.paragraphs[-1] == "Most attention: superb 0.4, isn't 0.2, dull 0.1."


def test_a_number_per_word_serves_as_well():
    tokens = tokenise(REVIEW)
    weights = np.linspace(0.1, 1, len(tokens))
    shown = Shown(highlight(REVIEW, weights))
    assert [word.lower() for word in shown.words()] == tokens
    np.testing.assert_allclose(shown.strengths(), weights, atol=0.005)  # two digits
    followed = torch.tensor(weights, requires_grad=True)
    assert highlight(REVIEW, followed)._repr_html_() == highlight(REVIEW, weights)._repr_html_()


def test_sparse_attention_is_told_what_to_do():
    corpus = ts.Corpus.from_texts([REVIEW, "dull film"], labels=[+1, -1])
    model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=4, seed=0)
    attention = model.attention(corpus)
    for sparse in (attention, attention.detach().to_sparse_coo(), corpus.frequencies):
        with pytest.raises(TypeError, match=r"weights must not be sparse.*to_dense\(\)\[row\]\.tolist"):
            highlight(REVIEW, sparse)
    with pytest.raises(TypeError, match="values must not be sparse"):
        highlight(REVIEW, {"dull": 1.0}, values=attention)


def test_nothing_of_the_text_is_obeyed():
    shown = Shown(highlight(REVIEW, {"script": 0.5, "alert": 0.5}, caption="<i>A</i> & B"))
    assert shown.tags == {"div", "style", "p", "mark"}
    caption, text, _ = shown.paragraphs
    assert caption == "<i>A</i> & B"
    assert text == REVIEW.replace("<br />", "\n")


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("aB'<>&\"İΣß \n0_"))
@example("İstanbul ΟΔΟΣ İİ x")
@example("a<BR />b<br />c")
@example("&lt;b&gt; &amp;amp; x")
def test_every_word_is_one_of_the_corpus_and_no_letter_is_lost(text):
    tokens = tokenise(text)
    if not tokens:
        with pytest.raises(ValueError, match="holds no word"):
            highlight(text, {})
        return
    shown = Shown(highlight(text, np.ones(len(tokens))))
    assert len(shown.words()) == len(tokens)
    for word, token in zip(shown.words(), tokens, strict=True):
        # "İ" is shown whole, though its dot is no part of the token; sigma has two small forms.
        assert word.casefold().startswith(token.casefold())
    parsed = re.sub("<br />", "\n", text, flags=re.IGNORECASE).replace("\r\n", "\n").strip()
    assert shown.paragraphs[0].replace("\r\n", "\n") == parsed


def test_signs_are_told_in_words_and_lines_as_well_as_in_colour():
    shown = highlight("good bad the", {"good": 3, "bad": 2, "the": 1}, values={"good": 1, "bad": -0.5})
    page = Shown(shown)
    assert [a["class"] for _, a, _ in page.marks] == ["positive top", "negative top", "irrelevant top"]
    assert page.marks[1][1]["title"] == "attention 2, value -0.5"
    assert page.paragraphs[-1] == "Most attention: good 3 (positive), bad 2 (negative), the 1 (irrelevant)."
    assert "mark.negative.top{text-decoration-style:dashed}" in shown._repr_html_()
    assert repr(shown).splitlines()[0] == "[good] [bad] [the]"


def test_only_the_heaviest_words_are_named():
    weights = {word: weight for weight, word in enumerate("abcdefgh", start=1)}
    shown = Shown(highlight("a b c d e f g h a", weights))
    assert shown.paragraphs[-1] == "Most attention: h 8, g 7, f 6, e 5, d 4."
    assert [word for word, a, _ in shown.marks if "top" in a["class"]] == list("defgh")
    faint = Shown(highlight("a b c", {"a": 1000, "b": 99, "c": 19}))
    assert faint.paragraphs[-1] == "Most attention: a 1e+03."
    assert faint.words() == ["a", "b"]


def test_a_text_without_attention():
    shown = Shown(highlight("a b", {}))
    assert shown.marks == []
    assert shown.paragraphs == ["a b", "No word of this text has attention."]


def test_excerpts_keep_the_heaviest_words_and_their_neighbours():
    words = [f"w{i}" for i in range(100)]
    text = ", ".join(words) + "."
    shown = Shown(highlight(text, {"w30": 1, "w70": 0.5, "w99": 0.3}, excerpt=30))
    first, second = ", ".join(words[24:37]), ", ".join(words[64:77])
    assert shown.paragraphs[0] == f"… {first} … {second} …"
    end = Shown(highlight(text, {"w99": 1}, excerpt=7))
    assert end.paragraphs[0] == "… w96, w97, w98, w99."
    start = Shown(highlight(text, {"w0": 1}, excerpt=1))
    assert start.paragraphs[0] == "w0 …"
    assert Shown(highlight(text, {"w0": 1}, excerpt=100)).paragraphs[0] == text


@given(
    n=st.integers(1, 60),
    excerpt=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
)
def test_excerpts_hold_the_heaviest_word_and_are_no_longer_than_asked(n, excerpt, seed):
    weights = np.random.default_rng(seed).permutation(n) + 1.0
    text = " ".join(f"w{i}" for i in range(n))
    shown = Shown(highlight(text, weights, excerpt=excerpt)).paragraphs[0]
    words = re.findall(r"w\d+", shown)
    assert f"w{np.argmax(weights)}" in words
    assert len(words) <= excerpt


def luminance(rgb):
    rgb = np.array(rgb) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def numbers(value):
    if value.startswith("#"):
        digits = value[1:] if len(value) == 7 else "".join(2 * digit for digit in value[1:])
        return [int(digits[i : i + 2], 16) for i in (0, 2, 4)]
    return [int(number) for number in value.split()]


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("kind", ["positive", "negative", "irrelevant", "plain"])
def test_words_stay_readable_on_every_background(mode, kind):
    blocks = re.findall(r"\{(--ink[^}]*)\}", highlighting._CSS)
    assert len(blocks) == 2
    colours = dict(re.findall(r"--(\w+):([^;}\n]+)", blocks[mode == "dark"]))
    ink, card, hue = (np.array(numbers(colours[name])) for name in ("ink", "card", kind))
    for weight in np.linspace(0, 1, 21):
        background = weight * hue + (1 - weight) * card
        light, dark = sorted([luminance(ink), luminance(background)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2.2, 1.4.3
    # The strongest background is seen beside the card itself: five just noticeable differences of lightness.
    lightness = [116 * np.cbrt(luminance(colour)) - 16 for colour in (card, hue)]
    assert abs(lightness[0] - lightness[1]) >= 5 * 2.3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: highlight(["a"], {}), TypeError, "text must be one review, a string, got list"),
        (lambda: highlight("", {}), ValueError, "text holds no word"),
        (
            lambda: highlight("a b", [1.0]),
            ValueError,
            "weights needs one number for each of the text's 2 words",
        ),
        (
            lambda: highlight("a b", {"a": -0.1}),
            ValueError,
            "weights holds -0.1: attention is never negative",
        ),
        (lambda: highlight("a b", {"b": np.nan}), ValueError, "weights holds .* not finite, at the word 'b'"),
        (lambda: highlight("a b", {}, values=[1, 2, 3]), ValueError, "values needs one number for each"),
        (lambda: highlight("a b", {}, values={"a": np.inf}), ValueError, "values holds .* at the word 'a'"),
        (lambda: highlight("a b", {"a": "x"}), TypeError, "weights must be real numbers"),
        (lambda: highlight("a b", {}, caption=5), TypeError, "caption must be a str, got 5"),
        (lambda: highlight("a b", {}, excerpt=1.5), TypeError, "excerpt must be a whole number, got 1.5"),
        (lambda: highlight("a b", {}, excerpt=0), ValueError, "excerpt must be at least 1, got 0"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
