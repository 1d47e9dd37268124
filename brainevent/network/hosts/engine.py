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
from ..engine import Prepared, Repeated, Stopped, check_whole, input_rows, never
from ..plan.build import build_plan
from ..plan.owned import Sharing
from ..plan.plan import Plan
from ..plan.threads import parts_for
from ..run.finite import check_finite
from ..run.recorded import Recorded, Wanted
from ..run.report import in_bytes
from ..state import NetworkState, copied, initial_state
from .cpus import OwnOnCpus
from .gathering import Parts, whole_recording, whole_state
from .owned import FAILED, FULL, NOT_FINITE, STOPPED, Own, OwnRun
from .processes import Processes
from .shares import Shares, check_hosts, chosen_shares

__all__ = ["Hosts", "HostsEngine", "joined_hosts"]

_MOST = 256  # steps between two exchanges: for so long a process may not hear that another one stopped

Array = Any


@dataclass(frozen=True, eq=False)
class Hosts:
    """The processes that run one network together, the neurons of each, and how its own synapses are drawn.

    Attributes:
        sharing: What draws synapses for a process on CPUs.
        devices: The GPUs of this process; none on CPUs.
    """

    processes: Processes
    shares: Shares
    sharing: Sharing
    devices: Sequence[Any] = ()

    def plan_of(self, network: Any, *, seed: int, **how: Any) -> Plan:
        """Build the plan of a network, of which synapses are drawn again when somebody asks for them."""
        edges = (self.shares.gpus or [self.shares])[0].edges
        given = {"seed": seed, "dtype": how["dtype"], "check_finite": how["check_finite"]}

        def described(fingerprint: str) -> None:  # edges follow from the network, too
            self.processes.agreed("build", {**given, "the network": fingerprint, "hosts": edges})

        return build_plan(network, seed=seed, parts=1, measure=self._measure, described=described, **how)

    @property
    def _measure(self) -> Any:
        if not self.devices:
            return self.sharing
        from ..gpu.engine import drawing_on_gpu

        return drawing_on_gpu(self.devices[0])

    def own(self, plan: Plan, options: Mapping[str, Any]) -> Own:
        """Return what this process owns of a network, with its synapses."""
        if not self.devices:
            return OwnOnCpus(plan, self.shares, self.processes, self.sharing)
        from .gpus import OwnOnGpus

        return OwnOnGpus(plan, self.shares, self.processes, self.devices, options)


def joined_hosts(
    hosts: Any, backend: str, network: Any, threads: int | None, devices: Any = None, *, round_delays: bool
) -> Hosts:
    """Return the processes of `jax.distributed` for what `build(hosts=..., devices=...)` asks for."""
    check_hosts(hosts, backend)
    processes, apiece, found = Processes(), None, list[Any]()
    if backend == "cuda":
        from ..gpu.several.devices import devices_of_process

        with processes.failing_together("build"):
            found = devices_of_process(devices)
        apiece = processes.agreed("build", {}, [len(found)])[:, 0].tolist()
    shares = chosen_shares(hosts, network, apiece, round_delays=round_delays)
    sharing = Sharing(shares.own, parts_for(shares.neurons(shares.number), threads))
    return Hosts(processes, shares, sharing, found)


