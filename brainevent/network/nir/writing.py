# SPDX-License-Identifier: Apache-2.0
"""`to_nir`: the NIR graph of a network."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.coupling import Coupling
from ..description.network import Network
from ..description.populations import Projection
from ..run.simulation import Simulation
from .network import NIRNetwork
from .neurons import Neurons, method_of, neurons_of
from .package import nir_package
from .timing import Timing

__all__ = ["to_nir"]

_MOST_WEIGHTS = 2**28  # of one matrix, which NIR stores with its zeros: 1 GiB

Array = Any
Graph = Any  # a nir.NIRGraph
Edge = tuple[str, str]


def to_nir(network: Network | Simulation, *, seed: int = 0) -> Graph:
    """Return the NIR graph of a network: `from_nir` with the same `dt` and `method` makes one with the same spikes.

    Populations that `from_nir` made can be written, and those of `be.models.lif_delta` without a refractory time, which
    need `method="exact"`, and `be.models.relay`. Synapses become matrices with all their zeros, since NIR has no sparse
    ones. Each delay of more steps than `from_nir` would take anyway becomes a Delay. A network that `from_nir` did not
    make gets an Input and an Output for each population.

    Args:
        network: A network, or a simulation of one, whose parameters and weights of now are written.
        seed: With which the synapses and values of a network are drawn.

    Returns:
        A `nir.NIRGraph`, for `nir.write`.

    Raises:
        NetworkError: NIR cannot represent a population or projection; the message names it.
        ModuleNotFoundError: The package nir is not installed.

    Examples:
        >>> import brainevent
        >>> cells = brainevent.models.lif_delta("cells", 3, refractory=0)
        >>> ring = brainevent.Projection(cells, cells, [[0, 1, 0], [0, 0, 1], [1, 0, 0]], into="syn")
        >>> graph = brainevent.to_nir(brainevent.Network([cells], [ring]))
        >>> graph.nodes["cells"].tau
        array([0.02, 0.02, 0.02])
    """
    package = nir_package("to_nir")
    if isinstance(network, Network):
        network = network.build(seed, backend="interpreted")
    if not isinstance(network, Simulation):
        raise NetworkError(f"to_nir: network is {network!r}; pass a Network, or a Simulation that its build returned")
    return _Writing(network, package).made()


class _Writing:
    """Makes the nodes and edges of one network."""

    def __init__(self, simulation: Simulation, package: Any):
        self.simulation, self.package = simulation, package
        self.network: Network = simulation.network
        method, params = method_of(self.network.populations), simulation.params
        self.neurons = {
            population.name: neurons_of(population, params[population.name], method, self.network.dt)
            for population in self.network.populations
        }
        self.nodes: dict[str, Any] = {}
        self.edges: list[Edge] = []
        self.biased = {name: neurons.bias.any() for name, neurons in self.neurons.items()}

    def made(self) -> Any:
        """Return the graph."""
        for name, neurons in self.neurons.items():
            if neurons.kind in ("Input", "Output"):
                self.nodes[name] = getattr(self.package, neurons.kind)(np.array([neurons.size]))
            else:
                self.nodes[name] = getattr(self.package, neurons.kind)(**neurons.values)
        if not isinstance(self.network, NIRNetwork):
            self._add_inputs()
        weights = self._weights()
        timing = Timing([*self.neurons], {edge: [delay for delay, _ in terms] for edge, terms in weights.items()})
        for (source, target), terms in weights.items():
            for delay, matrix in terms:
                least = int(timing.in_loop(source, target))
                if delay < least:
                    raise NetworkError(
                        f"to_nir: synapses from {source} to {target} arrive {least - delay} steps too early to be a "
                        "part of a graph; let them take longer"
                    )
                self._connect(source, target, 0 if delay == least else delay, matrix)
        self._add_outputs()
        for name in (name for name, biased in self.biased.items() if biased):
            raise NetworkError(
                f"to_nir: population {name}: has a constant input, but no synapses, whose Affine could have it; "
                "let a projection or an input end there"
            )
        return self.package.NIRGraph(self.nodes, self.edges)

    def _add_inputs(self) -> None:
        for name, neurons in self.neurons.items():
            begin = self._named(f"input_{name}", self.package.Input(np.array([neurons.size])))
            self._connect(begin, name, 0, np.eye(neurons.size) if self.biased[name] else None)

    def _add_outputs(self) -> None:
        if not isinstance(self.network, NIRNetwork):
            for name, neurons in self.neurons.items():
                end = self._named(f"output_{name}", self.package.Output(np.array([neurons.size])))
                self.edges.append((name, end))
            return
        for name, recorded in self.network.outputs.items():
            source = recorded.rpartition(".")[0]
            if self.neurons[source].kind != "Output":
                end = self._named(name, self.package.Output(np.array([self.neurons[source].size])))
                self.edges.append((source, end))

    def _weights(self) -> dict[Edge, list[tuple[int, Array]]]:
        """Return for each pair of populations the delays in steps of the graph, and weights (targets, sources)."""
        found: dict[Edge, dict[int, Array]] = defaultdict(dict)
        names = [*self.network.projection_names, *self.network.coupling_names]
        links: list[Projection | Coupling] = [*self.network.projections, *self.network.couplings]
        for name, link in zip(names, links, strict=True):
            source, target = (self.neurons[end.name] for end in link.populations)
            _check_link(f"to_nir: {type(link).__name__.lower()} {name}", link, source)
            more = source.sent.index(link.of) if isinstance(link, Coupling) else 0
            if source.size * target.size > _MOST_WEIGHTS:
                raise NetworkError(
                    f"to_nir: projection {name} would be a matrix of {target.size} x {source.size} weights with its "
                    f"zeros; at most {_MOST_WEIGHTS} are written"
                )
            synapses = self.simulation.connections(name)
            steps = np.rint(synapses.delays / self.network.dt).astype(int) + more + source.latency - target.latency
            for delay in np.unique(steps):
                chosen = steps == delay
                at = (synapses.targets[chosen], synapses.sources[chosen])
                matrices = found[source.name, target.name]
                matrix = matrices.setdefault(int(delay), np.zeros((target.size, source.size)))
                np.add.at(matrix, at, synapses.weights[chosen])
        return {edge: sorted(matrices.items()) for edge, matrices in found.items()}

    def _connect(self, source: str, target: str, delay: int, matrix: Array | None) -> None:
        """Add nodes and edges that carry a matrix of weights, or all as it is, from one node to another."""
        neurons = self.neurons[target]
        way = [source]
        if delay:
            size = neurons.size if matrix is None else matrix.shape[1]
            node = self.package.Delay(np.full(size, delay * self.network.dt / 1000))
            way.append(self._named(f"{source}_delay", node))
        scale = np.broadcast_to(1 / np.asarray(neurons.scale), neurons.size)
        if matrix is None:
            if (scale != 1).any():
                way.append(self._named(f"{source}_to_{target}", self.package.Scale(scale.copy())))
        else:
            matrix = (matrix * scale[:, None]).astype(np.float32)
            if self.biased[target]:
                node = self.package.Affine(matrix, np.array(neurons.bias))
                self.biased[target] = False
            else:
                node = self.package.Linear(matrix)
            way.append(self._named(f"{source}_to_{target}", node))
        way.append(target)
        self.edges += itertools.pairwise(way)

    def _named(self, name: str, node: Any) -> str:
        """Add a node, and return its name: with a number if there is one of this name."""
        number, free = 1, name
        while free in self.nodes:
            number += 1
            free = f"{name}_{number}"
        self.nodes[free] = node
        return free


def _check_link(where: str, link: Projection | Coupling, source: Neurons) -> None:
    """Raise if NIR has nothing like some synapses."""
    if isinstance(link, Projection):
        if link.plasticity is not None:
            raise NetworkError(f"{where}: is plastic, and weights of NIR do not change; leave plasticity out")
    elif link.difference:
        raise NetworkError(f"{where}: carries a difference, as gap junctions do, which NIR has no node for")
    elif link.of not in source.sent:
        raise NetworkError(f"{where}: carries the state {link.of} of {source.name}, whose node sends spikes alone")
