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
from ..description import Description, Generator, Language
from ..laws.products import EVENTS

__all__ = ["DOT", "OTHERS"]

_PRODUCT = Description(CSR, EVENTS)


def _cpp(**how: Any) -> Any:
    from ..csr.on_cpp import cpp_product

    return cpp_product(**how)


def _numba_cuda(**how: Any) -> Any:
    from ..csr.on_numba_cuda import numba_cuda_product

    return numba_cuda_product(**how)


def _warp(**how: Any) -> Any:
    from ..csr.on_warp import warp_product

    return warp_product(**how)


def _triton(**how: Any) -> Any:
    from ..csr.on_triton import triton_product

    return triton_product(**how)


def _pallas_on_gpu(**how: Any) -> Any:
    from ..csr.on_pallas import gpu_product

    return gpu_product(**how)


def _pallas_on_tpu(**how: Any) -> Any:
    from ..csr.on_pallas import tpu_product

    return tpu_product(**how)


def _language(backend: str, platform: str, generator: Generator) -> Language:
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
