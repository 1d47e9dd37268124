# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels on sparse matrices: functions for those of several formats."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ..activity import as_events

__all__ = ["WARP", "cut", "definitions", "operand", "power_of_two", "source", "whole_warps"]

WARP = 32  # threads


@functools.cache
def source(*names: str) -> str:
    """Return texts of this folder, one after another."""
    return "".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)


def definitions(flags: Mapping[str, int]) -> tuple[str, ...]:
    """Return options that define names as numbers."""
    return tuple(f"-D{name}={int(value)}" for name, value in flags.items())


def cut(columns: int, most: int) -> tuple[int, int]:
    """Return the number of parts into which columns are cut, at most `most`, and the columns of each, at least one."""
    width = max(1, -(-columns // most))
    return max(1, -(-columns // width)), width


def operand(x: Any, sums: Any, *, event: bool) -> jax.Array:
    """Return x as a kernel reads it: events as they are, numbers in the dtype of sums or in 16 bits."""
    if event:
        return as_events(x)
    halves = x.dtype in (jnp.float16, jnp.bfloat16) and sums == jnp.float32
    return x if halves else x.astype(sums)


def power_of_two(count: int, most: int = WARP) -> int:
    """Return the number of threads for a count of items: the next power of two, at most a warp."""
    return min(most, 1 << max(0, count - 1).bit_length())


def whole_warps(threads: int) -> int:
    """Return a number of threads rounded up to whole warps, whose threads vote and sum together."""
    return -(-threads // WARP) * WARP
