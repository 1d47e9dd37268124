# SPDX-License-Identifier: Apache-2.0
"""Calls of XLA on several GPUs: the handlers of all of them meet, and the last one launches the kernels of all.

XLA calls the handler of each GPU in a thread of its own. What waits for each other on the GPUs is launched by one
thread, in one order, when all GPUs have done what comes before; so a call on which one GPU fails ends on all of them,
and its error comes from the call itself. This is Python, once a call, which runs many steps.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....errors import NetworkError
from ....ffi import frame
from ....ffi.callbacks import native_address
from ....ffi.targets import register_once
from ..device import Device, Memory
from .launching import Launching, in_turn

__all__ = ["TARGET", "Program", "Share", "registered"]

TARGET = "brainevent_several_gpus"
ARRIVING = 60.0  # seconds in which the handlers of all GPUs come, while no call runs
CROSSING = 2.0  # the same, where one waits for a GPU that waits for another call
_LOOK = 0.1  # seconds between two looks at the clock
_REFUSED = 256  # runs that are remembered since they were refused
_AFTER = "; call simulate again with a state that is known to be good"

Handle = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(eq=False)
class Share:
    """What one GPU does in a call: the words of its launches, and what is zero before them."""

    number: int  # among the GPUs of the network
    device: Device
    blocks: int  # of all GPUs
    words: Any
    zeros: Sequence[Memory]
    flag: Memory

    def on(self, call_frame: int, *, streams: bool) -> _Running:
        """Return what it does in the stream of a call."""
        stream = frame.stream_of(call_frame) if streams else 0
        return _Running(self, self.device.on(stream), call_frame)


@dataclass(eq=False)
class _Running:
    """A share in the stream of a call."""

    share: Share
    device: Device
    call_frame: int
    error: int = 0  # XLA's

    @property
    def number(self) -> int:
        """Its number among the GPUs of the network."""
        return self.share.number

    @property
    def why_lost(self) -> int:
        """The number of the block that was awaited in vain, and 1; 0 if there is none."""
        return int(self.share.flag.download(np.uint32, 1)[0])

    def clear(self) -> None:
        """Set to zero what is zero when a call begins."""
        for memory in self.share.zeros:
            self.device.fill_zero(memory.address, memory.nbytes)

    def launch(self) -> None:
        """Begin all launches."""
        self.error = self.device.begin(lambda: _native()(self.call_frame, ctypes.addressof(self.share.words)))

    def give_up(self) -> None:
        """Let the kernel end that runs now, which waits for one that is not there."""
        self.device.beside().copy_in(self.share.flag.address, np.array([self.share.blocks + 1], np.uint32))

    def wait(self) -> None:
        """Wait for the kernel that runs."""
        self.device.wait()


@functools.cache
def _native() -> Any:
    """Return the handler of launch plans."""
    from ....ffi.launch.handler import handler_address

    return Handle(handler_address())


@dataclass(eq=False)
class Program:
    """The launches of one custom call on all GPUs, and the memory that they use."""

    names: Sequence[str]
    here: int  # blocks of a GPU
    shares: Sequence[Share]
    kept: Sequence[Memory]

    def run(self, frames: dict[int, int], *, streams: bool) -> dict[int, int]:
        """Run a call whose handlers are all here; return XLA's errors by GPU, of which 0 is none."""
        parts = [share.on(frames[share.number], streams=streams) for share in self.shares]
        launching = Launching("simulate", self.names, self.here, _AFTER)
        with in_turn([part.device for part in parts]):
            for part in parts:
                part.clear()
            for part in parts:
                part.wait()  # for what comes before in the program, too
            launching.start(parts, lambda number: parts[number].launch())
            failed = [part for part in parts if part.error]
            for part in parts if failed else ():
                part.give_up()
            launching.await_all(parts)
            if not failed and any(part.why_lost for part in parts):
                launching.raise_lost(parts)
        said = f"simulate: {self.names[failed[0].number]} failed, and its error says why{_AFTER}" if failed else ""
        return {
            part.number: part.error or (frame.make_error(part.call_frame, said, frame.INTERNAL) if failed else 0)
            for part in parts
        }


