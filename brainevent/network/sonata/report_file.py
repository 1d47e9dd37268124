# SPDX-License-Identifier: Apache-2.0
"""Write recorded states as a report of SONATA, and read such a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..run.neurons import Label
from ..run.recorded import Sample
from ..run.result import Result
from .files import dataset, decoded, h5py_for, integers, members, opened
from .writing import Places, ids_of, mark

__all__ = ["SonataReport", "read_sonata_report", "write_sonata_report"]

_NEAR = 1e-6  # of a step

Array = Any


@dataclass(frozen=True, eq=False, repr=False)
class SonataReport:
    """The traces of one population in a report of SONATA.

    Attributes:
        node_ids: Ids of the nodes: int64 (nodes,).
        times: Time of each sample in ms: float64 (samples,).
        values: A column for each node: (samples, nodes).
        units: Their unit.

    Examples:
        >>> import numpy as np, brainevent as be
        >>> be.SonataReport(np.array([7, 9]), np.array([0.1, 0.2]), np.zeros((2, 2)), "mV").values[:, 1]
        array([0., 0.])
    """

    node_ids: Array
    times: Array
    values: Array
    units: str

    def __repr__(self) -> str:
        when = f" from {self.times[0]:g} to {self.times[-1]:g} ms" if len(self.times) else ""
        return f"SonataReport({len(self.node_ids)} nodes, {len(self.times)} samples{when}, {self.units})"


def write_sonata_report(
    path: str | os.PathLike[str],
    result: Result,
    record: Label | Iterable[Label],
    *,
    nodes: Places | None = None,
    start: float = 0.0,
    stop: float | None = None,
) -> None:
    """Write states that a run recorded as a report of SONATA: `/report/POPULATION/data` and `mapping`.

    A sample has the time of the end of its step, as a spike has in `write_sonata_spikes`: one step after
    `Result.times`. The dataset `time` of the file has the time of the first sample, that after the last one, and the
    interval. All samples after `start` and until `stop` are written.

    Args:
        path: File to write; an existing one is replaced.
        result: What a run returned.
        record: Labels of states in it, such as `"exc.v"` or `["exc.v", "inh.v"]`, recorded at the same times.
        nodes: For each population, the name of its population in the file, and the node id of each neuron; without
            them, these are its own name and the numbers of its neurons. `SonataNetwork.nodes` has those of a file.
        start: Time in ms after which samples are written.
        stop: Time in ms until which samples are written; None for all.

    Raises:
        NetworkError: A label is no state, a neuron is there twice, labels have other times or units, or no sample is
            between `start` and `stop`.
        ImportError: h5py is not installed.

    Examples:
        >>> import pathlib, tempfile, brainevent as be
        >>> sim = be.Network([be.models.lif_current("exc", 2, current=500.0)], dt=0.1).build()
        >>> result = sim.run(50, record=be.every(5, "exc.v"))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "v.h5"
        >>> try:
        ...     be.write_sonata_report(path, result, "exc.v")
        ... except ImportError:  # h5py is missing
        ...     path.touch()
        >>> path.exists()
        True
    """
    if not isinstance(result, Result):
        raise NetworkError(f"write_sonata_report: result is {type(result).__name__}; pass what Simulation.run returned")
    labels = [record] if isinstance(record, (str, tuple)) else list(record)
    if not labels:
        raise NetworkError("write_sonata_report: record has no label; pass one such as 'exc.v'")
    requests = [_sampled(result, label) for label in labels]
    times, rows = _times(result, labels, start, stop)
    unit = requests[0][0].unit
    for request, _ in requests:
        if request.unit != unit:
            raise NetworkError(
                f"write_sonata_report: {requests[0][0].label} is in {unit or 'no unit'} and {request.label} in "
                f"{request.unit or 'no unit'}; write a file for each"
            )
    columns: dict[str, list[tuple[Array, Array]]] = {}
    for request, sample in requests:
        size = int(sample.neurons.max(initial=-1)) + 1
        label, ids = ids_of("write_sonata_report", sample.population, size, nodes, at_least=True)
        columns.setdefault(label, []).append((ids[sample.neurons], result[request.label]))
    joined = {label: _joined(label, parts) for label, parts in columns.items()}
    interval = requests[0][1].every * result.dt
    h5py = h5py_for("write_sonata_report")
    with h5py.File(Path(path), "w") as file:
        mark(file)
        for label, (ids, values) in joined.items():
            _write(file.create_group(f"report/{label}"), ids, values[rows], times[rows], interval, unit or "1")


def read_sonata_report(path: str | os.PathLike[str]) -> dict[str, SonataReport]:
    """Read a report of SONATA with one value for each node, as `write_sonata_report` and other simulators write it.

    Args:
        path: The file.

    Returns:
        The traces, by the name of the population.

    Raises:
        NetworkError: The file is not there, is no report, or has several values for a node, such as those of
            compartments.
        ImportError: h5py is not installed.

    Examples:
        >>> import brainevent as be
        >>> try:
        ...     be.read_sonata_report("v.h5")
        ... except (ImportError, be.NetworkError) as error:  # h5py or the file is missing
        ...     print("read_sonata_report" in str(error))
        True
    """
    where = "read_sonata_report"
    with opened(where, Path(path)) as file:
        found = members(where, file, "report")
        if "data" in file["report"]:  # files before SONATA 0.1
            raise NetworkError(f"{where}: {path} names no population: its data are in '/report'")
        return {name: _read(where, group) for name, group in found.items()}


def _sampled(result: Result, label: Label) -> tuple[Any, Sample]:
    """Return the request of a label, and what it samples."""
    result[label]  # raises, with the labels that there are
    request = next(one for one in result.requests if one.label == label or result[label] is result[one.label])
    if request.sample is None or request.sample.of_synapses:
        raise NetworkError(
            f"write_sonata_report: {request.label} is no state of neurons; record one, such as 'exc.v'; for spikes, "
            "there is write_sonata_spikes"
        )
    return request, request.sample


def _times(result: Result, labels: list[Label], start: float, stop: float | None) -> tuple[Array, slice]:
    """Return the times of all samples, and which of them are written."""
    end = np.inf if stop is None else stop
    if not (0 <= start < end):
        raise NetworkError(f"write_sonata_report: start is {start} and stop is {stop}; pass 0 <= start < stop, in ms")
    all_times = [(np.rint(result.times(label) / result.dt) + 1) * result.dt for label in labels]
    for label, times in zip(labels, all_times, strict=True):
        if not np.array_equal(times, all_times[0]):
            raise NetworkError(
                f"write_sonata_report: {labels[0]} and {label} were recorded at other times; write a file for each"
            )
    times, near = all_times[0], _NEAR * result.dt
    rows = slice(*np.searchsorted(times, [start + near, end + near]))
    if rows.start >= rows.stop:
        first_last = f"from {times[0]:g} to {times[-1]:g} ms" if times.size else "none"
        raise NetworkError(
            f"write_sonata_report: no sample is after {start:g} ms and until {end:g} ms; those of {labels[0]} are "
            f"{first_last}"
        )
    return times, rows


def _joined(label: str, parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return ids that rise, and the values of each."""
    ids = np.concatenate([one for one, _ in parts])
    values = parts[0][1] if len(parts) == 1 else np.concatenate([one for _, one in parts], axis=1)
    order = np.argsort(ids, kind="stable")
    if (twice := np.flatnonzero(np.diff(ids[order]) == 0)).size:
        raise NetworkError(f"write_sonata_report: node {ids[order][twice[0]]} of {label} is there twice")
    in_order = np.array_equal(order, np.arange(ids.size))
    return (ids, values) if in_order else (ids[order], values[:, order])


