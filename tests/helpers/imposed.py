# SPDX-License-Identifier: Apache-2.0
"""Run plastic synapses between neurons whose spikes are given."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import brainevent as be
from brainevent.network.engines import make_engine
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted

Array = Any


def told(s: Any, arriving: Any, p: Any) -> Any:
    """Spike when told to, whatever arrives from synapses."""
    return s.replace(got=arriving.syn), arriving.spikes > 0


def neurons(name: str, size: int) -> be.Population:
    """Return neurons that spike when told to."""
    return be.Population(name, size, told, {"got": 0.0}, {})


def trains(steps: int, spikes: Sequence[Any]) -> Array:
    """Return spikes as inputs, (steps, neurons), from the steps of each neuron."""
    found = np.zeros((steps, len(spikes)), np.float32)
    for neuron, at in enumerate(spikes):
        found[np.asarray(at, int), neuron] = 1
    return found


def network(
    rules: Mapping[str, be.Plasticity],
    source: be.Population,
    target: be.Population,
    weights: Array,
    delays: Array,
    dt: float = 0.1,
) -> be.Network:
    """Return a network with a projection for each rule, whose matrices are (sources, targets), delays in steps."""
    projections = []
    for name, plasticity in rules.items():
        matrix = be.CSR.fromdense(np.asarray(weights, np.float32))
        delay = np.broadcast_to(delays, np.shape(weights))[np.asarray(weights) != 0] * dt
        projections.append(be.Projection(source, target, matrix, "syn", delay, name=name, plasticity=plasticity))
    return be.Network([source, target], projections, dt=dt)


def weights_of(
    described: be.Network, steps: int, inputs: Mapping[tuple[str, str], Array], backend: str = "interpreted"
) -> dict[str, Array]:
    """Return the weights after each step, by projection: (rows, synapses), by source and target.

    Each pair of neurons has at most one synapse.
    """
    plan = build_plan(described)
    samples = {one.name: Sample(one.name, "w", 1, np.arange(one.entries), of_synapses=True) for one in plan.plastic}
    recorded = make_engine(plan, backend).run(steps, Wanted((), samples=samples), dict(inputs))
    found = {}
    for one in plan.plastic:
        made = one.synapses
        sources, targets = (x[made.order] for x in (made.sources, made.targets))
        found[one.name] = recorded.samples[one.name][:, np.lexsort((targets, sources))]
    return found
