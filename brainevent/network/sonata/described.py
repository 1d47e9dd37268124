# SPDX-License-Identifier: Apache-2.0
"""Populations of a simulation as nodes of SONATA: their models, spike trains and currents; what cannot be is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.exact import exact_value
from ..description.populations import Population
from ..description.units import Undeclared, factor, unit_of
from ..models.drive import Drive, drives_of
from ..models.spike_source import relay_rule, spike_source_rule
from ..run.simulation import Simulation
from ..state import begun_state
from .currents import Clamp
from .neurons.parameters import NestNeuron, Values
from .neurons.solved import READY, RULE_NAMES, neuron_of, solved_values
from .neurons.table import NEURONS
from .spike_trains import replayed_rule, several_rule
from .writing import Places, ids_of

__all__ = ["Cells", "cells_of"]

_RELAYS = (relay_rule, replayed_rule, several_rule)
_MOST_CLAMPS = 256  # of a population: each is an input of the config

Array = Any
Train = tuple[Array, Array]  # steps and neurons of all spikes, int64


@dataclass(frozen=True, eq=False)
class Cells:
    """A population as nodes.

    Attributes:
        name: Its name.
        label: The population of SONATA that has them.
        ids: Ids of the nodes: int (neurons,).
        rule: Its rule, without currents that were added.
        neuron: Their model; None if they are virtual.
        values: Parameters of the model: (neurons,), or (neurons, elements) of lists.
        at: Their attributes: float32 (neurons,).
        clamps: Currents into some of them, each with a mask (neurons,).
        train: Spikes of virtual nodes.
    """

    name: str
    label: str
    ids: Array
    rule: Any
    neuron: NestNeuron | None
    values: Values
    at: Mapping[str, Array]
    clamps: tuple[tuple[Clamp, Array], ...] = ()
    train: Train = field(default_factory=lambda: (np.empty(0, np.int64), np.empty(0, np.int64)))


def cells_of(simulation: Simulation, places: Places | None) -> dict[str, Cells]:
    """Return the populations as nodes, by name, without clocks of virtual nodes."""
    network = simulation.network
    reader = _Described(simulation, places)
    found = {one.name: reader.cells(one) for one in network.populations if not reader.is_clock(one)}
    models: dict[tuple[str, str], str] = {}
    for cells in found.values():
        model = "virtual" if cells.neuron is None else cells.neuron.name
        if (other := models.setdefault((cells.label, model), cells.name)) != cells.name:
            raise NetworkError(
                f"write_sonata: {other} and {cells.name} are both {model} in the population {cells.label} of SONATA, "
                "and would be read as one; give them populations of their own: nodes="
            )
    for label in {cells.label for cells in found.values()}:
        _check_different(label, [cells for cells in found.values() if cells.label == label])
    return found


def _check_different(label: str, parts: list[Cells]) -> None:
    """Raise if populations have the same node of one population of SONATA."""
    ids = np.concatenate([cells.ids for cells in parts])
    of = np.repeat(np.arange(len(parts)), [cells.ids.size for cells in parts])
    order = np.argsort(ids, kind="stable")
    if (twice := np.flatnonzero(np.diff(ids[order]) == 0)).size:
        first, second = (parts[of[order[twice[0] + k]]].name for k in (0, 1))
        raise NetworkError(
            f"write_sonata: nodes: node {ids[order[twice[0]]]} of {label} is there twice: in {first} and in {second}"
        )


class _Described:
    """Describes populations of one simulation."""

    def __init__(self, simulation: Simulation, places: Places | None):
        self.simulation, self.places = simulation, places
        self.network, self.dt = simulation.network, simulation.plan.dt
        self.params, self.state = simulation.params, begun_state(simulation.plan).neurons
        self.into: dict[str, list[str]] = {one.name: [] for one in self.network.populations}
        self.out_of: dict[str, list[Population]] = {one.name: [] for one in self.network.populations}
        for name, link in zip(self.network.projection_names, self.network.projections, strict=True):
            source, target = link.populations
            self.into[target.name].append(name)
            self.out_of[source.name].append(target)
        self.by_name = dict(zip(self.network.projection_names, self.network.projections, strict=True))

    def is_clock(self, one: Population) -> bool:
        """Say whether a population only lets virtual nodes of `read_sonata` spike."""
        targets = self.out_of[one.name]
        rules = [drives_of(target.rule)[0] for target in targets]
        return one.rule is spike_source_rule and bool(rules) and all(rule in _RELAYS[1:] for rule in rules)

    def cells(self, one: Population) -> Cells:
        """Return a population as nodes."""
        where = f"write_sonata: population {one.name}"
        label, ids = ids_of("write_sonata", one.name, one.size, self.places)
        rule, drives = drives_of(one.rule)
        at = {key: _placed(where, one, key, numbers) for key, numbers in self.simulation.at(one.name).items()}
        if rule is spike_source_rule or any(rule is relay for relay in _RELAYS):
            if drives:
                raise NetworkError(
                    f"{where}: has {drives[0].kind}, and neurons that are driven by spikes alone have none"
                )
            train = self._of_source(one) if rule is spike_source_rule else self._of_relay(where, one)
            return Cells(one.name, label, ids, rule, None, {}, at, train=train)
        neuron = neuron_of(rule)
        if neuron is None:
            raise NetworkError(f"{where}: its rule {getattr(rule, '__name__', rule)} {_no_model(rule)}")
        given = self._given(one)
        values = solved_values(where, rule, one.name, one.size, given, self.dt)
        clamps = tuple(clamp for drive in drives for clamp in self._clamps(where, one.size, drive, given))
        return Cells(one.name, label, ids, rule, _named(neuron, one.name, label, values), values, at, clamps)

    def _given(self, one: Population) -> dict[str, Array]:
        """Return parameters of now, and states at the start."""
        params = {k: exact_value(one.params.get(k), v) for k, v in self.params[one.name].items()}
        state = {k: exact_value(one.state.get(k), v) for k, v in self.state[one.name].items()}
        return params | state

    # ---- spikes

    def _of_source(self, one: Population) -> Train:
        """Return the spikes of neurons whose parameters have their times."""
        begin = np.broadcast_to(self.state[one.name]["step"], one.size)
        times = [np.broadcast_to(v, one.size) for k, v in self.params[one.name].items() if k.startswith("at")]
        steps = np.stack(times).astype(np.int64) - begin
        neurons = np.broadcast_to(np.arange(one.size), steps.shape)
        here = (steps >= 0) & (np.stack(times) >= 0)
        return steps[here], neurons[here]

    def _of_relay(self, where: str, one: Population) -> Train:
        """Return the spikes of neurons that repeat those of spike sources."""
        steps: list[Array] = [np.empty(0, np.int64)]
        neurons: list[Array] = [np.empty(0, np.int64)]
        counts: list[Array] = [np.empty(0)]
        if "begin" in one.state:
            begin = np.broadcast_to(self.state[one.name]["begin"], one.size)
            neurons.append(np.flatnonzero(begin))
            steps.append(np.zeros(neurons[-1].size, np.int64))
            counts.append(begin[neurons[-1]])
        for name in self.into[one.name]:
            source = self.by_name[name].populations[0]
            if source.rule is not spike_source_rule:
                raise NetworkError(
                    f"{where}: projection {name} lets it repeat spikes of {source.name}, but virtual nodes of SONATA "
                    "have no synapses; let these neurons drive its targets directly"
                )
            made = _arrivals(self._of_source(source), self.simulation.connections(name), self.dt)
            for found, more in zip((steps, neurons, counts), made, strict=True):
                found.append(more)
        when, who, many = (np.concatenate(found) for found in (steps, neurons, counts))
        if (many <= 0).any() or (many != np.rint(many)).any():
            raise NetworkError(f"{where}: spikes arrive with weights that are no numbers of spikes, 1 or more")
        places, back = np.unique(when * one.size + who, return_inverse=True)
        several = np.bincount(back, many, places.size).astype(np.int64)
        places = np.repeat(places, several if drives_of(one.rule)[0] is several_rule else 1)
        return places // one.size, places % one.size

    # ---- currents

    def _clamps(self, where: str, size: int, drive: Drive, given: Mapping[str, Array]) -> list[tuple[Clamp, Array]]:
        """Return what `step_current` added; raise for other drives."""
        if drive.kind != "step_current" or drive.into != "current":
            raise NetworkError(
                f"{where}: has {drive.kind or 'a drive'} into {drive.into}, which SONATA has no input for; only "
                "step_current into the parameter current can be written"
            )
        amp, first, last = (given[name] for name in drive.params)
        first, last = (np.maximum(one - given[drive.state[0]], 0) for one in (first, last))
        each = np.stack(np.broadcast_arrays(amp, first, last, np.zeros(size))[:3], axis=1)
        different, which = np.unique(each, axis=0, return_inverse=True)
        if different.shape[0] > _MOST_CLAMPS:
            raise NetworkError(
                f"{where}: {drive.params[0]} has {different.shape[0]} different currents, each of which is an input; "
                f"at most {_MOST_CLAMPS} are written"
            )
        return [
            ((float(amp), float(first * self.dt), float(last * self.dt)), which.reshape(-1) == k)
            for k, (amp, first, last) in enumerate(different)
            if amp != 0 and first < last
        ]


def _arrivals(train: Train, synapses: Any, dt: float) -> tuple[Array, Array, Array]:
    """Return steps, neurons and weights of what spikes deliver through synapses."""
    order = np.argsort(train[1], kind="stable")
    steps, spikes = train[0][order], np.bincount(train[1], minlength=synapses.shape[0])
    begins, each = np.cumsum(spikes) - spikes, spikes[synapses.sources]
    of = np.repeat(np.arange(each.size), each)  # the synapse of each arrival
    within = np.arange(of.size) - np.repeat(np.cumsum(each) - each, each)
    late = np.rint(synapses.delays / dt).astype(np.int64)
    arrive = steps[begins[synapses.sources[of]] + within] + late[of]
    return arrive, synapses.targets[of].astype(np.int64), np.asarray(synapses.weights, np.float64)[of]


def _placed(where: str, one: Population, key: str, numbers: Array) -> Array:
    """Return an attribute as SONATA has it: places are in micrometres."""
    unit = unit_of(one.name, one.units, key)
    if key not in "xyz" or unit in (None, "um", "1") or isinstance(unit, Undeclared):
        return numbers
    if unit == "mm":
        return (1000 * numbers.astype(np.float64)).astype(np.float32)
    if isinstance(unit, str):
        raise NetworkError(f"{where}: at {key} is in {unit}, and nodes have places in um; rename it")
    return (numbers.astype(np.float64) / factor(f"{where}: at {key}", "um", unit)).astype(np.float32)


def _named(neuron: NestNeuron, name: str, label: str, values: Values) -> NestNeuron:
    """Return the model by the name that a population has from it, such as "v1:glif_lif_psc", if it fits."""
    found = NEURONS.get(name.removeprefix(f"{label}:"))
    if found is None or found.make is not neuron.make:
        return neuron
    return (
        found if all((values[flag] == only).all() for flag, only in found.fixed.items() if flag in values) else neuron
    )


def _no_model(rule: Any) -> str:
    """Say why a rule cannot be written, and what can be."""
    changed = getattr(rule, "__name__", "") in RULE_NAMES
    why = "was changed by a function that adds states" if changed else "has no model in SONATA files of point neurons"
    return (
        f"{why}; those that have are {READY}; for neurons that only send spikes, record these and use "
        "be.models.spike_source"
    )
