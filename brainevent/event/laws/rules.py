# SPDX-License-Identifier: Apache-2.0
"""Functions that the rules of several laws use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ...config import PLATFORMS
from ...operator.custom_kernel import XLACustomKernel
from ...operator.entry import REFERENCE, meant
from ..description import Cut

__all__ = ["all_finite", "has_kernel_for", "linear_in", "of_operands", "of_part", "without_unreached"]


def has_kernel_for(operator: XLACustomKernel | None, params: Mapping[str, Any]) -> bool:
    """Say whether an operator has the kernel that the call of another one names; True if the call names none."""
    if operator is None:
        return False
    backend = params.get("backend")
    known = {REFERENCE, *(name for platform in PLATFORMS for name in operator.available_backends(platform))}
    return backend is None or meant(backend, known) is not None


def linear_in(operator: XLACustomKernel, place: int) -> Callable[..., Any]:
    """Return the derivative with respect to an operand in which an operator is linear: the operator of the tangent."""

    def by_operand(tangent: Any, *operands: Any, **params: Any) -> Any:
        at = place % len(operands)
        return operator(*operands[:at], tangent, *operands[at + 1 :], **params)

    return by_operand


def of_part(cut: Cut, *, before: int) -> Callable[..., tuple[Any, ...]] | None:
    """Return a function of operands that makes row pointers those of the elements of a part.

    `before` is the number of operands before the arrays of indices.
    """
    if cut.pointers is None:
        return cut.moved
    return functools.partial(_of_elements, factor=cut.stored, pointers=before + cut.pointers)


def _of_elements(places: Mapping[str, tuple[Any, int]], *operands: Any, factor: str, pointers: int) -> tuple[Any, ...]:
    begin, size = places[factor]
    indptr = operands[pointers]
    local = jnp.clip(jnp.maximum(indptr, 0) - begin.astype(indptr.dtype), 0, size)
    return (*operands[:pointers], local, *operands[pointers + 1 :])


def of_operands(names: tuple[str, ...], function: Callable[..., Any]) -> Callable[..., Any]:
    """Note the names of the operands of a reference, which the pages of operators show."""
    function.operands = names  # type: ignore[attr-defined]
    return function


# ---- cotangents of results to which nothing was added: they must not count, even if they are NaN or infinite


@jax.custom_batching.custom_vmap
def all_finite(x: Any) -> jax.Array:
    """Say whether all numbers are finite; in a batch, whether those of all entries are, so that a branch stays one."""
    return jnp.isfinite(x).astype("uint8").min(initial=1) != 0  # bytes are compared as vectors


@all_finite.def_vmap
def _of_all_entries(axis_size: int, in_batched: Any, x: Any) -> tuple[jax.Array, bool]:
    return all_finite(x), False


def without_unreached(cotangent: jax.Array, sums: jax.Array, reached: Callable[[], Any]) -> jax.Array:
    """Return a cotangent with zeros where nothing was reached: zero times NaN or infinity is not zero.

    `sums` are those of the values that reached a place, so they may be zero there, too; then it does not matter whether
    a finite cotangent counts. `reached()` is computed only if one is not finite where the sum is zero.
    """
    zeros_count = all_finite(jax.lax.stop_gradient(jnp.where(sums != 0, 0, cotangent)))
    chosen: jax.Array = jax.lax.cond(
        zeros_count,
        lambda cotangent: jnp.where(sums != 0, cotangent, 0),
        lambda cotangent: jnp.where(reached(), cotangent, 0),
        cotangent,
    )
    return chosen
