# SPDX-License-Identifier: Apache-2.0
"""Shapes of what arrives at nodes and of what leaves them: given by their values, or by the nodes before them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import NetworkError
from .nodes import ENDS, NEURONS, PASSED, Node
from .windows import conv_shape, pool_shape

__all__ = ["Shape", "all_shapes"]

Shape = tuple[int, ...]


def all_shapes(nodes: Mapping[str, Node], edges: Sequence[tuple[str, str]]) -> dict[str, tuple[Shape, Shape]]:
    """Return of each node the shape of what arrives, and that of what leaves."""
    arriving = {name: shape for name, node in nodes.items() if (shape := _own(node)) is not None}
    known = len(arriving) - 1
    while known < len(arriving):
        known = len(arriving)
        for source, target in edges:
            if source in arriving and target not in arriving:
                arriving[target] = _leaving(nodes[source], arriving[source])
    for name, node in nodes.items():
        if name not in arriving:
            raise NetworkError(
                f"{node.where}: its shape is not known, since no node before it has one; give the input before it a "
                "shape"
            )
    found = {name: (arriving[name], _leaving(node, arriving[name])) for name, node in nodes.items()}
    for source, target in edges:
        left, needed = found[source][1], found[target][0]
        flat = nodes[source].kind == "Flatten" and needed == (math.prod(left),)  # whatever dimensions it joins
        if left != needed and not flat:
            raise NetworkError(
                f"from_nir: edge ({source}, {target}): what leaves {source} ({nodes[source].kind}) has shape {left}, "
                f"but {target} ({nodes[target].kind}) takes {needed}; put a node between that changes the shape"
            )
    return found


_SHAPED_BY = {"Scale": "scale", "Delay": "delay", "Threshold": "threshold", "LIF": "v_threshold", "IF": "v_threshold"}
_SHAPED_BY |= {"CubaLIF": "v_threshold", "LI": "v_leak", "CubaLI": "v_leak", "I": "r"}


def _own(node: Node) -> Shape | None:
    """Return the shape of what arrives, if the values of a node say it: one number holds for all that arrives."""
    if node.kind in (*ENDS, PASSED):
        types = (
            (node.given.input_type or {}) if type(node.given).__name__ == "Input" else (node.given.output_type or {})
        )
        shape = next(iter(types.values()), None)
        return None if shape is None else tuple(int(one) for one in np.ravel(shape))
    if node.kind in ("Affine", "Linear"):
        weight = np.shape(node.given.weight)
        if len(weight) < 2:
            raise NetworkError(f"{node.where}: weight has shape {weight}; pass a matrix (targets, sources)")
        return (*weight[:-2], weight[-1])
    if node.kind in _SHAPED_BY:
        return np.shape(getattr(node.given, _SHAPED_BY[node.kind])) or None
    return None


def _leaving(node: Node, shape: Shape) -> Shape:
    """Return the shape of what leaves a node."""
    if node.kind in (*ENDS, PASSED, *NEURONS, "Scale", "Delay"):
        return shape
    if node.kind in ("Affine", "Linear"):
        return (*shape[:-1], np.shape(node.given.weight)[-2])
    if node.kind == "Flatten":
        (first,), (last,) = (node.counts(name, 1, -len(shape)) for name in ("start_dim", "end_dim"))
        first, last = first % max(len(shape), 1), last % max(len(shape), 1)
        return (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
    return conv_shape(node, shape) if node.kind.startswith("Conv") else pool_shape(node, shape)
