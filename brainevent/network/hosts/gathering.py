# SPDX-License-Identifier: Apache-2.0
"""The state, and the recording, of a whole network, in each process, from what each of them has of its own neurons."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..plan.plan import Plan
from ..run.merging import merged
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState
from .processes import Processes
from .shares import Shares

__all__ = ["Parts", "whole_recording", "whole_state"]

Array = Any
Kinds = list[tuple[Any, tuple[int, ...]]]


@dataclass(frozen=True, eq=False)
class Parts:
    """A network and the processes that run it, each of which owns some neurons."""

    plan: Plan
    shares: Shares
    processes: Processes


def whole_state(parts: Parts, own: NetworkState) -> NetworkState:
    """Return the state of all processes; of neurons that others own, the own state may have anything."""
    plan, shares = parts.plan, parts.shares
    neurons = [array for p in plan.populations for array in own.neurons[p.name].values()]
    arriving = [rows for p in plan.populations for rows in own.arriving[p.name].values()]
    names = [p.name for p in plan.populations for _ in own.neurons[p.name]]
    names += [p.name for p in plan.populations for _ in own.arriving[p.name]]
    whole = [array.copy() for array in (*neurons, *arriving)]

    def cut(array: Array, name: str, number: int) -> Array:
        low, high = shares.of(number)[name]
        return array[..., low:high]

    def like(number: int) -> Kinds:
        pieces = [cut(array, name, number) for array, name in zip(whole, names, strict=True)]
        return [(piece.dtype, piece.shape) for piece in pieces]

    mine = [cut(array, name, shares.number) for array, name in zip(whole, names, strict=True)]
    for number, pieces in enumerate(parts.processes.arrays_of_all("state", mine, like)):
        for array, name, piece in zip(whole, names, pieces, strict=True):
            cut(array, name, number)[...] = piece
    left = iter(whole)
    groups = [
        {p.name: {key: next(left) for key in tree[p.name]} for p in plan.populations}
        for tree in (own.neurons, own.arriving)
    ]
    return NetworkState(own.step, groups[0], groups[1], plan.quanta)


def whole_recording(parts: Parts, own: Recorded, wanted: Wanted) -> Recorded:
    """Return what all processes recorded, in each of them, from what this one recorded of its neurons."""
    if not (wanted.spikes or wanted.counts or wanted.rates or wanted.samples):
        return own
    plan, shares = parts.plan, parts.shares
    owners = {label: shares.owners(s.population, s.neurons) for label, s in wanted.samples.items()}
    rates = [np.bincount(own.spikes[name][0] - own.first, minlength=own.steps).astype(np.int32) for name in own.spikes]
    rates += list(own.rates.values())
    ranges = [[shares.of(number)[name] for name in own.counts] for number in range(shares.count)]
    counts = [own.counts[name][slice(*shares.own[name])] for name in own.counts]
    samples = [own.samples[label][:, owners[label][shares.number]] for label in own.samples]

    def like(number: int) -> Kinds:
        kinds: Kinds = [(np.int32, (own.steps,)) for _ in rates]
        kinds += [(np.int32, (high - low,)) for low, high in ranges[number]]
        return kinds + [(own.samples[k].dtype, (len(own.samples[k]), owners[k][number].size)) for k in own.samples]

    found = parts.processes.arrays_of_all("run", [*rates, *counts, *samples], like)
    spikes = _spikes_of_all(parts, own, [arrays[: len(own.spikes)] for arrays in found])
    each = [
        Recorded(own.first, own.steps, some, {}, _named(own.rates, arrays[len(own.spikes) :]), {})
        for some, arrays in zip(spikes, found, strict=True)
    ]
    whole_counts = {name: np.zeros(plan.population(name).size, np.int32) for name in own.counts}
    whole_samples = {label: np.empty_like(array) for label, array in own.samples.items()}
    for number, arrays in enumerate(found):
        rest = arrays[len(rates) :]
        for (low, high), name, piece in zip(ranges[number], own.counts, rest, strict=False):
            whole_counts[name][low:high] = piece
        for label, piece in zip(own.samples, rest[len(own.counts) :], strict=True):
            whole_samples[label][:, owners[label][number]] = piece
    return dataclasses.replace(merged(each), counts=whole_counts, samples=whole_samples)


def _named(like: Any, arrays: list[Array]) -> dict[str, Array]:
    return dict(zip(like, arrays, strict=False))


def _spikes_of_all(parts: Parts, own: Recorded, rates: list[list[Array]]) -> list[dict[str, tuple[Array, Array]]]:
    """Return steps and neurons of the spikes of each process, given how many there are in each step."""
    if not own.spikes:
        return [{} for _ in rates]
    mine = [neurons for _, neurons in own.spikes.values()]
    found = parts.processes.arrays_of_all(
        "run", mine, lambda number: [(np.int32, (int(rate.sum()),)) for rate in rates[number]]
    )
    steps = np.arange(own.first, own.first + own.steps).astype(np.uint32)
    return [
        {name: (np.repeat(steps, rate), neurons) for name, rate, neurons in zip(own.spikes, some, arrays, strict=True)}
        for some, arrays in zip(rates, found, strict=True)
    ]
