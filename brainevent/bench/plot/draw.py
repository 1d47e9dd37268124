# SPDX-License-Identifier: Apache-2.0
"""Draw a picture of records: its content comes from `series`, its form from one file for each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ...errors import did_you_mean
from ..record import BenchmarkRecord
from .bars import draw_bars, draw_speedups
from .lines import draw_dots, draw_lines, draw_points
from .picture import Picture, background_theme, caption, columns_of, dress, entitle, fit_log_ticks, place_axes
from .roofline import draw_roofline
from .series import Chart, Options, chart, in_panels
from .style import THEMES, WHERE, Theme, named_theme

__all__ = ["Axes", "Figure", "draw"]

Draw = Callable[[Axes, Chart, Theme, bool, dict[str, Any]], str]
_ROW, _DODGE = 0.3, 0.07  # inches: of a row of dots, and more for each series
_LETTER, _PANEL, _PANEL_BAR = 0.07, 2.9, 0.3  # inches: of a name, a panel, and a bar
_HEAD, _ABOVE, _PANEL_HEIGHT = 1.65, 0.35, 3.0
_POINTS, _TITLE, _LINE, _EDGE = 72, 26, 15, 6  # in an inch, for the title, a line of names, and above the title

_KINDS: dict[str, Draw] = {
    "line": draw_lines, "bar": draw_bars, "scatter": draw_points, "speedup": draw_speedups, "roofline": draw_roofline,
}  # fmt: skip
_WIDTH, _HEIGHT, _MOST_WIDTH = 6.4, 4.2, 14.0  # inches
_BAR, _MARGIN = 0.3, 0.08


def draw(
    records: Sequence[BenchmarkRecord],
    name: str,
    options: Options,
    *,
    ax: Any,
    theme: str | None,
    title: str | None,
    show: bool,
    artist: dict[str, Any],
) -> Figure:
    """Do what `BenchmarkResult.plot` says."""
    if options.kind not in _KINDS:
        raise ValueError(
            f"{WHERE}: unknown kind {options.kind!r}{did_you_mean(options.kind, _KINDS)}; kinds: {', '.join(_KINDS)}"
        )
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"{WHERE}: ax must be axes of matplotlib, found {type(ax).__name__}")
    chosen = named_theme(theme) if theme is not None else background_theme(ax) if ax is not None else THEMES["light"]
    shown = chart(records, name, options)
    draw_one = _drawing(options, shown)
    if ax is None and shown.facet:
        return _shown(draw_panels(shown, draw_one, chosen, title, artist, lambda size: _figure(size, show)), show)
    own = ax is None
    axes = _figure(_form(shown, draw_one), show).add_subplot() if ax is None else ax
    if own or theme is not None:
        dress(axes, chosen)
    spread = draw_one(axes, shown, chosen, own, artist)
    caption(axes, chosen, [spread, *shown.remarks])
    figure: Any = axes.get_figure(root=True)
    _entitle(axes, figure, shown.title if own and title is None else title, chosen, own)
    return _shown(figure, show)


def _drawing(options: Options, shown: Chart) -> Draw:
    """Return the function that draws a kind; over categories, which have no order, lines become points."""
    if options.kind in ("line", "scatter") and shown.x.categories:
        return draw_points if options.x is not None else draw_dots
    return _KINDS[options.kind]


def _shown(figure: Figure, show: bool) -> Figure:
    if show:
        import matplotlib.pyplot as plt  # it has global state, so import it only to show

        plt.show()
    return figure


def _form(shown: Chart, draw_one: Draw) -> tuple[float, float]:
    """Return width and height of a new figure: wider for many bars, higher for many rows of dots."""
    if draw_one is draw_dots:
        return _WIDTH, max(_HEIGHT / 2, 1.6 + row_height(shown) * len(shown.x.categories))
    bars = sum(len(series.points) for series in shown.series) if draw_one in (draw_bars, draw_speedups) else 0
    return min(max(_WIDTH, 1.8 + _BAR * bars), _MOST_WIDTH), _HEIGHT


def _figure(size: tuple[float, float], show: bool) -> Figure:
    """Return a new figure of this width and height."""
    form: dict[str, Any] = {"figsize": size, "layout": ConstrainedLayoutEngine(w_pad=_MARGIN, h_pad=_MARGIN)}
    if show:
        import matplotlib.pyplot as plt

        figure: Figure = plt.figure(FigureClass=Picture, **form)
        return figure
    return Picture(**form)


def _entitle(ax: Axes, figure: Figure, title: str | None, theme: Theme, own: bool) -> None:
    if title and own:
        entitle(figure, title, theme)
    elif title:
        box = ax.get_legend()
        ax.set_title(title, color=theme.ink, pad=6 + (box.get_window_extent().height * 72 / figure.dpi if box else 0))


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
    for ax in axes.flat:
        ax.label_outer()
    _head(figure, whole.title if title is None else title, axes[0][0], theme)
    caption(axes[-1][0], theme, [spread, *whole.remarks])
    _share(axes[0][0], limits, in_rows)
    return figure


def _size(whole: Chart, categories: Sequence[str], rows: int, columns: int, in_rows: bool) -> tuple[float, float]:
    """Return width and height in inches."""
    letters = max(len(line) for name in categories for line in name.splitlines())
    if in_rows:
        height = _ABOVE + row_height(whole) * len(categories)
        return 0.6 + _LETTER * letters + _PANEL * columns, _HEAD + rows * height
    each = max(_PANEL_BAR * (len(whole.series) + 1), _LETTER * (letters + 4))
    return min(1.0 + columns * max(_PANEL, each * len(categories)), _MOST_WIDTH), _HEAD + rows * _PANEL_HEIGHT


def _share(ax: Axes, limits: Sequence[tuple[float, float]], in_rows: bool) -> None:
    """Give all panels limits that include the values of each, and the ticks for which there is room."""
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    which, side = ("x", ax.xaxis) if in_rows else ("y", ax.yaxis)
    ax.set(**{f"{which}lim": (low, high)})
    if side.get_scale() == "log":
        place_axes(ax)
        fit_log_ticks(ax, which, low, high)


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
