# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of the first screen, and put its figures into the README: `python -m docs.first_screen`.

All are from committed results in benchmarks/results; nothing in them is written by hand.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from benchmarks.options import HERE as BENCHMARKS
from benchmarks.pictures import PUBLISHED_FACTORS
from benchmarks.probes.network_described import SIZES
from benchmarks.probes.network_statistics import SHOWN, SHOWN_FOR
from brainevent.bench.plot.picture import Picture, dress
from brainevent.bench.plot.style import THEMES, Theme

README = Path(__file__).parents[1] / "README.md"
FOLDER = Path(__file__).parent / "_static" / "first"
RESULTS = {
    "spikes": "2026-11-25-amd-epyc-2-cores-microcircuit_statistics.json",
    "gpu": "2026-11-25-nvidia-h100-80gb-hbm3-gpu_microcircuit-gpu.json",
    "cpu": "2026-11-25-amd-epyc-2-cores-microcircuit.json",
    "networks": "2026-11-25-amd-epyc-2-cores-networks.json",
    "calls": "2026-11-21-amd-epyc-2-cores.json",
}
MARKS = "<!-- figures -->", "<!-- end of figures -->"
_SIZE = 4.6, 3.7  # inches: two stand side by side, or one above the other on a phone
_BIN = 2.0  # ms
_LAYERS = ("2/3", "4", "5", "6")
_PD14 = "PD14, poisson drive: "
_CALLBACK = "jax.pure_callback with NumPy"
_US = "\N{NO-BREAK SPACE}\N{MICRO SIGN}s"


def load(name: str) -> Mapping[str, Any]:
    """Return a file with results."""
    found: Mapping[str, Any] = json.loads((BENCHMARKS / "results" / RESULTS[name]).read_text(encoding="utf-8"))
    return found


def median(name: str, benchmark: str, row: str) -> float:
    """Return the median of a row of a file with results."""
    rows = (one for one in load(name)["rows"] if (one["benchmark"], one["name"]) == (benchmark, row))
    return float(next(rows)["value"]["median"])


