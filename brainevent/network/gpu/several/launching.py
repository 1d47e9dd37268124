# SPDX-License-Identifier: Apache-2.0
"""`Launching`: kernels on several GPUs that wait for each other are launched on all of them, and all end, or none."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn, Protocol

from ....errors import KernelLoadError, NetworkError
from ..cuda_device import leave_running
from ..device import LAUNCHING, Device

__all__ = ["Launching", "OnGpu", "in_turn"]

# Seconds after the first kernel ended: all others have ended by then, since each of their waits has a limit.
STUCK = 30.0
_SPINNING, _NAP = 0.005, 0.00005  # seconds: how long to look without a pause whether launches have ended; then a pause
_IN_NEW = "; after some errors a process cannot use a GPU any more: then do so in a new one"
_changed = threading.Condition()
_turns: list[_Turn] = []  # in the order in which they were asked for


@dataclass(eq=False)
class _Turn:
    """The wish of a thread to have some GPUs for itself, by their numbers."""

    thread: int
    numbers: frozenset[int]
    has_begun: bool = False

    @property
    def may_begin(self) -> bool:
        """Whether no one who came before uses any of these GPUs."""
        return not any(one.numbers & self.numbers for one in _turns[: _turns.index(self)])


@contextmanager
def in_turn(devices: Sequence[Device]) -> Iterator[None]:
    """Let no other kernels that wait for each other be on any of these GPUs meanwhile; who comes first is first.

    Else those of one network could keep a GPU busy that those of another one wait for, and the other way round. A
    thread that has these GPUs already may ask again.
    """
    turn = _Turn(threading.get_ident(), frozenset(device.number for device in devices))
    with _changed:
        own = [one for one in _turns if one.thread == turn.thread and one.has_begun]
        if any(one.numbers >= turn.numbers for one in own):
            turn.has_begun = True
        else:
            _turns.append(turn)
    try:
        if not turn.has_begun:
            with _changed:
                _changed.wait_for(lambda: turn.may_begin)
                turn.has_begun = True
        yield
    finally:
        with _changed:
            _turns[:] = [one for one in _turns if one is not turn]
            _changed.notify_all()


class OnGpu(Protocol):
    """What one GPU does in a launch on several."""

    @property
    def number(self) -> int:
        """Its number among the GPUs of the network."""

    @property
    def device(self) -> Device:
        """The GPU, in whose stream the kernel is."""

    def give_up(self) -> None:
        """Let the kernel end that runs now, which waits for one that is not there."""

    def wait(self) -> None:
        """Wait for the kernel that runs."""

    @property
    def why_lost(self) -> int:
        """The number of the block that was awaited in vain, and 1; 0 if there is none."""


class Launching:
    """Launches on several GPUs whose kernels wait for each other; what fails on one ends all, and is reported.

    Args:
        where: What begins errors.
        names: What errors call the GPUs.
        blocks: How many blocks each GPU has.
        after: What errors say of the state.
    """

    def __init__(self, where: str, names: Sequence[str], blocks: int, after: str):
        self._where, self._names, self._blocks, self._after = where, names, blocks, after

    def start(self, parts: Sequence[OnGpu], launch: Callable[[int], None]) -> None:
        """Launch on all GPUs, one after another."""
        started: list[OnGpu] = []
        with LAUNCHING, _nothing_freed():
            for part in parts:
                try:
                    launch(part.number)
                except KernelLoadError as error:
                    self.fail(started, part, error)
                started.append(part)

    def await_all(self, parts: Sequence[OnGpu]) -> None:
        """Wait until all launches have ended; if one fails, end the others, and raise; also if one does not end."""
        begun, waiting, first = time.monotonic(), list(parts), 0.0
        while waiting:
            for part in list(waiting):
                try:
                    if not part.device.is_done():
                        continue
                except KernelLoadError as error:
                    waiting.remove(part)
                    self.fail(waiting, part, error, _IN_NEW)
                waiting.remove(part)
                first = first or time.monotonic()
            if waiting and first and time.monotonic() - first > STUCK:
                for part in waiting:
                    leave_running(part.device)
                raise NetworkError(
                    f"{self._where}: the kernel on {self._names[waiting[0].number]} still runs, {STUCK:g} s after "
                    f"those on other GPUs{self._after}; do so in a new process, since this one cannot stop a kernel"
                )
            if waiting:
                time.sleep(0 if time.monotonic() - begun < _SPINNING else _NAP)

    def fail(self, others: Sequence[OnGpu], failed: OnGpu, error: KernelLoadError, more: str = "") -> NoReturn:
        """Raise for the GPU that failed, when all others have ended that wait for it; `more` says what else to do."""
        for act in ("give_up", "wait"):
            for part in others:
                with suppress(KernelLoadError):  # it has failed, too
                    getattr(part, act)()
        raise NetworkError(
            f"{self._where}: the kernel on {self._names[failed.number]} failed: {error}{self._after}{more}"
        ) from error

    def raise_lost(self, parts: Sequence[OnGpu]) -> NoReturn:
        """Raise for the GPU whose packets were awaited in vain."""
        lost = next(why for part in parts if (why := part.why_lost))
        raise NetworkError(
            f"{self._where}: {self._names[(lost - 1) // self._blocks]} sent no spikes, not even that there are none, "
            f"while others waited for it: its kernel did not start, ended or stopped{self._after}"
        )


@contextmanager
def _nothing_freed() -> Iterator[None]:
    """Keep garbage: to free memory of a GPU waits for the kernels there, which wait for others to be launched."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
