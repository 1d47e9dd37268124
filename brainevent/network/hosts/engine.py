# SPDX-License-Identifier: Apache-2.0
"""`HostsEngine`: a network in several processes, each with the neurons that it owns and the synapses that end there."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...errors import NetworkError
from ..cpu.exchange import Exchange
from ..cpu.memory import Memory
from ..cpu.recording import Recording
from ..cpu.runs import Legs
from ..engine import Prepared, Repeated, Stopped, check_whole, input_rows, never
from ..plan.build import build_plan
from ..plan.owned import Sharing, own_plan
from ..plan.plan import Plan, SynapsePlan
from ..plan.threads import parts_for
from ..run.finite import check_finite
from ..run.recorded import Recorded, Wanted
from ..run.report import in_bytes
from ..state import NetworkState, copied, initial_state
from .gathering import Parts, whole_recording, whole_state
from .processes import Processes
from .shares import Shares, chosen_shares

__all__ = ["Hosts", "HostsEngine", "joined_hosts"]

_STOPPED, _FULL, _NOT_FINITE, _FAILED = 1, 2, 4, 8  # bits of what a process tells the others with its spikes
_MOST = 256  # steps between two exchanges: for so long a process may not hear that another one stopped

Array = Any


@dataclass(frozen=True, eq=False)
class Hosts:
    """The processes that run one network together, the neurons of each, and how its own synapses are drawn."""

    processes: Processes
    shares: Shares
    sharing: Sharing

    def plan_of(self, network: Any, *, seed: int, **how: Any) -> Plan:
        """Build the plan of a network, of which synapses are drawn again when somebody asks for them."""
        given = {"seed": seed, "dtype": how["dtype"], "check_finite": how["check_finite"], "hosts": self.shares.edges}

        def described(fingerprint: str) -> None:
            self.processes.agreed("build", {**given, "the network": fingerprint})

        return build_plan(network, seed=seed, parts=1, measure=self.sharing, described=described, **how)


def joined_hosts(hosts: Any, backend: str, network: Any, threads: int | None, *, round_delays: bool) -> Hosts:
    """Return the processes of `jax.distributed` for what `build(hosts=...)` asks for."""
    shares = chosen_shares(hosts, backend, network, round_delays=round_delays)
    return Hosts(Processes(), shares, Sharing(shares.own, parts_for(shares.neurons(shares.number), threads)))


class HostsEngine:
    """An `Engine` for the CPUs of several processes, each of which calls its methods in the same order.

    A process runs as many steps as the least delay of synapses between processes; then all of them gather the spikes of
    these steps. So no result depends on the number of processes.

    Args:
        plan: The network, the same in all processes, with descriptions of synapses.
        hosts: The processes.
    """

    name = "numba"
    paces_itself = True
    _memory: Memory
    _exchange: Exchange
    said_of_sweeps = "elements of sweeps run side by side, one a thread, in each process, with all synapses"

    def __init__(self, plan: Plan, *, hosts: Hosts):
        _check_kinds(plan)
        self.plan, self.processes, self.shares, self._sharing = plan, hosts.processes, hosts.shares, hosts.sharing
        self._lock, self._torn = threading.Lock(), False
        with self.processes.failing_together("build"):
            own = own_plan(plan, self._sharing)
            least = [_least_from_afar(one, own) for one in own.synapses]
        self._compare_delays(least)
        with self.processes.failing_together("build"):
            self._use(Memory(own, apart=self.apart))
            self._memory.load(initial_state(plan))
        sizes = [sum(one.nbytes for one in own.synapses), own.parts]
        self._sizes = self.processes.agreed("build", {}, sizes)[:, :2]

    def _compare_delays(self, own: Sequence[int]) -> None:
        """Find the least delay between processes, and whose spikes cross from one to another."""
        projections = self.plan.projections
        told = [np.array(own, np.int64)]
        found = self.processes.arrays_of_all("build", told, lambda _: [(np.int64, (len(projections),))])
        least = [int(some[some > 0].min(initial=2**31)) for some in np.array([arrays[0] for arrays in found]).T]
        self.least_delay = min(least, default=2**31)
        self.limits = [p.name for p, delay in zip(projections, least, strict=True) if delay == self.least_delay < 2**31]
        self._crossing = sorted({p.source for p, delay in zip(projections, least, strict=True) if delay < 2**31})
        checked = self.plan.check_finite or any(p.rule.value_range is not None for p in self.plan.populations)
        self.apart = 1 if checked else min(self.least_delay, _MOST)

    def _use(self, memory: Memory) -> None:
        room = self._exchange.room if hasattr(self, "_exchange") else 0
        self._memory = memory
        self._exchange = Exchange(memory, self._crossing, self.shares.number, self.shares.count, room)

    def agree(self, what: str, values: Mapping[str, Any]) -> None:
        """Raise unless all processes are about to do the same with the same values."""
        self.processes.agreed(what, values)

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self._memory.step

    @property
    def state(self) -> NetworkState:
        """The state before the next step, of all processes."""
        with self._lock:
            return self._whole_state()

    def _whole_state(self) -> NetworkState:
        check_whole(self._torn)
        return whole_state(self._parts, self._memory.state)

    @property
    def _parts(self) -> Parts:
        return Parts(self.plan, self.shares, self.processes)

    def load(self, state: NetworkState) -> None:
        """Go on from a state, the same in all processes."""
        with self._lock:
            self.agree("load", {"the state": state})
            self._memory.load(copied(self.plan, state))
            self._torn = False

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter, by the same in all processes."""
        with self._lock:
            self.agree("set", {"the names of parameters": f"{population}.{param}", f"{population}.{param}": value})
            self._memory.set(population, param, value)

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with the weights of a plan that differs in nothing else, and from a state in its quanta."""
        with self._lock:
            given = {k: (one.weights, one.starts) for k, one in plan.synapses.held.items()}
            self.agree(
                "set", {"weights": [plan.quanta, [repr(p) for p in plan.projections], given], "the state": state}
            )
            with self.processes.failing_together("set"):
                memory = self._memory.with_weights(own_plan(plan, self._sharing), state)
            self.agree("set", {})
            self._use(memory)
            self.plan, self._torn = plan, False

    def run(
        self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array], stopped: Stopped = never
    ) -> Recorded:
        """Run steps, as many as the process that asks for the fewest."""
        given = {place: input_rows(self.plan, place, array, steps) for place, array in inputs.items()}
        with self._lock:
            check_whole(self._torn)
            told = self.processes.agreed(
                "run", {"record": wanted.key, "the names of inputs": [*given], "step": self.step}, [steps, stopped()]
            )
            steps = int(told[:, 0].min())
            if told[:, 1].any():
                return self._recorded(Recording(self._memory, 0, wanted), _stopped_by(told[:, 1].tolist()))
            given = {place: np.ascontiguousarray(array[:steps]) for place, array in given.items()}
            if given:
                self.processes.agreed(
                    "run", {f"inputs of {'.'.join(place)}": digest for place, digest in given.items()}
                )
            with self.processes.failing_together("run"):
                memory = self._memory
                memory.give(given)
                memory.flush()
                recording = Recording(memory, steps, wanted)
                recording.make_room(self.apart)
                legs = Legs(memory, recording, alone=memory.plan.parts == 1)
            return self._recorded(recording, self._run(legs, recording, stopped))

    def _run(self, legs: Legs, recording: Recording, stopped: Stopped) -> str:
        """Run from exchange to exchange; return why the run ended early, or nothing."""
        self.processes.agreed("run", {})
        while legs.turn < recording.steps:
            told = self._until(legs, min(legs.turn + self.apart, recording.steps), recording, stopped)
            if any(one & _NOT_FINITE for one in told):
                check_finite(self.plan, self.step - 1, self._whole_state().neurons)
            for number, one in enumerate(told):
                if one & _FULL:
                    return f"memory of process {number} is full: there is no room for more spikes"
            if any(one & _STOPPED for one in told):
                return _stopped_by([one & _STOPPED for one in told])
        return ""

    def _until(self, legs: Legs, turn: int, recording: Recording, stopped: Stopped) -> list[int]:
        """Run to a turn, and gather the spikes until there; return what all processes tell."""
        begin, status, failed = self.step, 0, None
        self._torn = True
        try:
            for _ in legs.until(turn):
                status |= _NOT_FINITE
            status |= _STOPPED * stopped() | _FULL * _is_full(recording, self.apart)
        except BaseException as error:  # noqa: BLE001 - raised when the others know
            status, failed = _FAILED, error
        end = recording.first + turn
        told = self._exchange.all_told(begin, end, status, self.processes.gathered, _FAILED)
        if any(one & _FAILED for one in told):
            self.processes.raise_failure("run", failed)
        self._torn = False
        return told

    def _recorded(self, recording: Recording, why: str) -> Recorded:
        own = recording.recorded(self.step - recording.first)
        return dataclasses.replace(whole_recording(self._parts, own, recording.wanted), full=why)

    def prepared(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Prepared:
        """Return a run that is repeated."""
        return Repeated(self, steps, wanted, inputs)

    # ---- in words

    @property
    def units(self) -> str:
        """What runs the network, in words."""
        count, threads = self.shares.count, self._sizes[:, 1]
        each = f"{threads[0]} thread{'' if threads[0] == 1 else 's'}"
        each = each if (threads == threads[0]).all() else f"{threads.min()} to {threads.max()} threads"
        return f"{count} process{'' if count == 1 else 'es'} with {each} each"

    @property
    def placement(self) -> str:
        """What each process has, and how often they exchange spikes, in words."""
        lines = [
            f"process {number}: {self.shares.neurons(number)} neurons, synapses take {in_bytes(int(size))}"
            + self._said_of_areas(number)
            for number, (size, _) in enumerate(self._sizes.tolist())
        ]
        if self.processes.gathers:
            gathers, seconds = self.processes.gathers, self.processes.seconds
            lines.append(f"{gathers} exchanges took {seconds:.3g} s in process {self.shares.number}, waiting included")
        if self.least_delay == 2**31:
            lines.append("no synapse connects neurons of different processes")
            return "\n".join(lines)
        least = f"the least delay between processes is {self.least_delay} step{'s'[: self.least_delay - 1]}, of"
        names = f"{', '.join(self.limits[:3])}{' and others' if len(self.limits) > 3 else ''}"
        every = "each step" if self.apart == 1 else f"every {self.apart} steps"
        lines.append(f"spikes are exchanged {every}; {least} {names}")
        if self.apart == 1 < self.least_delay:
            lines.append("each step is exchanged because of check_finite, or because spikes have values")
        return "\n".join(lines)

    def _said_of_areas(self, number: int) -> str:
        """Say which whole populations a process has, if there are several processes."""
        names = self.shares.placed(number) if self.shares.count > 1 else []
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        return f"; all of {', '.join(names[:8])}{more}" if names else ""

    # ---- what one process does alone

    @property
    def resident(self) -> NoReturn:
        """Raise: there is no program of JAX."""
        raise NetworkError("simulate: a network on several hosts runs with sim.run; build it without hosts=")

    rebuilds = resident


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


def _stopped_by(stopped: Sequence[int]) -> str:
    number = next(number for number, one in enumerate(stopped) if one)
    return f"process {number} was interrupted"


def _check_kinds(plan: Plan) -> None:
    """Raise for what runs in one process alone."""
    for what, some in (("plastic synapses", plan.plastic), ("couplings", plan.couplings)):
        if some:
            names = ", ".join(one.name for one in some)
            raise NetworkError(f"build: {what} ({names}) need one process; leave out hosts=")
