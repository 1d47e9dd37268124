# SPDX-License-Identifier: Apache-2.0
"""A figure with reproducible files in which text stays text, and the frame of a picture."""

from __future__ import annotations

import io
import itertools
import math
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from .series import Axis, Chart
from .style import THEMES, Theme

__all__ = [
    "Picture",
    "background_theme",
    "caption",
    "dress",
    "entitle",
    "fit_log_ticks",
    "legend",
    "log_ticks",
    "place_axes",
    "scales",
    "size_in_points",
    "value_scale",
]

_UNDATED = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}
_SALT: Any = {"svg.fonttype": "none", "svg.hashsalt": "brainevent"}
_MOST_TICKS = 8
# Up to this number of decades, these numbers of each have ticks.
_TICKS = ((0.5, (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)), (2.6, (1.0, 2.0, 5.0)), (math.inf, (1.0,)))
_TICK_WIDTH, _TICK_HEIGHT = 44, 16  # points of a number at an axis
_HANDLE, _LETTER = 48, 5.8  # points, in a legend
_CAPTION_WIDTH = 100


class Picture(Figure):
    """A figure that saves SVG with text as text, and the same bytes each time."""

    def savefig(self, fname: Any, *, transparent: bool | None = None, **kwargs: Any) -> None:
        """Save a file, as `Figure.savefig` does."""
        named = Path(fname).suffix[1:] if isinstance(fname, (str, os.PathLike)) else ""
        undated = _UNDATED.get(str(kwargs.get("format") or named).lower(), {})
        metadata = {**undated, **(kwargs.pop("metadata", None) or {})}
        with rc_context(_SALT):
            options = {"dpi": 160, "facecolor": "auto", **kwargs, "metadata": metadata}
            super().savefig(fname, transparent=transparent, **options)

    def _repr_png_(self) -> bytes:
        """Show the picture in a notebook."""
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def background_theme(ax: Axes) -> Theme:
    """Return the theme for the background of axes."""
    red, green, blue = to_rgb(ax.get_facecolor()[:3])
    return THEMES["light" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "dark"]


def dress(ax: Axes, theme: Theme) -> None:
    """Give axes and their figure the colours of a theme, with few lines and grey numbers."""
    figure = ax.get_figure(root=True)
    if figure is not None:
        figure.set_facecolor(theme.background)
    ax.set_facecolor(theme.background)
    for name, spine in ax.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(theme.muted)
    ax.tick_params(which="both", colors=theme.muted, labelsize=9)
    ax.tick_params(which="minor", length=2)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_color(theme.ink)
    ax.grid(visible=True, which="major", axis="y", color=theme.grid, linewidth=0.8)
    ax.set_axisbelow(True)


def scales(ax: Axes, chart: Chart) -> None:
    """Set scales, ticks and words of both axes."""
    points = [point for series in chart.series for point in series.points]
    _scale(ax, "x", chart.x, [point.x for point in points])
    _scale(ax, "y", chart.y, [point.y for point in points if not math.isnan(point.y)] + [1.0] * bool(chart.baseline))


def _scale(ax: Axes, which: str, axis: Axis, there: Sequence[float]) -> None:
    side = ax.xaxis if which == "x" else ax.yaxis
    ax.set(**{f"{which}label": axis.words})
    if axis.categories:
        turned = sum(map(len, axis.categories)) > 70 and not any("\n" in name for name in axis.categories)
        turn: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if turned else {}
        side.set_ticks(range(len(axis.categories)), list(axis.categories), **turn)
        return
    if axis.log:
        ax.set(**{f"{which}scale": "log"})
        log_ticks(side, min(there), max(there))
    if axis.numbers and _apart(axis.numbers, axis.log):
        side.set_major_locator(FixedLocator(list(axis.numbers)))
        side.set_minor_locator(FixedLocator([]))
    elif not axis.log:
        side.set_major_locator(MaxNLocator(_MOST_TICKS, steps=[1, 2, 5, 10]))
    side.set_major_formatter(FuncFormatter(lambda value, _: axis.text(value)))


