# SPDX-License-Identifier: Apache-2.0
"""`Spikes`: which neurons spiked when, as bits on the device; or as a list of events, with the same methods."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ShapeError
from ..event.activity import is_active
from ..event.room import check_array, check_room
from ..event.saved import savable
from ..typing import ArrayLike, IndexLike
from .events import events_in_bits, events_in_order
from .pictured import Pictured
from .statistics import as_float, chosen_neurons, milliseconds

__all__ = ["ListedSpikes", "Spikes", "joined"]

Array = Any


@savable
@functools.partial(jax.tree_util.register_dataclass, data_fields=["bits", "mask"], meta_fields=["size", "dt", "first"])
@dataclass(frozen=True, eq=False, repr=False)
class Spikes(Pictured):
    """All spikes of a run, as `brainevent.record` returns them. Times are in milliseconds, rates in Hz.

    Spikes are a pytree: `jax.jit` and `jax.vmap` return them, and `spikes[k]` is run k of a batch. Those of
    `from_events` hold a list of events instead: they have the same methods, compute `bits` when it is needed, and are
    not a pytree.

    Attributes:
        bits: uint8, (steps, ceil(size / 8)): a bit for each neuron, the first in the lowest bit.
        size: How many neurons ran.
        dt: Length of a step in milliseconds.
        first: Number of the first step.
        mask: Bits of the neurons that count; None for all.

    Examples:
        >>> import math
        >>> import numpy as np, brainevent
        >>> spikes = brainevent.Spikes.from_dense(np.array([[0, 1], [1, 1], [0, 1]]), dt=0.5)
        >>> spikes.times, spikes.neurons
        (array([0. , 0.5, 0.5, 1. ]), array([1, 0, 1, 1]))
        >>> spikes.of([1]).intervals()
        array([0.5, 0.5])
        >>> spikes.between(0.5, math.inf).todense().shape
        (2, 2)
    """

    bits: Any
    size: int
    dt: float
    first: int = 0
    mask: Any = None

    @classmethod
    def from_dense(cls, spikes: ArrayLike, dt: float) -> Spikes:
        """Return the spikes in a dense array.

        Args:
            spikes: Booleans or real numbers, (steps, neurons). Each nonzero element is a spike.
            dt: Length of a step in milliseconds.

        Returns:
            The spikes.

        Raises:
            ShapeError: If the array does not have two dimensions.
            ValueError: If `dt` is not above zero.
        """
        spikes = jnp.asarray(spikes)
        if spikes.ndim != 2:
            raise ShapeError(f"Spikes.from_dense: the array has shape {spikes.shape}; pass (steps, neurons)")
        bits = jnp.packbits(is_active(spikes), axis=1, bitorder="little")
        return cls(bits, spikes.shape[1], milliseconds("Spikes.from_dense", dt))

    @staticmethod
    def from_events(
        steps: IndexLike, neurons: IndexLike, size: int, dt: float, *, first: int = 0, n_steps: int
    ) -> Spikes:
        """Return spikes as a list of events: it takes memory for each spike, whatever the length of the run.

        Args:
            steps: Number of the step of each spike: integers from `first` to `first + n_steps - 1`, in any order.
            neurons: Neuron of each spike: integers below `size`.
            size: How many neurons ran.
            dt: Length of a step, in milliseconds.
            first: Number of the first step of the run.
            n_steps: How many steps ran.

        Returns:
            Spikes with the same methods as others.

        Raises:
            ValueError: A step or neuron is out of range, or a neuron spikes twice in a step.

        Examples:
            >>> import brainevent
            >>> spikes = brainevent.Spikes.from_events([1, 4, 9], [0, 2, 0], size=3, dt=0.5, n_steps=10)
            >>> spikes
            Spikes(3 neurons, 10 steps of 0.5 ms, 3 spikes)
            >>> spikes.rates()
            array([400.,   0., 200.])
        """
        at, who = events_in_order(steps, neurons, size, first=first, n_steps=n_steps)
        return ListedSpikes((at, who), int(n_steps), int(size), milliseconds("Spikes.from_events", dt), int(first))

    def todense(self) -> jax.Array:
        """Return the spikes as a dense array.

        Returns:
            Booleans, (steps, neurons).

        Raises:
            MemoryError: If there is not enough memory for it.
        """
        check_array("Spikes.todense", (*self.bits.shape[:-1], self.size), bool)
        return jnp.unpackbits(self.bits, axis=-1, count=self.size, bitorder="little").astype(bool)

    def __repr__(self) -> str:
        batch = "".join(f"{count} runs, " for count in self.bits.shape[:-2])
        return f"Spikes({batch}{self.size} neurons, {self.bits.shape[-2]} steps of {self.dt:g} ms)"

    # ---- parts

    def __getitem__(self, run: Any) -> Spikes:
        """Return the spikes of one run of a batch."""
        if self.bits.ndim == 2:
            raise self._no_batch()
        return replace(self, bits=self.bits[run], mask=None if self.mask is None else self.mask[run])

    def of(self, neurons: IndexLike | slice) -> Spikes:
        """Return the spikes of some neurons, which keep their numbers.

        Args:
            neurons: A slice, numbers, or a mask, (size,).

        Returns:
            The spikes.

        Raises:
            IndexError: If there is no such neuron.
        """
        mask = self._mask_of(neurons)
        return replace(self, bits=self.bits & mask, mask=mask)

    def _mask_of(self, neurons: Any) -> np.ndarray:
        """Return which neurons count and are chosen, as bits."""
        try:
            chosen = chosen_neurons(neurons, self.size)
        except IndexError as error:
            raise IndexError(f"Spikes.of: {error}") from None
        mask = np.packbits(chosen, bitorder="little")
        return mask if self.mask is None else mask & np.asarray(self.mask)

    def between(self, start: float, stop: float) -> Spikes:
        """Return the spikes of a part of the run; times stay as they are.

        Args:
            start: The beginning in milliseconds, included; `-math.inf` for that of the run.
            stop: The end in milliseconds, excluded; `math.inf` for that of the run.

        Returns:
            The spikes.

        Raises:
            ValueError: If there is no step between them.
        """
        low, high = self._step_of("start", start), self._step_of("stop", stop)
        start, stop = as_float(start), as_float(stop)
        if low >= high:
            raise ValueError(f"Spikes.between: no step is between {start:g} and {stop:g} ms; {self._when()}")
        return self._cut(low, high)

    def _cut(self, low: int, high: int) -> Spikes:
        """Return what happened in some of the run's steps, counted from the first one."""
        return replace(self, bits=self.bits[low:high], first=self.first + low)

    @staticmethod
    def _no_batch() -> TypeError:
        return TypeError("Spikes: this is one run, not a batch; take neurons by of(...), and time by between(...)")

    @property
    def steps(self) -> int:
        """The number of steps."""
        if self.bits.ndim != 2:
            raise ShapeError(f"Spikes: this is a batch of {self.bits.shape[:-2]} runs; take one, as in spikes[0]")
        return int(self.bits.shape[0])

    @functools.cached_property
    def _events(self) -> tuple[np.ndarray, np.ndarray]:
        self.steps  # noqa: B018 - a batch is refused
        return events_in_bits(self.bits, self.first)

    @staticmethod
    def stack(parts: Mapping[str, Spikes]) -> tuple[Spikes, dict[str, np.ndarray]]:
        """Number the neurons of several populations one after the other, so that one picture shows them all.

        Args:
            parts: The spikes of each population, by name, of the same steps of the same length. Of spikes of some
                neurons, as `of` returns them, only these count.

        Returns:
            All spikes, and the `groups` of neurons for `raster`, `plot` and other pictures: a number in the first for
            each neuron of the second.

        Raises:
            ValueError: There are no parts, or they are not of the same steps.

        Examples:
            >>> import numpy as np, brainevent
            >>> exc = brainevent.Spikes.from_dense(np.eye(3), dt=1.0)
            >>> inh = brainevent.Spikes.from_dense(np.ones((3, 2)), dt=1.0)
            >>> spikes, groups = brainevent.Spikes.stack({"exc": exc, "inh": inh})
            >>> spikes, groups["inh"]
            (Spikes(5 neurons, 3 steps of 1 ms, 9 spikes), array([3, 4]))
        """
        return stacked(parts)


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


