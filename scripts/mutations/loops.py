# SPDX-License-Identifier: Apache-2.0
"""Mistakes in loops that are one native call, or one kernel of a GPU."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "loops-largest-number-loses-nan",
        "loops/indexed.py",
        "{0} if ({0} > {1}) | ({0} != {0}) else {1}",
        "{0} if ({0} > {1}) else {1}",
        ("test_loop_equations", "test_loop_bodies", "test_fused_loops"),
    ),
    Mutant(
        "loops-clear-half-of-the-sums",
        "loops/cleared.py",
        "ends[:-1] and ends[-1] == size",
        "ends[:-1]",
        ("test_loop_sums",),
    ),
    Mutant(
        "loops-of-the-next-step-read-others",
        "loops/rotated.py",
        "or not reads_own(view, first[0].shape)",
        "or view.shape != first[0].shape",
        ("test_rotated_loops",),
    ),
    Mutant(
        "loops-show-no-progress",
        "loops/text.py",
        "shows=not self.is_within",
        "shows=False",
        ("test_loop_pulses",),
    ),
    Mutant(
        "loops-on-a-gpu-forget-what-others-wrote",
        "loops/gpu/phases.py",
        "(frozenset() if meets else pending)",
        "frozenset()",
        ("test_loops_on_gpu",),
    ),
    Mutant(
        "loops-within-loops-on-a-gpu-end-after-their-step",
        "loops/gpu/phases.py",
        "left = head if loop.leaves else step",
        "left = step",
        ("test_loops_within_on_gpu",),
    ),
    Mutant(
        "loops-on-a-gpu-keep-what-others-read",
        "loops/gpu/kept.py",
        "if any(not reads_own(view, node.shape) for view in reads):",
        "if False:",
        ("test_loops_on_gpu",),
    ),
)
