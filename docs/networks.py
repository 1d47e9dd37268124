# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of the pages on networks: `python -m docs.networks`, with names to draw some of them.

Each is drawn from the program on its page, or from the one in examples/networks that its page shows.
"""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from brainevent.bench.plot.picture import Picture, caption, dress
from brainevent.bench.plot.style import DASHES, THEMES, Theme
from docs.blocks import blocks
from examples.networks import (
    areas,
    brunel,
    classifier,
    coba,
    cuba,
    decision,
    hpc,
    microcircuit,
    report,
    reward,
    ring,
    song,
    vogels,
)

HERE = Path(__file__).parent
FOLDER = HERE / "_static" / "networks"
NEST = HERE.parent / "tests" / "network" / "plasticity" / "reference" / "nest_hpc.json"
CURVES = HERE.parent / "benchmarks" / "results" / "2026-11-26-training-curves.json"
SEVERAL = CURVES.with_name("2026-11-28-nvidia-h200-several-gpus.json")
HOSTS = CURVES.with_name("2026-11-27-nvidia-h200-hosts.json")
WIDE = 6.0  # inches: on a phone, words must still be large enough


@functools.cache
def page(name: str) -> dict[str, Any]:
    """Run the first program of a page, and return what it defines."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(next(iter(blocks((HERE / f"{name}.md").read_text(encoding="utf-8")))).source, names)
    return names


@functools.cache
def ran(module: Any, milliseconds: int = 1000, **options: Any) -> tuple[Any, Any]:
    """Run an example for some time; return the network, and all spikes."""
    network = module.network(**options)
    record = [f"{population.name}.spikes" for population in network.populations]
    return network, network.build(seed=1).run(round(milliseconds / network.dt), record=record)


def figure_of(height: float, title: str, theme: Theme) -> Picture:
    """Return an empty figure with its title at the left."""
    figure = Picture(figsize=(WIDE, height), layout="constrained", facecolor=theme.background)
    figure.suptitle(title, x=0.012, ha="left", fontsize=12.5, fontweight="bold", color=theme.ink)
    return figure


def named(axes: Axes, title: str, theme: Theme) -> None:
    """Give axes a title at the left."""
    axes.set_title(title, loc="left", fontsize=10, color=theme.ink)


def marks(network: Any, result: Any, title: str, name: str) -> Picture:
    """Draw spikes of 200 neurons above the rates of all."""
    figure = Picture(figsize=(WIDE, 4.6), layout="constrained")
    return report.draw(network, result, title, figure=figure, theme=name)


def first(name: str) -> Picture:
    """Draw the network of the first page."""
    names = page("networks")
    return marks(names["network"], names["result"], "200 of 1000 neurons, for 300 ms", name)


def potentials(name: str) -> Picture:
    """Draw the potentials of three neurons of the first page."""
    theme, result = THEMES[name], page("networks")["result"]
    figure = figure_of(3.2, "Potentials of three neurons", theme)
    rows = figure.subplots(3, 1, sharex=True, sharey=True)
    times, values = result.times("exc.v"), result["exc.v"]
    end = np.ceil(times[-1])
    shown = times >= end - 300
    for k, axes in enumerate(rows):
        dress(axes, theme)
        axes.axhline(20, color=theme.muted, linewidth=1, linestyle=DASHES[1])
        axes.plot(times[shown], values[shown, k], color=theme.colours[0], linewidth=1.1)
        axes.set(xlim=(end - 300, end), ylim=(-12, 24), yticks=[0, 20])
    rows[1].set_ylabel("potential (mV)")
    rows[-1].set_xlabel("time (ms)")
    caption(rows[-1], theme, ["Dashed: the threshold."])
    return figure


def waves(name: str) -> Picture:
    """Draw the sheet at four times."""
    theme, names = THEMES[name], page("sheet")
    figure = figure_of(6.6, "A wave on a sheet of 10 000 neurons", theme)
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.08)  # numbers of neighbouring axes stay apart
    ticks, labels = [0, 0.5, 1], ["0", "0.5", "1"]
    for axes, time in zip(figure.subplots(2, 2, sharex=True, sharey=True).flat, (4, 9, 14, 19), strict=True):
        wave = names["spikes"].between(time - 1, time).neurons
        dress(axes, theme)
        named(axes, f"{time} ms", theme)
        look = {"linestyle": "none", "marker": ".", "markersize": 3.2, "markeredgewidth": 0, "rasterized": True}
        axes.plot(names["x"][wave], names["y"][wave], color=theme.colours[0], **look)
        axes.plot(0.3, 0.5, marker="+", markersize=8, color=theme.muted)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set_xticks(ticks, labels)
        axes.set_yticks(ticks, labels)
        axes.grid(visible=False)
    caption(axes, theme, ["Dots: spikes of the last ms. Cross: the kick."])
    return figure


