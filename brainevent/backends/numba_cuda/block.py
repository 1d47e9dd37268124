# SPDX-License-Identifier: Apache-2.0
"""Run the threads of a simulated block one after another, in order, and at barriers in turns.

Numba's simulator starts a Python thread for each thread of a block, which takes most of its time.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.cuda.simulator.kernelapi import Dim3

__all__ = ["Block"]


class _AbandonedError(BaseException):
    """Another thread of the block has failed; kernels do not catch this exception."""


class Block:
    """One block: replaces the simulator's `BlockManager`.

    One lane has the baton. It runs one thread after another, until one waits at a barrier: this thread keeps its lane,
    and another lane continues. When all running threads wait, they continue in the order of their arrival: first those
    at barriers of warps, if all other threads of their warp have arrived or cannot arrive, then those at the barrier of
    the block.
    """

    def __init__(self, function: Callable[..., None], grid: Any, block: Any, debug: bool):
        self._function = function
        self._extents = block
        self._debug = debug
        self._votes: dict[int, bool] = {}
        self._waiting: deque[_Lane] = deque()  # at the barrier of the block
        self._waiting_in_warps: deque[_Lane] = deque()  # at that of their warp
        self._ready: deque[_Lane] = deque()  # released
        self._done = threading.Semaphore(0)
        self._begun = False
        self._error: Exception | None = None

    def run(self, index: Any, *arguments: Any) -> None:
        """Run all threads of the block of this index in the grid; raise what the first that fails raises."""
        x, y, z = self._extents
        self._index = Dim3(*index)
        self._arguments = arguments
        self._left = x * y * z
        self._points = enumerate(itertools.product(range(z), range(y), range(x)))  # x runs first
        if self._left:
            try:
                _lane_for(self).baton.release()
                self._wait_until_done()
            except BaseException:  # Ctrl-C: running threads use XLA's memory, and must end before XLA reuses it
                self._stop(RuntimeError("interrupted"))
                if self._begun:
                    self._wait_until_done()
                raise
        if self._error is not None:
            raise self._error

    def _wait_until_done(self) -> None:
        while not self._done.acquire(timeout=0.1):  # lets Python handle signals from time to time
            pass

    def go_on(self, lane: _Lane) -> None:
        """Run the remaining threads, as one lane; then pass the baton on."""
        self._begun, lane.blockIdx = True, self._index
        with np.errstate(all="ignore", divide="raise" if self._debug else "ignore"):  # a GPU gives no warnings
            try:
                while (point := next(self._points, None)) is not None:
                    self._left -= 1
                    number, (z, y, x) = point
                    lane.thread_id, lane.threadIdx = number, Dim3(x, y, z)
                    self._function(*self._arguments)
            except _AbandonedError:
                pass
            except Exception as error:  # noqa: BLE001 - the launch raises it, in its own thread
                self._fail(error, lane.threadIdx)
            except BaseException as error:  # noqa: BLE001 - such as SystemExit, which ends no thread of a GPU
                wrapped = RuntimeError(f"the kernel raised {type(error).__name__}: {error}")
                self._fail(wrapped.with_traceback(error.__traceback__), lane.threadIdx)
        _idle.append(lane)
        self._pass_on()

    def meet(self, lane: _Lane) -> None:
        """Wait until all running threads of the block have arrived."""
        self._wait(lane, self._waiting)

    def meet_in_warp(self, lane: _Lane) -> None:
        """Wait until all running threads of the warp that do not wait for the block have arrived."""
        self._wait(lane, self._waiting_in_warps)

    def _wait(self, lane: _Lane, waiting: deque[_Lane]) -> None:
        waiting.append(lane)
        if self._left:
            _lane_for(self).baton.release()
        else:
            self._pass_on()
        lane.baton.acquire()
        if self._error is not None:
            raise _AbandonedError

    def votes(self, lane: _Lane, value: Any) -> list[bool]:
        """Return the value that each thread passed to the barrier."""
        self._votes[lane.thread_id] = bool(value)
        self.meet(lane)
        votes = list(self._votes.values())
        self.meet(lane)
        self._votes.pop(lane.thread_id)
        return votes

    def _fail(self, error: Exception, thread: Dim3) -> None:
        error.add_note(f", in thread {thread} of block {self._index}")
        self._stop(error)

    def _stop(self, error: Exception) -> None:
        self._error, self._left, self._points = error, 0, enumerate(())

    def _pass_on(self) -> None:
        if not self._ready:
            self._ready, self._waiting_in_warps = self._waiting_in_warps, self._ready
        if not self._ready:
            self._ready, self._waiting = self._waiting, self._ready
        if self._ready:
            self._ready.popleft().baton.release()
        else:
            self._done.release()


class _Lane(threading.Thread):
    """A Python thread that runs threads of one block after another, and gives the simulator their position."""

    thread_id: int
    threadIdx: Dim3  # noqa: N815 - names of the simulator's
    blockIdx: Dim3  # noqa: N815

    def __init__(self) -> None:
        super().__init__(name="brainevent-simulated-block", daemon=True)
        self.baton = threading.Semaphore(0)

    def serve(self, block: Block) -> None:
        """Work for a block, once it gets the baton."""
        self._block = block

    def run(self) -> None:
        """Work for one block after another."""
        while True:
            self.baton.acquire()
            self._block.go_on(self)

    def syncthreads(self) -> None:
        """What `cuda.syncthreads()` calls."""
        self._block.meet(self)

    def syncwarp(self) -> None:
        """What `cuda.syncwarp()` calls."""
        self._block.meet_in_warp(self)

    def syncthreads_count(self, value: Any) -> int:
        """What `cuda.syncthreads_count(value)` calls."""
        return sum(self._block.votes(self, value))

    def syncthreads_and(self, value: Any) -> int:
        """What `cuda.syncthreads_and(value)` calls."""
        return int(all(self._block.votes(self, value)))

    def syncthreads_or(self, value: Any) -> int:
        """What `cuda.syncthreads_or(value)` calls."""
        return int(any(self._block.votes(self, value)))


_idle: deque[_Lane] = deque()
os.register_at_fork(after_in_child=_idle.clear)  # threads stay behind


def _lane_for(block: Block) -> _Lane:
    """Return a lane that waits for the baton of this block."""
    try:
        lane = _idle.popleft()
    except IndexError:
        lane = _Lane()
        lane.start()
    lane.serve(block)
    return lane
