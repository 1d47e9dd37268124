# SPDX-License-Identifier: Apache-2.0
"""Draw the weights of a matrix: each element if elements can be distinguished, else the means of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...bench.plot.draw import Figure
from .colours import add_scale, both_ways, falling, rising, whole_ticks
from .frame import SIZE, Wish, axes_of, finish, remark, say_empty, spaced

__all__ = ["PlacedWeights", "draw_weights"]

_MOST_CELLS = 400  # along the longer side
_BRIGHTEST = 99.5  # percent of cells are within the scale
_MIXED = 0.02  # of the larger sign: a smaller one is nothing


@dataclass(frozen=True)
class PlacedWeights:
    """Weights of a matrix, and the row and the column of each."""

    weights: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]
    dense: bool


def draw_weights(elements: PlacedWeights, wish: Wish, label: str, names: tuple[str, str]) -> Figure:
    """Do what `plot_weights` says."""
    height, width = elements.shape
    wanted = 1.0 + 5.4 * min(1.0, height / max(1, width))
    axes, theme = axes_of(wish, height=float(np.clip(wanted, 2.6, 6.4)) if wish.ax is None else SIZE[1])
    axes.set(xlabel=names[1], ylabel=names[0])
    axes.set(xlim=(-0.5, max(1, width) - 0.5), ylim=(max(1, height) - 0.5, -0.5))
    axes.grid(visible=False)
    whole_ticks(axes, spaced)
    if not elements.weights.size:
        axes.set(xticks=[], yticks=[])
        say_empty(axes, theme, f"no synapses in a matrix of {spaced(height)} x {spaced(width)}")
        return finish(axes, theme, wish.title, own=wish.ax is None)
    block = -(-max(elements.shape) // _MOST_CELLS)
    cells = _cells(elements, block)
    low, high = min(0.0, float(np.nanmin(cells))), max(0.0, float(np.nanmax(cells)))
    most = float(np.nanpercentile(np.abs(cells[cells != 0]), _BRIGHTEST)) if (cells != 0).any() else 1.0
    signs = min(-low, high) > _MIXED * max(-low, high)
    if signs:
        look: dict[str, Any] = {"cmap": both_ways(theme), "vmin": -most, "vmax": most}
    elif high > -low:
        look = {"cmap": rising(theme), "vmin": 0.0, "vmax": most}
    else:
        look = {"cmap": falling(theme), "vmin": -most, "vmax": 0.0}
    edges = [np.append(np.arange(0, size, block), size) - 0.5 for size in (width, height)]
    mesh = axes.pcolormesh(*edges, cells, rasterized=True, **{**look, **wish.artist})
    add_scale(axes, theme, mesh, label if block == 1 else f"mean {label}")
    axes.spines[["top", "right"]].set_visible(True)
    axes.spines[["top", "right"]].set_color(theme.muted)
    blocks = "" if block == 1 else f" Means of blocks of {block} x {block}; a pair without a synapse counts as 0."
    remark(axes, theme, _words(elements, label) + blocks)
    return finish(axes, theme, wish.title, own=wish.ax is None)


def _cells(elements: PlacedWeights, block: int) -> np.ndarray:
    """Return the mean of the weights in blocks, where pairs without a synapse count as 0."""
    height, width = elements.shape
    shape = -(-height // block), -(-width // block)
    flat = (elements.rows // block) * shape[1] + elements.columns // block
    sums = np.bincount(flat, elements.weights, shape[0] * shape[1]).reshape(shape)
    sides = [np.diff(np.append(np.arange(0, size, block), size)) for size in (height, width)]
    return np.asarray(sums / np.outer(*sides))


def _words(elements: PlacedWeights, label: str) -> str:
    weights, (height, width) = elements.weights, elements.shape
    finite = weights[np.isfinite(weights)]
    span = f"{finite.min():.3g} to {finite.max():.3g}" if finite.size else "not finite"
    if finite.size and finite.min() == finite.max():
        span = f"{finite[0]:.3g}"
    share = 100 * weights.size / (height * width)
    size = f"{spaced(height)} x {spaced(width)}"
    if elements.dense:
        return f"{size}, {label} {span}."
    return f"{size}, {spaced(weights.size)} synapses ({share:.3g} % of the pairs), {label} {span}."
