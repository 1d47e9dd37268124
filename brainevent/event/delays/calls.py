# SPDX-License-Identifier: Apache-2.0
"""How functions and matrices call operators of deliveries: operands are checked, and units are split off."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ...errors import MathError, ShapeError
from ..calls import checked_structure, weights_of
from ..csr.format import CSR
from ..dense.format import DENSE
from ..description import Description, Shape
from ..fixed.format import FIXED
from ..form import split_operand, values_count
from ..laws.arrivals import ARRIVALS
from ..laws.deliveries import DELIVERIES, LAID
from ..operands import promises
from ..structure import as_array, check_once, extremes
from ..table import apply

__all__ = ["INDEXED", "IN_ORDER", "ROWS", "SLICES", "TAKEN", "checked_delays", "delivered", "taken"]

ROWS = Description(CSR, DELIVERIES)
INDEXED = Description(CSR, DELIVERIES, indexed=True)
IN_ORDER = Description(CSR, LAID)
SLICES = Description(FIXED, DELIVERIES)
TAKEN = Description(DENSE, ARRIVALS)
_RINGS = ("float16", "bfloat16", "float32", "float64")


def delivered(
    of: Description,
    where: str,
    ring: Any,
    events: Any,
    data: Any,
    structure: Sequence[Any],
    delays: Any,
    t: Any,
    shape: Shape,
    weighted: bool | None,
    backend: str | None,
    within: bool | None = None,
) -> Any:
    """Check the operands of a delivery, and make it; events are those of rows of the matrix of `shape`."""
    arrays, known = checked_structure(of, structure, shape, within, where=where)
    ring, unit = _ring_of(where, ring, shape[1])
    counts = values_count(where, events, weighted)
    x, of_events = split_operand(events, event=True)
    x = _values_of(where, x, shape[0])
    weights, of_weights = units.split(data)
    numbers = units.numbers_in(units.join(weights, units.product(of_weights, of_events)), unit)
    numbers = jnp.asarray(numbers).astype(ring.dtype)
    stored = of.format.stored(arrays, shape)
    numbers = weights_of(of, numbers, arrays, shape)
    numbers = numbers if numbers.shape == stored else numbers.reshape((1,) * len(stored))
    if of.law is not LAID:
        delays = checked_delays(where, delays, stored, ring.shape[0])
    how: dict[str, Any] = {"weighted": counts, "backend": backend, **promises(indices_within=known)}
    out = jax.ShapeDtypeStruct(ring.shape, ring.dtype)
    step = _slot_of(where, t, ring.shape[0])
    (found,) = apply(of, ring, numbers, *arrays, delays, x, step, outs=[out], **how)
    return units.join(found, unit)


def taken(where: str, ring: Any, t: Any, backend: str | None) -> tuple[Any, Any]:
    """Return the sums in the slot of a step, and the ring with that slot set to zero."""
    ring, unit = _ring_of(where, ring, None)
    outs = [jax.ShapeDtypeStruct(ring.shape[1:], ring.dtype), jax.ShapeDtypeStruct(ring.shape, ring.dtype)]
    arrived, rest = apply(TAKEN, ring, _slot_of(where, t, ring.shape[0]), outs=outs, backend=backend)
    return units.join(arrived, unit), units.join(rest, unit)


def checked_delays(where: str, given: Any, stored: tuple[int, ...], slots: int) -> jax.Array:
    """Return delays: integers, one for each stored element or one for all, from 1 to less than the number of slots."""
    if isinstance(given, np.ndarray) and given.dtype.kind in "iu" and given.dtype.itemsize == 8:
        _check_range(where, given, slots=slots)  # as JAX cuts them to 32 bits
    delays = _array_of(where, "delays are", given, "whole numbers of steps")
    if not jnp.issubdtype(delays.dtype, jnp.integer):
        raise TypeError(f'{where}: delays are {delays.dtype}; pass whole numbers of steps (delays.astype("int32"))')
    if delays.shape not in ((), stored):
        raise ShapeError(
            f"{where}: delays have shape {delays.shape}; pass one number, or one for each synapse, {stored}"
        )
    check_once(_check_range, where, delays, slots=slots)
    return delays if delays.shape else delays.reshape((1,) * len(stored))


def _check_range(where: str, delays: Any, *, slots: int) -> None:
    if delays.size and not isinstance(delays, jax.core.Tracer):
        low, high = extremes(delays)
        if low < 1 or high >= slots:
            advice = f"pass delays from 1 to {slots - 1}"
            if slots == 1:
                advice = f"no delay is possible; pass a ring of at least {max(high, 1) + 1} slots"
            raise ValueError(f"{where}: delays are from {low} to {high}; with a ring of {slots} slots, {advice}")


def _array_of(where: str, named: str, given: Any, wanted: str) -> jax.Array:
    try:
        return as_array(given)
    except (TypeError, ValueError):
        raise TypeError(f"{where}: {named} {given!r}; pass {wanted}") from None


def _ring_of(where: str, given: Any, columns: int | None) -> tuple[jax.Array, Any]:
    numbers, unit = units.split(given)
    ring = _array_of(where, "ring is", numbers, "an array, (slots, columns)")
    if ring.dtype.name not in _RINGS:
        raise TypeError(f"{where}: ring is {ring.dtype}; pass one of {', '.join(_RINGS)}")
    if ring.ndim != 2 or columns not in (None, ring.shape[1]) or not ring.shape[0]:
        wanted = "columns" if columns is None else columns
        raise ShapeError(f"{where}: ring has shape {ring.shape}; pass (slots, {wanted}), with at least one slot")
    return ring, unit


def _values_of(where: str, given: Any, rows: int) -> jax.Array:
    x = jnp.asarray(given)
    if x.ndim != 1:
        raise MathError(f"{where}: events have shape {x.shape}; their rank must be 1, and jax.vmap takes batches")
    if x.shape[0] != rows:
        raise ShapeError(f"{where}: events have shape {x.shape}; pass one for each of {rows} rows")
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"{where}: events are {x.dtype}; pass booleans, integers or real numbers")
    return x


def _slot_of(where: str, t: Any, slots: int) -> jax.Array:
    """Return the number of a step as operators take it, or its slot if the number may not fit int32."""
    if isinstance(t, np.ndarray) and t.size == 1 and t.dtype.kind in "iu":
        t = t.item()
    if isinstance(t, (jax.Array, np.ndarray)):
        step = jnp.asarray(t)
        if not jnp.issubdtype(step.dtype, jnp.integer) or step.size != 1:
            raise TypeError(
                f"{where}: t is {step.dtype} of shape {step.shape}; pass one integer, the number of the step"
            )
        fits = step.dtype.itemsize < 4 or step.dtype == jnp.int32
        return (step if fits else jnp.mod(step, slots)).reshape(1).astype("int32")
    try:
        number = operator.index(t)
    except TypeError:
        raise TypeError(f"{where}: t is {t!r}; pass one integer, the number of the step") from None
    return jnp.full(1, number % slots, "int32")
