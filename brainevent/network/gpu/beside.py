# SPDX-License-Identifier: Apache-2.0
"""`Beside`: several networks on one GPU side by side, each on blocks of its own, in launches that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ...backends.numba.uninterrupted import uninterrupted
from ...errors import NetworkError
from ..engine import Stopped, never
from ..plan.plan import Plan
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState
from .device import held
from .engine import CudaEngine, Run
from .shape import blocks_beside
from .spikes import SpikeRoom
from .text import kinds_of

__all__ = ["Beside"]

Array = Any
Inputs = Mapping[tuple[str, str], Array]


class Beside:
    """Engines for networks that differ in keys, weights, quanta and parameters alone.

    Args:
        engine: The engine of one of them.
        elements: How many networks there are to run; fewer may run at once.
        blocks: How many blocks each has; None for what suits their number.
    """

    def __init__(self, engine: CudaEngine, elements: int, blocks: int | None = None):
        plan, device, options = engine.plan, engine.device, engine.options
        asked = options["blocks"] if blocks is None else blocks
        count = _blocks(engine, plan, elements) if asked is None else asked
        first = CudaEngine(plan, blocks=count, shared_bytes=options["shared_bytes"], device=device, beside=True)
        self.device, self.engines = device, [first]
        width = max(1, min(elements, device.networks_at_once(*first.launched, clustered=first.is_clustered)))
        try:
            while len(self.engines) < width:
                self.engines.append(first.sibling())
        except NetworkError:  # memory is full: fewer run at once
            pass

    @property
    def units(self) -> str:
        """What runs the networks, in words."""
        return f"{len(self.engines)} networks at once, each on {self.engines[0].units}"

    def take(
        self, number: int, plan: Plan, params: Mapping[str, Mapping[str, Array]], state: NetworkState
    ) -> CudaEngine:
        """Return the engine of a number, with a network in it, before a state; equal synapses are shared."""
        engine = self.engines[number]
        engine.take(plan, params, state, next((o for o in self.engines if o.plan.synapses is plan.synapses), None))
        return engine

    def run(
        self,
        engines: Sequence[CudaEngine],
        steps: int,
        wanted: Wanted,
        inputs: Sequence[Inputs],
        stopped: Stopped = never,
    ) -> list[Recorded]:
        """Run steps of some of the engines, all at once; return what each recorded."""
        runs = [engine.begun(steps, wanted, given) for engine, given in zip(engines, inputs, strict=True)]
        pairs = list(zip(engines, runs, strict=True))
        while not stopped():
            with uninterrupted():
                rooms = [(engine, run, run.next_room()) for engine, run in pairs if run.goes_on]
                going = [(engine, run, room) for engine, run, room in rooms if room is not None]
                if not going:
                    break
                for some in _alike(going):
                    self._launch(some)
        return [run.recorded() for run in runs]

    def _launch(self, going: Sequence[tuple[CudaEngine, Run, SpikeRoom]]) -> None:
        """Launch a kernel that all of these have, and wait for it."""
        engine = going[0][0]
        described = [run.described(room) for _, run, room in going]
        nets = held(self.device, np.stack([net for net, _ in described]), "what blocks of networks share")
        kernel, blocks, threads, shared = engine.launched
        parameters = [
            np.uint64(nets.address).tobytes(),
            np.uint32(0).tobytes(),
            np.uint32(max(steps for _, steps in described)).tobytes(),
        ]
        how = {"at_once": not engine.is_clustered, "clustered": engine.is_clustered}
        self.device.launch(kernel, blocks * len(going), threads, shared, parameters, **how)
        for _, run, room in going:
            run.recording.take(*run.ran(room))


def _alike(
    going: Sequence[tuple[CudaEngine, Run, SpikeRoom]],
) -> Iterator[list[tuple[CudaEngine, Run, SpikeRoom]]]:
    """Yield those that one launch can run."""

    def key(one: tuple[CudaEngine, Run, SpikeRoom]) -> Any:
        kernel, *launch = one[0].launched
        return getattr(kernel, "value", None) or id(kernel) if not isinstance(kernel, int) else kernel, *launch

    for _, some in groupby(sorted(going, key=key), key):
        yield list(some)


def _blocks(engine: CudaEngine, plan: Plan, elements: int) -> int:
    kinds, numbers, _ = kinds_of(plan, {p.name: dict(p.params) for p in plan.populations})
    inside = engine.rows.block_words * 4 * engine.partition.blocks if engine.shape.structure.rows_in_block else 0
    most = engine.options["shared_bytes"] or engine.device.shared_bytes
    alone = engine.partition.blocks
    return blocks_beside(plan, kinds, numbers, alone, elements, engine.device.multiprocessors, inside, most)
