# SPDX-License-Identifier: Apache-2.0
"""Spike trains of files drive virtual nodes: any number of spikes, as part of the network.

A clock has a neuron for each window of 256 steps, which spikes once, as the window begins. Each given spike is a
synapse from the clock to its node, with the delay from there: memory grows with the number of spikes, and not with the
length of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError
from ...event.matrices.coo import COO
from ...typing import ArrayLike, PyTree
from ..description.populations import Population, Projection
from ..models.spike_source import spike_source_rule
from .files import dataset, decoded, integers, members, opened, rows_of_table

__all__ = ["Trains", "clock", "driven_nodes", "read_trains", "replayed_rule", "several_rule", "steps_of_times"]

_WINDOW = 256  # steps
_LAST = 2**31 - 1  # of int32
_UNITS = {"ms": 1.0, "milliseconds": 1.0, "millisecond": 1.0, "s": 1000.0, "seconds": 1000.0, "second": 1000.0}
_NEAR = 1e-6  # of a step
_ROUNDED = {"float32": 2.0**-22, "float64": 2.0**-48}  # of a time, by the dtype in which a file has it

Array = Any
Trains = dict[str | None, tuple[Array, Array]]  # by population: times in ms, and ids of nodes; None where it is unknown


def read_trains(where: str, path: Path) -> Trains:
    """Read the spikes in a file of SONATA, or in a csv file."""
    if path.suffix in (".csv", ".txt", ".dat"):
        return _from_csv(where, path)
    with opened(where, path) as file:
        if "spikes" not in file:
            raise NetworkError(f"{where}: {path} has no group '/spikes'; is it a SONATA file of spikes?")
        group = file["spikes"]
        if "timestamps" in group:  # files before SONATA 0.1
            return {None: _of_group(where, path, group, "gids" if "gids" in group else "node_ids")}
        groups = members(where, file, "spikes")
        return {name: _of_group(where, path, one, "node_ids") for name, one in groups.items()}


def _of_group(where: str, path: Path, group: Any, ids: str) -> tuple[Array, Array]:
    """Return the times in ms and the ids of the spikes in a group."""
    times = dataset(where, group, "timestamps")
    units = decoded(group["timestamps"].attrs.get("units", "ms"))
    if units not in _UNITS:
        raise NetworkError(f"{where}: {path}: timestamps of {group.name} are in {units!r}; it must be ms or s")
    return _checked(where, path, times * _UNITS[units], integers(where, group, ids))


def _from_csv(where: str, path: Path) -> Trains:
    """Read a csv file: a spike in each row, by its columns; or, in old files, all spikes of a node."""
    rows = rows_of_table(where, path)
    head = rows[0] if rows else []
    try:
        if head[:2] == ["gid", "spike-times"]:
            trains = [(int(row[0]), [float(t) for t in ",".join(row[1:]).split(",") if t]) for row in rows[1:]]
            ids = np.repeat([gid for gid, _ in trains], [len(times) for _, times in trains]).astype(np.int64)
            return {None: _checked(where, path, np.array([t for _, times in trains for t in times], float), ids)}
        if not {"timestamps", "node_ids"} <= set(head):
            raise NetworkError(f"{where}: {path} has the columns {head}; it must have timestamps and node_ids")
        times = np.array([float(row[head.index("timestamps")]) for row in rows[1:]])
        ids = np.array([int(row[head.index("node_ids")]) for row in rows[1:]], np.int64)
    except (ValueError, IndexError) as error:
        raise NetworkError(f"{where}: {path}: a row is no spike: {error}") from None
    if "population" not in head:
        return {None: _checked(where, path, times, ids)}
    names = np.array([row[head.index("population")] for row in rows[1:]], object)
    return {str(name): _checked(where, path, times[names == name], ids[names == name]) for name in set(names)}


def _checked(where: str, path: Path, times: Array, ids: Array) -> tuple[Array, Array]:
    times, ids = np.asarray(times), np.asarray(ids).astype(np.int64)
    times = times if times.dtype == np.float32 else times.astype(np.float64)
    if times.size != ids.size:
        raise NetworkError(f"{where}: {path} has {times.size} timestamps and {ids.size} node_ids")
    wrong = ~(np.isfinite(times) & (times >= 0))
    if wrong.any():
        raise NetworkError(f"{where}: {path}: spike {int(np.argmax(wrong))} is at {times[wrong][0]} ms; 0 or later")
    return times, ids


def steps_of_times(where: str, times: Array, dt: float) -> Array:
    """Return the step in which each time is; its end belongs to it, as far as the dtype of the times tells."""
    steps = times.astype(np.float64) / dt
    whole = np.rint(steps)
    near = np.abs(steps - whole) <= _NEAR + _ROUNDED[str(times.dtype)] * steps
    steps = np.maximum(np.where(near, whole, np.ceil(steps)) - 1, 0)
    if steps.size and steps.max() >= _LAST:
        raise NetworkError(f"{where}: a spike is at {times.max():g} ms; it must be before {_LAST * dt:g} ms")
    return steps.astype(np.int64)


def driven_nodes(
    name: str, at: Mapping[str, Array], size: int, steps: Array, nodes: Array
) -> tuple[Population, tuple[Array, ...]]:
    """Return virtual nodes, and their spikes after the first step: windows, nodes, delays in steps, and counts."""
    places, counts = np.unique(steps * size + nodes, return_counts=True)
    steps, nodes = places // size, places % size
    begin = np.zeros(size)
    begin[nodes[steps == 0]] = counts[steps == 0]
    later = steps > 0
    windows = (steps[later] - 1) // _WINDOW
    spikes = (windows, nodes[later], steps[later] - windows * _WINDOW, counts[later])
    value_range = None if counts.max(initial=1) == 1 else (0.0, float(counts.max()))
    rule = replayed_rule if value_range is None else several_rule
    population = Population(
        name, size, rule, {"begin": begin}, units={"spikes": "1", "begin": "1"}, value_range=value_range, at=at
    )
    return population, spikes


def clock(name: str, driven: Mapping[str, tuple[Population, tuple[Array, ...]]], dt: float) -> list[Any]:
    """Return the clock of virtual nodes, and its projections; nothing if no node spikes after the first step."""
    trains = {one: found for one, found in driven.items() if found[1][0].size}
    if not trains:
        return []
    size = 1 + max(int(spikes[0].max()) for _, spikes in trains.values())
    at = np.arange(size, dtype=np.int64) * _WINDOW
    source = Population(name, size, spike_source_rule, {"step": 0}, {"dt": dt, "at0": at.astype(np.int32)})
    result: list[Any] = [source]
    for population, (windows, nodes, delays, counts) in trains.values():
        data = np.asarray(counts[:1] if (counts == counts[0]).all() else counts, np.float32)
        matrix = COO(data, windows.astype(np.int32), nodes.astype(np.int32), shape=(size, population.size))
        result.append(Projection(source, population, matrix, "spikes", delays * dt, name=f"{name}->{population.name}"))
    return result


def replayed_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Let a node spike where its train has a spike; `begin` is that of the first step."""
    return s.replace(begin=0.0), arriving.spikes + s.begin > 0


def several_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, PyTree]:
    """Let a node spike where its train has spikes: several in one step count as so many."""
    count = arriving.spikes + s.begin
    return s.replace(begin=0.0), {"spike": count > 0, "value": count}
