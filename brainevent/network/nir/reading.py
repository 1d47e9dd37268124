# SPDX-License-Identifier: Apache-2.0
"""`from_nir`: the network that a NIR graph describes."""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from ..description.checks import is_number
from ..description.coupling import Coupling
from ..description.populations import Population, Projection, Value
from ..description.units import plain
from .factors import METHODS, params_of
from .linear import Folded, Signal, Steps
from .network import NIRNetwork
from .nodes import NEURONS, Node, all_nodes
from .package import graph_of_file
from .rules import EVENTS, INPUT, OUTPUT, WAIT, history_name, node_rule, sent_state, spikes
from .shapes import Shape, all_shapes
from .timing import Timing

__all__ = ["from_nir"]

_MOST_HISTORY = 64  # steps
_FINE = 2**26  # quanta in the largest sum: finer than float32, with room for weights that are set later

Graph = Any  # a nir.NIRGraph, or the path of a file of one
Terms = list[tuple[int, Any]]  # delays in steps of the graph, and matrices (targets, sources)


def from_nir(
    graph: Graph,
    *,
    dt: Value = 0.1,
    method: str = "euler",
    input_range: tuple[float, float] | None = None,
    round_delays: bool = False,
) -> NIRNetwork:
    """Return the network that a graph of the Neuromorphic Intermediate Representation describes.

    Nodes with a state become populations of the same name, in which characters that names cannot have become `_`.
    Linear nodes between them become synapses, and biases a parameter `bias` of the neurons. Times of NIR are in
    seconds, those of the network in ms.

    Args:
        graph: A `nir.NIRGraph`, or the path of a file of one.
        dt: Time step, in ms.
        method: "euler" integrates by Euler steps, in which a current acts in the step in which it arrives, as Norse and
            snnTorch do. "exact" is the exact solution for an input that is constant within each step.
        input_range: None takes inputs of any value, and adds their products with weights up in every step. With the
            smallest and the largest value of inputs, such as (0, 1), inputs that are not 0 are events: quicker where
            most are 0, and others than 0 and 1 are rounded as graded spikes are.
        round_delays: Whether delays that are not multiples of the step are rounded; else they raise an error.

    Returns:
        A `NIRNetwork`: a `Network` that also knows inputs, outputs and latencies.

    Raises:
        NetworkError: A node cannot be run, a file cannot be read, or an argument is wrong; the message names it.
        ModuleNotFoundError: The graph is a path, and the package nir is not installed.

    Examples:
        >>> import brainevent, numpy
        >>> import nir
        >>> lif = nir.LIF(*(numpy.full(2, value) for value in (0.01, 1.0, 0.0, 0.5)))
        >>> graph = nir.NIRGraph.from_list(nir.Affine(numpy.eye(2), numpy.array([0.0, 1.0])), lif)
        >>> simulation = brainevent.from_nir(graph).build(threads=1)
        >>> simulation.run(200, record=["lif.counts"])["lif.counts"]
        array([0, 2], dtype=int32)
    """
    dt = plain("from_nir: dt", dt, "ms")
    if not is_number(dt) or not (math.isfinite(dt) and dt > 0):
        raise NetworkError(f"from_nir: dt is {dt!r}; pass a positive number of ms")
    if method not in METHODS:
        raise NetworkError(
            f"from_nir: method is {method!r}{did_you_mean(str(method), METHODS)}; pass 'euler' or 'exact'"
        )
    if not isinstance(round_delays, bool):
        raise NetworkError(f"from_nir: round_delays is {round_delays!r}; pass True or False")
    if isinstance(graph, (str, os.PathLike)):
        graph = graph_of_file(graph)
    nodes, edges = all_nodes(graph)
    shapes = all_shapes(nodes, edges)
    return _Reading(
        nodes, shapes, Folded(nodes, edges, shapes, Steps(float(dt), round_delays)), method, input_range
    ).made()


