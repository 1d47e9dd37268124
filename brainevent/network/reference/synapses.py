# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses in plain JAX: all synapses of a projection in each step, of which those that events reach change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...scalar.synapse import KINDS, TracedSynapseRule, decayed, delivered, graded, synapse_function
from ...scalar.trace import flat_rule
from ..plan.plan import Plan, PopulationPlan
from ..plan.plastic import SPIKE, VALUE, PlasticPlan
from ..plan.plasticity import TracePlan

__all__ = ["PlasticParts", "PlasticSynapses", "events_of", "past_in_order", "past_rings", "plastic_synapses"]
__all__ += ["updated_past"]

Array = Any
Arrays = Mapping[str, Array]
Trees = Mapping[str, Arrays]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class PlasticParts:
    """The parts of a state that plastic synapses need. `past` are rings: see `past_rings`.

    `finite` says, if the plan asks for it, whether all that rules returned in a step was.
    """

    synapses: Trees
    traces: Trees
    past: Trees
    finite: Array = field(default_factory=lambda: jnp.array(True))


@dataclass(frozen=True, eq=False)
class PlasticSynapses:
    """The synapses of a plastic projection, by source, delay and target.

    If `whole`, weights are delivered as whole numbers of quanta, and no derivative passes through them; else as they
    are, in the unit of what arrives.
    """

    plan: Plan
    plastic: PlasticPlan
    whole: bool

    @cached_property
    def _ends(self) -> tuple[Array, Array, Array, Array]:
        """The source, the target, and the rows of traces of either, of each synapse."""
        one = self.plastic.synapses
        which, none = one.which[one.order], np.zeros(one.entries, np.int32)
        rows = (which, none) if self.plastic.at_axon else (none, which)
        return one.sources[one.order], one.targets[one.order].astype(np.int32), *rows

    def arrived(
        self, parts: PlasticParts, params: Arrays, post: Arrays, now: Array, turn: Array
    ) -> tuple[PlasticParts, Array]:
        """Let spikes that reach synapses at the axon in this step act; return what they deliver, (targets,)."""
        past = parts.past[self.plastic.source]
        spikes = self._row(past[SPIKE], turn)
        values = self._row(past[VALUE], turn) if self.plastic.graded else None
        carried = {name: self._row(past[f"state.{state}"], turn) for name, state in self.plastic.rules.carried}
        sums = self._amounts(parts, spikes, values)
        return self._on_pre(parts, params, post, now, spikes, carried), self._added(sums)

    def sent(
        self, parts: PlasticParts, params: Arrays, neurons: Trees, now: Array, events: Arrays
    ) -> tuple[PlasticParts, Array]:
        """Let spikes of this step act at the dendrite; return what they deliver: (delays, targets)."""
        spikes, values = events[SPIKE], events[VALUE][None] if self.plastic.graded else None
        source, target = self.plastic.source, self.plastic.target
        carried = {name: neurons[source][state][None] for name, state in self.plastic.rules.carried}
        sums = self._amounts(parts, spikes[None], values)
        rows = jnp.zeros((self.plastic.distinct.size, self.plastic.sizes[1]), sums.dtype)
        rows = rows.at[self._ends[3], self._ends[1]].add(sums)
        return self._on_pre(parts, params, neurons[target], now, spikes[None], carried), rows

    def finished(
        self, parts: PlasticParts, params: Arrays, post: Arrays, now: Array, turn: Array, events: Arrays
    ) -> PlasticParts:
        """Let events of the target act, and rules that are applied at regular intervals."""
        rules = self.plastic.rules
        acting = {event: self._of_target(parts, event, events, turn) for event, _ in rules.on_post}
        for event, rule in rules.on_post:
            reached = acting[event][self._ends[3], self._ends[1]] > 0
            parts = self._called(parts, rule, params, post, now, reached)
        if rules.post:
            spikes = self._of_target(parts, SPIKE, events, turn)
            parts = self._spiked(parts, "post", rules.post, now, spikes)
        for steps, rule in rules.every:
            reached = jnp.broadcast_to((now + np.uint32(1)) % np.uint32(steps) == 0, self.plastic.entries)
            parts = self._called(parts, rule, params, post, now, reached)
        return parts

    def _row(self, ring: Array, turn: Array) -> Array:
        """Return what is on its way and reaches synapses in a turn, (rows, neurons), of each delay."""
        return ring[(turn - self.plastic.distinct) % ring.shape[0]]

    def _of_target(self, parts: PlasticParts, event: str, events: Arrays, turn: Array) -> Array:
        if self.plastic.at_axon:
            return events[event][None]
        return self._row(parts.past[self.plastic.target][event], turn)

    def _amounts(self, parts: PlasticParts, spikes: Array, values: Array | None) -> Array:
        """Return what each synapse delivers because of spikes (rows, sources), times their values if they have some."""
        source, _, row, _ = self._ends
        w, reached = parts.synapses[self.plastic.name]["w"], spikes[row, source]
        sent = reached if values is None else values[row, source]
        if not self.whole:
            return w * sent
        quantum = self.plan.population(self.plastic.target).quanta[self.plastic.receptor]
        per_unit = np.asarray(1 / quantum, self.plan.dtype)
        amounts = delivered(w, per_unit) if values is None else graded(w, sent, per_unit)
        return amounts * (reached > 0).astype(np.int32)

    def _added(self, amounts: Array) -> Array:
        return jnp.zeros(self.plastic.sizes[1], amounts.dtype).at[self._ends[1]].add(amounts)

    def _on_pre(
        self, parts: PlasticParts, params: Arrays, post: Arrays, now: Array, spikes: Array, carried: Arrays
    ) -> PlasticParts:
        """Call the rule for spikes (rows, sources), and then let traces take them."""
        rules = self.plastic.rules
        traces = dict(parts.traces[self.plastic.name])
        for name, values in carried.items():
            traces[f"pre.{name}"] = jnp.where(spikes > 0, values, traces[f"pre.{name}"])
        parts = self._with(parts, traces=traces)
        if rules.on_pre is not None:
            reached = spikes[self._ends[2], self._ends[0]] > 0
            parts = self._called(parts, rules.on_pre, params, post, now, reached)
        return self._spiked(parts, "pre", rules.pre, now, spikes) if rules.pre else parts

    def _spiked(
        self, parts: PlasticParts, side: str, given: tuple[TracePlan, ...], now: Array, spikes: Array
    ) -> PlasticParts:
        """Let traces (rows, neurons) take spikes."""
        traces = dict(parts.traces[self.plastic.name])
        for one in given:
            value, last = traces[f"{side}.{one.name}"], traces[side]
            after = one.add if one.nearest else decayed(value, last, now, one.rate) + one.add
            traces[f"{side}.{one.name}"] = jnp.where(spikes > 0, after, value)
        traces[side] = jnp.where(spikes > 0, now, traces[side])
        return self._with(parts, traces=traces)

    def _with(self, parts: PlasticParts, **changed: Arrays) -> PlasticParts:
        """Return parts in which what belongs to this projection has changed."""
        trees = {group: {**getattr(parts, group), self.plastic.name: tree} for group, tree in changed.items()}
        return replace(parts, **trees)

    def _called(
        self, parts: PlasticParts, rule: TracedSynapseRule, params: Arrays, post: Arrays, now: Array, reached: Array
    ) -> PlasticParts:
        """Call a rule for all synapses, and take what it returns where it was reached."""
        before = parts.synapses[self.plastic.name]
        names = ["w", *self.plastic.rules.states]
        arguments = [before["w"], *self._inputs(parts, rule, params, post, now)]
        over = [0 if jnp.ndim(argument) else None for argument in arguments]
        results = jax.vmap(synapse_function(rule), over)(*arguments)
        after = {name: jnp.where(reached, new, before[name]) for name, new in zip(names, results, strict=True)}
        if self.plan.check_finite:
            found = [(jnp.isfinite(new) | ~reached).all() for new in results]
            parts = replace(parts, finite=jnp.array([parts.finite, *found]).all())
        return self._with(parts, synapses=after)

    def _inputs(
        self, parts: PlasticParts, rule: TracedSynapseRule, params: Arrays, post: Arrays, now: Array
    ) -> list[Array]:
        """Return what a rule takes besides the weight, for all synapses."""
        rules, traces = self.plastic.rules, parts.traces[self.plastic.name]
        source, target, *rows = self._ends
        found = {("synapse", name): parts.synapses[self.plastic.name][name] for name in rules.states}
        found |= {("params", name): params.get(name, self.plan.dt) for name in rule.groups["params"]}
        for kind, row, neuron, declared in (("pre", rows[0], source, rules.pre), ("post", rows[1], target, rules.post)):
            for one in declared:
                now_there = decayed(traces[f"{kind}.{one.name}"], traces[kind], now, one.rate)
                found[kind, one.name] = now_there[row, neuron]
        found |= {("pre", name): traces[f"pre.{name}"][rows[0], source] for name, _ in rules.carried}
        names = rule.groups["post"]
        found |= {("post", name): post[name][target] for name in names if ("post", name) not in found}
        return [found[kind, name] for kind in KINDS for name in rule.groups[kind]]


