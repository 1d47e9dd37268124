# SPDX-License-Identifier: Apache-2.0
"""32 areas of the size of a macaque's visual cortex: 4.1 million neurons and 24 billion synapses at scale 1.

Each area is a microcircuit of eight populations (see microcircuit.py); areas excite each other. Potentials are in mV,
currents in pA, times in ms, distances in mm. `python -m examples.networks.areas --scale 0.005` runs a small one.
"""

from dataclasses import dataclass, field
from math import sqrt

import jax.numpy as jnp
import numpy as np

import brainevent as be
from examples.networks import microcircuit as cortex
from examples.networks.report import main

DT, NAMES = cortex.DT, cortex.NAMES
AREAS, NEURONS = 32, 4_130_000
FROM_OTHERS = 2000  # synapses of a neuron from other areas, on average
REACH, SPEED = 11.0, 3.5  # mm over which connections decay, mm a ms
FORWARD = {"23E": 0.75, "5E": 0.25}  # who projects to areas that are higher in the hierarchy
BACKWARD = {"23E": 0.2, "5E": 0.4, "6E": 0.4}  # and to lower ones
# Weights in quarters of an excitatory one, integers, a row for each target: within an area, and between areas.
EXC, INH = 4, -16
WITHIN = np.array([[round(EXC * cortex.weight(k, j) / cortex.WEIGHT) for j in range(8)] for k in range(8)])
BETWEEN = np.array([[INH if j % 2 else 1 for j in range(8)] for k in range(8)])
RATES = np.array(cortex.RATES)  # Hz, of the microcircuit: random spikes of these rates replace inputs


@dataclass(frozen=True)
class Areas:
    """What a network of areas is made of; populations of an area are those of `NAMES`.

    Attributes:
        names: Name of each area.
        sizes: How many neurons there are at scale 1, (areas, 8).
        inputs: How many synapses a neuron has: (areas, 8, areas, 8), those of the target first.
        external: How many external inputs of 8 Hz a neuron has, (areas, 8).
        delays: From area to area in ms, (areas, areas): rows are targets. Within an area they are those of synapses.
        positions: Where areas are, (areas, 3) in mm, if delays follow from their distances; else None.
    """

    names: list[str]
    sizes: np.ndarray
    inputs: np.ndarray
    external: np.ndarray
    delays: np.ndarray
    positions: np.ndarray | None = field(default=None)


def made():
    """Return areas of our own making, in published orders of magnitude: on an ellipsoid, from low to high ones."""
    k = np.arange(AREAS)
    height, turn = 1 - (2 * k + 1) / AREAS, k * np.pi * (3 - sqrt(5))
    around = np.sqrt(1 - height**2)
    positions = np.stack([30 * height, 20 * around * np.cos(turn), 15 * around * np.sin(turn)], axis=1)
    level = k / (AREAS - 1)
    shares = np.outer(1.3 - 0.6 * level, cortex.SIZES)  # higher areas are smaller, with a thinner layer 4
    shares[:, 2:4] *= (1.2 - 0.4 * level)[:, None]
    sizes = np.round(shares * NEURONS / shares.sum()).astype(int)
    apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    near = np.where(apart > 0, np.exp(-apart / REACH), 0)
    forward = k[:, None] > k[None]
    inputs = np.zeros((AREAS, 8, AREAS, 8))
    for target, name in enumerate(NAMES):
        up, down = (2.0, 0.2) if name.startswith("4") else (0.8, 1.2)  # forward ones end in layer 4, others elsewhere
        for source, who in enumerate(NAMES):
            share = np.where(forward, up * FORWARD.get(who, 0), down * BACKWARD.get(who, 0))
            inputs[:, target, :, source] = near * share
    # Neurons receive as many spikes from other areas as these take the place of external ones, whatever their area.
    inputs *= (np.array(cortex.EXTERNAL) / np.einsum("atbs,s->at", inputs, RATES))[:, :, None, None]
    inputs *= FROM_OTHERS * sizes.sum() / np.einsum("at,atbs->", sizes, inputs)
    external = cortex.EXTERNAL - np.einsum("atbs,ts,s->t", inputs, BETWEEN / EXC, RATES) / AREAS / 8
    for target, source in zip(*np.nonzero(cortex.PROBABILITIES), strict=True):
        inputs[k, target, k, source] = cortex.contacts(target, source) / cortex.SIZES[target]
    names = [f"area{number:02}" for number in k]
    return Areas(names, sizes, inputs, np.tile(external, (AREAS, 1)), apart / SPEED, positions)


def whole(s, arriving, p, random):
    """Integrate the currents for a step, exactly, with external spikes at random."""
    return cortex.integrated(s, p, p.weight * (arriving.syn + EXC * random.poisson(p.excite)))


