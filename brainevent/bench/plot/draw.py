# SPDX-License-Identifier: Apache-2.0
"""Draw a picture of records: its content comes from `series`, its form from one file for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ...errors import did_you_mean
from ..record import BenchmarkRecord
from .bars import draw_bars, draw_speedups
from .dots import draw_dots
from .lines import draw_lines, draw_points
from .panels import Draw, draw_panels, row_height
from .picture import Picture, background_theme, caption, dress, entitle
from .roofline import draw_roofline
from .series import Chart, Wish, chart
from .style import THEMES, WHERE, Theme, named_theme

__all__ = ["Axes", "Figure", "draw"]

_KINDS: dict[str, Draw] = {
    "line": draw_lines, "bar": draw_bars, "scatter": draw_points, "speedup": draw_speedups, "roofline": draw_roofline,
}  # fmt: skip
_WIDTH, _HEIGHT, _MOST_WIDTH = 6.4, 4.2, 14.0  # inches
_BAR, _MARGIN = 0.3, 0.08


def draw(
    records: Sequence[BenchmarkRecord],
    name: str,
    wish: Wish,
    *,
    ax: Any,
    theme: str | None,
    title: str | None,
    show: bool,
    artist: dict[str, Any],
) -> Figure:
    """Do what `BenchmarkResult.plot` says."""
    if wish.kind not in _KINDS:
        raise ValueError(
            f"{WHERE}: unknown kind {wish.kind!r}{did_you_mean(wish.kind, _KINDS)}; kinds: {', '.join(_KINDS)}"
        )
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"{WHERE}: ax must be axes of matplotlib, found {type(ax).__name__}")
    chosen = named_theme(theme) if theme is not None else background_theme(ax) if ax is not None else THEMES["light"]
    shown = chart(records, name, wish)
    draw_one = _drawing(wish, shown)
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


def _drawing(wish: Wish, shown: Chart) -> Draw:
    """Return the function that draws a kind; over categories, which have no order, lines become points."""
    if wish.kind in ("line", "scatter") and shown.x.categories:
        return draw_points if wish.x is not None else draw_dots
    return _KINDS[wish.kind]


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