def coba_rate(name: str) -> Picture:
    """Draw the rates of COBA from its first step on."""
    spikes, groups = report.together(*ran(coba))
    return spikes.between(0, 500).plot_rate(bin=2, groups=groups, theme=name, title="Rates of COBA")


def coba_intervals(name: str) -> Picture:
    """Draw the intervals of COBA."""
    spikes, groups = report.together(*ran(coba))
    return spikes.plot_intervals(groups=groups, theme=name, title="Intervals of COBA")


def regimes(name: str) -> Picture:
    """Draw the four regimes of Brunel's network."""
    theme = THEMES[name]
    figure = figure_of(5.8, "One network, four regimes", theme)
    grid = figure.subplots(4, 2, sharex=True, height_ratios=[2, 1, 2, 1])
    titles = {
        "A": "A: synchronous and regular",
        "B": "B: fast oscillation",
        "C": "C: asynchronous and irregular",
        "D": "D: slow oscillation",
    }
    for place, (regime, title) in enumerate(titles.items()):
        row, column = 2 * (place // 2), place % 2
        spikes = ran(brunel, 400, regime=regime)[1]["exc.spikes"].between(280, 400)
        some, colour = spikes.of(slice(0, 60)), theme.colours[place]
        above, below = grid[row, column], grid[row + 1, column]
        look = {"color": colour, "markersize": 2.6}
        some.raster(ax=above, theme=name, **look)
        middle, rate = spikes.population_rate(bin=0.5)
        dress(below, theme)
        below.fill_between(middle, rate, color=colour, linewidth=0)
        named(above, title, theme)
        above.set(xlabel="", ylabel="neuron" if column == 0 else "")
        below.set(ylim=(0, 1.1 * rate.max()), ylabel="rate (Hz)" if column == 0 else "")
    for axes in grid[-1]:
        axes.set_xlabel("time (ms)")
    return figure


def cortex(name: str) -> Picture:
    """Draw spikes and rates of a tenth of the microcircuit."""
    theme = THEMES[name]
    network, result = ran(microcircuit, 1500, scale=0.1)
    figure = figure_of(4.4, "A tenth of the microcircuit", theme)
    figure.set_layout_engine("constrained", w_pad=0.12)  # numbers of neighbouring axes stay apart
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[2.2, 1])
    for axes in (left, right):
        dress(axes, theme)
        axes.grid(visible=False)
    bottom, ticks, rates = 0, [], []
    sizes = [population.size // 10 for population in network.populations]
    for k, (population, size) in enumerate(zip(network.populations, sizes, strict=True)):
        spikes = result[f"{population.name}.spikes"].between(500, 1500)
        some = spikes.of(slice(0, size)).between(1200, 1500)
        look = {"linestyle": "none", "marker": "s", "markersize": 1.5, "markeredgewidth": 0}
        left.plot(some.times, bottom + some.neurons, color=theme.colours[k % 2], **look)
        rates.append(spikes.rates().mean())
        ticks.append(bottom + size / 2)
        bottom += size
    colours = [theme.colours[k % 2] for k in range(8)]
    heights = [0.8 * size for size in sizes]
    right.barh(ticks, rates, heights, color=colours)
    right.plot(
        microcircuit.RATES, ticks, linestyle="none", marker="|", markersize=11, markeredgewidth=2, color=theme.ink
    )
    left.set(xlabel="time (ms)", xlim=(1200, 1500), ylim=(bottom, 0), yticks=ticks, yticklabels=microcircuit.NAMES)
    left.tick_params(axis="y", length=0, labelcolor=theme.ink, labelsize=8)  # 5E and 5I are close
    right.set(xlabel="rate (Hz)", xlim=(0, 10), xticks=[0, 5, 10])
    caption(right, theme, ["Black: published rates." if name == "light" else "White: published rates."])
    return figure


def many_areas(name: str) -> Picture:
    """Draw spikes of all areas, and the rate of each population in each of them."""
    theme, shown = THEMES[name], 0.05
    network, result = ran(areas, 700, scale=0.005)
    figure = figure_of(5.2, "32 areas, half a percent of their neurons", theme)
    left, right = figure.subplots(1, 2, width_ratios=[2.2, 1])
    for axes in (left, right):
        dress(axes, theme)
        axes.grid(visible=False)
    for k, population in enumerate(network.populations):
        spikes = result[f"{population.name}.spikes"].between(200, 400)
        area = population.at["area"]
        places = np.concatenate([np.linspace(0, 1, size, endpoint=False) for size in np.bincount(area.astype(int))])
        places = area + 0.1 + 0.1 * k + shown * places
        look = {"linestyle": "none", "marker": "s", "markersize": 1.1, "markeredgewidth": 0, "rasterized": True}
        left.plot(spikes.times, places[spikes.neurons], color=theme.colours[k % 2], **look)
    counts = {
        f"{one.name}.counts": result[f"{one.name}.spikes"].between(200, 700).counts for one in network.populations
    }
    drawn = right.imshow(areas.rates(network, counts, 500), aspect="auto", vmin=0, extent=(-0.5, 7.5, 32, 0))
    left.set(xlabel="time (ms)", ylabel="area", xlim=(200, 400), ylim=(32, 0))
    right.set(xticks=range(8), yticks=[])
    right.set_xticklabels(areas.NAMES, rotation=90)
    bar = figure.colorbar(drawn, ax=right, label="rate (Hz)")
    bar.ax.tick_params(colors=theme.ink)
    bar.ax.yaxis.label.set_color(theme.ink)
    bar.outline.set_visible(False)
    return figure


def memory(name: str) -> Picture:
    """Draw the bump of the ring over time."""
    theme = THEMES[name]
    spikes = ring.remember()
    figure = figure_of(3.4, "A ring that remembers a direction", theme)
    axes = figure.subplots()
    dress(axes, theme)
    axes.grid(visible=False)
    axes.axvspan(0, 300, color=theme.grid, linewidth=0)
    look = {"linestyle": "none", "marker": ".", "markersize": 2.2, "markeredgewidth": 0, "rasterized": True}
    axes.plot(spikes.times, ring.ANGLES[spikes.neurons], color=theme.colours[0], **look)
    times, found, _ = ring.directions(spikes)
    axes.plot(times, found, color=theme.colours[1], linewidth=1.8)
    axes.text(150, 340, "cue", color=theme.ink, ha="center", fontsize=10)
    axes.set(xlabel="time (ms)", ylabel="direction (degrees)", xlim=(0, 3000), ylim=(0, 360), yticks=range(0, 361, 90))
    caption(axes, theme, ["Line: the middle of the bump."])
    return figure


@functools.cache
def competed() -> tuple[Any, Any, dict[float, float]]:
    """Let synapses compete; return weights, one row each 20 s, rates in the same times, and final rates by input."""
    rows, rates, last = [], [], {}
    for rate in (10.0, 20.0, 40.0):
        simulation = song.network(rate).build(seed=1)
        rows.append([simulation.connections("plastic").weights])
        rates.append([])
        for _ in range(50):
            counts = simulation.run(round(20_000 / song.DT), record=["neurons.counts"])["neurons.counts"]
            rows[-1].append(simulation.connections("plastic").weights)
            rates[-1].append(counts.mean() / 20)
        last[rate] = float(np.mean(rates[-1][-10:]))
    return np.array(rows[1]) / song.W_MAX, np.array(rates), last


def competition(name: str) -> Picture:
    """Draw histograms of weights at the start and at the end, and rates over time."""
    theme = THEMES[name]
    weights, rates, _ = competed()
    figure = figure_of(3.4, "Synapses compete, and the neuron keeps its rate", theme)
    left, right = figure.subplots(1, 2)
    for axes, title in ((left, "weights, with inputs of 20 Hz"), (right, "rate of the neuron")):
        dress(axes, theme)
        named(axes, title, theme)
    bins = np.linspace(0, 1, 21)
    for row, label, colour, dash in zip(
        (weights[0], weights[-1]), ("at the start", "after 1000 s"), theme.colours, DASHES, strict=False
    ):
        share = 100 * np.histogram(row, bins)[0] / row.size
        left.stairs(share, bins, color=colour, linestyle=dash, linewidth=1.6, label=label)
    for row, rate, colour, dash in zip(rates, (10, 20, 40), theme.colours, DASHES, strict=False):
        right.plot(
            20 * np.arange(1, 51), row, color=colour, linestyle=dash, linewidth=1.6, label=f"inputs of {rate} Hz"
        )
    left.set(xlabel="weight / largest weight", ylabel="synapses (%)", xlim=(0, 1), ylim=(0, None))
    right.set(xlabel="time (s)", ylabel="rate (Hz)", xlim=(0, 1000), ylim=(0, 90))
    for axes in (left, right):
        axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9)
    return figure


