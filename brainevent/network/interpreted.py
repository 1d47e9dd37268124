# SPDX-License-Identifier: Apache-2.0
"""`Interpreted`: a network in plain NumPy, slow and exact: what every engine must equal, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..scalar.interpret import interpret
from ..scalar.primitives import flushed
from .engine import Prepared, Repeated, Stopped, never
from .plan.graded import graded_amounts
from .plan.plan import Plan, PopulationPlan, SynapsePlan
from .run.finite import check_finite
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

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter."""
        self.params[population][param] = value

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
                    samples[label].append(state.neurons[sample.population][sample.state][sample.neurons])
            turn, self._state = turn + 1, state
            check_finite(self.plan, self.step - 1, state.neurons)
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
        neurons: dict[str, Mapping[str, Array]] = {}
        sent = {}
        for p in self.plan.populations:
            given = {receptor: array for (name, receptor), array in inputs.items() if name == p.name}
            neurons[p.name], sent[p.name] = self.update(p, given)
        return sent, NetworkState(np.uint32(self.step + 1), neurons, self.sent(sent), self.plan.quanta)

    def update(self, population: PopulationPlan, given: Mapping[str, Array]) -> tuple[dict[str, Array], Sent]:
        """Run the rule of a population for one step; return its states, and which neurons spiked."""
        states, sums = self._state.neurons[population.name], self._state.arriving[population.name]
        arriving = []
        for receptor, quantum in population.quanta.items():
            amount = flushed(sums[receptor][0].astype(quantum.dtype) * quantum)
            if receptor in given:
                amount = flushed(amount + flushed(given[receptor].astype(quantum.dtype)))
            arriving.append(amount)
        random = [np.arange(population.size, dtype=np.uint32), *np.array([self.step, *population.key], np.uint32)]
        params = [np.broadcast_to(value, population.size) for value in self.params[population.name].values()]
        values = [*states.values(), *arriving, *params, *(random if population.rule.random else ())]
        found = population.rule.outcome(interpret(population.rule.form, values))
        return dict(zip(states, found.states, strict=True)), Sent(found.spike, found.value)

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
        dtype = self.plan.population(sample.population).state[sample.state].dtype
        return np.array(rows, dtype).reshape(len(rows), sample.neurons.size)
