# SPDX-License-Identifier: Apache-2.0
"""Which values a first computation stores for a second one, and which are computed twice: a minimum cut of lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from scipy.sparse import coo_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import maximum_flow  # type: ignore[import-untyped]

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
        ends = np.array(list(self.capacities)).reshape(-1, 2).T
        capacities = np.array(list(self.capacities.values()), np.int32)
        graph = coo_array((capacities, ends), shape=(len(self.places),) * 2).tocsr()
        left = (graph - maximum_flow(graph, 0, 1).flow).tocsr()
        reached, waiting = {0}, deque([0])
        while waiting:
            node = waiting.popleft()
            row = slice(*left.indptr[node : node + 2])
            new = set(left.indices[row][left.data[row] > 0].tolist()) - reached
            reached |= new
            waiting += new
        before = {name for name in self.names if self.places[name, "in"] in reached}
        return {name for name in before if self.places[name, "out"] not in reached}