@functools.cache
def balanced() -> Any:
    """Run the network whose inhibition learns for 10 s, and return the spikes of its excitatory neurons."""
    simulation = vogels.network().build(seed=1)
    return simulation.run(round(10_000 / vogels.DT), record=["exc.spikes"])["exc.spikes"]


def balance(name: str) -> Picture:
    """Draw spikes at the start and at the end, and the rate over time."""
    theme, spikes = THEMES[name], balanced()
    figure = figure_of(4.6, "Inhibition learns to balance excitation", theme)
    above, below = figure.subplots(2, 1, height_ratios=[1.6, 1])
    dress(below, theme)
    middle, rate = spikes.population_rate(bin=100)
    below.plot(middle / 1000, rate, color=theme.colours[0], linewidth=1.6)
    below.axhline(vogels.GOAL, color=theme.muted, linewidth=1, linestyle=DASHES[1])
    below.set(xlabel="time (s)", ylabel="rate (Hz)", xlim=(0, 10), yscale="log")
    caption(below, theme, ["Dashed: the goal, 3 Hz."])
    dress(above, theme)
    above.grid(visible=False)
    some = spikes.of(slice(0, 100))
    look = {"linestyle": "none", "marker": "s", "markersize": 1.8, "markeredgewidth": 0}
    for start, offset, colour in ((0, 0, theme.colours[1]), (9800, 220, theme.colours[0])):
        shown = some.between(start, start + 200)
        above.plot(shown.times - start + offset, shown.neurons, color=colour, **look)
    above.axvline(210, color=theme.muted, linewidth=1)
    above.set(ylabel="neuron", xlim=(0, 420), ylim=(-1, 100))
    above.set(xticks=[0, 100, 220, 320, 420], xticklabels=["0", "0.1", "9.8", "9.9", "10"])
    return figure


