# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of drawn matrices: probability, seed, and the numbers of the weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ..structure import are_known, checked_weights
from .numbers import drawn_of

__all__ = ["drawn_from", "numbers_of_weights", "weights_of"]


def drawn_from(where: str, prob: Any, seed: Any) -> jax.Array:
    """Return what a matrix is drawn from, as operators take it: uint32 (10,).

    A probability is rounded to float32. A traced one counts as 0 if it is negative or NaN, and as 1 if it is above
    1. Seeds that are the same integer are the same, whatever their type; None is a new one.

    >>> drawn_from("here", 0.5, -1)[-2:]  # the seed
    Array([4294967295, 4294967295], dtype=uint32)
    """
    bits = jax.lax.bitcast_convert_type(_checked_prob(where, prob), jnp.uint32)
    return drawn_of(bits, *_words(where, seed))


def _checked_prob(where: str, prob: Any) -> jax.Array:
    numbers, unit = units.split(units.join(*units.split(prob)))  # without a dimension, there is no unit
    numbers = numbers if isinstance(numbers, jax.Array) else np.asarray(numbers)
    if unit is not None or not any(jnp.issubdtype(numbers.dtype, kind) for kind in _REAL):
        raise TypeError(f"{where}: prob is {prob!r}; pass a probability from 0 to 1")
    if np.size(numbers) != 1:
        raise ValueError(f"{where}: prob must be a scalar; found the shape {np.shape(numbers)}")
    if are_known(numbers):
        value = float(np.asarray(numbers).reshape(()))
        if not np.isfinite(value):
            raise ValueError(f"{where}: prob is {value}; prob must be finite, and in [0, 1]")
        if not 0 <= value <= 1:
            raise ValueError(f"{where}: prob is {value}; prob must be in [0, 1]")
    return jnp.asarray(numbers, jnp.float32).reshape(())


_REAL = (jnp.floating, jnp.integer, jnp.bool_)


def _words(where: str, seed: Any) -> Sequence[Any]:
    """Return the low and the high half of a seed of 64 bits."""
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "little")
    if units.is_quantity(seed):
        raise TypeError(f"{where}: seed is {seed!r}; {_ADVICE}")
    if not hasattr(seed, "dtype"):
        try:
            seed = int(seed.__index__()) % 2**64
        except (AttributeError, TypeError):
            raise TypeError(f"{where}: seed is {seed!r}; {_ADVICE}") from None
        return jnp.uint32(seed & 2**32 - 1), jnp.uint32(seed >> 32)
    if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) and seed.shape == ():
        seed = jax.random.key_data(seed)
        return seed[::2].sum(dtype=jnp.uint32), seed[1::2].sum(dtype=jnp.uint32)
    if seed.dtype == jnp.uint32 and seed.shape == (2,):  # a key as an array, or the `seed` of a matrix
        return tuple(jnp.asarray(seed))
    if not jnp.issubdtype(seed.dtype, jnp.integer):
        raise TypeError(f"{where}: seed is {seed.dtype}; {_ADVICE}")
    if np.size(seed) != 1:
        raise ValueError(f"{where}: seed has the shape {seed.shape}; a matrix has one seed: {_ADVICE}")
    if not isinstance(seed, jax.Array):
        return _words(where, int(np.asarray(seed).reshape(())))
    seed = seed.reshape(())
    if seed.dtype.itemsize == 8:
        return seed.astype(jnp.uint32), (seed >> 32).astype(jnp.uint32)
    return seed.astype(jnp.uint32), jnp.where(seed < 0, np.uint32(2**32 - 1), np.uint32(0))


_ADVICE = "pass an integer, a key of jax.random.key, or None for a new one"


def numbers_of_weights(where: str, names: Sequence[str], given: Sequence[Any]) -> tuple[Any, ...]:
    """Return floating scalars of one type, all in the unit of the first."""
    first, unit = units.split(given[0])
    found = [checked_weights(where, first, (1,), names[0]).reshape(())]
    for name, value in zip(names[1:], given[1:], strict=True):
        found.append(checked_weights(where, units.numbers_in(value, unit), (1,), name).reshape(()))
    dtype = jnp.result_type(*found)
    return tuple(units.join(number.astype(dtype), unit) for number in found)


def weights_of(numbers: Sequence[Any], *, to: bool = False) -> Any:
    """Return weights as operators take them; if the second of two numbers is the end (`to`), it becomes the width.

    >>> weights_of((jnp.float32(1), jnp.float32(3)), to=True)
    Array([1., 2.], dtype=float32)
    """
    unit = units.split(numbers[0])[1]
    plain = [units.split(number)[0] for number in numbers]
    if to:
        plain[1] = plain[1] - plain[0]
    return units.join(jnp.stack(plain), unit)
