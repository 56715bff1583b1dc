"""Closed forms, bounds and limit laws of the book, as functions of sizes and statistics.

One flat namespace over nine files: what chance alone makes of the token statistics (``theory_tokens``) and
what fresh sequences confirm of them (``theory_differences``), what one gradient step does to the embeddings
(``theory_one_step``) and what it asks of the scores (``theory_push``), what a direction can select
(``theory_hard_max``), what the cls embedding selects (``theory_selection``), how fast (``theory_time``), the
exact time course of symmetric designs (``theory_course``), and how long the step may be
(``theory_step_size``).
"""

from tokensel.theory_course import AttentionTime, attention_time, late_score_gap, score_gap, score_gap_rate
from tokensel.theory_differences import difference_noise, largest_by_chance, share_kept
from tokensel.theory_hard_max import feasible_share, hard_max_bound
from tokensel.theory_one_step import (
    OneStepRows,
    one_step_bound,
    one_step_epsilon,
    one_step_first_order,
    one_step_noise,
    one_step_sign_probability,
)
from tokensel.theory_push import graded_push, second_singular_value_bound
from tokensel.theory_selection import (
    Advantages,
    SymmetricMaxMargin,
    advantages,
    good_start_attention,
    good_start_threshold,
    one_step_max_margin,
    orthonormal_max_margin,
    trap_boundary,
)
from tokensel.theory_step_size import (
    amplification_exponent,
    best_token_probability,
    class_lead,
    log_amplification,
    lost_class_probability,
    lowest_class_gap,
    noise_step_size,
    runaway_gap,
    runaway_magnitude,
)
from tokensel.theory_time import (
    LateFlow,
    direction_constant,
    late_flow,
    late_offset,
    log_loss_gap_bound,
    unselected_attention_bound,
)
from tokensel.theory_tokens import (
    CoinFlipDifference,
    coin_flip_deviation,
    coin_flip_difference,
    frequency_spread,
    shuffled_deviation,
)

__all__ = [
    "Advantages",
    "AttentionTime",
    "CoinFlipDifference",
    "LateFlow",
    "OneStepRows",
    "SymmetricMaxMargin",
    "advantages",
    "amplification_exponent",
    "attention_time",
    "best_token_probability",
    "class_lead",
    "coin_flip_deviation",
    "coin_flip_difference",
    "difference_noise",
    "direction_constant",
    "feasible_share",
    "frequency_spread",
    "good_start_attention",
    "good_start_threshold",
    "graded_push",
    "hard_max_bound",
    "largest_by_chance",
    "late_flow",
    "late_offset",
    "late_score_gap",
    "log_amplification",
    "log_loss_gap_bound",
    "lost_class_probability",
    "lowest_class_gap",
    "noise_step_size",
    "one_step_bound",
    "one_step_epsilon",
    "one_step_first_order",
    "one_step_max_margin",
    "one_step_noise",
    "one_step_sign_probability",
    "orthonormal_max_margin",
    "runaway_gap",
    "runaway_magnitude",
    "score_gap",
    "score_gap_rate",
    "second_singular_value_bound",
    "share_kept",
    "shuffled_deviation",
    "trap_boundary",
    "unselected_attention_bound",
]