@functools.cache
def found_late() -> tuple[Any, Any]:
    """Reward a synapse for 25 minutes; return its weight and the mean by second, and the times of rewards."""
    return reward.rewarded(1500)


def late_reward(name: str) -> Picture:
    """Draw the weight of the rewarded synapse beside the mean, with the rewards."""
    theme = THEMES[name]
    weights, due = found_late()
    figure = figure_of(3.2, "A synapse that is rewarded 1 to 3 s later", theme)
    axes = figure.subplots()
    dress(axes, theme)
    seconds = np.arange(1, len(weights) + 1)
    for k, label in enumerate(("the rewarded synapse", "mean of 64 000 synapses")):
        axes.plot(seconds, weights[:, k], color=theme.colours[k], linestyle=DASHES[k], linewidth=1.6, label=label)
    times = due[due < 1000 * len(weights)] / 1000
    axes.vlines(times, 4.1, 4.3, color=theme.ink, linewidth=1.0)
    axes.set(xlabel="time (s)", ylabel="weight (mV)", xlim=(0, len(weights)), ylim=(0, 4.4))
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="center right")
    caption(axes, theme, ["Ticks: rewards."])
    return figure


@functools.cache
def choices() -> tuple[list[float], Any, Any, tuple[Any, Any]]:
    """Decide 40 times for each coherence; return these, how often left won, when, and the rates of a trial."""
    simulation = decision.network(scale=0.25).build(seed=1)
    coherences = [0.0, 0.032, 0.064, 0.128, 0.256, 0.512]
    found = [decision.decided(simulation, coherence, trials=40) for coherence in coherences]
    times = [float(np.nanmedian(one[3])) for one in found]
    left, right, won, when = found[2]
    shown = np.nanargmin(np.where(won, abs(when - times[2]), np.nan))  # of those that left won, one as fast as most
    return coherences, [float(one[2].mean()) for one in found], times, (left[shown], right[shown])


