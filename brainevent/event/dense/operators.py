# SPDX-License-Identifier: Apache-2.0
"""The operators on dense matrices: their kernels, derivatives, batches and shards.

Each is called with `transpose`: `weights @ x` with weights (m, k), or `weights.T @ x` with weights (k, m), and x of k
rows. Devices may share rows and columns of the weights, and columns of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import is_undefined_primal
from ...operator.custom_kernel import XLACustomKernel
from ..activity import is_active, weighted
from ..precision import precise
from .reference import product

__all__ = ["binary_densemm_p", "binary_densemv_p"]


def _dot(weights: Any, x: Any, *, transpose: bool) -> jax.Array:
    """Return the product of numbers, in numbers as exact as those of the kernels' sums."""
    exact = precise(jnp.promote_types(weights.dtype, x.dtype))
    weights, x = weights.astype(exact), x.astype(exact)
    highest = jax.lax.Precision.HIGHEST
    if transpose:  # weights.T @ x, which XLA would make of this, takes up to fifty times as long on a CPU
        return jax.lax.optimization_barrier(jnp.matmul(x.T, weights, precision=highest)).T
    return jnp.matmul(weights, x, precision=highest)


def _numba(*, outs: Sequence[Any], transpose: bool) -> Callable[..., Any]:
    from .on_cpu import numba_product

    return numba_product(outs, transpose=transpose)


def _cuda(*, outs: Sequence[Any], transpose: bool) -> Callable[..., Any]:
    from .on_gpu import cuda_product

    return cuda_product(outs, transpose=transpose)


def _by_dot(*, outs: Sequence[Any], transpose: bool) -> Callable[..., Any]:
    """Multiply by zeros and ones: faster than to visit events, where there are many."""

    def run(weights: Any, x: Any) -> Any:
        found = _dot(weights, is_active(x).astype(weights.dtype), transpose=transpose).astype(weights.dtype)
        # Zero times NaN or infinity is no zero: then the weights of who is silent must be left out.
        return [
            jax.lax.cond(jnp.isfinite(found).all(), lambda: found, lambda: product(weights, x, transpose=transpose))
        ]

    return run


def _straight_through(tangent: Any, weights: Any, *, transpose: bool) -> list[jax.Array]:
    """Change the product as if an event were the number that it came from."""
    return [_dot(weights, tangent, transpose=transpose).astype(weights.dtype)]


def _transposed(cotangents: Sequence[Any], weights: Any, x: Any, *, transpose: bool, **params: Any) -> Sequence[Any]:
    """Return the cotangent of the weights, or that of events which a derivative goes straight through."""
    (cotangent,) = cotangents
    if is_undefined_primal(x):
        return None, _dot(weights, cotangent, transpose=not transpose).astype(x.aval.dtype)
    events = weighted(jnp.ones_like(cotangent, shape=x.shape), x)  # which itself has derivatives, straight through
    sides = (events, cotangent) if transpose else (cotangent, events)
    if x.ndim == 1:
        return jnp.outer(*sides).astype(weights.aval.dtype), None
    return _dot(sides[0], sides[1].T, transpose=False).astype(weights.aval.dtype), None


def _batch(args: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
    """Make one product of a batch of x: a matrix, of one column per element or of more."""
    (weights, x), (of_weights, of_x) = args, axes
    if of_weights is not None:
        return NotImplemented  # the kernel goes through the batch
    x = jnp.moveaxis(x, of_x, -1)
    (out,) = params["outs"]
    flat = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    outs = [jax.ShapeDtypeStruct((out.shape[0], flat.shape[1]), out.dtype)]
    (found,) = binary_densemm_p(weights, flat, **{**params, "outs": outs})
    return [found.reshape(*out.shape, x.shape[-1])], [len(out.shape)]


def _cut(weights: Any, x: Any, *, transpose: bool) -> str:
    """Write the sharding rule: devices may share rows, columns, and those of x; sums over `k` are partial."""
    columns = " n" * (x.ndim - 1)
    return f"{'k m' if transpose else 'm k'}, k{columns} -> m{columns}"


def _define(name: str) -> XLACustomKernel:
    operator = XLACustomKernel(name)
    operator.def_numba_kernel(_numba)
    operator.def_cuda_raw_kernel(_cuda, language="nvrtc")
    for platform in ("cpu", "gpu", "tpu"):
        operator.def_kernel("dot", platform, _by_dot)
    operator.def_reference(lambda weights, x, *, transpose: [product(weights, x, transpose=transpose)])
    operator.def_tags("dense", "binary")
    operator.def_sharding_rule(_cut, reduction_factors=("k",))
    operator.def_jvp_rule2(
        lambda tangent, weights, x, **params: operator(tangent, x, **params),
        lambda tangent, weights, x, *, transpose, **params: _straight_through(tangent, weights, transpose=transpose),
    )
    operator.def_transpose_rule(_transposed)
    operator.def_batching_rule(_batch)
    return operator


binary_densemv_p = _define("binary_densemv")
binary_densemm_p = _define("binary_densemm")
