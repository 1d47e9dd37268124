# SPDX-License-Identifier: Apache-2.0
"""Primitives of JAX that move or reduce elements of small arrays, unrolled into scalars."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .form import FLOATS, Operand, constant, held_dtype
from .indexed import INDEXED
from .writer import Values, Writer, boxed

__all__ = ["MOVES", "SPLITS"]

Eqn = Any


def _broadcast_in_dim(writer: Writer, eqn: Eqn, x: Values, *_: Values) -> Values:
    shape = [1] * len(eqn.params["shape"])
    for axis, size in zip(eqn.params["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), eqn.params["shape"])


def _reshape(writer: Writer, eqn: Eqn, x: Values, *_: Values) -> Values:
    return x.reshape(eqn.outvars[0].aval.shape)


def _concatenate(writer: Writer, eqn: Eqn, *parts: Values) -> Values:
    return np.concatenate(parts, axis=eqn.params["dimension"])


def _stack(writer: Writer, eqn: Eqn, *parts: Values) -> Values:
    return np.stack(parts, axis=eqn.params["axis"])


def _slice(writer: Writer, eqn: Eqn, x: Values) -> Values:
    p = eqn.params
    strides = p["strides"] or (1,) * x.ndim
    return x[tuple(itertools.starmap(slice, zip(p["start_indices"], p["limit_indices"], strides, strict=True)))]


def _transpose(writer: Writer, eqn: Eqn, x: Values) -> Values:
    return x.transpose(eqn.params["permutation"])


def _rev(writer: Writer, eqn: Eqn, x: Values) -> Values:
    return np.flip(x, eqn.params["dimensions"]) if x.ndim else x


def _empty(writer: Writer, eqn: Eqn) -> Values:
    """Return zeros, which XLA gives on a CPU as well."""
    aval = eqn.outvars[0].aval
    return boxed([constant(0, held_dtype(aval.dtype))] * aval.size, aval.shape)


def _iota(writer: Writer, eqn: Eqn, *_: Values) -> Values:
    aval, axis = eqn.outvars[0].aval, eqn.params["dimension"]
    dtype = held_dtype(aval.dtype)
    return boxed([constant(place[axis], dtype) for place in np.ndindex(*aval.shape)], aval.shape)


def _reduced(op: str, writer: Writer, eqn: Eqn, x: Values) -> Values:
    """Reduce from the first element to the last, in this order."""
    axes = eqn.params["axes"]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose(kept + list(axes)).reshape([x.shape[axis] for axis in kept] + [-1])
    shape = rows.shape[:-1]
    reduced = [functools.reduce(functools.partial(writer.emit, op), rows[place]) for place in np.ndindex(*shape)]
    return boxed(reduced, shape) if shape else boxed(reduced[0])


def _cumulative(op: str, writer: Writer, eqn: Eqn, x: Values) -> Values:
    """Accumulate along an axis, from its first element or its last."""
    rows = np.moveaxis(np.flip(x, eqn.params["axis"]) if eqn.params["reverse"] else x, eqn.params["axis"], -1)
    sums = np.empty(rows.shape, object)
    for place in np.ndindex(*rows.shape[:-1]):
        sums[place] = list(itertools.accumulate(rows[place], functools.partial(writer.emit, op)))
    sums = np.moveaxis(sums, -1, eqn.params["axis"])
    return np.flip(sums, eqn.params["axis"]) if eqn.params["reverse"] else sums


def _arg(op: str, writer: Writer, eqn: Eqn, x: Values) -> Values:
    """Return the place of the first largest (smallest) element, or of the first NaN."""
    if x.ndim != 1:
        raise NotImplementedError("of more than one dimension")
    dtype = held_dtype(eqn.outvars[0].aval.dtype)
    best, place = x[0], constant(0, dtype)
    found: Operand = place
    for k in range(1, len(x)):
        better = _better(writer, op, x[k], best)
        best = writer.emit("select", better, x[k], best)
        found = writer.emit("select", better, constant(k, dtype), found)
    return boxed(found)


def _better(writer: Writer, op: str, new: Operand, best: Operand) -> Operand:
    if new.dtype == "bool":
        new, best = (writer.emit("convert", x, dtype="int32") for x in (new, best))
    better = writer.emit(op, new, best)
    if new.dtype not in FLOATS:
        return better
    better = writer.emit("or", better, writer.emit("ne", new, new))
    return writer.emit("and", better, writer.emit("eq", best, best))


def _dot_general(writer: Writer, eqn: Eqn, a: Values, b: Values) -> Values:
    """Multiply vectors and matrices: products are added from the first to the last, in this order."""
    (axes_a, axes_b), batch = eqn.params["dimension_numbers"]
    if batch != ((), ()):
        raise NotImplementedError("of batches")
    dtype = held_dtype(eqn.outvars[0].aval.dtype)
    rows, columns = (_converted(writer, _last(x, axes), dtype) for x, axes in ((a, axes_a), (b, axes_b)))
    result = np.empty(rows.shape[:-1] + columns.shape[:-1], object)
    for i, j in itertools.product(np.ndindex(*rows.shape[:-1]), np.ndindex(*columns.shape[:-1])):
        products = [writer.emit("mul", x, y) for x, y in zip(rows[i], columns[j], strict=True)]
        result[i + j] = functools.reduce(functools.partial(writer.emit, "add"), products)
    return result


def _converted(writer: Writer, x: Values, dtype: str) -> Values:
    items = (item if item.dtype == dtype else writer.emit("convert", item, dtype=dtype) for item in x.reshape(-1))
    return boxed(items, x.shape)


def _last(x: Values, axes: Sequence[int]) -> Values:
    """Return an array with some axes as one, the last."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return x.transpose([*kept, *axes]).reshape([*(x.shape[axis] for axis in kept), -1])


