# SPDX-License-Identifier: Apache-2.0
"""Stages of nodes: in each, scalars run first, then loops over elements, then calls."""

from __future__ import annotations

from collections.abc import Sequence

from .values import Array, Node, View, reads_own

__all__ = ["Ranks", "scheduled"]

Ranks = dict[Node, int]  # the stage of each node


def scheduled(nodes: Sequence[Node]) -> Ranks:
    """Return a stage for each node: calls run as early as possible, and others as late, so that they share loops."""
    maker = {array: node for node in nodes for array in node.outs}
    ranks: Ranks = {}
    for node in nodes:
        sources = [(maker[view.base], view) for view in node.ins if isinstance(view.base, Array) and view.base in maker]
        ranks[node] = max([ranks[source] + _distance(source, node, view) for source, view in sources], default=0)
    last = max(ranks.values(), default=0)
    readers: dict[Node, list[tuple[Node, View]]] = {}
    for node in nodes:
        for view in node.ins:
            if isinstance(view.base, Array) and view.base in maker:
                readers.setdefault(maker[view.base], []).append((node, view))
    for node in reversed(nodes):
        if node.call is None:
            limits = [ranks[reader] - _distance(node, reader, view) for reader, view in readers.get(node, ())]
            ranks[node] = max(ranks[node], min([last, *limits]))
    return ranks


def _distance(source: Node, reader: Node, view: View) -> int:
    """Return how many stages lie between what makes an array and what reads it, at least."""
    if source.call is not None:
        return 0 if reader.call is not None else 1
    if reader.call is not None or source.is_scalar:
        return 0
    return 0 if not reader.is_scalar and reader.shape == source.shape and reads_own(view, reader.shape) else 1