def choice(name: str) -> Picture:
    """Draw the rates of both groups in one trial, and how choices and their times depend on the evidence."""
    theme, (coherences, shares, times, rates) = THEMES[name], choices()
    figure = figure_of(4.0, "A decision between two groups of neurons", theme)
    grid = figure.add_gridspec(2, 2, width_ratios=[1.2, 1])
    left, above, below = (figure.add_subplot(grid[place]) for place in ((slice(None), 0), (0, 1), (1, 1)))
    titles = (left, "rates in one trial"), (above, "left wins"), (below, "time of the decision")
    for axes, title in titles:
        dress(axes, theme)
        named(axes, title, theme)
    middle = 50 * np.arange(rates[0].size) + 25 - decision.START
    for k, label in enumerate(("left", "right")):
        look = {"color": theme.colours[k], "linestyle": DASHES[k], "linewidth": 1.6, "label": label}
        left.plot(middle, rates[k], **look)
    left.axvspan(0, decision.TRIAL, color=theme.grid, linewidth=0, zorder=0)
    left.axhline(decision.THRESHOLD, color=theme.muted, linewidth=1, linestyle=DASHES[2])
    left.set(
        xlabel="time of the evidence (ms)", ylabel="rate (Hz)", xlim=(-decision.START, decision.TRIAL), ylim=(0, None)
    )
    left.legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="upper left")
    look = {"color": theme.colours[0], "marker": "o", "markersize": 4.5, "linewidth": 1.6}
    above.plot(100 * np.array(coherences), 100 * np.array(shares), **look)
    below.plot(100 * np.array(coherences), times, **look)
    above.set(ylabel="trials (%)", ylim=(40, 103), xticklabels=[])
    below.set(xlabel="coherence (%)", ylabel="median (ms)", ylim=(0, 1.1 * max(times)))
    caption(left, theme, ["Grey: evidence. Dashed: the threshold."])
    return figure


@functools.cache
def spread() -> tuple[Any, Any]:
    """Run a tenth of the benchmark for 4 s; return the spikes of its last half second, and the relative weights."""
    simulation = hpc.network(0.1, 0.1).build(seed=1)
    simulation.run(ms=3500)
    spikes = simulation.run(ms=500, record=["exc.spikes"])["exc.spikes"]
    return spikes, simulation.connections("plastic").weights / hpc.WEIGHT


def power_law(name: str) -> Picture:
    """Draw spikes of the benchmark, and its weights beside those of NEST."""
    theme, (spikes, weights) = THEMES[name], spread()
    figure = figure_of(3.4, "A tenth of the benchmark", theme)
    left, right = figure.subplots(1, 2, width_ratios=[1.4, 1])
    for axes, title in ((left, "spikes"), (right, "weights after 4 s")):
        dress(axes, theme)
        named(axes, title, theme)
    left.grid(visible=False)
    some = spikes.of(slice(0, 100))
    look = {"linestyle": "none", "marker": "s", "markersize": 1.8, "markeredgewidth": 0}
    left.plot(some.times - 3500, some.neurons, color=theme.colours[0], **look)
    left.set(xlabel="time (ms)", ylabel="neuron", xlim=(0, 500), ylim=(-1, 100))
    shares = np.linspace(0.001, 0.999, 200)
    right.plot(np.quantile(weights, shares), 100 * shares, color=theme.colours[0], linewidth=1.6, label="here")
    theirs = json.loads(NEST.read_text(encoding="utf-8"))["0.1"]
    quantiles = np.mean([seed["quantiles"] for seed in theirs["seeds"]], axis=0)
    parts = 100 * np.array(theirs["parts"])
    look = {"linestyle": "none", "marker": "o", "markersize": 4.5}
    right.plot(quantiles, parts, color=theme.colours[1], label="NEST, 6 seeds", **look)
    right.set(xlabel="weight / weight at the start", ylabel="synapses below (%)", xlim=(0.86, 1.09), ylim=(0, 100))
    right.set_xticks([0.9, 0.95, 1, 1.05])
    right.legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="upper left", handlelength=1.2)
    return figure


@functools.cache
def learned() -> tuple[Any, ...]:
    """Train the classifier; return all losses, and the potentials of the outputs for one sample and its class."""
    random = np.random.default_rng(0)
    times, simulation = classifier.patterns(random), classifier.built()
    weights, losses = classifier.train(simulation, random, times)
    spikes, labels = classifier.samples(random, times, 1)
    return losses, np.asarray(classifier.potentials(simulation, weights, spikes[0])), int(labels[0])


