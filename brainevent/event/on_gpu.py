# SPDX-License-Identifier: Apache-2.0
"""What CUDA C++ kernels of several formats share: types of sums and operands, and how many threads to launch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .activity import as_events

__all__ = ["WARP", "cut", "operand", "power_of_two", "whole_warps"]

WARP = 32  # threads


def cut(columns: int, most: int) -> tuple[int, int]:
    """Return into how many parts columns are cut, at most so many, each of how many columns; each has at least one."""
    width = max(1, -(-columns // most))
    return max(1, -(-columns // width)), width


def operand(x: Any, sums: Any, *, event: bool) -> jax.Array:
    """Return x as a kernel reads it: events as they are, numbers in the type of sums or in 16 bits."""
    if event:
        return as_events(x)
    halves = x.dtype in (jnp.float16, jnp.bfloat16) and sums == jnp.float32
    return x if halves else x.astype(sums)


def power_of_two(count: int, most: int = WARP) -> int:
    """Return how many threads, of a warp at most, a count of items can use: the least power of two that holds all."""
    return min(most, 1 << max(0, count - 1).bit_length())


def whole_warps(threads: int) -> int:
    """Return at least so many threads, in whole warps: all threads of a warp must be there to vote and to sum."""
    return -(-threads // WARP) * WARP
