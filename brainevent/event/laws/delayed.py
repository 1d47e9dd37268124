# SPDX-License-Identifier: Apache-2.0
"""Elements with delays: where in a ring of sums each of them lies in a step, and what the laws of such elements share.

`ring` has a row of sums, a slot, for each of the next steps. `delays` is one for each stored element, or one for all,
and `t` is the number of the step. Element (i, j) lies at `ring[(t + delay) % slots, j]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...bench.record import BenchmarkConfig
from ..description import Description, Law
from ..elements import Elements, taken_at
from ..operands import is_within
from ..precision import precise

__all__ = ["SLOTS", "Delayed", "Places"]

SLOTS = 16  # of a ring, in benchmarks


@dataclass(frozen=True, eq=False, repr=False)
class Delayed(Law):
    """A law of elements with delays.

    If they are `laid`, the elements of each row are sorted by delay, and those of d steps end at `delays[row, d]`.
    """

    laid: bool = False

    def delays(self, elements: Elements, given: Any) -> jax.Array:
        """Return the delay of each element, or one for all, given the operand `delays`."""
        if not self.laid:
            found: jax.Array = given
            return found
        # The number of shorter delays whose elements end before it.
        ends, (stored,) = jnp.clip(given, 0, elements.stored[0]), elements.stored
        passed = jnp.zeros(stored + 1, jnp.int32).at[ends.reshape(-1)].add(1).cumsum()[:stored]
        return passed - elements.row.astype(jnp.int32) * given.shape[1]

    def factors(self, of: Description, *of_others: int) -> list[str]:
        """Return the factors of all operands, given the ranks of those before the arrays; no two share one."""
        stored = len(of.format.cut.stored.split())
        arrays = [len(factors.split()) for factors in of.format.cut.arrays]
        ranks = (*of_others, *arrays, *[stored] * of.indexed, 2 if self.laid else stored, 1, 1)
        return [" ".join(f"f{k}x{axis}" for axis in range(rank)) for k, rank in enumerate(ranks)]

    def data(self, of: Description) -> list[BenchmarkConfig]:
        """Make random connections and delays, few spikes and many."""
        return [self._config(of, n, number, active) for n, number in of.format.sizes for active in (0.001, 0.01)]

    def operands(self, ring: Any, weights: Any, rest: Sequence[Any]) -> tuple[Any, ...]:
        """Return the operands of a benchmark; `rest` are the arrays, delays, events and the step."""
        return (ring, weights, *rest)

    def _config(self, of: Description, n: int, number: int, active: float) -> BenchmarkConfig:
        random = np.random.default_rng(0)
        structure = of.format.draw(n, number, in_order=True)
        x = jnp.asarray(random.random(n) < active)
        stored = of.format.stored(structure, (n, n))
        delays = jnp.asarray(random.integers(1, SLOTS, stored), jnp.int32)
        if self.laid:  # the ends of equally frequent delays
            ends = jnp.arange(SLOTS, dtype=jnp.int32) * number // (SLOTS - 1)
            delays = jnp.arange(n, dtype=jnp.int32)[:, None] * number + ends
        if of.indexed:
            structure = of.format.turned(structure, (n, n))
        rest = (*structure, delays, x, jnp.zeros(1, jnp.int32))
        return BenchmarkConfig(
            f"{n} x {number}, active={active:g}",
            self.operands(jnp.zeros((SLOTS, n)), jnp.ones(stored), rest),
            {},
            {"n": n, "connections": number, "active": active},
            bytes=n + 20 * int(x.sum()) * number,
            flops=max(int(x.sum()), 1) * number,
        )


@dataclass(frozen=True)
class Places:
    """Where elements lie, their weights, and the slots and columns of the ring."""

    elements: Elements
    weights: Any
    slot: Any
    column: Any
    touched: Any  # which elements are in the matrix, and have a weight

    @classmethod
    def of(
        cls, of: Description, ring: Any, weights: Any, structure: Sequence[Any], delays: Any, rows: int, t: Any
    ) -> Places:
        """Find the elements of a matrix of a number of rows; weights are one for each element, or one for all."""
        elements = of.elements(structure, weights, (rows, ring.shape[1]))
        touched: Any = jnp.broadcast_to(elements.there, elements.stored)
        if of.indexed and (held := max(weights.size, delays.size)) > 1:
            perm = structure[-1]
            touched &= is_within(perm, held)
            weights, delays = (one if one.size == 1 else taken_at(one, perm) for one in (weights, delays))
        assert isinstance(of.law, Delayed)
        delays = of.law.delays(elements, delays)
        slots = ring.shape[0]
        slot = jnp.broadcast_to((t.reshape(()) % slots + delays.astype(t.dtype) % slots) % slots, elements.stored)
        column = jnp.broadcast_to(elements.at(elements.column, jnp.arange(ring.shape[1])), elements.stored)
        return cls(elements, weights, slot, column, touched)

    def taken(self, ring: Any) -> jax.Array:
        """Return for each element the value at its place, in the dtype of sums."""
        found = ring.astype(precise(ring.dtype))[self.slot, jnp.where(self.touched, self.column, 0)]
        return jnp.where(self.touched, found, 0)

    def by_rows(self, ring: Any, wanted: Any) -> jax.Array:
        """Return for each row the sum of the weights of its elements, times the values at their places."""
        summed = self.elements.merged(self.elements.row, self.taken(ring) * self.weights, wanted.shape[0])
        return summed.astype(wanted.dtype)
