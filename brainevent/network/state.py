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
from .plan.plastic import VALUE, PlasticPlan

__all__ = ["GROUPS", "NetworkState", "begun_state", "copied", "initial_state", "initial_traces", "like_state"]
__all__ += ["no_past", "whole_state"]

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
        synapses: By plastic projection, the weights "w" and the states of its synapses, floats (entries,), by source,
            delay and target: the order of `Simulation.connections`.
        traces: By plastic projection, what its rules remember of spikes. "pre" is the step of the last spike of the
            source at the synapse, uint32, and "pre.NAME" are traces as they were after it, and states that came with
            it: (rows, sources), a row for each different delay if that is of the axon, else one. "post" and "post.NAME"
            are those of the target: (rows, targets), a row for each different delay if that is of the dendrite.
        past: By population, what of the last steps is on its way to plastic synapses: events by name, bool, and
            "state.NAME", and "value" of spikes that have values, 0 where there was no spike: (rows, neurons). Row k is
            of k + 1 steps ago.
    """

    step: Array
    neurons: Mapping[str, Mapping[str, Array]]
    arriving: Mapping[str, Mapping[str, Array]]
    quanta: tuple[tuple[str, str, float], ...] | None = field(default=None, metadata={"static": True})
    synapses: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    traces: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    past: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)

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
    return whole_state(plan, _state(plan, {}))


def begun_state(plan: Plan) -> NetworkState:
    """Return the same without those plastic synapses that a device draws: its engine has them, and draws them again."""
    return _state(plan, {one.name: one.synapses.in_order() for one in plan.plastic if one.drawn is None})


def whole_state(plan: Plan, state: NetworkState) -> NetworkState:
    """Return a state that has all plastic synapses: those of the build where it has none."""
    missing = [one for one in plan.plastic if one.name not in state.synapses]
    return replace(state, synapses={**state.synapses, **{one.name: one.synapses.in_order() for one in missing}})


def like_state(plan: Plan) -> NetworkState:
    """Return arrays with the dtypes and shapes of a state, of which those of plastic synapses take no memory."""
    return _state(plan, {one.name: one.like for one in plan.plastic})


def _state(plan: Plan, synapses: Mapping[str, Mapping[str, Array]]) -> NetworkState:
    """Return the state before the first step, with these plastic synapses."""
    for name, receptor in plan.receptors():
        rows = plan.rows(name, receptor)
        what = f"the pending input of {receptor}, for delays up to {rows} steps,"
        check_room(f"population {name}", what, 4 * rows * plan.population(name).size, on_host=True)
    neurons = {p.name: {name: array.copy() for name, array in p.state.items()} for p in plan.populations}
    arriving = {
        p.name: {receptor: np.zeros((plan.rows(p.name, receptor), p.size), np.int32) for receptor in p.quanta}
        for p in plan.populations
    }
    traces = {one.name: initial_traces(plan, one) for one in plan.plastic}
    past = {name: no_past(plan, name) for name in plan.pasts}
    return NetworkState(np.uint32(0), neurons, arriving, plan.quanta, synapses, traces, past)


def initial_traces(plan: Plan, plastic: PlasticPlan) -> dict[str, Array]:
    """Return the traces of a plastic projection before any spike."""
    found: dict[str, Array] = {}
    rules, where = plastic.rules, f"projection {plastic.name}"
    for side, rows, size, traces, carried in (
        ("pre", plastic.pre_rows, plastic.sizes[0], rules.pre, rules.dtypes),
        ("post", plastic.post_rows, plastic.sizes[1], rules.post, {}),
    ):
        if not (traces or carried):
            continue
        dtypes = {side: "uint32", **{f"{side}.{one.name}": plan.dtype for one in traces}} if traces else {}
        dtypes |= {f"{side}.{name}": dtype for name, dtype in carried.items()}
        what = f"traces of {size} neurons for {rows} different delays"
        check_room(where, what, 4 * rows * size * len(dtypes), on_host=True)
        found |= {key: np.zeros((rows, size), dtype) for key, dtype in dtypes.items()}
    return found


def no_past(plan: Plan, name: str) -> dict[str, Array]:
    """Return what is on its way from a population to plastic synapses before any spike."""
    past, population = plan.pasts[name], plan.population(name)
    size = past.rows * population.size
    what = f"spikes that are on their way to plastic synapses, for delays up to {past.rows} steps,"
    check_room(f"population {name}", what, size * (len(past.events) + 4 * len(past.numbers)), on_host=True)
    shape = past.rows, population.size
    events = {event: np.zeros(shape, bool) for event in past.events}
    states = {f"state.{state}": np.zeros(shape, population.state[state].dtype) for state in past.states}
    return events | states | ({VALUE: np.zeros(shape, plan.dtype)} if past.valued else {})


GROUPS = ("synapses", "traces", "past")  # of a state, besides those of networks without plastic synapses


def _plastic_parts(state: NetworkState) -> dict[str, Any]:
    """Return the parts of a state that plastic synapses need, as arrays of NumPy of its own."""
    return {
        group: {name: {key: np.array(array) for key, array in parts.items()} for name, parts in tree.items()}
        for group, tree in ((group, getattr(state, group)) for group in GROUPS)
    }


def copied(plan: Plan, state: NetworkState) -> NetworkState:
    """Return a state as arrays of NumPy of its own, in the order of the plan: JAX sorts names."""
    neurons = {
        p.name: {key: np.array(state.neurons[p.name][key], array.dtype) for key, array in p.state.items()}
        for p in plan.populations
    }
    arriving = {p.name: {r: np.array(state.arriving[p.name][r], np.int32) for r in p.quanta} for p in plan.populations}
    return NetworkState(np.uint32(state.step), neurons, arriving, plan.quanta, **_plastic_parts(state))
