# SPDX-License-Identifier: Apache-2.0
"""`OwnOnCpus`: what one process owns of a network, in its memory, run by its threads."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ..cpu.exchange import Exchange
from ..cpu.memory import Memory
from ..cpu.recording import Recording
from ..cpu.runs import Legs
from ..plan.owned import Sharing, own_plan
from ..plan.plan import Plan, SynapsePlan
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState, copied
from .owned import FAILED, FULL, NOT_FINITE, OwnRun
from .processes import Processes
from .shares import Shares

__all__ = ["OwnOnCpus"]

Array = Any


class OwnOnCpus:
    """What one process owns, as `Own` describes it."""

    name = "numba"
    said_of_sweeps = "elements of sweeps run side by side, one a thread, in each process, with all synapses"

    def __init__(self, plan: Plan, shares: Shares, processes: Processes, sharing: Sharing):
        self._shares, self._processes, self._sharing = shares, processes, sharing
        self._plan = own_plan(plan, sharing)
        self.least_delays = [_least_from_afar(one, self._plan) for one in self._plan.synapses]
        self._room = 0

    @property
    def sizes(self) -> tuple[int, int]:
        """How many bytes the synapses take, and how many threads there are."""
        return sum(one.nbytes for one in self._plan.synapses), self._plan.parts

    @staticmethod
    def units(numbers: Array) -> str:
        """What runs each process, in words, given how many threads each has."""
        if (numbers == numbers[0]).all():
            return f"{numbers[0]} thread{'' if numbers[0] == 1 else 's'}"
        return f"{numbers.min()} to {numbers.max()} threads"

    most_apart, said, sharers = 2**31, "", "processes"

    def join(self, crossing: Sequence[str], apart: int) -> None:
        """Take memory; spikes of some populations are exchanged every so many steps."""
        self._crossing, self._apart = crossing, apart
        self._use(Memory(self._plan, apart=apart))

    def _use(self, memory: Memory) -> None:
        self._memory = memory
        shares = self._shares
        self._exchange = Exchange(memory, self._crossing, shares.number, shares.count, self._room)

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self._memory.step

    @property
    def state(self) -> NetworkState:
        """The state of own neurons, among those of all."""
        return self._memory.state

    def load(self, state: NetworkState) -> None:
        """Go on from a state of the whole network."""
        self._memory.load(copied(self._plan, state))

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter of a whole population."""
        self._memory.set(population, param, value)

    def with_weights(self, plan: Plan, state: NetworkState) -> OwnOnCpus:
        """Return the same with the weights of a plan, and a state in its quanta; nothing changes here."""
        other = copy.copy(self)
        other._plan, other._room = own_plan(plan, self._sharing), self._exchange.room
        other._use(self._memory.with_weights(other._plan, state))
        return other

    def give_up(self, plan: Plan) -> None:
        """Do nothing: what this was made from has memory of its own."""

    def begin(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> RunOnCpus:
        """Begin a run of some steps."""
        self._memory.give(inputs)
        self._memory.flush()
        return RunOnCpus(self._memory, steps, wanted, self._apart)

    def ahead(self, run: OwnRun, done: int, steps: int) -> int:
        """Run nothing: each exchange is looked at."""
        del run, steps
        return done

    def told(self, begin: int, end: int, status: int) -> list[int]:
        """Exchange the spikes of some steps; return the status of each process."""
        return self._exchange.all_told(begin, end, status, self._processes.gathered, FAILED)


class RunOnCpus:
    """A run, as `OwnRun` describes it."""

    def __init__(self, memory: Memory, steps: int, wanted: Wanted, apart: int):
        self._recording, self._apart = Recording(memory, steps, wanted), apart
        self._recording.make_room(apart)
        self._legs = Legs(memory, self._recording, alone=memory.plan.parts == 1)

    @property
    def turn(self) -> int:
        """How many steps ran."""
        return self._legs.turn

    def until(self, turn: int, begin: int) -> int:
        """Run until so many steps have been; return a status."""
        del begin
        status = 0
        for _ in self._legs.until(turn):
            status |= NOT_FINITE
        return status | FULL * _is_full(self._recording, self._apart)

    def recorded(self) -> Recorded:
        """Return what was recorded of own neurons, among all."""
        return self._recording.recorded(self._legs.turn)


def _least_from_afar(synapses: SynapsePlan, own: Plan) -> int:
    """Return the least delay of synapses whose sources other processes own; 0 if there are none."""
    low, high = own.owned[synapses.source]
    before, after = (int(synapses.starts[edge * own.parts]) for edge in (low, high))
    if before == 0 and after == synapses.targets.size:
        return 0
    if synapses.delays.size == 1:
        return int(synapses.delays[0])
    return min(int(some.min()) for some in (synapses.delays[:before], synapses.delays[after:]) if some.size)


def _is_full(recording: Recording, steps: int) -> bool:
    """Make room for the spikes of some steps more; say whether there is none."""
    try:
        recording.make_room(steps)
    except MemoryError:
        return True
    return False
