# SPDX-License-Identifier: Apache-2.0
"""Numba, for the CPU: kernels of all laws, for all formats whose elements it can find.

Numba has no arithmetic in 16 bits, so sums are made in 32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ..activity import is_active
from ..coo.format import COORDINATES
from ..csr.format import CSR
from ..dense.format import DENSE
from ..description import Description, Format, Language
from ..drawn.format import given
from ..fixed.format import FIXED
from ..laws.copies import ADDED
from ..laws.delayed import Delayed
from ..laws.pairs import Pairs
from ..laws.products import EVENTS, NUMBERS, VALUED
from ..precision import precise
from .shared import by_kind, sides_as_added, with_batch

__all__ = ["NUMBA"]

_FEW = 64  # places for each drawn element, about: their number is not known before


def numba_kernel(kernel: Any, outs: Any, **options: Any) -> Callable[..., Any]:
    """Return a JAX function that runs a Numba function; the first one loads the compiler."""
    from ...backends.numba import kernel as numba

    return numba.numba_kernel(kernel, outs, **options)


def _has_rows(of: Description) -> bool:
    return of.format in (CSR, FIXED) or of.format.rows is not None


def _is_drawn(of: Description) -> bool:
    return of.format.drawn is not None


def _rows_of(form: Format, *, within: bool, indexed: bool = False) -> Any:
    """Return how Numba finds the elements of a format, with tests of indices unless they are `within` range."""
    from ..on_cpu import coordinates, rows

    known = {CSR: rows.compressed, FIXED: rows.fixed, COORDINATES: coordinates.coordinates}
    make: Any = form.rows or known[form]
    return make(within=within, **({"indexed": True} if indexed else {}))


def _in_sums(kernel: Any, out: Any, *operands: Any) -> list[Any]:
    """Call a kernel that writes a flat result in the dtype of sums."""
    call = numba_kernel(kernel, outs=jax.ShapeDtypeStruct((out.size,), precise(out.dtype)))
    return [call(*operands).astype(out.dtype).reshape(out.shape)]


# ---- products


def _has_product(of: Description) -> bool:
    if of.format is DENSE:
        return of.law is EVENTS
    known = of.law in (EVENTS, NUMBERS, VALUED) or of.law.in_numba is not None
    return known and (_is_drawn(of) or of.format is COORDINATES or _has_rows(of))


def _product(of: Description, **how: Any) -> Callable[..., Any]:
    if of.format is DENSE:
        return _of_dense(**how)
    return _of_drawn(of, **how) if _is_drawn(of) else _of_sparse(of, **how)


def _terms_of(of: Description, weights: Any) -> Any:
    """Return the terms of a law in Numba, for these weights."""
    from ..on_cpu import terms

    make = of.law.in_numba or functools.partial(terms.product, event=of.law.event, silent=of.law is VALUED)
    return make(weights.dtype.name, homogeneous=weights.size == 1)


def _of_dense(*, outs: Sequence[Any], transpose: bool) -> Callable[..., Any]:
    from ..dense.on_cpu import numba_product

    return numba_product(outs, transpose=transpose)


def _of_sparse(
    of: Description,
    *,
    outs: Sequence[Any],
    shape: tuple[int, int],
    transpose: bool,
    indices_sorted: bool = False,
    indices_within: bool = False,
    **_: Any,
) -> Callable[..., Any]:
    from ..on_cpu.products import kernel

    (out,) = outs

    def run(weights: Any, *rest: Any) -> list[Any]:
        *arrays, x = rest
        sums, indexed = precise(weights.dtype), of.indexed and weights.size != 1
        if of.indexed and not indexed:
            arrays.pop()
        found, structure = kernel(
            _terms_of(of, weights),
            _rows_of(of.format, within=indices_within, indexed=indexed),
            arrays,
            number=(x if transpose else out).shape[0],
            stored=math.prod(of.stored(arrays, weights, shape)),
            transpose=transpose,
            ndim=x.ndim,
            in_order=indices_sorted,
        )
        x = is_active(x) if of.law.event else x.astype(sums)
        call = numba_kernel(found, outs=jax.ShapeDtypeStruct(out.shape, sums))
        return [call(weights.reshape(weights.size), structure, x).astype(out.dtype)]

    return run


# ---- what is drawn


def _of_drawn(
    of: Description, *, outs: Sequence[Any], shape: tuple[int, int], transpose: bool, **_: Any
) -> Callable[..., Any]:
    from ..drawn import on_cpu_walks as walks
    from ..on_cpu.threads import are_worth_it

    (out,), kind = outs, of.format.drawn or 0
    parallel = are_worth_it(math.prod(shape) // _FEW)

    def run(weights: Any, drawn: Any, tables: Any, x: Any) -> list[Any]:
        dtype = precise(weights.dtype)
        terms = _terms_of(of, jax.ShapeDtypeStruct((1,), dtype))
        make = walks.scatter if transpose else walks.gather
        kernel = make(terms, kind, weights.dtype.name, columns=of.columns, parallel=parallel)
        x = is_active(x) if of.law.event else x.astype(dtype)
        call = numba_kernel(kernel, outs=jax.ShapeDtypeStruct(out.shape, dtype))
        return [call(*given(kind, weights, drawn, tables), x).astype(out.dtype)]

    return run


def _whole(of: Description, *, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    from ..drawn import on_cpu_walks as walks

    (out,), kind = outs, of.format.drawn or 0

    def run(weights: Any, drawn: Any, tables: Any) -> list[Any]:
        kernel = walks.whole(kind, weights.dtype.name)
        call = numba_kernel(kernel, outs=jax.ShapeDtypeStruct(out.shape, precise(weights.dtype)))
        return [call(*given(kind, weights, drawn, tables)).astype(out.dtype)]

    return run


# ---- other laws


def _pairs(
    of: Description, *, outs: Sequence[Any], transpose: bool = True, indices_within: bool = False, **_: Any
) -> Callable[..., Any]:
    from ..on_cpu.pairs import per_element

    (out,), law = outs, of.law
    assert isinstance(law, Pairs)
    rows = _rows_of(of.format, within=indices_within, indexed=of.indexed)
    kernel = per_element(rows, event=law.event, silent=law.silent, by_rows=transpose)

    def run(*operands: Any) -> list[Any]:
        *arrays, of_rows, of_columns = operands
        x, values = (of_rows, of_columns) if transpose else (of_columns, of_rows)
        sums = precise(out.dtype)
        if law.event:
            x = is_active(x)
        if not law.event or x.shape[1] > 1:  # of one size, so that a choice among several columns becomes vectors
            x = x.astype(sums)
        values = values.astype(sums)
        sides = (x, values) if transpose else (values, x)
        how = {"transpose": False} if of.format is COORDINATES else {}
        return _in_sums(kernel, out, sides, rows.structure(*arrays, **how))

    return run


def _values(
    of: Description, *, outs: Sequence[Any], transpose: bool, indices_within: bool = False, **_: Any
) -> Callable[..., Any]:
    from ..on_cpu.at_elements import values_of_columns, values_of_rows

    rows = _rows_of(of.format, within=indices_within)
    kernel = (values_of_columns if transpose else values_of_rows)(rows)

    def multiply(y: Any, w: Any, structure: Any, out: Any) -> Any:
        return numba_kernel(kernel, out)(y, w, rows.structure(*structure))

    return with_batch(outs, multiply)


def _copies(of: Description, *, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    from ..on_cpu.at_elements import copied, gathered_back

    (out,), rows = outs, _rows_of(of.format, within=False)

    def copy(weights: Any, *rest: Any) -> list[Any]:
        *arrays, chosen = rest
        kernel = copied(weights.dtype.name, rows, homogeneous=weights.size == 1)
        call = numba_kernel(kernel, outs=jax.ShapeDtypeStruct(out.shape, precise(out.dtype)))
        return [call((weights.reshape(weights.size),), rows.structure(*arrays), chosen).astype(out.dtype)]

    def add(*operands: Any) -> list[Any]:
        *arrays, chosen, dense = operands
        dense = dense.astype(precise(out.dtype))
        return _in_sums(gathered_back(rows), out, (dense,), rows.structure(*arrays), chosen)

    return add if of.law is ADDED else copy


def _updates(of: Description, *, outs: Sequence[Any], indices_within: bool = False, **_: Any) -> Callable[..., Any]:
    from ..on_cpu import at_elements

    def run(weights: Any, *operands: Any) -> list[Any]:
        *arrays, first, second, after = sides_as_added(of, weights, operands)
        spikes, trace = (second, first) if of.post else (first, second)
        if of.format is DENSE:
            made = at_elements.updated_columns if of.post else at_elements.updated_rows
            call = numba_kernel(made(weights.dtype.name), weights, input_output_aliases={0: 0})
            return [call(weights, spikes, trace, after)]
        rows = _rows_of(of.format, within=indices_within, indexed=of.indexed)
        kernel = at_elements.updated(weights.dtype.name, rows)
        call = numba_kernel(kernel, weights, input_output_aliases={0: 0})
        return [call(weights, rows.structure(*arrays), spikes, trace, after)]

    return run


def _deliveries(
    of: Description, *, outs: Sequence[Any], weighted: bool = False, indices_within: bool = False, **_: Any
) -> Callable[..., Any]:
    from ..on_cpu.deliveries import delivered, delivered_in_order
    from ..on_cpu.threads import are_worth_it

    def run(ring: Any, weights: Any, *operands: Any) -> list[Any]:
        *arrays, delays, x, t = operands
        sums = precise(ring.dtype)
        one_of_all = weights.size == 1 and delays.size == 1  # then places are not read
        rows = _rows_of(of.format, within=indices_within, indexed=of.indexed and not one_of_all)
        how = {"weighted": weighted, "one_weight": weights.size == 1}
        how["in_threads"] = are_worth_it(arrays[0].size)
        assert isinstance(of.law, Delayed)
        if of.law.laid:
            kernel = delivered_in_order(ring.dtype.name, rows, **how)
        else:
            delays = delays.reshape(-1)
            how["one_delay"] = delays.size == 1
            kernel = delivered(ring.dtype.name, rows, **how)
        call = numba_kernel(kernel, ring, input_output_aliases={0: 0})
        flat = (weights.astype(sums).reshape(-1), rows.structure(*arrays), delays)
        return [call(ring, *flat, is_active(x), x.astype(sums), t)]

    return run


def _collected(
    of: Description, *, outs: Sequence[Any], weighted: bool = False, indices_within: bool = False, **_: Any
) -> Callable[..., Any]:
    from ..on_cpu.deliveries import collected, collected_in_order

    (out,), law = outs, of.law
    assert isinstance(law, Delayed)
    rows = _rows_of(of.format, within=indices_within, indexed=of.indexed)

    def run(ring: Any, *operands: Any) -> list[Any]:
        *arrays, delays, x, t = operands
        sums = precise(out.dtype)
        if law.laid:
            kernel = collected_in_order(rows, weighted=weighted)
        else:
            delays = delays.reshape(-1)
            kernel = collected(rows, weighted=weighted, one_delay=delays.size == 1)
        given = (is_active(x)[:, None], x.astype(sums), ring.astype(sums), delays, t % ring.shape[0])
        return _in_sums(kernel, out, given, rows.structure(*arrays))

    return run


def _arrivals(of: Description, *, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    from ..on_cpu.deliveries import taken

    call = numba_kernel(taken(outs[0].dtype.name), outs=outs, input_output_aliases={0: 1})
    return lambda ring, t: list(call(ring, t))


NUMBA = Language(
    "numba",
    "cpu",
    by_kind(
        {
            "arrivals": (_arrivals, lambda of: of.format is DENSE),
            "collected": (_collected, _has_rows),
            "copies": (_copies, _has_rows),
            "deliveries": (_deliveries, _has_rows),
            "pairs": (_pairs, lambda of: _has_rows(of) or of.format is COORDINATES),
            "product": (_product, _has_product),
            "updates": (_updates, lambda of: _has_rows(of) or of.format is DENSE),
            "values": (_values, lambda of: of.format is CSR),
            "whole": (_whole, _is_drawn),
        }
    ),
)
