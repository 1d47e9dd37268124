# SPDX-License-Identifier: Apache-2.0
"""`Interpreted`: a network in plain NumPy, slow and exact: what every engine must equal, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..scalar.interpret import interpret
from ..scalar.primitives import flushed
from ..scalar.trace import Outcome
from .engine import Prepared, Repeated, Stopped, never
from .interpreted_synapses import PlasticStep, next_past
from .plan.couplings import CouplingPlan, added_form
from .plan.graded import graded_amounts
from .plan.plan import Plan, PopulationPlan, SynapsePlan
from .run.finite import check_finite, check_synapses
from .run.recorded import Recorded, Wanted
from .state import NetworkState, copied, initial_state

__all__ = ["Interpreted"]

Array = Any


class Sent(NamedTuple):
    """The spikes of a population in one step, bool (neurons,), and their values, None or floats (neurons,)."""

    spikes: Array
    values: Array | None


class Interpreted:
    """The engine that defines the results of the others."""

    paces_itself = False

    def __init__(self, plan: Plan):
        self.plan = plan
        self.synapses = list(plan.synapses)
        self.params = {p.name: dict(p.params) for p in plan.populations}
        self.params |= {one.name: dict(one.rules.params) for one in plan.plastic}
        self.load(initial_state(plan))

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return int(self._state.step)

    @property
    def state(self) -> NetworkState:
        """The state before the next step."""
        return copied(self.plan, self._state)

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""
        self._state = copied(self.plan, state)

    def set(self, name: str, param: str, value: Array) -> None:
        """Replace a parameter."""
        self.params[name][param] = value

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with the weights of a plan that differs in nothing else, and from a state in its quanta."""
        self.plan, self.synapses = plan, list(plan.synapses)
        self.load(state)

    def run(
        self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array], stopped: Stopped = never
    ) -> Recorded:
        """Run steps."""
        first, spiked = self.step, {p.name: np.zeros((steps, p.size), bool) for p in self.plan.populations}
        samples: dict[str, list[Array]] = {label: [] for label in wanted.samples}
        turn = 0
        while turn < steps and not stopped():
            sent, state = self.after({place: array[turn] for place, array in inputs.items()})
            spikes = {name: one.spikes for name, one in sent.items()}
            for name, which in spikes.items():
                spiked[name][turn] = which
            for label, sample in wanted.samples.items():
                if self.step % sample.every == 0:
                    samples[label].append(sample.of(state))
            turn, self._state = turn + 1, state
            check_finite(self.plan, self.step - 1, state.neurons)
            check_synapses(self.step - 1, self._faults)
        listed = {name: np.nonzero(spiked[name]) for name in wanted.spikes}
        return Recorded(
            first,
            turn,
            {name: ((at + first).astype(np.uint32), who.astype(np.int32)) for name, (at, who) in listed.items()},
            {name: spiked[name].sum(0, np.int32) for name in wanted.counts},
            {name: spiked[name][:turn].sum(1, np.int32) for name in wanted.rates},
            {label: self.sampled(wanted, label, rows) for label, rows in samples.items()},
        )

    def prepared(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Prepared:
        """Return a run that is repeated."""
        return Repeated(self, steps, wanted, inputs)

    def after(self, inputs: Mapping[tuple[str, str], Array]) -> tuple[dict[str, Sent], NetworkState]:
        """Return which neurons spike in the next step, and the state after it; that of now does not change."""
        before = self._state
        steps = {one.name: PlasticStep(self.plan, one, before, self.params[one.name]) for one in self.plan.plastic}
        neurons: dict[str, Mapping[str, Array]] = {}
        sent: dict[str, Sent] = {}
        events: dict[str, Mapping[str, Array]] = {}
        now = {name: {r: sums[0].copy() for r, sums in own.items()} for name, own in before.arriving.items()}
        for one in self.plan.plastic:
            steps[one.name].arrive(before.neurons, now[one.target][one.receptor])
        for p in self.plan.populations:
            given = {receptor: array for (name, receptor), array in inputs.items() if name == p.name}
            neurons[p.name], found = self.update(p, now[p.name], given)
            sent[p.name], events[p.name] = Sent(found.spike, found.value), found.events
        arriving = self.sent(sent)
        for one in self.plan.plastic:
            values = sent[one.source].values
            steps[one.name].finish(neurons, events, arriving[one.target][one.receptor], values)
        self._faults = [step.fault for step in steps.values() if step.fault is not None]
        plastic = (
            {name: step.synapses for name, step in steps.items()},
            {name: step.traces for name, step in steps.items()},
            next_past(self.plan, before.past, neurons, events, {name: one.values for name, one in sent.items()}),
        )
        return sent, NetworkState(np.uint32(self.step + 1), neurons, arriving, self.plan.quanta, *plastic)

    def update(
        self, population: PopulationPlan, sums: Mapping[str, Array], given: Mapping[str, Array]
    ) -> tuple[dict[str, Array], Outcome]:
        """Run the rule of a population for one step; return its states, and all that the rule returned."""
        states = self._state.neurons[population.name]
        arriving = []
        for receptor, quantum in population.quanta.items():
            amount = flushed(sums[receptor].astype(quantum.dtype) * quantum)
            if receptor in given:
                amount = flushed(amount + flushed(given[receptor].astype(quantum.dtype)))
            if couplings := self.plan.coupled.get((population.name, receptor)):
                amount = flushed(amount + self.carried(couplings))
            arriving.append(amount)
        random = [np.arange(population.size, dtype=np.uint32), *np.array([self.step, *population.key], np.uint32)]
        params = [np.broadcast_to(value, population.size) for value in self.params[population.name].values()]
        values = [*states.values(), *arriving, *params, *(random if population.rule.random else ())]
        found = population.rule.outcome(interpret(population.rule.form, values))
        return dict(zip(states, found.states, strict=True)), found

    def carried(self, couplings: Sequence[CouplingPlan]) -> Array:
        """Return what couplings into one receptor bring in the next step: a sum in the order of their synapses."""
        neurons = self._state.neurons
        total = np.zeros(couplings[0].neurons, self.plan.dtype)
        for one in couplings:
            starts, sources, weights = one.by_target
            count, values = np.diff(starts), neurons[one.source][one.state]
            own = neurons[one.target][one.state] if one.difference else np.zeros_like(total)
            for k in range(count.max(initial=0)):
                still = np.flatnonzero(count > k)
                at = starts[still] + k
                given = total[still], weights[at if weights.size > 1 else [0]], values[sources[at]], own[still]
                (total[still],) = interpret(added_form(self.plan.dtype, difference=one.difference), given)
        return total

    def sent(self, spikes: Mapping[str, Sent]) -> dict[str, dict[str, Array]]:
        """Return the pending input after a step: shifted by one step, with the weights of its spikes added."""
        arriving = {
            name: {receptor: np.append(sums[1:], np.zeros_like(sums[:1]), 0) for receptor, sums in receptors.items()}
            for name, receptors in self._state.arriving.items()
        }
        for synapses in self.synapses:
            sums = arriving[synapses.target][synapses.receptor]
            of_source = spikes[synapses.source]
            for source in np.nonzero(of_source.spikes)[0]:
                self.deliver(synapses, int(source), of_source, sums)
        return arriving

    def deliver(self, synapses: SynapsePlan, source: int, sent: Sent, sums: Array) -> None:
        """Add the weights of one source neuron, times the value of its spike if it has one."""
        chosen = slice(synapses.starts[source * self.plan.parts], synapses.starts[(source + 1) * self.plan.parts])
        targets = synapses.targets[chosen].astype(np.int64)
        delays, weights = (x if x.size == 1 else x[chosen] for x in (synapses.delays, synapses.weights))
        amounts = weights.astype(np.int32)
        if sent.values is not None:
            amounts = graded_amounts(amounts, sent.values[source])
        np.add.at(sums, (delays.astype(np.int64) - 1, targets), amounts)

    def sampled(self, wanted: Wanted, label: str, rows: list[Array]) -> Array:
        """Return the samples of a label as one array, also if there are none."""
        sample = wanted.samples[label]
        return np.array(rows, sample.dtype(self.plan)).reshape(len(rows), sample.neurons.size)
