# SPDX-License-Identifier: Apache-2.0
"""`PreparedRun`: a run that is repeated, whose arrays and tables are made once, in one call of native code."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from ...backends.numba.uninterrupted import uninterrupted
from ..engine import Engine, Repeated, check_whole
from ..plan.plan import Plan
from ..run.finite import check_finite, check_synapses
from ..run.recorded import Recorded, RecordedStep, Wanted
from .memory import Memory
from .recording import Recording
from .runs import LEG_SECONDS, Alone, Runs
from .tables import FINITE, NOT_FINITE, Table, address

__all__ = ["PreparedRun"]

Array = Any
_THREADS_PAY = 1e-3  # seconds of a run in one thread
_MEASURED = 3  # calls of native code after which the time of a step is known


class HasMemory(Engine, Protocol):
    """An engine whose memory is held by a lock, and may be replaced."""

    plan: Plan
    lock: threading.Lock

    @property
    def memory(self) -> Memory:
        """The memory of now."""


class PreparedRun:
    """A `Prepared` of `NumbaEngine`.

    All parts run in the thread of the caller, unless that takes so long that it is worth while to start others.
    """

    def __init__(self, engine: HasMemory, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]):
        self._engine, self._steps, self._wanted, self._inputs = engine, steps, wanted, inputs
        self._in_threads = Repeated(engine, steps, wanted, inputs)
        self._in_parts = engine.plan.parts > 1
        self._memory: Memory | None = None  # for which the tables were made
        self._leg, self._calls, self._fastest = 1, 0, math.inf  # steps of a call, calls, seconds of a step

    def run(self) -> Recorded | None:
        """Run the steps; return what they recorded, or None if an input is not finite: then nothing ran."""
        if self._in_parts and self._threads_pay():
            return self._in_threads.run()
        with self._engine.lock:
            memory = self._followed()
            first, turn = memory.step, 0
            while 0 <= turn < self._steps:
                self._recording.make_room()
                turn = self._drive(memory, turn, min(self._steps, turn + self._leg))
            return None if turn < 0 else self._recording.recorded_apart(first)

    def step(self) -> RecordedStep | None:
        """Run the only step."""
        if self._in_parts and self._threads_pay():
            return self._in_threads.step()
        engine = self._engine
        with engine.lock:
            memory = engine.memory
            if memory is not self._memory or memory.fed_by is not self or memory.fresh or memory.torn:
                memory = self._followed()
            if (self._drive(memory, 0, 1) if self._in_parts else self._alone.drive(0, 1)) < 0:
                return None
            if not memory.settled or self._alone.why & NOT_FINITE:
                self._after(memory)
            return self._recording.of_one_step()

    def _threads_pay(self) -> bool:
        """Say whether threads run the steps sooner, once it is known how long they take."""
        return self._fastest * self._steps > _THREADS_PAY and self._calls >= _MEASURED

    def _followed(self) -> Memory:
        """Return the memory of now; tables follow from it."""
        memory = self._engine.memory
        check_whole(memory.torn)
        if memory is not self._memory:
            self._memory = None
            self._recording = Recording(memory, self._steps, self._wanted)
            self._recording.make_room()
            self._runs = Runs(memory, self._recording)
            self._alone = Alone(self._runs, self._given())
            self._memory = memory
        if memory.fed_by is not self:
            memory.give(self._inputs)
            self._runs.follow_updates()
            memory.fed_by = self
        memory.flush()
        return memory

    def _drive(self, memory: Memory, turn: int, end: int) -> int:
        """Run native code from a turn to another; return the turn it came to, or -1 if an input is not finite.

        Native code counts the steps, so after an exception, also one that a signal raises, the state is a whole one.
        """
        began = time.perf_counter()
        came = self._alone.drive(turn, end)
        if came < 0:
            return came
        seconds = max(time.perf_counter() - began, 1e-9)
        self._leg = max(1, min(int((came - turn) * LEG_SECONDS / seconds), 8 * self._leg))
        self._calls, self._fastest = self._calls + 1, min(self._fastest, seconds / (came - turn))
        self._after(memory)
        return came

    def _after(self, memory: Memory) -> None:
        """Do what native code left: give the ring the slots that are needed, and say what is not finite."""
        if not memory.settled:
            with uninterrupted():
                memory.settle()
        if self._alone.why & NOT_FINITE:
            check_finite(memory.plan, memory.step - 1, memory.neurons)
            check_synapses(memory.step - 1, memory.faults())

    def _given(self) -> list[Table]:
        """Return the tables of inputs, which native code checks."""
        return [
            Table(
                FINITE._fields, dict(zip(FINITE._fields, (address(array), array.size, array.itemsize, 0), strict=True))
            )
            for array in self._inputs.values()
        ]
