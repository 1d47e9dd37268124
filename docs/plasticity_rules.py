# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/plasticity-rules.md, each from a run of its rule: `python -m docs.plasticity_rules`."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import brainevent as be
from brainevent.bench.plot.style import THEMES
from docs.neuron_models import Drawing, Line, Panel, picture

FOLDER = Path(__file__).parent / "_static" / "plasticity-rules"
DT = 0.5
ready = be.plasticity


def told(s: Any, arriving: Any, p: Any) -> Any:
    """Spike when told to, whatever arrives through synapses."""
    return s.replace(got=arriving.syn), arriving.spikes > 0


def pairs(rules: Mapping[str, be.Plasticity], spikes: Sequence[Any], weights: Any, every: int = 0) -> dict[str, Any]:
    """Return the weights of synapses between neurons that are told to spike, by rule: at the end, or each few steps.

    `spikes` are the times in ms of all sources and of all targets, with one synapse each and a delay of one step.
    """
    size, steps = len(weights), round(max(max(row) for each in spikes for row in each) / DT) + 3
    a, b = (be.Population(name, size, told, {"got": 0.0}) for name in "ab")
    delay, matrix = DT, np.diag(np.where(np.asarray(weights) == 0, 1e-30, weights)).astype(np.float32)
    joined = [be.Projection(a, b, matrix, "syn", delay, name, rule) for name, rule in rules.items()]
    simulation = be.Network([a, b], joined, dt=DT).build()
    inputs = {
        f"{name}.spikes": be.models.spike_input(each, steps, dt=DT) for name, each in zip("ab", spikes, strict=True)
    }
    labels = [be.every(every or steps - 1, f"{name}.w") for name in rules]
    result = simulation.run(steps, record=labels, inputs=inputs)
    return {name: result[f"{name}.w"] if every else result[f"{name}.w"][-1] for name in rules}


def stdp() -> Drawing:
    """The window: what a pair changes, by the time between."""
    apart = np.arange(-80, 80.5, 0.5)
    source = np.full(apart.size, 100.0)
    spikes = [source[:, None], (source + DT + apart)[:, None]]
    found = pairs({"rule": ready.stdp(a_plus=0.01, a_minus=0.0105)}, spikes, np.full(apart.size, 0.5))["rule"] - 0.5
    return Drawing(
        "stdp: what one pair of spikes changes",
        (Panel("change of the weight", (Line(found, t=apart),), 1.8),),
        "from the spike of the source to that of the target (ms)",
    )


def by_weight(rules: Mapping[str, be.Plasticity], title: str, largest: float = 1.0, axis: str = "weight") -> Drawing:
    """Draw what a pair changes, by the weight: potentiation above, depression below."""
    weights = np.linspace(0, largest, 201)
    at = np.full((201, 1), 20.0)
    panels = []
    for words, late in (("source 10 ms\nfirst", 10.0), ("target 10 ms\nfirst", -10.0)):
        found = pairs(rules, [at, at + DT + late], weights)
        lines = tuple(Line(w - weights, name, t=weights) for name, w in found.items())
        panels.append(Panel(f"{words}: change", lines, 1.3))
    return Drawing(title, tuple(panels), axis)


def multiplicative_stdp() -> Drawing:
    """Changes by weight, beside the additive rule."""
    rules = {"stdp": ready.stdp(), "multiplicative_stdp": ready.multiplicative_stdp()}
    return by_weight(rules, "multiplicative_stdp: changes are shares of what is left")


def nonlinear_stdp() -> Drawing:
    """Changes by weight, for several exponents."""
    rules = {f"mu = {mu:g}": ready.nonlinear_stdp(mu_plus=mu, mu_minus=mu) for mu in (0.02, 0.2, 0.5, 1.0)}
    return by_weight(rules, "nonlinear_stdp: from additive to multiplicative")


