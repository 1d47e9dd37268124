# SPDX-License-Identifier: Apache-2.0
"""Mistakes in what rules mean, and in how they are traced."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_RULE = ("test_rule_interpreter", "test_rule_trace", "test_rule_engines")
_PRIMITIVES = "scalar/primitives.py"
_CPU = ("test_network_cpu",)

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
        "np.where(b == 0, ~np.zeros_like(a), ",
        "np.where(b == 0, np.zeros_like(a), ",
        _RULE,
    ),
    Mutant(
        "rule-shifts-by-32-and-more-are-by-31",
        _PRIMITIVES,
        "np.where(amount < bits, function(a, np.minimum(amount, bits - 1).astype(a.dtype)), beyond)",
        "function(a, np.minimum(amount, bits - 1).astype(a.dtype))",
        _RULE,
    ),
    Mutant(
        "rule-nan-as-an-integer-is-not-zero",
        _PRIMITIVES,
        "np.where(low | high | np.isnan(wide), 0, wide)",
        "np.where(low | high | np.isnan(wide), 1, wide)",
        _RULE,
    ),
    Mutant(
        "rule-products-that-round-up-to-the-smallest-number-stay",
        _PRIMITIVES,
        "np.abs(exact) < ROUNDS_TO_SMALLEST",
        "np.abs(exact) < 0",
        _RULE,
    ),
    Mutant(
        "rule-denormals-are-kept",
        "backends/numba/floats.py",
        "_FLUSHING = 0x9FC0",
        "_FLUSHING = 0x1F80",
        (*_RULE, *_CPU),
    ),
    Mutant(
        "rule-another-branch-is-chosen",
        "scalar/control.py",
        "constant(place, index.dtype)",
        "constant(place + 1, index.dtype)",
        _RULE,
    ),
    Mutant(
        "poisson-counts-a-threshold-too-few",
        "scalar/poisson.py",
        "return grew & (u >= c)",
        "return grew & (u > c)",
        ("test_rule_random",),
    ),
    Mutant(
        "scalar-llvm-shifts-by-all-bits",
        "scalar/llvm_text.py",
        "  %shifted = shl {t} %a, %amount\n  %r = select i1 %is, {t} %shifted, {t} 0",
        "  %shifted = shl {t} %a, %amount\n  %r = select i1 %is, {t} %shifted, {t} %a",
        ("test_llvm_text",),
    ),
    Mutant(
        "scalar-llvm-modules-share-names",
        "scalar/llvm_text.py",
        ".{hashlib.sha256(text.encode()).hexdigest()[:16]}",
        "",
        ("test_llvm_text",),
    ),
)
