# SPDX-License-Identifier: Apache-2.0
"""Edges of SONATA become projections: one for each pair of populations and receptor that they connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...errors import NetworkError, did_you_mean
from ...event.matrices.coo import COO
from ..description.populations import Population, Projection
from .attributes import Attributes, attributes_of, read_types
from .files import decoded, integers
from .nodes import Nodes, Part

__all__ = ["read_edges"]

_STATIC = ("static_synapse", "nest:static_synapse", None)
_WEIGHTS = ("wmax", None)  # functions of weights that return the weight

Array = Any
Files = Callable[[str, str], dict[str, Any]]


def read_edges(
    group: Any,
    name: str,
    types_path: Path | None,
    nodes: Mapping[str, Nodes],
    made: Mapping[str, Population],
    files: Files,
) -> list[Projection]:
    """Read one population of edges; `made` has the populations by name."""
    where = f"edges {name}"
    ends = [_end(where, group, f"{end}_node_id", nodes) for end in ("source", "target")]
    attributes = attributes_of(where, group, "edge", read_types(where, types_path, "edge_type_id", name))
    (source, sources), (target, targets) = ends
    if not sources.size == targets.size == attributes.size:
        raise NetworkError(
            f"{where}: {group.file.filename} has {sources.size} source_node_id, {targets.size} target_node_id and "
            f"{attributes.size} edge_type_id"
        )
    _check_synapses(attributes)
    _check_groups(attributes)
    weights, delays = _weights(attributes), _needed(attributes, "delay")
    receptors = _receptors(attributes, files)
    result = []
    for here, there, chosen in _blocks(source, target, sources, targets):
        if there.neuron is None:
            raise NetworkError(f"{where}: targets are nodes of {target.name} that are virtual, which have no synapses")
        s, t, w, d, r = (_of(part, chosen) for part in (sources, targets, weights, delays, receptors))
        for into, some, delivered in _by_receptor(where, there, t, w, r, target):
            matrix, delay = (
                _matrix(source, target, here, there, _of(s, some), _of(t, some), _of(delivered, some)),
                _of(d, some),
            )
            same = delay.size and (delay.strides == (0,) or (delay == delay[0]).all())
            label = f"{name}:{here.name}->{there.name}.{into}"
            args = (made[here.name], made[there.name], matrix, into, float(delay[0]) if same else delay)
            result.append(Projection(*args, name=label))
    return result


def _end(where: str, group: Any, key: str, nodes: Mapping[str, Nodes]) -> tuple[Nodes, Array]:
    """Return the population of one end of the edges, and the places of its nodes."""
    ids = integers(where, group, key)
    attrs = group[key].attrs
    population = decoded(attrs.get("node_population", attrs.get("network")))
    if population is None:
        raise NetworkError(f"{where}: '{group[key].name}' of {group.file.filename} has no attribute node_population")
    if population not in nodes:
        raise NetworkError(
            f"{where}: {key} is of the population {population!r}{did_you_mean(population, nodes)}, which no nodes file "
            f"of the config has; populations: {', '.join(nodes)}"
        )
    found = nodes[population]
    return found, found.places(f"{where}: '{group[key].name}' of {group.file.filename}", ids)


def _check_synapses(attributes: Attributes) -> None:
    for name, known, hint in (
        ("model_template", _STATIC, "only static_synapse can be read"),
        ("weight_function", _WEIGHTS, "compute the weights, store them as syn_weight, and leave the function out"),
    ):
        codes, words = attributes.words(name)
        for code in np.unique(codes):
            if words[code] not in known:
                edge = int(np.argmax(codes == code))
                raise NetworkError(
                    f"{attributes.where}: {attributes.named(edge)} has the {name} {words[code]!r}; {hint}"
                )


def _check_groups(attributes: Attributes) -> None:
    """Raise if a group has parameters of synapses besides its attributes."""
    for part in attributes.parts:
        inner = part.group.get("dynamics_params")
        if hasattr(inner, "items") and len(inner):
            raise NetworkError(
                f"{attributes.where}: group '{inner.name}' of {inner.file.filename} has {', '.join(inner)}, which "
                f"cannot be read there; store syn_weight, delay or receptor_type in '{part.group.name}', and leave out "
                "others"
            )


def _needed(attributes: Attributes, name: str) -> Array:
    """Return an attribute that every edge must have."""
    numbers = attributes.numbers(name)
    if numbers.size and np.isnan(numbers.min()):
        raise attributes.missing(name, int(np.argmax(np.isnan(numbers))))
    return numbers


def _weights(attributes: Attributes) -> Array:
    """Return the weight of each edge: that of a synapse, times the number of synapses."""
    weights, count = _needed(attributes, "syn_weight"), attributes.numbers("nsyns")
    if count.size and np.isnan(count.min()):
        count = np.where(np.isnan(count), 1.0, count)
    if count.size and count.min() < 0:
        edge = int(np.argmin(count))
        raise NetworkError(f"{attributes.where}: edge {edge} has nsyns {count[edge]:g}; it must not be negative")
    if weights.strides == count.strides == (0,):
        return np.broadcast_to(weights[:1] * count[:1], weights.shape) if weights.size else weights
    return weights * count


def _receptors(attributes: Attributes, files: Files) -> Array:
    """Return the receptor type of each edge; 0 if it has none."""
    found = attributes.numbers("receptor_type")
    codes, words = attributes.words("dynamics_params")
    for code in np.unique(codes):
        if words[code] is None:
            continue
        where = f"{attributes.where}: {attributes.named(int(np.argmax(codes == code)))}: {words[code]}"
        for name, value in files(attributes.where, words[code]).items():
            if name != "receptor_type" or not isinstance(value, int):
                raise NetworkError(
                    f"{where}: has {name} = {value!r}; of synapses, only an integer receptor_type can be read"
                )
            found = np.where((codes == code) & np.isnan(found), value, found)
    return np.where(np.isnan(found), 0, found).astype(np.int32) if found.strides != (0,) else _one(found)


def _one(found: Array) -> Array:
    value = found[0] if found.size and not np.isnan(found[0]) else 0
    return np.broadcast_to(np.int32(value), found.shape)


def _blocks(source: Nodes, target: Nodes, sources: Array, targets: Array) -> Iterator[tuple[Part, Part, Any]]:
    """Return each pair of parts with the edges between them."""
    if not sources.size:
        return
    if len(source.parts) == len(target.parts) == 1:
        yield source.parts[0], target.parts[0], ...
        return
    pair = source.part[sources] * np.int32(len(target.parts)) + target.part[targets]
    for one in np.unique(pair):
        here, there = divmod(int(one), len(target.parts))
        yield source.parts[here], target.parts[there], np.flatnonzero(pair == one)


def _of(values: Array, chosen: Any) -> Array:
    """Return chosen elements; all are chosen by `...`, and a view of one number stays one."""
    if chosen is ...:
        return values
    return np.broadcast_to(values[0], chosen.shape) if values.strides == (0,) and values.size else values[chosen]


def _by_receptor(
    where: str, part: Part, targets: Array, weights: Array, receptors: Array, target: Nodes
) -> Iterator[tuple[str, Any, Array]]:
    """Return each receptor with its edges, and their weights as they are delivered."""
    neuron = part.neuron
    assert neuron is not None
    if neuron.receptors:
        if receptors.size and receptors.max() > 0:
            raise NetworkError(f"{where}: has a receptor_type, but {neuron.name} has none; leave it out")
        first, second = neuron.receptors
        if first == second or (weights.size and weights.min() >= 0):
            yield first, ..., weights
            return
        below = weights < 0
        for into, mask, sign in ((first, ~below, 1), (second, below, -1 if neuron.positive else 1)):
            if mask.any():
                yield into, ... if mask.all() else np.flatnonzero(mask), weights * sign if sign < 0 else weights
        return
    assert part.ports is not None
    most = part.ports[target.within[targets]]
    wrong = (receptors < 1) | (receptors > most)
    if wrong.any():
        edge = int(np.argmax(wrong))
        found = f"the receptor_type {receptors[edge]}" if receptors[edge] else "no receptor_type"
        raise NetworkError(
            f"{where}: an edge to node {target.ids[targets[edge]]} has {found}, but its {neuron.name} has {most[edge]} "
            f"tau_syn; give each edge one from 1 to {most[edge]}, in the dynamics_params of its type or as an attribute"
        )
    for one in np.unique(receptors):
        mask = receptors == one
        yield f"syn{one - 1}", ... if mask.all() else np.flatnonzero(mask), weights


def _matrix(
    source: Nodes, target: Nodes, here: Part, there: Part, sources: Array, targets: Array, weights: Array
) -> COO:
    """Return synapses as a matrix (sources, targets)."""
    if len(source.parts) > 1:
        sources = source.within[sources]
    if len(target.parts) > 1:
        targets = target.within[targets]
    same = weights.size and weights.strides == (0,)
    data = weights[:1] if same else weights
    narrow = data.astype(np.float32)
    shape = (here.nodes.size, there.nodes.size)
    ends = (each.astype(np.int32, copy=False) for each in (sources, targets))
    if (narrow == data).all():
        return COO(narrow, *ends, shape=shape)
    with jax.enable_x64(True):  # a network rounds weights to quanta, of which float32 may not hold all
        return COO(data.astype(np.float64, copy=False), *ends, shape=shape)
