# SPDX-License-Identifier: Apache-2.0
"""Deliveries: the weights of active rows are added to a ring of sums, each as many slots ahead as its delay says.

Operators are called as `operator(ring, weights, *arrays of indices, delays, x, t)`. `ring` has a row of sums, a slot,
for each of the next steps. `delays` is one for each stored element, or one for all, and `t` is the number of the step;
one weight or delay for all has the rank of one for each. Element (i, j) adds to `ring[(t + delay) % slots, j]`. Only
rows where x is not zero are visited: they add the weight, or if `weighted` the weight times x. Out-of-range indices are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import is_undefined_primal
from ...bench.record import BenchmarkConfig
from ...operator.custom_kernel import XLACustomKernel
from ..activity import is_active
from ..description import Description, Law, Others
from ..elements import Elements, taken_at
from ..operands import is_within
from ..precision import precise
from .rules import of_operands

__all__ = ["DELIVERIES", "LAID", "SLOTS", "Deliveries"]

SLOTS = 16  # of a ring, in benchmarks


@dataclass(frozen=True, eq=False, repr=False)
class Deliveries(Law):
    """The law, which is linear in ring and weights together; its derivative by x is that of numbers."""

    kind = "deliveries"

    def delays(self, elements: Elements, given: Any) -> jax.Array:
        """Return the delay of each element, or one for all, given the operand `delays`."""
        found: jax.Array = given
        return found

    def rank(self, stored: int) -> int:
        """Return the rank of the operand `delays`."""
        return stored

    def drawn_delays(self, random: Any, n: int, number: int, stored: tuple[int, ...]) -> Any:
        """Return an operand `delays` for rows of `number` elements each, for benchmarks."""
        return jnp.asarray(random.integers(1, SLOTS, stored), jnp.int32)

    def reference(self, of: Description) -> Callable[..., list[Any]]:
        def delivered(ring: Any, weights: Any, *rest: Any, weighted: bool = False, **_: Any) -> list[Any]:
            *structure, delays, x, t = rest
            at = _Elements.of(of, ring, weights, structure, delays, x, t)
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
        stored = len(of.format.cut.stored.split())
        ranks = (2, stored, *[len(factors.split()) for factors in of.format.cut.arrays], *[stored] * of.indexed)
        named = [[f"f{k}x{axis}" for axis in range(rank)] for k, rank in enumerate((*ranks, self.rank(stored), 1, 1))]
        rule = ", ".join(map(" ".join, named))
        return {
            "rule": f"{rule} -> {' '.join(named[0])}",
            "need_replication_factors": tuple(rule.replace(",", "").split()),
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

        def transposed(cotangents: Any, *given: Any, weighted: bool = False, **_: Any) -> list[Any]:
            (cotangent,) = cotangents
            found: list[Any] = [None] * count
            ring, weights, x = given[0], given[1], given[x_at]
            if is_undefined_primal(ring):
                found[0] = cotangent
            if is_undefined_primal(weights):
                found[1] = _by_weights(of, cotangent, weights.aval, *given[2:], weighted=weighted)
            if is_undefined_primal(x):
                found[x_at] = _by_x(of, cotangent, weights, *given[2:x_at], x.aval, given[-1])
            return found

        rules: list[Any] = [None] * count
        rules[0], rules[1], rules[x_at] = lambda tangent, *_, **__: [tangent], by_weights, by_x
        operator.def_jvp_rule2(*rules)
        operator.def_transpose_rule(transposed)

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make random connections and delays, few spikes and many."""
        return [_config(of, n, number, active) for n, number in of.format.sizes for active in (0.001, 0.01)]

    def call(self, operator: XLACustomKernel, of: Description) -> Callable[..., Any]:
        def call(*operands: Any, weighted: bool = False, backend: str | None = None) -> Any:
            return operator(*operands, weighted=weighted, backend=backend)

        return call


class Laid(Deliveries):
    """The same for rows whose elements are sorted by delay: those of d steps end at `delays[row, d]`."""

    def delays(self, elements: Elements, given: Any) -> jax.Array:
        """Return the delay of each element: the number of shorter delays whose elements end before it."""
        ends, (stored,) = jnp.clip(given, 0, elements.stored[0]), elements.stored
        passed = jnp.zeros(stored + 1, jnp.int32).at[ends.reshape(-1)].add(1).cumsum()[:stored]
        return passed - elements.row.astype(jnp.int32) * given.shape[1]

    def rank(self, stored: int) -> int:
        return 2

    def drawn_delays(self, random: Any, n: int, number: int, stored: tuple[int, ...]) -> Any:
        """Return the ends of equally frequent delays."""
        return jnp.arange(n, dtype=jnp.int32)[:, None] * number + jnp.arange(SLOTS, dtype=jnp.int32) * number // (
            SLOTS - 1
        )


