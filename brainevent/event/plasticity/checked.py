# SPDX-License-Identifier: Apache-2.0
"""Checks of the operands of plasticity, before a kernel gets them, and bounds of weights."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ...errors import ShapeError
from ..form import split_operand
from ..precision import precise

__all__ = ["bounded", "dense_shape", "fits", "one_of", "spikes_of", "trace_of", "weights_of"]


def dense_shape(where: str, weight: Any) -> tuple[int, int]:
    """Return the shape of a matrix of weights."""
    shape = np.shape(units.split(weight)[0])
    if len(shape) != 2:
        raise ShapeError(f"{where}: weight has shape {shape}; pass a matrix (pre, post), a weight for each pair")
    return shape


def weights_of(where: str, weight: Any, stored: tuple[int, ...] | None) -> tuple[jax.Array, Any]:
    """Return the numbers of weights, floating and one for each synapse, and their unit."""
    numbers, unit = units.split(weight)
    numbers = jnp.asarray(numbers)
    if not jnp.issubdtype(numbers.dtype, jnp.floating):
        raise TypeError(f'{where}: weight is {numbers.dtype}; pass floating weights (weight.astype("float32"))')
    if stored is not None and numbers.shape != stored:
        count = math.prod(stored)
        if numbers.size != 1:
            raise ShapeError(f"{where}: weight has shape {numbers.shape}; pass one for each synapse, {stored}")
        if count != 1:
            raise ValueError(
                f"{where}: weight is homogeneous (size-1), and there are {count} synapses; plasticity needs "
                "heterogeneous weights, one for each: jnp.full(indices.shape, weight)"
            )
        numbers = numbers.reshape(stored)
    return numbers, unit


def spikes_of(where: str, name: str, given: Any, length: int) -> jax.Array:
    """Return the spikes of `length` neurons as kernels take them."""
    x = jnp.asarray(split_operand(given, event=True)[0])
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"{where}: {name} is {x.dtype}; pass booleans, integers or real numbers")
    return _of_length(where, name, x, length)


def trace_of(where: str, name: str, given: Any, length: int, dtype: Any, unit: Any) -> jax.Array:
    """Return the trace of `length` neurons in the unit of the weights and the dtype of sums."""
    x = jnp.asarray(units.numbers_like(where, name, given, unit))
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"{where}: {name} is {x.dtype}; pass real numbers")
    return _of_length(where, name, x.astype(precise(dtype)), length)


def _of_length(where: str, name: str, x: jax.Array, length: int) -> jax.Array:
    if x.shape != (length,):
        raise ShapeError(f"{where}: {name} has shape {x.shape}; pass one for each of {length} neurons")
    return x


def one_of(where: str, after: Any) -> jax.Array:
    """Return an element of an array as float32: what depends on it is computed after the array."""
    x = jnp.asarray(split_operand(after, event=True)[0]).reshape(-1)[:1]
    return jnp.real(x).astype("float32")


def bounded(where: str, weights: jax.Array, unit: Any, w_min: Any, w_max: Any) -> jax.Array:
    """Clip all weights to bounds, in a unit of the same dimension; None for no bound."""
    bounds = []
    for name, given in (("w_min", w_min), ("w_max", w_max)):
        bound = (
            None if given is None else jnp.asarray(units.numbers_like(where, name, given, unit)).astype(weights.dtype)
        )
        if bound is not None and not fits(bound.shape, weights.shape):
            raise ShapeError(
                f"{where}: {name} has shape {bound.shape}; weights have {weights.shape}: pass a number, or one for each"
            )
        bounds.append(bound)
    return weights if bounds == [None, None] else jnp.clip(weights, *bounds)


def fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Say whether an array broadcasts to a shape."""
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False
