"""Checks of how fast attention selects: the law of the loss, and the time that attention takes."""

import math

from tokensel import theory
from tokensel.check_feedback import Case, Exercise, Slip, judge


def loss_gap(answer):
    r"""Check a law for :math:`\log(L-L_\sigma)` late in a gradient flow.

    Parameters
    ----------
    answer : callable
        Called as ``answer(log_time, squared_norm)`` with two floats, :math:`\log t` and
        :math:`\lVert\hat p\rVert^2`; returns the predicted logarithm, to the order that tends to zero.

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> ts.check.loss_gap(lambda log_time, squared_norm: -log_time)
    Not yet. The rate is right. The law has a constant too, and it can be predicted. So far it is right only
    for a margin of one.
    """
    return judge(_LOSS_GAP, answer)


def attention_time(answer):
    r"""Check a computation of :math:`t_\epsilon`, when attention reaches :math:`1-\epsilon`.

    Symmetric design: K important and M irrelevant tokens, sequences of T tokens, values of size B; the flow
    starts at :math:`p=0`.

    Parameters
    ----------
    answer : callable
        Called as ``answer(K, M, T, B, epsilon)`` with three ints and two floats; returns a number, right to
        one part in a thousand.

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> feedback = ts.check.attention_time(lambda K, M, T, B, epsilon: 1 / epsilon)
    >>> feedback.right
    False
    """
    return judge(_ATTENTION_TIME, answer)


_LOSS_GAP = Exercise(
    call="answer(log_time, squared_norm)",
    right=lambda log_time, squared_norm: math.log(squared_norm) - log_time,
    cases=lambda: (
        Case("a margin of one", (9.0, 1.0)),
        Case("an early time", (3.0, 4.9)),
        Case("a margin above one", (40.0, 0.3)),
        Case("a time t that is too large for a float", (900.0, 160.0)),
        Case("the same time and another margin", (900.0, 2.4)),
    ),
    slips=(
        Slip(
            lambda log_time, squared_norm: -log_time,
            "The rate is right. The law has a constant too, and it can be predicted.",
        ),
        Slip(
            lambda log_time, squared_norm: -math.log(squared_norm) - log_time,
            "The rate is right, the constant is upside down: does a small margin make the loss fall "
            "faster or slower?",
        ),
        Slip(
            lambda log_time, squared_norm: math.log(squared_norm) / 2 - log_time,
            "The rate is right. In the constant you use the norm where its square belongs, or the square "
            "root of what you were given.",
        ),
        Slip(
            lambda log_time, squared_norm: 2 * math.log(squared_norm) - log_time,
            "The rate is right. In the constant you square what is a square already.",
        ),
        Slip(
            lambda log_time, squared_norm: squared_norm - log_time,
            "The rate is right. Your constant belongs to the loss gap; here its logarithm is asked for.",
        ),
        Slip(
            lambda log_time, squared_norm: math.exp(math.log(squared_norm) - log_time),
            "That is the gap itself, and its logarithm is asked for: at late times the gap is too small "
            "for a float.",
        ),
        Slip(
            lambda log_time, squared_norm: math.log(squared_norm) - math.log(log_time),
            "You were given the logarithm of the time, and take it for the time.",
        ),
        Slip(
            lambda log_time, squared_norm: squared_norm / log_time,
            "You were given the logarithm of the time, and take it for the time; and the logarithm of the "
            "gap is asked for.",
        ),
        Slip(
            lambda log_time, squared_norm: math.log(squared_norm) + log_time,
            "With you the gap grows with time.",
        ),
    ),
    # Float32 keeps seven digits of 900, and the constants to be told apart differ by more than 0.4.
    tolerance=1e-5,
    hint="What does the product of time and loss gap tend to? Take logarithms.",
)


def _late_time(K, M, T, B, epsilon):
    return K * M / (K + M) * (1 + math.exp(B)) / (B * epsilon)


def _time(K, M, T, B, epsilon):
    return theory.attention_time(epsilon, K, M, T, B).time