def power_law_stdp() -> Drawing:
    """Changes by weight, in pA."""
    rules = {"power_law_stdp": ready.power_law_stdp(w_max=120.0)}
    return by_weight(rules, "power_law_stdp: strong synapses grow by smaller shares", 100.0, "weight (pA)")


def triplet_stdp() -> Drawing:
    """What 60 pairs change, by their rate, beside what was measured."""
    rates = np.array([8.0, 10.0, 12.5, 16.0, 20.0, 25.0, 30.0, 40.0, 50.0, 55.0])
    measured = {
        10.0: {10: 0.14, 20: 0.29, 40: 0.53, 50: 0.56},
        -10.0: {10: -0.41, 20: -0.34, 40: 0.56, 50: 0.75},
    }
    lines = []
    for late, points in measured.items():
        source = np.array([20 + 1000 / rate * np.arange(60) for rate in rates])
        source = np.round(source / DT) * DT
        rule = {"rule": ready.triplet_stdp(w_max=5.0)}
        found = pairs(rule, [source, source + DT + late], np.full(rates.size, 1.0))["rule"] - 1
        words = "source first" if late > 0 else "target first"
        lines.append(Line(100 * found, f"{words}, by 10 ms", t=rates))
        dots = np.array([100 * points.get(round(float(rate), 1), 0.0) for rate in rates])
        lines.append(Line(dots, f"measured, {words}", t=rates, dots=True))
    return Drawing(
        "triplet_stdp: what 60 pairs do depends on their rate",
        (Panel("change (%)", tuple(lines), 2.0),),
        "rate of the pairs (Hz)",
    )


def rates_over(times: Any, size: int, ms: float, bin_ms: float) -> tuple[Any, Any]:
    """Return the middle of each bin in s, and the rate of a population in it."""
    edges = np.arange(0, ms + bin_ms / 2, bin_ms)
    return (edges[:-1] + bin_ms / 2) / 1000, np.histogram(times, edges)[0] / (size * bin_ms / 1000)


def inhibitory_stdp() -> Drawing:
    """Rates and weights while inhibition grows."""
    ms = 16_000
    exc, inh = (be.models.poisson_source(name, 100, rate=20.0, dt=DT) for name in ("exc", "inh"))
    cells = be.models.lif_conductance("cells", 20, dt=DT, v=be.uniform(-60, -50))
    joined = [
        be.Projection(exc, cells, be.connect.all_to_all(weight=0.06), "exc", DT),
        be.Projection(
            inh, cells, be.connect.all_to_all(weight=0.01), "inh", DT, "inhibition",
            ready.inhibitory_stdp(eta=0.002, rate=5.0, w_max=2.0),
        ),
    ]  # fmt: skip
    result = (
        be.Network([exc, inh, cells], joined, dt=DT)
        .build(seed=1)
        .run(round(ms / DT), record=["cells.spikes", be.every(200, "inhibition.w")])
    )
    t, rate = rates_over(result["cells.spikes"].times, 20, ms, 500)
    weights = result["inhibition.w"]
    goal = Line(np.full(t.size, 5.0), "goal", t=t)
    return Drawing(
        "inhibitory_stdp: neurons approach 5 Hz",
        (
            Panel("rate (Hz)", (Line(rate, "20 neurons", t=t), goal), 1.5),
            Panel("mean weight", (Line(weights.mean(1), t=np.arange(len(weights)) * 0.1),)),
        ),
        "time (s)",
    )


