# SPDX-License-Identifier: Apache-2.0
"""One product in every other language: that of compressed rows with a vector of events. And dense ones by XLA."""

from __future__ import annotations

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


def _cpp() -> Any:
    from ..csr.on_cpp import product

    return product


def _numba_cuda() -> Any:
    from ..csr.on_numba_cuda import product

    return product


def _warp() -> Any:
    from ..csr.on_warp import product

    return product


def _triton() -> Any:
    from ..csr.on_triton import product

    return product


def _pallas_on_gpu() -> Any:
    from ..csr.on_pallas import gpu_product

    return gpu_product


def _pallas_on_tpu() -> Any:
    from ..csr.on_pallas import tpu_product

    return tpu_product


def _language(backend: str, platform: str, load: Callable[[], Any]) -> Language:
    """Return a language that has `product(weights, indices, indptr, events, sums, shape=..., transpose=...)`."""

    def generator(*, outs: Sequence[Any], shape: Shape, transpose: bool, **_: Any) -> Callable[..., Any]:
        (out,), product = outs, load()

        def run(weights: Any, indices: Any, indptr: Any, x: Any) -> list[Any]:
            sums = jax.ShapeDtypeStruct(out.shape, precise(weights.dtype))
            found = product(weights, indices, indptr, is_active(x), sums, shape=shape, transpose=transpose)
            return [found.astype(out.dtype)]

        return run

    return Language(backend, platform, lambda of: generator if of == _PRODUCT else None)


OTHERS = (
    _language("cpp", "cpu", _cpp),
    _language("numba_cuda", "gpu", _numba_cuda),
    _language("warp", "gpu", _warp),
    _language("triton", "gpu", _triton),
    _language("pallas", "gpu", _pallas_on_gpu),
    _language("pallas", "tpu", _pallas_on_tpu),
)


def _by_dot(of: Description) -> Callable[..., Any] | None:
    """Multiply by zeros and ones: faster than to visit events, where there are many."""

    def generator(*, outs: Sequence[Any], transpose: bool) -> Callable[..., Any]:
        def run(weights: Any, x: Any) -> list[Any]:
            found = dot(weights, is_active(x).astype(weights.dtype), transpose=transpose).astype(weights.dtype)
            # Zero times NaN or infinity is no zero: then the weights of who is silent must be left out.
            by_events = lambda: of.law.reference(of)(weights, x, transpose=transpose)[0]  # noqa: E731
            return [jax.lax.cond(jnp.isfinite(found).all(), lambda: found, by_events)]

        return run

    return generator if of.format is DENSE and of.law is EVENTS else None


DOT = tuple(Language("dot", platform, _by_dot) for platform in ("cpu", "gpu", "tpu"))