def part(s, arriving, p, random):
    """Receive at random also the spikes of inputs that are left out."""
    outside = EXC * random.poisson(p.excite) + INH * random.poisson(p.inhibit)
    return cortex.integrated(s, p, p.weight * (arriving.syn + outside))


def rounded(inputs):
    """Round numbers of synapses so that each neuron keeps its excitatory and its inhibitory ones in total."""
    found = np.floor(inputs).astype(int)
    for which in (slice(0, None, 2), slice(1, None, 2)):
        below, rest = found[..., which], (inputs - found)[..., which]
        order = np.argsort(np.argsort(-rest.reshape(*rest.shape[:2], -1), axis=2, kind="stable"), axis=2)
        more = np.round(rest.sum((2, 3))).astype(int)
        below += (order < more[..., None, None].reshape(*more.shape, 1)).reshape(rest.shape)
    return found


def population(areas, k, scale, share):
    """Return a population of all areas, one area after the other."""
    sizes = np.where(areas.sizes[:, k] > 0, np.maximum(1, np.round(scale * areas.sizes[:, k])), 0).astype(int)
    which = np.repeat(np.arange(len(sizes)), sizes)
    at = {"area": which}
    if areas.positions is not None:
        at |= dict(zip("xyz", areas.positions[which].T, strict=True))
    else:
        at |= {f"from{source}": areas.delays[which, source] for source in range(len(sizes))}
    own = np.eye(len(sizes), dtype=bool)[:, :, None]
    charge = (1 - share) * areas.inputs[:, k] * np.where(own, WITHIN[k], BETWEEN[k]) * RATES  # of inputs left out
    excite = (areas.external[:, k] * 8 + charge.clip(0).sum((1, 2)) / EXC) * 1e-3 * DT
    inhibit = charge.clip(None, 0).sum((1, 2)) / INH * 1e-3 * DT
    params = cortex.PARAMS | {"weight": cortex.WEIGHT / EXC, "drift": 0.0, "excite": of_areas(excite, sizes)}
    if share < 1:
        params["inhibit"] = of_areas(inhibit, sizes)
    state = {"v": be.normal(cortex.V_MEAN[k], cortex.V_SD[k]), "i": 0.0, "pause": 0}
    return be.Population(NAMES[k], which.size, part if share < 1 else whole, state=state, params=params, at=at)


def of_areas(values, sizes):
    """Return one number if it is the same in all areas, else one for each neuron."""
    return float(values[0]) if np.ptp(values) <= 1e-9 * abs(values[0]) else np.repeat(values, sizes)


def delay_between(areas):
    """Return the delay between two neurons of different areas, as a function of both."""
    if areas.positions is not None:
        return lambda pre, post: jnp.sqrt((pre.x - post.x) ** 2 + (pre.y - post.y) ** 2 + (pre.z - post.z) ** 2) / SPEED

    def late(pre, post):
        found = 0.0
        for source in range(len(areas.names)):
            found = jnp.where(pre.area == source, getattr(post, f"from{source}"), found)
        return found

    return late


def network(scale=1.0, inputs=None, areas=None):
    """Return areas with a fraction of their neurons, and of the inputs of each; random spikes replace the others.

    Args:
        scale: Which fraction of the neurons there is.
        inputs: Which fraction of the inputs of each neuron; None is that of the neurons.
        areas: The `Areas`; None are those of `made()`.
    """
    areas, share = made() if areas is None else areas, scale if inputs is None else inputs
    numbers = rounded(share * areas.inputs)
    populations = [population(areas, k, scale, share) for k in range(8)]
    own, late, projections = np.eye(len(areas.names), dtype=bool), delay_between(areas), []
    for target in range(8):
        for source in range(8):
            table = numbers[:, target, :, source]
            for kind, chosen, weights, delay in (
                ("within", own, WITHIN, be.uniform(0.1, 1.4 if source % 2 else 2.9)),
                ("between", ~own, BETWEEN, late),
            ):
                some = np.where(chosen, table, 0)
                how = be.connect.in_degree(some, by="area", weight=int(weights[target, source]))
                name = f"{NAMES[source]}->{NAMES[target]} {kind}"
                if some.any():
                    ends = populations[source], populations[target]
                    projections.append(be.Projection(*ends, how, into="syn", delay=delay, name=name))
    return be.Network(populations, projections, dt=DT)


def rates(described, counts, milliseconds):
    """Return rates in Hz, (areas, 8), from numbers of spikes by label; NaN where there are no neurons."""
    number, found = max(int(one.at["area"].max()) for one in described.populations) + 1, []
    for one in described.populations:
        which = one.at["area"].astype(int)
        spikes, sizes = (np.bincount(which, of, number) for of in (counts[f"{one.name}.counts"], None))
        found.append(spikes / np.where(sizes > 0, sizes, np.nan) / milliseconds * 1e3)
    return np.stack(found, axis=1)


if __name__ == "__main__":
    main("areas", network, scale=0.005)