def learning(name: str) -> Picture:
    """Draw the loss, and the outputs for one sample."""
    theme = THEMES[name]
    losses, potentials, label = learned()
    figure = figure_of(3.2, "A network that learns to tell patterns of spikes apart", theme)
    left, right = figure.subplots(1, 2)
    for axes, title in ((left, "training"), (right, "one sample")):
        dress(axes, theme)
        named(axes, title, theme)
    left.plot(np.arange(1, len(losses) + 1), losses, color=theme.colours[0], linewidth=1.6)
    left.set(xlabel="round", ylabel="loss", xlim=(1, len(losses)), ylim=(0, None))
    for k, values in enumerate(potentials.T):
        right_one = k == label
        look = {"color": theme.colours[1 if right_one else 0], "linewidth": 2.0 if right_one else 1.1}
        right.plot(values, label="the right class" if right_one else None if k else "others", **look)
    right.set(xlabel="step", ylabel="potential of an output", xlim=(0, len(potentials) - 1))
    right.margins(y=0.18)  # room for the legend
    right.legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="upper right", ncols=2, borderaxespad=0)
    return figure


def curves(name: str) -> Picture:
    """Draw how the networks of the shape of SHD learned, on a CPU and on a GPU, as committed with the benchmarks."""
    theme = THEMES[name]
    runs = json.loads(CURVES.read_text(encoding="utf-8"))
    figure = figure_of(3.2, "Networks that learn to tell 20 classes of recordings apart", theme)
    left, right = figure.subplots(1, 2)
    for run in runs:
        gpu = "NVIDIA" in run["device"]
        colour, dashes = theme.colours[1 if run["delays"] else 0], DASHES[1 if gpu else 0]
        label = f"{'with delays' if run['delays'] else 'one step'}, {'GPU' if gpu else 'CPU'}"
        look = {"color": colour, "linestyle": dashes, "linewidth": 1.6, "label": label}
        left.plot(np.arange(1, len(run["losses"]) + 1), run["losses"], **look)
        right.plot(np.arange(1, len(run["accuracies"]) + 1), 100 * np.array(run["accuracies"]), marker=".", **look)
    for axes, title in ((left, "training"), (right, "recordings that were not trained")):
        dress(axes, theme)
        named(axes, title, theme)
    left.set(xlabel="step", ylabel="loss", ylim=(0, None))
    right.set(xlabel="epoch", ylabel="classified correctly (%)", ylim=(70, 100))
    right.legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="lower right", handlelength=3.2)
    return figure


def scaling(name: str) -> Picture:
    """Draw how much faster networks run on several GPUs, as committed with the benchmarks."""
    theme = THEMES[name]
    figure = figure_of(3.4, "How many times as fast as on one GPU", theme)
    axes = figure.subplots()
    dress(axes, theme)
    axes.plot([1, 4], [1, 4], color=theme.muted, linewidth=1, linestyle=DASHES[1])
    rows = [row for row in json.loads(SEVERAL.read_text(encoding="utf-8"))["rows"] if "delays" not in row["network"]]
    for row, colour in zip(rows, theme.colours, strict=False):
        gpus = [int(number) for number in row["us"]]
        faster = [row["us"]["1"] / row["us"][str(number)] for number in gpus]
        axes.plot(gpus, faster, color=colour, marker="o", linewidth=1.6, label=row["network"])
    axes.set(xscale="log", yscale="log", xlabel="GPUs", ylim=(0.5, 16))
    axes.set_xticks([1, 2, 4], ["1", "2", "4"])
    axes.set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axes.minorticks_off()
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9, loc="upper left")
    return figure


