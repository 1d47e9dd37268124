# SPDX-License-Identifier: Apache-2.0
"""Times, rates and intervals of the spikes of one run, however they are held."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np

from ..event.room import check_room
from ..typing import IndexLike

__all__ = [
    "Statistics",
    "as_float",
    "binned_counts",
    "chosen_neurons",
    "correlations_of",
    "is_number",
    "milliseconds",
    "smoothed",
    "whole_steps",
]

_PER_SECOND = 1e3  # milliseconds


_LEAST_INTERVALS = 2  # one interval does not vary


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


def chosen_neurons(neurons: Any, size: int) -> np.ndarray:
    """Return which neurons a slice, numbers or a mask choose, as booleans (size,)."""
    chosen = np.zeros(size, bool)
    if not isinstance(neurons, slice):
        neurons = np.asarray(neurons)
        neurons = neurons if neurons.size else neurons.astype(int)  # an empty list has no type
    try:
        chosen[neurons] = True
    except IndexError as error:
        raise IndexError(f"{error}; there are {size} neurons") from None
    return chosen


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

    def of(self, neurons: IndexLike | slice) -> Statistics:
        """Return the spikes of some neurons, which keep their numbers.

        Args:
            neurons: A slice, numbers, or a mask, (size,).

        Returns:
            The spikes.

        Raises:
            IndexError: If there is no such neuron.
        """
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
        """Return how many spikes each neuron had in a second.

        Returns:
            Rates in Hz, (neurons that count,).

        Raises:
            ValueError: If the run has no steps.

        Examples:
            >>> import numpy as np, brainevent
            >>> brainevent.Spikes.from_dense(np.array([[0, 1], [1, 1]]), dt=1.0).rates()
            array([ 500., 1000.])
        """
        self._ran("rates")
        return self.counts * (_PER_SECOND / self.duration)

    def population_rate(
        self,
        bin: float = 1.0,  # noqa: A002 - the word for it
        *,
        smooth: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the middle of each bin, and the mean rate of a neuron within it.

        Args:
            bin: Length of a bin in milliseconds, a multiple of `dt`. The last bin may be shorter; if a bin is longer
                than the run, it is cut to the run.
            smooth: Standard deviation, in milliseconds, of a Gaussian that the rate is smoothed by; None for no
                smoothing. At the ends of the run, the part of the Gaussian within the run counts.

        Returns:
            The middle of each bin in milliseconds, and the rate in Hz: two arrays of shape (bins,).

        Raises:
            ValueError: There are no steps, `bin` is not a multiple of `dt`, or `smooth` is not above zero.

        Examples:
            >>> import numpy as np, brainevent
            >>> spikes = brainevent.Spikes.from_dense(np.eye(4), dt=1.0)
            >>> spikes.population_rate(2)
            (array([1., 3.]), array([250., 250.]))
        """
        where = "Spikes.population_rate"
        self._ran("population_rate")
        wide = min(self._steps_in(where, "bin", bin), self.steps)
        edges = np.append(np.arange(0, self.steps, wide), self.steps)
        found = np.bincount((self._events[0] - self.first) // wide, minlength=edges.size - 1)
        seconds = np.diff(edges) * (self.dt / _PER_SECOND)
        if smooth is not None:
            if not is_number(smooth) or not 0 < as_float(smooth) < math.inf:
                raise ValueError(f"{where}: smooth is {smooth!r}; pass milliseconds above zero, or None")
            found, seconds = (smoothed(x, as_float(smooth) / (wide * self.dt)) for x in (found, seconds))
        rate = found / (seconds * max(1, self.members.size))
        return ((edges[:-1] + edges[1:]) / 2 + self.first) * self.dt, rate

    def intervals(self) -> np.ndarray:
        """Return the times between one spike of a neuron and its next.

        Returns:
            Intervals in milliseconds, neuron by neuron.
        """
        steps, neurons = self._events
        order = np.argsort(neurons, kind="stable")
        return np.diff(steps[order])[np.diff(neurons[order]) == 0] * self.dt

    def cv(self) -> np.ndarray:
        """Return the coefficient of variation of the intervals of each neuron: 0 for a clock, 1 for a Poisson process.

        Returns:
            Standard deviation over mean of the intervals, of shape (neurons,); NaN for neurons with fewer than two
            intervals.

        Examples:
            >>> import numpy as np, brainevent
            >>> regular = np.arange(20) % 5 == 0
            >>> brainevent.Spikes.from_dense(regular[:, None], dt=1.0).cv()
            array([0.])
        """
        steps, neurons = self._events
        order = np.argsort(neurons, kind="stable")
        same = np.diff(neurons[order].astype(np.int64)) == 0
        lengths, whose = np.diff(steps[order].astype(np.int64))[same].astype(float), neurons[order][1:][same]
        count = np.bincount(whose, minlength=self.size)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(whose, lengths, self.size) / count
            spread = np.sqrt(np.bincount(whose, (lengths - mean[whose]) ** 2, self.size) / count)
            return np.where(count >= _LEAST_INTERVALS, spread / mean, np.nan)[self.members]

    def fano_factors(self, window: float = 100.0) -> np.ndarray:
        """Return the Fano factor of each neuron: variance over mean of its numbers of spikes in windows of time.

        Args:
            window: Length of a window in milliseconds, a multiple of `dt`. What is left at the end of the run after
                the last whole window does not count.

        Returns:
            Fano factors of shape (neurons,): 1 for a Poisson process, less where spikes are regular; NaN for neurons
            without spikes.

        Raises:
            ValueError: The run has fewer than two windows, or `window` is not a multiple of `dt`.

        Examples:
            >>> import numpy as np, brainevent
            >>> regular = np.arange(20) % 5 == 0
            >>> brainevent.Spikes.from_dense(regular[:, None], dt=1.0).fano_factors(window=10)
            array([0.])
        """
        where, place = "Spikes.fano_factors", self._places()
        wide = self._windows(where, "window", window)
        windows = self.steps // wide
        at, which = (self._events[0] - self.first) // wide, place[self._events[1]]
        inside = at < windows
        # One number for each window in which a neuron spiked: neurons times windows may not fit.
        pairs, count = np.unique(which[inside] * windows + at[inside], return_counts=True)
        whose = pairs // windows
        mean = np.bincount(whose, count, self.members.size) / windows
        square = np.bincount(whose, count.astype(float) ** 2, self.members.size) / windows
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(mean > 0, (square - mean**2) / mean, np.nan)

    def correlations(self, bin: float = 5.0) -> np.ndarray:  # noqa: A002 - the word for it
        """Return the correlation of the spike counts of each pair of neurons.

        Args:
            bin: Length, in milliseconds, of the bins in which spikes are counted, a multiple of `dt`. What is left at
                the end of the run after the last whole bin does not count.

        Returns:
            Pearson's coefficients, float32 of shape (neurons, neurons), in the order of `members`; NaN for neurons
            whose count is the same in all bins, such as those without spikes.

        Raises:
            ValueError: The run has fewer than two bins, or `bin` is not a multiple of `dt`.
            MemoryError: The counts or the coefficients do not fit into memory. Take some neurons, by `of`.

        Examples:
            >>> import numpy as np, brainevent
            >>> dense = np.array([[1, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0]])
            >>> brainevent.Spikes.from_dense(dense, dt=1.0).correlations(bin=1)[0].round(2)
            array([ 1.  ,  1.  , -0.58], dtype=float32)
        """
        where, neurons = "Spikes.correlations", self.members.size
        wide = self._windows(where, "bin", bin)
        bins = self.steps // wide
        # Counts and deviations, and the coefficients: four bytes each.
        what = f"correlations of {neurons} neurons in {bins} bins"
        check_room(where, what, 4 * neurons * (2 * bins + 2 * neurons), on_host=True)
        at, which = (self._events[0] - self.first) // wide, self._places()[self._events[1]]
        return correlations_of(binned_counts(which, at, neurons, bins))

    def _places(self) -> np.ndarray:
        """Return the place of each neuron among those that count."""
        places = np.zeros(self.size, np.int64)
        places[self.members] = np.arange(self.members.size)
        return places

    def _steps_in(self, where: str, name: str, length: Any) -> int:
        """Return how many steps some milliseconds have, which must be a multiple of a step."""
        if not is_number(length):
            raise TypeError(f"{where}: {name} is {length!r}; pass a number of milliseconds")
        length = as_float(length)
        steps = whole_steps(length, self.dt)
        if steps is None:
            raise ValueError(f"{where}: {name} is {length:g} ms; pass a multiple of dt, which is {self.dt:g}")
        return steps

    def _windows(self, where: str, name: str, length: Any) -> int:
        """Return how many steps a window has, of which the run must have two."""
        wide = self._steps_in(where, name, length)
        if self.steps < 2 * wide:
            raise ValueError(
                f"{where}: {name} is {as_float(length):g} ms, and the run has {self.duration:g} ms; "
                "pass at most half of the run"
            )
        return wide

    def _step_of(self, name: str, time: Any) -> int:
        """Return the first of the run's steps that is not before a time, counted from the first one."""
        if not is_number(time) or math.isnan(as_float(time)):
            raise ValueError(f"Spikes.between: {name} is {time!r}; pass a time in milliseconds; {self._when()}")
        last, step = self.first + self.steps, as_float(time) / self.dt
        rounded = step * (1 - 2.0**-22) if getattr(time, "dtype", None) == np.float32 else step
        return math.ceil(min(max(min(step - 1e-6, rounded), self.first), last)) - self.first

    def _ran(self, where: str) -> None:
        if not self.steps:
            raise ValueError(f"Spikes.{where}: the run has no steps, so there is no rate; record at least one")

    def _when(self) -> str:
        return f"the run is from {self.first * self.dt:g} to {(self.first + self.steps) * self.dt:g} ms"


_REACH = 4  # standard deviations, beyond which a Gaussian is nothing


def whole_steps(length: float, dt: float) -> int | None:
    """Return how many steps a length has; None if they are not a whole number above zero.

    >>> whole_steps(2.0, 0.5), whole_steps(0.7, 0.5)
    (4, None)
    """
    steps = round(length / dt) if math.isfinite(length / dt) else 0
    return steps if steps >= 1 and math.isclose(steps * dt, length, rel_tol=1e-6) else None


def smoothed(values: np.ndarray, width: float) -> np.ndarray:
    """Return values summed under a Gaussian of this standard deviation: (bins,) -> (bins,)."""
    reach = min(math.ceil(_REACH * width), values.size)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    return np.convolve(values, kernel / kernel.sum())[reach : reach + values.size]


def binned_counts(neurons: np.ndarray, bins: np.ndarray, n: int, n_bins: int) -> np.ndarray:
    """Return how often each neuron spiked in each bin: (n, n_bins); what is after the last bin does not count."""
    inside = bins < n_bins
    counts = np.zeros((n, n_bins), np.float32)
    np.add.at(counts, (neurons[inside], bins[inside]), 1)
    return counts


def correlations_of(counts: np.ndarray) -> np.ndarray:
    """Return Pearson's coefficient of each pair of rows: (n, bins) -> (n, n); NaN where a row is constant."""
    counts = counts - counts.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
    length = np.sqrt(np.einsum("ij,ij->i", counts, counts, dtype=np.float64))
    constant = np.ptp(counts, axis=1) == 0 if counts.size else np.zeros(len(counts), bool)
    counts /= np.where(constant, 1, length)[:, None].astype(np.float32)
    counts[constant] = np.nan
    found = np.clip(counts @ counts.T, -1, 1)
    np.fill_diagonal(found, np.where(constant, np.nan, 1))
    return found
