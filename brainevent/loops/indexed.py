# SPDX-License-Identifier: Apache-2.0
"""Arrays of indices in a loop: gather and scatter; and what runs along an axis: sums so far, the largest, padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from .copies import Helper, copied, nest
from .values import Call, Texts, Tools, UnfitError, check_dtype

__all__ = ["EXTREMES", "INDEXED", "wrapped"]

# Of two numbers: NaN wins, and of equal ones the second.
EXTREMES = {
    "max": "{0} if ({0} > {1}) | ({0} != {0}) else {1}",
    "min": "{0} if ({0} < {1}) | ({0} != {0}) else {1}",
}
_FILLS = lax.GatherScatterMode.FILL_OR_DROP
_CLIPS = lax.GatherScatterMode.CLIP


def wrapped(dtype: str, text: str) -> str:
    """Return an expression with the bits of its dtype: Numba computes integers in 64."""
    return text if dtype == "bool" else f"np.{dtype}({text})"


def _literal(value: Any, dtype: str) -> str:
    number = np.asarray(value, dtype)[()]
    if dtype == "bool":
        return str(bool(number))
    text = repr(number.item())
    return f"np.{dtype}({text if np.isfinite(number) else text.replace('inf', 'np.inf').replace('nan', 'np.nan')})"


def _starts(
    x: str, dtype: Any, axes: Sequence[int], of_batch: Sequence[str], sizes: Sequence[int], *, clips: bool
) -> Texts:
    """Return lines that find where a window begins along axes, and unless it `clips`, whether it lies `inside`.

    `sizes` are the largest places along these axes.
    """
    lines, conditions = [], []
    for k, (axis, most) in enumerate(zip(axes, sizes, strict=True)):
        place = f"{x}[{', '.join([*of_batch, str(k)])}]"
        if str(dtype) == "uint64":  # the upper half of them would be negative
            place = f"min({place}, np.uint64({2**63 - 1}))"
        lines.append(f"k{axis} = np.int64({place})")
        conditions.append(f"(k{axis} >= 0) & (k{axis} <= {most})")
    if not clips:
        lines.append(f"inside = {' & '.join(conditions) or 'True'}")
    for axis, most in zip(axes, sizes, strict=True):  # Numba's min and max are no vector instructions
        lines += [f"k{axis} = 0 if k{axis} < 0 else k{axis}", f"k{axis} = {most} if k{axis} > {most} else k{axis}"]
    return lines


def _places(rank: int, starts: Sequence[int], batch: dict[int, str], window: dict[int, str]) -> str:
    """Return the index of an element of a window: its beginning, if it has one, and the place in it."""
    parts = ([f"k{axis}"] * (axis in starts) + [d[axis] for d in (batch, window) if axis in d] for axis in range(rank))
    # Unsigned numbers index arrays without a test.
    return ", ".join(f"np.uint64({' + '.join(each) or '0'})" for each in parts) or "()"


def _gather(eqn: Any) -> Call:
    p, d = eqn.params, eqn.params["dimension_numbers"]
    shape, out, dtype = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape, str(eqn.outvars[0].aval.dtype)
    around = [f"i{axis}" for axis in range(len(out)) if axis not in d.offset_dims]
    whole = [a for a in range(len(shape)) if a not in (*d.collapsed_slice_dims, *d.operand_batching_dims)]
    window = {axis: f"i{to}" for axis, to in zip(whole, sorted(d.offset_dims), strict=True)}
    batch = {a: around[b] for a, b in zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True)}
    most = [shape[axis] - p["slice_sizes"][axis] for axis in d.start_index_map]
    value = f"x[{_places(len(shape), d.start_index_map, batch, window)}]"
    if p["mode"] == _FILLS:
        value = f"{value} if inside else {_literal(p['fill_value'], check_dtype(dtype, 'gather'))}"
    line = f"out[{', '.join(f'i{axis}' for axis in range(len(out))) or '()'}] = {value}"
    inner = nest([f"i{axis}" for axis in d.offset_dims], [out[axis] for axis in d.offset_dims], [line])
    kind, clips = eqn.invars[1].aval.dtype, p["mode"] != _FILLS
    lines = [*_starts("at", kind, d.start_index_map, around, most, clips=clips), *inner]
    body = nest(around, [n for axis, n in enumerate(out) if axis not in d.offset_dims], lines)
    if min(most, default=0) < 0:
        raise UnfitError("a gather from an array that is smaller than what is read")

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        return [f"{tools.function('gather', Helper('x, at, out', tuple(body)))}({x[0]}, {x[1]}, {out[0]})"]

    return Call("gather", write)


# By primitive: what becomes of an element and its update.
_UPDATES = {
    "scatter": "{1}",
    "scatter-add": "{0} + {1}",
    "scatter-sub": "{0} - {1}",
    "scatter-mul": "{0} * {1}",
    "scatter-min": EXTREMES["min"],
    "scatter-max": EXTREMES["max"],
}


def _scatter(eqn: Any) -> Call:
    """Return updates in the order of the indices, in place; those that are out of range are dropped, or clipped."""
    name, d = eqn.primitive.name, eqn.params["dimension_numbers"]
    shape, _, updates = (var.aval.shape for var in eqn.invars)
    dtype = check_dtype(eqn.invars[0].aval.dtype, f"{name} of numbers")
    if dtype == "bool" and name != "scatter":
        raise UnfitError(f"{name} of bool")
    around = [f"i{axis}" for axis in range(len(updates)) if axis not in d.update_window_dims]
    whole = [a for a in range(len(shape)) if a not in (*d.inserted_window_dims, *d.operand_batching_dims)]
    of_window = dict(zip(whole, d.update_window_dims, strict=True))
    window = {axis: f"i{to}" for axis, to in of_window.items()}
    batch = {a: around[b] for a, b in zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True)}
    sizes = [updates[of_window[axis]] if axis in of_window else 1 for axis in range(len(shape))]
    starts = d.scatter_dims_to_operand_dims
    place = f"out[{_places(len(shape), starts, batch, window)}]"
    update = f"new[{', '.join(f'i{axis}' for axis in range(len(updates))) or '()'}]"
    line = f"{place} = {wrapped(dtype, _UPDATES[name].format(place, update))}"
    inner = nest(
        [f"i{axis}" for axis in d.update_window_dims], [updates[axis] for axis in d.update_window_dims], [line]
    )
    clips = lax.GatherScatterMode.from_any(eqn.params["mode"]) == _CLIPS
    if not clips:
        inner = ["if inside:", *("    " + line for line in inner)]
    most = [shape[axis] - sizes[axis] for axis in starts]
    lines = [*_starts("at", eqn.invars[1].aval.dtype, starts, around, most, clips=clips), *inner]
    body = nest(around, [n for axis, n in enumerate(updates) if axis not in d.update_window_dims], lines)

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        copies = [] if x[0] == out[0] else [copied(tools, out[0], x[0], shape)]
        return [*copies, f"{tools.function('scatter', Helper('at, new, out', tuple(body)))}({x[1]}, {x[2]}, {out[0]})"]

    return Call(name, write, reuses=((0, 0),))


# By primitive: the next value of what has been seen so far, and an element.
_SO_FAR = {"cumsum": "{0} + {1}", "cumprod": "{0} * {1}", "cummax": EXTREMES["max"], "cummin": EXTREMES["min"]}


def _cumulative(eqn: Any) -> Call:
    name, axis, aval = eqn.primitive.name, eqn.params["axis"], eqn.invars[0].aval
    dtype = check_dtype(aval.dtype, f"{name} of numbers")
    if dtype == "bool":
        raise UnfitError(f"{name} of bool")
    index = lambda place: ", ".join(place if a == axis else f"i{a}" for a in range(len(aval.shape)))  # noqa: E731
    last = aval.shape[axis] - 1
    first, place = (str(last), f"{last} - i{axis}") if eqn.params["reverse"] else ("0", f"i{axis}")
    lines = [
        f"total = x[{index(first)}]",
        f"out[{index(first)}] = total",
        f"for i{axis} in range(1, {aval.shape[axis]}):",
    ]
    lines += [f"    total = {wrapped(dtype, _SO_FAR[name].format('total', f'x[{index(place)}]'))}"]
    lines += [f"    out[{index(place)}] = total"]
    others = [a for a in range(len(aval.shape)) if a != axis]
    body = nest([f"i{a}" for a in others], [aval.shape[a] for a in others], lines)

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        return [f"{tools.function('so_far', Helper('x, out', tuple(body)))}({x[0]}, {out[0]})"]

    return Call(name, write)


def _arg_extreme(eqn: Any) -> Call:
    """Return the first place of the largest or smallest element, or of the first NaN."""
    name, (axis,), aval = eqn.primitive.name, eqn.params["axes"], eqn.invars[0].aval
    check_dtype(aval.dtype, f"{name} of numbers")
    dtype = check_dtype(eqn.outvars[0].aval.dtype, f"{name} returns numbers")
    others = [a for a in range(len(aval.shape)) if a != axis]
    index = lambda place: ", ".join(place if a == axis else f"i{a}" for a in range(len(aval.shape)))  # noqa: E731
    sign = ">" if name == "argmax" else "<"
    lines = [
        "place = 0",
        f"best = x[{index('0')}]",
        f"for i{axis} in range(1, {aval.shape[axis]}):",
        f"    here = x[{index(f'i{axis}')}]",
        f"    if (here {sign} best) | ((here != here) & (best == best)):",
        f"        best, place = here, i{axis}",
        f"out[{', '.join(f'i{a}' for a in others) or '()'}] = np.{dtype}(place)",
    ]
    body = nest([f"i{a}" for a in others], [aval.shape[a] for a in others], lines)

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        return [f"{tools.function('place', Helper('x, out', tuple(body)))}({x[0]}, {out[0]})"]

    return Call(name, write)


def _pad(eqn: Any) -> Call:
    """Return an array within a larger one: elements that are cut off are those beyond its ends."""
    shape, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    axes = range(len(shape))
    places = [
        f"k{axis} = {low} + i{axis} * {1 + within}"
        for axis, (low, _, within) in zip(axes, eqn.params["padding_config"], strict=True)
    ]
    inside = " & ".join(f"(0 <= k{axis}) & (k{axis} < {out[axis]})" for axis in axes) or "True"
    index = lambda letter: ", ".join(f"{letter}{axis}" for axis in axes) or "()"  # noqa: E731
    lines = [*places, f"if {inside}:", f"    out[{index('k')}] = x[{index('i')}]"]
    fill = nest([f"i{axis}" for axis in axes], out, [f"out[{index('i')}] = value"])
    body = [*fill, *nest([f"i{axis}" for axis in axes], shape, lines)]

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        return [f"{tools.function('pad', Helper('x, value, out', tuple(body)))}({x[0]}, {x[1]}, {out[0]})"]

    return Call("pad", write, frozenset((1,)))


# By primitive of JAX: functions of an equation.
INDEXED: dict[str, Callable[[Any], Call]] = {
    "gather": _gather,
    **dict.fromkeys(_UPDATES, _scatter),
    **dict.fromkeys(_SO_FAR, _cumulative),
    "argmax": _arg_extreme,
    "argmin": _arg_extreme,
    "pad": _pad,
}
