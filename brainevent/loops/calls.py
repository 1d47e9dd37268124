# SPDX-License-Identifier: Apache-2.0
"""What runs between loops over elements: kernels of operators, reductions, products, slices at computed places."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..backends.numba.foreign import described, make_known
from ..backends.numba.inner import of_zeros
from ..backends.numba.kernel import NumbaTarget
from ..backends.source.module import CompiledTarget
from .copies import Helper, copied, nest
from .indexed import EXTREMES, INDEXED, wrapped
from .values import Call, Texts, Tools, UnfitError, check_dtype

__all__ = ["CALLED"]

_ANY_ORDER = frozenset(("reassoc", "nsz", "contract"))  # sums of floats, in the order of the processor's vectors
_LONG_ROW, _LONG_SUM = 43, 59  # of products, up to which LLVM makes no vectors of rows and sums whose length it knows


def _native_call(eqn: Any) -> Call:
    """Call the kernel of an operator, once for each element of a batch."""
    p, target = eqn.params, eqn.params["target"]
    if not isinstance(target, NumbaTarget) and _address(target) is None:
        raise UnfitError(f"the kernel {target.title!r}, which is not one of Numba or C++ for the CPU")
    if isinstance(target, NumbaTarget) and target.has_changed:  # XLA's loop and this one may differ
        raise UnfitError(f"the kernel {target.title!r}: what it reads has changed since it was compiled")
    levels, count = p["levels"], len(eqn.invars)
    depth = [sum(level.mapped[i] for level in levels) for i in range(count)]
    inner = [f"j{level}" for level in range(len(levels))]  # the innermost level is the first

    def places(i: int) -> str:
        mapped = [j for j, level in zip(inner, levels, strict=True) if i >= count or level.mapped[i]]
        return f"[{', '.join(reversed(mapped))}]" if mapped else ""

    full = {i for i, var in enumerate(eqn.invars) if depth[i] and len(var.aval.shape) == depth[i]}
    if full or (levels and any(len(aval.shape) == 0 for aval in p["outs"])):
        raise UnfitError(f"a batch of scalars of the kernel {target.title!r}")

    def write(kernel: Any, x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        is_foreign = not isinstance(target, NumbaTarget)
        name = _foreign(eqn, tools) if is_foreign else tools.function("kernel", kernel)
        specs = [None] * count if is_foreign else target.operands
        shapes = [var.aval.shape for var in eqn.invars]
        copies = [copied(tools, out[j], x[i], shapes[i]) for i, j in p["aliases"] if x[i] != out[j]]
        x = [next((out[j] for k, j in p["aliases"] if k == i), text) for i, text in enumerate(x)]
        if not levels:
            return [*copies, f"{name}({', '.join([*map(tools.once, _grouped(x, specs)), *out])})"]
        passed = [f"a{place}" for place in range(len(x) + len(out))]
        each = [text + places(place) for place, text in enumerate(passed)]
        line = f"{name}({', '.join([*_grouped(each[:count], specs), *each[count:]])})"
        loops = nest(inner[::-1], [level.size for level in reversed(levels)], [line])
        batched = tools.function("batch", Helper(", ".join(passed), tuple(loops), apart=False))
        return [*copies, f"{batched}({', '.join([*x, *out])})"]

    def call(kernel: Any, of_zeros: Call | None = None) -> Call:
        return Call(
            target.title,
            functools.partial(write, kernel),
            reuses=tuple(p["aliases"]),
            is_kernel=True,
            is_foreign=not isinstance(target, NumbaTarget),
            may_fail=True,
            of_zeros=of_zeros,
        )

    kernel = target.kernel if isinstance(target, NumbaTarget) else None
    other = of_zeros(kernel) if not levels else None
    return call(kernel, None if other is None else call(other))


def _address(target: Any) -> int | None:
    is_cpp = isinstance(target, CompiledTarget) and target.platform == "cpu"
    return target.address if is_cpp else None


def _foreign(eqn: Any, tools: Tools) -> str:
    """Return the name of a function that calls a kernel in C++; its arrays are those of one element of a batch."""
    p, target = eqn.params, eqn.params["target"]
    symbol = f"{target.name}_in_loops"
    make_known(symbol, _address(target) or 0)
    dtypes = [str(aval.dtype) for aval in (*(var.aval for var in eqn.invars), *p["outs"])]
    what = described(symbol, p["operator"], len(eqn.invars), dtypes, target.encoded)
    arrays = ", ".join(f"a{place}" for place in range(len(dtypes)))
    body = (f"if call_handler({what!r}, ({arrays},)) != 0:", "    raise ForeignError")
    return tools.function("foreign", Helper(arrays, body, apart=False))


def _grouped(x: Sequence[str], specs: Sequence[Any]) -> Texts:
    """Return operands as a kernel takes them: some in tuples."""
    rest = iter(x)
    return [f"({', '.join(next(rest) for _ in s)},)" if isinstance(s, tuple) else next(rest) for s in specs]


def _concatenate(eqn: Any) -> Call:
    axis, shapes = eqn.params["dimension"], [var.aval.shape for var in eqn.invars]

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        lines, start = [], 0
        for text, shape in zip(x, shapes, strict=True):
            begins = [str(start if each == axis else 0) for each in range(len(shape))]
            lines.append(copied(tools, out[0], text, shape, at=begins))
            start += shape[axis]
        return lines

    return Call("concatenate", write)


def _iota(eqn: Any) -> Call:
    aval, axis = eqn.outvars[0].aval, eqn.params["dimension"]
    indices = [f"i{k}" for k in range(len(aval.shape))]
    dtype = check_dtype(aval.dtype, "iota")

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        body = [f"out[{', '.join(indices)}] = np.{dtype}(i{axis})"]
        return [f"{tools.function('iota', Helper('out', tuple(nest(indices, aval.shape, body))))}({out[0]})"]

    return Call("iota", write)


def _start(dtype: str, value: str) -> str:
    return f"np.{dtype}({value})" if dtype != "bool" else value


def _extreme(dtype: str, sign: str) -> str:
    if dtype.startswith("float"):
        return f"np.{dtype}({sign}np.inf)"
    if dtype == "bool":
        return str(sign == "")
    return f"np.{dtype}(np.iinfo(np.{dtype}).{'min' if sign else 'max'})"


# By primitive: the value of no elements, and how one element is added.
_REDUCTIONS: dict[str, tuple[Callable[[str], str], str]] = {
    "reduce_sum": (lambda dtype: _start(dtype, "0"), "{0} + {1}"),
    "reduce_prod": (lambda dtype: _start(dtype, "1"), "{0} * {1}"),
    "reduce_max": (lambda dtype: _extreme(dtype, "-"), EXTREMES["max"]),
    "reduce_min": (lambda dtype: _extreme(dtype, ""), EXTREMES["min"]),
    "reduce_or": (lambda dtype: "False", "{0} | {1}"),
    "reduce_and": (lambda dtype: "True", "{0} & {1}"),
}


def _extreme_of_row(name: str, x: str, place: str, loops: Callable[[Sequence[str]], Texts]) -> Texts:
    """Return lines that find the largest or smallest float32 number by its bits, in vectors; NaN wins.

    Floats that are not NaN have the order of their bits as integers, if those of negative ones are reversed.
    """
    sign, first = (">", "-(2**31)") if name == "reduce_max" else ("<", "2**31 - 1")
    body = [
        f"bits = np.int32(bits_of_float({x}))",
        "bits = np.int32(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))",
        f"total = bits if bits {sign} total else total",
        f"nans = np.int32(nans | np.int32({x} != {x}))",
    ]
    return [
        f"total, nans = np.int32({first}), np.int32(0)",
        *loops(body),
        "total = np.int32(total ^ ((total >> 31) & np.int32(0x7FFFFFFF)))",
        f"{place} = np.float32(np.nan) if nans else float_of_bits(np.uint32(total))",
    ]


def _reduction(eqn: Any) -> Call:
    name, axes, aval = eqn.primitive.name, eqn.params["axes"], eqn.invars[0].aval
    dtype = check_dtype(aval.dtype, f"{name} of numbers")
    if (dtype == "bool") != (name in ("reduce_or", "reduce_and")):
        raise UnfitError(f"{name} of {dtype}")
    start, update = _REDUCTIONS[name][0](dtype), _REDUCTIONS[name][1]
    rank = len(aval.shape)
    kept = [axis for axis in range(rank) if axis not in axes]
    x = f"x[{', '.join(f'i{axis}' for axis in range(rank))}]" if rank else "x[()]"
    place = f"out[{', '.join(f'i{axis}' for axis in kept) or '()'}]"

    def loops(over: Sequence[int], body: Sequence[str]) -> Texts:
        return nest([f"i{axis}" for axis in over], [aval.shape[axis] for axis in over], body, most=64)

    if name in ("reduce_max", "reduce_min") and dtype == "float32" and rank - 1 in axes and 0 not in aval.shape:
        body = loops(kept, _extreme_of_row(name, x, place, lambda body: loops(axes, body)))
    elif rank - 1 in axes or not rank:  # along rows
        added = f"total = {wrapped(dtype, update.format('total', x))}"
        body = loops(kept, [f"total = {start}", *loops(axes, [added]), f"{place} = total"])
    else:
        body = [f"out[...] = {start}", *loops(range(rank), [f"{place} = {wrapped(dtype, update.format(place, x))}"])]
    fastmath = _ANY_ORDER if name in ("reduce_sum", "reduce_prod") and dtype.startswith("float") else frozenset()

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        return [f"{tools.function('reduce', Helper('x, out', tuple(body), fastmath))}({x[0]}, {out[0]})"]

    return Call(name, write)


def _dot_general(eqn: Any) -> Call:
    """Return a dense product: the innermost loop runs along rows of the second factor, of the first, or of both."""
    if len(dtypes := {str(var.aval.dtype) for var in (*eqn.invars, *eqn.outvars)}) > 1:
        raise UnfitError(f"a product of {' and '.join(sorted(dtypes))}")
    if dtypes == {"bool"}:
        raise UnfitError("a product of bool")
    shapes = [var.aval.shape for var in eqn.invars]
    (summed, batch) = eqn.params["dimension_numbers"]
    names: list[dict[int, str]] = [{}, {}]
    for letter, pairs in (("b", batch), ("c", summed)):
        for k, axes in enumerate(zip(*pairs, strict=True)):
            for side, axis in enumerate(axes):
                names[side][axis] = f"{letter}{k}"
    free = [[axis for axis in range(len(s)) if axis not in n] for s, n in zip(shapes, names, strict=True)]
    for side, letter in enumerate("mn"):
        names[side] |= {axis: f"{letter}{k}" for k, axis in enumerate(free[side])}
    extent = {names[side][axis]: n for side in (0, 1) for axis, n in enumerate(shapes[side])}
    order = [f"b{k}" for k in range(len(batch[0]))] + [names[side][axis] for side in (0, 1) for axis in free[side]]
    last = names[1][len(shapes[1]) - 1] if shapes[1] else ""
    sums = [name for name in extent if name not in order]
    a, b = (f"{'ab'[side]}[{', '.join(names[side][axis] for axis in range(len(shapes[side])))}]" for side in (0, 1))
    out_ = f"out[{', '.join(order) or '()'}]"

    def loops(over: Sequence[str], body: Sequence[str], **most: int) -> Texts:
        return nest(over, [extent[name] for name in over], body, **most)

    if last in order:
        around = [*(name for name in order if name != last), *sums, last]
        body = ["out[...] = 0", *loops(around, [f"{out_} = {out_} + {a} * {b}"], most=_LONG_ROW)]
    else:
        zero = f"total = np.{next(iter(dtypes))}(0)"
        body = loops(order, [zero, *loops(sums, [f"total = total + {a} * {b}"], most=_LONG_SUM), f"{out_} = total"])
    fastmath = _ANY_ORDER if next(iter(dtypes)).startswith("float") else frozenset()

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        return [f"{tools.function('dot', Helper('a, b, out', tuple(body), fastmath))}({x[0]}, {x[1]}, {out[0]})"]

    return Call("dot_general", write, work=math.prod(extent.values()))


def _places(x: Sequence[str], shape: Sequence[int], sizes: Sequence[int]) -> Texts:
    """Return where a slice begins: moved so that it lies within the array, as XLA does."""
    return [f"min(max({text}, 0), {n - m})" for text, n, m in zip(x, shape, sizes, strict=True)]


def _dynamic_slice(eqn: Any) -> Call:
    shape, sizes = eqn.invars[0].aval.shape, eqn.params["slice_sizes"]

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        return [copied(tools, out[0], x[0], sizes, of=_places(x[1:], shape, sizes))]

    return Call("dynamic_slice", write, frozenset(range(1, len(eqn.invars))))


def _dynamic_update(eqn: Any) -> Call:
    shape, sizes = (var.aval.shape for var in eqn.invars[:2])

    def write(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
        copies = [] if x[0] == out[0] else [copied(tools, out[0], x[0], shape)]
        return [*copies, copied(tools, out[0], x[1], sizes, at=_places(x[2:], shape, sizes))]

    return Call("dynamic_update_slice", write, frozenset(range(2, len(eqn.invars))), reuses=((0, 0),))


# By primitive of JAX: functions of an equation.
CALLED: dict[str, Callable[[Any], Call]] = {
    "native_call": _native_call,
    "concatenate": _concatenate,
    "iota": _iota,
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    **INDEXED,
}
