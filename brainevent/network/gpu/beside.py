# SPDX-License-Identifier: Apache-2.0
"""`Beside`: several networks on one GPU side by side, each on blocks of its own, in launches that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...backends.numba.uninterrupted import uninterrupted
from ...errors import NetworkError
from ..engine import Stopped, never
from ..plan.plan import Plan
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState
from .device import Memory, held
from .engine import CudaEngine
from .run import Run
from .spikes import SpikeRoom

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
        first, device = engine.beside(engine.plan, elements, blocks), engine.device
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
        engine.take(plan, params, state, next((o for o in self.engines if o.plan.has_synapses_of(plan)), None))
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
        last: dict[Run, tuple[int, int, SpikeRoom]] = {}  # launches whose spikes are read while the next ones run
        while not stopped():
            with uninterrupted():
                going = []
                for engine, run in zip(engines, runs, strict=True):
                    room = run.next_room([last[run][2]] if run in last else []) if run.goes_on else None
                    if room is not None:
                        going.append((engine, run, room))
                for some in _alike(going):
                    held_here = self._launch(some)
                    _take(last, [run for _, run, _ in some])
                    last |= {run: run.ran(room) for _, run, room in some}
                    del held_here
            if not going:
                break
        with uninterrupted():
            _take(last, list(last))
        return [run.recorded() for run in runs]

    def _launch(self, going: Sequence[tuple[CudaEngine, Run, SpikeRoom]]) -> Memory:
        """Launch a kernel that all of these have; return memory that must live until it has ended."""
        engine = going[0][0]
        described = [run.described(room) for _, run, room in going]
        stacked = np.stack([net for net, _ in described])
        stacked["networks"] = np.arange(len(going), 0, -1)
        nets = held(self.device, stacked, "what blocks of networks share")
        kernel, blocks, threads, _ = engine.launched
        shared = max(one.launched[3] for one, _, _ in going)
        parameters = [
            np.uint64(nets.address).tobytes(),
            np.uint32(0).tobytes(),
            np.uint32(max(steps for _, steps in described)).tobytes(),
        ]
        clustered = engine.is_clustered
        self.device.launch(
            kernel, blocks * len(going), threads, shared, parameters, at_once=not clustered, clustered=clustered
        )
        return nets


def _take(last: dict[Run, tuple[int, int, SpikeRoom]], runs: Sequence[Run]) -> None:
    """Take the spikes of the last launches of some runs."""
    for run in runs:
        if run in last:
            run.recording.take(*last.pop(run))


def _alike(
    going: Sequence[tuple[CudaEngine, Run, SpikeRoom]],
) -> list[list[tuple[CudaEngine, Run, SpikeRoom]]]:
    """Return those that one launch can run together, which may differ in how much shared memory they need."""
    groups: list[list[tuple[CudaEngine, Run, SpikeRoom]]] = []
    for one in going:
        same = (group for group in groups if group[0][0].launched[:3] == one[0].launched[:3])
        if (group := next(same, None)) is None:
            groups.append([one])
        else:
            group.append(one)
    return groups
