# SPDX-License-Identifier: Apache-2.0
"""What runs between loops over elements on a GPU: each element of a result is one thread's, or one warp's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jax import lax

from ..values import NARROW, Call, Texts, UnfitError
from .kernels import native_call
from .nests import coordinates, each, place_in
from .numbers import literal, stored
from .phases import Phase, owned, shared
from .sums import REDUCTIONS, per_element

__all__ = ["BOXED", "CALLED"]

_FILLS = lax.GatherScatterMode.FILL_OR_DROP
_CLIPS = lax.GatherScatterMode.CLIP


def _write_boxed(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
    return [Phase([f"if (tid == 0) {out[0]}[0] = {x[0]};"], owned(writes=out))]


BOXED = Call("a scalar", _write_boxed, scalars=frozenset((0,)))


def _concatenate(eqn: Any) -> Call:
    axis, shapes, out = eqn.params["dimension"], [v.aval.shape for v in eqn.invars], eqn.outvars[0].aval
    rank = len(out.shape)

    def lines(x: Sequence[str], to: str) -> Texts:
        found, start, word = [], 0, ""
        for text, shape in zip(x, shapes, strict=True):
            if not math.prod(shape):
                continue
            place = place_in(shape, [f"i{a} - {start}" if a == axis else f"i{a}" for a in range(rank)])
            start += shape[axis]
            found.append(f"{word}if (i{axis} < {start}) {to} = {text}[{place}];")
            word = "else "
        return found

    return per_element("concatenate", out.shape, lines)


def _iota(eqn: Any) -> Call:
    out, axis = eqn.outvars[0].aval, eqn.params["dimension"]
    kind = stored(out.dtype, "iota")
    return per_element("iota", out.shape, lambda x, to: [f"{to} = ({kind})i{axis};"])


def _pad(eqn: Any) -> Call:
    """Return an array within a larger one: elements that are cut off are those beyond its ends."""
    shape, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    axes, kind = list(enumerate(eqn.params["padding_config"])), stored(eqn.outvars[0].aval.dtype, "pad")

    def lines(x: Sequence[str], to: str) -> Texts:
        found = [f"const int k{a} = i{a} - ({low});" for a, (low, _, _) in axes]
        inside = [
            f"k{a} >= 0 && k{a} % {within + 1} == 0 && k{a} / {within + 1} < {shape[a]}" for a, (_, _, within) in axes
        ]
        place = place_in(shape, [f"k{a} / {within + 1}" for a, (_, _, within) in axes])
        return [*found, f"{to} = {' && '.join(inside) or 'true'} ? {x[0]}[{place}] : ({kind}){x[1]};"]

    return per_element("pad", out, lines, scalars=frozenset((1,)))


# ---- slices and indices


def _begin(text: str, dtype: Any, most: int) -> str:
    """Return where a slice begins: moved so that it lies within the array, as XLA does."""
    if str(dtype).startswith("u"):
        return f"(int)({text} > {most}u ? {most}u : {text})"
    return f"(int)({text} < 0 ? 0 : {text} > {most} ? {most} : {text})"


def _begins(x: Sequence[str], avals: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]) -> Texts:
    parts = enumerate(zip(x, avals, shape, sizes, strict=True))
    return [f"const int k{a} = {_begin(text, aval.dtype, n - m)};" for a, (text, aval, n, m) in parts]


def _dynamic_slice(eqn: Any) -> Call:
    shape, sizes = eqn.invars[0].aval.shape, eqn.params["slice_sizes"]
    place = place_in(shape, [f"k{a} + i{a}" for a in range(len(shape))])
    avals = [var.aval for var in eqn.invars[1:]]

    def lines(x: Sequence[str], to: str) -> Texts:
        return [*_begins(x[1:], avals, shape, sizes), f"{to} = {x[0]}[{place}];"]

    return per_element("dynamic_slice", sizes, lines, scalars=frozenset(range(1, len(eqn.invars))))


def _dynamic_update(eqn: Any) -> Call:
    """Return an array with another part: in place only this is written."""
    shape, sizes = (var.aval.shape for var in eqn.invars[:2])
    avals = [var.aval for var in eqn.invars[2:]]

    def write(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        copies = [] if x[0] == out[0] else [tools.copied(out[0], x[0], math.prod(shape))]
        tools.spread(math.prod(sizes))
        place = place_in(shape, [f"k{a} + i{a}" for a in range(len(shape))])
        begins = _begins(x[2:], avals, shape, sizes)
        body = [*coordinates(sizes), *begins, f"{out[0]}[{place}] = {x[1]}[i];"]
        reads = shared(x[1:2]) if "+" in x[1] else owned(x[1:2])
        return [*copies, Phase(each(math.prod(sizes), body), shared(writes=out) | reads)]

    return Call("dynamic_update_slice", write, frozenset(range(2, len(eqn.invars))), reuses=((0, 0),))


def _window(
    at: str, var: Any, axes: Sequence[int], around: Sequence[str], most: Sequence[int], *, clips: bool
) -> Texts:
    """Return lines that find where a window begins along axes, and whether it lies `inside`."""
    lines, conditions, shape = [], [], var.aval.shape
    for k, (axis, last) in enumerate(zip(axes, most, strict=True)):
        found = f"{at}[{place_in(shape, [*around, str(k)])}]"
        if str(var.aval.dtype) == "uint64":
            found = f"({found} > 0x7FFFFFFFFFFFFFFFull ? 0x7FFFFFFFFFFFFFFFll : (long long){found})"
        conditions.append(f"(at{axis} >= 0 && at{axis} <= {last})")
        kind = "long long" if str(var.aval.dtype) in ("uint32", "int64", "uint64") else "int"
        lines.append(f"const {kind} at{axis} = {found};")
        lines.append(f"const int k{axis} = at{axis} < 0 ? 0 : at{axis} > {last} ? {last} : (int)at{axis};")
    return [*lines, f"const bool inside = {'true' if clips else ' && '.join(conditions) or 'true'};"]


def _places(shape: Sequence[int], starts: Sequence[int], *parts: dict[int, str]) -> str:
    names = ([f"k{a}"] * (a in starts) + [d[a] for d in parts if a in d] for a in range(len(shape)))
    return place_in(shape, [" + ".join(each) or "0" for each in names])


def _gather(eqn: Any) -> Call:
    p, d = eqn.params, eqn.params["dimension_numbers"]
    shape, out, dtype = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape, str(eqn.outvars[0].aval.dtype)
    stored(dtype, "gather")
    around = [f"i{axis}" for axis in range(len(out)) if axis not in d.offset_dims]
    whole = [a for a in range(len(shape)) if a not in (*d.collapsed_slice_dims, *d.operand_batching_dims)]
    window = {axis: f"i{to}" for axis, to in zip(whole, sorted(d.offset_dims), strict=True)}
    batch = {a: around[b] for a, b in zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True)}
    most = [shape[axis] - p["slice_sizes"][axis] for axis in d.start_index_map]
    if min(most, default=0) < 0:
        raise UnfitError("a gather from an array that is smaller than what is read")
    fills = p["mode"] == _FILLS
    place = _places(shape, d.start_index_map, batch, window)

    def lines(x: Sequence[str], to: str) -> Texts:
        begins = _window(x[1], eqn.invars[1], d.start_index_map, around, most, clips=not fills)
        other = literal(p["fill_value"], dtype) if fills else f"{x[0]}[0]"
        return [*begins, f"{to} = inside ? {x[0]}[{place}] : {other};"]

    return per_element("gather", out, lines)


def _scatter(eqn: Any) -> Call:
    """Return updates in place, all at once: those of the same element are added in any order."""
    name, d = eqn.primitive.name, eqn.params["dimension_numbers"]
    shape, _, updates = (var.aval.shape for var in eqn.invars)
    dtype = str(eqn.invars[0].aval.dtype)
    stored(dtype, name)
    if name not in ("scatter", "scatter-add", "scatter-sub") or (dtype in ("bool", *NARROW) and name != "scatter"):
        raise UnfitError(f"{name} of {dtype}, on a GPU")
    if name == "scatter" and not eqn.params["unique_indices"] and math.prod(eqn.invars[1].aval.shape[:-1]) > 1:
        raise UnfitError("scatter of indices that may be equal, on a GPU; say unique_indices=True if they are not")
    around = [f"i{axis}" for axis in range(len(updates)) if axis not in d.update_window_dims]
    whole = [a for a in range(len(shape)) if a not in (*d.inserted_window_dims, *d.operand_batching_dims)]
    of_window = dict(zip(whole, d.update_window_dims, strict=True))
    window = {axis: f"i{to}" for axis, to in of_window.items()}
    batch = {a: around[b] for a, b in zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True)}
    starts = d.scatter_dims_to_operand_dims
    most = [shape[a] - (updates[of_window[a]] if a in of_window else 1) for a in starts]
    place = _places(shape, starts, batch, window)
    clips = lax.GatherScatterMode.from_any(eqn.params["mode"]) == _CLIPS
    sign = "-" if name == "scatter-sub" else ""
    of_words = dtype == "int64"  # sums have the same bits with and without a sign
    added = "atomicAdd((unsigned long long*)({0}), (unsigned long long)({1}));" if of_words else "atomicAdd({0}, {1});"

    def write(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        copies = [] if x[0] == out[0] else [tools.copied(out[0], x[0], math.prod(shape))]
        tools.spread(math.prod(updates))
        new = f"{x[2]}[i]"
        line = f"{out[0]}[{place}] = {new};" if name == "scatter" else added.format(f"{out[0]} + ({place})", sign + new)
        begins = _window(x[1], eqn.invars[1], starts, around, most, clips=clips)
        body = [*coordinates(updates), *begins, f"if (inside) {line}"]
        return [*copies, Phase(each(math.prod(updates), body), shared(x[1:], out))]

    return Call(name, write, reuses=((0, 0),))


# By primitive of JAX: functions of an equation.
CALLED: dict[str, Callable[[Any], Call]] = {
    "native_call": native_call,
    "concatenate": _concatenate,
    "iota": _iota,
    "pad": _pad,
    **REDUCTIONS,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "gather": _gather,
    **dict.fromkeys(("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"), _scatter),
}
