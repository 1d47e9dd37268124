# SPDX-License-Identifier: Apache-2.0
"""Draw rates, intervals, Fano factors and correlations of spikes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...bench.plot.draw import Axes, Figure
from ...bench.plot.picture import log_ticks
from ...event.structure import checked_count
from ..statistics import Statistics
from .frame import (
    Wish,
    axes_of,
    finish,
    is_alone,
    label_time,
    line_look,
    parts_of,
    remark,
    say_empty,
    sentence,
    set_limits,
)

__all__ = ["draw_correlations", "draw_fano", "draw_intervals", "draw_rate", "round_bin", "time_of"]

_DECADE = 10
_BINS_OF_A_RUN = 250  # what a line of a picture shows
_FEWEST_WINDOWS = 10  # from which a variance says something
_WINDOWS = 24  # lengths of windows
_MOST_TOGETHER = 300  # neurons whose pairs are correlated
_OUTSIDE = 0.1  # percent of pairs, at either end of a histogram


def round_bin(spikes: Statistics) -> float:
    """Return a length for bins, of which a picture shows some 250: 1, 2 or 5 of a power of ten steps."""
    wide = max(1.0, spikes.steps / _BINS_OF_A_RUN)
    unit = 10 ** math.floor(math.log10(wide))
    return float(next(unit * k for k in (1, 2, 5, 10) if unit * k >= wide) * spikes.dt)


def time_of(spikes: Statistics) -> tuple[float, float]:
    """Return when a run begins and ends."""
    return spikes.first * spikes.dt, (spikes.first + max(1, spikes.steps)) * spikes.dt


def draw_rate(
    spikes: Statistics,
    wish: Wish,
    bin: float,  # noqa: A002 - the word for it
    smooth: float | None,
    remarks: list[str] | None = None,
) -> Figure:
    """Do what `Spikes.plot_rate` says."""
    parts = parts_of(wish, spikes)
    rates = [part.population_rate(bin, smooth=smooth) for _, part in parts] if spikes.steps else []
    axes, theme = axes_of(wish)
    alone, below = is_alone(axes), axes.get_ylim()[0]
    for place, ((name, _), rate) in enumerate(zip(parts, rates, strict=False)):
        axes.plot(*rate, **{**line_look(theme, place, name), **wish.artist})
    axes.set_ylabel("rate (Hz)")
    set_limits(axes, *time_of(spikes), alone=alone)
    axes.set_ylim(bottom=0 if alone else min(0, below))
    label_time(axes)
    if not any(rate.any() for _, rate in rates):
        axes.set_ylim(0, 1)
        say_empty(axes, theme, f"no spikes in {spikes.duration:g} ms" if spikes.steps else "no steps")
    else:
        smoothing = "" if smooth is None else f", smoothed by a Gaussian of {smooth:g} ms"
        note = f"Mean rate of a neuron, in bins of {bin:g} ms{smoothing}."
        remark(axes, theme, " ".join([*(remarks or []), note]))
    return finish(axes, theme, wish.title, own=wish.ax is None)


def draw_intervals(spikes: Statistics, wish: Wish, bins: int) -> Figure:
    """Do what `Spikes.plot_intervals` says."""
    bins = checked_count(wish.where, "bins", bins)
    if bins < 1:
        raise ValueError(f"{wish.where}: bins is {bins}; pass at least 1")
    parts = [(name, part, part.intervals()) for name, part in parts_of(wish, spikes)]
    axes, theme = axes_of(wish)
    everything = np.concatenate([found for *_, found in parts])
    edges = _edges(everything, spikes.dt, bins)
    for place, (name, _, found) in enumerate(parts):
        share = np.histogram(found, edges)[0] / max(1, found.size)
        axes.stairs(share, edges, **{**line_look(theme, place, name), "linewidth": 1.4, **wish.artist})
    axes.set(xlabel="interval between spikes (ms)", ylabel="share of intervals", xlim=(edges[0], edges[-1]))
    axes.set_ylim(bottom=0)
    if edges[-1] > _DECADE * edges[0]:
        axes.set_xscale("log")
        log_ticks(axes.xaxis, edges[0], edges[-1])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if not everything.size:
        axes.set_ylim(0, 1)
        say_empty(axes, theme, "no intervals: no neuron spiked twice")
    counts = sentence([f"{found.size} {name}".rstrip() for name, _, found in parts])
    words = [f"{counts} intervals, in {edges.size - 1} bins."]
    words += _means("Mean CV of the intervals of a neuron", [(name, part.cv()) for name, part, _ in parts])
    remark(axes, theme, " ".join(words))
    return finish(axes, theme, wish.title, own=wish.ax is None)


def _means(words: str, groups: list[tuple[str, np.ndarray]]) -> list[str]:
    """Return a sentence on the mean of what each neuron of each group has; none if none has."""
    means = [(name, float(np.nanmean(found))) for name, found in groups if np.isfinite(found).any()]
    listed = ", ".join(f"{name} {mean:.2f}".strip() for name, mean in means)
    return [f"{words}: {listed}."] if means else []


def _edges(intervals: np.ndarray, dt: float, bins: int) -> np.ndarray:
    """Return edges of bins that grow with the interval, none between two steps."""
    if not intervals.size:
        return np.array([0.5, 1.5]) * dt
    shortest, longest = intervals.min() / dt, intervals.max() / dt
    if bins > (longest + 1) * np.log((longest + 1) / shortest):  # one for each step, and more say nothing more
        return (np.arange(round(shortest), round(longest) + 2) - 0.5) * dt
    wished = np.geomspace(shortest, longest + 1, bins + 1)  # in steps, each of which is in the middle of its place
    return (np.unique(np.round(wished)) - 0.5) * dt


def draw_fano(spikes: Statistics, wish: Wish) -> Figure:
    """Do what `Spikes.plot_fano` says."""
    parts = parts_of(wish, spikes)
    most = spikes.steps // _FEWEST_WINDOWS
    lengths = np.unique(np.round(np.geomspace(1, most, _WINDOWS)).astype(int)) if most else np.empty(0, int)
    axes, theme = axes_of(wish)
    found = [_fano_by_window(part, lengths) for _, part in parts]
    drawn = any(np.isfinite(means).any() for means in found)
    for place, ((name, _), means) in enumerate(zip(parts, found, strict=True)):
        axes.plot(lengths * spikes.dt, means, **{**line_look(theme, place, name), **wish.artist})
    axes.set(xlabel="length of a window (ms)", ylabel="Fano factor")
    if drawn:
        axes.set_xscale("log")
        axes.set_xlim(lengths[0] * spikes.dt, max(lengths[-1], 2) * spikes.dt)
        log_ticks(axes.xaxis, lengths[0] * spikes.dt, max(lengths[-1], 2) * spikes.dt)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.axhline(1, color=theme.muted, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0.5)
        axes.set_ylim(0, 1.1 * max(1, axes.dataLim.y1))
        remark(axes, theme, "Mean over neurons of the variance over the mean of their spike counts. Poisson: 1.")
    else:
        few = f"fewer than {_FEWEST_WINDOWS} steps" if spikes.steps < _FEWEST_WINDOWS else "no spikes"
        say_empty(axes, theme, f"{few} in {spikes.duration:g} ms")
    return finish(axes, theme, wish.title, own=wish.ax is None)


def _fano_by_window(part: Statistics, lengths: np.ndarray) -> np.ndarray:
    """Return the mean Fano factor of neurons for windows of the given steps; NaN where none spikes within them."""
    factors = [part.fano_factors(int(steps) * part.dt) for steps in lengths]
    return np.array([np.nanmean(found) if np.isfinite(found).any() else np.nan for found in factors])


def draw_correlations(spikes: Statistics, wish: Wish, bin: float, bins: int) -> Figure:  # noqa: A002 - the word for it
    """Do what `Spikes.plot_correlations` says."""
    bins = checked_count(wish.where, "bins", bins)
    if bins < 1:
        raise ValueError(f"{wish.where}: bins is {bins}; pass at least 1")
    found = []
    for name, part in parts_of(wish, spikes):
        active = part.members[part.counts > 0]  # correlations of others are not defined
        if active.size > _MOST_TOGETHER:
            random = np.random.default_rng(0)  # the same neurons each time
            active = random.choice(active, _MOST_TOGETHER, replace=False)
        values = part.of(active).correlations(bin)
        pairs = values[np.triu_indices(len(values), 1)]
        found.append((name, active.size, pairs[np.isfinite(pairs)]))
    axes, theme = axes_of(wish)
    everything = np.concatenate([pairs for *_, pairs in found])
    axes.set(xlabel="correlation of two neurons", ylabel="share of pairs")
    if everything.size:
        edges = _span(everything, bins)
        _histograms(axes, theme, wish, found, edges)
        neurons = sentence([f"{size} {name}".rstrip() for name, size, _ in found])
        words = f"Pairs of {neurons} neurons that spiked, counted in bins of {bin:g} ms."
        beyond = np.mean((everything < edges[0]) | (everything > edges[-1]))
        off_axis = [f"{100 * beyond:.1g} % of the pairs are beyond the axis."] if beyond else []
        remark(axes, theme, " ".join([words, *_small_means(found), *off_axis]))
    else:
        axes.set(xlim=(-1, 1), ylim=(0, 1))
        say_empty(axes, theme, "no pairs: fewer than two neurons spiked")
    return finish(axes, theme, wish.title, own=wish.ax is None)


def _span(values: np.ndarray, bins: int) -> np.ndarray:
    """Return edges of bins that hold nearly all values, with room at both ends."""
    low, high = (float(edge) for edge in np.percentile(values, (_OUTSIDE, 100 - _OUTSIDE)))
    room = max(0.01, 0.02 * (high - low))
    return np.linspace(max(-1, low - room), min(1, high + room), bins + 1)


def _small_means(found: list[tuple[str, int, np.ndarray]]) -> list[str]:
    listed = ", ".join(f"{name} {pairs.mean():.3f}".strip() for name, _, pairs in found if pairs.size)
    return [f"Mean: {listed}."]


def _histograms(axes: Axes, theme: Any, wish: Wish, found: Any, edges: np.ndarray) -> None:
    for place, (name, _, pairs) in enumerate(found):
        share = np.histogram(pairs, edges)[0] / max(1, pairs.size)
        axes.stairs(share, edges, **{**line_look(theme, place, name), "linewidth": 1.4, **wish.artist})
    axes.axvline(0, color=theme.muted, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0.5)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
