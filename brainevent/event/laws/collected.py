# SPDX-License-Identifier: Apache-2.0
"""Collected values: each element of an active row takes the number at the place of a ring to which it was delivered.

This is the gradient of a delivery with respect to its weights. Operators are called as `operator(ring, *arrays of
indices, delays, x, t)`, as those of deliveries, and return a number for each stored element. Only rows where x is not
zero are visited; their elements get the number, or if `weighted` the number times x, and all others exactly zero. With
`perm`, element j adds to the result `perm[j]`. Out-of-range indices are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import is_undefined_primal
from ...operator.custom_kernel import XLACustomKernel
from ..activity import is_active
from ..description import Description, Law, Others
from .delayed import Delayed, Places
from .rules import linear_in, of_operands

__all__ = ["Collected"]


@dataclass(frozen=True, eq=False, repr=False)
class Collected(Delayed):
    """The law, which is linear in the ring; its derivative by x is that of numbers.

    `delivery()` is the law of the delivery, which is the transpose.
    """

    delivery: Callable[[], Law | None] = lambda: None
    kind = "collected"

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def collected(ring: Any, *rest: Any, weighted: bool = False, **_: Any) -> list[Any]:
            *structure, delays, x, t = rest
            stored = of.stored(structure, None, (x.shape[0], ring.shape[1]))
            at = Places.of(of, ring, jnp.zeros(stored, ring.dtype), structure, delays, x.shape[0], t)
            terms, active = at.taken(ring), at.elements.at(at.elements.row, is_active(x))
            if weighted:
                terms *= at.elements.at(at.elements.row, x.astype(terms.dtype))
            terms = jnp.where(active, terms, 0)  # a choice: zero times NaN or infinity is not zero
            if of.indexed:
                place = jnp.where(at.touched, structure[-1], terms.size)
                terms = jnp.zeros(stored, terms.dtype).at[place].add(terms, mode="drop")
            return [terms.astype(ring.dtype)]

        return of_operands(("ring", *of.arrays, "delays", "x", "t"), collected)

    def cut(self, of: Description) -> dict[str, Any]:
        """Share nothing: any element may take from any place of the ring."""
        factors = self.factors(of, 2)
        return {
            "rule": f"{', '.join(factors)} -> {factors[1]}",
            "need_replication_factors": tuple(" ".join(factors).split()),
        }

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        """Give an operator its derivatives."""
        delivery, nothing = of.also(law=self.delivery()), [None] * (len(of.arrays) + 1)

        def by_x(tangent: Any, *operands: Any, **params: Any) -> Any:
            # Straight through: the derivative is that of numbers.
            return operator(*operands[:-2], tangent, operands[-1], **{**params, "weighted": True})

        def transposed(cotangents: Any, ring: Any, *rest: Any, outs: Any, **params: Any) -> list[Any]:
            (cotangent,), (*structure, delays, x, t) = cotangents, rest
            if is_undefined_primal(x):
                at = Places.of(delivery, ring, cotangent, structure, delays, x.aval.shape[0], t)
                return [None, *nothing, at.by_rows(ring, x.aval), None]
            out = jax.ShapeDtypeStruct(ring.aval.shape, ring.aval.dtype)
            (found,) = apply(delivery, jnp.zeros(out.shape, out.dtype), cotangent, *rest, outs=[out], **params)
            return [found, *nothing, None, None]

        operator.def_jvp_rule2(linear_in(operator, 0), *nothing, by_x, None)
        operator.def_transpose_rule(transposed)

    def operands(self, ring: Any, weights: Any, rest: Sequence[Any]) -> tuple[Any, ...]:
        return (ring, *rest)