_WORDS = "Add the weights of rows with an event to a ring of sums, each as many slots ahead as its delay says"
DELIVERIES = Deliveries("{format}_delay_deliver{indexed}", ("delay",), f"{_WORDS}.")
LAID = Laid("{format}_delay_deliver_layout", ("delay",), f"{_WORDS}; the elements of a row are sorted by delay.")


@dataclass(frozen=True)
class _Elements:
    """Where elements lie, their weights, and the slots and columns that they add to."""

    elements: Elements
    weights: Any
    slot: Any
    column: Any
    touched: Any  # which elements are in the matrix, and have a weight

    @classmethod
    def of(
        cls, of: Description, ring: Any, weights: Any, structure: Sequence[Any], delays: Any, x: Any, t: Any
    ) -> _Elements:
        elements = of.elements(structure, weights, (x.shape[0], ring.shape[1]))
        touched: Any = jnp.broadcast_to(elements.there, elements.stored)
        if of.indexed and (held := max(weights.size, delays.size)) > 1:
            perm = structure[-1]
            touched &= is_within(perm, held)
            weights, delays = (one if one.size == 1 else taken_at(one, perm) for one in (weights, delays))
        assert isinstance(of.law, Deliveries)
        delays = of.law.delays(elements, delays)
        slots = ring.shape[0]
        slot = jnp.broadcast_to((t.reshape(()) % slots + delays.astype(t.dtype) % slots) % slots, elements.stored)
        column = jnp.broadcast_to(elements.at(elements.column, jnp.arange(ring.shape[1])), elements.stored)
        return cls(elements, weights, slot, column, touched)


def _taken(at: _Elements, cotangent: Any) -> jax.Array:
    """Return for each element the value at the place to which it adds, in the dtype of sums."""
    found = cotangent.astype(precise(cotangent.dtype))[at.slot, jnp.where(at.touched, at.column, 0)]
    return jnp.where(at.touched, found, 0)


def _by_weights(of: Description, cotangent: Any, wanted: Any, *rest: Any, weighted: bool) -> jax.Array:
    *structure, delays, x, t = rest
    at = _Elements.of(of, cotangent, jnp.zeros(wanted.shape, wanted.dtype), structure, delays, x, t)
    terms, active = _taken(at, cotangent), at.elements.at(at.elements.row, is_active(x))
    if weighted:
        terms *= at.elements.at(at.elements.row, x.astype(terms.dtype))
    terms = jnp.where(active, terms, 0)  # a choice: zero times a cotangent that is NaN or infinite is not zero
    if wanted.size == 1 and terms.size != 1:
        return terms.sum().reshape(wanted.shape).astype(wanted.dtype)
    if of.indexed:
        place = jnp.where(at.touched, structure[-1], wanted.size)
        return jnp.zeros(wanted.shape, terms.dtype).at[place].add(terms, mode="drop").astype(wanted.dtype)
    return jnp.broadcast_to(terms, wanted.shape).astype(wanted.dtype)


def _by_x(of: Description, cotangent: Any, weights: Any, *rest: Any) -> jax.Array:
    *structure, delays, wanted, t = rest
    at = _Elements.of(of, cotangent, weights, structure, delays, jnp.zeros(wanted.shape, bool), t)
    terms = _taken(at, cotangent) * at.weights
    return at.elements.merged(at.elements.row, terms, wanted.shape[0]).astype(wanted.dtype)


def _config(of: Description, n: int, number: int, active: float) -> BenchmarkConfig:
    random = np.random.default_rng(0)
    structure = of.format.draw(n, number, in_order=True)
    x = jnp.asarray(random.random(n) < active)
    stored = of.format.stored(structure, (n, n))
    delays = of.law.drawn_delays(random, n, number, stored)  # type: ignore[attr-defined]
    if of.indexed:
        structure = of.format.turned(structure, (n, n))
    operands = (jnp.zeros((SLOTS, n)), jnp.ones(stored), *structure, delays, x, jnp.zeros(1, jnp.int32))
    return BenchmarkConfig(
        f"{n} x {number}, active={active:g}",
        operands,
        {},
        {"n": n, "connections": number, "active": active},
        bytes=n + 20 * int(x.sum()) * number,
        flops=max(int(x.sum()), 1) * number,
    )
