# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of operators that are not products: how those in `each.cu` are compiled and launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from ...backends.nvrtc.kernel import cuda_kernel
from ..activity import is_active
from ..precision import precise
from . import WARP, definitions, power_of_two, source

__all__ = ["added", "copied", "multiplied", "per_coordinate", "per_element", "updated", "updated_dense"]

_EACH = 256  # synapses of a neuron, on average, for which there is a warp
_MOST_PARTS = 4  # warps that share a neuron: those of inactive neurons have to start, too


def _kernel(entry: str, out: Any, threads: int, types: Mapping[str, Any], zeroed: bool = False, **how: Any) -> Any:
    """Return a kernel; types and flags that it does not use have some default."""
    aliases = how.pop("aliases", None)
    names = "ONE INDEXED WITHIN CONNECTIONS NUMBER COLUMNS EVENTS SILENT BY_ROWS"
    flags = {**dict.fromkeys(names.split(), 0), "PARTS": 1, **how}
    return cuda_kernel(
        source("rows.cu", "each.cu"),
        entry,
        out,
        launch_dims=threads,
        types={
            "W": out.dtype,
            "A": out.dtype,
            "X": out.dtype,
            "Y": out.dtype,
            **dict.fromkeys("IJPQR", "int32"),
            **types,
        },
        options=definitions(flags),
        zeroed=zeroed,
        input_output_aliases=aliases,
    )


def _in_sums(out: Any) -> Any:
    return jax.ShapeDtypeStruct(out.shape, precise(out.dtype))


def per_element(
    out: Any,
    indices: Any,
    indptr: Any,
    perm: Any,
    of_rows: Any,
    of_columns: Any,
    *,
    event: bool,
    silent: bool,
    by_rows: bool,
) -> jax.Array:
    """Return, for each stored element, the products of its row's and its column's values, summed over further axes.

    `by_rows` says whether the side of rows has the events, or the zeros that are left out if `silent`. Without row
    pointers, indices are a matrix with rows of equal length; without places, results are in order.
    """
    sums, (rows, width) = _in_sums(out), of_rows.shape
    sides = _sides(of_rows, of_columns, sums, event=event, by_rows=by_rows)
    number = 0 if indptr is not None else indices.shape[1]
    arrays = (indices, indices if indptr is None else indptr, indices if perm is None else perm)
    types = dict(zip("IPQXY", (array.dtype for array in (*arrays, *sides)), strict=True))
    flags = {"EVENTS": event, "SILENT": silent, "BY_ROWS": by_rows, "INDEXED": perm is not None, "NUMBER": number > 0}
    call = _kernel("per_element", sums, WARP * rows, types, zeroed=True, **flags)
    numbers = {"rows": rows, "number": number, "stored": indices.size, "size": of_columns.shape[0], "width": width}
    found: jax.Array = call(*arrays, *sides, **numbers).astype(out.dtype)
    return found


def per_coordinate(
    out: Any,
    row: Any,
    col: Any,
    of_rows: Any,
    of_columns: Any,
    *,
    event: bool,
    silent: bool,
    by_rows: bool,
    within: bool,
) -> jax.Array:
    """Return the same for elements in coordinates: a thread takes one, and reads the other side only at events."""
    sums, (rows, width) = _in_sums(out), of_rows.shape
    sides = _sides(of_rows, of_columns, sums, event=event, by_rows=by_rows)
    types = dict(zip("IJXY", (array.dtype for array in (row, col, *sides)), strict=True))
    flags = {"EVENTS": event, "SILENT": silent, "BY_ROWS": by_rows, "WITHIN": within}
    call = _kernel("per_coordinate", sums, row.size, types, **flags)
    numbers = {"rows": rows, "columns": of_columns.shape[0], "stored": row.size, "width": width}
    found: jax.Array = call(row, col, *sides, **numbers).astype(out.dtype)
    return found


def _sides(of_rows: Any, of_columns: Any, sums: Any, *, event: bool, by_rows: bool) -> list[jax.Array]:
    """Return both sides in the dtype of sums; if one has events, these as booleans."""
    sides: list[jax.Array] = [side.astype(sums.dtype) for side in (of_rows, of_columns)]
    if event:
        sides[not by_rows] = is_active((of_rows, of_columns)[not by_rows])
    return sides