class _Reading:
    """Makes the populations and synapses of one graph."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        shapes: Mapping[str, tuple[Shape, Shape]],
        folded: Folded,
        method: str,
        input_range: tuple[float, float] | None,
    ):
        self.method, self.dt, self.input_range = method, folded.steps.dt, input_range
        arriving = {
            name: folded.arriving(name) for name, node in nodes.items() if node.kind in (*NEURONS, "Input", "Output")
        }
        self.alias = {
            name: source
            for name, node in nodes.items()
            if node.kind == "Output" and (source := _unchanged(arriving[name])) is not None
        }
        self.nodes = {name: nodes[name] for name in arriving if name not in self.alias}
        self.sizes = {name: math.prod(shapes[name][0]) for name in self.nodes}
        self.arriving = {name: arriving[name] for name in self.nodes}
        self.terms: dict[tuple[str, str], Terms] = defaultdict(list)  # by source and target
        for target, signal in self.arriving.items():
            for (source, delay), matrix in signal.terms.items():
                matrix.eliminate_zeros()
                if matrix.nnz:
                    self.terms[source, target].append((delay, matrix))
        self.timing = Timing([*self.nodes], {edge: [delay for delay, _ in terms] for edge, terms in self.terms.items()})
        self.names = _population_names([*self.nodes])

    def made(self) -> NIRNetwork:
        """Return the network."""
        history = self._histories()
        populations = {name: self._population(node, history[name]) for name, node in self.nodes.items()}
        links = [link for edge, terms in self.terms.items() for link in self._links(populations, edge, terms)]
        latency = dict(self.timing.latency)
        outputs = {name: name for name, node in self.nodes.items() if node.kind == "Output"} | self.alias
        return NIRNetwork(
            tuple(populations.values()),
            tuple(link for link in links if isinstance(link, Projection)),
            self.dt,
            couplings=tuple(link for link in links if isinstance(link, Coupling)),
            inputs={name: f"{self.names[name]}.x" for name, node in self.nodes.items() if node.kind == "Input"},
            outputs={name: self._label(source) for name, source in outputs.items()},
            latency=latency | {name: latency[source] for name, source in self.alias.items()},
            quanta={f"{self.names[name]}.input": quantum for name in self.nodes if (quantum := self._quantum(name))},
        )

    def _kind(self, name: str) -> str:
        kind = self.nodes[name].kind
        if kind == "Input":
            return INPUT if self.input_range is None else EVENTS
        return OUTPUT if kind == "Output" else kind

    def _label(self, name: str) -> str:
        kind = self._kind(name)
        sent = "spikes" if spikes(kind) and kind != EVENTS else sent_state(kind)
        return f"{self.names[name]}.{sent}"

    def _histories(self) -> dict[str, int]:
        """Return of how many steps before the last one each node keeps what it sent, for couplings with a delay."""
        found = dict.fromkeys(self.nodes, 0)
        for (source, target), terms in self.terms.items():
            if spikes(self._kind(source)):
                continue
            age = max(self.timing.in_network(source, target, delay) for delay, _ in terms) - 1
            if age > _MOST_HISTORY:
                raise NetworkError(
                    f"{self.nodes[source].where}: sends values, which arrive at {target} {age + 1} steps later, but "
                    f"values can be delayed by at most {_MOST_HISTORY + 1} steps; pass a larger dt"
                    + (", or input_range=" if self._kind(source) == INPUT else "")
                )
            found[source] = max(found[source], age)
        return found

    def _population(self, node: Node, history: int) -> Population:
        name, size, kind = node.name, self.sizes[node.name], self._kind(node.name)
        if size == 0:
            raise NetworkError(f"{node.where}: has no elements: its shape has a 0; leave it out")
        rule = node_rule(kind, self.method, history)
        if kind in (INPUT, EVENTS):
            state = {history_name(kind, age): 0.0 for age in range(history + 1)}
            limits = self.input_range if kind == EVENTS else None
            return Population(self.names[name], size, rule, state, value_range=limits)
        params = {} if kind == OUTPUT else params_of(node, size, self.method, self.dt)
        begin = params.get("v_leak", 0.0)  # at rest
        state = {} if kind == "Threshold" else {history_name(kind, age): begin for age in range(history + 1)}
        state |= {"i": 0.0} if kind.startswith("Cuba") else {}
        bias = self.arriving[name].constant
        params["bias"] = bias if (bias != bias[0]).any() else bias[0]
        return Population(self.names[name], size, rule, {**state, WAIT: self.timing.latency[name]}, params)

    def _links(
        self, populations: Mapping[str, Population], edge: tuple[str, str], terms: Terms
    ) -> list[Projection | Coupling]:
        """Return the synapses from one node to another: of spikes for all delays, of values for each delay."""
        from ...event.matrices.coo import COO

        source, target = edge
        kind = self._kind(source)
        delays = [self.timing.in_network(source, target, delay) for delay, _ in terms]
        ends = populations[source], populations[target]
        if not spikes(kind):
            return [
                Coupling(*ends, matrix.T.tocsr(), of=history_name(kind, delay - 1), into="input")
                for delay, (_, matrix) in sorted(zip(delays, terms, strict=True), key=lambda one: one[0])
            ]
        parts = [matrix.tocoo() for _, matrix in terms]
        weights, targets, sources = (
            np.concatenate([getattr(part, what) for part in parts]) for what in ("data", "row", "col")
        )
        each = np.repeat(delays, [part.nnz for part in parts]) * self.dt
        matrix = COO((weights.astype(np.float32), sources, targets), shape=(ends[0].size, ends[1].size))
        return [Projection(*ends, matrix, into="input", delay=each if len(delays) > 1 else delays[0] * self.dt)]

    def _quantum(self, name: str) -> float | None:
        """Return the power of two to which weights of spikes into a node are rounded; None if there are none."""
        sums = np.zeros(self.sizes[name])
        for (source, target), terms in self.terms.items():
            kind = self._kind(source)
            if target == name and spikes(kind):
                most = max(abs(end) for end in self.input_range or ()) if kind == EVENTS else 1
                sums += sum(abs(matrix).sum(1) for _, matrix in terms) * most
        largest = float(sums.max(initial=0))
        return 2.0 ** math.ceil(math.log2(largest / _FINE)) if largest > 0 else None


def _unchanged(signal: Signal) -> str | None:
    """Return the name of the node of which a signal is what it sends in the same step; None if it is something else."""
    if len(signal.terms) != 1 or signal.constant.any():
        return None
    (((name, delay), matrix),) = signal.terms.items()
    size = matrix.shape[0]
    same = matrix.shape == (size, size) and matrix.nnz == size and (matrix.diagonal() == 1).all()
    return name if same and delay == 0 else None


def _population_names(names: list[str]) -> dict[str, str]:
    """Return names of populations, which have no spaces and no characters . # and >."""
    found: dict[str, str] = {}
    for name in names:
        base = re.sub(r"[\s.#>]", "_", name) or "_"
        known, number, word = set(found.values()), 1, base
        while word in known:
            number += 1
            word = f"{base}_{number}"
        found[name] = word
    return found
