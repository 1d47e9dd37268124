# SPDX-License-Identifier: Apache-2.0
"""Draw bars in groups, with numbers on them: times or speed-ups."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cbook import normalize_kwargs
from matplotlib.patches import Rectangle

from .picture import legend, place_axes, scales, size_in_points
from .series import Chart, Point
from .style import Look, Theme

__all__ = ["draw_bars", "draw_speedups"]

_GROUP = 0.82  # relative to the distance of groups
_LETTER, _LINE = 4.8, 10.0  # points
_SHORTEST = 8.0  # points: a shorter whisker would look like a part of the number


@dataclass(frozen=True)
class _Groups:
    """The positions of bars, next to each other in each category."""

    slots: int
    width: float

    @classmethod
    def of(cls, chart: Chart) -> _Groups:
        side_by_side = (
            max(Counter(point.x for series in chart.series for point in series.points).values(), default=0) > 1
        )
        slots = len(chart.series) if side_by_side else 1
        return cls(slots, _GROUP / slots)

    def numbers(self, ax: Axes, chart: Chart, ends: int) -> tuple[bool, float]:
        """Return whether numbers are turned, and their room relative to the height without it, in the last layout."""
        longest = max((len(chart.y.text(point.y)) for point in _measured(chart)), default=0)
        across, height = size_in_points(ax)
        turned = longest * _LETTER > across / (len(chart.x.categories) + 0.2) * self.width
        room = longest * _LETTER + _LINE if turned else 2 * _LINE
        return turned, room / max(height - ends * room, room)

    def shift(self, i: int) -> float:
        return (i - (self.slots - 1) / 2) * self.width if self.slots > 1 else 0.0


def draw_bars(ax: Axes, chart: Chart, theme: Theme, _own: bool, artist: dict[str, Any]) -> str:
    """Draw a bar for each point; return a description of the spread."""
    least, most = chart.span
    floor = 10 ** math.floor(math.log10(least) - 0.1) if chart.y.log else 0.0
    groups = _bars(ax, chart, theme, floor, artist)
    turned, room = groups.numbers(ax, chart, ends=1)
    if chart.y.log:
        ax.set_ylim(floor, most * (most / floor) ** room)
    elif least >= 0:
        ax.set_ylim(0, most * (1 + room))
    return _finish(ax, chart, theme, groups, floor, turned)


def draw_speedups(ax: Axes, chart: Chart, theme: Theme, _own: bool, artist: dict[str, Any]) -> str:
    """Draw bars upwards from 1 if faster, and downwards if slower; return a description of the spread."""
    groups = _bars(ax, chart, theme, 1.0, artist)
    turned, room = groups.numbers(ax, chart, ends=2)
    least, most = chart.span
    range_ = max(most, 1.5) / min(least, 1 / 1.5)
    ax.set_ylim(
        least / range_**room if least < 1 else 1 / range_**0.05,
        most * range_**room if most > 1 else range_**0.05,
    )
    ax.axhline(1, color=theme.ink, linewidth=1.2, zorder=2.5).set_gid("baseline")
    if chart.ends is None:  # next to a panel there is another one
        ax.annotate(
            f"{chart.y.text(1)} = {chart.baseline}", (1, 1), (6, 0), xycoords=ax.get_yaxis_transform(),
            textcoords="offset points", va="center", fontsize=9.5, color=theme.ink, annotation_clip=False,
        )  # fmt: skip
    return _finish(ax, chart, theme, groups, 1.0, turned)


def _measured(chart: Chart) -> list[Point]:
    return [point for series in chart.series for point in series.points if not math.isnan(point.y)]


def _bars(ax: Axes, chart: Chart, theme: Theme, floor: float, artist: dict[str, Any]) -> _Groups:
    """Draw the bars, and all else that takes room from them, so that the room for numbers is known."""
    scales(ax, chart)
    groups = _Groups.of(chart)
    ax.set_xlim(-0.6, len(chart.x.categories) - 0.4)
    ax.tick_params(axis="x", length=0)
    for i, series in enumerate(chart.series):
        look = Look.of(theme, series.hue, series.mark)
        ours = {"color": look.colour, "hatch": look.hatch, "edgecolor": theme.background, "linewidth": 0.6}
        ours |= {"label": series.name, "width": groups.width, "bottom": floor, "zorder": 2}
        xs, heights = [p.x + groups.shift(i) for p in series.points], [p.y - floor for p in series.points]
        for k, bar in enumerate(ax.bar(xs, heights, **{**ours, **normalize_kwargs(artist, Rectangle)})):
            bar.set_gid(f"{series.mark_id}-{k}")
    legend(ax, theme)
    place_axes(ax)
    return groups


def _finish(ax: Axes, chart: Chart, theme: Theme, groups: _Groups, floor: float, turned: bool) -> str:
    """Add whiskers and numbers, and return a description of the spread."""
    seen = False
    for i, series in enumerate(chart.series):
        for point in series.points:
            x = point.x + groups.shift(i)
            if whisker := _long_enough(ax, point):
                ax.vlines(x, point.low, point.high, color=theme.ink, linewidth=1.1)
                seen = True
            if not math.isnan(point.y):
                _number(ax, chart.y.text(point.y), theme, x, point, point.y >= floor, whisker, turned)
    return f"The whiskers {chart.spread}." if seen else ""


def _long_enough(ax: Axes, point: Point) -> bool:
    """Return whether a whisker is long enough to be visible."""
    figure = ax.get_figure(root=True)
    if figure is None or not point.low < point.high:
        return False
    ends = ax.transData.transform([(point.x, point.low), (point.x, point.high)])
    return bool((ends[1][1] - ends[0][1]) * 72 / figure.dpi > _SHORTEST)


def _number(
    ax: Axes, text: str, theme: Theme, x: float, point: Point, above: bool, whisker: bool, turned: bool
) -> None:
    """Write a number at the end of its bar, beyond the whisker."""
    end = (point.high if above else point.low) if whisker else point.y
    ax.annotate(
        text, (x, end), (0, 3 if above else -3), textcoords="offset points", ha="center",
        va="bottom" if above else "top", fontsize=8, color=theme.ink, rotation=90 if turned else 0,
    )  # fmt: skip