def copied(out: Any, weights: Any, indices: Any, indptr: Any, chosen: Any, *, shape: tuple[int, int]) -> jax.Array:
    """Return chosen rows as dense ones."""
    types = {"W": weights.dtype, "I": indices.dtype, "P": indptr.dtype, "R": chosen.dtype}
    call = _kernel("slice_rows", _in_sums(out), WARP * chosen.size, types, zeroed=True, ONE=weights.size == 1)
    numbers = {"count": chosen.size, "rows": shape[0], "stored": indices.size, "width": shape[1]}
    found: jax.Array = call(weights, indices, indptr, chosen, **numbers).astype(out.dtype)
    return found


def added(out: Any, indices: Any, indptr: Any, chosen: Any, dense: Any, *, shape: tuple[int, int]) -> jax.Array:
    """Return, for each stored element, the sum of values in its column of dense rows that were chosen from its row."""
    sums, types = _in_sums(out), {"I": indices.dtype, "P": indptr.dtype, "R": chosen.dtype}
    call = _kernel("add_rows", sums, WARP * chosen.size, types, zeroed=True)
    numbers = {"count": chosen.size, "rows": shape[0], "stored": indices.size, "width": shape[1]}
    found: jax.Array = call(indices, indptr, chosen, dense.astype(sums.dtype), **numbers).astype(out.dtype)
    return found


def multiplied(y: Any, w: Any, structure: Any, out: Any, *, of_columns: bool) -> jax.Array:
    """Return each value of w times that of its row, or column, in y, given row pointers, or columns."""
    (batch, stored), neurons = out.shape, y.shape[1]
    types, threads = {"I": structure.dtype, "P": structure.dtype}, stored if of_columns else WARP * neurons * batch
    call = _kernel("of_columns" if of_columns else "of_rows", out, threads, types, zeroed=not of_columns)
    size = "columns" if of_columns else "rows"
    numbers = {size: neurons, "stored": stored, "batch": batch, "of_y": y.shape[0], "of_w": w.shape[0]}
    found: jax.Array = call(y, w, structure, **numbers)
    return found


def updated(weights: Any, indices: Any, indptr: Any, perm: Any, spikes: Any, trace: Any, after: Any) -> jax.Array:
    """Return weights to which the trace of their column is added if their row spikes.

    Without row pointers, indices are a matrix with rows of equal length; without places, weights are in order.
    """
    number = 0 if indptr is not None else indices.shape[1]
    arrays = (indices, indices if indptr is None else indptr, indices if perm is None else perm)
    types = dict(zip("IPQ", (array.dtype for array in arrays), strict=True))
    call = _updating("update", weights, spikes, types, INDEXED=perm is not None, NUMBER=number > 0)
    numbers = {"slices": spikes.shape[0], "number": number, "stored": weights.size, "size": trace.shape[0]}
    found: jax.Array = call(weights, *arrays, spikes, trace, after, **numbers)
    return found


def updated_dense(weights: Any, spikes: Any, trace: Any, after: Any, *, by_columns: bool) -> jax.Array:
    """Return the weights of a dense matrix, with the trace added to rows or columns that spike."""
    call = _updating("update_dense", weights, spikes, {}, COLUMNS=by_columns)
    found: jax.Array = call(weights, spikes, trace, after, slices=spikes.shape[0], size=trace.shape[0])
    return found


def _updating(entry: str, weights: Any, spikes: Any, types: Mapping[str, Any], **flags: Any) -> Any:
    """Return a kernel whose result starts as the weights."""
    neurons = spikes.shape[0]
    parts = power_of_two(weights.size // max(1, neurons) // _EACH, _MOST_PARTS)
    out = jax.ShapeDtypeStruct(weights.shape, weights.dtype)
    types = {"A": precise(weights.dtype), **types}
    return _kernel(entry, out, WARP * parts * neurons, types, PARTS=parts, aliases={0: 0}, **flags)
