# SPDX-License-Identifier: Apache-2.0
"""A network of the size of the fly brain's connectome: its edges are drawn, not measured.

What is given: how many neurons, edges and contacts there are, how many edges have at least 3, 5, 10 and 20 contacts,
that 70 % of the neurons excite, that out-degrees are heavy-tailed, the neuron, and the drive of 21 neurons. Also the
load: some 17 000 spikes a second, from some 460 neurons. All else is free, and chosen here such that the load follows:

- Edges with other numbers of contacts lie on power laws between those given, and on one beyond 20 contacts, up to
  2 000, whose exponent makes up the total.
- Out-degrees have a lognormal distribution. Neurons lie on a ring. Half of the edges of a neuron end in its
  neighbourhood, the others anywhere; no two edges connect the same neurons in the same direction.
- Edges to some neurons hold more contacts than edges to others. So the neurons that spike do so often.
- The driven neurons are those with the most edges among the excitatory ones of 400 neighbours. So they share targets.
  Loads of 24 neighbourhoods are 11 000 to 35 000 spikes a second, 18 500 on average, from 320 to 790 neurons, 450 on
  average. The one that is taken has a load near the given one.
- An event of the drive is added to the potential, where it is a spike: driven neurons have no refractory period.
- All potentials begin at rest. What arrives while a neuron is refractory is added to its synaptic input, and decays.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import brainevent as be

NEURONS, EDGES, CONTACTS = 138_639, 15_091_983, 54_492_922
TAILS = {3: 4_920_000, 5: 2_700_000, 10: 1_070_000, 20: 367_000}  # edges with at least as many contacts
DRIVEN = 21
_DT = 0.1  # ms
_MOST = 2_000  # contacts of an edge
_SPREAD_OF_DEGREES = 1.0  # standard deviation of their logarithm
_NEAR = 0.5  # part of the edges that end nearby
_DISTANCE = 100  # places of these neighbours: an exponential distribution has this mean
_SPREAD_OF_TARGETS = 1.5  # of what decides over contacts: that of targets, where that of edges is 1
_NEIGHBOURHOOD = range(4_000, 4_400)  # neurons among which those that are driven are: see above
_EXCITE = 0.7

Array = Any


@dataclass(frozen=True)
class Connectome:
    """Edges, sorted by source: `contacts` of each; signs of all neurons, and the numbers of those that are driven."""

    sources: Array
    targets: Array
    contacts: Array
    signs: Array
    driven: Array


# ---- drawing


def draw(neurons: int = NEURONS, seed: int = 0) -> Connectome:
    """Draw a connectome: with fewer neurons, edges and contacts are fewer in proportion."""
    random = np.random.default_rng(seed)
    degrees = _draw_degrees(random, neurons)
    sources = np.repeat(np.arange(neurons, dtype=np.int32), degrees)
    targets = _draw_targets(random, sources, degrees)
    contacts = _draw_contacts(random, targets, neurons)
    signs = np.where(random.random(neurons) < _EXCITE, 1, -1).astype(np.int8)
    near = np.array([i for i in _NEIGHBOURHOOD if signs[i] == 1])
    driven = np.sort(near[np.argsort(-degrees[near], kind="stable")[:DRIVEN]])
    return Connectome(sources, targets, contacts, signs, driven)


def _draw_degrees(random: np.random.Generator, neurons: int) -> Array:
    """As many edges as there are, shared out by a lognormal distribution."""
    ends = np.cumsum(random.lognormal(0, _SPREAD_OF_DEGREES, neurons))
    degrees = np.diff(np.rint(ends / ends[-1] * _in_proportion(EDGES, neurons)).astype(np.int64), prepend=0)
    if degrees.max() >= neurons:
        raise ValueError(f"a neuron would have {degrees.max()} edges to {neurons - 1} others; draw more neurons")
    return degrees


def _draw_targets(random: np.random.Generator, sources: Array, degrees: Array) -> Array:
    """Other neurons of each source, which all differ: places in the order of their distance, drawn without repeats."""
    neurons, edges = degrees.size, sources.size
    room = (neurons - 1 - degrees)[sources]
    at = random.random(edges, dtype=np.float32)
    near = np.minimum(-_DISTANCE * np.log1p(-at), room)
    places = np.where(random.random(edges, dtype=np.float32) < _NEAR, near, at * room).astype(np.int64)
    rows = sources * np.int64(neurons)
    places = np.sort(rows + places) - rows
    # Sorted numbers that may repeat, plus their ranks, are numbers that do not.
    places += np.arange(1, edges + 1) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    offsets = np.where(places % 2, -(places + 1) // 2, places // 2)  # -1, 1, -2, 2 and so on
    return ((sources + offsets) % neurons).astype(np.int32)


def _draw_contacts(random: np.random.Generator, targets: Array, neurons: int) -> Array:
    """Edges with the most contacts go to targets that are strong."""
    counts = edges_by_contacts(neurons)
    strength = random.standard_normal(targets.size, dtype=np.float32)
    strength += _SPREAD_OF_TARGETS * random.standard_normal(neurons, dtype=np.float32)[targets]
    contacts = np.empty(targets.size, np.int16)
    contacts[np.argsort(strength)] = np.repeat(np.arange(1, counts.size + 1, dtype=np.int16), counts)
    return contacts


def edges_by_contacts(neurons: int = NEURONS) -> Array:
    """Say how many edges have 1 contact, 2 and so on: together they are as many, and hold as many, as is given."""
    edges, contacts = (_in_proportion(total, neurons) for total in (EDGES, CONTACTS))
    low, high = 1.2, 6.0  # exponents of the tail: the smaller, the more contacts
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _edges_at_least(middle, neurons).sum() > contacts else (low, middle)
    counts = -np.diff(np.rint(_edges_at_least(low, neurons)).astype(np.int64))
    missing = contacts - int(counts @ np.arange(1, counts.size + 1))  # by rounding
    counts[:2] += -missing, missing
    assert counts.sum() == edges
    return counts


def _edges_at_least(exponent: float, neurons: int) -> Array:
    """Edges with at least 1, 2, ... contacts, and none with more than there are at most."""
    at_least = np.arange(1, _MOST + 2)
    known = {1: EDGES} | TAILS
    edges = np.exp(np.interp(np.log(at_least), np.log(list(known)), np.log(list(known.values()))))
    beyond = at_least > max(known)
    edges[beyond] = TAILS[20] * (at_least[beyond] / 20) ** -exponent
    edges[-1] = 0
    scaled = edges / NEURONS * neurons
    scaled[0] = _in_proportion(EDGES, neurons)
    return scaled


def _in_proportion(total: int, neurons: int) -> int:
    return round(total * neurons / NEURONS)


# ---- the network

_LEAK, _FALL = math.exp(-_DT / 20), math.exp(-_DT / 5)
_NEURON = {"rest": -52.0, "threshold": -45.0, "leak": _LEAK, "fall": _FALL, "gain": 5 / 15 * (_LEAK - _FALL)}
_DRIVE = {"kick": 68.75, "mean": 0.15 * _DT}  # mV, and events a step: of 150 a second
_CONTACT = 0.275  # mV


def _lif(s: Any, arriving: Any, p: Any) -> Any:
    g = s.g + arriving.syn
    v = jnp.where(s.pause > 0, s.v, p.rest + (s.v - p.rest) * p.leak + g * p.gain)
    spike = v > p.threshold
    pause = jnp.where(spike, 22, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, p.rest, v), g=g * p.fall, pause=pause), spike


def _driven_lif(s: Any, arriving: Any, p: Any, random: Any) -> Any:
    g = s.g + arriving.syn
    v = p.rest + (s.v - p.rest) * p.leak + g * p.gain + p.kick * random.poisson(p.mean)
    spike = v > p.threshold
    return s.replace(v=jnp.where(spike, p.rest, v), g=g * p.fall), spike


@functools.cache
def build_flywire(neurons: int) -> Any:
    """Return the network: those that are driven are a population of their own."""
    drawn = draw(neurons)
    is_driven = np.zeros(neurons, bool)
    is_driven[drawn.driven] = True
    state = {"v": -52.0, "g": 0.0}
    driven = be.Population("driven", DRIVEN, _driven_lif, state=state, params=_NEURON | _DRIVE)
    others = be.Population("others", neurons - DRIVEN, _lif, state=state | {"pause": 0}, params=_NEURON)
    populations, members = (driven, others), (is_driven, ~is_driven)
    projections = [
        be.Projection(source, target, _matrix(drawn, of, to), into="syn", delay=1.8)
        for source, of in zip(populations, members, strict=True)
        for target, to in zip(populations, members, strict=True)
    ]
    return be.Network(populations, projections, dt=_DT)


def _matrix(drawn: Connectome, of: Array, to: Array) -> Any:
    """Edges from some neurons to some, by their numbers among these."""
    chosen = of[drawn.sources] & to[drawn.targets]
    numbers = [np.cumsum(members, dtype=np.int32) - 1 for members in (of, to)]
    sources, targets = drawn.sources[chosen], drawn.targets[chosen]
    weights = (_CONTACT * drawn.contacts[chosen] * drawn.signs[sources]).astype(np.float32)
    return be.COO((weights, numbers[0][sources], numbers[1][targets]), shape=(int(of.sum()), int(to.sum())))
