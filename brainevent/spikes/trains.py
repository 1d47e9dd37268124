# SPDX-License-Identifier: Apache-2.0
"""`Spikes`: who spiked when, as bits on the device; times, rates and intervals are made when they are asked for."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ShapeError
from ..event.activity import is_active
from ..event.room import check_array

if TYPE_CHECKING:
    from ..bench.plot.draw import Figure
from ..event.saved import savable

__all__ = ["Spikes", "milliseconds"]

_AT_ONCE = 1 << 20  # bytes that hold spikes are unpacked in portions
_PER_SECOND = 1e3  # milliseconds


def is_number(x: Any) -> bool:
    """Say whether x is one real number, which is known."""
    number = isinstance(x, (int, float, np.number, jax.Array)) and not isinstance(x, (bool, jax.core.Tracer))
    return number and not np.shape(x) and not np.iscomplexobj(x)


def as_float(x: Any) -> float:
    """Return a number as a float; what none holds is infinite."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def milliseconds(where: str, dt: Any) -> float:
    """Return the length of a step as a plain number, which is above zero."""
    if not is_number(dt) or not 0 < as_float(dt) < math.inf:
        raise ValueError(f"{where}: dt is {dt!r}; pass the length of a step in milliseconds, a number above zero")
    return float(dt)


