# SPDX-License-Identifier: Apache-2.0
"""Functions that the rules of several laws use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from ...config import PLATFORMS
from ...operator.custom_kernel import XLACustomKernel
from ...operator.entry import REFERENCE, meant
from ..description import Cut

__all__ = ["has_kernel_for", "linear_in", "of_operands", "of_part"]


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
