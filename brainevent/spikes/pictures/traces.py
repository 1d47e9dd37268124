# SPDX-License-Identifier: Apache-2.0
"""Draw recorded states over time: a line for each neuron, one above the other; many as an image."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np

from ...bench.plot.draw import Axes, Figure
from ...bench.plot.style import DASHES, Theme
from .colours import add_scale, both_ways, rising
from .frame import Wish, axes_of, finish, is_alone, label_time, remark, say_empty, set_limits, spaced

__all__ = ["draw_traces"]

_MOST_LINES = 12  # more are an image
_MOST_POINTS = 4000  # of a line: of more, the extremes of parts are drawn
_MOST_COLUMNS, _MOST_ROWS = 800, 400  # of an image
_APART = 1.15  # from one line to the next, in heights of the highest
_WIDEST = 10  # letters, of a name beside an axis
_SPIKE = 0.1  # of a height: how far above a line its spikes are


def draw_traces(
    times: np.ndarray,
    values: np.ndarray,
    names: list[str],
    wish: Wish,
    *,
    spikes: list[np.ndarray] | None,
    threshold: float | None,
    label: str,
) -> Figure:
    """Do what `plot_traces` says."""
    finite = np.isfinite(values)
    few = len(names) <= _MOST_LINES
    axes, theme = axes_of(wish, height=min(7.0, 2.2 + 0.6 * len(names)) if few and len(names) > 1 else 4.0)
    alone = is_alone(axes)
    if not finite.any():
        _name(axes, label)
        say_empty(axes, theme, "no values" if not values.size else "no finite values")
    elif not few:
        _image(axes, theme, times, values, label, wish)
    elif len(names) == 1:
        _one(axes, theme, times, values[:, 0], wish, spikes, threshold, label)
    else:
        _stacked(axes, theme, times, values, names, wish, spikes, threshold, label)
    if times.size:
        step = times[1] - times[0] if times.size > 1 else 1.0
        set_limits(axes, float(times[0]), float(max(times[-1], times[0] + step)), alone=alone)
    label_time(axes)
    return finish(axes, theme, wish.title, own=wish.ax is None)


def _one(
    axes: Axes,
    theme: Theme,
    times: np.ndarray,
    values: np.ndarray,
    wish: Wish,
    spikes: list[np.ndarray] | None,
    threshold: float | None,
    label: str,
) -> None:
    axes.plot(*_extremes(times, values), **{"color": theme.colours[0], "linewidth": 1.2, **wish.artist})
    _name(axes, label)
    if threshold is not None:
        axes.axhline(threshold, **_dashed(theme))
    if spikes is not None:
        low, high = (float(edge[0]) for edge in _span(values[:, None]))
        _mark(axes, theme, spikes[0], max(high, high if threshold is None else threshold) + _SPIKE * (high - low))


def _stacked(
    axes: Axes,
    theme: Theme,
    times: np.ndarray,
    values: np.ndarray,
    names: list[str],
    wish: Wish,
    spikes: list[np.ndarray] | None,
    threshold: float | None,
    label: str,
) -> None:
    """Draw lines one above the other, all in one scale, which a bar at the right shows."""
    at_threshold = [] if threshold is None else [np.full((1, len(names)), threshold)]
    levels = np.concatenate([values, *at_threshold])
    lows, highs = _span(levels)
    height = float(np.max(highs - lows)) or 1.0
    apart = height * (_APART + (_SPIKE if spikes is not None else 0))
    count = len(names)
    middles = apart * np.arange(count)[::-1]  # the first at the top, as in a list
    for place, middle in enumerate(middles):
        shift = middle - (lows[place] + highs[place]) / 2
        look = {"color": theme.colours[place % len(theme.colours)], "linewidth": 1.1}
        axes.plot(*_extremes(times, values[:, place] + shift), **{**look, **wish.artist})
        if threshold is not None:
            axes.axhline(threshold + shift, **_dashed(theme))
        if spikes is not None:
            _mark(axes, theme, spikes[place], highs[place] + shift + _SPIKE * height)
    axes.set_yticks(middles, names)
    axes.tick_params(axis="y", length=0, labelcolor=theme.ink)
    axes.grid(visible=False)
    axes.set_ylim(-0.6 * apart, middles[0] + 0.65 * apart)
    axes.spines["left"].set_visible(False)
    _scale_bar(axes, theme, height, label)


def _scale_bar(axes: Axes, theme: Theme, height: float, label: str) -> None:
    """Draw how high a round number is, at the right of axes."""
    unit = 10.0 ** math.floor(math.log10(height / 2))
    length = next(unit * k for k in (5, 2, 1) if unit * k <= height / 2 or k == 1)
    across = axes.get_yaxis_transform()
    low = axes.get_ylim()[0] + 0.02 * np.ptp(axes.get_ylim())
    look: dict[str, Any] = {"color": theme.ink, "clip_on": False}
    axes.plot([1.012, 1.012], [low, low + length], transform=across, linewidth=2, solid_capstyle="butt", **look)
    name = label.removesuffix(")").rpartition("(")
    words = f"{length:g} {name[2]}" if label.endswith(")") and name[1] else f"{length:g}"
    axes.text(1.022, low + length / 2, words, transform=across, va="center", ha="left", fontsize=9, **look)
    _name(axes, name[0].strip() if label.endswith(")") and name[1] else label)


def _name(axes: Axes, label: str) -> None:
    """Write what an axis shows beside it, in words that are read without turning the head."""
    lines = textwrap.wrap(label, _WIDEST, break_long_words=False)
    axes.set_ylabel("\n".join(lines), rotation=0, ha="right", va="center", labelpad=8)


def _image(axes: Axes, theme: Theme, times: np.ndarray, values: np.ndarray, label: str, wish: Wish) -> None:
    """Draw means over some records and neurons as colours."""
    records, neurons = (-(-size // most) for size, most in zip(values.shape, (_MOST_COLUMNS, _MOST_ROWS), strict=True))
    rows, columns = np.arange(0, values.shape[1], neurons), np.arange(0, values.shape[0], records)
    finite = np.isfinite(values)
    count, total = (
        np.add.reduceat(np.add.reduceat(x, columns, axis=0), rows, axis=1)
        for x in (finite.astype(float), np.where(finite, values, 0.0).astype(float))
    )
    with np.errstate(invalid="ignore"):
        means = (total / count).T
    low, high = (float(edge) for edge in np.nanpercentile(means, (0.5, 99.5)))
    signs = low < 0 < high and min(-low, high) > 0.1 * max(-low, high)
    most = max(-low, high)
    limits = {"vmin": -most, "vmax": most} if signs else {"vmin": low, "vmax": high if high > low else low + 1}
    step = times[1] - times[0] if times.size > 1 else 1.0
    x = np.append(times[columns], times[-1] + step)
    look: dict[str, Any] = {"cmap": both_ways(theme) if signs else rising(theme), "rasterized": True, **limits}
    mesh = axes.pcolormesh(x, np.append(rows, values.shape[1]) - 0.5, means, **{**look, **wish.artist})
    axes.set_ylabel("trace")
    axes.grid(visible=False)
    axes.yaxis.set_major_formatter(lambda value, _: spaced(value))
    if records * neurons > 1:
        traces = "" if neurons == 1 else f"{neurons} traces and "
        remark(axes, theme, f"Each cell is the mean of {traces}{records} record{'' if records == 1 else 's'}.")
    add_scale(axes, theme, mesh, label)


def _extremes(times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a line that looks the same with fewer points: the least and the greatest value of each part."""
    part = -(-values.size // (_MOST_POINTS // 2))
    if part <= 2:
        return times, values
    whole = values.size // part * part
    grid = values[:whole].reshape(-1, part)
    filled = np.where(np.isfinite(grid), grid, grid[:, :1])
    both = np.sort(np.stack([filled.argmin(1), filled.argmax(1)], 1), axis=1) + np.arange(len(grid))[:, None] * part
    kept = np.append(both.reshape(-1), np.arange(whole, values.size))
    return times[kept], values[kept]


def _span(levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest finite value of each column, 0 where there is none."""
    finite = np.isfinite(levels)
    low = np.where(finite, levels, np.inf).min(axis=0)
    high = np.where(finite, levels, -np.inf).max(axis=0)
    return np.where(finite.any(axis=0), low, 0.0), np.where(finite.any(axis=0), high, 0.0)


def _mark(axes: Axes, theme: Theme, times: np.ndarray, height: float) -> None:
    look: dict[str, Any] = {"linestyle": "none", "marker": "|", "markersize": 6, "color": theme.ink}
    axes.plot(times, np.full(len(times), height), **look)


def _dashed(theme: Theme) -> dict[str, Any]:
    return {"color": theme.muted, "linewidth": 0.8, "linestyle": DASHES[2], "zorder": 0.5}
