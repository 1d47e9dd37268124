# SPDX-License-Identifier: Apache-2.0
"""Nodes of SONATA become populations: one for each model of neurons among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from ..description.populations import Population
from .attributes import Attributes, attributes_of, place_of_ids, read_types
from .files import integers
from .neurons.parameters import NestNeuron, Values
from .neurons.table import NEURONS

__all__ = ["Nodes", "Part", "read_nodes"]

_VIRTUAL = "virtual"
_POINT = ("point_neuron", "point_process", "point_soma", "single_compartment", None)
_PREFIX = "nest:"
_POSITIONS = ("x", "y", "z")

Array = Any
Files = Callable[[str, str], dict[str, Any]]  # where, and the name of a JSON file with parameters: its content


@dataclass(frozen=True, eq=False)
class Part:
    """Nodes of one model.

    Attributes:
        name: Name of the population that they become.
        nodes: Their places among the nodes: int (n,).
        neuron: Their model; None if they are virtual.
        population: Their population; None if they are virtual.
        ports: How many receptors each has that edges name by `receptor_type`: int (n,); None if they name none.
        at: Where they are: x, y and z, as far as the file has them for all.
    """

    name: str
    nodes: Array
    neuron: NestNeuron | None
    population: Population | None
    ports: Array | None = None
    at: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of one population of SONATA.

    Attributes:
        name: Its name.
        ids: Ids of the nodes: int64 (n,).
        attributes: Their attributes, while their file is open.
        parts: The populations that they become.
        part: The place in `parts` of each node: int (n,).
        within: The place of each node within its part: int (n,).
    """

    name: str
    ids: Array
    attributes: Attributes
    parts: tuple[Part, ...]
    part: Array
    within: Array

    def places(self, where: str, ids: Array) -> Array:
        """Return the places of nodes by their ids."""
        places = place_of_ids(self.ids, ids)
        if places.size and places.min() < 0:
            wrong = int(np.argmin(places))
            raise NetworkError(f"{where}: element {wrong} is node {ids[wrong]}, which {self.name} does not have")
        return places


def read_nodes(group: Any, name: str, types_path: Path | None, dt: float, files: Files) -> Nodes:
    """Read one population."""
    where = f"nodes {name}"
    attributes = attributes_of(where, group, "node", read_types(where, types_path, "node_type_id", name))
    size = attributes.size
    ids = integers(where, group, "node_id").astype(np.int64) if "node_id" in group else np.arange(size)
    if ids.size != size or np.unique(ids).size != size:
        raise NetworkError(f"{where}: {group.file.filename} has {size} nodes, but {np.unique(ids).size} different ids")
    kinds, models = _models(attributes)
    part, within, parts = np.zeros(size, np.int32), np.zeros(size, np.int32), []
    present = [code for code in range(len(models)) if (kinds == code).any()]
    for place, code in enumerate(present):
        chosen = np.flatnonzero(kinds == code)
        part[chosen], within[chosen] = place, np.arange(chosen.size)
        called = name if len(present) == 1 else f"{name}:{models[code]}"
        neuron = NEURONS.get(models[code])
        if neuron is None:
            parts.append(Part(called, chosen, None, None, at=_positions(attributes, chosen)))
            continue
        values = _values(attributes, chosen, neuron, files)
        ports = None if neuron.receptors else (~np.isnan(values["tau_syn"])).sum(1)
        made = dataclasses.replace(neuron.make(called, chosen.size, values, dt), at=_positions(attributes, chosen))
        parts.append(Part(called, chosen, neuron, made, ports, made.at))
    return Nodes(name, ids, attributes, tuple(parts), part, within)


def _positions(attributes: Attributes, nodes: Array) -> dict[str, Array]:
    """Return where nodes are, without coordinates that one of them lacks."""
    found = {key: attributes.numbers(key)[nodes] for key in _POSITIONS}
    return {key: values for key, values in found.items() if np.isfinite(values).all()}


