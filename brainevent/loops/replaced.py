# SPDX-License-Identifier: Apache-2.0
"""Primitives of JAX that others replace in a loop, as functions of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..scalar.circular import sin_of_small
from .ciphers import random_words
from .values import UnfitError

__all__ = ["REPLACED", "is_of_batch"]


def _threefry(eqn: Any) -> Callable[..., Any]:
    return random_words


def _counters(eqn: Any) -> Callable[..., Any]:
    """Return the two words of a 64-bit counter of each element."""
    shape = eqn.params["shape"]
    if math.prod(shape) >= 2**32:
        raise UnfitError("random numbers for more than 4 billion elements")

    def counters() -> tuple[Any, Any]:
        return jnp.zeros(shape, np.uint32), lax.iota(np.uint32, math.prod(shape)).reshape(shape)

    return counters


def _empty(eqn: Any) -> Callable[..., Any]:
    """Return zeros for an array whose content nobody reads."""
    aval = eqn.outvars[0].aval
    return lambda: (jnp.zeros(aval.shape, aval.dtype),)


def _tile(eqn: Any) -> Callable[..., Any]:
    """Return repetitions of an array as a view of it, with an axis for the repetitions before each of its own."""

    def tile(x: Any) -> tuple[Any]:
        pairs = [(times, n) for times, n in zip(eqn.params["reps"], x.shape, strict=True)]
        shape = [n for pair in pairs for n in pair]
        wide = lax.broadcast_in_dim(x, shape, tuple(range(1, len(shape), 2)))
        return (wide.reshape([times * n for times, n in pairs]),)

    return tile


def _stack(eqn: Any) -> Callable[..., Any]:
    axis = eqn.params["axis"]
    return lambda *x: (lax.concatenate([lax.expand_dims(each, [axis]) for each in x], axis),)


def _scatter(eqn: Any) -> Callable[..., Any] | None:
    """Return `x.at[i].set(row)` as an update of a slice; None for other updates."""
    if eqn.params["update_jaxpr"] is not None:
        raise UnfitError("x.at[...].apply")
    d, (x, places, updates) = eqn.params["dimension_numbers"], (var.aval for var in eqn.invars)
    of_rows = d.inserted_window_dims == d.scatter_dims_to_operand_dims == (0,) and not d.operand_batching_dims
    if not (of_rows and places.shape == (1,) and updates.shape == x.shape[1:]):
        return None
    mode = lax.GatherScatterMode.from_any(eqn.params["mode"])
    narrow = x.shape[0] - 1 > np.iinfo(places.dtype).max

    def one_row(x: Any, places: Any, row: Any) -> tuple[Any]:
        places = places.astype(np.int32) if narrow else places
        place = lax.clamp(jnp.zeros((), places.dtype), places[0], jnp.full((), x.shape[0] - 1, places.dtype))
        if mode == lax.GatherScatterMode.FILL_OR_DROP:
            old = lax.dynamic_index_in_dim(x, place, 0, keepdims=False)
            row = lax.select(lax.broadcast(place == places[0], row.shape), row, old)
        return (lax.dynamic_update_index_in_dim(x, row, place, 0),)

    return one_row


_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip


def _lgamma(eqn: Any) -> Callable[..., Any]:
    """Return the logarithm of the gamma function by Lanczos' series, and by reflection below 1/2."""

    def lgamma(given: Any) -> tuple[Any]:
        x = given.astype(np.float32) if given.dtype.itemsize == 2 else given  # rounded once, at the end
        reflected = x < 0.5
        z = jnp.where(reflected, -x, x - 1)
        series = jnp.full_like(x, 0.99999999999980993227684700473478)
        for place, coefficient in enumerate(_LANCZOS):
            series = series + coefficient / (z + (place + 1))
        log_t = jnp.log1p(z / 7.5) + math.log(7.5)
        log_y = (z + 0.5 - (z + 7.5) / log_t) * log_t + (math.log(2 * math.pi) / 2 + jnp.log(series))
        part = jnp.abs(x) - jnp.floor(jnp.abs(x))
        sin = sin_of_small if x.dtype == np.float32 else jnp.sin
        log_sine = jnp.log(sin(math.pi * jnp.where(part > 0.5, 1 - part, part)))
        below = jnp.where(jnp.isinf(log_sine), -log_sine, math.log(math.pi) - log_sine - log_y)
        return (jnp.where(jnp.isinf(x), jnp.inf, jnp.where(reflected, below, log_y)).astype(given.dtype),)

    return lgamma


def _product(eqn: Any) -> Callable[..., Any] | None:
    """Return a product of two dtypes (`spikes @ weights`) as one of the result's, and one without sums as one of views.

    The latter needs no copy of its factors.
    """
    (summed, _), (batch, _) = eqn.params["dimension_numbers"]
    dtype, given = eqn.outvars[0].aval.dtype, [var.aval.dtype for var in eqn.invars]
    if any(each != dtype for each in given):
        if not all(_holds(dtype, each) for each in given):
            return None
        return lambda *x: (eqn.primitive.bind(*(each.astype(dtype) for each in x), **eqn.params),)
    if summed or batch:
        return None

    def product(x: Any, y: Any) -> tuple[Any]:
        shape = (*x.shape, *y.shape)
        wide = lax.broadcast_in_dim(x, shape, tuple(range(x.ndim)))
        return (wide * lax.broadcast_in_dim(y, shape, tuple(range(x.ndim, len(shape)))),)

    return product


def _holds(dtype: Any, given: Any) -> bool:
    """Say whether numbers of a dtype become those of a product's by a conversion, which for floats is exact."""
    to_float = bool(jnp.issubdtype(dtype, np.floating))
    if jnp.issubdtype(given, np.floating):
        return given == dtype or (to_float and given.itemsize < dtype.itemsize)
    return to_float or given.itemsize <= dtype.itemsize


_OF_BATCH: dict[str, Callable[..., Any]] = {"psum": lax.reduce_sum, "pmax": lax.reduce_max, "pmin": lax.reduce_min}


def is_of_batch(eqn: Any) -> bool:
    """Say whether an equation reduces over axes of a batch, which `jax.vmap` names, and not over devices."""
    p = eqn.params
    return (
        eqn.primitive.name in _OF_BATCH
        and p.get("axis_index_groups") is None
        and all(isinstance(axis, int) for axis in p.get("axes", ("",)))
    )


def _over_batch(eqn: Any) -> Callable[..., Any]:
    reduced, axes = _OF_BATCH[eqn.primitive.name], eqn.params["axes"]
    return lambda *x: tuple(reduced(each, axes) for each in x)


# By primitive of JAX: functions of an equation that return functions of its operands, or None to keep it.
REPLACED: dict[str, Callable[[Any], Callable[..., Any] | None]] = {
    "threefry2x32": _threefry,
    "iota_2x32_shape": _counters,
    "stack": _stack,
    "empty": _empty,
    "empty2": _empty,
    "tile": _tile,
    "scatter": _scatter,
    "lgamma": _lgamma,
    "dot_general": _product,
    **dict.fromkeys(_OF_BATCH, _over_batch),
}
