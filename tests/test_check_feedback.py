"""The machinery of the checks: odd answers, what feedback shows, and that it never tells the right answer."""

import doctest
import html.parser
import inspect
import math
import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch

import tokensel as ts
from tokensel import check, check_gradients, check_rates, check_sizes, check_tokens
from tokensel.check_feedback import _NEAR, TOLERANCE, Exercise, Feedback, judge

ROOT = Path(__file__).resolve().parents[1]
EXERCISES = {
    name: exercise
    for module in (check_tokens, check_gradients, check_sizes, check_rates)
    for name, exercise in vars(module).items()
    if isinstance(exercise, Exercise)
}
FUNCTIONS = {  # the checks that take a function, and how many arguments it is called with
    "amplification": 3,
    "attention": 2,
    "attention_time": 5,
    "average_signed_frequency": 1,
    "first_push": 2,
    "loss_gap": 2,
    "one_step_values": 2,
    "posterior_difference": 1,
    "score_gradient": 3,
    "squared_norm": 2,
    "trap_boundary": 3,
}
VECTORS = ("max_margin_two_pairs", "two_token_max_margin")


def test_every_check_is_listed_and_documented():
    names = {*FUNCTIONS, *VECTORS, "feasible_subset", "Feedback"}
    assert names == set(check.__all__)
    for name in names - {"Feedback"}:
        assert list(inspect.signature(getattr(check, name)).parameters) == ["answer"]
        assert ">>> " in getattr(check, name).__doc__


def test_checks_are_loaded_when_first_used_and_bring_numpy_only():
    code = (
        "import torch, sys; import tokensel; assert 'tokensel.check' not in sys.modules; tokensel.check; "
        "assert 'tokensel.check' in sys.modules; assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


# --- odd answers


class ShapeOfItsOwn:
    """Something whose shape is none."""

    shape = 5


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.zeros(3), "needs a function, called as answer("),
        (None, "Pass the function itself"),
        (lambda *arguments: None, "Is a return missing?"),
        (lambda *arguments: "four", "holds text"),
        (lambda *arguments: [[1.0], [2.0, 3.0]], "cannot be read as an array"),
        (lambda *arguments: {"a": 1.0}, "not an object of type dict"),
        (lambda *arguments: [None, 1.0], "not an object of type NoneType"),
        (lambda *arguments: (1.0 for _ in range(3)), "not an object of type generator"),
        (lambda *arguments: np.ones(3).sum, "not a function"),
        (lambda *arguments: torch.Tensor, "the class Tensor"),
        (lambda *arguments: ShapeOfItsOwn(), "not an object of type ShapeOfItsOwn"),
        (ShapeOfItsOwn(), "an object of type ShapeOfItsOwn"),
        (lambda *arguments: np.ones(3) * 1j, "complex"),
        (lambda *arguments: np.ones(3) > 0, "True and False"),
        (lambda *arguments: torch.ones(2, 3, 4), "(2, 3, 4) came back"),
        (lambda *arguments: {}["missing key"], "KeyError: 'missing key'"),
        (lambda *arguments: np.ones(2) @ np.ones(3), "ValueError"),
        (lambda: 1.0, "TypeError"),
    ],
)
def test_odd_answers_are_told_in_words(name, answer, words):
    feedback = getattr(check, name)(answer)
    assert not feedback
    assert words in feedback.message
    assert "Traceback" not in feedback.message


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_called_with_the_arguments_they_are_promised(name):
    seen = []
    getattr(check, name)(lambda *arguments: seen.append(arguments))
    assert {len(arguments) for arguments in seen} == {FUNCTIONS[name]}


@pytest.mark.parametrize(
    ("name", "size"), [("average_signed_frequency", 1), ("score_gradient", 3), ("first_push", 2)]
)
@pytest.mark.parametrize(("number", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_numbers_that_are_none_are_told(name, size, number, word):
    feedback = getattr(check, name)(lambda corpus, *rest: np.full(corpus.n_tokens, number))
    assert not feedback
    assert f"your answer holds {word}" in feedback.message


def test_zeros_are_told():
    assert "zero everywhere" in check.first_push(lambda corpus, c: np.zeros(corpus.n_tokens)).message
    assert "zero everywhere" in check.squared_norm(lambda K, M: 0).message


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([1, 2, 3], "shape (3,)"),
        ([[1, 2]], "shape (1, 2)"),
        (1.0, "two numbers"),
        ([np.nan, 1], "NaN"),
        ([np.inf, 1], "infinity"),
        (None, "None"),
        (["a", "b"], "text"),
        ([1j, 1], "complex"),
        ([[1], [1, 2]], "cannot be read"),
        ([None, 1], "not an object of type NoneType"),
        (lambda: [1, 1], "got a function"),
    ],
)
def test_odd_vectors_are_told_in_words(name, answer, words):
    feedback = getattr(check, name)(answer)
    assert not feedback
    assert words in feedback.message


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("vector", [[1e308, 1e308], [1e200, -1e200], [-1e308, 1e308]])
def test_vectors_beyond_all_measure_are_only_wrong(name, vector):
    assert not getattr(check, name)(vector)


