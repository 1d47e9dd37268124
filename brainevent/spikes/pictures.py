# SPDX-License-Identifier: Apache-2.0
"""Draw spikes, rates and intervals; it is imported when a picture is asked for, as it needs matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..bench.plot.draw import Axes, Figure
from ..bench.plot.picture import Picture, background_theme, caption, dress, legend, log_ticks
from ..bench.plot.style import DASHES, THEMES, Theme
from ..errors import did_you_mean
from ..event.structure import checked_count
from .statistics import Statistics

__all__ = ["draw_intervals", "draw_raster", "draw_rate"]

_SIZE = (7.4, 4.0)  # inches
_MOST_MARKS = 20_000  # beyond it, marks in an SVG file are pixels
_TALLEST, _SMALLEST = 9.0, 2.0  # points
_DECADE = 10
Groups = Mapping[str, Any] | None


def draw_raster(
    spikes: Statistics, ax: Any, groups: Groups, theme: str | None, title: str | None, artist: dict[str, Any]
) -> Figure:
    """Do what `Spikes.raster` says."""
    axes, colours = _axes("raster", ax, theme)
    members = spikes.members
    points = 0.7 * 72 * _SIZE[1] / max(1, np.ptp(members) if members.size else 1)
    look = {"linestyle": "none", "marker": "|", "markersize": float(np.clip(points, _SMALLEST, _TALLEST))}
    look |= {"markeredgewidth": 0.9, "rasterized": spikes.neurons.size > _MOST_MARKS}
    for place, (name, part) in enumerate(_parts(spikes, groups)):
        colour = colours.colours[place % len(colours.colours)]
        axes.plot(part.times, part.neurons, **{"color": colour, **look, **artist})
        if name:  # marks are too small for a legend
            axes.plot([], [], color=colour, linestyle="none", marker="s", markersize=7, label=name)
    axes.set(xlabel="time (ms)", ylabel="neuron", xlim=_time(spikes))
    if members.size:
        axes.set_ylim(members[0] - 0.5, members[-1] + 0.5)
    axes.grid(visible=False)
    return _finish(axes, colours, title, own=ax is None)


def draw_rate(
    spikes: Statistics,
    ax: Any,
    groups: Groups,
    theme: str | None,
    title: str | None,
    artist: dict[str, Any],
    wide: float,
) -> Figure:
    """Do what `Spikes.plot_rate` says."""
    axes, colours = _axes("plot_rate", ax, theme)
    for place, (name, part) in enumerate(_parts(spikes, groups)):
        axes.plot(*part.population_rate(wide), **{**_line(colours, place, name), **artist})
    axes.set(xlabel="time (ms)", ylabel="rate (Hz)", xlim=_time(spikes))
    axes.set_ylim(bottom=0)
    caption(axes, colours, [f"Mean rate of a neuron, in bins of {wide:g} ms."])
    return _finish(axes, colours, title, own=ax is None)


def draw_intervals(
    spikes: Statistics, ax: Any, groups: Groups, theme: str | None, title: str | None, artist: dict[str, Any], bins: int
) -> Figure:
    """Do what `Spikes.plot_intervals` says."""
    bins = checked_count("Spikes.plot_intervals", "bins", bins)
    if bins < 1:
        raise ValueError(f"Spikes.plot_intervals: bins is {bins}; pass at least 1")
    axes, colours = _axes("plot_intervals", ax, theme)
    parts = [(name, part.intervals()) for name, part in _parts(spikes, groups)]
    edges = _edges(np.concatenate([found for _, found in parts]), spikes.dt, bins)
    for place, (name, found) in enumerate(parts):
        share = np.histogram(found, edges)[0] / max(1, found.size)
        look = _line(colours, place, name)
        axes.stairs(share, edges, **{**look, "linewidth": 1.4, **artist})
    axes.set(xlabel="interval between spikes (ms)", ylabel="share of intervals", xlim=(edges[0], edges[-1]))
    axes.set_ylim(bottom=0)
    if edges[-1] > _DECADE * edges[0]:
        axes.set_xscale("log")
        log_ticks(axes.xaxis, edges[0], edges[-1])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    counts = " and ".join(f"{found.size} {name}".rstrip() for name, found in parts)
    caption(axes, colours, [f"{counts} intervals, in {edges.size - 1} bins."])
    return _finish(axes, colours, title, own=ax is None)


def _parts(spikes: Statistics, groups: Groups) -> Iterable[tuple[str, Statistics]]:
    return [(name, spikes.of(neurons)) for name, neurons in groups.items()] if groups else [("", spikes)]


def _edges(intervals: np.ndarray, dt: float, bins: int) -> np.ndarray:
    """Return edges of bins that grow with the interval, none between two steps."""
    if not intervals.size:
        return np.array([0.5, 1.5]) * dt
    shortest, longest = intervals.min() / dt, intervals.max() / dt
    if bins > (longest + 1) * np.log((longest + 1) / shortest):  # one for each step, and more say nothing more
        return (np.arange(round(shortest), round(longest) + 2) - 0.5) * dt
    wished = np.geomspace(shortest, longest + 1, bins + 1)  # in steps, each of which is in the middle of its place
    return (np.unique(np.round(wished)) - 0.5) * dt


def _line(theme: Theme, place: int, name: str) -> dict[str, Any]:
    return {
        "color": theme.colours[place % len(theme.colours)],
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 1.2,
        "label": name,
    }


def _time(spikes: Statistics) -> tuple[float, float]:
    return spikes.first * spikes.dt, (spikes.first + max(1, spikes.steps)) * spikes.dt


def _axes(where: str, ax: Any, theme: str | None) -> tuple[Axes, Theme]:
    """Return axes in their theme: those that were passed, or of a new figure."""
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"Spikes.{where}: ax must be axes of matplotlib, found {type(ax).__name__}")
    if theme is not None and theme not in THEMES:
        raise ValueError(
            f"Spikes.{where}: unknown theme {theme!r}{did_you_mean(theme, THEMES)}; themes: {', '.join(THEMES)}"
        )
    axes = Picture(figsize=_SIZE, layout="constrained").add_subplot() if ax is None else ax
    colours = THEMES[theme or "light"] if theme or ax is None else background_theme(axes)
    if theme or ax is None:
        dress(axes, colours)
    return axes, colours


def _finish(axes: Axes, theme: Theme, title: str | None, *, own: bool) -> Figure:
    figure: Any = axes.get_figure(root=True)
    legend(axes, theme)
    if title and own:
        figure.suptitle(title, x=0.012, ha="left", fontsize=12.5, fontweight="bold", color=theme.ink)
    elif title:
        axes.set_title(title, color=theme.ink)
    return figure
