# SPDX-License-Identifier: Apache-2.0
"""Primitives of JAX that move, reduce, read or write elements of small arrays, unrolled into scalars."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from .form import FLOATS, Constant, Operand, Values, Writer, boxed, constant, form_dtype, held_dtype

__all__ = ["INDEXED", "MOVES", "SPLITS", "chosen"]

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


_COMBINED = ("add", "sub", "mul", "max", "min")

Place = tuple[int, ...]


def chosen(writer: Writer, index: Operand, options: list[Operand]) -> Operand:
    """Return options[index], of the first or last option where the index is out of range."""
    result = options[-1]
    for place in range(len(options) - 2, -1, -1):
        here = writer.emit("le", index, constant(place, index.dtype))
        result = writer.emit("select", here, options[place], result)
    return result


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


def _here(writer: Writer, starts: Sequence[Operand], place: Place) -> Operand:
    """Return whether starts are a place."""
    equal = [writer.emit("eq", start, constant(k, start.dtype)) for start, k in zip(starts, place, strict=True)]
    if any(isinstance(operand, Constant) and not operand.value for operand in equal):
        return constant(False, "bool")
    unknown = [operand for operand in equal if not isinstance(operand, Constant)]
    if not unknown:
        return constant(True, "bool")
    result: Operand = unknown[0]
    for operand in unknown[1:]:
        result = writer.emit("and", result, operand)
    return result


def _write(
    writer: Writer,
    op: str,
    result: Values,
    starts: Sequence[Operand],
    places: Iterable[Place],
    piece: dict[Place, Operand],
) -> None:
    """Write a piece, given by offsets, at one of the places; nowhere if starts are none of them."""
    for place in places:
        here = _here(writer, starts, place)
        if isinstance(here, Constant) and not here.value:
            continue
        for offset, value in piece.items():
            target = tuple(a + b for a, b in zip(place, offset, strict=True))
            new = writer.emit(op, result[target], value) if op else value
            result[target] = writer.emit("select", here, new, result[target])


def _clamped(writer: Writer, start: Operand, last: int) -> Operand:
    start = writer.emit("max", start, constant(0, start.dtype))
    return writer.emit("min", start, constant(last, start.dtype))


def _dynamic_update_slice(writer: Writer, eqn: Eqn, x: Values, update: Values, *starts: Values) -> Values:
    result = x.copy()
    last = [whole - size for whole, size in zip(x.shape, update.shape, strict=True)]
    clamped = [_clamped(writer, start.item(), most) for start, most in zip(starts, last, strict=True)]
    places = itertools.product(*(range(most + 1) for most in last))
    _write(writer, "", result, clamped, places, dict(np.ndenumerate(update)))
    return result


def _gather(writer: Writer, eqn: Eqn, x: Values, indices: Values) -> Values:
    """Read elements of a vector at indices of any shape."""
    p = eqn.params
    numbers = p["dimension_numbers"]
    if x.ndim != 1 or tuple(numbers.collapsed_slice_dims) != (0,) or tuple(p["slice_sizes"]) != (1,):
        raise NotImplementedError("of more than elements of a vector")
    result = []
    for index in indices.reshape(-1):
        element = chosen(writer, index, list(x))
        if p["mode"] == GatherScatterMode.FILL_OR_DROP:
            inside = writer.emit("ge", index, constant(0, index.dtype))
            within = writer.emit("lt", index, constant(len(x), index.dtype))
            fill = constant(_fill(p["fill_value"], eqn.outvars[0].aval.dtype), element.dtype)
            element = writer.emit("select", writer.emit("and", inside, within), element, fill)
        result.append(element)
    return boxed(result, eqn.outvars[0].aval.shape)


def _fill(value: Any, dtype: Any) -> Any:
    """Return what JAX reads beyond an array: NaN, the lowest integer, or for unsigned ones the highest."""
    if value is not None:
        return value
    kind = np.dtype(dtype).kind
    if kind in "bf":
        return True if kind == "b" else np.nan
    bounds = np.iinfo(form_dtype(dtype))
    return bounds.min or bounds.max


def _scatter(op: str, writer: Writer, eqn: Eqn, x: Values, indices: Values, updates: Values) -> Values:
    """Write windows of the updates, one for each vector of indices; those that do not lie within are left out."""
    p, numbers = eqn.params, eqn.params["dimension_numbers"]
    if numbers.operand_batching_dims:
        raise NotImplementedError("of batches")
    window = [axis for axis in range(x.ndim) if axis not in numbers.inserted_window_dims]
    sizes = [1] * x.ndim
    for axis, place in zip(window, numbers.update_window_dims, strict=True):
        sizes[axis] = updates.shape[place]
    moved = list(numbers.scatter_dims_to_operand_dims)
    last = {axis: x.shape[axis] - sizes[axis] for axis in moved}
    windows = np.moveaxis(updates, numbers.update_window_dims, range(-len(window), 0)) if window else updates
    result = x.copy()
    for batch in np.ndindex(*indices.shape[:-1]):
        starts = {axis: indices[(*batch, k)] for k, axis in enumerate(moved)}
        if p["mode"] == GatherScatterMode.CLIP:
            starts = {axis: _clamped(writer, start, last[axis]) for axis, start in starts.items()}
        every = [starts.get(axis, constant(0, "int32")) for axis in range(x.ndim)]
        places = itertools.product(*(range(last.get(axis, 0) + 1) for axis in range(x.ndim)))
        piece = boxed(np.ravel(windows[batch]) if window else [windows[batch]], tuple(sizes))
        _write(writer, op, result, every, places, dict(np.ndenumerate(piece)))
    return result


# By primitive of JAX: functions of the writer, the equation and its operands' values.
INDEXED: dict[str, Callable[..., Values]] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": functools.partial(_scatter, ""),
    **{f"scatter{dash}{op}": functools.partial(_scatter, op) for dash in "-_" for op in _COMBINED},
}

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
    "empty2": _empty,
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