def plastic_synapses(plan: Plan, *, whole: bool) -> list[PlasticSynapses]:
    """Return the synapses of all plastic projections."""
    return [PlasticSynapses(plan, one, whole) for one in plan.plastic]


def past_rings(plan: Plan, past: Trees) -> dict[str, dict[str, Array]]:
    """Return what is on its way as rings: what happened in turn t is in row t % rows. Events are floats."""
    found: dict[str, dict[str, Array]] = {}
    for name, own in past.items():
        rings = {key: jnp.asarray(rows)[::-1] for key, rows in own.items()}
        numbers = plan.pasts[name].numbers
        found[name] = {key: ring if key in numbers else ring.astype(plan.dtype) for key, ring in rings.items()}
    return found


def past_in_order(plan: Plan, rings: Trees, turn: Array) -> dict[str, dict[str, Array]]:
    """Return rings before a turn in the order of a state."""
    found: dict[str, dict[str, Array]] = {}
    for name, own in rings.items():
        rows, numbers = plan.pasts[name].rows, plan.pasts[name].numbers
        order = (turn - 1 - np.arange(rows)) % rows
        found[name] = {key: ring[order] if key in numbers else ring[order] > 0 for key, ring in own.items()}
    return found


def updated_past(rings: Trees, neurons: Trees, events: Trees, turn: Array) -> dict[str, dict[str, Array]]:
    """Return rings after a turn, in which there were these events and values (neurons,), as floats."""
    found: dict[str, dict[str, Array]] = {}
    for name, own in rings.items():
        latest = {}
        for key, ring in own.items():
            if key.startswith("state."):
                values = neurons[name][key.removeprefix("state.")]
                now = jnp.where(events[name][SPIKE] > 0, values, jnp.zeros((), values.dtype))
            else:
                now = events[name][key]
            latest[key] = ring.at[turn % ring.shape[0]].set(now.astype(ring.dtype))
        found[name] = latest
    return found


def events_of(
    population: PopulationPlan,
    names: Collection[str],
    states: Arrays,
    arriving: Arrays,
    params: Arrays,
    step: Array,
    key: Array,
) -> dict[str, Array]:
    """Return events of a step besides the spike, bool (neurons,), by name; arguments are as for `updated`."""
    if not names:
        return {}
    rule = population.rule
    arguments = [
        *(states[name] for name in population.state),
        *(arriving[name] for name in population.quanta),
        *(params[name] for name in population.params),
    ]
    if rule.random:
        arguments += [jnp.arange(population.size, dtype=np.uint32), step, key[0], key[1]]
    over = [0 if jnp.ndim(argument) else None for argument in arguments]
    assert rule.function is not None
    outputs = jax.vmap(flat_rule(rule.function, rule, whole=True), over, axis_size=population.size)(*arguments)
    return {name: rule.outcome(outputs).events[name] for name in names}