def _models(attributes: Attributes) -> tuple[Array, list[str]]:
    """Return a code of the model of each node, and the name of the model of each code."""
    types, kinds = attributes.words("model_type")
    templates, names = attributes.words("model_template")
    models: list[str] = []
    codes = np.zeros(attributes.size, np.int32)
    both = np.asarray(types, np.int64) * len(names) + templates
    for one in np.unique(both):
        chosen = both == one
        model = _model_of(attributes, int(np.argmax(chosen)), kinds[one // len(names)], names[one % len(names)])
        if model not in models:
            models.append(model)
        codes[chosen] = models.index(model)
    return codes, models


def _model_of(attributes: Attributes, node: int, kind: str | None, template: str | None) -> str:
    """Return the name of a model of neurons, or "virtual"; raise if it is not one of ours."""
    if kind == _VIRTUAL:
        return _VIRTUAL
    where = f"{attributes.where}: {attributes.named(node)}"
    if kind not in _POINT:
        raise NetworkError(
            f"{where} has the model_type {kind!r} ({template}); only point neurons and virtual nodes can be read: "
            "replace its model by one such as nest:glif_psc, or simulate it with NEURON"
        )
    if template is None:
        raise attributes.missing("model_template", node)
    name = template.removeprefix(_PREFIX)
    if name not in NEURONS or not template.startswith(_PREFIX):
        known = [_PREFIX + one for one in NEURONS]
        raise NetworkError(
            f"{where} has the model_template {template!r}{did_you_mean(template, known)}; those that can be read are "
            f"{', '.join(known)}"
        )
    return name


def _values(attributes: Attributes, nodes: Array, neuron: NestNeuron, files: Files) -> Values:
    """Return all parameters of nodes of one model: those of the h5 file come before those of the JSON files."""
    values: Values = {}
    for name, default in neuron.defaults.items():
        one = np.asarray(default, np.float64)
        values[name] = np.broadcast_to(one, (nodes.size, *one.shape))
    codes, names = attributes.words("dynamics_params")
    codes = np.broadcast_to(codes, (attributes.size,))[nodes]
    for code in np.unique(codes):
        if names[code] is not None:
            where = f"{attributes.where}: {attributes.named(int(nodes[np.argmax(codes == code)]))}"
            chosen = codes == code
            for name, value in files(where, names[code]).items():
                _put(f"{where}: {names[code]}", neuron, values, name, chosen, value)
    for part in attributes.parts:
        found = part.group.get("dynamics_params")
        if found is None or not hasattr(found, "items"):
            continue
        elements = np.arange(attributes.size) if part.elements is ... else part.elements
        places = np.arange(elements.size) if part.places is ... else part.places
        among = place_of_ids(elements, nodes)
        chosen = among >= 0
        for name, one in found.items():
            where, own = f"{attributes.where}: '{one.name}' of {one.file.filename}", places[among[chosen]]
            if not one.shape or one.shape[0] <= own.max(initial=-1):
                raise NetworkError(f"{where} has the shape {one.shape}; it must have an element for each node")
            _put(where, neuron, values, name, chosen, one[()][own])
    return values


def _put(where: str, neuron: NestNeuron, values: Values, name: str, chosen: Array, given: Any) -> None:
    """Set a parameter of some neurons."""
    neuron.check_name(where, name)
    try:
        new = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise NetworkError(f"{where}: {name} is {given!r}; it must be a number or a list of numbers") from None
    if name in neuron.fixed:
        neuron.check_fixed(where, name, new)
        return
    listed = isinstance(neuron.defaults[name], tuple)
    if not listed:
        if new.ndim and new.shape != (int(chosen.sum()),):
            raise NetworkError(f"{where}: {name} has the shape {new.shape}; it must be one number")
        values[name] = np.array(values[name])
        values[name][chosen] = new
    else:
        new = new.reshape(1, -1) if new.ndim < 2 else new
        old = values[name]
        wide = max(old.shape[1], new.shape[1])
        wider = np.full((old.shape[0], wide), np.nan)
        wider[:, : old.shape[1]] = old
        wider[chosen] = np.nan
        wider[chosen, : new.shape[1]] = new
        unused = np.isnan(wider).all(0)
        values[name] = wider[:, ~unused]
    if not np.isfinite(new).all():
        raise NetworkError(f"{where}: {name} is not finite")
