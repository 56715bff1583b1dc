"""How an answer is judged: run on hidden cases, compared with the right answer and the usual wrong ones."""

import copy
import html
import math
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokensel.arguments import as_array

# Room for rounding, relative to the largest number of the right answer. A number of a hidden case takes at
# most forty roundings one after another, of terms whose absolute values add up to at most forty times that
# largest number: an answer in float32 is off by at most 40 * 40 * 2^-24, just below this.
TOLERANCE = 1e-4
_NEAR = 0.03  # an answer as close as this everywhere is probably an approximation of the right one
EVERYTHING = "all of this at once"  # what a case with every difficulty is called
_LONGEST = 300  # characters of a reader's own error message that are shown


class Feedback:
    """What a check says of an answer. True if the answer is right; shows itself as a sentence or two.

    Attributes
    ----------
    right : bool
        Whether the answer is right; also the truth value of the feedback.
    message : str
        What is right or wrong about it.

    Examples
    --------
    >>> from tokensel import check
    >>> feedback = check.squared_norm(lambda K, M: K + M)
    >>> bool(feedback), feedback.right
    (False, False)
    """

    def __init__(self, right, message):
        self.right, self.message = bool(right), message

    def __bool__(self):
        return self.right

    def __repr__(self):
        return f"{self._verdict()} {self.message}".rstrip()

    def _repr_html_(self):
        # The message can hold what the reader's own function said: shown as text, not as mark-up or formulas.
        style = f"border-left: 4px {'solid' if self.right else 'dashed'} currentColor; padding-left: 0.7em"
        return (
            f'<p class="tokensel-check tex2jax_ignore mathjax_ignore" style="{style}">'
            f"<strong>{self._verdict()}</strong> {html.escape(self.message)}</p>"
        )

    def _verdict(self):
        return "Right." if self.right else "Not yet."


class Case(NamedTuple):
    """A hidden case: what is special about it, in words, and what the answer is called with."""

    where: str
    arguments: tuple


class Slip(NamedTuple):
    """A usual wrong answer, and what to say to it without telling the right one."""

    wrong: Callable
    message: str


class Law(NamedTuple):
    """What every right answer satisfies: ``holds(output, *arguments)``, and what to say where it does not."""

    holds: Callable
    message: str


@dataclass(frozen=True)
class Exercise:
    """What is asked: a function, called as ``call``, that gives what ``right`` gives on all ``cases()``."""

    call: str
    right: Callable
    cases: Callable
    slips: tuple
    hint: str
    shape: Callable = lambda *arguments: ()
    gives: str = "one number"
    laws: tuple = ()
    sign: str = "The size of your numbers is right everywhere, their sign is not."
    factor: str = "Right up to one constant factor, the same everywhere. Where does it come from?"
    tolerance: float = TOLERANCE


class Unusable(Exception):
    """The reader's answer cannot be compared; says why."""


def judge(exercise, answer):
    """Return the feedback on a function that should do what the exercise asks."""
    if not callable(answer):
        return Feedback(
            False,
            f"This check needs a function, called as {exercise.call}, and got {kind(answer)}. "
            "Pass the function itself, without calling it.",
        )
    try:
        cases = exercise.cases()
        outputs = [_run(exercise, answer, case) for case in cases]
    except Unusable as unusable:
        return Feedback(False, str(unusable))
    with np.errstate(all="ignore"):
        return _compare(exercise, cases, outputs)


def numbers(name, entries, kinds="iuf"):
    """Return what the reader gave as an array of one of these kinds, or say what it is instead of numbers."""
    if entries is None:
        raise Unusable(f"{name} is None. Is a return missing?")
    for densify in ("to_dense", "toarray"):
        if hasattr(entries, densify) and not isinstance(entries, type):
            entries = getattr(entries, densify)()
    if isinstance(entries, np.ma.MaskedArray) and entries.dtype.kind in "iuf":
        entries = entries.astype(np.float64).filled(np.nan)
    try:
        array = as_array(name, entries)
    except ValueError:
        raise Unusable(f"{name} cannot be read as an array of numbers: it is {kind(entries)}.") from None
    if array.dtype == object:
        array = _from_objects(name, array)
    if array.dtype.kind not in kinds:
        raise Unusable(
            f"{name} must hold real numbers, and holds {_KINDS.get(array.dtype.kind, array.dtype)}."
        )
    return array


_KINDS = {"b": "True and False", "c": "complex numbers", "U": "text", "S": "text"}


def _from_objects(name, objects):
    """Numbers of kinds that NumPy does not know (fractions, decimals, those of mpmath) as floats."""
    array = np.empty(objects.shape)
    for place, entry in np.ndenumerate(objects):
        try:
            array[place] = float(entry)
        except OverflowError:  # an int or a fraction that no float can hold
            array[place] = math.inf
        except (TypeError, ValueError):
            raise Unusable(f"{name} must hold real numbers, not {kind(entry)}.") from None
    return array


