# SPDX-License-Identifier: Apache-2.0
"""Draw operations per second against operations per byte, with the measured limits of the machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from .lines import draw_points, label_column
from .picture import log_ticks
from .quantity import number_text
from .series import Chart, Point
from .style import Theme

__all__ = ["draw_roofline"]

_GIGA = 1e9
_INSET, _LIFT = 1.06, 1.12  # factors: from the side, and from the roof
_COLUMN = 1.5  # points whose intensities differ by less are in one column
_PLACES = 40  # along the memory line, to try its name at
_FREE, _HIGH = 8.0, 14.0  # points around what is drawn, and the height of a name


def draw_roofline(ax: Axes, chart: Chart, theme: Theme, own: bool, artist: dict[str, Any]) -> str:
    """Draw the points and the limits; return a description of the spread."""
    said = draw_points(ax, chart, theme, own, artist)
    points = [point for series in chart.series for point in series.points if not math.isnan(point.y)]
    ridges = [flops / bandwidth for _, bandwidth, flops in chart.roofs if max(bandwidth, flops) < math.inf]
    left = min([point.x for point in points] + ridges) / 2
    right = max([point.x for point in points] + ridges) * 3
    tops = [min(right * bandwidth, flops) / _GIGA for _, bandwidth, flops in chart.roofs]
    ax.set_xlim(left, right)
    in_column = max(point.x for point in points) < _COLUMN * min(point.x for point in points)
    bottom = min(point.low for point in points) / (4 if in_column else 2)  # names extend below their points
    ax.set_ylim(bottom, max([point.high for point in points] + tops) * 2.5)
    for side in (ax.xaxis, ax.yaxis):
        log_ticks(side, *side.get_view_interval())
    names = label_column(ax, theme, chart.series) if in_column else []
    for platform, bandwidth, flops in chart.roofs:
        which = f"{platform}: " if len(chart.roofs) > 1 else ""
        roof = _roof(ax, theme, (left, right), bandwidth / _GIGA, flops / _GIGA, which)
        if roof is not None:
            _move_aside(ax, roof, bandwidth / _GIGA, min(right, flops / bandwidth), points, names)
    return said if chart.roofs else f"{said} No ceilings were measured.".strip()


def _roof(ax: Axes, theme: Theme, ends: tuple[float, float], bandwidth: float, flops: float, which: str) -> Text | None:
    """Draw the limits of memory and arithmetic, with their numbers; return the name of the memory line.

    An unknown limit is infinite.
    """
    ridge = min(max(flops / bandwidth if bandwidth < math.inf else ends[0], ends[0]), ends[1])
    xs = [ends[0], ridge, ends[1]]
    ys = [min(x * bandwidth, flops) for x in xs]
    line = ax.plot(xs, ys, color=theme.ink, linewidth=1.6, zorder=2)[0]
    line.set_gid(f"roof-{which.removesuffix(': ')}" if which else "roof")
    ax.fill_between(xs, ys, ax.get_ylim()[1], color=theme.grid, alpha=0.55, linewidth=0, zorder=0.5)
    words: dict[str, Any] = {"fontsize": 9, "color": theme.ink, "va": "bottom", "rotation_mode": "anchor"}
    if ridge < ends[1] and flops < math.inf:
        text = f"{which}float32 matrix product, {number_text(_rounded(flops))} GFLOP/s"
        ax.text(ends[1] / _INSET, flops * _LIFT, text, ha="right", **words)
    if ridge <= ends[0] or bandwidth == math.inf:
        return None
    x, y = ends[0] * _INSET, ends[0] * _INSET * bandwidth * _LIFT
    # The line has slope 1 between logarithms, so near (x, y) it runs along (x, y).
    slope = math.degrees(math.atan2(y, x))
    text = f"{which}memory, {number_text(_rounded(bandwidth))} GB/s"
    return ax.text(x, y, text, rotation=slope, transform_rotates_text=True, **words)


def _move_aside(
    ax: Axes, name: Text, bandwidth: float, end: float, points: Sequence[Point], names: Sequence[Annotation]
) -> None:
    """Move the name of the memory line along it, to the first place where it covers no point and no other name."""
    figure = ax.get_figure(root=True)
    if figure is None:
        return
    figure.draw_without_rendering()
    unit = figure.dpi / 72
    length = Text(text=name.get_text(), fontsize=name.get_fontsize(), figure=figure).get_window_extent().width
    taken = [Bbox([place, place]) for place in ax.transData.transform([(point.x, point.y) for point in points])]
    taken += [Text.get_window_extent(other) for other in names]  # without their ties
    corners = np.array([box.padded(_FREE * unit).corners() for box in taken])
    start = name.get_position()[0]
    for x in np.geomspace(start, max(end, start), _PLACES):
        at, beyond = ax.transData.transform([(x, x * bandwidth * _LIFT), (2 * x, 2 * x * bandwidth * _LIFT)])
        along = (beyond - at) / np.hypot(*(beyond - at))
        s, h = (corners - at) @ along, (corners - at) @ np.array([-along[1], along[0]])
        covered = (s.min(1) < length) & (s.max(1) > 0) & (h.min(1) < _HIGH * unit) & (h.max(1) > 0)
        last = ax.transData.inverted().transform(at + length * along)
        if not covered.any() and last[0] <= end and ax.bbox.contains(*at):
            name.set(x=x, y=x * bandwidth * _LIFT, rotation=math.degrees(math.atan2(x * bandwidth * _LIFT, x)))
            return


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")
