# SPDX-License-Identifier: Apache-2.0
"""Write synapses as edges of SONATA: an HDF5 file with both indices, and types in csv."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.populations import Projection
from ..models.lif_current import lif_current_rule
from ..run.simulation import Simulation
from .described import Cells
from .files import h5py_for
from .node_files import FIRST_TYPE, write_table
from .writing import mark

__all__ = ["EDGES", "EDGE_TYPES", "Edges", "edges_of", "write_edges"]

EDGES, EDGE_TYPES = "edges.h5", "edge_types.csv"
_COLUMNS = ("edge_type_id", "model_template", "dynamics_params", "syn_weight", "delay")
_MOST_NODES = 2**27  # an index has a row for each node id

Array = Any


@dataclass(frozen=True, eq=False)
class Edges:
    """The synapses of one projection as edges.

    Attributes:
        name: Population of edges that has them.
        ends: Populations of nodes of their sources and targets.
        nodes: One more than the largest id in these.
        sources: Ids of their sources.
        targets: Ids of their targets.
        weights: Their weights, with the sign that SONATA gives them.
        delays: In ms.
        receptor: Their receptor_type; 0 if they have none.
        quanta: By receptor of the network that is read, what weights are multiples of.
    """

    name: str
    ends: tuple[str, str]
    nodes: tuple[int, int]
    sources: Array
    targets: Array
    weights: Array
    delays: Array
    receptor: int
    quanta: Mapping[str, float]


def edges_of(simulation: Simulation, populations: Mapping[str, Cells]) -> list[Edges]:
    """Return the synapses of all projections that have some; those into virtual nodes are spike trains."""
    network, found = simulation.network, []
    nodes: dict[str, int] = {}
    for cells in populations.values():
        nodes[cells.label] = max(nodes.get(cells.label, 0), int(cells.ids.max()) + 1)
    for name, projection in zip(network.projection_names, network.projections, strict=True):
        source, target = (populations.get(end.name) for end in projection.populations)
        if source is None or target is None or target.neuron is None:
            continue
        where = f"write_sonata: projection {name}"
        if projection.plasticity is not None:
            raise NetworkError(
                f"{where}: is plastic, and weights of SONATA do not change; write sim.network without plasticity, with "
                "the weights of sim.connections"
            )
        if len(synapses := simulation.connections(name)):
            weights, receptor, names = _delivered(where, projection, target, synapses.weights)
            quantum = float(simulation.engine.plan.population(target.name).quanta[projection.into])  # of weights of now
            found.append(
                Edges(
                    name=_label(name, projection, source, target),
                    ends=(source.label, target.label),
                    nodes=(nodes[source.label], nodes[target.label]),
                    sources=source.ids[synapses.sources],
                    targets=target.ids[synapses.targets],
                    weights=weights,
                    delays=synapses.delays,
                    receptor=receptor,
                    quanta={f"{target.name}.{one}": quantum for one in names},
                )
            )
    return found


def _label(name: str, projection: Projection, source: Cells, target: Cells) -> str:
    """Return the population of edges that a projection becomes: of `read_sonata`, the one from which it was made."""
    ends = f":{projection.source.name}->{projection.target.name}.{projection.into}"
    if projection.name is not None and name.endswith(ends):
        name = name.removesuffix(ends)
    elif projection.name is None:
        name = f"{source.label}_to_{target.label}"
    return name.replace("/", "_").strip(".") or "edges"


def _delivered(where: str, projection: Projection, target: Cells, weights: Array) -> tuple[Array, int, list[str]]:
    """Return weights as SONATA has them, the receptor type, and the receptors that a network from the file has."""
    neuron, into = target.neuron, projection.into
    assert neuron is not None
    if not neuron.receptors:
        return weights, int(into.removeprefix("syn")) + 1, [into]
    first, second = neuron.receptors
    low, high = float(weights.min()), float(weights.max())
    if first == second:
        return weights, 0, [first]
    if target.rule is lif_current_rule:
        return weights, 0, [one for one, there in ((first, high >= 0), (second, low < 0)) if there]
    negative = into == second and not neuron.positive
    if (high > 0) if negative else (low < 0):
        raise NetworkError(
            f"{where}: has weights into {into} that are {'positive' if negative else 'negative'}, but in SONATA the "
            f"sign decides whether {neuron.name} gets them as {first} or as {second}"
        )
    return -weights if into == second and neuron.positive else weights, 0, [into]


def write_edges(folder: Path, synapses: Path, edges: Iterable[Edges]) -> list[str]:
    """Write all edges, by population, and return the names of these; each projection has a type of its own."""
    groups: dict[tuple[str, tuple[str, str]], list[tuple[int, Edges]]] = {}
    for number, one in enumerate(edges, FIRST_TYPE):
        groups.setdefault((one.name, one.ends), []).append((number, one))
    rows, names = [], []
    with h5py_for("write_sonata").File(folder / EDGES, "w") as file:
        mark(file)
        for (name, _), parts in groups.items():
            free, count = name, 1
            while free in names:
                count += 1
                free = f"{name}_{count}"
            names.append(free)
            columns = {key: _columns([getattr(one, key) for _, one in parts]) for key in ("weights", "delays")}
            _write(file.create_group(f"edges/{free}"), parts, columns)
            for place, (number, one) in enumerate(parts):
                each = [
                    _text(key, found[place]) if isinstance(found, list) else "NULL" for key, found in columns.items()
                ]
                rows.append((number, "static_synapse", _receptor(synapses, one.receptor), *each))
    write_table(folder / EDGE_TYPES, _COLUMNS, rows)
    return names


def _columns(values: list[Array]) -> Array | list[float]:
    """Return the values of all edges, or a list of one number for each type."""
    if all((one == one[0]).all() for one in values):
        return [one[0] for one in values]
    return np.concatenate(values)


def _text(key: str, value: Any) -> str:
    """Return a number with few digits: delays are rounded to steps, and weights of float32 are read as such."""
    if key == "delays":
        return repr(float(f"{value:.12g}"))
    return str(value) if isinstance(value, np.float32) else repr(float(value))


def _receptor(folder: Path, receptor: int) -> str:
    """Write the parameters of synapses, and return the name of their file."""
    if not receptor:
        return "NULL"
    name = f"receptor_{receptor}.json"
    (folder / name).write_text(json.dumps({"receptor_type": receptor}))
    return name


def _write(group: Any, parts: list[tuple[int, Edges]], columns: Mapping[str, Any]) -> None:
    """Write one population of edges, in the order of their targets."""
    first = parts[0][1]
    sources, targets = (np.concatenate([getattr(one, key) for _, one in parts]) for key in ("sources", "targets"))
    order = np.argsort(targets, kind="stable")
    sources, targets = sources[order], targets[order]
    for key, label, ids in (("source", first.ends[0], sources), ("target", first.ends[1], targets)):
        group.create_dataset(f"{key}_node_id", data=ids.astype(np.uint64)).attrs["node_population"] = label
    types = np.repeat(np.array([number for number, _ in parts], np.uint32), [one.sources.size for _, one in parts])
    group["edge_type_id"] = types[order]
    group["edge_group_id"] = np.zeros(order.size, np.uint32)
    group["edge_group_index"] = np.arange(order.size, dtype=np.uint64)
    inner = group.create_group("0")
    for key, values in zip(("syn_weight", "delay"), columns.values(), strict=True):
        if not isinstance(values, list):
            inner[key] = values[order]
    if max(first.nodes) <= _MOST_NODES:
        for name, ids, nodes in zip(
            ("source_to_target", "target_to_source"), (sources, targets), first.nodes, strict=True
        ):
            _write_index(group.create_group(f"indices/{name}"), ids, nodes)


def _write_index(group: Any, ids: Array, nodes: int) -> None:
    """Write which edges each node has: edges in a row are a range, and each node has ranges that follow each other."""
    order = np.argsort(ids, kind="stable")
    of = ids[order]
    begins = np.flatnonzero(np.append(True, (np.diff(order) != 1) | (np.diff(of) != 0)))
    ends = np.append(begins[1:], order.size)
    group["range_to_edge_id"] = np.stack([order[begins], order[ends - 1] + 1], axis=1).astype(np.uint64)
    places = np.searchsorted(of[begins], np.arange(nodes + 1))
    group["node_id_to_ranges"] = np.stack([places[:-1], places[1:]], axis=1).astype(np.uint64)
    group["node_id_to_range"] = group["node_id_to_ranges"]  # the same dataset: bmtk has this name, libsonata the other
