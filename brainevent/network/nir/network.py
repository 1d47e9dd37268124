# SPDX-License-Identifier: Apache-2.0
"""`NIRNetwork`: a network that a NIR graph describes, and where its nodes are in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..description.network import Network
from ..description.populations import Value

if TYPE_CHECKING:
    from ..run.simulation import Simulation

__all__ = ["NIRNetwork"]


@dataclass(frozen=True, eq=False, repr=False)
class NIRNetwork(Network):
    """A network made by `from_nir`: as any other `Network`, with the names of the graph.

    Args:
        populations: As for `Network`.
        projections: As for `Network`.
        dt: As for `Network`.
        couplings: As for `Network`.
        inputs: For each Input, the receptor that `inputs=` of a run names.
        outputs: For each Output, what `record=` of a run names.
        latency: For each node that is a population and each Output, in which step it does the first step of the graph.
        quanta: What `build` rounds weights to, by receptor, if it is not told otherwise: a 2**26th of the largest sum
            of weights into a neuron, or less.

    Examples:
        >>> import brainevent, numpy
        >>> import nir
        >>> lif = nir.LIF(*(numpy.full(3, value) for value in (0.01, 1.0, 0.0, 0.5)))
        >>> graph = nir.NIRGraph.from_list(nir.Linear(numpy.eye(3)), lif)
        >>> network = brainevent.from_nir(graph)
        >>> network.inputs, network.outputs, network.latency
        ({'input': 'input.x'}, {'output': 'lif.spikes'}, {'input': 0, 'lif': 1, 'output': 1})
    """

    inputs: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    outputs: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    latency: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    quanta: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    def build(self, seed: int = 0, *, quantum: Value | Mapping[str, Value] | None = None, **options: Any) -> Simulation:
        """Return a simulation, as `Network.build` does, with weights that are rounded as little as floats are.

        Args:
            seed: As for `Network.build`.
            quantum: As for `Network.build`; None takes `quanta`.
            options: All others of `Network.build`.

        Returns:
            The simulation, before its first step.
        """
        return super().build(seed, quantum=(self.quanta or None) if quantum is None else quantum, **options)
