# SPDX-License-Identifier: Apache-2.0
"""Run neurons of one rule alone, with the interpreter."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from brainevent.network.interpreted import Interpreted
from brainevent.network.plan import Plan, PopulationPlan
from brainevent.network.recorded import Sample, Wanted
from brainevent.network.rule.trace import trace


@dataclass(frozen=True)
class Run:
    """What neurons did: `spikes` (steps, neurons) is bool, and each of `states` is (steps, neurons)."""

    spikes: Any
    states: dict[str, Any]

    def steps_of(self, neuron=0):
        """Return the numbers of the steps in which a neuron spiked."""
        return np.flatnonzero(self.spikes[:, neuron])


def plan_of(population, receptors=(), seed=1):
    """Return the plan of a population without projections, whose values are numbers or arrays."""
    state = {key: np.asarray(value) for key, value in population.state.items()}
    params = {key: np.asarray(value) for key, value in population.params.items()}
    given = {key: value.item() if value.ndim == 0 else value for key, value in state.items()}
    rule = trace(population.rule, given, receptors, params)
    start = {n.text[2:]: np.full(population.size, state[n.text[2:]], n.dtype) for n in rule.states}
    values = {n.text[2:]: params[n.text[2:]].astype(n.dtype) for n in rule.params}
    quanta = dict.fromkeys(receptors, np.float32(1))
    built = PopulationPlan(population.name, population.size, rule, start, values, quanta, (seed, 17))
    return Plan((built,), (), 0.1, seed, 1, "one population")


def run(population, steps, states=(), seed=1, **inputs):
    """Run a population; `inputs` are (steps, 1) or (steps, neurons), or numbers, by receptor."""
    plan = plan_of(population, tuple(inputs), seed)
    name, everyone = population.name, np.arange(population.size)
    given = {
        (name, key): np.asarray(value if np.ndim(value) else np.full((steps, 1), value), np.float32)
        for key, value in inputs.items()
    }
    wanted = Wanted((name,), samples={state: Sample(name, state, 1, everyone) for state in states})
    recorded = Interpreted(plan).run(steps, wanted, given)
    spikes = np.zeros((steps, population.size), bool)
    spikes[recorded.spikes[name]] = True
    return Run(spikes, dict(recorded.samples))
