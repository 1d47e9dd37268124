# SPDX-License-Identifier: Apache-2.0
"""Check that 32 bits hold the sums of a state, with all that the weights of a plan can still add to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import NetworkError
from .plan import Plan, SynapsePlan
from .quantum import LARGEST_SUM

__all__ = ["check_pending", "into", "largest_load"]

_CHUNK = 2**22  # synapses
_ADVICE = "pass a state of a run with these weights"

Array = Any


def check_pending(where: str, plan: Plan, arriving: Mapping[str, Mapping[str, Array]], advice: str = _ADVICE) -> None:
    """Raise, with advice, if sums (rows, neurons) of a state, by population and receptor, may leave 32 bits in a run.

    Row k arrives k steps after the next one. Until then each synapse with a delay of at most k steps can add its weight
    once. So the pending input of a run of the plan itself always fits.
    """
    for population, receptor in plan.receptors():
        rows = arriving[population][receptor]
        if (most := _largest(rows).max(initial=0)) and most + largest_load(plan, population, receptor) > LARGEST_SUM:
            _check_each(where, plan, population, receptor, rows, advice)


def largest_load(plan: Plan, population: str, receptor: str) -> int:
    """Return the largest sum of |weight| into a neuron, in quanta; it is added up once for each plan."""
    place = population, receptor
    if place not in plan.loads:
        loads = np.zeros(plan.population(population).size, np.int64)
        for synapses in into(plan, population, receptor):
            for targets, weights, _ in _chunks(synapses):
                np.add.at(loads, targets, weights)
        plan.loads[place] = int(loads.max(initial=0))
    return plan.loads[place]


def _check_each(where: str, plan: Plan, population: str, receptor: str, rows: Array, advice: str) -> None:
    """Raise if the sums of a neuron do not fit; looks only at neurons whose sums are that large."""
    suspects = np.flatnonzero(_largest(rows) > LARGEST_SUM - largest_load(plan, population, receptor))
    column = np.full(plan.population(population).size, -1)
    column[suspects] = np.arange(suspects.size)
    added = np.zeros((len(rows), suspects.size), np.int64)
    for synapses in into(plan, population, receptor):
        for targets, weights, delays in _chunks(synapses):
            chosen = (column[targets] >= 0) & (delays < len(rows))
            np.add.at(added, (delays[chosen], column[targets[chosen]]), weights[chosen])
    added = added.cumsum(0)
    sums = np.abs(rows[:, suspects].astype(np.int64))
    row, place = np.unravel_index(int((sums + added).argmax()), added.shape)
    if (total := sums[row, place] + added[row, place]) > LARGEST_SUM:
        raise NetworkError(
            f"{where}: pending input of neuron {suspects[place]} of {population} by {receptor} may add up to {total} "
            f"quanta: {sums[row, place]} arrive in {row + 1} steps, and spikes until then may add {added[row, place]}; "
            f"sums have 32 bits, up to {LARGEST_SUM}: {advice}"
        )


def _largest(rows: Array) -> Array:
    """Return the largest |sum| of each neuron: int64 (neurons,)."""
    low, high = (end(0, initial=0).astype(np.int64) for end in (rows.min, rows.max))
    return np.maximum(high, -low)


def into(plan: Plan, population: str, receptor: str) -> Iterator[SynapsePlan]:
    """Yield the synapses of all projections into a receptor."""
    for place, projection in enumerate(plan.projections):
        if (projection.target, projection.receptor) == (population, receptor) and projection.entries:
            yield plan.synapses[place]


def _chunks(synapses: SynapsePlan) -> Iterator[tuple[Array, Array, Array]]:
    """Yield targets, |weights| as int64 and delays of some synapses at a time."""
    entries = synapses.targets.size
    weights, delays = (np.broadcast_to(part, entries) for part in (synapses.weights, synapses.delays))
    for begin in range(0, entries, _CHUNK):
        some = slice(begin, begin + _CHUNK)
        yield synapses.targets[some], np.abs(weights[some].astype(np.int64)), delays[some].astype(np.int64)
