# SPDX-License-Identifier: Apache-2.0
"""`placed_areas`: a process for each population, so that short delays are within processes, and all have alike work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..plan.distribution import Distribution
from ..plan.wiring import Wiring, wiring_of

__all__ = ["NEURON", "Link", "links_of", "placed_areas"]

NEURON = 1000  # synapses, whose spikes take about as long in a step as the update of a neuron
_UNEVEN = 1.5  # times the most work of a process that is accepted for longer delays between processes


@dataclass(frozen=True)
class Link:
    """Synapses from one population to another: how many, about, and the least number of steps that they take."""

    source: str
    target: str
    synapses: float
    delay: int


def links_of(network: Any, *, round_delays: bool) -> list[Link]:
    """Return what is known of the projections of a network before they are drawn."""
    named = zip(network.projection_names, network.projections, strict=True)
    wirings = (wiring_of(name, one, network.dt, round_delays=round_delays) for name, one in named)
    return [_link_of(wiring) for wiring in wirings if wiring.expected]


def _link_of(wiring: Wiring) -> Link:
    source, target = wiring.projection.populations
    return Link(source.name, target.name, wiring.expected, _least_delay(wiring))


def _least_delay(wiring: Wiring) -> int:
    """Return the least delay that there may be; 1 if a function of both neurons says it."""
    steps = wiring.steps
    if isinstance(steps, Distribution):
        return max(1, round(max(steps.bounds[0], 1)))
    return int(np.min(steps)) if isinstance(steps, np.ndarray | np.integer) else 1


def placed_areas(
    sizes: Mapping[str, int], links: Sequence[Link], count: int, *, uneven: float = _UNEVEN
) -> dict[str, int]:
    """Return the number of a process for each population.

    Populations with delays below a number of steps stay together. The number is as large as may be without much more
    work for one process than with populations that are placed one by one: work is in proportion to neurons, and to the
    synapses that end on them.

    Args:
        sizes: How many neurons each population has.
        links: Synapses between them.
        count: How many processes there are.
        uneven: How many times the least such work a process may have.
    """
    work = {name: float(NEURON * size) for name, size in sizes.items()}
    for link in links:
        work[link.target] += link.synapses
    between = [link for link in links if link.source != link.target]
    delays = sorted({link.delay for link in between} | {max((link.delay for link in between), default=0) + 1})
    found = [_shared_out(_joined(list(sizes), between, delay), work, count) for delay in delays]
    most = [max(np.bincount([*one.values()], [work[name] for name in one], count)) for one in found]
    return [one for one, own in zip(found, most, strict=True) if own <= uneven * min(most)][-1]


def _joined(names: Sequence[str], links: Sequence[Link], delay: int) -> list[list[str]]:
    """Return groups of populations, of which those with links of less than a delay between them are in one."""
    group = {name: [name] for name in names}
    for link in links:
        ours, theirs = group[link.source], group[link.target]
        if link.delay < delay and ours is not theirs:
            ours += theirs
            group |= dict.fromkeys(theirs, ours)
    return [own for name, own in group.items() if own[0] == name]


def _shared_out(groups: Sequence[Sequence[str]], work: Mapping[str, float], count: int) -> dict[str, int]:
    """Return the process of each population: groups with most work first, each to the process with least."""
    loads, placed = [0.0] * count, dict[str, int]()
    for own in sorted(groups, key=lambda names: -sum(work[name] for name in names)):
        number = loads.index(min(loads))
        loads[number] += sum(work[name] for name in own)
        placed |= dict.fromkeys(own, number)
    return placed
