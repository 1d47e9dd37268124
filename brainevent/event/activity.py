# SPDX-License-Identifier: Apache-2.0
"""The rule for what an event is: True, or a number that is not zero; an event counts as one, whatever its value."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._compat import (
    Zero,
    abstract_result,
    mlir,
    new_primitive,
    primitive_batchers,
    primitive_jvps,
    primitive_transposes,
    symbolic_zero_like,
)

__all__ = ["WORD", "as_events", "in_words", "is_active", "weighted"]

WORD = 32  # bits

_NATIVE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


def is_active(x: Any) -> jax.Array:
    """Return which elements are events.

    >>> import jax.numpy as jnp
    >>> is_active(jnp.array([-1.0, 0.0, 0.5, 2.0]))
    Array([ True, False,  True,  True], dtype=bool)
    """
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"events are {x.dtype}; pass booleans, integers or real numbers")
    return x if x.dtype == bool else x != 0


def as_events(x: Any) -> jax.Array:
    """Return an array for which every kernel language can compute `x != 0`: x itself, unless it has 16 bits."""
    x = jnp.asarray(x)
    return x if x.dtype.name in _NATIVE else is_active(x)


def in_words(active: jax.Array, axis: int) -> jax.Array:
    """Return booleans as bits along an axis: ceil(n / 32) words, uint32, with the first boolean in the lowest bit."""
    size = active.shape[axis]
    words = -(-size // WORD)
    padding = [(0, words * WORD - size if i == axis else 0) for i in range(active.ndim)]
    shape = (*active.shape[:axis], words, WORD, *active.shape[axis + 1 :])
    bits = jnp.pad(active, padding).reshape(shape).astype(jnp.uint32)
    places = jnp.arange(WORD, dtype=jnp.uint32).reshape(WORD, *[1] * (active.ndim - axis - 1))
    return (bits << places).sum(axis + 1, dtype=jnp.uint32)


def weighted(weights: jax.Array, x: jax.Array) -> jax.Array:
    """Return the weights where `x` is an event, and zero elsewhere, even where a weight is NaN.

    Its derivatives are those of `weights * x`, of every order: straight through by `x`. Those by the weights, and
    their transposes, are choices as well, and no products: what meets no event is zero, even NaN.
    """
    is_active(x)  # raises for numbers that are no events
    weights, x = jnp.broadcast_arrays(weights, x)
    (found,) = _CHOICE.primitive.bind(weights, x)
    return found


def _abstract(weights: Any, x: Any) -> list[Any]:
    return [abstract_result("chosen_by_events", (weights, x), weights.shape, weights.dtype, weights.sharding.spec)]


def _jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (weights, x), (by_weights, by_x) = primals, tangents
    terms = [] if isinstance(by_weights, Zero) else [weighted(by_weights, x)]
    if not isinstance(by_x, Zero) and by_x.dtype != jax.dtypes.float0:
        terms.append(weights * by_x.astype(weights.dtype))  # straight through
    found = weighted(weights, x)
    return [found], [sum(terms[1:], *terms[:1]) if terms else symbolic_zero_like(found)]


def _transposed(cotangents: Any, weights: Any, x: Any) -> list[Any]:
    (cotangent,) = cotangents
    return [Zero(weights.aval) if isinstance(cotangent, Zero) else weighted(cotangent, x), None]


def _batched(operands: Any, axes: Any) -> tuple[list[Any], list[int]]:
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    weights, x = (
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    )
    return [weighted(weights, x)], [0]


class _Choice:
    """The choice as a primitive; what kernels are made of is identified by its name."""

    content_parts = ("chosen_by_events",)
    primitive = new_primitive(content_parts[0], _abstract)


_CHOICE = _Choice()
primitive_jvps[_CHOICE.primitive] = _jvp
primitive_transposes[_CHOICE.primitive] = _transposed
primitive_batchers[_CHOICE.primitive] = _batched
mlir.register_lowering(
    _CHOICE.primitive, mlir.lower_fun(lambda weights, x: [jnp.where(is_active(x), weights, jnp.zeros_like(weights))])
)
