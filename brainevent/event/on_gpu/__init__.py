# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels on sparse matrices: what those of several formats share."""

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
