# SPDX-License-Identifier: Apache-2.0
"""Random bits as a function of keys and counters: threefry2x32 (Salmon et al., 2011), with 13 rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

__all__ = ["SCHEME", "be_bits", "be_keys", "be_more_bits", "gaussian", "part_key", "threefry", "unit"]
__all__ += ["be_turned", "unit_of_53_bits"]

SCHEME = 1  # which numbers a seed gives: the cipher, its keys, and how each method of `Random` uses its bits

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = np.uint32(0x1BD11BDA)
# Odd numbers, by which draws, indices and parts of a draw move the keys.
_OF_DRAW, _OF_INDEX, _OF_PART = np.uint32(0x9E3779B9), np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)

Scalar = Any


def _turned(x: Scalar, by: Scalar, back: Scalar, other: Scalar) -> Scalar:
    """Return the bits of a word rotated by `by` bits, which are 32 less `back`, and combined with those of another."""
    return ((x << by) | (x >> back)) ^ other


def threefry(
    key0: Scalar,
    key1: Scalar,
    x0: Scalar,
    x1: Scalar,
    rounds: int = 13,
    turned: Callable[[Scalar, Scalar, Scalar, Scalar], Scalar] = _turned,
) -> tuple[Scalar, Scalar]:
    """Return both words of the block cipher of a counter (x0, x1): uint32 throughout, of JAX or NumPy.

    With `turned=be_turned`, the lines of each round call one function: compilers then need far less time.
    """
    keys = (key0, key1, key0 ^ key1 ^ _PARITY)
    x0, x1 = x0 + key0, x1 + key1
    for k in range(rounds):
        x0 = x0 + x1
        by = _ROTATIONS[k % 8]
        x1 = turned(x1, np.uint32(by), np.uint32(32 - by), x0)
        if k % 4 == 3:
            turn = k // 4 + 1
            x0, x1 = x0 + keys[turn % 3], x1 + keys[(turn + 1) % 3] + np.uint32(turn)
    return x0, x1


# The lowering knows the functions of `jax.jit` that follow by their names.


@jax.jit
def be_keys(key0: Scalar, key1: Scalar, draw: Scalar, index: Scalar | None = None) -> tuple[Scalar, Scalar]:
    """Return the keys of one draw of a rule: draws move the second key, and indices the first."""
    if index is not None:
        key0 = key0 + (index + np.uint32(1)) * _OF_INDEX
    return key0, key1 + draw * _OF_DRAW


@jax.jit
def be_bits(neuron: Scalar, step: Scalar, key0: Scalar, key1: Scalar) -> Scalar:
    """Return 32 random bits."""
    return threefry(key0, key1, neuron, step)[0]


@jax.jit
def be_more_bits(neuron: Scalar, step: Scalar, key0: Scalar, key1: Scalar) -> Scalar:
    """Return 32 random bits that belong to those of `be_bits`, for numbers that need more than 32."""
    return threefry(key0, key1, neuron, step)[1]


@jax.jit
def be_turned(x: Scalar, by: Scalar, back: Scalar, other: Scalar) -> Scalar:
    """Return a word of a round of `threefry`."""
    return _turned(x, by, back, other)


def part_key(key0: Scalar, part: Scalar) -> Scalar:
    """Return the first key of a part of a draw that needs several numbers; part 0 is the draw itself."""
    return key0 + part * _OF_PART


def unit(bits: Scalar) -> Scalar:
    """Return the top 24 bits as a float32 number from 0 to 1, without 1."""
    return lax.convert_element_type(lax.shift_right_logical(bits, np.uint32(8)), np.float32) * np.float32(2**-24)


def gaussian(bits: Scalar) -> Scalar:
    """Return the top 24 bits as a float32 number of the normal distribution with mean 0 and deviation 1."""
    top = lax.convert_element_type(lax.shift_right_logical(bits, np.uint32(8)), np.int32)
    odd = top + top + np.int32(1 - 2**24)  # from -(2^24 - 1) to 2^24 - 1
    return lax.erf_inv(lax.convert_element_type(odd, np.float32) * np.float32(2**-24)) * np.float32(np.sqrt(2))


def unit_of_53_bits(bits: Scalar, more: Scalar) -> Scalar:
    """Return 53 bits as a float64 number from 0 to 1, without 1: cut to 24 bits it is `unit(bits)`."""
    high = lax.convert_element_type(lax.shift_right_logical(bits, np.uint32(5)), np.float64)
    low = lax.convert_element_type(lax.shift_right_logical(more, np.uint32(6)), np.float64)
    return (high * np.float64(2**26) + low) * np.float64(2**-53)