@dataclass(eq=False)
class _Meeting:
    """A call whose handlers meet."""

    program: Program
    begun: float
    frames: dict[int, int] = field(default_factory=dict)
    errors: dict[int, int] | None = None
    refused: str = ""

    @property
    def here(self) -> set[int]:
        """The numbers of GPUs whose handlers wait."""
        return {self.program.shares[k].device.number for k in self.frames}

    @property
    def missing(self) -> list[int]:
        """The GPUs of the network whose handlers have not come."""
        return [share.number for share in self.program.shares if share.number not in self.frames]


_programs: dict[int, Program] = {}  # XLA may keep a program for any time, so none is ever freed
_gathering: dict[tuple[int, int], _Meeting] = {}  # by the number of the program, and that of the run
_refused: deque[tuple[tuple[int, int], str]] = deque(maxlen=_REFUSED)
_changed = threading.Condition()
_quiet = [0, 0.0]  # how many calls run, and since when none does
_numbers = itertools.count(random.SystemRandom().getrandbits(62))  # no other process has them, nor a kept program


def registered(program: Program, platform: str) -> int:
    """Return the number by which calls of a program find it."""
    streams = platform == "cuda"
    of_xla = "CUDA" if streams else platform

    def address() -> int:
        return native_address(lambda at: _handle(at, streams=streams), str)

    register_once(TARGET, of_xla, address)
    number = next(_numbers)
    _programs[number] = program
    return number


def _handle(call_frame: int, *, streams: bool) -> int:
    """Run the part of one GPU in a call of XLA, with those of all others; return XLA's error, or 0."""
    if frame.answer_metadata_query(call_frame):
        return 0
    key = frame.read_word(frame.read_word(frame.read_attribute(call_frame, "be.several"), "XLA_FFI_Array.data"), 0)
    program = _programs.get(key)
    if program is None:
        raise NetworkError("simulate: this program was compiled in another process; compile it anew")
    device = frame.device_of(call_frame)
    number = next(share.number for share in program.shares if share.device.ordinal == device)
    meeting, is_last = _met(program, (key, frame.run_of(call_frame)), number, call_frame)
    if is_last:
        _run(meeting, streams=streams)
    if meeting.refused:
        raise NetworkError(meeting.refused)
    assert meeting.errors is not None
    return meeting.errors[number]


def _run(meeting: _Meeting, *, streams: bool) -> None:
    try:
        meeting.errors = meeting.program.run(meeting.frames, streams=streams)
    except BaseException as error:
        meeting.refused = str(error)
        if not isinstance(error, NetworkError):
            raise
    finally:
        with _changed:
            _quiet[:] = [_quiet[0] - 1, time.monotonic()]
            meeting.refused = meeting.refused or ("" if meeting.errors else "simulate: it was interrupted")
            _changed.notify_all()


def _met(program: Program, key: tuple[int, int], number: int, call_frame: int) -> tuple[_Meeting, bool]:
    """Wait until all handlers of a call have come, and another one has run it; the last one is told to run it."""
    with _changed:
        for refused, why in _refused:
            if refused == key:
                raise NetworkError(why)
        meeting = _gathering.setdefault(key, _Meeting(program, time.monotonic()))
        meeting.frames[number] = call_frame
        if not meeting.missing:
            del _gathering[key]
            _quiet[0] += 1
            return meeting, True
        while meeting.errors is None and not meeting.refused:
            _changed.wait(_LOOK)
            if meeting.missing and not meeting.refused:
                _refuse_if_late(meeting, key)
        return meeting, False


def _refuse_if_late(meeting: _Meeting, key: tuple[int, int]) -> None:
    """Refuse a call that cannot begin, so that none waits for ever."""
    running, since = _quiet
    waited = 0.0 if running else time.monotonic() - max(meeting.begun, since)
    names = [meeting.program.names[k] for k in meeting.missing]
    gone = {meeting.program.shares[k].device.number for k in meeting.missing}
    crossed = [other for other in _gathering.values() if other is not meeting and other.here & gone]
    why = ""
    if crossed and waited > CROSSING and all(other.begun <= meeting.begun for other in crossed):
        why = (
            f"simulate: {names[0]} waits in another call, which waits for a GPU of this one: two threads have started "
            "programs on the same GPUs, and XLA runs them in different orders; start them in one thread, or one after "
            "another under a lock"
        )
    elif waited > ARRIVING:
        why = f"simulate: {' and '.join(names)} did not begin this call in {ARRIVING:g} s, while others waited for it"
    if why:
        meeting.refused = why
        _gathering.pop(key, None)
        _refused.append((key, why))
        _changed.notify_all()
