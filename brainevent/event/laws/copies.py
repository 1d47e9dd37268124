# SPDX-License-Identifier: Apache-2.0
"""Copies: chosen rows of a matrix as dense ones, and its transpose, which sums dense rows for each element.

`slice(weights, *arrays of indices, chosen, shape=(m, k))` gives rows (r,) as dense ones (r, k). `add(*arrays of
indices, chosen, dense, shape=(m, k))` gives, for each stored element, the sum of the values in its column of those
dense rows (r, k) that were chosen from its row. Rows that are out of range are zero, and are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ...bench.record import BenchmarkConfig
from ...operator.custom_kernel import XLACustomKernel
from ..description import Description, Law, Others
from ..elements import Elements
from ..operands import is_within
from ..precision import precise
from .rules import linear_in, of_operands

__all__ = ["ADDED", "COPIED", "Copies"]


@dataclass(frozen=True, eq=False, repr=False)
class Copies(Law):
    """Rows as dense ones, or with `grad` the transpose of that: each is linear, and the derivative of the other."""

    grad: bool = False
    kind = "copies"

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def rows(weights: Any, *rest: Any, shape: tuple[int, int]) -> list[Any]:
            *structure, chosen = rest
            elements = of.elements(structure, weights, shape)
            found = jnp.zeros((chosen.shape[0], shape[1]), precise(weights.dtype))
            here = jnp.where(_in_chosen(elements, chosen), weights.astype(found.dtype).reshape(-1), 0)
            columns = elements.numbers(elements.column)
            return [found.at[:, jnp.where(is_within(columns, shape[1]), columns, 0)].add(here).astype(weights.dtype)]

        def added(*operands: Any, shape: tuple[int, int]) -> list[Any]:
            *structure, chosen, dense = operands
            elements = of.elements(structure, None, shape)
            values = dense[:, elements.numbers(elements.column)].astype(precise(dense.dtype))
            here = jnp.where(_in_chosen(elements, chosen), values, 0)
            return [here.sum(0).reshape(elements.stored).astype(dense.dtype)]

        if self.grad:
            return of_operands((*of.arrays, "chosen", "dense"), added)
        return of_operands((of.format.weights, *of.arrays, "chosen"), rows)

    def cut(self, of: Description) -> dict[str, Any]:
        """Let devices share the chosen rows."""
        arrays = ", ".join(of.format.cut.arrays)
        if not self.grad:
            return {"rule": lambda weights, *_, **__: f"{_each(weights)}, {arrays}, r -> r k"}
        stored = of.format.cut.stored
        whole = {"need_replication_factors": (*stored.split(), "k")}
        return {"rule": f"{arrays}, r, r k -> {stored}", "reduction_factors": ("r",), **whole}

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        other, nothing = of.also(law=ADDED if not self.grad else COPIED), [None] * len(of.arrays)

        def to_weights(cotangents: Any, weights: Any, *rest: Any, **params: Any) -> list[Any]:
            (cotangent,), wanted = cotangents, weights.aval
            if wanted.size == 1:
                (counts,) = operator(jnp.ones(wanted.shape, cotangent.dtype), *rest, **params)
                cotangent = jnp.where(counts != 0, cotangent, 0)  # which is NaN or infinite where nothing is stored
                return [jnp.vdot(counts, cotangent).reshape(wanted.shape), *nothing, None]
            outs = [jax.ShapeDtypeStruct(wanted.shape, wanted.dtype)]
            (found,) = apply(other, *rest, cotangent, **{**params, "outs": outs})
            return [found, *nothing, None]

        def to_dense(cotangents: Any, *operands: Any, **params: Any) -> list[Any]:
            (cotangent,), (*rest, dense) = cotangents, operands
            outs = [jax.ShapeDtypeStruct(dense.aval.shape, dense.aval.dtype)]
            (found,) = apply(other, cotangent, *rest, **{**params, "outs": outs})
            return [*nothing, None, found]

        if self.grad:
            operator.def_jvp_rule2(*nothing, None, linear_in(operator, -1))
        else:
            operator.def_jvp_rule2(linear_in(operator, 0), *nothing, None)
        operator.def_transpose_rule(to_dense if self.grad else to_weights)

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make random connections, and choose a hundredth of the rows."""
        configs = []
        for n, number in of.format.sizes:
            structure, chosen = of.format.draw(n, number), jnp.arange(0, n, 100, dtype=jnp.int32)
            operands: tuple[Any, ...] = (jnp.ones(of.format.stored(structure, (n, n))), *structure, chosen)
            if self.grad:
                operands = (*structure, chosen, jnp.ones((chosen.size, n)))
            written = 4 * n * number if self.grad else 4 * chosen.size * n
            configs.append(
                BenchmarkConfig(
                    f"{n} x {number} rows={chosen.size}",
                    operands,
                    {"shape": (n, n)},
                    {"n": n, "fan_out": number},
                    bytes=written + chosen.size * (32 + 12 * number),
                    flops=chosen.size * number if self.grad else None,
                )
            )
        return configs


COPIED = Copies(
    "{format}_slice_rows", ("slice",), "Return chosen rows as dense ones; rows that are out of range are zero."
)
ADDED = Copies(
    "{format}_slice_rows_grad",
    ("slice", "grad"),
    "Sum, for each stored element, the values in its column of the dense rows that were chosen from its row.",
    grad=True,
)


def _in_chosen(elements: Elements, chosen: Any) -> jax.Array:
    """Say of each chosen row and each element whether it is in that row, and in the matrix."""
    rows, there = elements.numbers(elements.row), jnp.broadcast_to(elements.there, elements.stored).reshape(-1)
    return (chosen[:, None] == rows) & there


def _each(weights: Any) -> str:
    """Return the factors of weights that are not cut."""
    return " ".join(f"w{i}" for i in range(weights.ndim))