def value_scale(ax: Axes, which: str, axis: Axis, there: Sequence[float]) -> None:
    """Set scale, ticks and words of one axis, for these values."""
    _scale(ax, which, axis, there)
    if axis.log:
        fit_log_ticks(ax, which, min(there), max(there))


def fit_log_ticks(ax: Axes, which: str, least: float, most: float) -> None:
    """Set the ticks of a logarithmic axis for whose numbers there is room, in the last layout."""
    across, height = size_in_points(ax)
    log_ticks(ax.xaxis if which == "x" else ax.yaxis, least, most, _most(which, across, height))


def _most(which: str, across: float, height: float) -> float:
    """Return how many numbers fit along one axis."""
    return across / _TICK_WIDTH if which == "x" else height / _TICK_HEIGHT


def log_ticks(side: XAxis | YAxis, least: float, most: float, room: float = math.inf) -> None:
    """Set the ticks of a logarithmic axis between two numbers: the fewer of each decade, the more decades."""
    decades = math.log10(most / least)
    fitting = [subs for limit, subs in _TICKS if decades <= limit and decades * len(subs) <= room] or [_TICKS[-1][1]]
    side.set_major_locator(LogLocator(subs=fitting[0], numticks=15))
    side.set_minor_formatter(NullFormatter())


def _apart(places: Sequence[float], log: bool) -> bool:
    """Return whether the ticks at these places do not overlap."""
    if not 1 < len(places) <= _MOST_TICKS:
        return len(places) == 1
    steps = [(b / a if log else b - a) for a, b in itertools.pairwise(places)]
    whole = places[-1] / places[0] if log else places[-1] - places[0]
    return all(step**15 > whole if log else step * 15 > whole for step in steps)


def legend(ax: Axes, theme: Theme) -> None:
    """Put the names of the series above the axes and below a title, where they cover no data."""
    handles, names = ax.get_legend_handles_labels()
    if not names:
        return
    place_axes(ax)  # long names at an axis leave less width
    columns = columns_of(names, size_in_points(ax)[0])
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.01), "borderaxespad": 0.2}
    box = ax.legend(handles, names, ncols=columns, frameon=False, fontsize=9, handlelength=2.8, **place)
    for text in box.get_texts():
        text.set_color(theme.ink)


def columns_of(names: Sequence[str], across: float) -> int:
    """Return in how many columns the names of a legend fit into this number of points."""
    widths = [_HANDLE + _LETTER * len(name) for name in names]
    return len(names) if sum(widths) < across else max(1, int(across // max(widths)))


def entitle(figure: Figure, title: str, theme: Theme) -> Text:
    """Write a title at the top left of a figure."""
    return figure.suptitle(title, x=0.012, ha="left", fontsize=12.5, fontweight="bold", color=theme.ink)


def place_axes(ax: Axes) -> None:
    """Lay out the figure as it is, so that the size of the axes is known."""
    figure = ax.get_figure(root=True)
    if figure is not None:
        figure.draw_without_rendering()


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Return the width and height of axes in the last layout."""
    box, figure = ax.get_window_extent(), ax.get_figure(root=True)
    scale = 72 / (figure.dpi if figure is not None else 72)
    return float(box.width) * scale, float(box.height) * scale


def caption(ax: Axes, theme: Theme, lines: Sequence[str]) -> None:
    """Write remarks below the axes."""
    text = "\n".join(part for line in lines for part in textwrap.wrap(line, _CAPTION_WIDTH))
    if text:
        ax.annotate(
            text, (0, 0), (0, -6), xycoords=("axes fraction", ax.xaxis.label), textcoords="offset points",
            va="top", ha="left", fontsize=8, color=theme.muted, annotation_clip=False, linespacing=1.4,
        )  # fmt: skip