def test_where_a_function_raises_is_said():
    def answer(corpus):
        positive, negative = (corpus.labels == 1).sum(), (corpus.labels == -1).sum()
        return [0.0] * corpus.n_tokens if int(negative) else int(positive) // int(negative)

    message = check.average_signed_frequency(answer).message
    assert "ZeroDivisionError" in message
    assert "on a case with one class only" in message


def test_what_stops_a_program_is_not_caught():
    def answer(corpus):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check.average_signed_frequency(answer)


def test_a_long_error_is_cut():
    def answer(corpus):
        raise ValueError("x" * 5000)

    assert len(check.average_signed_frequency(answer).message) < 600


def test_an_error_without_words_is_named():
    def answer(corpus):
        raise NotImplementedError

    assert "raises NotImplementedError (it was" in check.average_signed_frequency(answer).message


def test_an_error_that_cannot_say_what_it_is_is_named():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def answer(corpus):
        raise Mute

    assert "Mute" in check.average_signed_frequency(answer).message


def test_answers_of_other_kinds_are_read():
    signed = {
        "list": lambda corpus: corpus.average_signed_frequency.tolist(),
        "tuple": lambda corpus: tuple(corpus.average_signed_frequency),
        "tensor": lambda corpus: torch.tensor(corpus.average_signed_frequency, requires_grad=True),
        "float32": lambda corpus: corpus.average_signed_frequency.astype(np.float32),
        "partial": partial(lambda zero, corpus: zero + corpus.average_signed_frequency, 0.0),
    }
    for answer in signed.values():
        assert check.average_signed_frequency(answer)
    assert check.attention(  # a sparse tensor
        lambda counts, scores: ts.score_space.attention(ts.Corpus(counts, [1] * len(counts)), scores)
    )
    assert check.squared_norm(lambda K, M: torch.tensor([K * M / (K + M)]))
    assert check.squared_norm(lambda K, M: Fraction(K * M, K + M))
    assert check.squared_norm(lambda K, M: Decimal(K * M) / (K + M))
    assert check.squared_norm(lambda K, M: mpmath.mpf(K * M) / (K + M))
    assert "holds infinity" in check.squared_norm(lambda K, M: 10**400).message


def test_what_is_undefined_may_be_masked_or_stand_among_fractions():
    def masked(corpus):
        there = corpus.counts.toarray() > 0
        return np.ma.divide(corpus.labels @ there, there.sum(axis=0))

    def fractions(corpus):
        there = corpus.counts.toarray() > 0
        sums = zip((corpus.labels @ there).tolist(), there.sum(axis=0).tolist(), strict=True)
        return [Fraction(total, count) if count else math.nan for total, count in sums]

    assert check.posterior_difference(masked)
    assert check.posterior_difference(fractions)


def test_an_answer_may_write_into_its_arguments():
    def answer(counts, scores):
        scores -= scores.max()
        np.exp(scores, out=scores)
        weights = counts * scores
        counts[:] = 0
        return weights / weights.sum(axis=1, keepdims=True)

    first, second = check.attention(answer), check.attention(answer)
    assert first
    assert first.message == second.message


def binarise_in_place(corpus):
    corpus.counts.data = np.minimum(corpus.counts.data, 1)


def flip_in_place(corpus):
    corpus.labels.flags.writeable = True
    corpus.labels[:] = 1


@pytest.mark.parametrize("change", [binarise_in_place, flip_in_place])
def test_a_hidden_corpus_survives_what_an_answer_does_to_it(change):
    """Else a wrong answer would change what is right, for itself and for all that come after it."""

    def answer(corpus):
        change(corpus)
        return (corpus.labels[:, None] * corpus.frequencies.toarray()).mean(axis=0)

    assert not check.average_signed_frequency(answer)
    assert check.average_signed_frequency(lambda corpus: corpus.average_signed_frequency)


def test_warnings_of_numpy_stay_inside():
    """Warnings are errors in this suite: a 0/0 in the answer, on a corpus nobody sees, must not be one."""
    feedback = check.posterior_difference(
        lambda corpus: corpus.labels @ (corpus.counts.toarray() > 0) / corpus.document_frequency
    )
    assert feedback


# --- what is shown


class Shown(html.parser.HTMLParser):
    def __init__(self, feedback):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(feedback._repr_html_())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def test_feedback_shows_its_message_and_is_true_or_false():
    right, wrong = Feedback(True, "Well."), Feedback(False, "Think again.")
    assert right
    assert not wrong
    assert right.right is True
    assert (repr(right), repr(wrong)) == ("Right. Well.", "Not yet. Think again.")
    assert Shown(wrong).text == repr(wrong)


