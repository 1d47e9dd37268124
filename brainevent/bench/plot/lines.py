# SPDX-License-Identifier: Apache-2.0
"""Draw lines with bands around them, or points with whiskers."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.cbook import normalize_kwargs
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D

from .labels import label_ends
from .picture import legend, scales
from .series import Chart, Series
from .style import Look, Theme

__all__ = ["draw_lines", "draw_points", "of_points"]

_MOST_NAMED = 12  # the most lines with names next to them


def draw_lines(ax: Axes, chart: Chart, theme: Theme, own: bool, artist: dict[str, Any]) -> str:
    """Draw a line for each series, with gaps where nothing was measured; return a description of the spread."""
    for series in chart.series:
        look = Look.of(theme, series.hue, series.mark)
        xs, ys = [point.x for point in series.points], [point.y for point in series.points]
        ours: dict[str, Any] = {
            "color": look.colour,
            "linestyle": look.dash,
            "marker": look.marker,
            "label": series.name,
        }
        ours |= {"linewidth": 1.8, "markersize": 5.5, "markeredgecolor": theme.background, "markeredgewidth": 0.8}
        line = ax.plot(xs, ys, **{**ours, **normalize_kwargs(artist, Line2D)})[0]
        line.set_gid(series.mark_id)
        lows, highs = [point.low for point in series.points], [point.high for point in series.points]
        ax.fill_between(xs, lows, highs, color=line.get_color(), alpha=0.22, linewidth=0)
    scales(ax, chart)
    if own and len(chart.series) <= _MOST_NAMED:
        label_ends(ax, theme, chart.series)
    else:
        legend(ax, theme)
    return f"The bands {chart.spread}." if chart.spread else ""


def draw_points(ax: Axes, chart: Chart, theme: Theme, _own: bool, artist: dict[str, Any]) -> str:
    """Draw the points of each series; return a description of the spread."""
    for series in chart.series:
        look = Look.of(theme, series.hue, series.mark)
        xs, ys = [point.x for point in series.points], [point.y for point in series.points]
        ours: dict[str, Any] = {
            "facecolors": look.colour,
            "marker": look.marker,
            "label": series.name,
            "s": 42,
            "zorder": 3,
        }
        ours |= {"edgecolors": theme.background, "linewidths": 0.8}
        points = ax.scatter(xs, ys, **{**ours, **of_points(artist)})
        points.set_gid(series.mark_id)
        _whiskers(ax, series, look.colour)
    scales(ax, chart)
    legend(ax, theme)
    return f"The whiskers {chart.spread}." if chart.spread else ""


def of_points(artist: dict[str, Any]) -> dict[str, Any]:
    """Make a colour apply to the whole point."""
    named = normalize_kwargs(artist, PathCollection)
    if "color" in named:
        named["facecolors"] = named.pop("color")
    return {{"facecolor": "facecolors", "edgecolor": "edgecolors"}.get(key, key): v for key, v in named.items()}


def _whiskers(ax: Axes, series: Series, colour: str) -> None:
    """Draw the spread of each point."""
    spread = [point for point in series.points if point.low < point.high]
    if spread:
        xs = [point.x for point in spread]
        lows, highs = [point.low for point in spread], [point.high for point in spread]
        ax.vlines(xs, lows, highs, color=colour, linewidth=1.1)
