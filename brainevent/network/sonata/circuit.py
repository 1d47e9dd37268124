# SPDX-License-Identifier: Apache-2.0
"""`write_sonata`: a network as the files of a SONATA circuit and simulation, which `read_sonata` reads again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.checks import is_number
from ..description.network import Network
from ..run.simulation import Simulation
from .described import Cells, cells_of
from .edge_files import EDGE_TYPES, EDGES, Edges, edges_of, write_edges
from .files import h5py_for
from .network import SonataNetwork
from .node_files import NODE_TYPES, NODES, file_name, write_nodes
from .reports import Report
from .writing import Places, write_trains

__all__ = ["write_sonata"]

CIRCUIT, SIMULATION, NODE_SETS, SPIKES = "circuit_config.json", "simulation_config.json", "node_sets.json", "inputs.h5"
_MODELS, _SYNAPSES = "point_neuron_models", "synaptic_models"

Array = Any


def write_sonata(
    network: Network | Simulation | SonataNetwork,
    folder: str | os.PathLike[str],
    *,
    duration: float | None = None,
    nodes: Places | None = None,
    seed: int = 0,
) -> Path:
    """Write a network as files of SONATA: nodes, edges, their types, parameters, inputs, and configs.

    `read_sonata` of the config that is returned makes a network with the same spikes. Populations of `read_sonata` can
    be written, `be.models.lif_delta`, `lif_exponential` and `lif_current`, with currents of `step_current`; and as
    virtual nodes `spike_source` and `relay`. Synapses, weights, delays and initial potentials that are described are
    drawn first. Attributes (`at=`) become attributes of the nodes; x, y and z with a declared unit are written in um.

    Args:
        network: A network; a simulation of one, whose parameters and weights of now are written, with the states of its
            start; or what `read_sonata` returned.
        folder: Where to write; it must not exist, or be empty.
        duration: How long the config runs, in ms; None takes that of a `SonataNetwork`, else the config has none.
        nodes: For each population, the name of its population in the files, and the node id of each neuron; without
            them, these are its own name and the numbers of its neurons, or those of a `SonataNetwork`.
        seed: With which the synapses and values of a network are drawn.

    Returns:
        The path of the config of the simulation, which names all others.

    Raises:
        NetworkError: SONATA cannot represent a population, a projection or a coupling; the message names it, and
            nothing is written. Or there are files in the folder.
        ImportError: h5py is not installed.

    Examples:
        >>> import pathlib, tempfile, brainevent as be
        >>> exc = be.models.lif_current("exc", 20, current=500.0)
        >>> synapses = be.Projection(exc, exc, be.connect.prob(0.1, weight=5.0), into="syn", delay=1.5)
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "circuit"
        >>> try:
        ...     config = be.write_sonata(be.Network([exc], [synapses]), folder, duration=100.0)
        ... except ImportError:  # h5py is missing
        ...     config = folder / "simulation_config.json"
        >>> config.name
        'simulation_config.json'
    """
    where = "write_sonata"
    reports: Mapping[str, Report] = {}
    if isinstance(network, SonataNetwork):
        reports, duration = network.reports, network.duration if duration is None else duration
        nodes = network.nodes if nodes is None else nodes
    built: Any = network
    if isinstance(network, (Network, SonataNetwork)):
        built = network.build(seed, backend="interpreted")
    if not isinstance(built, Simulation) or built.network is None:
        raise NetworkError(
            f"{where}: network is {network!r}; pass a Network, a Simulation, or what read_sonata returned"
        )
    if duration is not None and not (is_number(duration) and 0 < duration < np.inf):
        raise NetworkError(f"{where}: duration is {duration!r}; pass a positive number of ms")
    for name in built.network.coupling_names:
        raise NetworkError(f"{where}: coupling {name} carries a state, which SONATA has no synapses for")
    h5py_for(where)
    populations = cells_of(built, nodes)
    edges = edges_of(built, populations)
    top = _empty(Path(folder))
    for inner in (_MODELS, _SYNAPSES):
        (top / inner).mkdir()
    write_nodes(top, top / _MODELS, populations.values())
    names = write_edges(top, top / _SYNAPSES, edges) if edges else []
    _write_json(top / CIRCUIT, _circuit(populations.values(), names))
    sets = _NodeSets(populations.values())
    config = _simulation(built, duration, edges) | {"inputs": _inputs(top, populations.values(), sets, built.plan.dt)}
    config |= {"reports": _reports(reports, populations, sets, built.plan.dt)}
    _write_json(top / SIMULATION, config)
    (top / NODE_SETS).write_text(json.dumps(sets.all))  # with all ids in one line
    return top / SIMULATION


def _empty(folder: Path) -> Path:
    """Return a folder without files, which is made if it is not there."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise NetworkError(f"write_sonata: {folder} is there already, and not an empty folder; pass another one")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def _circuit(populations: Iterable[Cells], edges: Iterable[str]) -> dict[str, Any]:
    """Return the config of the circuit; libsonata wants the names of populations, with their types."""
    kinds = {cells.label: {"type": "virtual"} for cells in populations if cells.neuron is None}
    kinds |= {cells.label: {"type": "point_neuron"} for cells in populations if cells.neuron is not None}
    nodes: dict[str, Any] = {"nodes_file": NODES, "node_types_file": NODE_TYPES, "populations": kinds}
    synapses: dict[str, Any] = {"edges_file": EDGES, "edge_types_file": EDGE_TYPES}
    synapses["populations"] = {name: {"type": "chemical"} for name in edges}
    return {
        "components": {"point_neuron_models_dir": _MODELS, "synaptic_models_dir": _SYNAPSES},
        "networks": {"nodes": [nodes], "edges": [synapses] if synapses["populations"] else []},
    }


