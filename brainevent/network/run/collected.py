# SPDX-License-Identifier: Apache-2.0
"""`Collected`: what the chunks of a run recorded, joined without holding it twice; and whether there is room for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ...event.room import check_host_room, in_bytes
from ...spikes.trains import ListedSpikes
from ..plan.plan import Plan
from .recorded import Recorded
from .requests import Request
from .result import Result, nothing, value_of

__all__ = ["Collected", "check_room_for"]

_SPARE = 1.5  # times the spikes so far: room to join those of the next chunk too
_INSTEAD = "record fewer neurons, every(n, ..., neurons=...), or run in pieces and keep of each what you need"

Array = Any


def check_room_for(
    plan: Plan, requests: Sequence[Request], first: int, steps: int, where: str = "run", elements: int = 1
) -> None:
    """Raise `MemoryError` if what runs record does not fit in memory; how many spikes there are is not known."""
    sizes = {request.label: elements * _nbytes(plan, request, first, steps) for request in requests}
    total = sum(sizes.values())
    parts = ", ".join(f"{label} {in_bytes(size)}" for label, size in sorted(sizes.items(), key=lambda one: -one[1])[:3])
    times = f" of {elements} elements" if elements > 1 else ""
    each = total // elements if elements > 1 else 0
    check_host_room(where, f"what {steps} steps{times} record ({parts})", total, _INSTEAD, each)


def _nbytes(plan: Plan, request: Request, first: int, steps: int) -> int:
    if request.sample is None:
        return {"rate": 4 * steps, "counts": 4 * request.neurons(plan).size}.get(request.kind, 0)
    rows = request.sample.rows(first, first + steps)
    return int(rows) * request.sample.neurons.size * request.sample.dtype(plan).itemsize


class Collected:
    """What was recorded since step `first`, of a run of at most `steps` steps.

    Samples and rates are copied into arrays for the whole run. Spikes stay as they are until the end; memory to join
    them is kept free.
    """

    def __init__(self, plan: Plan, requests: tuple[Request, ...], first: int, steps: int):
        self.plan, self.requests, self.first, self.steps = plan, requests, first, steps
        self.ran = 0
        self._whole: dict[str, Array] = {}  # by label: samples and rates of all steps
        self._rows = {request.label: 0 for request in requests}
        self._pieces: dict[str, list[ListedSpikes]] = {r.label: [] for r in requests if r.kind == "spikes"}
        self._counts: dict[str, Array] = {}
        self._one: Recorded | None = None  # the first chunk, until there is another one: its arrays may be the result
        self._spare: Array = np.empty(0, np.uint32)  # for the steps of spikes
        self._second: Array = np.empty(0, np.uint32)  # and for their neurons
        self.full = ""  # why no more can be recorded

    def add(self, part: Recorded) -> None:
        """Add what a chunk recorded; if memory is full after it, `full` says so. If this raises, nothing was added."""
        if not self.ran:
            self._one = part
        else:
            if self._one is not None:
                self._add(self._one)
                self._one = None
            self._add(part)
        self.ran += part.steps
        self.full = part.full or self.full

    def _add(self, part: Recorded) -> None:
        for request in self.requests:
            if request.kind in ("sample", "rate") and request.label not in self._whole:
                self._whole[request.label] = self._empty(request)
        if any(part.spikes[request.population][0].size for request in self.requests if request.kind == "spikes"):
            self._keep_free(part)
        for request in self.requests:
            value, label = value_of(self.plan, request, part), request.label
            if request.kind == "spikes":
                self._pieces[label].append(value)
            elif request.kind == "counts":
                self._counts[label] = value + self._counts.get(label, 0)
            else:
                self._whole[label][self._rows[label] : self._rows[label] + len(value)] = value
                self._rows[label] += len(value)

    def _keep_free(self, part: Recorded) -> None:
        """Keep memory free for joining the spikes of any population."""
        most = 0
        for label, pieces in self._pieces.items():
            population = next(request.population for request in self.requests if request.label == label)
            most = max(most, part.spikes[population][0].size + sum(piece.events[0].size for piece in pieces))
        if most <= self._spare.size:
            return
        before, self._spare, self._second = self._spare.size, np.empty(0, np.uint32), np.empty(0, np.uint32)
        try:
            self._spare = np.empty(int(_SPARE * most), np.uint32)
        except MemoryError:
            self.full = "memory is full: there is no room to join more spikes"
            self._spare = np.empty(max(before, most), np.uint32)
        with suppress(MemoryError):  # pieces that are given up usually leave this room
            self._second = np.empty(most, np.uint32)

    def _empty(self, request: Request) -> Array:
        if request.sample is None:
            return np.empty(self.steps, np.int32)
        rows = request.sample.rows(self.first, self.first + self.steps)
        return np.empty((rows, request.sample.neurons.size), request.sample.dtype(self.plan))

    @contextmanager
    def until_full(self, step: Callable[[], int]) -> Iterator[None]:
        """End a block in which memory is full, if something was recorded before; `step` returns the step of now."""
        try:
            yield
        except MemoryError as error:
            if not self.ran:
                raise
            self.full = f"memory is full ({error})" if str(error) else "memory is full"
            if lost := step() - self.first - self.ran:
                self.full += f"; {lost} steps ran after the last one that is recorded"

    def result(self, *, interrupted: bool) -> Result:
        """Return all that was added; the chunks are given up."""
        if self._one is not None:
            values = {request.label: value_of(self.plan, request, self._one) for request in self.requests}
        elif not self.ran:
            values = {request.label: nothing(self.plan, request, self.first) for request in self.requests}
        else:
            values = {request.label: self._joined(request) for request in self.requests}
        ended = interrupted or bool(self.full)
        return Result(self.requests, values, self.first, self.ran, self.plan.dt, ended, self.full)

    def _joined(self, request: Request) -> Any:
        label = request.label
        if request.kind == "counts":
            return self._counts[label]
        if request.kind != "spikes":
            return self._whole[label][: self._rows[label]]
        self._spare = np.empty(0, np.uint32)
        pieces = self._pieces.pop(label)
        steps, neurons = [piece.events[0] for piece in pieces], [piece.events[1] for piece in pieces]
        size, mask = pieces[0].size, pieces[0].mask
        pieces.clear()
        when = _taken(steps, np.uint32)
        self._second = np.empty(0, np.uint32)
        return ListedSpikes((when, _taken(neurons, np.int32)), self.ran, size, self.plan.dt, self.first, mask)


def _taken(pieces: list[Array], dtype: Any) -> Array:
    """Return arrays as one; each is given up when it is copied."""
    if len(pieces) == 1:
        return pieces.pop()
    whole, end = np.empty(sum(piece.size for piece in pieces), dtype), 0
    pieces.reverse()
    while pieces:
        piece = pieces.pop()
        whole[end : end + piece.size] = piece
        end += piece.size
    return whole
