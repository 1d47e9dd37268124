# SPDX-License-Identifier: Apache-2.0
"""Which values a first computation stores for a second one, and which are computed twice: a minimum cut of lines."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from .form import Line, Name
from .lines import defined, read

__all__ = ["ENDLESS", "smallest_cut"]

ENDLESS = 2**28  # the cost of what must not be


def smallest_cut(
    lines: Sequence[Line],
    inputs: Iterable[Name],
    wanted: Collection[Name],
    stored: Callable[[Name], int],
    again: Callable[[Line], int],
) -> set[Name]:
    """Return the names whose values the first computation stores, so that the second one has the `wanted` ones.

    The first computation runs all lines. The second has what is stored, and any names that neither lines nor `inputs`
    define; from these it computes lines again. Least is what is stored by name and computed again by line, together;
    of several cuts with the least cost it is the one nearest to the inputs.
    """
    graph = _Graph(stored)
    for name in inputs:
        graph.edge("source", (name, "in"), ENDLESS)
    for place, line in enumerate(lines):
        graph.edge("source", place, again(line))
        for name in read(line):
            graph.edge(graph.value(name), place, ENDLESS)
        for name in defined(line):
            graph.edge(place, (name, "in"), ENDLESS)
            graph.value(name)
    for name in wanted:
        graph.edge(graph.value(name), "sink", ENDLESS)
    return graph.cut()


class _Graph:
    """Nodes by any keys; a name is two nodes: it is computed, and it is there for the second computation."""

    def __init__(self, stored: Callable[[Name], int]):
        self.stored = stored
        self.places: dict[object, int] = {"source": 0, "sink": 1}
        self.capacities: dict[tuple[int, int], int] = {}
        self.names: set[Name] = set()

    def node(self, key: object) -> int:
        return self.places.setdefault(key, len(self.places))

    def edge(self, before: object, after: object, capacity: int) -> None:
        self.capacities[self.node(before), self.node(after)] = capacity

    def value(self, name: Name) -> object:
        """Return the node of a name for the second computation."""
        if name not in self.names:
            self.names.add(name)
            self.edge((name, "in"), (name, "out"), self.stored(name))
        return name, "out"

    def cut(self) -> set[Name]:
        """Return the names of which one node lies on the side of the source, and the other one does not."""
        reached = _source_side(len(self.places), self.capacities)
        before = {name for name in self.names if self.places[name, "in"] in reached}
        return {name for name in before if self.places[name, "out"] not in reached}


def _source_side(nodes: int, capacities: Mapping[tuple[int, int], int]) -> set[int]:
    """Return the nodes on the side of node 0 of the minimum cut nearest to it; node 1 is the sink (Dinic 1970)."""
    left: list[dict[int, int]] = [{} for _ in range(nodes)]  # what may still flow from a node to others
    for (before, after), capacity in capacities.items():
        left[before][after] = left[before].get(after, 0) + capacity
        left[after].setdefault(before, 0)
    while 1 in (depths := _depths(left)):
        further = {node: depth + 1 for node, depth in depths.items()}
        ways = [[x for x in left[node] if depths.get(x) == further.get(node, -1)] for node in range(nodes)]
        while path := _path(left, ways):
            most = min(left[before][after] for before, after in itertools.pairwise(path))
            for before, after in itertools.pairwise(path):
                left[before][after] -= most
                left[after][before] += most
    return {*depths}


def _depths(left: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """Return how far the nodes are from node 0 that something may still flow to."""
    depths, waiting = {0: 0}, deque([0])
    while waiting:
        node = waiting.popleft()
        new = [after for after, rest in left[node].items() if rest > 0 and after not in depths]
        depths |= dict.fromkeys(new, depths[node] + 1)
        waiting += new
    return depths


def _path(left: Sequence[Mapping[int, int]], ways: Sequence[list[int]]) -> list[int]:
    """Return a path from node 0 to node 1 along ways, of which those that end are removed; nothing if there is none."""
    path = [0]
    while path[-1] != 1:
        node = path[-1]
        while ways[node] and left[node][ways[node][-1]] == 0:
            ways[node].pop()
        if ways[node]:
            path.append(ways[node][-1])
        elif node == 0:
            return []
        else:
            path.pop()
            ways[path[-1]].pop()
    return path
