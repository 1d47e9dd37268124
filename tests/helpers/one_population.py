# SPDX-License-Identifier: Apache-2.0
"""Run neurons of one population alone, with the interpreter."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from brainevent.network.description.network import Network
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted


@dataclass(frozen=True)
class Run:
    """What neurons did: `spikes` (steps, neurons) is bool, and each of `states` is (steps, neurons)."""

    spikes: Any
    states: dict[str, Any]

    def steps_of(self, neuron=0):
        """Return the numbers of the steps in which a neuron spiked."""
        return np.flatnonzero(self.spikes[:, neuron])


def run(population, steps, states=(), seed=1, **inputs):
    """Run a population; `inputs` are (steps, 1) or (steps, neurons), or numbers, by receptor."""
    plan = build_plan(Network([population], dt=population.params.get("dt", 0.1)), seed=seed)
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
