# SPDX-License-Identifier: Apache-2.0
"""Draw what a run measured of networks: `python -m benchmarks.pictures RESULT.json FOLDER`.

`raster` shows spikes of PD14, `fires` how it fires beside other programs, `factors` real-time factors of simulators,
`connectome` the same for a network of the size of the fly brain, and `steps` where the time of a step goes.
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from benchmarks import flywire, gpu_engine
from benchmarks.microcircuit_statistics import LAYERS, OTHERS, Other
from benchmarks.probes.network_described import SIZES
from benchmarks.probes.network_statistics import SHOWN, SHOWN_FOR
from brainevent.bench.plot.picture import Picture, caption, dress, legend
from brainevent.bench.plot.style import MARKERS, THEMES, Theme

WIDE = 6.4  # inches
# Real-time factors of PD14 as published, with the machines that they were measured on.
PUBLISHED_FACTORS = {
    "NEST, 2 x EPYC 7702": 0.67,
    "NEST GPU, RTX 4090": 0.386,
    "GeNN, RTX 4090": 0.272,
    "neuroAIx, 35 FPGAs": 0.05,
}
# The same of the connectome of the fly brain, with 21 driven neurons; the machines are not stated with them.
PUBLISHED_CONNECTOME = {"GeNN": 0.50, "NEST GPU": 1.01, "Brian2": 2.86, "PyTorch": 10.0}
_POISSON = "PD14, poisson drive: "
_MARKS = ("neurons updated", "spikes sent", "spikes of all blocks there", "delivered")
_MOST_CYCLES = 30_000  # of a step that is drawn beside others
_PHASES = ("update neurons", "send spikes", "wait for all blocks", "deliver")
_STATISTICS = {
    "rate": "rate (Hz)",
    "CV": "CV of intervals",
    "correlation": "correlation (\N{MULTIPLICATION SIGN} 0.001)",
}

Result = Mapping[str, Any]


def draw(results: Sequence[Result], folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Draw all pictures that results have the data for, or those named, in each theme; return their paths."""
    paths = []
    for name, make in PICTURES.items():
        if names and name not in names:
            continue
        for theme_name, theme in THEMES.items():
            picture = make(results, theme)
            if picture is not None:
                folder.mkdir(parents=True, exist_ok=True)
                paths.append(folder / f"{name}-{theme_name}.svg")
                picture.savefig(paths[-1])
    return paths


