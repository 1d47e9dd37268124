# SPDX-License-Identifier: Apache-2.0
"""States, sums and parameters as the words of a kernel, and back, as arrays of JAX whose values may be traced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..plan.plan import Plan
from ..state import NetworkState
from .partition import Partition

__all__ = ["Layout", "flushed_words", "values_of"]

Array = Any
_EXPONENT, _SIGN = np.uint32(0x7F800000), np.uint32(0x80000000)


def flushed_words(values: Array) -> Array:
    """Return values as words of 32 bits; denormals become zeros of their sign."""
    values = jnp.asarray(values)
    if values.dtype == bool:
        return values.astype(np.uint32)
    words = jax.lax.bitcast_convert_type(values, np.uint32)
    return jnp.where(words & _EXPONENT, words, words & _SIGN) if values.dtype == np.float32 else words


def values_of(words: Array, dtype: Any) -> Array:
    """Return words as the values that they are."""
    return words != 0 if np.dtype(dtype).kind == "b" else jax.lax.bitcast_convert_type(words, dtype)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where a kernel has what: `words` for each place of each block, and a ring of `slots` steps for each block."""

    plan: Plan
    partition: Partition
    slots: int
    words: int

    def states(self, state: NetworkState) -> Array:
        """Return the states of all neurons (words, blocks x places)."""
        zeros = np.zeros(self.partition.blocks * self.partition.per, np.uint32)
        of = {
            p.name: [jnp.asarray(state.neurons[p.name][key], array.dtype) for key, array in p.state.items()]
            for p in self.plan.populations
        }
        rows = []
        for k in range(self.words):
            there = [(name, flushed_words(values[k])) for name, values in of.items() if k < len(values)]
            rows.append(self.by_block(there) if there else zeros)
        return jnp.stack(rows) if rows else jnp.zeros((0, zeros.size), np.uint32)

    def neurons(self, words: Array) -> dict[str, dict[str, Array]]:
        """Return states (words, blocks x places) by population and name."""
        return {
            p.name: {
                key: values_of(self.of_population(words[k], p.name), array.dtype)
                for k, (key, array) in enumerate(p.state.items())
            }
            for p in self.plan.populations
        }

    def ring(self, state: NetworkState) -> Array:
        """Return the sums of all neurons."""
        partition = self.partition
        parts = []
        for r, places in enumerate(self._places()):
            sums = jnp.zeros((self.slots, partition.per * partition.blocks), np.int32)
            for p in self.plan.populations:
                if r < len(p.quanta):
                    given = jnp.asarray(state.arriving[p.name][list(p.quanta)[r]]).astype(np.int32)
                    begin = partition.begins[p.name]
                    sums = sums.at[: given.shape[0], begin : begin + p.size].set(given)
            by_place = sums.reshape(self.slots, partition.per, partition.blocks)[:, :places]
            parts.append(by_place.transpose(2, 0, 1))
        if not parts:
            return jnp.zeros(partition.ring_shape(self.slots), np.int32)
        return partition.ring_by_block(jnp.roll(jnp.concatenate(parts, axis=2), self._now(state.step), axis=1))

    def arriving(self, ring: Array, step: Array, like: NetworkState) -> dict[str, dict[str, Array]]:
        """Return the sums before a step by population and receptor, in the dtypes of a state."""
        partition = self.partition
        ahead = jnp.roll(partition.ring_by_block(ring), -self._now(step), axis=1)
        found: dict[str, dict[str, Array]] = {p.name: {} for p in self.plan.populations}
        for r, places in enumerate(self._places()):
            first = partition.reach[r]
            sums = ahead[:, :, first : first + places].transpose(1, 2, 0).reshape(self.slots, -1)
            for p in self.plan.populations:
                if r < len(p.quanta):
                    receptor, begin = list(p.quanta)[r], partition.begins[p.name]
                    own = sums[: self.plan.rows(p.name, receptor), begin : begin + p.size]
                    found[p.name][receptor] = own.astype(jnp.result_type(like.arriving[p.name][receptor]))
        return found

    def by_block(self, parts: Iterable[tuple[str, Array]]) -> Array:
        """Return arrays (neurons,) of populations, by name, as one array (blocks x places)."""
        partition = self.partition
        whole = jnp.zeros(partition.per * partition.blocks, np.uint32)
        for name, words in parts:
            begin = partition.begins[name]
            whole = whole.at[begin : begin + words.size].set(words)
        return whole.reshape(partition.per, partition.blocks).T.reshape(-1)

    def of_population(self, words: Array, name: str) -> Array:
        """Return what an array (blocks x places) has for the neurons of a population."""
        partition, size = self.partition, self.plan.population(name).size
        by_number = words.reshape(partition.blocks, partition.per).T.reshape(-1)
        return by_number[partition.begins[name] : partition.begins[name] + size]

    def _places(self) -> list[int]:
        """Return how many places of a block each receptor has."""
        return np.diff([*self.partition.reach, self.partition.cells]).tolist()

    def _now(self, step: Array) -> Array:
        """Return the slot of a step."""
        return (jnp.asarray(step, np.uint32) % np.uint32(self.slots)).astype(np.int32)