def _write(group: Any, ids: Array, values: Array, times: Array, interval: float, units: str) -> None:
    """Write the traces of one population; the only element of each node is its soma."""
    group.create_dataset("data", data=values).attrs["units"] = units
    mapping = group.create_group("mapping")
    mapping.create_dataset("node_ids", data=ids.astype(np.uint64)).attrs["sorted"] = np.uint8(1)
    mapping["index_pointers"] = np.arange(ids.size + 1, dtype=np.uint64)
    mapping["index_pointer"] = mapping["index_pointers"]  # the same dataset: bmtk has this name, libsonata the other
    mapping["element_ids"], mapping["element_pos"] = np.zeros(ids.size, np.uint32), np.zeros(ids.size, np.float32)
    time = np.array([times[0], times[0] + times.size * interval, interval])
    mapping.create_dataset("time", data=time).attrs["units"] = "ms"


def _read(where: str, group: Any) -> SonataReport:
    """Read the traces of one population."""
    file = group.file.filename
    for name in ("data", "mapping"):
        if name not in group:
            raise NetworkError(f"{where}: {file} has no '{group.name}/{name}'; is it a SONATA report?")
    mapping, data = group["mapping"], group["data"]
    pointers = integers(where, mapping, "index_pointers" if "index_pointers" in mapping else "index_pointer")
    ids = integers(where, mapping, "node_ids").astype(np.int64)
    if len(data.shape) != 2 or data.shape[1] != ids.size or not np.array_equal(pointers[: ids.size], range(ids.size)):
        raise NetworkError(
            f"{where}: {group.name} of {file} has data of the shape {data.shape} for {ids.size} nodes; only reports "
            "with one value for each node can be read"
        )
    begin, _, interval = dataset(where, mapping, "time")
    times = begin + np.arange(data.shape[0]) * interval
    return SonataReport(ids, times, data[()], str(decoded(data.attrs.get("units", ""))))
