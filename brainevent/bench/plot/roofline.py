# SPDX-License-Identifier: Apache-2.0
"""Draw operations per second against operations per byte, under the roof that the machine was measured to have."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes

from .lines import draw_points
from .series import Chart
from .style import Theme
from .words import number_text

__all__ = ["draw_roofline"]

_GIGA = 1e9
_INSET, _LIFT = 1.06, 1.12  # factors: from the side, and from the roof


def draw_roofline(ax: Axes, chart: Chart, theme: Theme, own: bool, artist: dict[str, Any]) -> str:
    """Draw the points and the roofs; return what the spread is."""
    said = draw_points(ax, chart, theme, own, artist)
    points = [point for series in chart.series for point in series.points if not math.isnan(point.y)]
    ridges = [flops / bandwidth for _, bandwidth, flops in chart.roofs if max(bandwidth, flops) < math.inf]
    left = min([point.x for point in points] + ridges) / 2
    right = max([point.x for point in points] + ridges) * 3
    tops = [min(right * bandwidth, flops) / _GIGA for _, bandwidth, flops in chart.roofs]
    ax.set_xlim(left, right)
    ax.set_ylim(min(point.low for point in points) / 2, max([point.high for point in points] + tops) * 2.5)
    for platform, bandwidth, flops in chart.roofs:
        _roof(ax, theme, (left, right), bandwidth / _GIGA, flops / _GIGA, platform if len(chart.roofs) > 1 else "")
    return said if chart.roofs else f"{said} No ceilings were measured.".strip()


def _roof(ax: Axes, theme: Theme, ends: tuple[float, float], bandwidth: float, flops: float, platform: str) -> None:
    """Draw what memory and arithmetic allow, each with its number; either may be unknown, and infinite then."""
    ridge = min(max(flops / bandwidth if bandwidth < math.inf else ends[0], ends[0]), ends[1])
    xs = [ends[0], ridge, ends[1]]
    ys = [min(x * bandwidth, flops) for x in xs]
    line = ax.plot(xs, ys, color=theme.ink, linewidth=1.6, zorder=2)[0]
    line.set_gid(f"roof-{platform}" if platform else "roof")
    ax.fill_between(xs, ys, ax.get_ylim()[1], color=theme.grid, alpha=0.55, linewidth=0, zorder=0.5)
    which = f"{platform}: " if platform else ""
    words: dict[str, Any] = {"fontsize": 9, "color": theme.ink, "va": "bottom", "rotation_mode": "anchor"}
    if ridge > ends[0] and bandwidth < math.inf:
        x, y = ends[0] * _INSET, ends[0] * _INSET * bandwidth * _LIFT
        # The line has slope 1 between logarithms, so near (x, y) it runs along (x, y).
        slope = math.degrees(math.atan2(y, x))
        text = f"{which}memory, {number_text(_rounded(bandwidth))} GB/s"
        ax.text(x, y, text, rotation=slope, transform_rotates_text=True, **words)
    if ridge < ends[1] and flops < math.inf:
        text = f"{which}float32 matrix product, {number_text(_rounded(flops))} GFLOP/s"
        ax.text(ends[1] / _INSET, flops * _LIFT, text, ha="right", **words)


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")