def stacked(parts: Mapping[str, Spikes]) -> tuple[ListedSpikes, dict[str, np.ndarray]]:
    """Do what `Spikes.stack` says."""
    if not all(isinstance(part, Spikes) for part in dict(parts).values()):
        raise TypeError("Spikes.stack: pass a mapping from names to Spikes, such as {'exc': result['exc.spikes']}")
    if not parts:
        raise ValueError("Spikes.stack: there are no spikes; pass those of at least one population")
    (name, one), *others = parts.items()
    for other, part in others:
        if (part.dt, part.first, part.steps) != (one.dt, one.first, one.steps):
            raise ValueError(
                f"Spikes.stack: {name!r} has {one.steps} steps of {one.dt:g} ms from step {one.first}, and {other!r} "
                f"{part.steps} of {part.dt:g} ms from step {part.first}; pass spikes of the same steps"
            )
    starts = np.cumsum([0, *(part.size for part in parts.values())])
    steps = np.concatenate([part._events[0] for part in parts.values()])
    who = np.concatenate([part.neurons + start for part, start in zip(parts.values(), starts, strict=False)])
    groups = {key: part.members + start for (key, part), start in zip(parts.items(), starts, strict=False)}
    order = np.lexsort((who, steps))
    size, members = int(starts[-1]), np.concatenate(list(groups.values()))
    mask = None if members.size == size else np.packbits(chosen_neurons(members, size), bitorder="little")
    return ListedSpikes((steps[order], who[order]), one.steps, size, one.dt, one.first, mask), groups


def joined(parts: list[ListedSpikes]) -> ListedSpikes:
    """Return runs of the same neurons, each of which begins where the last one ends, as one."""
    one, length = parts[0], sum(part.length for part in parts)
    steps, neurons = (np.concatenate([part.events[k] for part in parts]) for k in (0, 1))
    return ListedSpikes((steps, neurons), length, one.size, one.dt, one.first, one.mask)