@savable
@functools.partial(jax.tree_util.register_dataclass, data_fields=["bits", "mask"], meta_fields=["size", "dt", "first"])
@dataclass(frozen=True, eq=False, repr=False)
class Spikes:
    """All spikes of a run, as `brainevent.record` returns them. Times are in milliseconds, rates in Hz.

    `bits` has a row for each step, and a byte for eight neurons, the first in its lowest bit. `size` neurons ran for
    steps of `dt`, from step `first` on; only those in `mask` count, if there is one. Spikes are a pytree: `jax.jit` and
    `jax.vmap` return them, and `spikes[k]` is run k of a batch. Those of `from_events` hold a list of events instead:
    they answer the same questions, make `bits` when it is asked for, and are no pytree.

    >>> import numpy as np, brainevent
    >>> spikes = brainevent.Spikes.from_dense(np.array([[0, 1], [1, 1], [0, 1]]), dt=0.5)
    >>> spikes.times, spikes.neurons
    (array([0. , 0.5, 0.5, 1. ]), array([1, 0, 1, 1]))
    >>> spikes.of([1]).intervals()
    array([0.5, 0.5])
    """

    bits: Any
    size: int
    dt: float
    first: int = 0
    mask: Any = None

    @classmethod
    def from_dense(cls, spikes: Any, dt: float) -> Spikes:
        """Return the spikes in an array with one row per step and one column per neuron, (steps, n)."""
        spikes = jnp.asarray(spikes)
        if spikes.ndim != 2:
            raise ShapeError(f"Spikes.from_dense: the array has shape {spikes.shape}; pass (steps, neurons)")
        bits = jnp.packbits(is_active(spikes), axis=1, bitorder="little")
        return cls(bits, spikes.shape[1], milliseconds("Spikes.from_dense", dt))

    @staticmethod
    def from_events(steps: Any, neurons: Any, size: int, dt: float, *, first: int = 0, n_steps: int) -> Spikes:
        """Return spikes as a list of events: it takes memory for each spike, whatever the length of the run.

        Args:
            steps: Number of the step of each spike: integers from `first` to `first + n_steps - 1`, in any order.
            neurons: Neuron of each spike: integers below `size`.
            size: How many neurons ran.
            dt: Length of a step, in milliseconds.
            first: Number of the first step of the run.
            n_steps: How many steps ran.

        Returns:
            Spikes with all methods of others.

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
        from .listed import listed

        return listed(steps, neurons, size, dt, first=first, n_steps=n_steps)

    def todense(self) -> jax.Array:
        """Return an array of booleans, (steps, n)."""
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

    def of(self, neurons: Any) -> Spikes:
        """Return the spikes of some neurons, which keep their numbers: a slice, numbers, or a mask."""
        mask = self._mask_of(neurons)
        return replace(self, bits=self.bits & mask, mask=mask)

    def _mask_of(self, neurons: Any) -> np.ndarray:
        """Return which neurons count and are chosen, as bits."""
        chosen = np.zeros(self.size, bool)
        if not isinstance(neurons, slice):
            neurons = np.asarray(neurons)
            neurons = neurons if neurons.size else neurons.astype(int)  # an empty list has no type
        try:
            chosen[neurons] = True
        except IndexError as error:
            raise IndexError(f"Spikes.of: {error}; there are {self.size} neurons") from None
        mask = np.packbits(chosen, bitorder="little")
        return mask if self.mask is None else mask & np.asarray(self.mask)

    def between(self, start: float, stop: float) -> Spikes:
        """Return the spikes from start, included, to stop, excluded, in milliseconds; times stay as they are.

        `-math.inf` and `math.inf` are the beginning and the end of the run.
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

    @property
    def duration(self) -> float:
        """How long the neurons ran, in milliseconds."""
        return self.steps * self.dt

    @functools.cached_property
    def members(self) -> np.ndarray:
        """The numbers of the neurons that count."""
        if self.mask is None:
            return np.arange(self.size)
        return np.flatnonzero(np.unpackbits(np.asarray(self.mask), count=self.size, bitorder="little"))

    # ---- what happened

    @functools.cached_property
    def _events(self) -> tuple[np.ndarray, np.ndarray]:
        """The step and the neuron of each spike, by step, and by neuron within a step."""
        self.steps  # noqa: B018 - a batch is refused
        bits = np.asarray(self.bits)
        rows, places = np.nonzero(bits)
        found = []
        for start in range(0, rows.size, _AT_ONCE):
            row, place = rows[start : start + _AT_ONCE], places[start : start + _AT_ONCE]
            which, bit = np.nonzero(np.unpackbits(bits[row, place][:, None], axis=1, bitorder="little"))
            found.append((row[which] + self.first, place[which] * 8 + bit))
        if not found:
            return np.empty(0, int), np.empty(0, int)
        steps, neurons = (np.concatenate(part) for part in zip(*found, strict=True))
        return steps, neurons

    @property
    def times(self) -> np.ndarray:
        """The time of each spike, in milliseconds and in order."""
        return self._events[0] * self.dt

    @property
    def neurons(self) -> np.ndarray:
        """The neuron of each spike."""
        return self._events[1]

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """How often each neuron spiked."""
        return np.bincount(self.neurons, minlength=self.size)[self.members]

    def rates(self) -> np.ndarray:
        """Return how many spikes a second each neuron had."""
        self._ran("rates")
        return self.counts * (_PER_SECOND / self.duration)

    def population_rate(self, bin: float = 1.0) -> tuple[np.ndarray, np.ndarray]:  # noqa: A002 - the word for it
        """Return the middle of each bin of so many milliseconds, and the mean rate of all neurons within.

        The last bin is what is left of the run: all of it, if a bin is longer than the run.
        """
        self._ran("population_rate")
        if not is_number(bin):
            raise TypeError(f"Spikes.population_rate: bin is {bin!r}; pass a number of milliseconds")
        bin = as_float(bin)  # noqa: A001 - the word for it
        wide = round(bin / self.dt) if math.isfinite(bin / self.dt) else 0
        if wide < 1 or not math.isclose(wide * self.dt, bin, rel_tol=1e-6):
            raise ValueError(f"Spikes.population_rate: bin is {bin:g} ms; pass a multiple of dt, which is {self.dt:g}")
        wide = min(wide, self.steps)
        edges = np.append(np.arange(0, self.steps, wide), self.steps)
        found = np.bincount((self._events[0] - self.first) // wide, minlength=edges.size - 1)
        rate = found * (_PER_SECOND / (np.diff(edges) * self.dt * max(1, self.members.size)))
        return ((edges[:-1] + edges[1:]) / 2 + self.first) * self.dt, rate

    def intervals(self) -> np.ndarray:
        """Return the times between one spike of a neuron and its next, in milliseconds, neuron by neuron."""
        steps, neurons = self._events
        order = np.argsort(neurons, kind="stable")
        return np.diff(steps[order])[np.diff(neurons[order]) == 0] * self.dt

    def _step_of(self, name: str, time: Any) -> int:
        """Return the first of the run's steps that is not before a time, counted from the first one."""
        if not is_number(time) or math.isnan(as_float(time)):
            raise ValueError(f"Spikes.between: {name} is {time!r}; pass a time in milliseconds; {self._when()}")
        last = self.first + self.steps
        return math.ceil(min(max(as_float(time) / self.dt - 1e-6, self.first), last)) - self.first

    def _ran(self, where: str) -> None:
        if not self.steps:
            raise ValueError(f"Spikes.{where}: there are no steps, so there is no rate")

    def _when(self) -> str:
        return f"the run is from {self.first * self.dt:g} to {(self.first + self.steps) * self.dt:g} ms"

    # ---- pictures

    def raster(
        self,
        ax: Any = None,
        *,
        groups: Mapping[str, Any] | None = None,
        theme: str | None = None,
        title: str | None = None,
        **artist: Any,
    ) -> Figure:
        """Draw a mark for each spike, over time and neurons; each of the `groups` of neurons has a colour.

        A new figure of matplotlib is returned, or that of `ax`. `theme` is "light" or "dark". Other keywords go to
        `Axes.plot`.
        """
        from .pictures import draw_raster

        return draw_raster(self, ax, groups, theme, title, artist)

    def plot_rate(
        self,
        ax: Any = None,
        *,
        bin: float = 1.0,  # noqa: A002 - the word for it
        groups: Mapping[str, Any] | None = None,
        theme: str | None = None,
        title: str | None = None,
        **artist: Any,
    ) -> Figure:
        """Draw the mean rate over time, in bins of so many milliseconds; the rest is as for `raster`."""
        from .pictures import draw_rate

        return draw_rate(self, ax, groups, theme, title, artist, bin)

    def plot_intervals(
        self,
        ax: Any = None,
        *,
        bins: int = 60,
        groups: Mapping[str, Any] | None = None,
        theme: str | None = None,
        title: str | None = None,
        **artist: Any,
    ) -> Figure:
        """Draw how often there are intervals of which length between spikes; the rest is as for `raster`."""
        from .pictures import draw_intervals

        return draw_intervals(self, ax, groups, theme, title, artist, bins)