def test_what_the_readers_code_says_is_shown_as_text():
    def answer(corpus):
        raise ValueError("<script>alert('x')</script> & $x$")

    feedback = check.average_signed_frequency(answer)
    assert "<script>alert('x')</script> & $x$" in repr(feedback)
    assert Shown(feedback).tags == ["p", "strong"]
    assert "<script>alert('x')</script> & $x$" in Shown(feedback).text
    assert "mathjax_ignore" in feedback._repr_html_()


def test_examples_on_the_package_page_run():
    page = ROOT / "book" / "reference" / "api.rst"
    result = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


# --- slips are told apart, and the right answer is never told


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_each_slip_gets_its_own_message(exercise):
    for slip in exercise.slips:
        feedback = judge(exercise, slip.wrong)
        assert not feedback
        assert feedback.message.startswith(slip.message)


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_slips_are_far_from_right(exercise):
    """On some case by a hundred times what rounding may do: an answer that passes is no slip."""
    cases = exercise.cases()
    for slip in exercise.slips:
        with np.errstate(all="ignore"):
            apart = []
            for case in cases:
                right = np.asarray(exercise.right(*case.arguments), dtype=float)
                wrong = np.asarray(slip.wrong(*case.arguments), dtype=float)
                off = np.abs(wrong - right) / np.nanmax(np.abs(right))
                apart.append(np.max(np.where(np.isfinite(wrong) & np.isfinite(right), off, 0)))
                if np.any(np.isfinite(wrong) != np.isfinite(right)):
                    apart.append(np.inf)
        assert max(apart) > 100 * exercise.tolerance, slip.message


def test_rounding_stays_within_the_tolerance():
    """The argument for the tolerance: how many roundings, of terms how much larger than the result."""
    for case in check_gradients.with_scores():
        corpus, scores, values = case.arguments
        counts = corpus.counts.toarray()
        shares = counts / corpus.lengths[:, None]
        weights = counts * np.exp(scores - scores.max())
        attention = weights / weights.sum(axis=1, keepdims=True)
        logits = attention @ values
        residuals = 1 / (1 + np.exp(corpus.labels * logits))
        advantages = np.abs(values) + (attention @ np.abs(values))[:, None]
        alpha = corpus.average_signed_frequency
        push = -ts.score_space.gradients(corpus, scores, values).scores.numpy()
        first = alpha**2 - shares.T @ (corpus.labels * (shares @ alpha)) / len(corpus)
        sums = [
            (corpus.average_frequency, alpha),
            (residuals @ (attention * advantages) / len(corpus), push),
            (alpha**2 + shares.T @ (shares @ np.abs(alpha)) / len(corpus), first),
        ]
        # Sums over tokens, then over sequences, and a dozen products, quotients and exponentials.
        assert corpus.n_tokens + corpus.n_sequences + 12 <= 40
        for absolute, result in sums:
            assert absolute.max() <= 40 * np.abs(result).max(), case.where
    assert 40 * 40 * 2.0**-24 <= TOLERANCE < _NEAR


@pytest.mark.parametrize(
    "name", ["_ATTENTION", "_SIGNED_FREQUENCY", "_POSTERIOR", "_SCORE_GRADIENT", "_FIRST_PUSH"]
)
def test_right_answers_in_float32_pass(name):
    """What they are called with is rounded to float32, and so is every result on the way out."""
    exercise = EXERCISES[name]

    def rounded(argument):
        return argument.astype(np.float32) if isinstance(argument, np.ndarray) else argument

    assert judge(exercise, lambda *arguments: np.float32(exercise.right(*map(rounded, arguments))))


def words_of(exercise):
    """All that a check can say of itself."""
    yield from (slip.message for slip in exercise.slips)
    yield from (law.message for law in exercise.laws)
    yield from (exercise.sign, exercise.factor, exercise.hint)
    yield from (case.where for case in exercise.cases())


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_no_message_holds_a_number_or_a_formula(exercise):
    for message in words_of(exercise):
        assert not re.search(r"[\d½¼=*/^+√∑]|\bhalf\b|\bhalve|\bquarter\b|\bdouble\b", message), message


@pytest.mark.parametrize("name", VECTORS)
def test_no_message_holds_a_coordinate(name):
    """On a grid that holds the right vector and all its likely mistakes."""
    numbers = np.arange(-8, 9) / 4
    said = [getattr(check, name)([x, y]) for x in numbers for y in numbers]
    assert sum(map(bool, said)) == 1
    for feedback in said:
        assert not re.search(r"\d|½|¼|\bhalf\b|\bquarter\b", feedback.message)


def test_no_message_names_a_row():
    for size in range(16):
        rows = [row for row in range(4) if size >> row & 1]
        message = check.feasible_subset(rows).message
        assert not re.search(r"\d|first|second|third|last", message)


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_feedback_keeps_nothing_of_the_right_answer(exercise):
    feedback = judge(exercise, exercise.slips[0].wrong) if exercise.slips else judge(exercise, None)
    assert set(vars(feedback)) == {"right", "message"}
