# SPDX-License-Identifier: Apache-2.0
"""`NumbaEngine`: a network in native code on the CPU, one thread for each part of its plan."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..calls.rebuilds import Rebuilds
from ..engine import Prepared, Stopped, check_whole, input_rows, never
from ..plan.plan import Plan
from ..run.finite import check_finite, check_synapses
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState, copied, initial_state
from .memory import Memory
from .prepared import PreparedRun
from .pure import Resident, simulated
from .recording import Recording
from .runs import Legs

__all__ = ["NumbaEngine"]

Array = Any


class NumbaEngine:
    """An `Engine` for the CPU. Several engines run at once; one that runs lets other threads wait.

    Ctrl-C is held back within a step, so another run goes on from a whole one. Its memory, and the code of runs, are
    made for the first run: training needs neither.

    Args:
        plan: The network.
        alone: Whether the thread of the caller runs all parts of the plan.
    """

    name = "numba"
    paces_itself = False

    def __init__(self, plan: Plan, *, alone: bool = False):
        self.plan, self._alone = plan, alone
        self._resident: Resident | None = None
        self._memory: Memory | None = None
        self._start, self._params = initial_state(plan), dict[tuple[str, str], Array]()  # until there is a memory
        self.lock, self.rebuilds = threading.Lock(), Rebuilds()

    @property
    def memory(self) -> Memory:
        """The arrays and tables of runs."""
        if self._memory is None:
            memory = Memory(self.plan)
            for place, value in self._params.items():
                memory.set(*place, value)
            memory.load(self._start)
            self._memory = memory
            del self._start, self._params
        return self._memory

    @property
    def resident(self) -> Resident:
        """What programs of `simulate` share, with the weights of now."""
        if self._resident is None or self._resident.plan is not self.plan:
            self._resident = Resident(self.plan)
        return self._resident

    def resident_of(self, plan: Plan) -> Resident:
        """Return the same for a plan that differs in weights and quanta alone."""
        return Resident(plan)

    def simulated(self, starts: Sequence[Any], steps: int, wanted: Wanted) -> list[Any]:
        """Run some steps in JAX's program from each of several starts: resident, state, parameters, inputs and keys."""
        residents = [start[0] for start in starts]
        if len(starts) == 1:
            _, state, params, given, keys = starts[0]
            return [simulated(residents, state, params, steps, given, wanted, keys)]
        quanta = [start[1].quanta for start in starts]
        rest = [(dataclasses.replace(state, quanta=None), *others) for _, state, *others in starts]
        state, params, given, keys = jax.tree.map(lambda *x: jnp.stack(x), *rest)
        after, out = simulated(residents, state, params, steps, given, wanted, keys)
        each = [jax.tree.map(lambda x: x[k], (after, out)) for k in range(len(starts))]  # noqa: B023 - called at once
        return [(dataclasses.replace(one, quanta=own), out) for (one, out), own in zip(each, quanta, strict=True)]

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return int(self._start.step) if self._memory is None else self._memory.step

    @property
    def state(self) -> NetworkState:
        """The state before the next step, copied."""
        with self.lock:
            if self._memory is None:
                return copied(self.plan, self._start)
            check_whole(self._memory.torn)
            return self._memory.state

    @property
    def runner(self) -> Any:
        """What runs the components of this network in `simulate`."""
        from ..training.cpu.engine import CpuLoops
        from ..training.runner import NativeRunner

        return NativeRunner(CpuLoops())

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""
        with self.lock:
            if self._memory is None:
                self._start = copied(self.plan, state)
            else:
                self._memory.load(state)

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter."""
        with self.lock:
            if self._memory is None:
                self._params[population, param] = np.array(value)
            else:
                self._memory.set(population, param, value)

    def set_keys(self, plan: Plan) -> None:
        """Draw random numbers with the keys of a plan that differs in them, in states and parameters alone."""
        with self.lock:
            self.memory.set_keys(plan)
            self.plan = plan

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with the weights of a plan that differs in nothing else, and from a state in its quanta."""
        with self.lock:
            if self._memory is None:
                self._start = copied(plan, state)
            else:
                check_whole(self._memory.torn)
                self._memory = self._memory.with_weights(plan, state)
            self.plan = plan

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
                for step in Legs(memory, recording, stopped, alone=self._alone):
                    check_finite(self.plan, step, memory.neurons)
                    check_synapses(step, memory.faults())
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
