# SPDX-License-Identifier: Apache-2.0
"""Nodes and edges of a NIR graph, of which nested graphs are part of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean

__all__ = ["ENDS", "LINEAR", "NEURONS", "PASSED", "Node", "all_nodes"]

NEURONS = ("I", "LI", "IF", "LIF", "CubaLI", "CubaLIF", "Threshold")
LINEAR = ("Affine", "Linear", "Scale", "Conv1d", "Conv2d", "SumPool2d", "AvgPool2d", "Flatten", "Delay")
ENDS = ("Input", "Output")
PASSED = "passed"  # an input or output of a nested graph: what arrives leaves it unchanged

Array = Any


@dataclass(frozen=True)
class Node:
    """A node: its name in the graph, within nested graphs after theirs; its kind; and the object itself."""

    name: str
    kind: str
    given: Any

    @property
    def where(self) -> str:
        """What errors about it begin with."""
        return f"from_nir: node {self.name} ({self.kind})"

    def numbers(self, name: str) -> Array:
        """Return a value of the node as an array of float64; raise unless it is finite numbers."""
        value = getattr(self.given, name)
        try:
            if np.iscomplexobj(value):
                raise TypeError
            found = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            raise NetworkError(f"{self.where}: {name} is {value!r}; pass an array of real numbers") from None
        if not np.isfinite(found).all():
            raise NetworkError(f"{self.where}: {name} is infinite or NaN; pass finite numbers")
        return found

    def bias(self, size: int) -> Array:
        """Return the bias, which may be None: (size,)."""
        if self.given.bias is None:
            return np.zeros(size)
        found = self.numbers("bias")
        if found.size != size:
            raise NetworkError(f"{self.where}: bias has shape {found.shape}; pass {size} numbers")
        return found.reshape(-1)

    def counts(self, name: str, dimensions: int, least: int) -> tuple[int, ...]:
        """Return integers of the node, one for each dimension; one given number holds for all."""
        value = getattr(self.given, name)
        found = np.asarray(value).reshape(-1)
        if found.dtype.kind not in "iuf" or found.size not in (1, dimensions) or (found != np.rint(found)).any():
            raise NetworkError(f"{self.where}: {name} is {value!r}; pass an integer, or {dimensions} of them")
        if (found < least).any():
            raise NetworkError(f"{self.where}: {name} is {value!r}; the smallest is {least}")
        return tuple(int(one) for one in np.broadcast_to(found, dimensions))


def all_nodes(graph: Any) -> tuple[dict[str, Node], list[tuple[str, str]]]:
    """Return the nodes of a graph and of the graphs in it, by name, and the edges between them."""
    if type(graph).__name__ != "NIRGraph":
        raise NetworkError(
            f"from_nir: graph is a {type(graph).__name__}; pass a nir.NIRGraph, or the path of a file of one"
        )
    nodes: dict[str, Node] = {}
    edges: list[tuple[str, str]] = []
    _collect(graph, "", nodes, edges)
    sources, targets = {source for source, _ in edges}, {target for _, target in edges}
    for node in nodes.values():
        if node.kind == "Input" and node.name in targets:
            raise NetworkError(f"{node.where}: has an edge from another node; leave this edge out")
        if node.kind == "Output" and node.name in sources:
            raise NetworkError(f"{node.where}: has an edge to another node; begin it at the node before the output")
    if not any(node.kind in (*NEURONS, "Input") for node in nodes.values()):
        raise NetworkError("from_nir: the graph has no neurons and no inputs; pass one with nodes that have a state")
    return nodes, edges


def _collect(graph: Any, prefix: str, nodes: dict[str, Node], edges: list[tuple[str, str]]) -> None:
    """Add the nodes and edges of a graph to others."""
    enter: dict[str, list[str]] = {}  # where edges to a node end
    leave: dict[str, list[str]] = {}
    for key, given in graph.nodes.items():
        name = prefix + key
        kind = _kind(name, given)
        if kind == "NIRGraph":
            _collect(given, f"{name}.", nodes, edges)
            enter[key], leave[key] = (
                [f"{name}.{one}" for one, node in given.nodes.items() if type(node).__name__ == end] for end in ENDS
            )
        else:
            nodes[name] = Node(name, PASSED if prefix and kind in ENDS else kind, given)
            enter[key] = leave[key] = [name]
    seen = set()
    for source, target in graph.edges:
        for key in (source, target):
            if key not in enter:
                raise NetworkError(
                    f"from_nir: edge ({prefix}{source}, {prefix}{target}): there is no node {key!r}"
                    f"{did_you_mean(str(key), enter)}; nodes: {', '.join(enter) or 'none'}"
                )
        if (source, target) in seen:
            raise NetworkError(
                f"from_nir: edge ({prefix}{source}, {prefix}{target}) is there twice; leave one out, or scale what it "
                "carries by 2"
            )
        seen.add((source, target))
        edges.append((_only(prefix + source, leave[source], "Output"), _only(prefix + target, enter[target], "Input")))


def _only(name: str, ends: list[str], kind: str) -> str:
    """Return the one node of a nested graph to which its edges go."""
    if len(ends) != 1:
        raise NetworkError(
            f"from_nir: graph {name} has {len(ends)} nodes of kind {kind}, so an edge of it does not say which is "
            "meant; give it one"
        )
    return ends[0]


def _kind(name: str, node: Any) -> str:
    kind = type(node).__name__
    known = (*NEURONS, *LINEAR, *ENDS, "NIRGraph")
    if kind not in known:
        raise NetworkError(
            f"from_nir: node {name} is a {kind}{did_you_mean(kind, known)}; kinds that can be run: {', '.join(known)}"
        )
    return kind
