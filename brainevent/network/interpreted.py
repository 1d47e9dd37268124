# SPDX-License-Identifier: Apache-2.0
"""`Interpreted`: a network in plain NumPy, slow and exact: what every engine must equal, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .plan.plan import Plan, PopulationPlan, SynapsePlan
from .rule.interpret import interpret
from .rule.primitives import flush
from .run.finite import check_finite
from .run.recorded import Recorded, Wanted
from .state import NetworkState, initial_state

__all__ = ["Interpreted"]

Array = Any


def _copied(tree: Mapping[str, Mapping[str, Array]]) -> dict[str, dict[str, Array]]:
    return {name: {key: np.array(array) for key, array in arrays.items()} for name, arrays in tree.items()}


def _flushed(array: Array) -> Array:
    return flush(array) if array.dtype == np.float32 else array


class Interpreted:
    """The engine that states what the others do."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.synapses = list(plan.synapses)
        self.params = {p.name: dict(p.params) for p in plan.populations}
        self.load(initial_state(plan))

    @property
    def state(self) -> NetworkState:
        """The state before the next step."""
        return NetworkState(np.uint32(self.step), _copied(self.neurons), _copied(self.arriving))

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""
        self.step = int(state.step)
        self.neurons, self.arriving = _copied(state.neurons), _copied(state.arriving)

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter."""
        self.params[population][param] = value

    def set_weights(self, plan: Plan) -> None:
        """Go on with the weights of a plan that differs in nothing else."""
        self.plan, self.synapses = plan, list(plan.synapses)

    def run(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Recorded:
        """Run steps."""
        first, spiked = self.step, {p.name: np.zeros((steps, p.size), bool) for p in self.plan.populations}
        samples: dict[str, list[Array]] = {label: [] for label in wanted.samples}
        for turn in range(steps):
            for population in self.plan.populations:
                given = {receptor: array[turn] for (name, receptor), array in inputs.items() if name == population.name}
                spiked[population.name][turn] = self.update(population, given)
            self.send({name: spikes[turn] for name, spikes in spiked.items()})
            for label, sample in wanted.samples.items():
                if self.step % sample.every == 0:
                    samples[label].append(self.neurons[sample.population][sample.state][sample.neurons])
            if self.plan.check_finite:
                check_finite(self.plan, self.step, self.neurons)
            self.step += 1
        listed = {name: np.nonzero(spiked[name]) for name in wanted.spikes}
        return Recorded(
            first,
            steps,
            {name: ((at + first).astype(np.uint32), who.astype(np.int32)) for name, (at, who) in listed.items()},
            {name: spiked[name].sum(0, np.int32) for name in wanted.counts},
            {name: spiked[name].sum(1, np.int32) for name in wanted.rates},
            {label: self.sampled(wanted, label, rows) for label, rows in samples.items()},
        )

    def update(self, population: PopulationPlan, given: Mapping[str, Array]) -> Array:
        """Run the rule of a population for one step; return which neurons spiked."""
        states = self.neurons[population.name]
        arriving = []
        for receptor, quantum in population.quanta.items():
            amount = _flushed(self.arriving[population.name][receptor][0].astype(quantum.dtype) * quantum)
            if receptor in given:
                amount = _flushed(amount + _flushed(given[receptor].astype(quantum.dtype)))
            arriving.append(amount)
        random = [np.arange(population.size, dtype=np.uint32), *np.array([self.step, *population.key], np.uint32)]
        params = [np.broadcast_to(value, population.size) for value in self.params[population.name].values()]
        *new, spikes = interpret(
            population.rule.form,
            [*states.values(), *arriving, *params, *(random if population.rule.random else ())],
        )
        self.neurons[population.name] = dict(zip(states, new, strict=True))
        return spikes

    def send(self, spikes: Mapping[str, Array]) -> None:
        """Move what is on its way one step on, and add what the spikes of this step send."""
        for receptors in self.arriving.values():
            for sums in receptors.values():
                sums[:-1] = sums[1:]
                sums[-1] = 0
        for synapses in self.synapses:
            sums = self.arriving[synapses.target][synapses.receptor]
            for source in np.nonzero(spikes[synapses.source])[0]:
                self.deliver(synapses, int(source), sums)

    def deliver(self, synapses: SynapsePlan, source: int, sums: Array) -> None:
        """Add the weights of one source neuron."""
        chosen = slice(synapses.starts[source * self.plan.parts], synapses.starts[(source + 1) * self.plan.parts])
        targets = synapses.targets[chosen].astype(np.int64)
        delays, weights = (x if x.size == 1 else x[chosen] for x in (synapses.delays, synapses.weights))
        np.add.at(sums, (delays.astype(np.int64) - 1, targets), weights.astype(np.int32))

    def sampled(self, wanted: Wanted, label: str, rows: list[Array]) -> Array:
        """Return the samples of a label as one array, also if there are none."""
        sample = wanted.samples[label]
        dtype = self.neurons[sample.population][sample.state].dtype
        return np.array(rows, dtype).reshape(len(rows), sample.neurons.size)
