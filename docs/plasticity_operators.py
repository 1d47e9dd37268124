# SPDX-License-Identifier: Apache-2.0
"""Draw the picture of docs/plasticity-operators.md, from its program: `python -m docs.plasticity_operators`."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from brainevent.bench.plot.picture import Picture, caption, dress
from brainevent.bench.plot.style import THEMES, Theme
from docs.blocks import blocks

PAGE = Path(__file__).parent / "plasticity-operators.md"
FOLDER = Path(__file__).parent / "_static" / "plasticity"
SECTION = "## A network that learns\n"
BINS = np.linspace(0, 1, 21)
NAMES = ("correlated inputs", "other inputs")


def network() -> dict[str, Any]:
    """Run the program on the page, and return what it defines."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(PAGE.read_text(encoding="utf-8").split(SECTION)[1].split("\n## ")[0]):
        exec(block.source, names)
    return names


def groups(names: dict[str, Any]) -> list[np.ndarray]:
    """Return the weights of each group of inputs, from 0 to 1, at the start and after each second."""
    weights = np.vstack([names["synapses"].data, names["weights"]]) / names["W_MAX"]
    return np.split(weights, [int(names["split"])], axis=1)


def draw(folder: Path = FOLDER, names: dict[str, Any] | None = None) -> list[Path]:
    """Draw the picture in each theme, and return the paths."""
    parts = groups(names or network())
    paths = []
    for name, theme in THEMES.items():
        paths.append(folder / f"network-{name}.svg")
        picture(parts, theme).savefig(paths[-1])
    return paths


def picture(parts: list[np.ndarray], theme: Theme) -> Picture:
    """Draw the weights over time, between histograms of the first and of the last."""
    figure = Picture(figsize=(6.0, 3.6), layout="constrained")
    figure.get_layout_engine().set(wspace=0.05)
    start, middle, end = figure.subplots(1, 3, sharey=True, width_ratios=[1, 2.4, 1])
    for axes, title in ((start, "at the start"), (middle, "while the network learns"), (end, "at the end")):
        dress(axes, theme)
        axes.set_title(title, loc="left", fontsize=10, color=theme.ink)
    _histogram(start, [part[0] for part in parts], theme)
    _histogram(end, [part[-1] for part in parts], theme)
    _lines(middle, parts, theme)
    start.set(ylabel="weight / largest allowed weight", ylim=(0, 1))
    caption(middle, theme, ["Lines: medians. Bands: 80 % of the weights."])
    title = "A network finds the inputs that spike together"
    figure.suptitle(title, x=0.012, ha="left", fontsize=12.5, fontweight="bold", color=theme.ink)
    return figure


def _lines(axes: Axes, parts: list[np.ndarray], theme: Theme) -> None:
    last = len(parts[0]) - 1
    for part, colour, dash, name, place in zip(parts, theme.colours, ("-", "--"), NAMES, (0.88, 0.15), strict=False):
        low, half, high = np.quantile(part, [0.1, 0.5, 0.9], axis=1)
        axes.fill_between(np.arange(last + 1), low, high, color=colour, alpha=0.25, linewidth=0)
        axes.plot(half, color=colour, linestyle=dash, linewidth=1.6)
        axes.text(0.98 * last, place, name, color=colour, ha="right", va="center", fontsize=10)
    axes.set(xlabel="time (s)", xlim=(0, last))


def _histogram(axes: Axes, parts: list[np.ndarray], theme: Theme) -> None:
    """Draw horizontal bars, of which those of the second part continue those of the first."""
    total, left = sum(part.size for part in parts), np.zeros(BINS.size - 1)
    look = {"height": BINS[1], "align": "edge", "edgecolor": theme.background, "linewidth": 0.6}
    for part, colour in zip(parts, theme.colours, strict=False):
        percent = 100 * np.histogram(part, BINS)[0] / total
        axes.barh(BINS[:-1], percent, left=left, color=colour, **look)
        left += percent
    axes.set(xlabel="synapses (%)", xlim=(0, 50))


if __name__ == "__main__":
    draw()
