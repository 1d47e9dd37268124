# SPDX-License-Identifier: Apache-2.0
"""What arrives at a neuron: sums over linear nodes, as a sparse matrix for each neuron before it and each delay."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError
from .nodes import LINEAR, PASSED, Node
from .shapes import Shape
from .windows import conv_matrix, pool_matrix

__all__ = ["Folded", "Signal", "Steps"]

Array = Any
Matrix = Any  # sparse


@dataclass(frozen=True, eq=False)
class Signal:
    """A sum of what nodes with a state send.

    Attributes:
        terms: By the name of a node and a delay in steps, the matrix (elements, neurons of the node).
        constant: What is added to it in every step: (elements,).
    """

    terms: Mapping[tuple[str, int], Matrix]
    constant: Array

    def times(self, matrix: Matrix) -> Signal:
        """Return the signal after a linear map."""
        return Signal({key: matrix @ term for key, term in self.terms.items()}, matrix @ self.constant)


@dataclass(frozen=True)
class Steps:
    """How times in seconds become whole steps of `dt` milliseconds."""

    dt: float
    rounded: bool

    def of(self, node: Node) -> Array:
        """Return the delays of a node in steps: int64."""
        steps = node.numbers("delay").reshape(-1) * 1000.0 / self.dt
        if (steps < 0).any():
            raise NetworkError(f"{node.where}: delay is {steps.min() * self.dt / 1000:g} s; pass 0 or more")
        whole = np.rint(steps)
        wrong = np.abs(steps - whole) > 1e-6 * np.maximum(steps, 1)
        if wrong.any() and not self.rounded:
            raise NetworkError(
                f"{node.where}: a delay of {steps[wrong][0] * self.dt:g} ms is no multiple of the time step, "
                f"{self.dt:g} ms; pass another dt, or round_delays=True"
            )
        return whole.astype(np.int64)


class Folded:
    """Linear nodes between nodes with a state, folded into one matrix for each pair and delay."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        edges: Sequence[tuple[str, str]],
        shapes: Mapping[str, tuple[Shape, Shape]],
        steps: Steps,
    ):
        self._nodes, self._shapes, self.steps = nodes, shapes, steps
        self._before: dict[str, list[str]] = defaultdict(list)
        for source, target in edges:
            self._before[target].append(source)
        self._left: dict[str, Signal | None] = {}  # None while it is computed

    def arriving(self, name: str) -> Signal:
        """Return what arrives at a node: the sum of what leaves the nodes before it."""
        terms: dict[tuple[str, int], Matrix] = {}
        constant = np.zeros(math.prod(self._shapes[name][0]))
        for source in self._before[name]:
            left = self._leaving(source)
            constant = constant + left.constant
            for key, matrix in left.terms.items():
                terms[key] = terms[key] + matrix if key in terms else matrix
        return Signal(terms, constant)

    def _leaving(self, name: str) -> Signal:
        """Return what leaves a node."""
        from scipy.sparse import eye_array

        node, shape = self._nodes[name], self._shapes[name][0]
        if node.kind not in (*LINEAR, PASSED):
            size = math.prod(shape)
            return Signal({(name, 0): eye_array(size, format="csr")}, np.zeros(size))
        found = self._left.get(name)
        if found is None:
            if name in self._left:
                raise NetworkError(
                    f"{node.where}: is in a loop of nodes that have no state, so that what arrives would depend on "
                    "itself in the same step; put a neuron into the loop"
                )
            self._left[name] = None
            found = self._left[name] = _after(node, shape, self.arriving(name), self.steps)
        return found


def _after(node: Node, shape: Shape, signal: Signal, steps: Steps) -> Signal:
    """Return what leaves a linear node at which a signal arrives."""
    if node.kind in (PASSED, "Flatten"):
        return signal
    if node.kind == "Delay":
        return _delayed(signal, steps.of(node))
    if node.kind.endswith("Pool2d"):
        return signal.times(pool_matrix(node, shape))
    if node.kind == "Scale":
        return signal.times(_diagonal(np.broadcast_to(node.numbers("scale").reshape(-1), signal.constant.size)))
    matrix = conv_matrix(node, shape) if node.kind.startswith("Conv") else _blocks(node.numbers("weight"))
    signal = signal.times(matrix)
    if node.kind == "Linear":
        return signal
    if node.kind == "Affine":
        return Signal(signal.terms, signal.constant + node.bias(matrix.shape[0]))
    channels = np.shape(node.given.weight)[0]
    return Signal(signal.terms, signal.constant + np.repeat(node.bias(channels), matrix.shape[0] // channels))


def _delayed(signal: Signal, steps: Array) -> Signal:
    """Return a signal of which each element arrives some steps later; what is constant has always been so."""
    terms: dict[tuple[str, int], Matrix] = {}
    for delay in np.unique(steps):
        chosen = _diagonal(np.broadcast_to((steps == delay).astype(np.float64), signal.constant.size))
        for (name, before), matrix in signal.terms.items():
            key, part = (name, before + int(delay)), chosen @ matrix
            terms[key] = terms[key] + part if key in terms else part
    return Signal(terms, signal.constant)


def _diagonal(numbers: Array) -> Matrix:
    from scipy.sparse import diags_array

    return diags_array(np.asarray(numbers), format="csr")


def _blocks(weight: Array) -> Matrix:
    """Return weights (..., targets, sources), which do not mix leading dimensions, as one matrix."""
    from scipy.sparse import block_diag, coo_array

    return block_diag([coo_array(block) for block in weight.reshape(-1, *weight.shape[-2:])], format="csr")
