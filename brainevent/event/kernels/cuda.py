# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ for NVIDIA GPUs, compiled by NVRTC: kernels of all laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..coo.format import COORDINATES
from ..csr.format import CSR
from ..dense.format import DENSE
from ..description import Description, Language
from ..fixed.format import FIXED
from ..laws.copies import ADDED, COPIED
from ..laws.delayed import Delayed
from ..laws.pairs import Pairs
from ..laws.products import EVENTS, NUMBERS, VALUED
from .shared import by_kind, sides_as_added, with_batch

__all__ = ["CUDA"]

_VARIANTS = [  # the first is used until `tune` has found a faster one
    {"clustered": True, "per_slice": 128, "wide": True},
    {"clustered": False, "per_slice": 128, "wide": True},
    {"clustered": False, "per_slice": 128, "wide": False},
    {"clustered": False, "per_slice": 1024, "wide": True},
]


def _has_product(of: Description) -> bool:
    if of.format is DENSE:
        return of.law is EVENTS
    return (of.format.drawn is not None or of.format in (CSR, FIXED, COORDINATES)) and of.law in (
        EVENTS,
        NUMBERS,
        VALUED,
    )


def _product(of: Description, *, outs: Sequence[Any], shape: Any = None, **options: Any) -> Any:
    from ..coo import on_gpu as coo
    from ..csr import on_gpu as csr
    from ..dense import on_gpu as dense

    if of.format.drawn is not None:
        return _drawn(of, outs=outs, **options)
    how: dict[str, Any] = {} if of.format is DENSE else {"event": of.law.event, "silent": of.law is VALUED}
    how |= {"indexed": of.indexed} if of.format is CSR else {}
    if of.format is FIXED:
        return csr.cuda_product_of_equal_rows(outs, **how, **options)
    rooms: Any = {CSR: csr, COORDINATES: coo, DENSE: dense}
    return rooms[of.format].cuda_product(outs, **how, **options)


def _drawn(of: Description, *, outs: Sequence[Any], transpose: bool, **_: Any) -> Callable[..., Any]:
    from ..drawn.on_gpu import cuda_product

    return cuda_product(outs, of.format.drawn or 0, transpose=transpose, event=of.law.event)


def _whole(of: Description, *, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    from ..drawn.on_gpu import cuda_whole

    return cuda_whole(outs, of.format.drawn or 0)


def _variants(of: Description) -> Any:
    if of.law.kind != "product":
        return None
    fixed = {"clustered": (True, False), "per_slice": (128, 1024), "wide": (True, False)}
    return {CSR: _VARIANTS, FIXED: fixed, COORDINATES: {"per_thread": (4, 1, 16)}}.get(of.format)


def _pairs(
    of: Description, *, outs: Sequence[Any], transpose: bool = True, indices_within: bool = False, **_: Any
) -> Callable[..., Any]:
    from ..on_gpu.each import per_coordinate, per_element

    (out,), law = outs, of.law
    assert isinstance(law, Pairs)

    def run(*operands: Any) -> list[Any]:
        *arrays, of_rows, of_columns = operands
        how = {"event": law.event, "silent": law.silent, "by_rows": transpose}
        if of.format is COORDINATES:
            row, col = arrays
            return [per_coordinate(out, row, col, of_rows, of_columns, within=indices_within, **how)]
        indices, indptr, perm = (*arrays, None, None)[:3]
        return [per_element(out, indices, indptr, perm, of_rows, of_columns, **how)]

    return run


def _copies(of: Description, *, outs: Sequence[Any], **how: Any) -> Callable[..., Any]:
    from ..on_gpu import each

    made: Any = {COPIED: each.copied, ADDED: each.added}
    return lambda *operands: [made[of.law](outs[0], *operands, **how)]


def _values(of: Description, *, outs: Sequence[Any], transpose: bool, **_: Any) -> Callable[..., Any]:
    from ..on_gpu.each import multiplied

    def multiply(y: Any, w: Any, structure: Any, out: Any) -> Any:
        return multiplied(y, w, structure[0 if transpose else 1], out, of_columns=transpose)

    return with_batch(outs, multiply)


def _updates(of: Description, *, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    from ..on_gpu.each import updated, updated_dense

    def run(weights: Any, *operands: Any) -> list[Any]:
        *arrays, first, second, after = sides_as_added(of, weights, operands)
        sides = (second, first, after) if of.post else (first, second, after)
        if of.format is DENSE:
            return [updated_dense(weights, *sides, by_columns=of.post)]
        indices, indptr, perm = (*arrays, None, None)[:3]
        return [updated(weights, indices, indptr, perm, *sides)]

    return run


def _deliveries(
    of: Description, *, outs: Sequence[Any], weighted: bool = False, indices_within: bool = False, **_: Any
) -> Callable[..., Any]:
    from ..on_gpu.deliveries import delivered

    law = of.law
    assert isinstance(law, Delayed)

    def run(ring: Any, weights: Any, *operands: Any) -> list[Any]:
        *arrays, delays, x, t = operands
        indices, indptr, perm = (*arrays, None, None)[:3]
        how = {"weighted": weighted, "laid": law.laid, "within": indices_within}
        return [delivered(ring, weights, indices, indptr, perm, delays, x, t, **how)]

    return run


def _collected(
    of: Description, *, outs: Sequence[Any], weighted: bool = False, indices_within: bool = False, **_: Any
) -> Callable[..., Any]:
    from ..on_gpu.deliveries import collected

    (out,), law = outs, of.law
    assert isinstance(law, Delayed)

    def run(ring: Any, *operands: Any) -> list[Any]:
        *arrays, delays, x, t = operands
        indices, indptr, perm = (*arrays, None, None)[:3]
        how = {"weighted": weighted, "laid": law.laid, "within": indices_within}
        return [collected(out, ring, indices, indptr, perm, delays, x, t, **how)]

    return run


def _arrivals(of: Description, *, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    from ..on_gpu.deliveries import taken

    return taken


CUDA = Language(
    "cuda_raw",
    "gpu",
    by_kind(
        {
            "arrivals": (_arrivals, lambda of: of.format is DENSE),
            "collected": (_collected, lambda of: of.format in (CSR, FIXED)),
            "copies": (_copies, lambda of: of.format is CSR),
            "deliveries": (_deliveries, lambda of: of.format in (CSR, FIXED)),
            "pairs": (_pairs, lambda of: of.format in (CSR, FIXED, COORDINATES)),
            "product": (_product, _has_product),
            "updates": (_updates, lambda of: of.format in (CSR, FIXED, DENSE)),
            "values": (_values, lambda of: of.format is CSR),
            "whole": (_whole, lambda of: of.format.drawn is not None),
        }
    ),
    _variants,
    "nvrtc",
)
