# SPDX-License-Identifier: Apache-2.0
"""Draw a chart as a grid of panels that share their axes, with one legend, one title and one caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .dots import draw_dots
from .picture import caption, dress, entitle
from .series import Chart, in_panels
from .style import Theme

__all__ = ["Draw", "draw_panels", "row_height"]

Draw = Callable[[Axes, Chart, Theme, bool, dict[str, Any]], str]
_ROW, _DODGE = 0.3, 0.07  # inches: of a row of dots, and more for each series
_LETTER, _PANEL, _BAR = 0.07, 2.9, 0.3  # inches: of a name, a panel, and a bar
_HEAD, _ABOVE, _HEIGHT = 1.35, 0.35, 3.0
_MOST_WIDTH = 14.0


def row_height(shown: Chart) -> float:
    """Return how many inches a row of dots needs."""
    return _ROW + _DODGE * max(len(shown.series) - 2, 0)


def draw_panels(
    whole: Chart,
    draw_one: Draw,
    theme: Theme,
    title: str | None,
    artist: dict[str, Any],
    figure_of: Callable[[tuple[float, float]], Figure],
) -> Figure:
    """Draw the panels into a new figure."""
    grid = in_panels(whole)
    rows, columns, in_rows = len(grid), len(grid[0]), draw_one is draw_dots
    figure = figure_of(_size(whole, grid[0][0][1].x.categories, rows, columns, in_rows))
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    spread = ""
    limits: list[tuple[float, float]] = []
    for panels, beside in zip(grid, axes, strict=True):
        for (words, shown), ax in zip(panels, beside, strict=True):
            dress(ax, theme)
            spread = draw_one(ax, shown, theme, False, artist) or spread
            limits.append(ax.get_xlim() if in_rows else ax.get_ylim())
            ax.set_title(words, loc="left", fontsize=9.5, color=theme.ink)
            ax.tick_params(axis="x" if not in_rows else "y", labelsize=8.5)
            if (box := ax.get_legend()) is not None:
                box.remove()
    _share(axes[0][0], limits, in_rows)
    for ax in axes.flat:
        ax.label_outer()
    entitle(figure, whole.title if title is None else title, theme)
    _legend(figure, axes[0][0], theme)
    caption(axes[-1][0], theme, [spread, *whole.remarks])
    return figure


def _size(whole: Chart, categories: Sequence[str], rows: int, columns: int, in_rows: bool) -> tuple[float, float]:
    """Return width and height in inches."""
    letters = max(len(line) for name in categories for line in name.splitlines())
    if in_rows:
        height = _ABOVE + row_height(whole) * len(categories)
        return 0.6 + _LETTER * letters + _PANEL * columns, _HEAD + rows * height
    each = max(_BAR * (len(whole.series) + 1), _LETTER * (letters + 4))
    return min(1.0 + columns * max(_PANEL, each * len(categories)), _MOST_WIDTH), _HEAD + rows * _HEIGHT


def _share(ax: Axes, limits: Sequence[tuple[float, float]], in_rows: bool) -> None:
    """Give all panels the limits that hold the values of each."""
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    if in_rows:
        ax.set_xlim(low, high)
    else:
        ax.set_ylim(low, high)


def _legend(figure: Figure, ax: Axes, theme: Theme) -> None:
    """Name the series once, to the right of the title."""
    handles, names = ax.get_legend_handles_labels()
    box = figure.legend(handles, names, loc="upper right", ncols=len(names), frameon=False, fontsize=9)
    for text in box.get_texts():
        text.set_color(theme.ink)
