# SPDX-License-Identifier: Apache-2.0
"""Primitives of JAX that read or write elements of small arrays at places that are known when the network runs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from .form import Constant, Operand, constant, form_dtype
from .writer import Values, Writer, boxed

__all__ = ["INDEXED", "chosen"]

_COMBINED = ("add", "sub", "mul", "max", "min")

Eqn = Any
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
