# SPDX-License-Identifier: Apache-2.0
"""Primitives of JAX that move or reduce elements of small arrays, unrolled into scalars."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from .form import Operand, constant
from .writer import Values, Writer, boxed

__all__ = ["MOVES", "chosen"]

Eqn = Any


def chosen(writer: Writer, index: Operand, options: list[Operand]) -> Operand:
    """Return options[index], of the first or last option where the index is out of range."""
    result = options[-1]
    for place in range(len(options) - 2, -1, -1):
        here = writer.emit("le", index, constant(place, index.dtype))
        result = writer.emit("select", here, options[place], result)
    return result


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
    return np.flip(x, eqn.params["dimensions"])


def _iota(writer: Writer, eqn: Eqn, *_: Values) -> Values:
    aval, axis = eqn.outvars[0].aval, eqn.params["dimension"]
    dtype = str(aval.dtype)
    return boxed([constant(place[axis], dtype) for place in np.ndindex(*aval.shape)], aval.shape)


def _pieces(x: Values, sizes: tuple[int, ...]) -> list[tuple[tuple[int, ...], Values]]:
    """Return every start at which a piece of such sizes lies within x, with the piece."""
    starts = itertools.product(*(range(whole - size + 1) for whole, size in zip(x.shape, sizes, strict=True)))
    return [(s, x[tuple(slice(a, a + size) for a, size in zip(s, sizes, strict=True))]) for s in starts]


def _dynamic_slice(writer: Writer, eqn: Eqn, x: Values, *starts: Values) -> Values:
    """Clamp the starts, as XLA does, by choosing among all pieces: axis by axis, the last one first."""
    sizes = eqn.params["slice_sizes"]
    table = dict(_pieces(x, sizes))
    for axis in range(x.ndim - 1, -1, -1):
        places = range(x.shape[axis] - sizes[axis] + 1)
        heads = dict.fromkeys(start[:axis] for start in table)
        table = {
            head: _chosen_piece(writer, starts[axis].item(), [table[(*head, place)] for place in places])
            for head in heads
        }
    return table[()]


def _chosen_piece(writer: Writer, index: Operand, pieces: list[Values]) -> Values:
    flat = [piece.reshape(-1) for piece in pieces]
    return boxed([chosen(writer, index, list(options)) for options in zip(*flat, strict=True)], pieces[0].shape)


def _dynamic_update_slice(writer: Writer, eqn: Eqn, x: Values, update: Values, *starts: Values) -> Values:
    if x.ndim != 1:
        raise NotImplementedError("of more than one dimension")
    last = len(x) - len(update)
    start = writer.emit("max", starts[0].item(), constant(0, starts[0].item().dtype))
    start = writer.emit("min", start, constant(last, start.dtype))
    result = x.copy()
    for place, offset in itertools.product(range(last + 1), range(len(update))):
        here = writer.emit("eq", start, constant(place, start.dtype))
        result[place + offset] = writer.emit("select", here, update[offset], result[place + offset])
    return result


def _gather(writer: Writer, eqn: Eqn, x: Values, indices: Values) -> Values:
    """Read elements of a vector at indices of any shape."""
    p = eqn.params
    numbers = p["dimension_numbers"]
    if x.ndim != 1 or tuple(numbers.collapsed_slice_dims) != (0,) or tuple(p["slice_sizes"]) != (1,):
        raise NotImplementedError("other than elements of a vector")
    result = []
    for index in indices.reshape(-1):
        element = chosen(writer, index, list(x))
        if p["mode"] == GatherScatterMode.FILL_OR_DROP:
            inside = writer.emit("ge", index, constant(0, index.dtype))
            within = writer.emit("lt", index, constant(len(x), index.dtype))
            fill = constant(_fill(p["fill_value"], element.dtype), element.dtype)
            element = writer.emit("select", writer.emit("and", inside, within), element, fill)
        result.append(element)
    return boxed(result, eqn.outvars[0].aval.shape)


def _fill(value: Any, dtype: str) -> Any:
    if value is not None:
        return value
    return {"float32": np.nan, "int32": -(2**31), "uint32": 2**32 - 1, "bool": True}[dtype]


def _reduced(op: str, writer: Writer, eqn: Eqn, x: Values) -> Values:
    """Reduce from the first element to the last, in this order."""
    axes = eqn.params["axes"]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose(kept + list(axes)).reshape([x.shape[axis] for axis in kept] + [-1])
    shape = rows.shape[:-1]
    reduced = [functools.reduce(functools.partial(writer.emit, op), rows[place]) for place in np.ndindex(*shape)]
    return boxed(reduced, shape) if shape else boxed(reduced[0])


def _cumulative(op: str, writer: Writer, eqn: Eqn, x: Values) -> Values:
    if x.ndim != 1:
        raise NotImplementedError("of more than one dimension")
    row = list(x[::-1] if eqn.params["reverse"] else x)
    sums = list(itertools.accumulate(row, functools.partial(writer.emit, op)))
    return boxed(sums[::-1] if eqn.params["reverse"] else sums, x.shape)


def _arg(op: str, writer: Writer, eqn: Eqn, x: Values) -> Values:
    """Return the place of the first largest (smallest) element, or of the first NaN."""
    if x.ndim != 1:
        raise NotImplementedError("of more than one dimension")
    dtype = str(eqn.outvars[0].aval.dtype)
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
    if new.dtype != "float32":
        return better
    better = writer.emit("or", better, writer.emit("ne", new, new))
    return writer.emit("and", better, writer.emit("eq", best, best))


def _dot_general(writer: Writer, eqn: Eqn, a: Values, b: Values) -> Values:
    if a.ndim != 1 or b.ndim != 1 or eqn.params["dimension_numbers"][0] != ((0,), (0,)):
        raise NotImplementedError("other than the product of two vectors")
    products = [writer.emit("mul", x, y) for x, y in zip(a, b, strict=True)]
    return boxed(functools.reduce(functools.partial(writer.emit, "add"), products))


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
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
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
