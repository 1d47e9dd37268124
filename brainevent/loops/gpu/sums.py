# SPDX-License-Identifier: Apache-2.0
"""What several elements become on a GPU: sums and their like, sums so far, the largest's place, dense products.

Each is made in an order that does not depend on the number of threads: of the lanes of warps, and then of chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..values import Call, Texts, UnfitError
from .nests import coordinates, each, nested, place_in
from .numbers import STORED, literal, stored, word
from .phases import Phase, owned, shared

__all__ = ["REDUCTIONS", "per_element"]

_CHUNK = 1024  # elements that a warp reduces at once
_FEW = 32  # elements that a thread reduces alone, if they are fewer
_PART = 32  # terms of a product that a thread adds
_SHORT = 256  # elements whose sums so far one warp finds


def per_element(name: str, shape: Sequence[int], lines: Callable[[Sequence[str], str], Texts], **options: Any) -> Call:
    """Return a call each of whose results is made by one thread: lines of operands and of the place of the result."""

    def write(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        tools.spread(math.prod(shape))
        body = [*coordinates(shape), *lines(x, f"{out[0]}[i]")]
        arrays = [text for place, text in enumerate(x) if place not in options.get("scalars", ())]
        return [Phase(each(math.prod(shape), body), shared(arrays) | owned(writes=out))]

    return Call(name, write, **options)


_FLOAT_SUMS = {
    "float32": {"+": "__fadd_rn({0}, {1})", "*": "__fmul_rn({0}, {1})"},
    "float64": {"+": "__dadd_rn({0}, {1})", "*": "__dmul_rn({0}, {1})"},
}
_LARGER = "({0} {sign} {1} || {0} != {0} ? {0} : {1})"


def _joined(name: str, dtype: str) -> str:
    """Return how two numbers are reduced to one."""
    if name in ("max", "min"):
        return _LARGER.replace("{sign}", ">" if name == "max" else "<")
    if name in ("or", "and"):
        return "({0} " + ("|" if name == "or" else "&") + " {1})"
    sign = "+" if name == "sum" else "*"
    if dtype in _FLOAT_SUMS:
        return _FLOAT_SUMS[dtype][sign]
    return f"({STORED[dtype]})(({word(dtype)}){{0}} {sign} ({word(dtype)}){{1}})"


def _neutral(name: str, dtype: str) -> str:
    if name in ("max", "min"):
        low = name == "max"
        if dtype in _FLOAT_SUMS:
            return literal(-np.inf if low else np.inf, dtype)
        info = np.iinfo(dtype)
        return literal(info.min if low else info.max, dtype)
    return {"sum": "0", "prod": "1", "or": "false", "and": "true"}[name]


def _by_warps(
    kind: str, start: str, join: str, term: str, count: int, begin: str, end: str, target: str, place: Texts
) -> Texts:
    """Return lines in which a warp reduces one of some ranges; lanes take every 32nd term."""
    inner = [*place, f"total = {join.format('total', term)};"]
    return [
        f"for (unsigned w = tid / 32; w < {count}u; w += threads / 32) {{",
        f"    {start}",
        *(f"    {line}" for line in begin.splitlines()),
        f"    for (unsigned n = first + tid % 32; n < {end}; n += 32) {{",
        *(f"        {line}" for line in inner),
        "    }",
        *(f"    {line}" for line in _over_lanes(kind, "total", join)),
        f"    if (tid % 32 == 0) {target} = total;",
        "}",
    ]


def _over_lanes(kind: str, name: str, join: str) -> Texts:
    """Return lines that reduce the numbers of the lanes of a warp; the first one has the result."""
    return [
        "for (int lanes = 16; lanes; lanes /= 2) {",
        f"    const {kind} other = ({kind})__shfl_down_sync(~0u, {name}, lanes);",
        f"    {name} = {join.format(name, 'other')};",
        "}",
    ]


def _reduction(eqn: Any) -> Call:
    """Return a reduction along some axes."""
    primitive, axes, aval = eqn.primitive.name, eqn.params["axes"], eqn.invars[0].aval
    name, dtype, kind = primitive.removeprefix("reduce_"), str(aval.dtype), stored(aval.dtype, primitive)
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
        if size < _FEW:
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
                _by_warps(kind, start, join, f"{x[0]}[{place}]", outs * chunks, begin, end, f"{target}[w]", of_summed),
                shared(x, [target]),
            )
        ]
        if chunks > 1:
            begin, term = "const unsigned first = 0;", f"{target}[w * {chunks}u + n]"
            lines = _by_warps(kind, start, join, term, outs, begin, f"{chunks}u", f"{out[0]}[w]", [])
            phases.append(Phase(lines, shared([target], out)))
        return phases

    return Call(primitive, write)


# ---- dense products


@dataclass(frozen=True)
class _Product:
    """A dense product: the shape of its result, how many terms each element has along which axes, and their text."""

    dtype: str
    out: tuple[int, ...]
    sizes: tuple[int, ...]
    places: tuple[str, ...]

    @property
    def terms(self) -> int:
        return math.prod(self.sizes)

    @property
    def start(self) -> str:
        return f"{STORED[self.dtype]} total = 0;"

    def joined(self, one: str, other: str) -> str:
        return _joined("sum", self.dtype).format(one, other)

    def term(self, x: Sequence[str]) -> str:
        factors = (f"{text}[{place}]" for text, place in zip(x, self.places, strict=True))
        return _joined("prod", self.dtype).format(*factors)

    def alone(self, x: Sequence[str], to: str) -> Texts:
        """Return lines in which a thread sums all terms of an element."""
        names = [f"c{k}" for k in range(len(self.sizes))]
        sums = nested(names, self.sizes, [f"total = {self.joined('total', self.term(x))};"])
        return [self.start, *sums, f"{to} = total;"]

    def by_warps(self, x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        """Let a warp sum the terms of an element: if these follow each other in memory."""
        count, place = math.prod(self.out), coordinates(self.sizes, "c", "n")
        tools.spread(32 * count)
        begin = "\n".join(["const unsigned first = 0;", *coordinates(self.out, "i", "w")])
        kind, join, to = STORED[self.dtype], _joined("sum", self.dtype), f"{out[0]}[w]"
        lines = _by_warps(kind, self.start, join, self.term(x), count, begin, f"{self.terms}u", to, place)
        return [Phase(lines, shared(x, out))]

    def in_parts(self, x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        """Let threads sum parts of the terms: neighbours have neighbouring elements of the result."""
        count, parts = math.prod(self.out), -(-self.terms // _PART)
        tools.spread(count * parts)
        sums = tools.scratch(self.dtype, count * parts)
        head = f"for (unsigned n = e / {count}u * {_PART}u, m = n; n < {self.terms}u && n < m + {_PART}u; ++n) {{"
        lines = [
            *(f"const unsigned o = e % {count}u;", *coordinates(self.out, "i", "o"), self.start, "#pragma unroll 8"),
            *(head, *coordinates(self.sizes, "c", "n"), f"total = {self.joined('total', self.term(x))};", "}"),
            f"{sums}[e] = total;",
        ]
        rest = [
            *(f"{STORED[self.dtype]} total = {sums}[i];", "#pragma unroll 8"),
            f"for (unsigned k = 1; k < {parts}u; ++k) total = {self.joined('total', f'{sums}[k * {count}u + i]')};",
            f"{out[0]}[i] = total;",
        ]
        first = Phase(each(count * parts, lines, "e"), shared(x) | owned(writes=[sums]))
        return [first, Phase(each(count, rest), shared([sums]) | owned(writes=out))]


def _dot_general(eqn: Any) -> Call:
    dtypes = {str(var.aval.dtype) for var in (*eqn.invars, *eqn.outvars)}
    if len(dtypes) > 1 or dtypes == {"bool"}:
        raise UnfitError(f"a product of {' and '.join(sorted(dtypes))}")
    (dtype,), shapes, out = dtypes, [var.aval.shape for var in eqn.invars], eqn.outvars[0].aval.shape
    stored(dtype, "a product")
    summed, batch = eqn.params["dimension_numbers"]
    names: list[dict[int, str]] = [{}, {}]
    place = len(batch[0])
    for side in (0, 1):
        names[side] |= {axis: f"i{k}" for k, axis in enumerate(batch[side])}
        names[side] |= {axis: f"c{k}" for k, axis in enumerate(summed[side])}
        for axis in range(len(shapes[side])):
            if axis not in names[side]:
                names[side][axis] = f"i{place}"
                place += 1
    places = tuple(place_in(s, [n[a] for a in range(len(s))]) for s, n in zip(shapes, names, strict=True))
    product = _Product(dtype, out, tuple(shapes[0][axis] for axis in summed[0]), places)
    work = math.prod(out) * product.terms
    if product.terms < 2 * _FEW:
        return per_element("dot_general", out, product.alone, work=work)
    larger = max((0, 1), key=lambda side: math.prod(shapes[side]))
    along = summed[larger][-1] == len(shapes[larger]) - 1
    return Call("dot_general", product.by_warps if along else product.in_parts, work=work)


# ---- along an axis


@dataclass(frozen=True)
class _Along:
    """An array along an axis of some `size`: `at(n)` is the place of its element n, for each of `others`."""

    shape: tuple[int, ...]
    axis: int

    @property
    def size(self) -> int:
        return self.shape[self.axis]

    @property
    def others(self) -> list[int]:
        return [n for axis, n in enumerate(self.shape) if axis != self.axis]

    @property
    def count(self) -> int:
        return math.prod(self.others)

    def at(self, n: str) -> str:
        others = [axis for axis in range(len(self.shape)) if axis != self.axis]
        names = {axis: f"i{k}" for k, axis in enumerate(others)}
        return place_in(self.shape, [names.get(axis, n) for axis in range(len(self.shape))])


_SO_FAR = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}


def _cumulative(eqn: Any) -> Call:
    name, aval = eqn.primitive.name, eqn.invars[0].aval
    dtype, kind = str(aval.dtype), stored(aval.dtype, name)
    if dtype == "bool":
        raise UnfitError(f"{name} of bool")
    along, join = _Along(aval.shape, eqn.params["axis"]), _joined(_SO_FAR[name], dtype)
    at = along.at(f"{along.size - 1} - n" if eqn.params["reverse"] else "n")

    def alone(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        tools.spread(along.count)
        body = [
            f"const int at = {at};",
            f"total = n ? {join.format('total', f'{x[0]}[at]')} : {x[0]}[at];",
            f"{out[0]}[at] = total;",
        ]
        lines = [*coordinates(along.others), f"{kind} total = 0;", *nested(["n"], [along.size], body)]
        return [Phase(each(along.count, lines), shared(x, out))]

    def by_warps(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        return _so_far_by_warps(along, at, dtype, _SO_FAR[name], x[0], out[0], tools)

    return Call(name, alone if along.size < _FEW else by_warps)


def _so_far_by_warps(along: _Along, at: str, dtype: str, how: str, x: str, out: str, tools: Any) -> list[Phase]:
    """Let each warp reduce a chunk, and then go through it, with what was before it."""
    kind, join, neutral, size = STORED[dtype], _joined(how, dtype), _neutral(how, dtype), along.size
    chunk = size if size <= _SHORT else 32 * math.ceil(math.sqrt(size) / 32)
    chunks = -(-size // chunk)
    ranges = along.count * chunks
    tools.spread(32 * ranges)
    head = [
        f"const unsigned m = w / {chunks}u, first = w % {chunks}u * {chunk}u;",
        *coordinates(along.others, "i", "m"),
    ]
    end = f"(first + {chunk}u < {size}u ? first + {chunk}u : {size}u)"
    phases, before, read = list[Phase](), list[str](), [x]
    if chunks > 1:
        sums, start = tools.scratch(dtype, ranges), f"{kind} total = {neutral};"
        lines = _by_warps(kind, start, join, f"{x}[{at}]", ranges, "\n".join(head), end, f"{sums}[w]", [])
        phases.append(Phase(lines, shared([x], [sums])))
        earlier = f"for (unsigned c = tid % 32; c < w % {chunks}u; c += 32) "
        earlier += f"before = {join.format('before', f'{sums}[m * {chunks}u + c]')};"
        before = [earlier, *_over_lanes(kind, "before", join), f"before = ({kind})__shfl_sync(~0u, before, 0);"]
        read.append(sums)
    inner = [
        "const unsigned n = start + tid % 32;",
        f"const int at = n < end ? {at} : 0;",
        f"{kind} total = n < end ? {x}[at] : ({kind}){neutral};",
        "for (unsigned lanes = 1; lanes < 32; lanes *= 2) {",
        f"    const {kind} other = ({kind})__shfl_up_sync(~0u, total, lanes);",
        f"    if (tid % 32 >= lanes) total = {join.format('other', 'total')};",
        "}",
        f"total = {join.format('before', 'total')};",
        f"if (n < end) {out}[at] = total;",
        f"before = ({kind})__shfl_sync(~0u, total, 31);",
    ]
    lines = [*head, f"const unsigned end = {end};", f"{kind} before = {neutral};", *before]
    lines += ["for (unsigned start = first; start < end; start += 32) {", *(f"    {line}" for line in inner), "}"]
    return [*phases, Phase(_each_warp(ranges, lines), shared(read, [out]))]


def _each_warp(ranges: int, lines: Texts) -> Texts:
    """Return a loop in which each warp has some of `ranges`."""
    head = f"for (unsigned w = tid / 32; w < {ranges}u; w += threads / 32) {{"
    return [head, *(f"    {line}" for line in lines), "}"]


@dataclass(frozen=True)
class _Best:
    """The place of the largest or smallest element along an axis: the first of equal ones, or of NaN."""

    along: _Along
    sign: str
    kind: str
    result: str

    def better(self, one: str, other: str) -> str:
        return f"({one} {self.sign} {other} || ({one} != {one} && {other} == {other}))"

    def alone(self, x: Sequence[str], to: str) -> Texts:
        """Return lines in which a thread looks at all elements."""
        along = self.along
        body = [
            f"const {self.kind} here = {x[0]}[{along.at('n')}];",
            f"if ({self.better('here', 'best')}) {{ best = here; found = n; }}",
        ]
        search = nested(["n"], [along.size], body)
        start = f"{self.kind} best = {x[0]}[{along.at('0')}];"
        return ["int found = 0;", start, *search, f"{to} = ({self.result})found;"]

    def search(self, x: str, ranges: int, first: str, end: str, candidate: str, store: str) -> Texts:
        """Return lines in which a warp finds the best of some candidates."""
        inner = [
            f"const int at = {candidate};",
            f"const {self.kind} here = {x}[{self.along.at('at')}];",
            f"if ({self.better('here', 'best')}) {{ best = here; found = at; }}",
        ]
        lanes = [
            f"const {self.kind} other = ({self.kind})__shfl_down_sync(~0u, best, lanes);",
            "const int at = __shfl_down_sync(~0u, found, lanes);",
            f"const bool equal = !{self.better('best', 'other')} && at < found;",
            f"if ({self.better('other', 'best')} || equal) {{ best = other; found = at; }}",
        ]
        lines = [
            f"const unsigned m = w / {ranges}u, first = {first};",
            *coordinates(self.along.others, "i", "m"),
            "unsigned n = first;",
            f"int found = {candidate};",
            f"{self.kind} best = {x}[{self.along.at('found')}];",
            *(f"for (n += tid % 32; n < {end}; n += 32) {{", *(f"    {line}" for line in inner), "}"),
            *("for (int lanes = 16; lanes; lanes /= 2) {", *(f"    {line}" for line in lanes), "}"),
            f"if (tid % 32 == 0) {store};",
        ]
        return _each_warp(self.along.count * ranges, lines)

    def by_warps(self, x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        """Let each warp search a chunk, and then one the best of these."""
        count, size, chunks = self.along.count, self.along.size, -(-self.along.size // _CHUNK)
        tools.spread(32 * count * chunks)
        end = f"(first + {_CHUNK}u < {size}u ? first + {_CHUNK}u : {size}u)"
        first, store = f"w % {chunks}u * {_CHUNK}u", f"{out[0]}[w] = ({self.result})found"
        if chunks == 1:
            return [Phase(self.search(x[0], 1, first, end, "n", store), shared(x, out))]
        places = tools.scratch("int32", count * chunks)
        lines = self.search(x[0], chunks, first, end, "n", f"{places}[w] = found")
        last = self.search(x[0], 1, "0u", f"{chunks}u", f"{places}[m * {chunks}u + n]", store)
        return [Phase(lines, shared(x, [places])), Phase(last, shared([*x, places], out))]


def _arg_extreme(eqn: Any) -> Call:
    name, (axis,), aval = eqn.primitive.name, eqn.params["axes"], eqn.invars[0].aval
    kind, result = stored(aval.dtype, name), stored(eqn.outvars[0].aval.dtype, f"{name} that returns numbers")
    best = _Best(_Along(aval.shape, axis), ">" if name == "argmax" else "<", kind, result)
    if best.along.size < _FEW:
        return per_element(name, best.along.others, best.alone)
    return Call(name, best.by_warps)


# By primitive of JAX: functions of an equation.
REDUCTIONS: dict[str, Callable[[Any], Call]] = {
    **dict.fromkeys((f"reduce_{name}" for name in ("sum", "prod", "max", "min", "or", "and")), _reduction),
    "dot_general": _dot_general,
    **dict.fromkeys(_SO_FAR, _cumulative),
    "argmax": _arg_extreme,
    "argmin": _arg_extreme,
}
