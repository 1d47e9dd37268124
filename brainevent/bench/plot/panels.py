# SPDX-License-Identifier: Apache-2.0
"""Draw a chart as a grid of panels that share their axes, with one legend, one title and one caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .dots import draw_dots
from .picture import caption, columns_of, dress, entitle
from .series import Chart, in_panels
from .style import Theme

__all__ = ["Draw", "draw_panels", "row_height"]

Draw = Callable[[Axes, Chart, Theme, bool, dict[str, Any]], str]
_ROW, _DODGE = 0.3, 0.07  # inches: of a row of dots, and more for each series
_LETTER, _PANEL, _BAR = 0.07, 2.9, 0.3  # inches: of a name, a panel, and a bar
_HEAD, _ABOVE, _HEIGHT = 1.65, 0.35, 3.0
_MOST_WIDTH = 14.0
_POINTS, _TITLE, _LINE, _EDGE = 72, 26, 15, 6  # in an inch, for the title, a line of names, and above the title


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
    _head(figure, whole.title if title is None else title, axes[0][0], theme)
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
    """Give all panels limits that include the values of each."""
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    if in_rows:
        ax.set_xlim(low, high)
    else:
        ax.set_ylim(low, high)


def _head(figure: Figure, title: str, ax: Axes, theme: Theme) -> None:
    """Write the title, below it the names of the series in as many lines as they need, and keep the panels below."""
    handles, names = ax.get_legend_handles_labels()
    width, height = figure.get_size_inches() * _POINTS
    columns = columns_of(names, width - _TITLE)
    box = figure.legend(
        handles, names, ncols=columns, frameon=False, fontsize=9, loc="upper left",
        bbox_to_anchor=(0, 0, 1, 1 - _TITLE / height), borderaxespad=0.2,
    )  # fmt: skip
    for text in box.get_texts():
        text.set_color(theme.ink)
    entitle(figure, title, theme).set(y=1 - _EDGE / height, in_layout=False)  # the room would be reserved twice
    taken = _TITLE + _LINE * -(-len(names) // columns)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, 0, 1, 1 - taken / height))
