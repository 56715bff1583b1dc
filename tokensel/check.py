"""Feedback on answers to exercises: ``check.<name>(answer)`` says what is wrong, and never the right answer.

One flat namespace over five files: attention and the statistics of tokens (``check_tokens``), gradients and
first steps (``check_gradients``), small max-margin problems (``check_max_margin``), formulas in the sizes of
a design (``check_sizes``), and how fast attention selects (``check_rates``).

A function that is handed in is run on hidden cases, each with a difficulty of its own: different lengths,
repeated tokens, classes of different size, one class only. So it cannot be right by chance, and what it does
wrong shows in where it does. A check raises nothing: what is wrong with an answer, even that it raises an
error, is said in the feedback.

Examples
--------
>>> from tokensel import check
>>> check.average_signed_frequency(lambda corpus: corpus.labels @ corpus.counts / corpus.lengths.sum())
Not yet. You average over all tokens of the corpus, so a long sequence weighs more than a short one. Average
over sequences: each has one label, and one vote. It goes wrong for sequences of different lengths.
>>> assert check.average_signed_frequency(lambda corpus: corpus.labels @ corpus.frequencies / len(corpus))
"""

from tokensel.check_feedback import Feedback
from tokensel.check_gradients import first_push, one_step_values, score_gradient
from tokensel.check_max_margin import feasible_subset, max_margin_two_pairs, two_token_max_margin
from tokensel.check_rates import attention_time, loss_gap
from tokensel.check_sizes import amplification, squared_norm, trap_boundary
from tokensel.check_tokens import attention, average_signed_frequency, posterior_difference

__all__ = [
    "Feedback",
    "amplification",
    "attention",
    "attention_time",
    "average_signed_frequency",
    "feasible_subset",
    "first_push",
    "loss_gap",
    "max_margin_two_pairs",
    "one_step_values",
    "posterior_difference",
    "score_gradient",
    "squared_norm",
    "trap_boundary",
    "two_token_max_margin",
]
