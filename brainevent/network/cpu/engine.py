# SPDX-License-Identifier: Apache-2.0
"""`NumbaEngine`: a network in native code on the CPU, one thread for each part of its plan."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..engine import Prepared, Stopped, check_whole, input_rows, never
from ..plan.plan import Plan
from ..run.finite import check_finite
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState
from .memory import Memory
from .prepared import PreparedRun
from .recording import Recording
from .runs import Legs

__all__ = ["NumbaEngine"]

Array = Any


class NumbaEngine:
    """An `Engine` for the CPU. Several engines run at once; one that runs lets other threads wait.

    Ctrl-C is held back within a step, so another run goes on from a whole one.
    """

    paces_itself = False

    def __init__(self, plan: Plan):
        self.plan = plan
        self.memory, self.lock = Memory(plan), threading.Lock()

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self.memory.step

    @property
    def state(self) -> NetworkState:
        """The state before the next step, copied."""
        with self._whole() as memory:
            return memory.state

    @property
    def runner(self) -> Any:
        """What runs the components of this network in `simulate`."""
        from ..training.cpu.engine import CpuLoops
        from ..training.runner import NativeRunner

        return NativeRunner(CpuLoops())

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""
        with self.lock:
            self.memory.load(state)

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter."""
        with self.lock:
            self.memory.set(population, param, value)

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with the weights of a plan that differs in nothing else, and from a state in its quanta."""
        with self._whole() as memory:
            self.memory, self.plan = memory.with_weights(plan, state), plan

    def run(
        self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array], stopped: Stopped = never
    ) -> Recorded:
        """Run steps."""
        given = {place: input_rows(self.plan, place, array, steps) for place, array in inputs.items()}
        with self._whole() as memory:
            memory.give(given)
            memory.flush()
            recording = Recording(memory, steps, wanted)
            full = ""
            try:
                for step in Legs(memory, recording, stopped):
                    check_finite(self.plan, step, memory.neurons)
            except MemoryError:
                if memory.torn or memory.step == recording.first:
                    raise
                full = "memory is full: there is no room for more spikes"
            return recording.recorded(memory.step - recording.first, full)

    def prepared(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Prepared:
        """Return a run that is repeated."""
        return PreparedRun(self, steps, wanted, inputs)

    @contextmanager
    def _whole(self) -> Iterator[Memory]:
        """Hold the memory, which is between two steps."""
        with self.lock:
            check_whole(self.memory.torn)
            yield self.memory