def kind(thing):
    """What something is, in a reader's words."""
    name = type(thing).__name__
    shape = getattr(thing, "shape", None)
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    if callable(thing):
        return "a function"
    return f"an object of type {name}" + (f" and shape {tuple(shape)}" if isinstance(shape, tuple) else "")


def _run(exercise, answer, case):
    """What the reader's function gives on one case, as an array of the shape that is needed."""
    # The cases are made once: whatever the reader's function does to its arguments must not reach them.
    copies = copy.deepcopy(case.arguments)
    # NumPy's warnings would point at corpora that the reader cannot see: what matters is said in the message.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            output = answer(*copies)
        except Exception as error:  # whatever the reader's own code raises is shown to the reader
            said = "".join(traceback.format_exception_only(error)).strip()
            said = said if len(said) <= _LONGEST else said[:_LONGEST] + "…"
            raise Unusable(
                f"Your function raises {said} (it was called as {exercise.call}, on a case with {case.where})"
            ) from error
        array = numbers("What your function returns", output).astype(np.float64)
    needed = exercise.shape(*case.arguments)
    if array.size == 1 and needed == ():
        return array.reshape(())
    if array.shape != needed:
        turned = " Are rows and columns exchanged?" if array.shape == needed[::-1] else ""
        raise Unusable(
            f"Your function must return {exercise.gives}: shape {needed} was needed, and {array.shape} came "
            f"back.{turned}"
        )
    return array


def _compare(exercise, cases, outputs):
    rights = [np.asarray(exercise.right(*case.arguments), dtype=float) for case in cases]
    scales = [np.nanmax(np.abs(right)) for right in rights]

    def same(some, others, tolerance=exercise.tolerance):
        return [
            np.allclose(one, other, rtol=0, atol=tolerance * scale, equal_nan=True)
            for one, other, scale in zip(some, others, scales, strict=True)
        ]

    fine = same(outputs, rights)
    if all(fine):
        return Feedback(True, f"Tried on {len(fine)} hidden cases.")
    partly = _partly(cases, fine)
    wrongs = [
        ([np.asarray(slip.wrong(*case.arguments), dtype=float) for case in cases], slip.message)
        for slip in exercise.slips
    ]
    for wrong, message in wrongs:
        if all(same(outputs, wrong)):
            return Feedback(False, message + partly)
    for output, right, case in zip(outputs, rights, cases, strict=True):
        if np.any(~np.isfinite(output) & np.isfinite(right)):
            what = "infinity" if np.isinf(output).any() else "NaN, as 0/0 gives"
            return Feedback(False, f"On a case with {case.where}, your answer holds {what}.{partly}")
    if not any(np.any(output) for output in outputs):
        return Feedback(False, "Your answer is zero everywhere.")
    factor = _common_factor(outputs, rights)
    if factor and all(same(outputs, [factor * right for right in rights])):
        if abs(factor + 1) <= exercise.tolerance:
            return Feedback(False, exercise.sign)
        return Feedback(False, exercise.factor + (" And the sign is wrong." if factor < 0 else ""))
    for wrong, message in wrongs:
        factor = _common_factor(outputs, wrong)
        if factor and all(same(outputs, [factor * one for one in wrong])):
            return Feedback(False, f"{message} A constant factor or a sign is off as well.{partly}")
    own = [_common_factor([output], [right]) for output, right in zip(outputs, rights, strict=True)]
    several = all(right.size > 1 for right in rights)
    if several and all(same(outputs, [k * right for k, right in zip(own, rights, strict=True)])):
        return Feedback(
            False,
            "In each case your numbers stand in the right proportion to one another, but the factor "
            "before them changes from case to case. What do you divide by, and what do you multiply with?"
            + partly,
        )
    for law in exercise.laws:
        if not all(law.holds(output, *case.arguments) for output, case in zip(outputs, cases, strict=True)):
            return Feedback(False, law.message + partly)
    if all(same(outputs, rights, _NEAR)):
        return Feedback(
            False,
            "Close everywhere, and not equal: an approximation where the exact answer is asked for, or "
            "numbers rounded too early." + partly,
        )
    return Feedback(False, (partly.strip() + " " if partly else "") + exercise.hint)


def _common_factor(outputs, others):
    """The factor that brings the others closest to the outputs, 0 if none can."""
    mine = np.concatenate([np.ravel(output) for output in outputs])
    theirs = np.concatenate([np.ravel(other) for other in others])
    defined = np.isfinite(mine) & np.isfinite(theirs)
    square = theirs[defined] @ theirs[defined]
    return float(mine[defined] @ theirs[defined] / square) if 0 < square < np.inf else 0.0


def _partly(cases, fine):
    """For which cases the answer is right or wrong, whichever is shorter to say, if it is right for some."""
    wrong = list(dict.fromkeys(case.where for case, ok in zip(cases, fine, strict=True) if not ok))
    right = [case.where for case in cases if case.where not in wrong]
    if not right:
        return ""
    wrong = [where for where in wrong if where != EVERYTHING] or wrong
    if len(right) <= len(wrong):
        return f" So far it is right only for {'; for '.join(right)}."
    return f" It goes wrong for {'; for '.join(wrong)}."