def hosts(name: str) -> Picture:
    """Draw what is predicted for many GPUs, and what was measured on one and two, as committed with the benchmarks."""
    theme, found = THEMES[name], json.loads(HOSTS.read_text(encoding="utf-8"))
    predicted, measured = found["predicted, not measured"], found["measured on one machine"]
    figure = figure_of(3.6, "A prediction: a step on many GPUs", theme)
    delays = sorted({row["delay"] for row in predicted["steps"]})
    scales = sorted({row["scale"] for row in predicted["steps"]})
    for axes, scale in zip(figure.subplots(1, 2), scales, strict=True):
        dress(axes, theme)
        neurons = predicted["neurons"] * scale / 1e6
        named(axes, f"{neurons:.2g} million neurons", theme)
        for delay, colour in zip(delays, theme.colours, strict=False):
            rows = [row for row in predicted["steps"] if (row["scale"], row["delay"]) == (scale, delay)]
            gpus = [row["gpus"] for row in rows]
            label = f"delay of {delay} step{'s'[: delay - 1]}"
            axes.plot(gpus, [row["ring_us"] for row in rows], color=colour, linewidth=1.6, label=label)
            axes.plot(gpus, [row["tree_us"] for row in rows], color=colour, linewidth=1.2, linestyle=DASHES[1])
            shown = [
                (one["processes"], run["step_us"])
                for one in measured
                for run in one["run"]
                if run["neurons"] == neurons * 1e6 and (one["processes"] == 1 or run["delay"] == delay)
            ]
            if shown:
                axes.scatter(*zip(*shown, strict=True), color=colour, s=18, zorder=3)
        axes.set(xscale="log", yscale="log", xlabel="GPUs, in a process each")
        axes.set_xticks([1, 8, 64, 1024], ["1", "8", "64", "1024"])
        axes.minorticks_off()
        if scale == 1:
            axes.set_ylabel("microseconds a step")
            axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8, loc="upper left")
    return figure


def rhythms(name: str) -> Picture:
    """Draw the rates of the network on the page of delays, for each of its delays."""
    theme, rates = THEMES[name], page("delays")["rates"]
    figure = figure_of(4.0, "The longer the delay, the slower the rhythm", theme)
    rows = figure.subplots(len(rates), 1, sharex=True)
    for axes, (delay, rate), colour in zip(rows, rates.items(), theme.colours, strict=False):
        dress(axes, theme)
        binned = rate[:1000].reshape(-1, 5).mean(1) / 2000 * 1e4
        axes.fill_between(np.arange(0.25, 100, 0.5), binned, color=colour, linewidth=0)
        axes.set(xlim=(0, 100), ylim=(0, None))
        named(axes, f"delay {delay:g} ms", theme)
    rows[1].set_ylabel("rate (Hz)")
    rows[-1].set_xlabel("time (ms)")
    return figure


def junctions(name: str) -> Picture:
    """Draw the spikes on the page of gap junctions, without and with these."""
    theme, names = THEMES[name], page("gap-junctions")
    figure = figure_of(4.4, "Gap junctions synchronize", theme)
    rows = figure.subplots(2, 1, sharex=True)
    kinds = (("apart", "without gap junctions"), ("together", "with gap junctions"))
    for axes, (which, title), colour in zip(rows, kinds, theme.colours, strict=False):
        dress(axes, theme)
        spikes = names[which]["cells.spikes"]
        start = spikes.first * 0.1
        shown = spikes.between(start, start + 300)
        axes.scatter(shown.times - start, shown.neurons, s=2.5, color=colour, linewidths=0)
        axes.set(xlim=(0, 300), ylim=(-1, 100), ylabel="neuron")
        named(axes, title, theme)
    rows[-1].set_xlabel("time (ms)")
    return figure


PICTURES: dict[str, Callable[[str], Picture]] = {
    "first": first,
    "potentials": potentials,
    "cuba": lambda name: marks(*ran(cuba), "200 of the 4000 neurons of CUBA, for 300 ms", name),
    "coba": lambda name: marks(*ran(coba), "200 of the 4000 neurons of COBA, for 300 ms", name),
    "rate": coba_rate,
    "intervals": coba_intervals,
    "brunel": regimes,
    "microcircuit": cortex,
    "areas": many_areas,
    "ring": memory,
    "classifier": learning,
    "digits": curves,
    "delays": rhythms,
    "gap-junctions": junctions,
    "song": competition,
    "vogels": balance,
    "reward": late_reward,
    "hpc": power_law,
    "several-gpus": scaling,
    "several-hosts": hosts,
    "decision": choice,
    "sheet": waves,
}


def draw(folder: Path = FOLDER, names: tuple[str, ...] = tuple(PICTURES)) -> list[Path]:
    """Draw pictures in each theme into a folder, and return their paths."""
    paths = []
    for name in names:
        for theme in THEMES:
            paths.append(folder / f"{name}-{theme}.svg")
            PICTURES[name](theme).savefig(paths[-1])
    return paths


if __name__ == "__main__":
    draw(names=tuple(sys.argv[1:]) or tuple(PICTURES))