def _integral(integrand, start, end):
    from scipy.integrate import quad

    return quad(integrand, start, end, epsabs=0, epsrel=1e-10, limit=200)[0]


def _other_integral(integrand, start=lambda T: 1 / T):
    """The time with another integrand f(q, B), or from another start."""
    return lambda K, M, T, B, epsilon: (
        K * M / (K + M) / B * _integral(lambda q: integrand(q, B), start(T), 1 - epsilon)
    )


def _slowness(q, B):
    return (1 + math.exp(B * q)) / (q * (1 - q)) ** 2


_ATTENTION_TIME = Exercise(
    call="answer(K, M, T, B, epsilon)",
    right=_time,
    cases=lambda: (
        Case("as many important as irrelevant tokens", (3, 3, 5, 1.0, 0.05)),
        Case("an epsilon that is not small", (2, 9, 3, 0.5, 0.3)),
        Case("a small epsilon", (6, 20, 8, 2.0, 0.01)),
        Case("large values", (4, 6, 4, 5.0, 0.1)),
        Case("sequences of two tokens", (2, 3, 2, 1.5, 0.2)),
    ),
    slips=(
        Slip(
            _late_time,
            "That is what remains when epsilon is very small. The plateau before it takes time as well.",
        ),
        Slip(
            lambda K, M, T, B, epsilon: (1 - epsilon) * _late_time(K, M, T, B, epsilon),
            "That follows the late law back to the start. In the beginning attention moves by another one.",
        ),
        Slip(
            lambda K, M, T, B, epsilon: theory.attention_time(epsilon, K, M, T, B).upper,
            "That is an upper bound: you take the sequences for as well classified from the start as at "
            "the end.",
        ),
        Slip(
            lambda K, M, T, B, epsilon: theory.attention_time(epsilon, K, M, T, B).lower,
            "That is a lower bound: the sequences are classified better as attention grows, and push less.",
        ),
        Slip(
            lambda *case: math.log(_time(*case)),
            "That is the logarithm of the time.",
        ),
        Slip(
            lambda K, M, T, B, epsilon: (1 / K + 1 / M) ** 2 * _time(K, M, T, B, epsilon),
            "The factor with the two sizes is upside down: the gap between scores moves at a speed, and a "
            "time divides by a speed.",
        ),
        Slip(
            lambda K, M, T, B, epsilon: (1 / K + 1 / M) * _time(K, M, T, B, epsilon),
            "The sizes K and M play no part in your time: by how much does a push on the scores move the "
            "gap?",
        ),
        Slip(
            lambda K, M, T, B, epsilon: B * _time(K, M, T, B, epsilon),
            "A factor with the size of the values is missing: how far apart are the values of the two kinds?",
        ),
        Slip(
            lambda K, M, T, B, epsilon: B**2 * _time(K, M, T, B, epsilon),
            "The size of the values multiplies where it should divide: do larger values make it faster or "
            "slower?",
        ),
        Slip(
            _other_integral(lambda q, B: (1 + math.exp(B * q)) / (q * (1 - q))),
            "That integrates the equation of the score gap as if it were the equation of attention: "
            "attention is a function of the gap, with a derivative of its own.",
        ),
        Slip(
            _other_integral(lambda q, B: (1 + math.exp(-B * q)) / (q * (1 - q)) ** 2),
            "Check the sign in your exponential: well classified sequences push less, and time passes "
            "more slowly.",
        ),
        Slip(
            _other_integral(_slowness, start=lambda T: 0.5),
            "Your integral starts at even odds. Which share has one token of the sequence when all scores "
            "are equal?",
        ),
        Slip(
            _other_integral(_slowness, start=lambda T: 1 / (T + 1)),
            "Your integral starts too low. Which share has one token of the sequence when all scores are "
            "equal?",
        ),
    ),
    factor="Right up to one constant factor. Look again at the speed of the gap.",
    # SciPy's integrators of differential equations aim at this by default.
    tolerance=1e-3,
    hint="Write the speed of attention as a function of attention alone; the time is the integral of one "
    "over it.",
)