def clopath() -> Drawing:
    """The potential, its filters, and weights of two sources."""
    ms, dt = 260.0, 0.1
    steps = round(ms / dt)
    cell = be.models.voltage_traces(be.models.current_input(be.models.adex("cell", 1)))
    at = 40.0 + 20.0 * np.arange(5)
    pulses = np.zeros((steps, 1), np.float32)
    for time in [*at, 200.0]:
        pulses[round(time / dt) : round((time + 2) / dt)] = 5000.0 if time < 200 else 2000.0
    sources = be.models.spike_source("sources", [at - 8, at + 12], dt=dt)
    joined = be.Projection(sources, cell, [[0.5], [0.5]], "exc", dt, "plastic", ready.clopath())
    labels = ["cell.v", "cell.v_minus", "cell.v_plus", "cell.spikes", "plastic.w"]
    simulation = be.Network([sources, cell], [joined], dt=dt).build(seed=1)
    result = simulation.run(steps, record=labels, inputs={"cell.input": pulses})
    t = dt * np.arange(steps)
    spikes = result["cell.spikes"].times
    filters = tuple(Line(result[f"cell.{name}"][:, 0], name, t=t) for name in ("v_minus", "v_plus"))
    names = "source 8 ms before the target", "source 12 ms after the target"
    weights = tuple(Line(result["plastic.w"][:, k], name, t=t) for k, name in enumerate(names))
    return Drawing(
        "clopath: the potential of the target decides",
        (
            Panel("v (mV)", (Line(result["cell.v"][:, 0], spikes=spikes, t=t),), 1.2),
            Panel("filtered (mV)", filters, 1.2),
            Panel("weight", weights, 1.3),
        ),
    )


def reward_stdp() -> Drawing:
    """Eligibility, dopamine and weights of three synapses, of which two had pairs."""
    ms = 3000.0
    steps = round(ms / DT)
    a = be.Population("a", 3, told, {"got": 0.0})
    b = be.models.dopamine(be.Population("b", 3, told, {"got": 0.0}), dt=DT)
    rule = ready.reward_stdp(a_plus=0.4, a_minus=0.5, interval=DT, w_max=1.0)
    joined = be.Projection(a, b, np.diag([0.5, 0.5, 0.5]), "syn", DT, "plastic", rule)
    spikes = [[300.0], [300.0], [300.0]], [[310.0], [290.0], [2400.0]]
    inputs = {
        f"{name}.spikes": be.models.spike_input(each, steps, dt=DT) for name, each in zip("ab", spikes, strict=True)
    }
    inputs["b.reward"] = np.where(np.arange(steps)[:, None] == 1500 / DT, 0.01, 0.0).astype(np.float32)
    labels = ["plastic.w", "plastic.c", "b.dopamine"]
    result = be.Network([a, b], [joined], dt=DT).build().run(steps, record=labels, inputs=inputs)
    t = DT * np.arange(steps)
    names = "source first", "target first", "no pair"
    eligible, weights = (
        tuple(Line(result[label][:, k], name, t=t) for k, name in enumerate(names)) for label in labels[:2][::-1]
    )
    return Drawing(
        "reward_stdp: a pair at 0.3 s, a reward at 1.5 s",
        (
            Panel("eligibility", eligible, 1.2),
            Panel("dopamine", (Line(result["b.dopamine"][:, 0], t=t),)),
            Panel("weight", weights, 1.3),
        ),
    )


def grouped(rule: be.Plasticity, ms: float, rate_of: Callable[[Any, Any], Any], weight: float, **neuron: Any) -> Any:
    """Return weights (rows, 2, 20) each 100 ms, of two groups of sources with given rates, and spikes of a target."""
    steps = round(ms / DT)
    rng = np.random.default_rng(1)
    rates = np.repeat(rate_of(DT * np.arange(steps), rng), 20, axis=1)
    spikes = (rng.random(rates.shape) < rates * DT / 1000).astype(np.float32)
    sources = be.models.relay("sources", 40)
    cell = be.models.lif_delta("cell", 1, dt=DT, **neuron)
    joined = be.Projection(sources, cell, be.connect.all_to_all(weight=weight), "syn", DT, "plastic", rule)
    labels = ["cell.spikes", be.every(200, "plastic.w")]
    simulation = be.Network([sources, cell], [joined], dt=DT).build(seed=1)
    result = simulation.run(steps, record=labels, inputs={"sources.spikes": spikes})
    return result["plastic.w"].reshape(-1, 2, 20), result["cell.spikes"].times


