# SPDX-License-Identifier: Apache-2.0
"""Numba functions that only compiled code calls: without an entry for Python, and without machine code."""

from __future__ import annotations

from typing import Any

import numba

from .internals import inner_compiler

__all__ = ["inner", "of_zeros", "with_of_zeros"]


def inner(
    function: Any = None,
    *,
    apart: bool = False,
    flushes: bool = False,
    later: bool = False,
    interleaved: bool = False,
    **options: Any,
) -> Any:
    """Compile a function that only compiled code calls, like `numba.njit`, but only as far as necessary.

    This takes about half of the time. A call from Python ends the process. `apart` promises that no two of its arrays
    overlap: loops over many arrays are then vectorized. `flushes` promises that the processor flushes denormals to zero
    when the function runs: constants are then flushed, too. `later`, without `apart`, leaves all optimization to the
    code that links the function: many small functions then take less time in all, but a loop that is vectorized by
    itself may not be vectorized within a larger function. `interleaved` loops compute several vectors at a time: for
    long formulas, whose operations wait for each other.
    """
    assert not (later and apart)
    pipeline = inner_compiler(apart=apart, flushes=flushes, later=later, interleaved=interleaved)
    compile_ = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=pipeline, **options)
    return compile_ if function is None else compile_(function)


def with_of_zeros(kernel: Any, other: Any) -> Any:
    """Return a kernel; `other` does the same to a result that is zero when it begins, and does not clear it."""
    kernel.of_zeros = other
    return kernel


def of_zeros(kernel: Any) -> Any:
    """Return what a kernel is for a result that is zero when it begins, or None if it has nothing else for that."""
    return getattr(kernel, "of_zeros", None)
