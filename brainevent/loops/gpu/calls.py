# SPDX-License-Identifier: Apache-2.0
"""What runs between loops over elements on a GPU: each element of a result is one thread's, or one warp's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from ...scalar.cuda_text import TYPES
from ..values import Call, Texts, UnfitError, check_dtype
from .kernels import native_call
from .nests import coordinates, each, nested, place_in
from .phases import Phase, owned, shared

__all__ = ["BOXED", "CALLED"]

_CHUNK = 1024  # elements that a warp reduces at once
_FILLS = lax.GatherScatterMode.FILL_OR_DROP
_CLIPS = lax.GatherScatterMode.CLIP


def _type(dtype: Any, what: str) -> str:
    if str(dtype) not in TYPES:
        raise UnfitError(f"{what} of {dtype}, on a GPU")
    return TYPES[check_dtype(dtype, what)]


def _literal(value: Any, dtype: str) -> str:
    number = np.asarray(value, dtype)[()]
    if dtype == "bool":
        return "true" if number else "false"
    if dtype == "float32":
        return f"{float(number).hex()}f" if np.isfinite(number) else f"__uint_as_float({number.view(np.uint32)}u)"
    return f"(int){int(number) % 2**32}u" if dtype == "int32" else f"{int(number)}u"


def _per_element(name: str, shape: Sequence[int], lines: Callable[[Sequence[str], str], Texts], **options: Any) -> Call:
    """Return a call each of whose results is made by one thread: lines of operands and of the place of the result."""

    def write(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        tools.spread(math.prod(shape))
        body = [*coordinates(shape), *lines(x, f"{out[0]}[i]")]
        arrays = [text for place, text in enumerate(x) if place not in options.get("scalars", ())]
        return [Phase(each(math.prod(shape), body), shared(arrays) | owned(writes=out))]

    return Call(name, write, **options)


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

    return _per_element("concatenate", out.shape, lines)


def _iota(eqn: Any) -> Call:
    out, axis = eqn.outvars[0].aval, eqn.params["dimension"]
    kind = _type(out.dtype, "iota")
    return _per_element("iota", out.shape, lambda x, to: [f"{to} = ({kind})i{axis};"])


def _pad(eqn: Any) -> Call:
    """Return an array within a larger one: elements that are cut off are those beyond its ends."""
    shape, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    axes = list(enumerate(eqn.params["padding_config"]))

    def lines(x: Sequence[str], to: str) -> Texts:
        found = [f"const int k{a} = i{a} - ({low});" for a, (low, _, _) in axes]
        inside = [
            f"k{a} >= 0 && k{a} % {within + 1} == 0 && k{a} / {within + 1} < {shape[a]}" for a, (_, _, within) in axes
        ]
        place = place_in(shape, [f"k{a} / {within + 1}" for a, (_, _, within) in axes])
        return [*found, f"{to} = {' && '.join(inside) or 'true'} ? {x[0]}[{place}] : {x[1]};"]

    return _per_element("pad", out, lines, scalars=frozenset((1,)))


# ---- reductions

_FLOAT_SUMS = {"+": "__fadd_rn({0}, {1})", "*": "__fmul_rn({0}, {1})"}
_LARGER = "({0} {sign} {1} || {0} != {0} ? {0} : {1})"


def _joined(name: str, dtype: str) -> str:
    """Return how two numbers are reduced to one."""
    if name in ("max", "min"):
        return _LARGER.replace("{sign}", ">" if name == "max" else "<")
    if name in ("or", "and"):
        return "({0} " + ("|" if name == "or" else "&") + " {1})"
    sign = "+" if name == "sum" else "*"
    return _FLOAT_SUMS[sign] if dtype == "float32" else f"({TYPES[dtype]})((unsigned){{0}} {sign} (unsigned){{1}})"


def _neutral(name: str, dtype: str) -> str:
    if name in ("max", "min"):
        low = name == "max"
        if dtype == "float32":
            return _literal(-np.inf if low else np.inf, dtype)
        info = np.iinfo(dtype)
        return _literal(info.min if low else info.max, dtype)
    return {"sum": "0", "prod": "1", "or": "false", "and": "true"}[name]


def _by_warps(
    kind: str, start: str, join: str, x: str, count: int, begin: str, end: str, target: str, place: Texts, index: str
) -> Texts:
    """Return lines in which a warp reduces one of some ranges; lanes take every 32nd element."""
    inner = [*place, f"total = {join.format('total', f'{x}[{index}]')};"]
    return [
        f"for (unsigned w = tid / 32; w < {count}u; w += threads / 32) {{",
        f"    {start}",
        *(f"    {line}" for line in begin.splitlines()),
        f"    for (unsigned n = first + tid % 32; n < {end}; n += 32) {{",
        *(f"        {line}" for line in inner),
        "    }",
        "    for (int lanes = 16; lanes; lanes /= 2) {",
        f"        const {kind} other = ({kind})__shfl_down_sync(~0u, total, lanes);",
        f"        total = {join.format('total', 'other')};",
        "    }",
        f"    if (tid % 32 == 0) {target} = total;",
        "}",
    ]


def _reduction(eqn: Any) -> Call:
    """Return a reduction in an order that does not depend on the number of threads: of lanes, and then of chunks."""
    primitive, axes, aval = eqn.primitive.name, eqn.params["axes"], eqn.invars[0].aval
    name, dtype, kind = primitive.removeprefix("reduce_"), str(aval.dtype), _type(aval.dtype, primitive)
    if (dtype == "bool") != (name in ("or", "and")):
        raise UnfitError(f"{primitive} of {dtype}")
    kept = [a for a in range(len(aval.shape)) if a not in axes]
    outs, size = (math.prod(aval.shape[a] for a in group) for group in (kept, axes))
    join, start = _joined(name, dtype), f"{kind} total = {_neutral(name, dtype)};"
    of_kept = coordinates([aval.shape[a] for a in kept], "m", "m")
    of_summed = coordinates([aval.shape[a] for a in axes], "n", "n")
    names = {a: f"m{k}" for k, a in enumerate(kept)} | {a: f"n{k}" for k, a in enumerate(axes)}
    place = place_in(aval.shape, [names[a] for a in range(len(aval.shape))])

    def write(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        if size < 32:
            tools.spread(outs)
            lines = [
                start,
                f"for (unsigned n = 0; n < {size}u; ++n) {{",
                *of_summed,
                f"total = {join.format('total', f'{x[0]}[{place}]')};",
                "}",
            ]
            return [Phase(each(outs, [*of_kept, *lines, f"{out[0]}[m] = total;"], "m"), shared(x) | owned(writes=out))]
        chunks = -(-size // _CHUNK)
        tools.spread(32 * outs * chunks)
        begin = f"const unsigned m = w / {chunks}u, first = w % {chunks}u * {_CHUNK}u;\n" + "\n".join(of_kept)
        end = f"(first + {_CHUNK}u < {size}u ? first + {_CHUNK}u : {size}u)"
        target = out[0] if chunks == 1 else tools.scratch(dtype, outs * chunks)
        phases = [
            Phase(
                _by_warps(kind, start, join, x[0], outs * chunks, begin, end, f"{target}[w]", of_summed, place),
                shared(x, [target]),
            )
        ]
        if chunks > 1:
            begin, index = "const unsigned first = 0;", f"w * {chunks}u + n"
            lines = _by_warps(kind, start, join, target, outs, begin, f"{chunks}u", f"{out[0]}[w]", [], index)
            phases.append(Phase(lines, shared([target], out)))
        return phases

    return Call(primitive, write)


def _dot_general(eqn: Any) -> Call:
    """Return a dense product, each element of which one thread sums in the order of the factors."""
    dtypes = {str(var.aval.dtype) for var in (*eqn.invars, *eqn.outvars)}
    if len(dtypes) > 1 or dtypes == {"bool"}:
        raise UnfitError(f"a product of {' and '.join(sorted(dtypes))}")
    (dtype,), shapes, out = dtypes, [var.aval.shape for var in eqn.invars], eqn.outvars[0].aval.shape
    kind, (summed, batch) = _type(dtype, "a product"), eqn.params["dimension_numbers"]
    names: list[dict[int, str]] = [{}, {}]
    place = len(batch[0])
    for side in (0, 1):
        names[side] |= {axis: f"i{k}" for k, axis in enumerate(batch[side])}
        names[side] |= {axis: f"c{k}" for k, axis in enumerate(summed[side])}
        for axis in range(len(shapes[side])):
            if axis not in names[side]:
                names[side][axis] = f"i{place}"
                place += 1
    sizes = [shapes[0][axis] for axis in summed[0]]
    places = [place_in(s, [n[a] for a in range(len(s))]) for s, n in zip(shapes, names, strict=True)]
    add, multiply = _joined("sum", dtype), _joined("prod", dtype)

    def lines(x: Sequence[str], to: str) -> Texts:
        product = multiply.format(*(f"{text}[{p}]" for text, p in zip(x, places, strict=True)))
        sums = nested([f"c{k}" for k in range(len(sizes))], sizes, [f"total = {add.format('total', product)};"])
        return [f"{kind} total = 0;", *sums, f"{to} = total;"]

    return _per_element("dot_general", out, lines, work=math.prod(out) * math.prod(sizes))


# ---- along an axis

_SO_FAR = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}


def _lines_along(aval: Any, axis: int) -> tuple[list[int], Callable[[str], str]]:
    others = [a for a in range(len(aval.shape)) if a != axis]
    names = {a: f"i{k}" for k, a in enumerate(others)}
    return [aval.shape[a] for a in others], lambda n: place_in(
        aval.shape, [names.get(a, n) for a in range(len(aval.shape))]
    )


def _cumulative(eqn: Any) -> Call:
    name, axis, aval = eqn.primitive.name, eqn.params["axis"], eqn.invars[0].aval
    dtype, kind = str(aval.dtype), _type(aval.dtype, name)
    if dtype == "bool":
        raise UnfitError(f"{name} of bool")
    others, place = _lines_along(aval, axis)
    last, join = aval.shape[axis] - 1, _joined(_SO_FAR[name], dtype)
    at = place(f"{last} - n" if eqn.params["reverse"] else "n")

    def write(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        tools.spread(math.prod(others))
        body = [
            f"const int at = {at};",
            f"total = n ? {join.format('total', f'{x[0]}[at]')} : {x[0]}[at];",
            f"{out[0]}[at] = total;",
        ]
        lines = [*coordinates(others), f"{kind} total = 0;", *nested(["n"], [last + 1], body)]
        return [Phase(each(math.prod(others), lines), shared(x, out))]

    return Call(name, write)


def _arg_extreme(eqn: Any) -> Call:
    """Return the first place of the largest or smallest element, or of the first NaN."""
    name, (axis,), aval = eqn.primitive.name, eqn.params["axes"], eqn.invars[0].aval
    kind, result = _type(aval.dtype, name), _type(eqn.outvars[0].aval.dtype, f"{name} that returns numbers")
    others, place = _lines_along(aval, axis)
    sign = ">" if name == "argmax" else "<"

    def lines(x: Sequence[str], to: str) -> Texts:
        better = f"here {sign} best || (here != here && best == best)"
        body = [f"const {kind} here = {x[0]}[{place('n')}];", f"if ({better}) {{ best = here; found = n; }}"]
        search = nested(["n"], [aval.shape[axis]], body)
        return ["int found = 0;", f"{kind} best = {x[0]}[{place('0')}];", *search, f"{to} = ({result})found;"]

    return _per_element(name, others, lines)


# ---- slices and indices


def _begin(text: str, dtype: Any, most: int) -> str:
    """Return where a slice begins: moved so that it lies within the array, as XLA does."""
    if str(dtype) == "uint32":
        return f"(int)({text} > {most}u ? {most}u : {text})"
    return f"({text} < 0 ? 0 : {text} > {most} ? {most} : {text})"


def _begins(x: Sequence[str], avals: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]) -> Texts:
    parts = enumerate(zip(x, avals, shape, sizes, strict=True))
    return [f"const int k{a} = {_begin(text, aval.dtype, n - m)};" for a, (text, aval, n, m) in parts]


def _dynamic_slice(eqn: Any) -> Call:
    shape, sizes = eqn.invars[0].aval.shape, eqn.params["slice_sizes"]
    place = place_in(shape, [f"k{a} + i{a}" for a in range(len(shape))])
    avals = [var.aval for var in eqn.invars[1:]]

    def lines(x: Sequence[str], to: str) -> Texts:
        return [*_begins(x[1:], avals, shape, sizes), f"{to} = {x[0]}[{place}];"]

    return _per_element("dynamic_slice", sizes, lines, scalars=frozenset(range(1, len(eqn.invars))))


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
        kind = _type(var.aval.dtype, "indices")
        conditions.append(f"(at{axis} >= 0 && at{axis} <= {last})")
        lines.append(f"const {'long long' if kind == 'unsigned' else 'int'} at{axis} = {found};")
        lines.append(f"const int k{axis} = at{axis} < 0 ? 0 : at{axis} > {last} ? {last} : (int)at{axis};")
    return [*lines, f"const bool inside = {'true' if clips else ' && '.join(conditions) or 'true'};"]


def _places(shape: Sequence[int], starts: Sequence[int], *parts: dict[int, str]) -> str:
    names = ([f"k{a}"] * (a in starts) + [d[a] for d in parts if a in d] for a in range(len(shape)))
    return place_in(shape, [" + ".join(each) or "0" for each in names])


def _gather(eqn: Any) -> Call:
    p, d = eqn.params, eqn.params["dimension_numbers"]
    shape, out, dtype = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape, str(eqn.outvars[0].aval.dtype)
    _type(dtype, "gather")
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
        other = _literal(p["fill_value"], dtype) if fills else f"{x[0]}[0]"
        return [*begins, f"{to} = inside ? {x[0]}[{place}] : {other};"]

    return _per_element("gather", out, lines)


def _scatter(eqn: Any) -> Call:
    """Return updates in place, all at once: those of the same element are added in any order."""
    name, d = eqn.primitive.name, eqn.params["dimension_numbers"]
    shape, _, updates = (var.aval.shape for var in eqn.invars)
    dtype = str(eqn.invars[0].aval.dtype)
    _type(dtype, name)
    if name not in ("scatter", "scatter-add", "scatter-sub") or (dtype == "bool" and name != "scatter"):
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

    def write(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        copies = [] if x[0] == out[0] else [tools.copied(out[0], x[0], math.prod(shape))]
        tools.spread(math.prod(updates))
        new = f"{x[2]}[i]"
        line = f"{out[0]}[{place}] = {new};" if name == "scatter" else f"atomicAdd({out[0]} + ({place}), {sign}{new});"
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
    **dict.fromkeys((f"reduce_{name}" for name in ("sum", "prod", "max", "min", "or", "and")), _reduction),
    "dot_general": _dot_general,
    **dict.fromkeys(_SO_FAR, _cumulative),
    "argmax": _arg_extreme,
    "argmin": _arg_extreme,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "gather": _gather,
    **dict.fromkeys(("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"), _scatter),
}