class HostsEngine:
    """An `Engine` for several processes, on CPUs or on GPUs of each, which call its methods in the same order.

    A process runs as many steps as the least delay of synapses between processes, or between their GPUs; then all of
    them gather the spikes of these steps. So no result depends on the number of processes, or of GPUs.

    Args:
        plan: The network, the same in all processes, with descriptions of synapses.
        hosts: The processes.
        **options: Those of an engine on a GPU.
    """

    paces_itself = True

    def __init__(self, plan: Plan, *, hosts: Hosts, **options: Any):
        _check_kinds(plan)
        self.plan, self.processes, self.shares = plan, hosts.processes, hosts.shares
        self._lock, self._torn = threading.Lock(), False
        with self.processes.failing_together("build"):
            self._own = hosts.own(plan, options)
        self._compare_delays(self._own.least_delays)
        with self.processes.failing_together("build"):
            self._own.join(self._crossing, self.apart)
            self._own.load(initial_state(plan))
        self._sizes = self.processes.agreed("build", {}, self._own.sizes)[:, :2]

    @property
    def name(self) -> str:
        """The backend that runs in each process."""
        return self._own.name

    @property
    def said_of_sweeps(self) -> str:
        """What is said of sweeps."""
        return self._own.said_of_sweeps

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
        self.apart = 1 if checked else min(self.least_delay, _MOST, self._own.most_apart)

    def agree(self, what: str, values: Mapping[str, Any]) -> None:
        """Raise unless all processes are about to do the same with the same values."""
        self.processes.agreed(what, values)

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self._own.step

    @property
    def state(self) -> NetworkState:
        """The state before the next step, of all processes."""
        with self._lock:
            return self._whole_state()

    def _whole_state(self) -> NetworkState:
        check_whole(self._torn)
        return whole_state(self._parts, self._own.state)

    @property
    def _parts(self) -> Parts:
        return Parts(self.plan, self.shares, self.processes)

    def load(self, state: NetworkState) -> None:
        """Go on from a state, the same in all processes."""
        with self._lock:
            self.agree("load", {"the state": state})
            self._own.load(copied(self.plan, state))
            self._torn = False

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter, by the same in all processes."""
        with self._lock:
            self.agree("set", {"the names of parameters": f"{population}.{param}", f"{population}.{param}": value})
            self._own.set(population, param, value)

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with the weights of a plan that differs in nothing else, and from a state in its quanta."""
        with self._lock:
            given = {k: (one.weights, one.starts) for k, one in plan.synapses.held.items()}
            self.agree(
                "set", {"weights": [plan.quanta, [repr(p) for p in plan.projections], given], "the state": state}
            )
            with self.processes.failing_together("set"):
                own = self._own.with_weights(plan, state)
            try:
                self.agree("set", {})
            except BaseException:
                own.give_up(self.plan)
                raise
            self._own, self.plan, self._torn = own, plan, False

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
                return self._recorded(self._own.begin(0, wanted, {}), wanted, _stopped_by(told[:, 1].tolist()))
            given = {place: np.ascontiguousarray(array[:steps]) for place, array in given.items()}
            if given:
                self.processes.agreed(
                    "run", {f"inputs of {'.'.join(place)}": digest for place, digest in given.items()}
                )
            with self.processes.failing_together("run"):
                run = self._own.begin(steps, wanted, given)
            return self._recorded(run, wanted, self._run(run, steps, stopped))

    def _run(self, run: OwnRun, steps: int, stopped: Stopped) -> str:
        """Run from exchange to exchange; return why the run ended early, or nothing."""
        self.processes.agreed("run", {})
        done = 0
        while done < steps:
            self._torn = True
            done = self._own.ahead(run, done, steps)
            turn = min(done + self.apart, steps)
            told, done = self._until(run, done, turn, stopped), turn
            if any(one & NOT_FINITE for one in told):
                check_finite(self.plan, self.step - 1, self._whole_state().neurons)
            for number, one in enumerate(told):
                if one & FULL:
                    return f"memory of process {number} is full: there is no room for more spikes"
            if any(one & STOPPED for one in told):
                return _stopped_by([one & STOPPED for one in told])
        return ""

    def _until(self, run: OwnRun, done: int, turn: int, stopped: Stopped) -> list[int]:
        """Run until so many steps have been, and exchange the spikes since some were done; return what is told."""
        first, failed = self.step - run.turn, None
        begin, end = first + done, first + turn
        try:
            status = run.until(turn, begin) | STOPPED * stopped()
        except BaseException as error:  # noqa: BLE001 - raised when the others know
            status, failed = FAILED, error
        try:
            told = self._own.told(begin, end, status)
        except BaseException as error:  # noqa: BLE001 - raised
            raise (failed or error) from None  # what failed may not be able to take part
        if any(one & FAILED for one in told):
            self.processes.raise_failure("run", failed)
        self._torn = False
        return told

    def _recorded(self, run: OwnRun, wanted: Wanted, why: str) -> Recorded:
        return dataclasses.replace(whole_recording(self._parts, run.recorded(), wanted), full=why)

    def prepared(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Prepared:
        """Return a run that is repeated."""
        return Repeated(self, steps, wanted, inputs)

    # ---- in words

    @property
    def units(self) -> str:
        """What runs the network, in words."""
        count = self.shares.count
        return f"{count} process{'' if count == 1 else 'es'} with {self._own.units(self._sizes[:, 1])} each"

    @property
    def placement(self) -> str:
        """What each process has, and how often they exchange spikes, in words."""
        lines = [
            f"process {number}: {self.shares.neurons(number)} neurons, synapses take {in_bytes(int(size))}"
            + self._said_of_areas(number)
            for number, (size, _) in enumerate(self._sizes.tolist())
        ]
        lines += [self._own.said] if self._own.said else []
        if self.processes.gathers:
            gathers, seconds = self.processes.gathers, self.processes.seconds
            lines.append(f"{gathers} exchanges took {seconds:.3g} s in process {self.shares.number}, waiting included")
        if self.least_delay == 2**31:
            lines.append(f"no synapse connects neurons of different {self._own.sharers}")
            return "\n".join(lines)
        steps = f"{self.least_delay} step{'s'[: self.least_delay - 1]}"
        least = f"the least delay between {self._own.sharers} is {steps}, of"
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

    def beside(self, plan: Plan, elements: int, blocks: int | None = None) -> Any:
        """Return an engine for a plan like this one, which runs side by side with others on a GPU of this process."""
        return self._on_gpus.beside(plan, elements, blocks)

    @property
    def device(self) -> Any:
        """The GPU of these."""
        return self._on_gpus.device

    @property
    def _on_gpus(self) -> Any:
        assert self._own.name == "cuda"
        return self._own

    @property
    def resident(self) -> NoReturn:
        """Raise: there is no program of JAX."""
        raise NetworkError("simulate: a network on several hosts runs with sim.run; build it without hosts=")

    rebuilds = resident


def _stopped_by(stopped: Sequence[int]) -> str:
    number = next(number for number, one in enumerate(stopped) if one)
    return f"process {number} was interrupted"


def _check_kinds(plan: Plan) -> None:
    """Raise for what runs in one process alone."""
    for what, some in (("plastic synapses", plan.plastic), ("couplings", plan.couplings)):
        if some:
            names = ", ".join(one.name for one in some)
            raise NetworkError(f"build: {what} ({names}) need one process; leave out hosts=")
