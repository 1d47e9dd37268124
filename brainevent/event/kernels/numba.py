# SPDX-License-Identifier: Apache-2.0
"""Numba, for the CPU: kernels of all laws. It has no arithmetic in 16 bits; so sums are made in 32."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...backends.numba import numba_kernel
from ..activity import is_active
from ..coo.format import COORDINATES
from ..csr.format import CSR
from ..dense.format import DENSE
from ..description import Description, Generator, Language
from ..fixed.format import FIXED
from ..laws.copies import ADDED
from ..laws.products import EVENTS, NUMBERS
from ..precision import precise
from .operands import sides_as_added, with_batch

__all__ = ["NUMBA"]


def _in_sums(kernel: Any, out: Any) -> Callable[..., list[Any]]:
    """Return a kernel whose result is in numbers that it can add in."""
    call = numba_kernel(kernel, outs=jax.ShapeDtypeStruct(out.shape, precise(out.dtype)))
    return lambda *operands: [call(*operands).astype(out.dtype)]


# ---- products


def _product(of: Description) -> Generator | None:
    if of.law not in (NUMBERS, EVENTS):
        return None
    if of.format is DENSE:
        return _of_dense
    chosen = {CSR: _of_compressed, FIXED: _of_fixed, COORDINATES: _of_coordinates}.get(of.format)
    return None if chosen is None else functools.partial(_of_sparse, of, chosen)


def _of_dense(*, outs: Sequence[Any], transpose: bool) -> Callable[..., Any]:
    from ..dense.on_cpu import numba_product

    return numba_product(outs, transpose=transpose)


def _of_sparse(
    of: Description,
    chosen: Callable[..., Any],
    *,
    outs: Sequence[Any],
    transpose: bool,
    indices_sorted: bool = False,
    indices_within: bool = False,
    **_: Any,
) -> Callable[..., Any]:
    (out,), event = outs, of.law.event

    def run(weights: Any, *rest: Any) -> list[Any]:
        *structure, x = rest
        sums = precise(weights.dtype)
        how = {"event": event, "homogeneous": weights.size == 1, "within": indices_within, "ndim": x.ndim}
        kernel, arrays = chosen(of, weights.dtype.name, structure, transpose, indices_sorted, how)
        x = is_active(x) if event else x.astype(sums)
        return _in_sums(kernel, out)(weights.reshape(weights.size), *arrays, x)

    return run


def _of_compressed(
    of: Description, dtype: str, structure: Sequence[Any], transpose: bool, in_order: bool, how: dict[str, Any]
) -> tuple[Any, Sequence[Any]]:
    from .. import on_cpu_threads
    from ..csr.on_cpu import kernel

    indices, indptr, *perm = structure
    found = kernel(
        dtype,
        **how,
        indexed=of.indexed and not how["homogeneous"],
        transpose=transpose,
        threads=on_cpu_threads.are_worth_it(indices.size),
        long=on_cpu_threads.are_long(indptr.size - 1, indices.size, in_order=in_order),
    )
    return found, (indices, indptr, *(perm or (indptr,)))


def _of_fixed(
    of: Description, dtype: str, structure: Sequence[Any], transpose: bool, in_order: bool, how: dict[str, Any]
) -> tuple[Any, Sequence[Any]]:
    from .. import on_cpu_threads
    from ..fixed.on_cpu import kernel

    (indices,) = structure
    threads = on_cpu_threads.are_worth_it(indices.size)
    long = on_cpu_threads.are_long(indices.shape[0], indices.size, in_order=in_order)
    return kernel(dtype, **how, transpose=transpose, threads=threads, long=long), structure


def _of_coordinates(
    of: Description, dtype: str, structure: Sequence[Any], transpose: bool, in_order: bool, how: dict[str, Any]
) -> tuple[Any, Sequence[Any]]:
    from ..coo.on_cpu import kernel

    return kernel(dtype, **how), structure[::-1] if transpose else structure


# ---- other laws


def _pairs(of: Description) -> Generator | None:
    def generator(*, outs: Sequence[Any]) -> Callable[..., Any]:
        from ..csr.on_cpu import per_element

        call, sums = _in_sums(per_element, outs[0]), precise(outs[0].dtype)
        return lambda *operands: call(*operands[:-2], *(side.astype(sums) for side in operands[-2:]))

    return generator if of.format is CSR else None


def _values(of: Description) -> Generator | None:
    def generator(
        *, outs: Sequence[Any], transpose: bool, indices_within: bool = False, **_: Any
    ) -> Callable[..., Any]:
        from ..synapses import on_cpu

        kernel = (on_cpu.of_columns if transpose else on_cpu.of_rows)(within=indices_within)
        return with_batch(outs, transpose, lambda y, w, structure, out: numba_kernel(kernel, out)(y, w, structure))

    return generator if of.format is CSR else None


def _copies(of: Description) -> Generator | None:
    def rows(*, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        from ..csr.on_cpu import slice_rows

        def sliced(weights: Any, *structure: Any) -> list[Any]:
            kernel = slice_rows(weights.dtype.name, homogeneous=weights.size == 1)
            return _in_sums(kernel, outs[0])(weights.reshape(-1), *structure)

        return sliced

    def added(*, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        from ..csr.on_cpu import add_rows

        call = _in_sums(add_rows, outs[0])
        return lambda *operands: call(*operands[:-1], operands[-1].astype(precise(outs[0].dtype)))

    return None if of.format is not CSR else added if of.law is ADDED else rows


def _updates(of: Description) -> Generator | None:
    def generator(*, outs: Sequence[Any], indices_within: bool = False, **_: Any) -> Callable[..., Any]:
        from ..plasticity import on_cpu

        slices = on_cpu.of_indexed_slices if of.indexed else on_cpu.of_slices
        dense = on_cpu.of_columns if of.post else on_cpu.of_rows
        made: Any = {CSR: slices, FIXED: on_cpu.of_equal_slices, DENSE: dense}[of.format]
        how = {"within": indices_within} if of.format.arrays else {}

        def run(weights: Any, *operands: Any) -> list[Any]:
            kernel = made(weights.dtype.name, **how)
            call = numba_kernel(kernel, weights, input_output_aliases={0: 0})
            return [call(weights, *sides_as_added(of, weights, operands))]

        return run

    return generator if of.format in (CSR, FIXED, DENSE) else None


_MADE = {"product": _product, "pairs": _pairs, "values": _values, "copies": _copies, "updates": _updates}
NUMBA = Language("numba", "cpu", lambda of: _MADE[of.law.kind](of) if of.law.kind in _MADE else None)
