# SPDX-License-Identifier: Apache-2.0
"""Draw a raster: a mark for each spike if marks can be distinguished, else the density of spikes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...bench.plot.draw import Axes, Figure
from ...bench.plot.picture import Picture, dress, size_in_points
from ...bench.plot.style import THEMES, Theme
from ...errors import did_you_mean
from ..statistics import Statistics
from .bands import MOST_COLOURS, Bands, bands_of
from .colours import add_scale, rising
from .frame import (
    SIZE,
    Wish,
    axes_of,
    finish,
    is_alone,
    label_time,
    remark,
    say_empty,
    set_limits,
    set_title,
    spaced,
    theme_of,
)
from .lines import draw_rate, round_bin, time_of

__all__ = ["draw_overview", "draw_raster"]

_KINDS = ("marks", "density")
_MOST_MARKS = 20_000  # beyond it, marks in an SVG file are pixels
_TALLEST, _SMALLEST, _THICK = 14.0, 2.6, 1.1  # points: of marks in rows that can be told apart
_LEAST_ROW = 1.2  # points: of lower rows, marks are dots
_DOTS = 0.8, 1.3  # points
_MOST_INK = 0.35  # of the axes: beyond it, marks hide one another
_MOST_COLUMNS, _MOST_ROWS = 400, 200  # cells of a density
_FEWEST_COLUMNS, _FEWEST_ROWS = 80, 16
_IN_A_CELL = 6  # spikes, in the mean: fewer are noise
_ABOUT = 0.4
_BRIGHTEST = 99.5  # percent of cells are within the scale
_MOST_NAMED_ROWS = 12
_ROUND = (1, 2, 3, 4, 5, 6, 8, 10)
_SECOND = 1e3  # milliseconds
_NAME = 6.0, 9.0  # points: letters of names beside bands


def draw_raster(spikes: Statistics, wish: Wish, kind: str | None, sample: Any, sort_by: Any, heights: Any) -> Figure:
    """Do what `Spikes.raster` says."""
    bands = bands_of(wish, spikes, sample, sort_by, heights)
    axes, theme = axes_of(wish)
    remarks = _draw(axes, theme, spikes, bands, wish, kind)
    if remarks:
        remark(axes, theme, _sentence(remarks))
    return finish(axes, theme, wish.title, own=wish.ax is None)


def draw_overview(
    spikes: Statistics,
    wish: Wish,
    rows: dict[str, Any],
    bin: float | None,  # noqa: A002 - the word for it
    smooth: float | None,
) -> Figure:
    """Do what `Spikes.plot` says; `wish.ax` is a figure."""
    theme = theme_of(wish.where, wish.theme) or THEMES["light"]
    kind = rows.pop("kind")
    bands = bands_of(wish, spikes, **rows)
    figure = Picture(figsize=(SIZE[0], 4.6), layout="constrained") if wish.ax is None else wish.ax
    if not hasattr(figure, "subplots") or not hasattr(figure, "suptitle"):
        raise TypeError(f"{wish.where}: figure is {type(figure).__name__}; pass a figure of matplotlib")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.4, 1])
    for axes in (above, below):
        dress(axes, theme)
    bin = round_bin(spikes) if bin is None else bin  # noqa: A001 - the word for it
    remarks = _draw(above, theme, spikes, bands, wish, kind)
    finish(above, theme, None, own=False)
    inner = Wish(wish.where, below, wish.groups)
    draw_rate(spikes, inner, bin, smooth, remarks=[_sentence(remarks)] if remarks else [])
    if (box := below.get_legend()) is not None:
        box.remove()  # the colours are those above
    figure.align_ylabels()
    if wish.title:
        set_title(figure, wish.title, theme)
    return figure


def _draw(axes: Axes, theme: Theme, spikes: Statistics, bands: Bands, wish: Wish, kind: str | None) -> list[str]:
    """Draw all bands, their names and limits; return remarks."""
    if kind is not None and kind not in _KINDS:
        raise ValueError(f"{wish.where}: unknown kind {kind!r}{did_you_mean(kind, _KINDS)}; kinds: marks, density")
    alone = is_alone(axes), is_alone(axes, "y")
    events = [band.events() for band in bands.each]
    count = sum(steps.size for steps, _ in events)
    size = size_in_points(axes)
    dense = kind == "density" or (kind is None and not wish.artist and _ink(bands, count, size) > _MOST_INK)
    dense = dense and count > 0
    remarks = list(bands.remarks)
    named = len(bands.each) > 1 and (dense or not bands.numbered or len(bands.each) > MOST_COLOURS)
    if dense:
        remarks.append(_density(axes, theme, spikes, bands, events, wish.artist))
    else:
        _marks(axes, theme, spikes, bands, events, size, wish.artist, legend=not named)
    set_limits(axes, *time_of(spikes), alone=alone[0])
    if bands.shown:
        set_limits(axes, bands.each[0].low, bands.each[-1].high, "y", alone=alone[1])
    label_time(axes)
    axes.grid(visible=False)
    if named:
        _name_bands(axes, theme, bands, size[1], theme.muted if dense else theme.grid)
    else:
        axes.set_ylabel("neuron" if bands.sort_by is None else f"neurons, by {bands.sort_by}")
        axes.yaxis.set_major_formatter(lambda value, _: spaced(value))
        if not bands.numbered:
            _number_rows(axes, bands)
    if not count:
        say_empty(axes, theme, _why_empty(spikes, bands))
    return remarks


def _ink(bands: Bands, count: int, size: tuple[float, float]) -> float:
    """Return which part of the axes marks would cover if none were over another."""
    row = size[1] / max(1, bands.shown)
    area = _THICK * _mark_height(row) if row >= _LEAST_ROW else _DOTS[0] ** 2
    return count * area / (size[0] * size[1])


def _mark_height(row: float) -> float:
    return float(np.clip(0.85 * row, _SMALLEST, _TALLEST))


def _marks(
    axes: Axes,
    theme: Theme,
    spikes: Statistics,
    bands: Bands,
    events: list[tuple[np.ndarray, np.ndarray]],
    size: tuple[float, float],
    artist: dict[str, Any],
    *,
    legend: bool,
) -> None:
    """Draw a mark for each spike, as high as a row."""
    whole = bands.each[-1].high - bands.each[0].low
    count = sum(steps.size for steps, _ in events)
    dot = float(np.clip(math.sqrt(_MOST_INK * size[0] * size[1] / max(1, count)), *_DOTS))
    for place, (band, (steps, rows)) in enumerate(zip(bands.each, events, strict=True)):
        colour = theme.colours[place % len(theme.colours)]
        row = size[1] * (band.high - band.low) / max(1, whole * band.neurons.size)
        look: dict[str, Any] = {"marker": "|", "markersize": _mark_height(row), "markeredgewidth": _THICK}
        if row < _LEAST_ROW and not {"markersize", "ms", "markeredgewidth", "mew", "marker"} & artist.keys():
            look = {"marker": "s", "markersize": dot, "markeredgewidth": 0}
        look |= {"color": colour, "linestyle": "none", "rasterized": count > _MOST_MARKS}
        axes.plot(steps * spikes.dt, band.heights(rows + 0.5), **{**look, **artist})
        if band.name and legend:  # marks are too small for a legend
            axes.plot([], [], color=colour, linestyle="none", marker="s", markersize=7, label=band.name)


def _density(
    axes: Axes,
    theme: Theme,
    spikes: Statistics,
    bands: Bands,
    events: list[tuple[np.ndarray, np.ndarray]],
    artist: dict[str, Any],
) -> str:
    """Draw the rate of some neurons in some steps as a colour; return what a cell shows."""
    wide, cells = _cells(spikes.steps, sum(steps.size for steps, _ in events), bands.shown)
    edges = np.append(np.arange(0, spikes.steps, wide), spikes.steps)
    whole = bands.each[-1].high - bands.each[0].low
    found = []
    for band, (steps, rows) in zip(bands.each, events, strict=True):
        n = band.neurons.size
        high = _neurons_in_a_cell(n, cells * (band.high - band.low) / whole, bands.shown / cells)
        ends = np.append(np.arange(0, n, high), n)
        shape = ends.size - 1, edges.size - 1
        flat = (rows // high) * shape[1] + (steps.astype(np.int64) - spikes.first) // wide
        counts = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)
        seconds = np.diff(edges) * (spikes.dt / _SECOND)
        found.append((band, high, ends, counts / np.outer(np.diff(ends), seconds)))
    rates = np.concatenate([rate[rate > 0] for *_, rate in found])
    most = float(np.percentile(rates, _BRIGHTEST))
    times = (edges + spikes.first) * spikes.dt
    look = {"cmap": rising(theme), "vmin": 0.0, "vmax": most, "rasterized": True, **artist}
    for band, _, ends, rate in found:
        mesh = axes.pcolormesh(times, band.heights(ends), rate, **look)
    add_scale(axes, theme, mesh, "rate (Hz)", beyond=rates.max() > most)
    highest = sorted({high for _, high, *_ in found})
    neurons = " to ".join(map(spaced, [highest[0], highest[-1]][: len(highest)]))
    return f"each cell is the mean rate of {neurons} neuron{'' if neurons == '1' else 's'} over {wide * spikes.dt:g} ms"


def _neurons_in_a_cell(neurons: int, rows: float, usual: float) -> int:
    """Return how many neurons of a band share a row of cells: the usual number, if about that many fit."""
    own = math.ceil(neurons / max(1, round(rows)))
    return math.ceil(usual) if abs(own - usual) < _ABOUT * usual else own


def _cells(steps: int, spikes: int, rows: int) -> tuple[int, int]:
    """Return how many steps a cell has, and how many rows of cells there are."""
    share = min(1.0, math.sqrt(spikes / _IN_A_CELL / (_MOST_COLUMNS * _MOST_ROWS)))
    columns = max(_FEWEST_COLUMNS, round(share * _MOST_COLUMNS))
    wide = max(1, steps / columns)
    unit = 10 ** math.floor(math.log10(wide))
    wide = next(unit * k for k in _ROUND if unit * k >= wide * (1 - 1e-9))
    return wide, min(rows, max(_FEWEST_ROWS, round(share * _MOST_ROWS)))


def _name_bands(axes: Axes, theme: Theme, bands: Bands, points: float, line: str) -> None:
    """Write the name of each band beside it, in its colour, and draw lines between bands."""
    middles = [(band.low + band.high) / 2 for band in bands.each]
    axes.set_yticks(middles, [band.name for band in bands.each])
    thinnest = min(band.high - band.low for band in bands.each) / (bands.each[-1].high - bands.each[0].low)
    axes.tick_params(axis="y", length=0, labelsize=float(np.clip(0.8 * thinnest * points, *_NAME)))
    for place, label in enumerate(axes.get_yticklabels()):
        label.set_color(theme.colours[place % len(theme.colours)])
        label.set_fontweight("bold")
    for band in bands.each[1:]:
        axes.axhline(band.low, color=line, linewidth=0.8, zorder=3)
    axes.set_ylabel("")


def _number_rows(axes: Axes, bands: Bands) -> None:
    """Label rows of one band with the numbers of their neurons, where these rise."""
    (band,) = bands.each
    neurons = band.neurons
    if neurons.size <= _MOST_NAMED_ROWS:
        axes.set_yticks(np.arange(neurons.size), [str(n) for n in neurons])
        return
    if bands.sort_by is not None:
        return
    numbers = axes.yaxis.get_major_locator().tick_values(neurons[0], neurons[-1])
    numbers = numbers[(numbers >= neurons[0]) & (numbers <= neurons[-1])]
    axes.set_yticks(np.interp(numbers, neurons, np.arange(neurons.size)), [spaced(n) for n in numbers])


def _why_empty(spikes: Statistics, bands: Bands) -> str:
    if not bands.shown:
        return "no neurons"
    if not spikes.steps:
        return "no steps"
    neurons = "1 neuron" if bands.shown == 1 else f"{spaced(bands.shown)} neurons"
    return f"no spikes of {neurons} in {spikes.duration:g} ms"


def _sentence(remarks: list[str]) -> str:
    words = ", ".join(remarks)
    return f"{words[0].upper()}{words[1:]}."