def _pad(writer: Writer, eqn: Eqn, x: Values, value: Values) -> Values:
    """Pad before, after and between the elements of each axis; a negative number takes away."""
    for axis, (low, high, between) in enumerate(eqn.params["padding_config"]):
        size = x.shape[axis] + max(x.shape[axis] - 1, 0) * between
        wide = np.full([*x.shape[:axis], max(low, 0) + size + max(high, 0), *x.shape[axis + 1 :]], value.item(), object)
        inside = np.moveaxis(wide, axis, 0)
        inside[max(low, 0) : max(low, 0) + size : between + 1] = np.moveaxis(x, axis, 0)
        x = np.moveaxis(inside[max(-low, 0) : len(inside) - max(-high, 0)], 0, axis)
    return x


def _split(eqn: Eqn, x: Values) -> list[Values]:
    return np.split(x, np.cumsum(eqn.params["sizes"])[:-1], axis=eqn.params["axis"])


def _unstack(eqn: Eqn, x: Values) -> list[Values]:
    return [boxed(part.reshape(-1), part.shape) for part in _parts(x, eqn.params["axis"])]


def _parts(x: Values, axis: int) -> Iterator[Values]:
    for place in range(x.shape[axis]):
        yield x.take([place], axis).squeeze(axis)


# By primitive of JAX: functions of the writer, the equation and its operands' values.
MOVES: dict[str, Callable[..., Values]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "concatenate": _concatenate,
    "stack": _stack,
    "slice": _slice,
    "transpose": _transpose,
    "rev": _rev,
    "iota": _iota,
    "empty": _empty,
    "tile": lambda writer, eqn, x: np.tile(x, eqn.params["reps"]),
    "pad": _pad,
    **INDEXED,
    "dot_general": _dot_general,
    "argmax": functools.partial(_arg, "gt"),
    "argmin": functools.partial(_arg, "lt"),
    **{f"reduce_{name}": functools.partial(_reduced, op) for name, op in {
        "sum": "add", "prod": "mul", "max": "max", "min": "min", "and": "and", "or": "or", "xor": "xor",
    }.items()},
    **{f"cum{name}": functools.partial(_cumulative, op) for name, op in {
        "sum": "add", "prod": "mul", "max": "max", "min": "min",
    }.items()},
}  # fmt: skip
# By primitive of JAX: functions of the equation and its operands' values, that return several values.
SPLITS: dict[str, Callable[..., list[Values]]] = {
    "split": _split,
    "unstack": _unstack,
    "optimization_barrier": lambda eqn, *x: list(x),
}