def raster(results: Sequence[Result], theme: Theme) -> Picture | None:
    """Draw the spikes of every twentieth neuron, by layer."""
    found = [r["data"][f"{_POISSON}raster"] for r in results if f"{_POISSON}raster" in r.get("data", {})]
    if not found:
        return None
    figure = _figure(4.6, "PD14 at full scale: every twentieth neuron, for 300 ms", theme)
    axes = figure.subplots()
    dress(axes, theme)
    axes.grid(visible=False)
    bottom, ticks = 0, []
    for k, (layer, neurons) in enumerate(zip(found[0], SIZES, strict=True)):
        size = -(-neurons // SHOWN)
        look = {"linestyle": "none", "marker": "s", "markersize": 1.5, "markeredgewidth": 0}
        times = [step / 10 for step in layer["steps"]]
        axes.plot(times, [bottom + n for n in layer["neurons"]], color=theme.colours[k % 2], rasterized=True, **look)
        ticks.append(bottom + size / 2)
        bottom += size
    axes.set(xlabel="time (ms)", xlim=(0, SHOWN_FOR), ylim=(bottom, 0), yticks=ticks, yticklabels=_names())
    axes.tick_params(axis="y", length=0, labelcolor=theme.ink, labelsize=8)  # 5E and 5I are close
    caption(axes, theme, ["Excitatory and inhibitory populations in two colours."])
    return figure


def fires(results: Sequence[Result], theme: Theme) -> Picture | None:
    """Draw rates, irregularity and correlations of each population: our seeds, and other programs."""
    samples = _statistics(results)
    if not samples:
        return None
    figure = _figure(3.6, "How PD14 fires, of ten seeds and in other programs", theme)
    for axes, (name, words) in zip(figure.subplots(1, 3), _STATISTICS.items(), strict=True):
        dress(axes, theme)
        _dots(axes, samples[name], theme)
        scale = 1e3 if name == "correlation" else 1
        for k, other in enumerate(o for o in OTHERS["poisson", name] if isinstance(o, Other)):
            values = [scale * value for value in other.values]
            look = {"linestyle": "none", "marker": "_x"[k], "markersize": 9 - 3 * k, "markeredgewidth": 2 - 0.6 * k}
            axes.plot(range(len(LAYERS)), values, color=theme.ink if k == 0 else theme.muted, **look)
        axes.set(ylabel=words, ylim=(0.6, 0.9) if name == "CV" else (0, None))
        axes.set_xticks(range(len(LAYERS)), _names())
        axes.tick_params(axis="x", labelsize=7)
    figure.supxlabel(
        "Dots: a seed each. Bars: published rates, else C++ by hand. Crosses: rates of C++ by hand.",
        x=0.012, ha="left", fontsize=8, color=theme.muted,
    )  # fmt: skip
    return figure


def factors(results: Sequence[Result], theme: Theme) -> Picture | None:
    """Draw real-time factors of PD14 with Poisson drive, published ones and ours, as bars on a logarithmic axis."""
    title = "PD14 at full scale: wall time over biological time"
    return _beside(PUBLISHED_FACTORS, _our_factors(results, _POISSON, "microcircuit"), title, theme)


def connectome(results: Sequence[Result], theme: Theme) -> Picture | None:
    """Draw real-time factors of a network of the size of the fly brain's connectome likewise."""
    title = "138 639 neurons: wall time over biological time"
    return _beside(PUBLISHED_CONNECTOME, _our_factors(results, f"{flywire.TITLE}: ", flywire.NAME), title, theme)


def _beside(published: Mapping[str, float], ours: Mapping[str, float], title: str, theme: Theme) -> Picture | None:
    if not ours:
        return None
    bars = {**published, **ours}
    order = sorted(bars, key=lambda name: bars[name])
    figure = _figure(0.9 + 0.36 * len(bars), title, theme)
    axes = figure.subplots()
    dress(axes, theme)
    axes.grid(visible=False)
    axes.axvline(1, color=theme.muted, linewidth=0.8, linestyle=":", zorder=0)
    colours = [theme.colours[0] if name in ours else theme.muted for name in order]
    look = {"va": "center", "fontsize": 9, "color": theme.ink}
    look["bbox"] = {"facecolor": theme.background, "edgecolor": "none", "pad": 1}
    axes.barh(range(len(order)), [bars[name] for name in order], 0.66, color=colours)
    for k, name in enumerate(order):
        axes.text(bars[name] * 1.06, k, f"{bars[name]:.3g}", **look)
    axes.set(xscale="log", xlim=(0.01, 2 * max(bars.values())), ylim=(len(order) - 0.4, -0.6))
    names = [name.replace(" x ", " \N{MULTIPLICATION SIGN} ") for name in order]
    axes.set(yticks=range(len(order)), yticklabels=names, xlabel="real-time factor, less is faster")
    ticks = [tick for tick in (0.01, 0.1, 1, 10) if tick < 2 * max(bars.values())]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.tick_params(axis="y", length=0, labelcolor=theme.ink)
    caption(axes, theme, ["Grey: as published, on other machines. Dotted: real time."])
    return figure


def steps(results: Sequence[Result], theme: Theme) -> Picture | None:
    """Draw the cycles of a step, from one mark to the next."""
    found = {title: cycles for result in results for title, cycles in marks_of(result).items()}
    marks = {title: cycles for title, cycles in found.items() if cycles[-1] < _MOST_CYCLES}
    if not marks:
        return None
    figure = _figure(1.4 + 0.34 * len(marks), "Where the time of a step goes", theme)
    axes = figure.subplots()
    dress(axes, theme)
    axes.grid(visible=False)
    for phase, words in enumerate(_PHASES):
        begins = [cycles[phase - 1] if phase else 0 for cycles in marks.values()]
        widths = [cycles[phase] - begin for cycles, begin in zip(marks.values(), begins, strict=True)]
        axes.barh(range(len(marks)), widths, 0.62, left=begins, color=theme.colours[phase], label=words)
    most = max(cycles[-1] for cycles in marks.values())
    for k, cycles in enumerate(marks.values()):
        axes.text(cycles[-1] + 0.01 * most, k, f"{cycles[-1]:.0f}", va="center", fontsize=9, color=theme.ink)
    axes.set(xlabel="cycles from the beginning of a step", xlim=(0, 1.1 * most), ylim=(len(marks) - 0.5, -0.5))
    axes.set(yticks=range(len(marks)), yticklabels=[titled(title) for title in marks])
    axes.tick_params(axis="y", length=0, labelcolor=theme.ink)
    legend(axes, theme)
    return figure


PICTURES = {"raster": raster, "fires": fires, "factors": factors, "connectome": connectome, "steps": steps}


def titled(title: str) -> str:
    """Return the title of a network as people write it."""
    model, _, neurons = title.partition(", ")
    count = neurons.partition(" ")[0]
    return f"{model.upper()}, {int(count):,} neurons".replace(",0", " 0") if count.isdigit() else title


def marks_of(result: Result) -> dict[str, list[float]]:
    """Cycles to the marks of a step, by network, as `gpu_engine` measures them."""
    found: dict[str, list[float]] = {}
    for row in result.get("rows", ()):
        title, _, mark = row["name"].partition(": ")
        if row["benchmark"] == gpu_engine.NAME and mark in _MARKS:
            found.setdefault(title, []).append(row["value"]["median"])
    return {title: cycles for title, cycles in found.items() if len(cycles) == len(_MARKS)}


def _figure(height: float, title: str, theme: Theme) -> Picture:
    figure = Picture(figsize=(WIDE, height), layout="constrained", facecolor=theme.background)
    figure.suptitle(title, x=0.012, ha="left", fontsize=12.5, fontweight="bold", color=theme.ink)
    return figure


def _names() -> list[str]:
    return [name.removeprefix("L") for name in LAYERS]


def _statistics(results: Sequence[Result]) -> dict[str, list[list[float]]]:
    """The samples of each statistic with Poisson drive, by population."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in (row for result in results for row in result.get("rows", ())):
        match = re.fullmatch(rf"{_POISSON}([\w ]+), (L\w+)(, beside .+)?", row["name"])
        if match and "microcircuit_statistics" in row["benchmark"]:
            found.setdefault(match[1], {})[match[2]] = row["samples"]
    return {name: [by_layer[layer] for layer in LAYERS] for name, by_layer in found.items()}


def _dots(axes: Axes, samples: Sequence[Sequence[float]], theme: Theme) -> None:
    for k, of_layer in enumerate(samples):
        look = {"linestyle": "none", "marker": MARKERS[0], "markersize": 3.5, "markeredgewidth": 0, "zorder": 3}
        axes.plot([k] * len(of_layer), of_layer, color=theme.colours[k % 2], **look)


def _our_factors(results: Sequence[Result], title: str, benchmark: str) -> dict[str, float]:
    """Ours of a network by the machine and by what is recorded; with threads, the most of them."""
    found = {}
    for result in results:
        machine = result.get("machine", {})
        for row in result["rows"]:
            where, _, name = row["name"].partition("the network engine, ")
            if where != title or not row["benchmark"].endswith(benchmark):
                continue
            if row["benchmark"].startswith("gpu"):
                card = machine["gpu"].split(",")[0].removeprefix("NVIDIA ").split(" ")[0]
                found[f"brainevent, {card}, {name}"] = row["value"]["median"]
            elif not name.startswith("1 "):
                found[f"brainevent, {machine['cpu']}, {name}"] = row["value"]["median"]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description="Draw what a run measured.")
    parser.add_argument("result", type=Path, nargs="+", help="files that python -m benchmarks wrote")
    parser.add_argument("folder", type=Path, help="where to write the pictures")
    arguments = parser.parse_args()
    for path in draw([json.loads(path.read_text()) for path in arguments.result], arguments.folder):
        print(path)
