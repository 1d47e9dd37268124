# SPDX-License-Identifier: Apache-2.0
"""Which neuron is in which row of a raster: groups as bands, each with its height, sampled and sorted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import did_you_mean
from ...event.structure import checked_count
from ..statistics import Statistics, as_float, is_number
from .frame import Wish, parts_of, spaced

__all__ = ["MOST_COLOURS", "Band", "Bands", "bands_of"]

_ORDERS = ("rate", "first")
_HEIGHTS = ("neurons", "equal")
MOST_COLOURS = 6  # of groups: more are told apart by their names
_THINNEST = 0.06  # of the height of all bands: a line of text


@dataclass(frozen=True)
class Band:
    """The rows of one group, from the lowest: row k is `neurons[k]`, and all are between `low` and `high`."""

    name: str
    spikes: Statistics
    neurons: np.ndarray
    whole: int  # how many neurons the group has
    low: float
    high: float

    def events(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the step and the row of each spike of the neurons that are shown."""
        rows = np.full(self.spikes.size, -1)
        rows[self.neurons] = np.arange(self.neurons.size)
        steps, neurons = self.spikes._events
        found = rows[neurons]
        return steps[found >= 0], found[found >= 0]

    def heights(self, rows: np.ndarray) -> np.ndarray:
        """Return where rows are on the vertical axis: their lower ends for whole numbers."""
        return self.low + rows * ((self.high - self.low) / max(1, self.neurons.size))


@dataclass(frozen=True)
class Bands:
    """All bands, from the lowest. Where they are `numbered`, the vertical axis is the number of the neuron."""

    each: tuple[Band, ...]
    numbered: bool
    remarks: tuple[str, ...]
    sort_by: str | None

    @property
    def shown(self) -> int:
        """How many neurons are shown."""
        return sum(band.neurons.size for band in self.each)


def bands_of(wish: Wish, spikes: Statistics, sample: Any, sort_by: Any, heights: Any) -> Bands:
    """Return the rows of a raster, as `Spikes.raster` describes them."""
    parts = parts_of(wish, spikes, apart=True)
    key, order = _order(wish.where, spikes, sort_by)
    neurons = [part.members for _, part in parts]
    shares = _shares(wish, [name for name, _ in parts], np.array([part.size for part in neurons]), heights)
    shown = _sampled(wish.where, neurons, shares, sample)
    if key is not None:
        shown = [numbers[np.argsort(key[numbers], kind="stable")] for numbers in shown]
    sizes = np.array([numbers.size for numbers in shown])
    together = np.concatenate(shown)
    numbered = key is None and bool((np.diff(together) == 1).all()) and _is_default(heights)
    numbered = numbered and (len(parts) <= MOST_COLOURS or heights is not None)
    if numbered:
        start = float(together[0]) if together.size else 0.0
        edges = start - 0.5 + np.cumsum([0, *sizes])
    else:
        edges = np.cumsum([0, *(shares * max(1, sizes.sum()))]) - 0.5
    bands = [
        Band(name, part, rows, part.members.size, float(low), float(high))
        for (name, part), rows, low, high in zip(parts, shown, edges[:-1], edges[1:], strict=True)
    ]
    whole = sum(band.whole for band in bands)
    remarks = [f"{spaced(sizes.sum())} of {spaced(whole)} neurons"] if sizes.sum() < whole else []
    remarks += [f"sorted by {order}"] if order else []
    return Bands(tuple(bands), numbered, tuple(remarks), order)


def _is_default(heights: Any) -> bool:
    return heights is None or (isinstance(heights, str) and heights == "neurons")


def _order(where: str, spikes: Statistics, sort_by: Any) -> tuple[np.ndarray | None, str | None]:
    """Return a key for each neuron by which rows rise, and its name."""
    if sort_by is None:
        return None, None
    if isinstance(sort_by, str):
        if sort_by not in _ORDERS:
            raise ValueError(
                f"{where}: sort_by is {sort_by!r}{did_you_mean(sort_by, _ORDERS)}; pass 'rate', 'first' or a number "
                "for each neuron"
            )
        steps, neurons = spikes._events
        if sort_by == "rate":
            return np.bincount(neurons, minlength=spikes.size), "rate"
        key = np.full(spikes.size, np.inf)
        key[neurons[::-1]] = steps[::-1]  # the first spike of a neuron is assigned last
        return key, "first spike"
    key = np.asarray(sort_by)
    if key.shape != (spikes.size,) or key.dtype.kind not in "biuf":
        raise ValueError(
            f"{where}: sort_by is an array of {key.dtype} of shape {key.shape}; pass 'rate', 'first' or a number for "
            f"each of the {spikes.size} neurons"
        )
    return key, "the values given"


def _sampled(where: str, neurons: list[np.ndarray], shares: np.ndarray, sample: Any) -> list[np.ndarray]:
    """Return some neurons of each group, as many as its share of the height and at least one."""
    if sample is None:
        return neurons
    count = checked_count(where, "sample", sample)
    if count < 1:
        raise ValueError(f"{where}: sample is {count}; pass at least 1, or None for all neurons")
    sizes = np.array([numbers.size for numbers in neurons])
    if count >= sizes.sum():
        return neurons
    wanted = np.clip(np.diff(np.round(np.cumsum([0, *shares]) * count)).astype(int), 1, np.maximum(1, sizes))
    random = np.random.default_rng(0)  # the same neurons each time
    return [_spread(random, numbers, size) for numbers, size in zip(neurons, wanted, strict=True)]


def _spread(random: np.random.Generator, numbers: np.ndarray, count: int) -> np.ndarray:
    """Return one element of each of the given number of parts of a list, drawn at random, so all parts are seen."""
    edges = np.arange(count + 1) * numbers.size // count
    return numbers[random.integers(edges[:-1], edges[1:])]


def _shares(wish: Wish, names: list[str], sizes: np.ndarray, heights: Any) -> np.ndarray:
    """Return which part of the height each band has."""
    if _is_default(heights):
        least = _THINNEST if heights is None and len(sizes) > 1 else 0
        shares = np.maximum(sizes / max(1, sizes.sum()), least)
    elif isinstance(heights, str) and heights == "equal":
        shares = np.ones(len(sizes))
    elif isinstance(heights, Mapping):
        shares = _wished(wish, names, heights)
    else:
        raise ValueError(
            f"{wish.where}: heights is {heights!r}{did_you_mean(heights, _HEIGHTS)}; pass 'neurons', 'equal' or a "
            "number for each group, such as {'exc': 2, 'inh': 1}"
        )
    return shares / max(shares.sum(), 1e-9)


def _wished(wish: Wish, names: list[str], heights: Mapping[str, Any]) -> np.ndarray:
    known = list(wish.groups or ())
    for name, height in heights.items():
        if name not in known:
            raise ValueError(
                f"{wish.where}: heights has {name!r}, which is not a group{did_you_mean(name, known)}; "
                f"groups: {', '.join(known) or 'none'}"
            )
        if not is_number(height) or not 0 < as_float(height) < np.inf:
            raise ValueError(f"{wish.where}: the height of {name!r} is {height!r}; pass a number above zero")
    return np.array([as_float(heights.get(name, 1)) for name in names])
