# SPDX-License-Identifier: Apache-2.0
"""`OwnOnGpus`: what one process owns of a network, on one or several GPUs, which run all steps between two exchanges.

Each GPU is one of all those that the processes have: it owns neurons, and its spikes go to all others, of this process
and of other ones, in one way. So the number of GPUs of a process changes nothing but where the work is done.

Of one exchange, each GPU does in its stream: the steps; a list of their spikes, and a message; the gathering; and the
delivery of what others sent. A kernel of ours never waits for another GPU. Only the gatherings of GPUs wait for each
other, and those of a process are launched by one call: so each GPU comes to its gathering whatever the host does next.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from ...backends.numba.uninterrupted import uninterrupted
from ...errors import NetworkError
from ..gpu.afar import HEAD
from ..gpu.device import Device, gpu_name
from ..gpu.engine import CudaEngine, engine_beside
from ..gpu.several.launching import in_turn
from ..gpu.several.meeting import together
from ..plan.plan import Plan
from ..run.merging import merged
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState
from .gpu import OwnGpu, RunOfGpu
from .messages import messages_of
from .owned import FULL, NOT_FINITE, OwnRun
from .processes import Processes
from .shares import Shares

__all__ = ["OwnOnGpus"]

_ROOM = 1024  # spikes of the first message
_AHEAD = 15  # exchanges that are launched before the host looks what became of them

Array = Any
T = TypeVar("T")


class OwnOnGpus:
    """What one process owns, as `Own` describes it."""

    name = "cuda"
    said_of_sweeps = "elements of sweeps run side by side on the first GPU of each process, with all synapses"

    def __init__(
        self,
        plan: Plan,
        shares: Shares,
        processes: Processes,
        devices: Sequence[Device],
        options: Mapping[str, Any],
    ):
        self._plan, self._shares, self._processes = plan, shares, processes
        self._devices, self._options = tuple(devices), dict(options)
        self.gpus: list[OwnGpu] = self._all(lambda k: OwnGpu(plan, shares.gpus[k], devices[k], options))
        self._count = shares.gpus[0].count  # of the GPUs of all processes

    def _all(self, act: Callable[[int], T]) -> list[T]:
        """Do the same for each GPU at the same time."""
        if len(self._devices) == 1:
            return [act(0)]
        with uninterrupted():
            return together([*map(gpu_name, self._devices)], lambda k, _: act(k))

    @property
    def least_delays(self) -> list[int]:
        """The least delay of each projection from neurons of other GPUs; 0 if it has none."""
        each = zip(*(gpu.least_delays for gpu in self.gpus), strict=True)
        return [min((delay for delay in of_gpus if delay), default=0) for of_gpus in each]

    @property
    def sizes(self) -> tuple[int, int]:
        """How many bytes the synapses take, and how many GPUs there are."""
        return sum(gpu.engine.nbytes for gpu in self.gpus), len(self.gpus)

    @staticmethod
    def units(numbers: Array) -> str:
        """What runs each process, in words, given how many GPUs each has."""
        least, most = int(numbers.min()), int(numbers.max())
        if least == most:
            return "one GPU" if most == 1 else f"{most} GPUs"
        return f"{least} to {most} GPUs"

    @property
    def sharers(self) -> str:
        """What the neurons are shared out to, in words."""
        return "GPUs" if self._count > self._shares.count else "processes"

    @property
    def most_apart(self) -> int:
        """How many steps there may be between two exchanges: a spike is one word."""
        return 2**32 // max(1, self.gpus[0].engine.neurons)

    @property
    def said(self) -> str:
        """What lies where, in words."""
        lines = [self.gpus[0].engine.placement]
        if len(self.gpus) > 1:
            lines = [self._said_of(gpu) for gpu in self.gpus]
        if self._count > 1:
            lines.append(f"spikes are exchanged {self._messages.said}")
        if (here := _gpus_of_jax(self._devices[0])) > len(self.gpus):
            lines.append(
                f"this process has {here} GPUs and runs {len(self.gpus) if len(self.gpus) > 1 else 'one'}; pass "
                "devices='all', or start a process for each GPU"
            )
        return "\n".join(lines)

    def _said_of(self, gpu: OwnGpu) -> str:
        neurons, areas = gpu.shares.neurons(gpu.shares.number), gpu.shares.placed(gpu.shares.number)
        of_areas = f", all of {', '.join(areas[:8])}{f' and {len(areas) - 8} more' if len(areas) > 8 else ''}"
        has = f"{neurons} neurons{of_areas if areas else ''}"
        return f"GPU {gpu.engine.device.number}: {has}; {gpu.engine.placement}"

    def join(self, crossing: Sequence[str], apart: int) -> None:
        """Take memory; spikes of some populations are exchanged every so many steps."""
        self._apart, self._room = apart, 0
        for gpu in self.gpus:
            gpu.join(tuple(crossing))
        graded = self.gpus[0].told.size > 1
        assert apart == 1 or not graded  # values are those of the last step of a launch
        self._messages = messages_of(self._devices, self._processes)
        self._make_room(_ROOM)

    def _make_room(self, spikes: int) -> None:
        self._room = spikes
        self._messages.make_room(self._row)

    @property
    def _row(self) -> int:
        """How many words a message has."""
        return HEAD + self._room * self.gpus[0].told.size

    # ---- states, of which each GPU has those of its own neurons

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self.gpus[0].engine.step

    @property
    def state(self) -> NetworkState:
        """The state of own neurons, among those of all."""
        states = [gpu.engine.state for gpu in self.gpus]
        neurons = self._whole([state.neurons for state in states])
        arriving = self._whole([state.arriving for state in states])
        return NetworkState(states[0].step, neurons, arriving, self._plan.quanta)

    def _whole(self, groups: Sequence[Mapping[str, Mapping[str, Array]]]) -> dict[str, dict[str, Array]]:
        """Return what each GPU has of each population and name, among all."""
        return {
            name: {key: self._among(name, [group[name][key] for group in groups]) for key in arrays}
            for name, arrays in groups[0].items()
        }

    def _among(self, population: str, own: Sequence[Array]) -> Array:
        """Return what the neurons of each GPU have (..., neurons) among all of a population."""
        whole = self.gpus[0].among(population, own[0])
        for gpu, array in zip(self.gpus[1:], own[1:], strict=True):
            low, high = gpu.shares.own[population]
            whole[..., low:high] = array
        return whole

    def load(self, state: NetworkState) -> None:
        """Go on from a state of the whole network."""
        for gpu in self.gpus:
            gpu.load(state)

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter of a whole population."""
        for gpu in self.gpus:
            gpu.set(population, param, value)

    def with_weights(self, plan: Plan, state: NetworkState) -> OwnOnGpus:
        """Return the same with the weights of a plan, and a state in its quanta."""
        other, changed = copy.copy(self), list[OwnGpu]()
        other._plan = plan

        def change(k: int) -> None:
            self.gpus[k].set_weights(plan, state)
            changed.append(self.gpus[k])

        try:
            self._all(change)
        except BaseException:
            for gpu in changed:
                gpu.give_up(self._plan)
            raise
        return other

    def give_up(self, plan: Plan) -> None:
        """Let the GPUs, which have the synapses of one plan, have those of the plan before."""
        self._all(lambda k: self.gpus[k].give_up(plan))

    @property
    def device(self) -> Device:
        """The first GPU of this process."""
        return self._devices[0]

    def beside(self, plan: Plan, elements: int, blocks: int | None) -> CudaEngine:
        """Return an engine for all of a plan like this one, on this GPU, side by side with others.

        Each process runs all elements of a sweep, since its program needs all results; it exchanges nothing.
        """
        blocks = self._options.get("blocks") if blocks is None else blocks
        shared_bytes = self._options.get("shared_bytes")
        return engine_beside(plan, elements, self.device, blocks=blocks, shared_bytes=shared_bytes)

    # ---- runs

    def begin(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> RunOnGpus:
        """Begin a run of some steps."""
        return RunOnGpus(self.gpus, steps, wanted, inputs)

    def told(self, begin: int, end: int, status: int) -> list[int]:
        """Exchange the spikes of some steps; return the status of each process."""
        del end
        found = [status]
        if self._count > 1:
            with in_turn(self._devices):
                head = self._exchanged(begin, status)
                if (most := int(head[:, 1].max())) > self._room:  # each process knows it
                    self._make_room(1 << (most - 1).bit_length())
                    head = self._exchanged(begin, status)
            found = head[self._shares.begins, 0].tolist()  # all GPUs of a process tell the same
        for gpu in self.gpus:
            gpu.told.begin()
            gpu.engine.halted.clear()
        return found

    def _exchanged(self, begin: int, status: int) -> Array:
        """Exchange messages, and take the spikes if all are whole; return the heads of all."""
        for gpu, address in zip(self.gpus, self._messages.addresses, strict=True):
            gpu.engine.halted.clear()
            gpu.told.tell(status, address, self._room)
        self._exchange(begin, 1)
        self._messages.wait()
        return self.gpus[0].heads()

    def _exchange(self, begin: int, number: int) -> None:
        """Launch an exchange, of a number that is not 0."""
        row = self._row
        self._messages.gather(lambda k, where: self.gpus[k].deliver(where, row, begin, number))

    def ahead(self, run: OwnRun, done: int, steps: int) -> int:
        """Run and exchange several times before the host learns of it; return for how many steps all went well.

        All of this is launched at once. If a launch ends early, a state is not finite after it, or spikes have no room
        in a message, no GPU delivers the spikes of that exchange, and what comes after it does nothing: all GPUs learn
        it from the same messages.
        """
        assert isinstance(run, RunOnGpus)
        number = min(_AHEAD, (steps - done - 1) // self._apart)
        if self._count == 1 or number < 1 or run.lists_spikes:
            return done
        begin, apart = self.step, self._apart
        with in_turn(self._devices), uninterrupted():
            for own in run.each:
                own.begin_ahead(apart)
            for k in range(number):
                for gpu, own, address in zip(self.gpus, run.each, self._messages.addresses, strict=True):
                    gpu.told.list_spikes(begin + k * apart, own.launch_ahead())
                    gpu.told.tell(0, address, self._room, apart)
                self._exchange(begin + k * apart, k + 1)
                for gpu in self.gpus:
                    gpu.told.turn()
            self._messages.wait()
            halted = int(self.gpus[0].engine.halted.download(np.uint32, 1)[0])
            if halted:
                self._go_back(run, number - halted + 1)
            for gpu in self.gpus:
                gpu.engine.halted.clear()
        return done + apart * (halted - 1 if halted else number)

    def _go_back(self, run: RunOnGpus, exchanges: int) -> None:
        """Be where the first of the last exchanges was not whole: its launches may have had some steps."""
        heads = self.gpus[0].heads()
        for gpu, own in zip(self.gpus, run.each, strict=True):
            status = int(heads[gpu.shares.number, 0])
            own.go_on(status // 256 - exchanges * self._apart)
            gpu.engine.is_strange = bool(status & NOT_FINITE)
            if exchanges % 2:
                gpu.told.turn()
            gpu.told.count()


class RunOnGpus:
    """A run, as `OwnRun` describes it."""

    def __init__(self, gpus: Sequence[OwnGpu], steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]):
        self._wanted = wanted
        self.each: list[RunOfGpu] = [gpu.begin(steps, wanted, inputs) for gpu in gpus]

    @property
    def turn(self) -> int:
        """How many steps ran; between exchanges, on the first GPU."""
        return self.each[0].turn

    @property
    def lists_spikes(self) -> bool:
        """Whether the host reads the spikes of each launch."""
        return bool(self._wanted.spikes)

    def until(self, turn: int, begin: int) -> int:
        """Run until so many steps have been; return a status. Spikes were exchanged before step `begin`.

        A launch may end early on one GPU, which then has another one.
        """
        while going := [one for one in self.each if one.turn < turn and not one.is_strange]:
            with uninterrupted():
                for one in going:
                    one.launch(turn)
                for one in going:
                    one.finish(begin)
        if any(one.is_strange for one in self.each):
            return NOT_FINITE
        return FULL * any(one.is_full for one in self.each)

    def recorded(self) -> Recorded:
        """Return what was recorded of own neurons, among all."""
        with uninterrupted():
            found = [one.recorded() for one in self.each]
        return found[0] if len(found) == 1 else merged(found)


def _gpus_of_jax(device: Device) -> int:
    """Return how many GPUs JAX has in this process, if it has this one."""
    try:
        return len(jax.local_devices(backend=device.of_jax.platform))
    except NetworkError:
        return 0