def bcm() -> Drawing:
    """Two groups of sources in turn: the target chooses one."""

    def in_turn(t: Any, rng: Any) -> Any:
        first = (t // 200 % 2 == 0)[:, None]
        return np.where(np.hstack([first, ~first]), 40.0, 2.0)

    weights, times = grouped(ready.bcm(eta=0.0015, tau_slow=1500.0, w_max=2.0), 60_000, in_turn, 0.9)
    t = 0.1 * np.arange(len(weights))
    first = times // 200 % 2 == 0
    rates = []
    for name, chosen in (("while group 1 is active", first), ("while group 2 is active", ~first)):
        middle, rate = rates_over(times[chosen], 1, 60_000, 2000)
        rates.append(Line(2 * rate, name, t=middle))
    groups = tuple(Line(weights[:, k].mean(1), f"group {k + 1}", t=t) for k in range(2))
    return Drawing(
        "bcm: of two groups in turn, the target chooses one",
        (Panel("mean weight", groups, 1.3), Panel("rate (Hz)", tuple(rates), 1.3)),
        "time (s)",
    )


def oja() -> Drawing:
    """A group of sources that vary together, and one that does not."""

    def together(t: Any, rng: Any) -> Any:
        common = np.repeat(rng.random(-(-len(t) // 40)) < 0.3, 40)[: len(t)]
        return np.stack([np.where(common, 40.0, 4.0), np.full(len(t), 15.0)], 1)

    linear = {"tau": 1000.0, "threshold": 1.0, "reset": 0.0, "refractory": DT}

    weights, _ = grouped(ready.oja(eta=0.0005), 30_000, together, 0.1, **linear)
    t = 0.1 * np.arange(len(weights))
    names = "sources that vary together", "other sources"
    lines = tuple(Line(weights[:, k].mean(1), name, t=t) for k, name in enumerate(names))
    return Drawing(
        "oja: weights find what varies, and stay bounded",
        (
            Panel("mean weight", lines, 1.5),
            Panel("sum of squares", (Line((weights**2).sum((1, 2)), t=t),)),
        ),
        "time (s)",
    )


def homeostatic_scaling() -> Drawing:
    """The rate after the rate of all sources doubles."""

    def doubled(t: Any, rng: Any) -> Any:
        return np.where(t[:, None] < 20_000, 15.0, 30.0) * np.ones(2)

    rule = ready.homeostatic_scaling(eta=0.02, rate=10.0, tau=2000.0, w_max=4.0)
    weights, times = grouped(rule, 40_000, doubled, 1.0)
    middle, rate = rates_over(times, 1, 40_000, 1000)
    rates = Line(rate, "rate", t=middle), Line(np.full(middle.size, 10.0), "goal", t=middle)
    return Drawing(
        "homeostatic_scaling: at 20 s, rates of sources double",
        (
            Panel("rate (Hz)", rates, 1.4),
            Panel("mean weight", (Line(weights.mean((1, 2)), t=0.1 * np.arange(len(weights))),)),
        ),
        "time (s)",
    )


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        stdp, multiplicative_stdp, nonlinear_stdp, power_law_stdp, triplet_stdp, inhibitory_stdp, clopath, reward_stdp,
        bcm, oja, homeostatic_scaling,
    )
}  # fmt: skip


def draw(folder: Path = FOLDER, names: Sequence[str] = tuple(DRAWINGS)) -> list[Path]:
    """Run each rule once, draw its picture in each theme, and return the paths."""
    paths = []
    for name in names:
        drawn = DRAWINGS[name]()
        for theme_name, theme in THEMES.items():
            paths.append(folder / f"{name}-{theme_name}.svg")
            picture(drawn, theme).savefig(paths[-1])
    return paths


if __name__ == "__main__":
    draw(names=tuple(sys.argv[1:]) or tuple(DRAWINGS))
