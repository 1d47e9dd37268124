# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/neuron-models.md, each from a run of its model: `python -m docs.neuron_models`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import brainevent as be
from brainevent.bench.plot.picture import Picture, dress, legend
from brainevent.bench.plot.style import DASHES, THEMES, Theme

FOLDER = Path(__file__).parent / "_static" / "neuron-models"
DT = 0.1


@dataclass(frozen=True)
class Line:
    """What is drawn over time, in ms, as a line or as dots where it is not 0; `spikes` are ticks above it."""

    y: Any
    name: str = ""
    spikes: Any = ()
    t: Any = None
    dots: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines that share axes, and the words beside them. Until `raster` ms, where it is given, their spikes are rows."""

    words: str
    lines: tuple[Line, ...]
    height: float = 1.0
    raster: float = 0.0


@dataclass(frozen=True)
class Drawing:
    """Panels above one another, over one axis."""

    title: str
    panels: tuple[Panel, ...]
    axis: str = "time (ms)"


def simulated(*populations: be.Population, ms: float, record: tuple[str, ...], joined: Any = (), **inputs: Any) -> Any:
    """Run populations, of which the last is recorded: return its states by name, and "spikes" as times by neuron."""
    name = populations[-1].name
    labels = [f"{name}.{state}" for state in record]
    given = {f"{name}.{receptor}": values for receptor, values in inputs.items()}
    simulation = be.Network(populations, joined, dt=DT).build(seed=1)
    result = simulation.run(round(ms / DT), record=[*labels, f"{name}.spikes"], inputs=given)
    spikes = result[f"{name}.spikes"]
    each = [spikes.times[spikes.neurons == k] for k in range(populations[-1].size)]
    return {"spikes": each, **{state: result[label] for state, label in zip(record, labels, strict=True)}}


def arrivals(ms: float, *trains: tuple[dict[float, float], ...]) -> Any:
    """Return what arrives at each neuron, (steps, neurons), from amounts by time in ms."""
    found = np.zeros((round(ms / DT), len(trains)), np.float32)
    for neuron, train in enumerate(trains):
        for time, amount in train.items():
            found[round(time / DT), neuron] += amount
    return found


def with_peaks(v: Any, spikes: Any, peak: float) -> Any:
    """Return a potential that shows the peak of each spike, after which it was reset."""
    shown = np.array(v)
    shown[np.rint(np.asarray(spikes) / DT).astype(int)] = peak
    return shown


def lif_current() -> Drawing:
    """A current step, during which the neuron spikes; before it, one spike that arrives."""
    neuron = be.models.step_current(be.models.lif_current("n", 1), amplitude=420.0, start=30, stop=130)
    run = simulated(neuron, ms=160, record=("v", "i"), syn=arrivals(160, {5: 2000.0}))
    step = np.where((np.arange(1600) >= 300) & (np.arange(1600) < 1300), 420.0, 0.0)
    currents = Line(run["i"][:, 0], "synaptic current"), Line(step, "step current")
    return Drawing(
        "lif_current: one spike arrives, then a current flows",
        (Panel("v (mV)", (Line(run["v"][:, 0], spikes=run["spikes"][0]),), 1.6), Panel("current (pA)", currents)),
    )


def lif_delta() -> Drawing:
    """Arriving spikes that add up to a spike."""
    train = dict.fromkeys([5, 25, 45, 48, 51, 54, 57, 60, 90], 4.5)
    run = simulated(be.models.lif_delta("n", 1), ms=110, record=("v",), syn=arrivals(110, train))
    return Drawing(
        "lif_delta: each spike that arrives adds 4.5 mV",
        (Panel("v (mV)", (Line(run["v"][:, 0], spikes=run["spikes"][0]),), 1.6),),
    )


def lif_exponential() -> Drawing:
    """The potentials that excitatory and inhibitory spikes make, and both."""
    neurons = be.models.lif_exponential("n", 3, rest=-60, threshold=-40)
    exc = arrivals(120, {10: 8.0}, {}, {10: 8.0, 60: 8.0})
    inh = arrivals(120, {}, {10: -9.0}, {50: -9.0})
    run = simulated(neurons, ms=120, record=("v", "exc", "inh"), exc=exc, inh=inh)
    names = "excitatory spike", "inhibitory spike", "both"
    inputs = Line(run["exc"][:, 2], "exc (of both)"), Line(run["inh"][:, 2], "inh (of both)")
    potentials = tuple(Line(run["v"][:, k], name) for k, name in enumerate(names))
    return Drawing(
        "lif_exponential: synaptic inputs decay with 5 and 10 ms",
        (Panel("v (mV)", potentials, 1.6), Panel("input (mV)", inputs)),
    )


def lif_conductance() -> Drawing:
    """An inhibitory spike does much above its reversal potential and nothing at it."""
    neurons = be.models.lif_conductance("n", 3, current=np.array([8.0, -8.0, -20.0]), v=np.array([-52.0, -68.0, -80.0]))
    run = simulated(neurons, ms=80, record=("v",), inh=arrivals(80, *[{20: 1.0}] * 3))
    names = "from -52 mV", "from -68 mV", "from -80 mV"
    lines = tuple(Line(run["v"][:, k], name) for k, name in enumerate(names))
    return Drawing("lif_conductance: an inhibitory spike pulls to -80 mV", (Panel("v (mV)", lines, 1.6),))


def adex() -> Drawing:
    """Adaptation and bursts."""
    kinds = {"adapting": (-70.6, 144.0, 80.5, 1000.0), "bursting": (-47.2, 20.0, 300.0, 900.0)}
    reset, tau_w, b, current = np.array(list(kinds.values())).T
    run = simulated(be.models.adex("n", 2, reset=reset, tau_w=tau_w, b=b, current=current), ms=200, record=("v", "w"))
    panels = [
        Panel(f"{kind}\nv (mV)", (Line(with_peaks(run["v"][:, k], run["spikes"][k], 0.0)),), 1.3)
        for k, kind in enumerate(kinds)
    ]
    adaptation = tuple(Line(run["w"][:, k], kind) for k, kind in enumerate(kinds))
    return Drawing("adex: spikes that slow down, and bursts", (*panels, Panel("w (pA)", adaptation)))


def izhikevich() -> Drawing:
    """Five of the kinds of the paper."""
    kinds = {
        "regular\nspiking": (0.02, 0.2, -65, 8),
        "intrinsically\nbursting": (0.02, 0.2, -55, 4),
        "chattering": (0.02, 0.2, -50, 2),
        "fast\nspiking": (0.1, 0.2, -65, 2),
        "low-threshold\nspiking": (0.02, 0.25, -65, 2),
    }
    a, b, c, d = np.array(list(kinds.values())).T
    run = simulated(be.models.izhikevich("n", 5, a=a, b=b, c=c, d=d, current=10), ms=250, record=("v",))
    panels = (Panel(kind, (Line(with_peaks(run["v"][:, k], run["spikes"][k], 30.0)),)) for k, kind in enumerate(kinds))
    return Drawing("izhikevich: v (mV) for five sets of a, b, c, d", tuple(panels))


def hodgkin_huxley() -> Drawing:
    """Potential and gates."""
    run = simulated(be.models.hodgkin_huxley("n", 1, current=1000.0), ms=50, record=("v", "m", "h", "n"))
    gates = tuple(Line(run[gate][:, 0], gate) for gate in "mhn")
    return Drawing(
        "hodgkin_huxley: 1000 pA, which is 10 \N{MICRO SIGN}A/cm\N{SUPERSCRIPT TWO}",
        (Panel("v (mV)", (Line(run["v"][:, 0]),), 1.3), Panel("gates", gates)),
    )


def rates() -> Drawing:
    """How fast neurons of several models spike with a constant current, in multiples of the least that they need."""
    ratio = np.linspace(0.8, 4, 33)
    least = {"lif_current": 375.0, "adex": 690.0, "izhikevich": 3.8, "hodgkin_huxley": 630.0}
    lines = []
    for model, current in least.items():
        neurons = getattr(be.models, model)("n", ratio.size, current=current * ratio)
        spikes = simulated(neurons, ms=400, record=())["spikes"]
        last = [1000 / np.diff(times[-2:])[0] if len(times) > 1 and times[-1] > 250 else 0.0 for times in spikes]
        lines.append(Line(np.array(last), model, t=ratio))
    return Drawing("Rates with a constant current", (Panel("rate (Hz)", tuple(lines), 2.2),), "current / least current")


def sources() -> Drawing:
    """Spikes of sources."""
    rates_of = np.repeat([10.0, 60.0], 10)
    noisy = simulated(be.models.poisson_source("n", 20, rate=rates_of), ms=300, record=())["spikes"]
    given = [np.arange(10.0 * (k + 1), 300, 10.0 * (k + 1)) for k in range(6)]
    exact = simulated(be.models.spike_source("n", given, dt=DT), ms=300, record=())["spikes"]
    rows = [[Line((), spikes=times) for times in group] for group in (noisy, exact)]
    return Drawing(
        "Sources of spikes: a row for each neuron",
        (
            Panel("poisson_source\n10 and 60 Hz", tuple(rows[0]), 1.6, raster=300.0),
            Panel("spike_source", tuple(rows[1]), raster=300.0),
        ),
    )


def drives() -> Drawing:
    """The potential of the same neuron with each of the drives."""
    plain, models = be.models.lif_current("n", 1), be.models
    driven = {
        "step_current": models.step_current(plain, amplitude=420.0, start=50, stop=150),
        "noise_current": models.noise_current(plain, sd=450.0, tau=5.0),
        "poisson_drive": models.poisson_drive(plain, rate=8000.0, weight=87.81),
    }
    panels = []
    for name, neuron in driven.items():
        run = simulated(neuron, ms=250, record=("v",))
        panels.append(Panel(f"{name}\nv (mV)", (Line(run["v"][:, 0], spikes=run["spikes"][0]),)))
    return Drawing("One neuron, three drives", tuple(panels))


def tsodyks_markram() -> Drawing:
    """Resource and what synapses transmit in a train of 20 Hz with a pause."""
    times = [20 + 50 * k for k in range(8)] + [900]
    drawn = {"depressing": {"use": 0.5, "tau_recover": 400.0}}
    drawn["facilitating"] = {"use": 0.1, "tau_recover": 100.0, "tau_facilitate": 500.0}
    panels = []
    for kind, values in drawn.items():
        terminals = be.models.tsodyks_markram("n", 1, **values)
        run = simulated(terminals, ms=1000, record=("x", "u"), spikes=arrivals(1000, dict.fromkeys(times, 1.0)))
        sent, x = np.zeros(10_000), run["x"][:, 0]
        at = np.rint(run["spikes"][0] / DT).astype(int)
        sent[at] = run["u"][at, 0] * (1 - (1 - x[at - 1]) * np.exp(-DT / values["tau_recover"]))
        lines = [Line(x, "x"), Line(sent, "part of the weight that a synapse transmits", dots=True)]
        if "tau_facilitate" in values:
            lines.append(Line(run["u"][:, 0], "u"))
        panels.append(Panel(kind, tuple(lines)))
    return Drawing("tsodyks_markram: eight spikes in 350 ms, and one later", tuple(panels))


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        lif_current, lif_delta, lif_exponential, lif_conductance, adex, izhikevich, hodgkin_huxley, rates, sources,
        drives, tsodyks_markram,
    )
}  # fmt: skip


def draw(folder: Path = FOLDER) -> list[Path]:
    """Run each model once, draw its picture in each theme, and return the paths."""
    paths = []
    for name, drawing in DRAWINGS.items():
        drawn = drawing()
        for theme_name, theme in THEMES.items():
            paths.append(folder / f"{name}-{theme_name}.svg")
            picture(drawn, theme).savefig(paths[-1])
    return paths


def picture(drawing: Drawing, theme: Theme) -> Picture:
    """Draw the panels above one another."""
    heights = [panel.height for panel in drawing.panels]
    named = sum(any(line.name for line in panel.lines) for panel in drawing.panels)
    figure = Picture(figsize=(6.0, 0.9 + 1.1 * sum(heights) + 0.25 * named), layout="constrained")
    rows = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, panel in zip(rows, drawing.panels, strict=True):
        dress(axes, theme)
        _panel(axes, panel, theme)
    rows[-1].set_xlabel(drawing.axis)
    figure.align_ylabels()
    figure.suptitle(drawing.title, x=0.012, ha="left", fontsize=12.5, fontweight="bold", color=theme.ink)
    return figure


def _panel(axes: Axes, panel: Panel, theme: Theme) -> None:
    axes.set_ylabel(panel.words)
    if panel.raster:
        axes.eventplot([line.spikes for line in panel.lines], colors=theme.colours[0], linelengths=0.7, linewidths=1.0)
        axes.set(yticks=[], xlim=(0, panel.raster))
        axes.grid(visible=False)
        return
    for k, line in enumerate(panel.lines):
        t = DT * np.arange(len(line.y)) if line.t is None else line.t
        look: dict[str, Any] = {"linestyle": DASHES[k], "linewidth": 1.4}
        if line.dots:
            look = {"linestyle": "none", "marker": "o", "markersize": 5, "markevery": list(np.flatnonzero(line.y))}
        axes.plot(t, line.y, color=theme.colours[k], label=line.name or None, **look)
        axes.set_xlim(t[0], t[-1] + (DT if line.t is None else 0))
    spikes = panel.lines[0].spikes
    if len(spikes):
        low, high = axes.get_ylim()
        tall = 0.12 * (high - low)
        axes.vlines(spikes, high, high + tall, color=theme.ink, linewidth=1.2)
        axes.set_ylim(low, high + 1.1 * tall)
    legend(axes, theme)


if __name__ == "__main__":
    draw()
