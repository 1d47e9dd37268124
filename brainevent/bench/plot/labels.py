# SPDX-License-Identifier: Apache-2.0
"""Name lines at their ends, and points in a column, without overlapping names."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import offset_copy

from .series import Point, Series
from .style import Look, Theme

__all__ = ["label_column", "label_ends", "spread_out"]

_GAP, _SMALL_GAP = 13.0, 12.5  # points between names
_MOST_NAMED = 12  # points of a column that are all named
_MOST_ENDS = 16  # names of first and last points for which there is room
_AWAY = 16.0  # points from the axes to a name


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
    if len(named) > _MOST_NAMED:
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
