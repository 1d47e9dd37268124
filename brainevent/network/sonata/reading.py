# SPDX-License-Identifier: Apache-2.0
"""`read_sonata`: a network from files of SONATA, with its inputs, reports, duration and time step."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.network import Network
from ..description.populations import Projection
from .config import Config, read_config, read_json
from .currents import Clamp, clamped, clamps_of
from .edges import read_edges
from .files import h5py_for, members, opened
from .network import SonataNetwork
from .node_sets import chosen_nodes
from .nodes import Nodes, Part, read_nodes
from .reports import Report, read_report
from .spike_trains import clock, driven_nodes, read_trains, steps_of_times

__all__ = ["read_sonata"]

Array = Any

_CLOCK = "spike_times"
_SPIKE_MODULES = ("h5", "sonata", "csv", "synapse_replay", None)


def read_sonata(config: str | os.PathLike[str], *, dt: float | None = None) -> SonataNetwork:
    """Read a network of point neurons from files of SONATA.

    Args:
        config: Path of the config of a simulation or of a circuit, a JSON file.
        dt: Time step in ms; None takes that of the config, or 0.1 if it has none.

    Returns:
        The network, with its inputs, reports and duration.

    Raises:
        NetworkError: Something is missing or cannot be read; the message names the file, the group, the attribute or
            the type.
        ImportError: h5py is not installed.

    Examples:
        >>> import brainevent as be
        >>> try:
        ...     model = be.read_sonata("simulation_config.json")
        ... except (ImportError, be.errors.NetworkError) as error:  # h5py or the file is missing
        ...     print("read_sonata" in str(error))
        True
    """
    h5py_for("read_sonata")
    found = read_config(config)
    duration, step = _run(found, dt)
    with contextlib.ExitStack() as files:
        return _Reader(found, step, duration, files).network()


def _run(config: Config, dt: float | None) -> tuple[float | None, float]:
    """Return the duration and the time step."""
    run = config.section("run")
    where = f"read_sonata: {config.path}"
    if run.get("tstart"):
        raise NetworkError(f"{where}: run: tstart is {run['tstart']}; only runs that begin at 0 can be read")
    simulator = config.content.get("target_simulator")
    if simulator is not None and str(simulator).upper() != "NEST":
        raise NetworkError(
            f"{where}: target_simulator is {simulator!r}; only point neurons of NEST can be read, whose weights and "
            "currents are in pA, mV or nS"
        )
    duration, step = run.get("tstop", run.get("duration")), run.get("dt", 0.1) if dt is None else dt
    for name, value in (("tstop", duration), ("dt", step)):
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < np.inf):
            raise NetworkError(f"{where}: {name} is {value!r}; it must be a positive number of ms")
    return None if duration is None else float(duration), float(step)


class _Reader:
    """Reads the parts of one network while its files are open."""

    def __init__(self, config: Config, dt: float, duration: float | None, files: contextlib.ExitStack):
        self.config, self.dt, self.duration, self.files = config, dt, duration, files
        self.nodes: dict[str, Nodes] = {}
        self.parameters: dict[Path, dict[str, Any]] = {}

    def network(self) -> SonataNetwork:
        """Read everything."""
        for name, group, types in self._groups("nodes"):
            if name in self.nodes:
                raise NetworkError(f"nodes {name}: two files of the config have this population")
            self.nodes[name] = read_nodes(group, name, types, self.dt, self._neuron_parameters)
        if not self.nodes:
            raise NetworkError(f"read_sonata: {self.config.path}: networks has no nodes")
        self._check_all_simulated()
        trains, clamps = self._inputs()
        parts = {part.name: (nodes, part) for nodes in self.nodes.values() for part in nodes.parts}
        driven = {
            name: driven_nodes(name, part.at, part.nodes.size, *self._spikes_of(nodes, part, trains))
            for name, (nodes, part) in parts.items()
            if part.neuron is None
        }
        made = {
            name: driven[name][0]
            if part.population is None
            else clamped(part.population, clamps.get(name, []), self.dt)
            for name, (_, part) in parts.items()
        }
        projections: list[Projection] = []
        for name, group, types in self._groups("edges"):
            projections += read_edges(group, name, types, self.nodes, made, self._synapse_parameters)
        called = _CLOCK
        while called in made:
            called += "_"
        timed = clock(called, driven, self.dt)
        populations = [*made.values(), *timed[:1]]
        places = {name: (nodes.name, nodes.ids[part.nodes]) for name, (nodes, part) in parts.items()}
        network = Network(tuple(populations), (*projections, *timed[1:]), dt=self.dt)
        return SonataNetwork(network, places, self.duration, self._reports(), self._quanta())

    def _groups(self, kind: str) -> list[tuple[str, Any, Path | None]]:
        """Return the populations of nodes or edges: name, group, and the path of their types."""
        networks = self.config.section("networks")
        entries = networks.get(kind) or []
        one = kind[:-1]
        found = []
        where = f"networks: {kind}"
        if not (isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)):
            raise NetworkError(f"{where} is {entries!r}; it must be a list of objects with {kind}_file")
        for entry in entries:
            path = self.config.file("networks", entry.get(f"{kind}_file"), f"{where}: {kind}_file")
            types = entry.get(f"{one}_types_file")
            types = None if types in (None, "", "NULL") else self.config.file("networks", types, f"{where}: types")
            file = self.files.enter_context(opened(where, path))
            found += [(name, group, types) for name, group in members(where, file, kind).items()]
        return found

    def _neuron_parameters(self, where: str, name: str) -> dict[str, Any]:
        return self._parameters(where, name, "point_neuron_models_dir")

    def _synapse_parameters(self, where: str, name: str) -> dict[str, Any]:
        return self._parameters(where, name, "synaptic_models_dir")

    def _parameters(self, where: str, name: str, folder: str) -> dict[str, Any]:
        """Return the content of a file of parameters, in a folder of the components."""
        components = self.config.section("components")
        if folder in components:
            path = self.config.file("components", components[folder], folder) / name
        else:
            path = self.config.path.parent / name
        if path not in self.parameters:
            if not path.is_file():
                hint = "" if folder in components else f"; the config has no components: {folder}"
                raise NetworkError(f"{where}: its dynamics_params are in {path}, which does not exist{hint}")
            self.parameters[path] = read_json(where, path)
        return self.parameters[path]

    def _quanta(self) -> dict[str, float]:
        """Return the quanta with which `write_sonata` wrote the weights."""
        given = self.config.section("brainevent").get("quanta", {})
        if not isinstance(given, dict) or not all(isinstance(one, float) for one in given.values()):
            raise NetworkError(
                f"read_sonata: {self.config.path}: brainevent: quanta is {given!r}; it must be an object of numbers"
            )
        return given

    def _reports(self) -> dict[str, Report]:
        found: dict[str, Report] = {}
        files: dict[str, str] = {}
        for name, given in self.config.section("reports").items():
            where = f"reports {name}"
            if not isinstance(given, dict):
                raise NetworkError(f"{where} is {given!r}; it must be an object with variable_name")
            if not given.get("enabled", True):
                continue
            masks = self._masks(where, {"node_set": given.get("cells", "all")})
            report = found[name] = read_report(name, given, masks, self.nodes, self.dt, self.duration)
            if (other := files.setdefault(report.file, name)) != name:
                raise NetworkError(f"{where}: its file is {report.file}, as that of {other}; give it a file_name")
        return found

    # ---- inputs

    def _sets(self) -> Mapping[str, Any]:
        named = self.config.content.get("node_sets_file")
        sets = (
            {} if named is None else read_json("node sets", self.config.file("node_sets_file", named, "node_sets_file"))
        )
        inside = self.config.content.get("node_sets") or {}
        if isinstance(inside, str):
            inside = read_json("node sets", self.config.file("node_sets", inside, "node_sets"))
        if not isinstance(inside, dict):
            raise NetworkError(f"read_sonata: {self.config.path}: node_sets is {inside!r}; it must be an object")
        return {**sets, **inside}

    def _check_all_simulated(self) -> None:
        """Raise if the config simulates a part of the nodes."""
        if (given := self.config.content.get("node_set")) is None:
            return
        masks = chosen_nodes("read_sonata: node_set", given, self._sets(), self.nodes)
        for name, nodes in self.nodes.items():
            points = np.concatenate([part.nodes for part in nodes.parts if part.neuron] or [np.empty(0, int)])
            if points.size and not masks.get(name, np.zeros(nodes.ids.size, bool))[points].all():
                raise NetworkError(
                    f"read_sonata: {self.config.path}: node_set {given!r} leaves out nodes of {name}; only the whole "
                    "circuit can be read"
                )

    def _inputs(self) -> tuple[list[tuple[str, Array, Array]], dict[str, list[tuple[Clamp, Array]]]]:
        """Return spikes of nodes, by population of SONATA, and currents, by population of the network."""
        trains: list[tuple[str, Array, Array]] = []
        clamps: dict[str, list[tuple[Clamp, Array]]] = {}
        for name, given in self.config.section("inputs").items():
            where = f"inputs {name}"
            if not isinstance(given, dict):
                raise NetworkError(f"{where} is {given!r}; it must be an object with input_type")
            kind = given.get("input_type")
            if not given.get("enabled", True):
                continue
            if kind == "spikes":
                trains += self._trains(where, given)
            elif kind in ("current_clamp", "current") and given.get("module") in ("IClamp", None):
                self._add_clamps(where, given, clamps)
            else:
                raise NetworkError(
                    f"{where}: input_type {kind!r} with module {given.get('module')!r} cannot be read; those that can "
                    "are spikes, and current_clamp with IClamp"
                )
        return trains, clamps

    def _masks(self, where: str, given: Mapping[str, Any]) -> dict[str, Array]:
        wanted = given.get("node_set", "all")
        masks = chosen_nodes(where, wanted, self._sets(), self.nodes)
        if not masks:
            raise NetworkError(f"{where}: no node is in the node set {wanted!r}")
        return masks

    def _trains(self, where: str, given: Mapping[str, Any]) -> list[tuple[str, Array, Array]]:
        """Return spikes by population: those of nodes of the node set."""
        if given.get("module") not in _SPIKE_MODULES:
            raise NetworkError(f"{where}: module {given['module']!r} cannot be read; those that can: h5, sonata, csv")
        path = self.config.file("inputs", given.get("input_file", given.get("spike_file")), f"{where}: input_file")
        masks, found = self._masks(where, given), []
        for name, (times, ids) in read_trains(where, path).items():
            if name is None and len(masks) > 1:
                raise NetworkError(
                    f"{where}: {path} does not name a population, and node_set has several: {list(masks)}"
                )
            population = next(iter(masks)) if name is None else name
            if population not in self.nodes:
                raise NetworkError(
                    f"{where}: {path} has spikes of {population!r}; populations: {', '.join(self.nodes)}"
                )
            places = self.nodes[population].places(f"{where}: {path}", ids)
            if population in masks:
                kept = masks[population][places]
                found.append((population, times[kept], places[kept]))
        if not found:
            raise NetworkError(f"{where}: {path} has no spikes of {', '.join(masks)}")
        for population, _, places in found:
            nodes = self.nodes[population]
            for one in np.unique(nodes.part[places]):
                if nodes.parts[one].neuron is not None:
                    raise NetworkError(
                        f"{where}: {path} has spikes of nodes of {population} that are {nodes.parts[one].name}; only "
                        "virtual nodes can be driven by spikes"
                    )
        return found

    def _add_clamps(self, where: str, given: Mapping[str, Any], clamps: dict[str, list[tuple[Clamp, Array]]]) -> None:
        if "input_file" in given:
            raise NetworkError(f"{where}: input_file cannot be read; give amp, delay and duration")
        for population, mask in self._masks(where, given).items():
            for part in self.nodes[population].parts:
                if not (chosen := mask[part.nodes]).any():
                    continue
                if part.neuron is None:
                    raise NetworkError(f"{where}: nodes of {part.name} are virtual; a current needs point neurons")
                clamps.setdefault(part.name, []).extend((clamp, chosen) for clamp in clamps_of(where, given))

    def _spikes_of(self, nodes: Nodes, part: Part, trains: list[tuple[str, Array, Array]]) -> tuple[Array, Array]:
        """Return the steps and the neurons of the given spikes of a population."""
        place = nodes.parts.index(part)
        steps, neurons = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for name, times, places in trains:
            if name == nodes.name:
                own = nodes.part[places] == place
                steps.append(steps_of_times(f"spikes of {name}", times[own], self.dt))
                neurons.append(nodes.within[places[own]].astype(np.int64))
        return np.concatenate(steps), np.concatenate(neurons)
