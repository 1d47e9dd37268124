# SPDX-License-Identifier: Apache-2.0
"""Draw a picture of records: what is shown comes from `series`, and how from one file for each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ...errors import did_you_mean
from ..record import BenchmarkRecord
from .bars import draw_bars, draw_speedups
from .lines import draw_lines, draw_points
from .picture import Picture, background_theme, caption, dress
from .roofline import draw_roofline
from .series import Chart, Wish, chart
from .style import THEMES, WHERE, Theme, named_theme

__all__ = ["Axes", "Figure", "draw"]

_Draw = Callable[[Axes, Chart, Theme, bool, dict[str, Any]], str]
_KINDS: dict[str, _Draw] = {
    "line": draw_lines, "bar": draw_bars, "scatter": draw_points, "speedup": draw_speedups, "roofline": draw_roofline,
}  # fmt: skip
_WIDTH, _HEIGHT, _MOST_WIDTH = 7.4, 4.6, 14.0  # inches
_BAR, _MARGIN = 0.36, 0.08


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
    own = ax is None
    axes = _axes(shown, wish.kind, show) if ax is None else ax
    if own or theme is not None:
        dress(axes, chosen)
    spread = _KINDS[wish.kind](axes, shown, chosen, own, artist)
    caption(axes, chosen, [spread, *shown.remarks])
    figure: Any = axes.get_figure(root=True)
    _entitle(axes, figure, shown.title if own and title is None else title, chosen, own)
    if show:
        import matplotlib.pyplot as plt  # it holds state of the whole process, so only to show

        plt.show()
    return figure


def _axes(shown: Chart, kind: str, show: bool) -> Axes:
    """Return the axes of a new figure, which is wider if it has many bars."""
    bars = sum(len(series.points) for series in shown.series) if kind in ("bar", "speedup") else 0
    form: dict[str, Any] = {"figsize": (min(max(_WIDTH, 1.8 + _BAR * bars), _MOST_WIDTH), _HEIGHT)}
    form["layout"] = ConstrainedLayoutEngine(w_pad=_MARGIN, h_pad=_MARGIN)
    if show:
        import matplotlib.pyplot as plt

        figure: Figure = plt.figure(FigureClass=Picture, **form)
    else:
        figure = Picture(**form)
    return figure.add_subplot()


def _entitle(ax: Axes, figure: Figure, title: str | None, theme: Theme, own: bool) -> None:
    if title and own:
        figure.suptitle(title, x=0.012, ha="left", fontsize=12.5, fontweight="bold", color=theme.ink)
    elif title:
        box = ax.get_legend()
        ax.set_title(title, color=theme.ink, pad=6 + (box.get_window_extent().height * 72 / figure.dpi if box else 0))
