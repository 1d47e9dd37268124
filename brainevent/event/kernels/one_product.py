# SPDX-License-Identifier: Apache-2.0
"""One product in every other language, that of compressed rows with a vector of events; and dense ones by XLA."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..activity import is_active
from ..csr.format import CSR
from ..dense.format import DENSE, dot
from ..description import Description, Language, Shape
from ..laws.products import EVENTS
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

    def generator(*, outs: Sequence[Any], transpose: bool) -> Callable[..., Any]:
        def run(weights: Any, x: Any) -> list[Any]:
            found = dot(weights, is_active(x).astype(weights.dtype), transpose=transpose).astype(weights.dtype)
            # Zero times NaN or infinity is not zero: then weights of inactive neurons must be left out.
            by_events = lambda: of.law.reference(of)(weights, x, transpose=transpose)[0]  # noqa: E731
            return [jax.lax.cond(jnp.isfinite(found).all(), lambda: found, by_events)]

        return run

    return generator if of.format is DENSE and of.law is EVENTS else None


DOT = tuple(Language("dot", platform, _by_dot) for platform in ("cpu", "gpu", "tpu"))
