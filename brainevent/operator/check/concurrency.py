# SPDX-License-Identifier: Apache-2.0
"""The promise about calls at once: in many threads, and in one program, each on different operands."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compare import Broken, assert_bits, during, is_inexact, to_host
from .subject import ELEMENTS, Subject

__all__ = ["check_at_once", "seconds_of_a_call"]

STOPS, PAUSE = 10, 1.2e-3  # signals that make one stop, each of some hundred microseconds; seconds between two stops
THREADS, SECONDS = 4, 0.15
SECONDS_OF_A_TURN, MORE = 0.004, 20
BATCH, BYTES = 1000, 1 << 18  # elements of a batch, and their bytes, which must fit in a processor's cache
IN_A_PROGRAM = 4


def check_at_once(subject: Subject) -> str:
    """Calls in several threads, and several calls in one program, do not disturb one another."""
    batch = [subject.operands(subject.choice(b)) for b in range(ELEMENTS)]
    wanted = [to_host(subject.compiled()(*operands)) for operands in batch]
    with during("in one of several threads"):
        _in_threads(_Loop.of(subject))
    many = jax.jit(lambda *rows: [subject.call(*row) for row in rows])
    with during("one of several calls in a program"):
        for k, results in enumerate(many(*(batch[k % ELEMENTS] for k in range(IN_A_PROGRAM)))):
            assert_bits(to_host(results), wanted[k % ELEMENTS])
    same = subject.count and not any(subject.varies(i) for i in range(subject.count))
    return "all calls have the same operands (to vary them pass samples=)" if same else ""


@dataclass(frozen=True)
class _Loop:
    """A program that runs the kernel on a batch over and over, until a result is not as wanted.

    The loop is native code, because calls from Python hardly overlap: only one thread at a time can start a call.
    """

    program: Any
    stacks: list[list[jax.Array]]  # by the element that comes first
    wanted: list[list[jax.Array]]  # their results in this program

    @classmethod
    def of(cls, subject: Subject) -> _Loop:
        size = max(sum(x.size * x.dtype.itemsize for x in (*subject.operands(), *subject.out_types)), 1)
        seconds = subject.once("seconds", lambda: seconds_of_a_call(subject))
        count = max(ELEMENTS, min(BATCH, BYTES // size, int(SECONDS_OF_A_TURN / seconds)))
        stacks = [subject.stacked(count, [0] * subject.count, first) for first in range(ELEMENTS)]
        unknown = [jnp.zeros((count, *out.shape), out.dtype) for out in subject.out_types]
        batched = _batched(subject, count)

        def program(runs: Any, stacks: list[jax.Array], wanted: list[jax.Array]) -> Any:
            def step(state: Any) -> Any:
                i, _, _ = state
                operands, _ = jax.lax.optimization_barrier((stacks, i))  # or XLA would call once, before the loop
                found = jax.lax.optimization_barrier(batched(*operands))
                return i + 1, _differ(found, wanted), found

            start = jnp.int32(0), jnp.bool_(False), wanted
            return jax.lax.while_loop(lambda state: (state[0] < runs) & ~state[1], step, start)

        compiled = jax.jit(program).lower(np.int32(1), stacks[0], unknown).compile()  # threads have other settings
        return cls(compiled, stacks, [compiled(np.int32(1), each, unknown)[2] for each in stacks])

    def run(self, first: int, runs: int) -> None:
        """Run the batch that begins with an element; raise if a result is not as wanted."""
        wanted = self.wanted[first]
        _, differ, found = self.program(np.int32(runs), self.stacks[first], wanted)
        if differ:
            assert_bits(to_host(found), to_host(wanted))
            raise Broken("results differ from those of the same calls alone")

    def runs(self) -> int:
        """Return a number of runs that takes some milliseconds."""
        seconds = _seconds(lambda: self.run(0, 1))
        if seconds < SECONDS_OF_A_TURN:  # most of the time may be the start
            seconds = (_seconds(lambda: self.run(0, 1 + MORE)) - seconds) / MORE
        return max(1, int(SECONDS_OF_A_TURN / max(seconds, 1e-6)))


def _batched(subject: Subject, count: int) -> Callable[..., list[Any]]:
    """Return the kernel as a function of a batch; one by one if the author's rule may call another operator."""
    if not subject.count:
        return lambda: [jnp.broadcast_to(x, (count, *x.shape)) for x in subject.call()]
    if "batch" in subject.operator.definition.rules:
        return lambda *stacks: jax.lax.map(lambda operands: subject.call(*operands), stacks)
    return jax.vmap(subject.call)


