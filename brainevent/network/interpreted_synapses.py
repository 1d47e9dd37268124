# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses in plain NumPy, slow and exact: what every engine must equal, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..scalar.interpret import interpret
from ..scalar.synapse import DECAYED, DELIVERED, GRADED, SPIKED, TracedSynapseRule, forms_of_synapses
from .plan.plan import Plan
from .plan.plastic import SPIKE, VALUE, PlasticPlan
from .plan.plasticity import TracePlan, called_by, called_every
from .run.finite import SynapseFault
from .state import NetworkState

__all__ = ["PlasticStep", "next_past"]

Array = Any
Arrays = Mapping[str, Array]


class PlasticStep:
    """One step of the synapses of a plastic projection: `arrive` before neurons are updated, and `finish` after it.

    At the axon, spikes of the source reach synapses in `arrive`, and events of the target in `finish`; at the dendrite,
    all do in `finish`. In both cases a weight is delivered before a rule changes it, `on_pre` is called before
    `on_post`, and a rule sees traces without the events that call it: so a pair of spikes in one step counts once.
    """

    def __init__(self, plan: Plan, plastic: PlasticPlan, state: NetworkState, params: Arrays):
        self.plan, self.plastic, self.params, self.now = plan, plastic, params, state.step
        self.synapses = {name: array.copy() for name, array in state.synapses[plastic.name].items()}
        self.traces = {name: array.copy() for name, array in state.traces[plastic.name].items()}
        self.past = state.past
        self.forms = forms_of_synapses(plan.dtype)
        self.fault: SynapseFault | None = None
        given, entries = plastic.synapses, plastic.entries
        order = given.order
        self.sources, self.targets = (x[order].astype(np.int64) for x in (given.sources, given.targets))
        self.delays = np.broadcast_to(given.delays, entries)[order].astype(np.int64)
        which, none = given.which[order], np.zeros(entries, np.int32)
        self.pre_row: Array = which if plastic.at_axon else none
        self.post_row: Array = none if plastic.at_axon else which

    def arrive(self, neurons: Mapping[str, Arrays], sums: Array) -> None:
        """Let spikes that reach synapses now act, and add their weights to what arrives, int32 (targets,)."""
        if self.plastic.at_axon and self.plastic.entries:
            past = self.past[self.plastic.source]
            spikes = past[SPIKE][self.plastic.distinct - 1]
            carried = {state: past[f"state.{state}"] for _, state in self.plastic.rules.carried}
            carried = {state: rows[self.plastic.distinct - 1] for state, rows in carried.items()}
            reached = self._reached(spikes)
            values = past[VALUE][self.plastic.distinct - 1] if self.plastic.graded else None
            np.add.at(sums, self.targets[reached], self._delivered(reached, values))
            self._on_pre(spikes, carried, reached, neurons[self.plastic.target])

    def finish(
        self, neurons: Mapping[str, Arrays], events: Mapping[str, Arrays], sums: Array, values: Array | None
    ) -> None:
        """Let all else act, given states and events of the step, and sums (rows, targets) from the next step on.

        `values` are those of the spikes of the source, None if they have none.
        """
        plastic, post = self.plastic, neurons[self.plastic.target]
        if not plastic.at_axon:
            spikes = events[plastic.source][SPIKE][None]
            carried = {state: neurons[plastic.source][state][None] for _, state in plastic.rules.carried}
            reached = self._reached(spikes)
            amounts = self._delivered(reached, None if values is None else values[None])
            np.add.at(sums, (self.delays[reached] - 1, self.targets[reached]), amounts)
            self._on_pre(spikes, carried, reached, post)
        for event, rule in plastic.rules.on_post:
            acts = self._of_target(event, events)[self.post_row, self.targets]
            self._call(called_by(event), rule, np.flatnonzero(acts), post)
        if plastic.rules.post:
            self._spiked("post", plastic.rules.post, self._of_target(SPIKE, events))
        for steps, rule in plastic.rules.every:
            if (int(self.now) + 1) % steps == 0:
                self._call(called_every(steps), rule, np.arange(plastic.entries), post)

    def _reached(self, spikes: Array) -> Array:
        """Return which synapses spikes (rows, sources) reach."""
        return np.flatnonzero(spikes[self.pre_row, self.sources])

    def _of_target(self, event: str, events: Mapping[str, Arrays]) -> Array:
        """Return which events of targets reach synapses now: bool (rows, targets)."""
        if self.plastic.at_axon:
            return events[self.plastic.target][event][None]
        return self.past[self.plastic.target][event][self.plastic.distinct - 1]

    def _delivered(self, reached: Array, values: Array | None) -> Array:
        """Return what some synapses deliver, given the values of spikes, (rows, sources)."""
        if not reached.size:
            return 0
        quantum = self.plan.population(self.plastic.target).quanta[self.plastic.receptor]
        w, per_unit = self.synapses["w"][reached], np.full(1, 1 / quantum, self.plan.dtype)
        if values is None:
            return interpret(self.forms[DELIVERED], [w, per_unit])[0]
        of_spikes = values[self.pre_row[reached], self.sources[reached]]
        return interpret(self.forms[GRADED], [w, of_spikes, per_unit])[0]

    def _on_pre(self, spikes: Array, carried: Arrays, reached: Array, post: Arrays) -> None:
        """Call the rule for spikes of the source, (rows, sources), and then let their traces take them."""
        rules = self.plastic.rules
        for name, state in rules.carried:
            self.traces[f"pre.{name}"] = np.where(spikes, carried[state], self.traces[f"pre.{name}"])
        if rules.on_pre is not None:
            self._call("on_pre", rules.on_pre, reached, post)
        if rules.pre:
            self._spiked("pre", rules.pre, spikes)

    def _spiked(self, side: str, traces: tuple[TracePlan, ...], spikes: Array) -> None:
        """Let traces (rows, neurons) take spikes."""
        if not spikes.any():
            return
        last = self.traces[side]
        for one in traces:
            value = self.traces[f"{side}.{one.name}"]
            if one.nearest:
                after = np.broadcast_to(one.add, value.size)
            else:
                rate, add = (np.full(1, x, self.plan.dtype) for x in (one.rate, one.add))
                now = np.full(1, self.now, np.uint32)
                (after,) = interpret(self.forms[SPIKED], [value.reshape(-1), last.reshape(-1), now, rate, add])
            self.traces[f"{side}.{one.name}"] = np.where(spikes, after.reshape(value.shape), value)
        self.traces[side] = np.where(spikes, np.uint32(self.now), last)

    def _call(self, what: str, rule: TracedSynapseRule, chosen: Array, post: Arrays) -> None:
        """Call a rule for some synapses."""
        if not chosen.size:
            return
        given = [np.atleast_1d(self._input(name.text, chosen, post)) for name in rule.form.inputs]
        results = interpret(rule.form, given)
        for name, values in zip(["w", *self.plastic.rules.states], results, strict=True):
            self.synapses[name][chosen] = values
            if self.plan.check_finite and self.fault is None and not np.isfinite(values).all():
                place = int(np.flatnonzero(~np.isfinite(values))[0])
                self.fault = SynapseFault(self.plastic, what, rule.name, name, int(chosen[place]), values[place])

    def _input(self, text: str, chosen: Array, post: Arrays) -> Array:
        """Return an input of a rule for some synapses."""
        if text == "w":
            return self.synapses["w"][chosen]
        kind, _, name = text.partition("_")
        if kind == "s":
            return self.synapses[name][chosen]
        if kind == "p":
            return self.params[name]
        rules, row, neuron = self.plastic.rules, self.pre_row[chosen], self.sources[chosen]
        if kind == "post":
            row, neuron = self.post_row[chosen], self.targets[chosen]
        traces = {one.name: one for one in (rules.pre if kind == "pre" else rules.post)}
        if name in traces:
            value, last = (self.traces[key][row, neuron] for key in (f"{kind}.{name}", kind))
            now, rate = np.full(1, self.now, np.uint32), np.full(1, traces[name].rate, self.plan.dtype)
            return interpret(self.forms[DECAYED], [value, last, now, rate])[0]
        return self.traces[f"pre.{name}"][row, neuron] if kind == "pre" else post[name][neuron]


def next_past(
    plan: Plan,
    past: Mapping[str, Arrays],
    neurons: Mapping[str, Arrays],
    events: Mapping[str, Arrays],
    values: Mapping[str, Array | None],
) -> dict[str, dict[str, Array]]:
    """Return what is on its way to plastic synapses after a step, given states, events and values of spikes of it."""
    after: dict[str, dict[str, Array]] = {}
    for name, kept in plan.pasts.items():
        spikes = events[name][SPIKE]
        latest = {event: events[name][event] for event in kept.events}
        for state in kept.states:
            of_neurons = neurons[name][state]
            latest[f"state.{state}"] = np.where(spikes, of_neurons, of_neurons.dtype.type(0))
        if kept.valued:
            of_spikes = values[name]
            assert of_spikes is not None
            latest[VALUE] = np.where(spikes, of_spikes, np.zeros((), plan.dtype))
        after[name] = {key: np.concatenate([rows[None], past[name][key][:-1]]) for key, rows in latest.items()}
    return after
