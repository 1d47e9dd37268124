# SPDX-License-Identifier: Apache-2.0
"""What all pictures of spikes share: axes in a theme, checked groups, limits, titles and remarks."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ...bench.plot.draw import Axes, Figure
from ...bench.plot.picture import Picture, background_theme, caption, dress, legend, size_in_points
from ...bench.plot.style import DASHES, THEMES, Theme
from ...errors import did_you_mean
from ..statistics import Statistics, chosen_neurons

__all__ = ["SIZE", "Wish", "axes_of", "finish", "line_look", "parts_of", "say_empty", "set_limits", "set_title"]

SIZE = (6.4, 3.6)  # inches
_LETTER = 4.2  # points, of remarks
_SHORTEST, _LONGEST, _WORD = 24, 100, 8  # letters in a line of remarks, and in a word
_LONG = 10_000
Kind = TypeVar("Kind", bound=Statistics)


@dataclass(frozen=True)
class Wish:
    """The arguments that all methods for pictures share."""

    where: str
    ax: Any = None
    groups: Any = None
    theme: str | None = None
    title: str | None = None
    artist: dict[str, Any] = field(default_factory=dict)


def theme_of(where: str, name: Any) -> Theme | None:
    """Return the theme of a name, None for None."""
    if name is not None and (not isinstance(name, str) or name not in THEMES):
        raise ValueError(f"{where}: unknown theme {name!r}{did_you_mean(name, THEMES)}; themes: {', '.join(THEMES)}")
    return None if name is None else THEMES[name]


def axes_of(wish: Wish, height: float = SIZE[1]) -> tuple[Axes, Theme]:
    """Return axes in their theme: those that were passed, or those of a new figure."""
    if wish.ax is not None and not isinstance(wish.ax, Axes):
        raise TypeError(f"{wish.where}: ax is {type(wish.ax).__name__}; pass axes of matplotlib")
    theme = theme_of(wish.where, wish.theme)
    axes = Picture(figsize=(SIZE[0], height), layout="constrained").add_subplot() if wish.ax is None else wish.ax
    colours = theme or (THEMES["light"] if wish.ax is None else background_theme(axes))
    if theme or wish.ax is None:
        dress(axes, colours)
    return axes, colours


def parts_of(wish: Wish, spikes: Kind, *, apart: bool = False) -> list[tuple[str, Kind]]:
    """Return the name and the spikes of each group, or all spikes without a name.

    Groups of which no neuron counts are left out: a part of a run is drawn with the groups of the whole. Where they
    are drawn `apart`, a neuron may be in one group only.
    """
    if wish.groups is None:
        return [("", spikes)]
    chosen = _checked_groups(wish.where, wish.groups, spikes.size)
    if apart:
        _check_apart(wish.where, chosen)
    counts = np.zeros(spikes.size, bool)
    counts[spikes.members] = True
    found = [(name, spikes.of(mask)) for name, mask in chosen.items() if (mask & counts).any()]
    if not found:
        raise ValueError(f"{wish.where}: none of these neurons is in the groups {', '.join(chosen)}; pass other groups")
    return found  # type: ignore[return-value]


def _checked_groups(where: str, groups: Any, size: int) -> dict[str, np.ndarray]:
    """Return which neurons are in each group, as booleans."""
    if not isinstance(groups, Mapping):
        example = "{'exc': slice(0, 800), 'inh': slice(800, 1000)}"
        raise TypeError(f"{where}: groups is {type(groups).__name__}; pass names and their neurons, such as {example}")
    if not groups:
        raise ValueError(f"{where}: groups is empty; pass at least one group, or None")
    chosen = {}
    for name, neurons in groups.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"{where}: the name of a group is {name!r}; pass a string")
        if isinstance(neurons, slice) and isinstance(neurons.stop, int) and neurons.stop > size:
            raise IndexError(
                f"{where}: group {name!r} ends at {neurons.stop}, but there are {size} neurons; pass at most {size}"
            )
        try:
            chosen[name] = chosen_neurons(neurons, size)
        except IndexError as error:
            raise IndexError(f"{where}: group {name!r}: {error}") from None
        if not chosen[name].any():
            raise ValueError(f"{where}: group {name!r} has no neurons; pass some of 0 to {size - 1}")
    return chosen


def _check_apart(where: str, chosen: Mapping[str, np.ndarray]) -> None:
    """Raise if a neuron is in two groups."""
    seen: dict[str, np.ndarray] = {}
    for name, mask in chosen.items():
        for other, earlier in seen.items():
            if (both := np.flatnonzero(mask & earlier)).size:
                raise ValueError(f"{where}: neuron {both[0]} is in the groups {other!r} and {name!r}; put it into one")
        seen[name] = mask


def line_look(theme: Theme, place: int, name: str) -> dict[str, Any]:
    """Return the look of the line of a group."""
    return {
        "color": theme.colours[place % len(theme.colours)],
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 1.2,
        "label": name,
    }


def say_empty(axes: Axes, theme: Theme, words: str) -> None:
    """Write in the middle of axes why nothing is drawn."""
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 11, "color": theme.muted}
    axes.text(0.5, 0.5, words, transform=axes.transAxes, **look)


def set_limits(axes: Axes, low: float, high: float, which: str = "x", *, alone: bool) -> None:
    """Set where an axis begins and ends: with all that was drawn before, in these axes and those that share it."""
    get: Callable[[], tuple[float, float]] = getattr(axes, f"get_{which}lim")
    if not alone:
        low, high = min(low, get()[0]), max(high, get()[1])
    getattr(axes, f"set_{which}lim")(low, high)


def is_alone(axes: Axes, which: str = "x") -> bool:
    """Say whether nothing was drawn in the axes, nor in others that share an axis with them."""
    shared = axes.get_shared_x_axes() if which == "x" else axes.get_shared_y_axes()
    return not any(other.has_data() for other in shared.get_siblings(axes))


def label_time(axes: Axes) -> None:
    """Name the axis of time, where no axes below share it."""
    axes.set_xlabel("time (ms)")
    place = axes.get_subplotspec()
    shared = [other for other in axes.get_shared_x_axes().get_siblings(axes) if other is not axes]
    if place is not None and shared and not place.is_last_row():
        axes.set_xlabel("")


def finish(axes: Axes, theme: Theme, title: str | None, *, own: bool) -> Figure:
    """Put names of groups and a title above axes; return their figure."""
    figure: Any = axes.get_figure(root=True)
    legend(axes, theme)
    if title and own:
        set_title(figure, title, theme)
    elif title:
        look: dict[str, Any] = {"x": 0, "ha": "left", "fontsize": 11, "fontweight": "bold"}
        axes.set_title(title, color=theme.ink, pad=6 + _legend_height(axes), **look)
    return figure


def _legend_height(axes: Axes) -> float:
    """Return how many points the names of groups take above axes."""
    box, figure = axes.get_legend(), axes.get_figure(root=True)
    if box is None or figure is None:
        return 0.0
    return float(box.get_window_extent().height) * 72 / figure.dpi


def set_title(figure: Any, title: str, theme: Theme) -> None:
    """Write a title at the top left of a figure."""
    figure.suptitle(title, x=0.012, ha="left", fontsize=12.5, fontweight="bold", color=theme.ink)


def remark(axes: Axes, theme: Theme, words: str) -> None:
    """Write remarks below axes, in lines that are not wider than they are."""
    widest = min(_LONGEST, max(_SHORTEST, int(size_in_points(axes)[0] / _LETTER)))
    lines = -(-len(words) // widest)
    caption(axes, theme, textwrap.wrap(words, min(widest, len(words) // max(1, lines) + _WORD)))  # of similar lengths


def spaced(number: float) -> str:
    """Return a whole number with thin spaces between thousands, where it is long."""
    return f"{number:,.0f}".replace(",", "\u202f") if abs(number) >= _LONG else f"{number:g}"


def sentence(parts: Sequence[str]) -> str:
    """Join parts as one enumeration: 'a, b and c'."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