def network(theme: Theme) -> Picture:
    """Draw the spikes of every twentieth neuron of PD14 by layer, above the mean rate of these neurons."""
    figure = _figure("Cortical microcircuit: every 20th neuron", theme)
    marks, line = figure.subplots(2, 1, sharex=True, height_ratios=[3.2, 1])
    for axes in (marks, line):
        dress(axes, theme)
        axes.grid(visible=False)
    populations = load("spikes")["data"][f"{_PD14}raster"]
    sizes = [-(-size // SHOWN) for size in SIZES]
    bottoms = np.cumsum([0, *sizes])
    everything = np.concatenate([np.array(population["steps"]) / 10 for population in populations])
    for k, (population, bottom) in enumerate(zip(populations, bottoms, strict=False)):
        look = {"linestyle": "none", "marker": "s", "markersize": 1.5, "markeredgewidth": 0, "rasterized": True}
        times, neurons = np.array(population["steps"]) / 10, bottom + np.array(population["neurons"])
        marks.plot(times, neurons, color=theme.colours[k % 2], **look)
    ticks = [(bottoms[2 * k] + bottoms[2 * k + 2]) / 2 for k in range(len(_LAYERS))]
    marks.set(ylabel="layer", xlim=(0, SHOWN_FOR), ylim=(bottoms[-1], 0), yticks=ticks, yticklabels=_LAYERS)
    marks.tick_params(axis="y", length=0, labelcolor=theme.ink)
    marks.tick_params(axis="x", length=0)
    for place, kind, colour in zip((0.8, 1.0), ("excitatory", "inhibitory"), theme.colours, strict=False):
        marks.text(place, 1.01, kind, transform=marks.transAxes, ha="right", va="bottom", fontsize=8.5, color=colour)
    counts, edges = np.histogram(everything, np.arange(0, SHOWN_FOR + _BIN / 2, _BIN))
    rate = counts / bottoms[-1] / _BIN * 1e3
    line.stairs(rate, edges, fill=True, color=theme.colours[0], linewidth=0)
    line.set(xlabel="time (ms)", ylabel="rate (Hz)", ylim=(0, None))
    return figure


def simulators(theme: Theme) -> Picture:
    """Draw real-time factors of PD14, ours and published ones, on a logarithmic axis."""
    ours = {
        "brainevent, H100": median("gpu", "gpu_microcircuit", f"{_PD14}the network engine, spikes recorded"),
        "brainevent, 2 CPU cores": median("cpu", "microcircuit", f"{_PD14}the network engine, 2 threads"),
    }
    bars = {
        **ours,
        **{name.replace(" x ", " \N{MULTIPLICATION SIGN} "): factor for name, factor in PUBLISHED_FACTORS.items()},
    }
    order = sorted(bars, key=lambda name: bars[name])
    figure = _figure("How long one second of it takes", theme)
    axes = figure.subplots()
    dress(axes, theme)
    axes.grid(visible=False)
    axes.axvline(1, color=theme.muted, linewidth=0.8, linestyle=":", zorder=0)
    for k, name in enumerate(order):
        axes.barh(k, bars[name], 0.42, color=theme.colours[0] if name in ours else theme.muted)
        _named(axes, k, name, bars[name], theme, bold=name in ours)
    axes.set(xscale="log", xlim=(0.01, 8), ylim=(len(order) - 0.6, -0.75), yticks=[])
    axes.set_xticks([0.01, 0.1, 1], ["0.01 s", "0.1 s", "1 s: real time"])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("Grey: as published, on other machines.", fontsize=8, color=theme.muted, loc="left")
    return figure


def _named(axes: Axes, k: int, name: str, factor: float, theme: Theme, *, bold: bool) -> None:
    """Write a name above its bar, and the number beside it."""
    weight = "bold" if bold else "normal"
    axes.text(0.0103, k - 0.24, name, va="bottom", fontsize=9, color=theme.ink, fontweight=weight)
    behind = {"facecolor": theme.background, "edgecolor": "none", "pad": 0.5}  # the line of real time
    look = {"va": "center", "fontsize": 9, "color": theme.ink, "fontweight": weight, "bbox": behind}
    axes.text(factor * 1.08, k, f"{factor:.2g}", **look)


def _figure(title: str, theme: Theme) -> Picture:
    figure = Picture(figsize=_SIZE, layout="constrained", facecolor=theme.background)
    figure.suptitle(title, x=0.02, ha="left", fontsize=11.5, fontweight="bold", color=theme.ink)
    return figure


PICTURES: dict[str, Callable[[Theme], Picture]] = {"network": network, "simulators": simulators}


def draw(folder: Path = FOLDER) -> list[Path]:
    """Draw each picture in each theme, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, make in PICTURES.items():
        for theme in THEMES:
            paths.append(folder / f"{name}-{theme}.svg")
            make(THEMES[theme]).savefig(paths[-1])
    return paths


def figures() -> str:
    """Return the three figures of the first screen, with their sources, as a table and a line."""
    factor = median("gpu", "gpu_microcircuit", f"{_PD14}the network engine, spikes recorded")
    cuba = {
        who: median("networks", "networks", f"cuba, 40000 neurons, 1 thread: {name}")
        for who, name in (("ours", "the network engine"), ("Brian2", "Brian2: C++ standalone"))
    }
    call, callback = (median("calls", "overhead", row) for row in ("XLACustomKernel with numba_kernel", _CALLBACK))
    network = "the [cortical microcircuit](docs/microcircuit.md) (77 169 neurons, 299 million synapses)"
    small = "[CUBA](docs/cuba.md) with 40 000 neurons"
    rows = [
        (f"{factor:.3f}\N{NO-BREAK SPACE}s", f"for a second of {network}, on one H100, every spike recorded", "gpu"),
        (
            f"{cuba['ours']:.0f}{_US}",
            f"for a step of {small} on one CPU core, where Brian2 with C++ takes {cuba['Brian2']:.0f}{_US}",
            "networks",
        ),
        (
            f"{call:.1f}{_US}",
            f"for a call of your Numba kernel in a jitted loop, where `jax.pure_callback` takes {callback:.0f}{_US}",
            "calls",
        ),
    ]
    lines = ["| | |", "| ---: | --- |", *(f"| **{number}** | {words} |" for number, words, _ in rows)]
    sources = ", ".join(f"`{RESULTS[name]}`" for *_, name in rows)
    return "\n".join([*lines, "", f"Medians of what was measured, from `benchmarks/results`: {sources}."])


def with_figures(text: str) -> str:
    """Return the text of the README with the figures as they were measured."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{figures()}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    draw()
    README.write_text(with_figures(README.read_text(encoding="utf-8")), encoding="utf-8")