def _differ(found: list[jax.Array], wanted: list[jax.Array]) -> jax.Array:
    return functools.reduce(jnp.logical_or, map(_differs, found, wanted), jnp.bool_(False))


def _differs(x: jax.Array, y: jax.Array) -> jax.Array:
    """Compare bits, which is much faster than comparing numbers that may be NaN."""
    if jnp.iscomplexobj(x):
        return _differs(x.real, y.real) | _differs(x.imag, y.imag)
    if is_inexact(x):
        x, y = (jax.lax.bitcast_convert_type(a, f"uint{8 * x.dtype.itemsize}") for a in (x, y))
    return (x != y).any()


def seconds_of_a_call(subject: Subject) -> float:
    """Return the time of the kernel without the start of a program; at least some microseconds."""
    compiled, operands = subject.compiled(), subject.operands()
    call = min(_seconds(lambda: jax.block_until_ready(compiled(*operands))) for _ in range(5))
    return max(call - _seconds_to_start(), SECONDS_OF_A_TURN / BATCH)


@functools.cache
def _seconds_to_start() -> float:
    nothing = jax.jit(lambda x: x + 1).lower(np.float32(1)).compile()
    return min(_seconds(lambda: jax.block_until_ready(nothing(np.float32(1)))) for _ in range(5))


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _in_threads(loop: _Loop) -> None:
    """Run the loop in many threads, over and over; raise the first finding."""
    barrier, findings, runs = threading.Barrier(THREADS), list[Exception](), loop.runs()
    end = time.monotonic() + SECONDS

    def run(k: int) -> None:
        try:
            barrier.wait()
            for turn in itertools.count(k):
                loop.run(turn % ELEMENTS, runs)
                if findings or time.monotonic() > end:
                    return
        except Exception as error:  # noqa: BLE001 - it is raised below, in the thread that asked
            findings.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    try:
        for thread in threads:
            thread.start()
        stall_while_running(threads, end)
    finally:  # after Ctrl-C all threads end with their current call
        end = 0.0
        barrier.abort()
    if findings:
        raise findings[0]


def stall_while_running(threads: Sequence[threading.Thread], end: float) -> None:
    """Pause one thread after another, for a millisecond each, up to a time; then wait until all have ended."""
    stop, random = _stopper(), Random(0)
    while stop is not None and time.monotonic() < end:
        running = [thread.native_id for thread in threads if thread.is_alive() and thread.native_id is not None]
        if not running:
            break
        chosen = random.choice(running)
        for _ in range(STOPS):
            stop(chosen)
        time.sleep(PAUSE)
    for thread in threads:
        thread.join()


@functools.cache
def _stopper() -> Callable[[int], None] | None:
    """Return a function that stops a thread of this process, by its native id; None if the system does not support it.

    This uses a signal whose handler is a function of the C library: `usleep`, with the signal's number as the
    microseconds. It stays the handler, because a signal without a handler would end the process.
    """
    try:
        library, number = ctypes.CDLL(None), signal.SIGRTMIN + 20
        library.signal.argtypes, library.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        kill, usleep = library.tgkill, ctypes.cast(library.usleep, ctypes.c_void_p)
    except (AttributeError, OSError):
        return None
    before = library.signal(number, usleep)
    if before:  # it has a handler already
        library.signal(number, before)
        return None
    return lambda thread: kill(os.getpid(), thread, number)
