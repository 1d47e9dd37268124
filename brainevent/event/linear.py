# SPDX-License-Identifier: Apache-2.0
"""The rules that products with a sparse matrix share: derivatives, and batches of vectors as matrices.

Operands are the weights, arrays of indices, and x; keyword arguments are `shape=(m, k)` and `transpose`: `A @ x` with x
of k rows, or `A.T @ x` with x of m rows. The products are linear in the weights, and in x unless x holds events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._compat import is_undefined_primal
from ..config import PLATFORMS
from ..operator.custom_kernel import XLACustomKernel
from ..operator.entry import REFERENCE, meant
from .activity import weighted
from .precision import precise

__all__ = ["has_kernel_for", "relate"]

PerElement = Callable[[Sequence[Any], Any, Any], jax.Array]


def relate(
    operator: XLACustomKernel,
    *,
    linear: XLACustomKernel,
    of_matrices: XLACustomKernel,
    per_element: PerElement,
    indices: int,
    event: bool,
) -> None:
    """Give a product its rules: derivatives by x are `linear`, batches over x are `of_matrices`.

    `per_element(indices, of_rows, of_columns)` returns, for each stored element, the product of its row's and its
    column's values, summed over further axes.
    """
    rules = _Rules(operator, linear, of_matrices, per_element, indices, event)
    operator.def_jvp_rule2(rules.by_weights, *[None] * indices, rules.by_x)
    operator.def_transpose_rule(rules.transpose)
    operator.def_batching_rule(rules.batch)


@dataclass(frozen=True)
class _Rules:
    """The rules of a product, whose operands are weights, so many arrays of indices, and x."""

    operator: XLACustomKernel
    linear: XLACustomKernel
    of_matrices: XLACustomKernel
    per_element: PerElement
    indices: int
    event: bool

    def by_weights(self, tangent: Any, weights: Any, *rest: Any, **params: Any) -> Any:
        return self.operator(tangent, *rest, **params)

    def by_x(self, tangent: Any, *operands: Any, **params: Any) -> Any:
        if not has_kernel_for(self.linear, params):
            params = {**params, "backend": None}
        return self.linear(*operands[:-1], tangent, **params)  # straight through: an event changes as its number does

    def transpose(self, cotangents: Any, weights: Any, *rest: Any, **params: Any) -> Any:
        (cotangent,), (*where, x) = cotangents, rest
        nothing = [None] * self.indices
        if not is_undefined_primal(x):
            of_weights = self._for_one_weight if weights.aval.size == 1 else self._for_each_weight
            found = of_weights(cotangent, weights.aval, where, x, params)
            return [found.reshape(weights.aval.shape).astype(weights.aval.dtype), *nothing, None]
        outs = [jax.ShapeDtypeStruct(x.aval.shape, cotangent.dtype)]
        turned = {**params, "transpose": not params["transpose"], "outs": outs}
        (found,) = self.operator(weights, *where, cotangent, **turned)
        return [None, *nothing, found.astype(x.aval.dtype)]

    def _for_one_weight(
        self, cotangent: Any, weights: Any, where: Sequence[Any], x: Any, params: dict[str, Any]
    ) -> Any:
        # The product with a weight of one visits only the events; per element, all would be visited.
        sums = precise(weights.dtype)
        outs = [jax.ShapeDtypeStruct(cotangent.shape, sums)]
        (counts,) = self.operator(jnp.ones(weights.shape, sums), *where, x, **{**params, "outs": outs})
        return jnp.vdot(counts, cotangent.astype(sums))

    def _for_each_weight(
        self, cotangent: Any, weights: Any, where: Sequence[Any], x: Any, params: dict[str, Any]
    ) -> Any:
        sums = precise(weights.dtype)
        values = weighted(jnp.ones(x.shape, sums), x) if self.event else x.astype(sums)
        cotangent = cotangent.astype(sums)
        return self.per_element(where, *((values, cotangent) if params["transpose"] else (cotangent, values)))

    def batch(self, args: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        *structure, x = args
        if any(axis is not None for axis in axes[:-1]) or not has_kernel_for(self.of_matrices, params):
            return NotImplemented  # the kernel goes through the batch
        x = jnp.moveaxis(x, axes[-1], -1)
        (out,) = params["outs"]
        flat = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        outs = [jax.ShapeDtypeStruct((out.shape[0], flat.shape[1]), out.dtype)]
        (found,) = self.of_matrices(*structure, flat, **{**params, "outs": outs})
        return [found.reshape(*out.shape, x.shape[-1])], [len(out.shape)]


def has_kernel_for(operator: XLACustomKernel, params: Mapping[str, Any]) -> bool:
    """Say whether an operator has the kernel that a call of another one names, if it does."""
    backend = params.get("backend")
    known = {REFERENCE, *(name for platform in PLATFORMS for name in operator.available_backends(platform))}
    return backend is None or meant(backend, known) is not None
