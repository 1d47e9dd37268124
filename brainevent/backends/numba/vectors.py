# SPDX-License-Identifier: Apache-2.0
"""Loops in registers of 16 floats, which Numba's own loops are not: rows that are summed, and tiles of a product.

Arrays are given by addresses. Each element is summed in the order of its terms, so its bits depend neither on the size
of a tile nor on the width of a processor's registers: wider vectors are split.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .internals import cgutils, processor

__all__ = ["TALL", "WIDE", "add_multiples", "add_rows", "address", "byte_at", "first_of", "nonzero_of_64"]

_LANES, _BYTES = 16, 64
_F32, _I8, _I32, _I64 = ir.FloatType(), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_F32, _LANES)
_MANY_REGISTERS = "+avx512f" in processor()[2]
# A tile that fits the registers: samples, and columns of a panel.
TALL, WIDE = (8, 2 * _LANES) if _MANY_REGISTERS else (4, _LANES)


def _at(builder: ir.IRBuilder, address: Any, index: Any, kind: ir.Type) -> Any:
    """Return the pointer to element `index` of elements of the kind of a vector's lanes, as pointer to a `kind`."""
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    pointer = builder.gep(builder.inttoptr(address, element.as_pointer()), [index])
    return builder.bitcast(pointer, kind.as_pointer())


def _loaded(builder: ir.IRBuilder, address: Any, index: Any, kind: ir.Type) -> Any:
    return builder.load(_at(builder, address, index, kind), align=_align(kind))


def _align(kind: ir.Type) -> int:
    return 1 if isinstance(kind, ir.VectorType) and kind.element == _I8 else 4


def _cells(builder: ir.IRBuilder, count: int, kind: ir.Type) -> list[Any]:
    """Return variables, which LLVM keeps in registers."""
    return [cgutils.alloca_once(builder, kind) for _ in range(count)]


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """Return the address of an array."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, _I64)

    return types.int64(array), codegen


@intrinsic
def byte_at(typing_context: Any, address: Any) -> Any:
    """Return the byte at an address."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load(builder.inttoptr(args[0], _I8.as_pointer()))

    return types.uint8(types.int64), codegen


@intrinsic
def first_of(typing_context: Any, bits: Any) -> Any:
    """Return the place of the lowest bit that is set."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.int64(types.uint64), codegen


@intrinsic
def nonzero_of_64(typing_context: Any, bytes_: Any) -> Any:
    """Return which of 64 bytes at an address are not zero, as bits."""
    kind = ir.VectorType(_I8, _BYTES)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        found = builder.icmp_unsigned("!=", _loaded(builder, args[0], _I64(0), kind), ir.Constant(kind, None))
        return builder.bitcast(found, _I64)

    return types.uint64(types.int64), codegen


@intrinsic
def add_rows(typing_context: Any, sums: Any, matrix: Any, width: Any, places: Any, count: Any) -> Any:
    """Add rows of a matrix of float32, at int32 places, to sums: one after another."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        sums, matrix, width, places, count = args

        def columns(first: Any, kind: ir.Type, vectors: int) -> None:
            total = _cells(builder, vectors, kind)
            lanes = kind.count if isinstance(kind, ir.VectorType) else 1
            for v, cell in enumerate(total):
                builder.store(_loaded(builder, sums, builder.add(first, _I64(v * lanes)), kind), cell)
            with cgutils.for_range(builder, count, intp=_I64) as loop:
                row = builder.sext(_loaded(builder, places, loop.index, _I32), _I64)
                begin = builder.add(builder.mul(row, width), first)
                for v, cell in enumerate(total):
                    term = _loaded(builder, matrix, builder.add(begin, _I64(v * lanes)), kind)
                    builder.store(builder.fadd(builder.load(cell), term), cell)
            for v, cell in enumerate(total):
                place = _at(builder, sums, builder.add(first, _I64(v * lanes)), kind)
                builder.store(builder.load(cell), place, align=4)

        done = _I64(0)
        for kind, vectors in ((_VECTOR, 4), (_VECTOR, 1), (_F32, 1)):
            step = vectors * (_LANES if kind is _VECTOR else 1)
            end = builder.sub(width, builder.srem(builder.sub(width, done), _I64(step)))
            with cgutils.for_range_slice(builder, done, end, _I64(step), intp=_I64, inc=True) as (first, _):
                columns(first, kind, vectors)
            done = end
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), codegen


@functools.cache
def add_multiples(samples: int) -> Any:
    """Return `add_multiples(sums, stride, factors, apart, panel, terms)` for a number of samples.

    `sums[s * stride + c] += sum(factors[s * apart + k] * panel[k * WIDE + c])` over `k < terms`.
    """

    @intrinsic
    def add(typing_context: Any, sums: Any, stride: Any, factors: Any, apart: Any, panel: Any, terms: Any) -> Any:
        return types.void(*[types.int64] * 6), functools.partial(_multiples, samples)

    return add


def _multiples(samples: int, context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
    sums, stride, factors, apart, panel, terms = args
    vectors = WIDE // _LANES
    total = [_cells(builder, vectors, _VECTOR) for _ in range(samples)]
    zero = ir.Constant(_VECTOR, None)
    for cell in (cell for row in total for cell in row):
        builder.store(zero, cell)
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    product = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{_LANES}f32")
    begins = [builder.mul(apart, _I64(s)) for s in range(samples)]
    with cgutils.for_range(builder, terms, intp=_I64) as loop:
        begin = builder.mul(loop.index, _I64(WIDE))
        row = [_loaded(builder, panel, builder.add(begin, _I64(v * _LANES)), _VECTOR) for v in range(vectors)]
        for s in range(samples):
            factor = _loaded(builder, factors, builder.add(begins[s], loop.index), _F32)
            same = builder.insert_element(zero, factor, _I32(0))
            same = builder.shuffle_vector(same, zero, ir.Constant(ir.VectorType(_I32, _LANES), None))
            for v, cell in enumerate(total[s]):
                builder.store(builder.call(product, [same, row[v], builder.load(cell)]), cell)
    for s in range(samples):
        for v, cell in enumerate(total[s]):
            place = _at(builder, sums, builder.add(builder.mul(stride, _I64(s)), _I64(v * _LANES)), _VECTOR)
            builder.store(builder.fadd(builder.load(place, align=4), builder.load(cell)), place, align=4)
    return context.get_dummy_value()
