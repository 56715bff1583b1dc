"""Checks of formulas in the sizes of a symmetric design: how many tokens of each kind, and their values."""

import math

from tokensel.check_feedback import Case, Exercise, Slip, judge


def squared_norm(answer):
    r"""Check a formula for :math:`\lVert\hat p\rVert^2`.

    The embeddings are orthonormal; K tokens are important, M irrelevant, and each important token stands with
    each irrelevant one in some sequence.

    Parameters
    ----------
    answer : callable
        Called as ``answer(K, M)`` with two ints; returns a number.

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> ts.check.squared_norm(lambda K, M: K + M)
    Not yet. That grows with either size. If there are very many irrelevant tokens, does their number still
    matter?
    """
    return judge(_SQUARED_NORM, answer)


def trap_boundary(answer):
    r"""Check a formula for :math:`b_-^*`, the size of a negative value above which its class can be lost.

    Parameters
    ----------
    answer : callable
        Called as ``answer(K_plus, M, b_plus)`` with two ints and a float: positive tokens of value
        :math:`b_+`, and irrelevant tokens; returns a number.

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> feedback = ts.check.trap_boundary(lambda K_plus, M, b_plus: b_plus)
    >>> feedback.right
    False
    """
    return judge(_TRAP_BOUNDARY, answer)


def amplification(answer):
    r"""Check a formula for :math:`\kappa`, how strongly the lead of one class over the other is amplified.

    Parameters
    ----------
    answer : callable
        Called as ``answer(K, M, B)`` with two ints and a float: important and irrelevant tokens, and the size
        of the important values; returns a number.

    Returns
    -------
    Feedback
        True if the answer is right.

    Examples
    --------
    >>> import tokensel as ts
    >>> feedback = ts.check.amplification(lambda K, M, B: B)
    >>> feedback.right
    False
    """
    return judge(_AMPLIFICATION, answer)


_ONE_KIND = "You add up the squares of one kind of token only. The vector has parts along both."

_SQUARED_NORM = Exercise(
    call="answer(K, M)",
    right=lambda K, M: K * M / (K + M),
    cases=lambda: (
        Case("as many important as irrelevant tokens", (3, 3)),
        Case("one important token", (1, 5)),
        Case("more irrelevant than important tokens", (6, 20)),
        Case("more important than irrelevant tokens", (9, 4)),
    ),
    slips=(
        Slip(
            lambda K, M: 1 / K + 1 / M, "That is the square of the margin. How are margin and norm related?"
        ),
        Slip(lambda K, M: math.sqrt(1 / K + 1 / M), "That is the margin. How are margin and norm related?"),
        Slip(lambda K, M: math.sqrt(K * M / (K + M)), "That is the norm, and its square is asked for."),
        Slip(
            lambda K, M: K + M,
            "That grows with either size. If there are very many irrelevant tokens, does their number "
            "still matter?",
        ),
        Slip(
            lambda K, M: K * M,
            "That grows without end with either size. If there are very many irrelevant tokens, does "
            "their number still matter?",
        ),
        Slip(lambda K, M: K * (M / (K + M)) ** 2, _ONE_KIND),
        Slip(lambda K, M: M * (K / (K + M)) ** 2, _ONE_KIND),
        Slip(
            lambda K, M: (K**3 + M**3) / (K + M) ** 2,
            "The weights of important and irrelevant tokens are exchanged. Which of the two kinds moves "
            "more, the few or the many?",
        ),
        Slip(
            lambda K, M: M / (K + M),
            "That is the weight of one important token in the vector. Now its squared length.",
        ),
        Slip(
            lambda K, M: K / (K + M),
            "That is the weight of one irrelevant token in the vector. Now its squared length.",
        ),
    ),
    factor="Right up to one constant factor. Which quantity does the problem minimise, and which one is "
    "asked for?",
    hint="By symmetry the vector has one weight on important and one on irrelevant tokens. Which equation "
    "joins them, and which split is the shortest?",
)

