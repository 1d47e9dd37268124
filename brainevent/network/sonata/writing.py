# SPDX-License-Identifier: Apache-2.0
"""Write the spikes of a run as a file of SONATA."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError
from ...spikes.trains import Spikes
from .files import h5py_for

__all__ = ["Places", "ids_of", "mark", "write_sonata_spikes", "write_trains"]

Array = Any
Places = Mapping[str, tuple[str, Array]]  # by population: its population in SONATA, and the id of each neuron

_SORTING = {"none": 0, "by_id": 1, "by_time": 2}
_MAGIC, _VERSION = 0x0A7A, (0, 1)


def write_sonata_spikes(
    path: str | os.PathLike[str],
    spikes: Mapping[str, Any],
    *,
    nodes: Places | None = None,
    sorting: str = "by_time",
) -> None:
    """Write spikes as a file of SONATA, `/spikes/POPULATION/timestamps` and `node_ids`.

    The time of a spike is the end of its step, as in NEST: one step after `Spikes.times`, which has its beginning.

    Args:
        path: File to write; an existing one is replaced.
        spikes: What a run returned, of which all labels such as `"exc.spikes"` are written; or `Spikes` by the names of
            populations.
        nodes: For each population, the name of its population in the file, and the node id of each neuron; without
            them, these are its own name and the numbers of its neurons. `SonataNetwork.nodes` has those of a file.
        sorting: The order of the spikes: "by_time" or "by_id".

    Raises:
        NetworkError: There are no spikes, or a name or `sorting` is unknown.
        ImportError: h5py is not installed.

    Examples:
        >>> import pathlib, tempfile, brainevent as be
        >>> spikes = be.Spikes.from_events([1, 4], [0, 2], size=3, dt=0.5, n_steps=10)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "spikes.h5"
        >>> try:
        ...     be.write_sonata_spikes(path, {"exc": spikes})
        ... except ImportError:  # h5py is missing
        ...     path.touch()
        >>> path.exists()
        True
    """
    if sorting not in ("by_time", "by_id"):
        raise NetworkError(f"write_sonata_spikes: sorting is {sorting!r}; pass 'by_time' or 'by_id'")
    found = {name.removesuffix(".spikes"): one for name, one in spikes.items() if isinstance(one, Spikes)}
    if not found:
        raise NetworkError("write_sonata_spikes: there are no spikes; pass a result with record=['exc.spikes']")
    trains: dict[str, list[tuple[Array, Array]]] = {}
    for name, several in _by_population(found).items():
        if nodes is not None and name not in nodes:
            continue
        one = several[0]
        label, ids = ids_of("write_sonata_spikes", name, one.size, nodes)
        places = np.concatenate(
            [np.rint(each.times / one.dt).astype(np.int64) * one.size + each.neurons for each in several]
        )
        steps, neurons = np.divmod(np.unique(places) if len(several) > 1 else places, one.size)
        trains.setdefault(label, []).append(((steps + 1) * one.dt, ids[neurons]))
    if not trains:
        raise NetworkError(f"write_sonata_spikes: none of {', '.join(found)} is among nodes: {', '.join(nodes or ())}")
    write_trains("write_sonata_spikes", Path(path), trains, sorting)


def write_trains(
    where: str, path: Path, trains: Mapping[str, list[tuple[Array, Array]]], sorting: str = "by_time"
) -> None:
    """Write the spikes of populations of SONATA: times in ms and ids of nodes, in any order."""
    h5py = h5py_for(where)
    with h5py.File(path, "w") as file:
        mark(file)
        kind = h5py.enum_dtype(_SORTING, basetype="i")
        for label, parts in trains.items():
            times, ids = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
            order = np.lexsort((ids, times) if sorting == "by_time" else (times, ids))
            group = file.create_group(f"spikes/{label}")
            group.attrs.create("sorting", _SORTING[sorting], dtype=kind)
            group.create_dataset("timestamps", data=times[order]).attrs["units"] = "ms"
            group.create_dataset("node_ids", data=ids[order].astype(np.uint64))


def mark(file: Any) -> None:
    """Write that a file is one of SONATA."""
    file.attrs["magic"], file.attrs["version"] = np.uint32(_MAGIC), np.array(_VERSION, np.uint32)


def ids_of(where: str, name: str, size: int, nodes: Places | None, *, at_least: bool = False) -> tuple[str, Array]:
    """Return the population of SONATA and the ids of the neurons of a population, of which `size` are there."""
    if nodes is not None and name not in nodes:
        raise NetworkError(f"{where}: {name} is not among nodes: {', '.join(nodes)}")
    label, given = (name, np.arange(size)) if nodes is None else nodes[name]
    ids = np.asarray(given)
    if (ids.size < size) if at_least else (ids.size != size):
        raise NetworkError(f"{where}: {name} has {size} neurons, but nodes has {ids.size} ids")
    if ids.dtype.kind not in "iu" or ids.min(initial=0) < 0:
        raise NetworkError(f"{where}: nodes has ids of {name} that are no integers from 0 on")
    if "/" in label:
        raise NetworkError(
            f"{where}: {label} has a /, which names of HDF5 groups cannot have; pass another name: nodes="
        )
    return label, ids


def _by_population(found: Mapping[str, Spikes]) -> dict[str, list[Spikes]]:
    """Return spikes by the names of populations: those of a part, `exc[:10]`, have the numbers of its population."""
    result: dict[str, list[Spikes]] = {}
    for name, one in found.items():
        result.setdefault(name.partition("[")[0], []).append(one)
    return result
