# SPDX-License-Identifier: Apache-2.0
"""`ListedSpikes`: spikes as a list of events, which takes memory for what happened, not for what did not."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ShapeError
from ..event.room import check_room
from ..event.structure import checked_count
from .trains import Spikes, milliseconds

__all__ = ["ListedSpikes", "joined", "listed"]

Array = Any


class ListedSpikes(Spikes):
    """`Spikes` of one run that hold the step and the neuron of each spike; `bits` is made when it is asked for."""

    events: tuple[Array, Array]  # steps and neurons, by step, and by neuron within a step
    length: int  # in steps

    def __init__(
        self, events: tuple[Array, Array], length: int, size: int, dt: float, first: int = 0, mask: Any = None
    ):
        vars(self).update(events=events, length=length, size=size, dt=dt, first=first, mask=mask)

    @functools.cached_property
    def bits(self) -> jax.Array:  # type: ignore[override]
        """A row for each step, and a byte for eight neurons."""
        shape = (self.length, -(-self.size // 8))
        what = f"{self.length} steps of {self.size} neurons as bits"
        check_room("Spikes.bits", what, shape[0] * shape[1], on_host=True)
        rows, neurons = self.events[0] - self.first, self.events[1]
        bits = np.zeros(shape, np.uint8)
        np.bitwise_or.at(bits, (rows, neurons >> 3), np.uint8(1) << (neurons & 7).astype(np.uint8))
        return jnp.asarray(bits)

    def __repr__(self) -> str:
        count = self.events[0].size
        spikes = f"{count} spike{'' if count == 1 else 's'}"
        return f"Spikes({self.size} neurons, {self.length} steps of {self.dt:g} ms, {spikes})"

    def __getitem__(self, run: Any) -> Spikes:
        """Raise: this is one run."""
        raise self._no_batch()

    def of(self, neurons: Any) -> Spikes:
        """Return the spikes of some neurons, which keep their numbers: a slice, numbers, or a mask."""
        mask = self._mask_of(neurons)
        chosen = np.unpackbits(mask, count=self.size, bitorder="little").astype(bool)[self.events[1]]
        steps, who = self.events
        return ListedSpikes((steps[chosen], who[chosen]), self.length, self.size, self.dt, self.first, mask)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.length

    @property
    def _events(self) -> tuple[Array, Array]:
        return self.events

    def _cut(self, low: int, high: int) -> Spikes:
        first = self.first + low
        start, stop = np.searchsorted(self.events[0], (first, self.first + high))
        steps, neurons = (part[start:stop] for part in self.events)
        return ListedSpikes((steps, neurons), high - low, self.size, self.dt, first, self.mask)


def listed(steps: Any, neurons: Any, size: int, dt: float, *, first: int, n_steps: int) -> ListedSpikes:
    """Do what `Spikes.from_events` says."""
    where = "Spikes.from_events"
    size, first = _counted("size", size), _counted("first", first)
    n_steps = _counted("n_steps", n_steps)
    at, who = _integers("steps", steps), _integers("neurons", neurons)
    if at.shape != who.shape:
        raise ShapeError(f"{where}: {at.size} steps but {who.size} neurons; pass one of each for every spike")
    _check_range("step", at, first, first + n_steps)
    _check_range("neuron", who, 0, size)
    rising = (at[1:] > at[:-1]) | ((at[1:] == at[:-1]) & (who[1:] > who[:-1]))
    if not rising.all():
        order = np.lexsort((who, at))
        at, who = at[order], who[order]
        twice = np.flatnonzero((at[1:] == at[:-1]) & (who[1:] == who[:-1]))
        if twice.size:
            k = twice[0]
            raise ValueError(f"{where}: neuron {who[k]} spikes twice in step {at[k]}; pass each spike once")
    return ListedSpikes((at, who), n_steps, size, milliseconds(where, dt), first)


def joined(parts: list[ListedSpikes]) -> ListedSpikes:
    """Return runs of the same neurons, each of which begins where the last one ends, as one."""
    one, length = parts[0], sum(part.length for part in parts)
    steps, neurons = (np.concatenate([part.events[k] for part in parts]) for k in (0, 1))
    return ListedSpikes((steps, neurons), length, one.size, one.dt, one.first, one.mask)


def _counted(name: str, number: Any) -> int:
    count = checked_count("Spikes.from_events", name, number)
    if count < 0:
        raise ValueError(f"Spikes.from_events: {name} is {count}; pass at least 0")
    return count


def _integers(name: str, values: Any) -> Array:
    array = np.asarray(values)
    array = array if array.size else array.astype(np.int64)  # an empty list has no type
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            f"Spikes.from_events: {name} is an array of {array.dtype} of shape {array.shape}; "
            "pass a vector of integers, an element for each spike"
        )
    return array


def _check_range(name: str, values: Array, low: int, high: int) -> None:
    wrong = values[(values < low) | (values >= high)][:1]
    if wrong.size:
        raise ValueError(f"Spikes.from_events: {name} {wrong[0]} is not within {low} to {high - 1}")