_TRAP_BOUNDARY = Exercise(
    call="answer(K_plus, M, b_plus)",
    right=lambda K_plus, M, b_plus: b_plus + (1 / K_plus + 2 / M) / b_plus,
    cases=lambda: (
        Case("positive values of one", (3, 5, 1.0)),
        Case("small positive values", (2, 4, 0.5)),
        Case("large positive values", (3, 7, 2.0)),
        Case("more positive than irrelevant tokens", (6, 2, 1.4)),
    ),
    slips=(
        Slip(
            lambda K_plus, M, b_plus: b_plus,
            "That is the size of the other class. Does a negative token that is just a little larger "
            "already lose?",
        ),
        Slip(
            lambda K_plus, M, b_plus: (1 / K_plus + 2 / M) / b_plus,
            "A term is missing: what does the boundary become when there are very many tokens of both kinds?",
        ),
        Slip(
            lambda K_plus, M, b_plus: b_plus - (1 / K_plus + 2 / M) / b_plus,
            "With you fewer tokens make a trap more likely. Check a sign.",
        ),
        Slip(
            lambda K_plus, M, b_plus: b_plus + (1 / K_plus + 1 / M) / b_plus,
            "The part of the irrelevant tokens is wrong. In which pairs do they stand?",
        ),
        Slip(
            lambda K_plus, M, b_plus: b_plus + 1 / (K_plus * b_plus),
            "The irrelevant tokens play no part in your boundary.",
        ),
        Slip(
            lambda K_plus, M, b_plus: b_plus + 2 / (M * b_plus),
            "The number of positive tokens plays no part in your boundary.",
        ),
        Slip(
            lambda K_plus, M, b_plus: b_plus + (1 / K_plus + 2 / M) * b_plus,
            "What happens to your boundary when positive values are very small, and what should happen?",
        ),
        Slip(
            lambda K_plus, M, b_plus: b_plus + 1 / K_plus + 2 / M,
            "Do both of your terms scale with the values as they should?",
        ),
        Slip(
            lambda K_plus, M, b_plus: b_plus + (2 / K_plus + 1 / M) / b_plus,
            "The parts of positive and irrelevant tokens are exchanged.",
        ),
        Slip(
            lambda K_plus, M, b_plus: b_plus + (K_plus + M / 2) / b_plus,
            "With you many tokens make the boundary high. Where do the sizes stand, above or below the line?",
        ),
    ),
    sign="A size is asked for: the value of the negative token is minus that.",
    hint="Write down the max-margin solution of the positive sequences alone. When do the pairs of the "
    "lost sequences hold by themselves?",
)

_AMPLIFICATION = Exercise(
    call="answer(K, M, B)",
    right=lambda K, M, B: (1 / K + B**2) / (1 / K + 1 / M),
    cases=lambda: (
        Case("values of size one", (2, 3, 1.0)),
        Case("as many important as irrelevant tokens", (4, 4, 1.3)),
        Case("small values", (4, 6, 0.5)),
        Case("large values", (6, 20, 2.5)),
    ),
    slips=(
        Slip(
            lambda K, M, B: (1 / K + B) / (1 / K + 1 / M),
            "The size of the values does not enter like this: embeddings of two important tokens both "
            "hold it.",
        ),
        Slip(
            lambda K, M, B: (1 / K + 1 / M) / (1 / K + B**2),
            "That is upside down: with you larger values make the lead fade.",
        ),
        Slip(
            lambda K, M, B: B**2 / (1 / K + 1 / M),
            "A term is missing: even without values in the embeddings a leading class gains on its own "
            "scores.",
        ),
        Slip(
            lambda K, M, B: 1 / K + B**2,
            "That is how fast the difference of the two gaps moves. Compare it with how fast their sum "
            "moves.",
        ),
        Slip(
            lambda K, M, B: 1 / K + 1 / M,
            "That is how fast the sum of the two gaps moves. Compare the speed of their difference with it.",
        ),
        Slip(
            lambda K, M, B: (1 / K - B**2) / (1 / K + 1 / M),
            "Check a sign: does the common part of the embeddings pull the two classes together or apart?",
        ),
        Slip(
            lambda K, M, B: (1 / K + 1 / M + B**2) / (1 / K + 1 / M),
            "In the difference of the two gaps something cancels: which tokens stand in both?",
        ),
        Slip(
            lambda K, M, B: (1 / K + B**2) / (1 / K + 1 / M + B**2),
            "In the sum of the two gaps something cancels: the part of the embeddings along the output.",
        ),
        Slip(
            lambda K, M, B: (1 / M + B**2) / (1 / K + 1 / M),
            "You took one kind of token for the other in the difference of the two gaps.",
        ),
        Slip(
            lambda K, M, B: (1 / K + 2 * B**2) / (1 / K + 1 / M),
            "The part of the values is too strong: how many of the important tokens are of one class?",
        ),
    ),
    factor="Right up to one constant factor. A quotient of two speeds: are both of the same kind, a "
    "difference and a sum?",
    hint="Write the speeds of both gaps, then of their sum and of their difference; divide.",
)
