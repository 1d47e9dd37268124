# SPDX-License-Identifier: Apache-2.0
"""Build and run a network, say how it went, and draw a part of its spikes."""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import brainevent as be

SHOWN, MOST = 300.0, 200  # ms and neurons in a picture: readable


def together(network: be.Network, result: Any, share: float = 1.0) -> tuple[be.Spikes, dict[str, slice]]:
    """Return the spikes of a share of each population, and the neurons of each, numbered one after the other."""
    steps, neurons, groups, first = [], [], {}, 0
    for population in network.populations:
        count = max(1, round(share * population.size))
        part = result[f"{population.name}.spikes"].of(slice(0, count))
        steps.append(np.rint(part.times / network.dt).astype(int))
        neurons.append(part.neurons + first)
        groups[population.name] = slice(first, first + count)
        first += count
    spikes = be.Spikes.from_events(
        np.concatenate(steps), np.concatenate(neurons), first, network.dt, first=result.first, n_steps=result.steps
    )
    return spikes, groups


def draw(network: be.Network, result: Any, title: str, figure: Any = None, theme: str = "light") -> Any:
    """Draw spikes of 200 neurons in the last 300 ms, above the rates of all neurons; return the figure."""
    figure = figure or Figure(figsize=(7.4, 5.4), layout="constrained")
    marks, lines = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    end = (result.first + result.steps) * network.dt
    total = sum(population.size for population in network.populations)
    some, some_groups = together(network, result, min(1, MOST / total))
    everyone, groups = together(network, result)
    some.between(end - SHOWN, end).raster(ax=marks, groups=some_groups, theme=theme)
    everyone.between(end - SHOWN, end).plot_rate(bin=2, ax=lines, groups=groups, theme=theme)
    marks.set(xlabel="", title=title)
    return figure


def show(
    name: str, network: be.Network, milliseconds: float = 1000, seed: int = 0, picture: Path | None = None
) -> dict[str, float]:
    """Build and run a network, print what came of it, and return the rate of each population in Hz."""
    start = time.perf_counter()
    simulation = network.build(seed=seed)
    built = time.perf_counter()
    result = simulation.run(
        round(milliseconds / network.dt), record=[f"{population.name}.spikes" for population in network.populations]
    )
    ended = time.perf_counter()
    spikes = {population.name: result[f"{population.name}.spikes"] for population in network.populations}
    rates = {population: float(found.rates().mean()) for population, found in spikes.items()}
    sizes = [population.size for population in network.populations]
    mean = np.average(list(rates.values()), weights=sizes)
    each = ", ".join(f"{population} {rate:.1f}" for population, rate in rates.items())
    print(f"  network           {name}: {sum(sizes)} neurons, {milliseconds:g} ms")
    print(f"  rate              {mean:.1f} Hz ({each})")
    print(f"  time              {built - start:.2f} s to build, {ended - built:.2f} s to run: ", end="")
    print(f"real-time factor {(ended - built) * 1e3 / milliseconds:.3f}")
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        draw(network, result, title=f"{name}: {min(MOST, sum(sizes))} of {sum(sizes)} neurons").savefig(picture)
        print(f"  picture           {picture}")
    return rates


def main(name: str, network: Callable[..., be.Network], **options: float | Sequence[str]) -> None:
    """Take what to run from the command line; each of the `options` of `network` is a number or a list of choices."""
    parser = argparse.ArgumentParser(description=f"Run the network {name}, and draw its spikes")
    parser.add_argument("--ms", type=float, default=1000, help="how many milliseconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="a file to draw: SVG, PNG or PDF")
    for option, values in options.items():
        if isinstance(values, (int, float)):
            parser.add_argument(f"--{option}", type=type(values), default=values)
        else:
            parser.add_argument(f"--{option}", choices=values, default=values[0])
    given = parser.parse_args()
    described = network(**{option: getattr(given, option) for option in options})
    show(name, described, given.ms, given.seed, given.picture)
