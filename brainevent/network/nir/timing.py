# SPDX-License-Identifier: Apache-2.0
"""When neurons do the step of a graph: how many steps of the network after the first, and with which delays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["Timing"]

Edge = tuple[str, str]


class Timing:
    """Steps of a graph within steps of a network.

    In a step of the graph, all nodes act one after the other: what leaves a node acts on the next one without delay,
    but within a loop one step later. In a network each synapse takes at least one step. So a node does step t of the
    graph in step t + latency of the network, where latencies rise along the edges that are in no loop, and all nodes of
    a loop have the same.
    """

    def __init__(self, names: Sequence[str], delays: Mapping[Edge, Sequence[int]]):
        """Take names of nodes with a state, and for each edge between them its delays in the graph, in steps."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        place = {name: number for number, name in enumerate(names)}
        ends = np.array([(place[source], place[target]) for source, target in delays], int).reshape(-1, 2).T
        graph = coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(len(names), len(names)))
        _, group = connected_components(graph.tocsr(), directed=True, connection="strong")
        self._group = {name: int(group[place[name]]) for name in names}
        self.latency = self._latencies(delays)

    def in_loop(self, source: str, target: str) -> bool:
        """Say whether an edge is part of a loop."""
        return self._group[source] == self._group[target]

    def in_graph(self, source: str, target: str, delay: int) -> int:
        """Return the delay of an edge in steps of the graph: at least one in a loop."""
        return max(delay, int(self.in_loop(source, target)))

    def in_network(self, source: str, target: str, delay: int) -> int:
        """Return the delay of synapses that stand for an edge, in steps of the network."""
        return self.in_graph(source, target, delay) + self.latency[target] - self.latency[source]

    def _latencies(self, delays: Mapping[Edge, Sequence[int]]) -> dict[str, int]:
        """Return the smallest latencies with which all synapses take at least one step."""
        least = dict.fromkeys(self._group.values(), 0)
        between = [(edge, min(steps)) for edge, steps in delays.items() if not self.in_loop(*edge)]
        changed = True
        while changed:  # once for each node of the longest path, since loops are one
            changed = False
            for (source, target), delay in between:
                needed = least[self._group[source]] + 1 - delay
                if needed > least[self._group[target]]:
                    least[self._group[target]] = needed
                    changed = True
        return {name: least[group] for name, group in self._group.items()}
