# SPDX-License-Identifier: Apache-2.0
"""`NetworkState`: where a run of a network is, in the same layout for every engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from ..event.room import check_room
from .plan.plan import Plan

__all__ = ["NetworkState", "copied", "initial_state"]

Array = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class NetworkState:
    """The state before a step.

    Attributes:
        step: The number of the step that comes next, uint32.
        neurons: By population and state, an array (neurons,).
        arriving: By population and receptor, sums in quanta (rows, neurons): row k arrives k steps after the next one.
            They are int32; or floats, which `simulate` takes and returns, and which need not be whole numbers.
        quanta: Population, receptor and quantum of each, static; None for those of the network that takes the state.
    """

    step: Array
    neurons: Mapping[str, Mapping[str, Array]]
    arriving: Mapping[str, Mapping[str, Array]]
    quanta: tuple[tuple[str, str, float], ...] | None = field(default=None, metadata={"static": True})

    def with_floats(self, dtype: str = "float32") -> NetworkState:
        """Return the state with sums as floats.

        `simulate` returns floats where it takes them: for loops over calls with weights in `params`, whose sums are
        floats, and for derivatives through several calls.

        Args:
            dtype: That of the network: "float32", or "float64".

        Returns:
            The same state, with sums of the same values.
        """
        return replace(self, arriving=jax.tree.map(lambda sums: sums.astype(dtype), self.arriving))


def initial_state(plan: Plan) -> NetworkState:
    """Return the state before the first step; raise if the pending input of a run may not fit in memory."""
    for name, receptor in plan.receptors():
        rows = plan.rows(name, receptor)
        what = f"the pending input of {receptor}, for delays up to {rows} steps,"
        check_room(f"population {name}", what, 4 * rows * plan.population(name).size, on_host=True)
    neurons = {p.name: {name: array.copy() for name, array in p.state.items()} for p in plan.populations}
    arriving = {
        p.name: {receptor: np.zeros((plan.rows(p.name, receptor), p.size), np.int32) for receptor in p.quanta}
        for p in plan.populations
    }
    return NetworkState(np.uint32(0), neurons, arriving, plan.quanta)


def copied(plan: Plan, state: NetworkState) -> NetworkState:
    """Return a state as arrays of NumPy of its own, in the order of the plan: JAX sorts names."""
    neurons = {
        p.name: {key: np.array(state.neurons[p.name][key], array.dtype) for key, array in p.state.items()}
        for p in plan.populations
    }
    arriving = {p.name: {r: np.array(state.arriving[p.name][r], np.int32) for r in p.quanta} for p in plan.populations}
    return NetworkState(np.uint32(state.step), neurons, arriving, plan.quanta)
