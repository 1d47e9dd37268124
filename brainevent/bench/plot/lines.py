# SPDX-License-Identifier: Apache-2.0
"""Draw lines with bands around them, points with whiskers, or rows of dots, with names next to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cbook import normalize_kwargs
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import offset_copy

from .picture import legend, scales, value_scale
from .series import Chart, Point, Series
from .style import Look, Theme

__all__ = ["draw_dots", "draw_lines", "draw_points", "label_column", "of_points"]

_APART = 0.5  # relative to the distance of rows, over which the series of a category are spread
_GAP, _SMALL_GAP = 13.0, 12.5  # points between names
_MOST_IN_COLUMN = 12  # points of a column that are all named
_MOST_ENDS = 16  # names of first and last points for which there is room
_AWAY = 16.0  # points from the axes to a name
_MOST_NAMED = 12  # the most lines with names next to them


def label_ends(ax: Axes, theme: Theme, series: Sequence[Series]) -> None:
    """Write the name of each series to the right of the axes, connected to its last point."""
    ends = [(one, last) for one in series if (last := _last(one)) is not None]
    figure = ax.get_figure(root=True)
    if figure is None:
        return
    figure.draw_without_rendering()  # places the axes, so that positions on paper are known
    to_points = 72 / figure.dpi
    heights = [float(ax.transData.transform((last.x, last.y))[1]) * to_points for _, last in ends]
    for (one, last), height, place in zip(ends, heights, spread_out(heights, _GAP), strict=True):
        beside = offset_copy(ax.get_yaxis_transform(), fig=figure, x=_AWAY, y=place - height, units="points")
        tie = {"arrowstyle": "-", "color": Look.of(theme, one.hue, one.mark).colour, "linewidth": 0.9}
        ax.annotate(
            one.name, (last.x, last.y), (1, last.y), xycoords="data", textcoords=beside, va="center", ha="left",
            fontsize=9.5, color=theme.ink, annotation_clip=False,
            arrowprops={**tie, "shrinkA": 1, "shrinkB": 4, "relpos": (0, 0.5)},
        )  # fmt: skip


def label_column(ax: Axes, theme: Theme, series: Sequence[Series]) -> list[Annotation]:
    """Name points above one another; if they are many, the first and last of each series."""
    named = [(one, point) for one in series for point in one.points if not math.isnan(point.y) and point.label]
    if len(named) > _MOST_IN_COLUMN:
        ends = [[pair for pair in named if pair[0] is one] for one in series]
        named = [pair for own in ends if own for pair in dict.fromkeys((own[0], own[-1]))]
    if len(named) > _MOST_ENDS:
        ordered = sorted(named, key=lambda pair: pair[1].y)
        named = [ordered[0], ordered[-1]]
    figure = ax.get_figure(root=True)
    if figure is None or not named:
        return []
    figure.draw_without_rendering()  # places the axes, so that positions on paper are known
    there = [ax.transData.transform((point.x, point.y)) * 72 / figure.dpi for _, point in named]
    right = max(float(x) for x, _ in there) + _AWAY
    heights = [float(y) for _, y in there]
    found = []
    for (one, point), (x, y), place in zip(named, there, spread_out(heights, _SMALL_GAP), strict=True):
        tie = {"arrowstyle": "-", "color": Look.of(theme, one.hue, one.mark).colour, "linewidth": 0.7}
        found.append(
            ax.annotate(
                point.label, (point.x, point.y), (right - x, place - y), textcoords="offset points", va="center",
                ha="left", fontsize=8, color=theme.ink,
                arrowprops={**tie, "shrinkA": 1, "shrinkB": 4, "relpos": (0, 0.5)},
            )
        )  # fmt: skip
    return found


def _last(series: Series) -> Point | None:
    return next((point for point in reversed(series.points) if not math.isnan(point.y)), None)


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Move places apart until there is a gap between any two, each as little as possible.

    >>> spread_out([0, 1, 50], 10)
    [-4.5, 5.5, 50.0]
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    clusters: list[list[float]] = []  # less its part of the gaps, each member is at the mean of its cluster
    for rank, i in enumerate(order):
        clusters.append([places[i] - rank * gap])
        while len(clusters) > 1 and _mean(clusters[-2]) > _mean(clusters[-1]):
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    level = [_mean(cluster) for cluster in clusters for _ in cluster]
    moved = [0.0] * len(places)
    for rank, i in enumerate(order):
        moved[i] = level[rank] + rank * gap
    return moved


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


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
