# SPDX-License-Identifier: Apache-2.0
"""Times, rates and intervals of the spikes of one run, however they are held."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np

__all__ = ["Statistics", "as_float", "milliseconds"]

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


class Statistics:
    """What follows from the step and the neuron of each spike."""

    size: int
    dt: float
    first: int
    mask: Any

    @property
    def steps(self) -> int:
        """The number of steps."""
        raise NotImplementedError

    @property
    def _events(self) -> tuple[Any, Any]:
        """The step and the neuron of each spike, by step, and by neuron within a step."""
        raise NotImplementedError

    def of(self, neurons: Any) -> Statistics:
        """Return the spikes of some neurons."""
        raise NotImplementedError

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
