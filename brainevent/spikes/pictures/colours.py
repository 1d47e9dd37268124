# SPDX-License-Identifier: Apache-2.0
"""Colours for numbers: from the background on where they rise from zero, and to both sides of it; with their scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import MaxNLocator

from ...bench.plot.draw import Axes
from ...bench.plot.style import THEMES, Theme

__all__ = ["add_scale", "both_ways", "falling", "rising", "whole_ticks"]

# The lightness changes evenly, so that prints in grey can be read: from the background to the ink.
_RISING = {
    "light": ("#ffffff", "#c4dcf2", "#7fb2e0", "#2a6fc0", "#16407c", "#081a3a"),
    "dark": ("#131416", "#17304f", "#1f5590", "#3f8fd6", "#8cc7fb", "#f2f9ff"),
}
_BOTH_WAYS = {
    "light": ("#5e1c02", "#a23205", "#e2936c", "#ffffff", "#86b3e2", "#2a6fc0", "#123f78"),
    "dark": ("#ffc29b", "#e06a24", "#7a3a14", "#131416", "#1d4f80", "#72bbfb", "#d3ebff"),
}


def _name(theme: Theme) -> str:
    return next(name for name, other in THEMES.items() if other == theme)


def rising(theme: Theme) -> LinearSegmentedColormap:
    """Return colours for numbers from zero on, which is the background."""
    return LinearSegmentedColormap.from_list("brainevent_rising", _RISING[_name(theme)])


def both_ways(theme: Theme) -> LinearSegmentedColormap:
    """Return colours for numbers on both sides of zero: orange below, blue above."""
    return LinearSegmentedColormap.from_list("brainevent_both_ways", _BOTH_WAYS[_name(theme)])


def falling(theme: Theme) -> LinearSegmentedColormap:
    """Return colours for numbers up to zero, which is the background."""
    colours = _BOTH_WAYS[_name(theme)]
    return LinearSegmentedColormap.from_list("brainevent_falling", colours[: len(colours) // 2 + 1])


def whole_ticks(axes: Axes, words: Callable[[float], str]) -> None:
    """Put the ticks of both axes at whole numbers."""
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True))
        side.set_major_formatter(lambda value, _: words(value))


def add_scale(axes: Axes, theme: Theme, drawn: ScalarMappable, words: str, *, beyond: bool = False) -> None:
    """Draw what the colours mean at the right of axes, which keep their width: so axes below stay aligned."""
    figure: Any = axes.get_figure(root=True)
    inset = axes.inset_axes((1.012, 0, 0.016, 1))
    bar = figure.colorbar(drawn, cax=inset, extend="max" if beyond else "neither")
    bar.set_label(words, color=theme.ink, fontsize=9)
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(5)
    bar.update_ticks()
    inset.tick_params(colors=theme.muted, labelsize=8, length=2)
