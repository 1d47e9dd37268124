# SPDX-License-Identifier: Apache-2.0
"""A network that is large enough for several GPUs: seconds to describe, build and run it, its rates and its memory."""

import gc
import hashlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import brainevent as be
from benchmarks.probes.progress import tell
from examples.networks import areas, cuba, microcircuit


def copies(count: int, scale: float) -> Any:
    """Return the microcircuit so many times, without synapses between the copies."""
    populations, links = [], []
    for number, copy in enumerate([microcircuit.network(scale) for _ in range(count)]):
        own = {
            one.name: be.Population(f"{one.name}-{number}", one.size, one.rule, state=one.state, params=one.params)
            for one in copy.populations
        }
        populations += own.values()
        links += [
            be.Projection(own[link.source.name], own[link.target.name], link.connect, into=link.into, delay=link.delay)
            for link in copy.projections
        ]
    return be.Network(populations, links, dt=microcircuit.DT)


def late_cuba(scale: float) -> Any:
    """Return CUBA with 4 million neurons times a scale, and delays of 1.5 ms."""
    found = cuba.network(round(4_000_000 * scale))
    links = [be.Projection(one.source, one.target, one.connect, one.into, 1.5) for one in found.projections]
    return be.Network(found.populations, links, dt=cuba.DT)


NETWORKS: dict[str, Callable[[float], Any]] = {
    "areas": areas.network,
    "pd14_four": lambda scale: copies(4, scale),
    "cuba_late": late_cuba,
    "cuba_16": lambda scale: cuba.network(round(16_000_000 * scale)),
}


def measure(
    model: str, scale: float, steps: int, repeats: int, discard: int = 0, devices: int | None = None
) -> dict[str, Any]:
    """Build a network twice, the second time with nothing to compile, and run it; on the CPU without `devices`.

    `nothing` and `rates` are seconds of runs with nothing recorded, and with the number of spikes of each neuron, until
    that is on the host. `rate` is the mean rate in Hz, `of` that of each population. `bytes` are those of synapses on
    all devices, and `digest` is of the numbers of spikes: it does not depend on how many devices there are.
    """
    how = {"backend": "numba"} if devices is None else {"backend": "cuda", "devices": devices}
    began = time.perf_counter()
    network = NETWORKS[model](scale)
    described = time.perf_counter() - began
    building, simulation = [], None
    for attempt in range(2):
        tell(f"building {model} on {devices or 'no'} GPUs, {'again' if attempt else 'for the first time'}")
        simulation = None  # its memory is free before the next one is built
        gc.collect()
        began = time.perf_counter()
        simulation = network.build(seed=1, **how)
        building.append(time.perf_counter() - began)
    assert simulation is not None
    names = [one.name for one in network.populations]
    record = [f"{name}.counts" for name in names]
    simulation.run(max(1, discard), record=record)
    seconds: dict[str, list[float]] = {"nothing": [], "rates": []}
    counts = [np.zeros(one.size) for one in network.populations]
    for _ in range(repeats):
        for kind, wanted in (("nothing", []), ("rates", record)):
            tell(f"running {model}, {kind} recorded")
            began = time.perf_counter()
            result = simulation.run(steps, record=wanted)
            seconds[kind].append(time.perf_counter() - began)
        counts = [total + result[one] for total, one in zip(counts, record, strict=True)]
    duration = repeats * steps * network.dt * 1e-3
    whole = np.concatenate(counts)
    return {
        **seconds,
        "described": described,
        "building": building,
        "neurons": whole.size,
        "synapses": sum(one.entries for one in simulation.plan.projections),
        "bytes": _bytes(simulation, devices),
        "rate": float(whole.mean()) / duration,
        "of": {name: float(one.mean()) / duration for name, one in zip(names, counts, strict=True)},
        "digest": hashlib.sha256(whole.astype(np.int64).tobytes()).hexdigest()[:16],
    }


def _bytes(simulation: Any, devices: int | None) -> int:
    """Return how many bytes the synapses take on all devices."""
    if devices is None:
        return int(simulation.plan.synapse_bytes)
    engine = simulation.engine
    return sum(int(one.rows.nbytes) for one in getattr(engine, "_parts", [engine]))
