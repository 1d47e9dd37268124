# SPDX-License-Identifier: Apache-2.0
"""Deliveries: the weights of active rows are added to a ring of sums, each as many slots ahead as its delay says.

Operators are called as `operator(ring, weights, *arrays of indices, delays, x, t)`: see `delayed.py`. One weight or
delay for all has the rank of one for each. Element (i, j) adds to `ring[(t + delay) % slots, j]`. Only rows where x is
not zero are visited: they add the weight, or if `weighted` the weight times x. Out-of-range indices are ignored.

The gradient with respect to the weights collects values: `operator(ring, *arrays of indices, delays, x, t)` returns a
number for each stored element. Elements of active rows take the number at the place of the ring to which they were
delivered, if `weighted` times x; all others are exactly zero. With `perm`, element j adds to the result `perm[j]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import is_undefined_primal
from ...operator.custom_kernel import XLACustomKernel
from ..activity import is_active
from ..description import Description, Law, Others
from ..precision import precise
from .delayed import Delayed, Places
from .rules import has_kernel_for, linear_in, of_operands, without_unreached

__all__ = ["COLLECTED", "DELIVERIES", "LAID", "LAID_COLLECTED", "Collected", "Deliveries"]


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


@dataclass(frozen=True, eq=False, repr=False)
class Deliveries(Delayed):
    """The law, which is linear in ring and weights together; its derivative by x is that of numbers.

    `by_weights` is the law of the derivative with respect to each weight.
    """

    by_weights: Collected | None = None
    kind = "deliveries"

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def delivered(ring: Any, weights: Any, *rest: Any, weighted: bool = False, **_: Any) -> list[Any]:
            *structure, delays, x, t = rest
            at = Places.of(of, ring, weights, structure, delays, x.shape[0], t)
            sums = precise(ring.dtype)
            active = at.elements.at(at.elements.row, is_active(x))
            terms = at.weights.astype(sums)
            if weighted:
                terms *= at.elements.at(at.elements.row, x.astype(sums))
            column = jnp.where(at.touched & active, at.column, ring.shape[1])
            terms = jnp.broadcast_to(terms, column.shape)
            return [ring.astype(sums).at[at.slot, column].add(terms, mode="drop").astype(ring.dtype)]

        return of_operands(("ring", of.format.weights, *of.arrays, "delays", "x", "t"), delivered)

    def cut(self, of: Description) -> dict[str, Any]:
        """Share nothing: any element may add to any place of the ring."""
        factors = self.factors(of, 2, len(of.format.cut.stored.split()))
        return {
            "rule": f"{', '.join(factors)} -> {factors[0]}",
            "need_replication_factors": tuple(" ".join(factors).split()),
        }

    def relate(self, operator: XLACustomKernel, of: Description, apply: Others) -> None:
        """Give an operator its derivatives."""
        count = len(of.arrays) + 5
        x_at = count - 2

        def by_weights(tangent: Any, ring: Any, weights: Any, *rest: Any, **params: Any) -> Any:
            return operator(jnp.zeros_like(ring), tangent, *rest, **params)

        def by_x(tangent: Any, ring: Any, *rest: Any, **params: Any) -> Any:
            rest = (*rest[: x_at - 1], tangent, *rest[x_at:])
            return operator(jnp.zeros_like(ring), *rest, **{**params, "weighted": True})

        def transposed(cotangents: Any, *given: Any, **params: Any) -> list[Any]:
            (cotangent,) = cotangents
            found: list[Any] = [None] * count
            ring, weights, *structure, delays, x, t = given
            if is_undefined_primal(ring):
                found[0] = cotangent
            if is_undefined_primal(weights):
                sums = cotangent.astype(precise(cotangent.dtype))
                if weights.aval.size == 1:
                    summed = _for_one_weight(operator, sums, weights.aval, given[2:], params)
                else:
                    summed = _for_each_weight(of, apply, sums, weights.aval, given[2:], params)
                found[1] = summed.reshape(weights.aval.shape).astype(weights.aval.dtype)
            if is_undefined_primal(x):
                at = Places.of(of, cotangent, weights, structure, delays, x.aval.shape[0], t)
                found[x_at] = at.by_rows(cotangent, x.aval)
            return found

        rules: list[Any] = [None] * count
        rules[0], rules[1], rules[x_at] = lambda tangent, *_, **__: [tangent], by_weights, by_x
        operator.def_jvp_rule2(*rules)
        operator.def_transpose_rule(transposed)

    def call(self, operator: XLACustomKernel, of: Description) -> Callable[..., Any]:
        def call(*operands: Any, weighted: bool = False, backend: str | None = None) -> Any:
            return operator(*operands, weighted=weighted, backend=backend)

        return call


_WORDS = "Add the weights of rows with an event to a ring of sums, each as many slots ahead as its delay says"
_BACK = (
    "Return, for each stored element, the number at the place of a ring to which its weight is delivered, or zero if "
    "its row has no event"
)
_SORTED = "the elements of a row are sorted by delay"
COLLECTED: Collected = Collected(
    "{format}_delay_collect{indexed}", ("delay", "gradient"), f"{_BACK}.", delivery=lambda: DELIVERIES
)
LAID_COLLECTED: Collected = Collected(
    "{format}_delay_collect_layout",
    ("delay", "gradient"),
    f"{_BACK}; {_SORTED}.",
    laid=True,
    delivery=lambda: LAID,
)
DELIVERIES: Deliveries = Deliveries("{format}_delay_deliver{indexed}", ("delay",), f"{_WORDS}.", by_weights=COLLECTED)
LAID: Deliveries = Deliveries(
    "{format}_delay_deliver_layout", ("delay",), f"{_WORDS}; {_SORTED}.", laid=True, by_weights=LAID_COLLECTED
)


def _for_each_weight(
    of: Description, apply: Others, cotangent: Any, weights: Any, rest: Sequence[Any], params: Mapping[str, Any]
) -> Any:
    """Return for each weight the cotangent of the place to which it is delivered; zero where there is no event."""
    assert isinstance(of.law, Deliveries)
    collected = of.also(law=of.law.by_weights)
    how = {**params, "outs": [jax.ShapeDtypeStruct(weights.shape, cotangent.dtype)]}
    if not has_kernel_for(apply.operator(collected), params):
        how["backend"] = None
    (found,) = apply(collected, cotangent, *rest, **how)
    return found


def _for_one_weight(
    operator: XLACustomKernel, cotangent: Any, weights: Any, rest: Sequence[Any], params: Mapping[str, Any]
) -> Any:
    """Return the gradient of one weight: what a weight of one delivers is what the cotangent of each place counts."""
    out = jax.ShapeDtypeStruct(cotangent.shape, cotangent.dtype)
    nowhere, one = jnp.zeros(out.shape, out.dtype), jnp.ones(weights.shape, out.dtype)

    def delivered(**how: Any) -> Any:
        return operator(nowhere, one, *rest, **{**params, "outs": [out], **how})[0]

    sums = delivered()
    if params.get("weighted"):  # whose sums may be zero where there are events
        cotangent = without_unreached(cotangent, sums, lambda: delivered(weighted=False) != 0)
    else:
        cotangent = jnp.where(sums != 0, cotangent, 0)
    return jnp.vdot(sums, cotangent)