def _simulation(simulation: Simulation, duration: float | None, edges: Iterable[Edges]) -> dict[str, Any]:
    """Return the config of the simulation, without inputs and reports."""
    end = {} if duration is None else {"tstop": float(duration)}
    quanta = {name: quantum for one in edges for name, quantum in one.quanta.items()}
    return {
        "network": CIRCUIT,
        "node_sets_file": NODE_SETS,
        "target_simulator": "NEST",
        "run": {**end, "dt": simulation.plan.dt, "random_seed": simulation.plan.seed},
        "output": {"output_dir": "output", "spikes_file": "spikes.h5"},
        "brainevent": {"quanta": quanta},
    }


class _NodeSets:
    """Names sets of nodes, each of neurons of one population, or a list of such sets."""

    def __init__(self, populations: Iterable[Cells]):
        self.all: dict[str, Any] = {}
        self.populations = list(populations)

    def of(self, cells: Cells, mask: Array | None = None) -> str:
        """Return the name of a set of neurons of a population; all without a mask."""
        given: dict[str, Any] = {"population": cells.label}
        every = mask is None or bool(mask.all())
        if not every or sum(one.label == cells.label for one in self.populations) > 1:
            given["node_id"] = cells.ids[... if mask is None else mask].tolist()
        return self.named(file_name(cells.name) + ("" if every else "_part"), given)

    def named(self, name: str, given: Any) -> str:
        """Return the name of a set, which may have a number at its end."""
        number, free = 1, name
        while self.all.get(free, given) != given:
            number += 1
            free = f"{name}_{number}"
        self.all[free] = given
        return free


def _inputs(folder: Path, populations: Iterable[Cells], sets: _NodeSets, dt: float) -> dict[str, Any]:
    """Return the inputs of the config, and write their spikes."""
    inputs: dict[str, Any] = {}
    trains: dict[str, list[tuple[Array, Array]]] = {}
    for cells in populations:
        steps, neurons = cells.train
        if steps.size:
            trains.setdefault(cells.label, []).append(((steps + 1) * dt, cells.ids[neurons]))
            one = {"input_type": "spikes", "module": "h5", "input_file": SPIKES, "node_set": sets.of(cells)}
            inputs[f"spikes_{len(inputs)}"] = one
        for (amp, start, stop), mask in cells.clamps:
            one = {"input_type": "current_clamp", "module": "IClamp", "node_set": sets.of(cells, mask)}
            inputs[f"clamp_{len(inputs)}"] = one | {"amp": amp, "delay": start, "duration": stop - start}
    if trains:
        write_trains("write_sonata", folder / SPIKES, trains)
    return inputs


def _reports(
    reports: Mapping[str, Report], populations: Mapping[str, Cells], sets: _NodeSets, dt: float
) -> dict[str, Any]:
    """Return the reports of the config."""
    found = {}
    for name, report in reports.items():
        cells, variable = [], ""
        steps: Any = 1
        for request in report.record:
            population, _, state = request.what.rpartition(".")
            one = populations[population]
            mask = np.zeros(one.ids.size, bool)
            chosen_neurons: Any = slice(None) if request.neurons is None else request.neurons
            mask[chosen_neurons] = True
            cells.append(sets.of(one, mask))
            variable, steps = "V_m" if state == "v" else state, request.steps
        chosen = cells[0] if len(cells) == 1 else sets.named(f"report_{file_name(name)}", cells)
        found[name] = {"module": "membrane_report", "variable_name": variable, "cells": chosen, "dt": steps * dt}
        found[name] |= {"sections": "soma", "file_name": report.file, "start_time": report.start}
        found[name] |= {} if report.stop is None else {"end_time": report.stop}
    return found
