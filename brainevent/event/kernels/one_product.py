# SPDX-License-Identifier: Apache-2.0
"""One product in every other language, that of compressed rows with a vector of events; and dense ones by XLA."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..activity import is_active
from ..csr.format import CSR
from ..dense.format import DENSE, dot
from ..description import Description, Language, Shape
from ..laws.products import EVENT_PAIRS, EVENTS, VALUED, VALUED_PAIRS
from ..laws.rules import all_finite
from ..precision import precise

__all__ = ["DOT", "OTHERS"]

_PRODUCT = Description(CSR, EVENTS)


def _language(backend: str, platform: str, file: str, name: str = "product") -> Language:
    """Return a language in which a file of `csr/` has `product(weights, indices, indptr, events, sums, ...)`.

    What the language needs is imported with the file, by its first kernel.
    """

    def generator(*, outs: Sequence[Any], shape: Shape, transpose: bool, **_: Any) -> Callable[..., Any]:
        (out,), product = outs, getattr(importlib.import_module(f"..csr.{file}", __package__), name)

        def run(weights: Any, indices: Any, indptr: Any, x: Any) -> list[Any]:
            sums = jax.ShapeDtypeStruct(out.shape, precise(weights.dtype))
            found = product(weights, indices, indptr, is_active(x), sums, shape=shape, transpose=transpose)
            return [found.astype(out.dtype)]

        return run

    return Language(backend, platform, lambda of: generator if of == _PRODUCT else None)


OTHERS = (
    _language("cpp", "cpu", "on_cpp"),
    _language("numba_cuda", "gpu", "on_numba_cuda"),
    _language("warp", "gpu", "on_warp"),
    _language("triton", "gpu", "on_triton"),
    _language("pallas", "gpu", "on_pallas", "gpu_product"),
    _language("pallas", "tpu", "on_pallas", "tpu_product"),
)


def _by_dot(of: Description) -> Callable[..., Any] | None:
    """Multiply by zeros and ones, which is faster than visiting events if there are many."""
    if of.format is not DENSE:
        return None
    return {EVENTS: _sums_by_dot, VALUED: _sums_by_dot, EVENT_PAIRS: _pairs_by_dot, VALUED_PAIRS: _pairs_by_dot}.get(
        of.law, lambda of: None
    )(of)


def _sums_by_dot(of: Description) -> Callable[..., Any]:
    def generator(*, outs: Sequence[Any], transpose: bool, **_: Any) -> Callable[..., Any]:
        (out,) = outs

        def run(weights: Any, x: Any) -> list[Any]:
            values = is_active(x).astype(weights.dtype) if of.law.event else x
            found = dot(weights, values, transpose=transpose).astype(out.dtype)
            by_events = lambda: of.law.reference(of)(weights, x, transpose=transpose)[0].astype(out.dtype)  # noqa: E731
            return [_unless_finite(found, by_events)]

        return run

    return generator


def _pairs_by_dot(of: Description) -> Callable[..., Any]:
    def generator(*, outs: Sequence[Any], transpose: bool = True, **_: Any) -> Callable[..., Any]:
        (out,) = outs

        def by_events(*turned: Any) -> Any:
            return of.law.reference(of)(*(side.T for side in turned), transpose=transpose)[0].astype(out.dtype)

        def by_dot(*turned: Any) -> Any:
            rows, columns = (side.astype(out.dtype) for side in turned)
            return dot(rows.T, columns, transpose=False).astype(out.dtype)

        def run(*sides: Any) -> list[Any]:
            turned = [side.T for side in sides]  # as batches are given, so that XLA copies no side for the branches
            if sides[0].shape[1] == 1:
                return [by_events(*turned)]
            if of.law.event:
                place = 0 if transpose else 1
                turned[place] = is_active(turned[place])
            finite = [all_finite(side) for side in turned if jnp.issubdtype(side.dtype, jnp.inexact)]
            return [jax.lax.cond(functools.reduce(jnp.logical_and, finite), by_dot, by_events, *turned)]

        return run

    return generator


def _unless_finite(found: Any, by_events: Callable[[], Any]) -> Any:
    """Return what was found, or if that is not finite, what events give: zero times NaN or infinity is not zero."""
    return jax.lax.cond(all_finite(found), lambda: found, by_events)


DOT = tuple(Language("dot", platform, _by_dot) for platform in ("cpu", "gpu", "tpu"))
