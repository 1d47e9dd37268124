# SPDX-License-Identifier: Apache-2.0
"""Mistakes in networks: what rules of neurons mean, and how they are traced."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_RULE = ("test_rule_interpreter", "test_rule_trace", "test_rule_engines")
_PRIMITIVES = "network/rule/primitives.py"

MUTANTS = (
    Mutant(
        "rule-max-loses-nan",
        _PRIMITIVES,
        "np.where((a > b) | np.not_equal(a, a), a, b)",
        "np.where(a > b, a, b)",
        _RULE,
    ),
    Mutant(
        "rule-integers-by-zero-are-zero",
        _PRIMITIVES,
        "np.where(b == 0, -1, quotient)",
        "np.where(b == 0, 0, quotient)",
        _RULE,
    ),
    Mutant(
        "rule-shifts-by-32-and-more-are-by-31",
        _PRIMITIVES,
        "np.where(amount < 32, function(a, np.minimum(amount, 31).astype(a.dtype)), beyond)",
        "function(a, np.minimum(amount, 31).astype(a.dtype))",
        _RULE,
    ),
    Mutant(
        "rule-nan-as-an-integer-is-not-zero",
        _PRIMITIVES,
        "np.where(np.isnan(wide), 0, wide)",
        "np.where(np.isnan(wide), 1, wide)",
        _RULE,
    ),
    Mutant(
        "rule-another-branch-is-chosen",
        "network/rule/control.py",
        "constant(place, index.dtype)",
        "constant(place + 1, index.dtype)",
        _RULE,
    ),
)
