# SPDX-License-Identifier: Apache-2.0
"""Draw points in rows, one for each category, with horizontal names and values."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes

from .lines import of_points
from .picture import legend, value_scale
from .series import Chart
from .style import Look, Theme

__all__ = ["draw_dots"]

_APART = 0.5  # relative to the distance of rows, over which the series of a category are spread


def draw_dots(ax: Axes, chart: Chart, theme: Theme, _own: bool, artist: dict[str, Any]) -> str:
    """Draw the points of each series in rows, the first at the top; return a description of the spread."""
    rows = len(chart.x.categories)
    step = _APART / max(len(chart.series), 2)
    for i, series in enumerate(chart.series):
        look = Look.of(theme, series.hue, series.mark)
        shift = (i - (len(chart.series) - 1) / 2) * step
        there = [point for point in series.points if not math.isnan(point.y)]
        places = [point.x + shift for point in there]
        ours: dict[str, Any] = {"facecolors": look.colour, "marker": look.marker, "label": series.name, "s": 42}
        ours |= {"zorder": 3, "edgecolors": theme.background, "linewidths": 0.8}
        dots = ax.scatter([point.y for point in there], places, **{**ours, **of_points(artist)})
        dots.set_gid(series.mark_id)
        spread = [(place, p.low, p.high) for place, p in zip(places, there, strict=True) if p.low < p.high]
        if spread:
            at, lows, highs = zip(*spread, strict=True)
            ax.hlines(at, lows, highs, color=look.colour, linewidth=1.6)
    value_scale(ax, "x", chart.y, chart.span)
    ax.set_yticks(range(rows), list(chart.x.categories))
    ax.set_ylabel(chart.x.words)
    ax.set_ylim(rows - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    for label in ax.get_yticklabels():
        label.set_color(theme.ink)
    ax.grid(visible=True, which="major", axis="both", color=theme.grid, linewidth=0.8)
    legend(ax, theme)
    return f"The bars {chart.spread}." if chart.spread else ""
