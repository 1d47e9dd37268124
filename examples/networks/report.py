# SPDX-License-Identifier: Apache-2.0
"""Build and run a network, print its rates and speed, and draw a part of its spikes."""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import brainevent as be

SHOWN, MOST = 300.0, 200  # ms and neurons in a picture: readable
MOST_COLOURS = 6  # of more populations, excitatory ones, whose names end with E, have one colour


def together(network: be.Network, result: Any) -> tuple[be.Spikes, dict[str, Any]]:
    """Return the spikes of all populations, and the neurons of each group, as `Spikes.stack` does."""
    spikes, groups = be.Spikes.stack({p.name: result[f"{p.name}.spikes"] for p in network.populations})
    if len(groups) > MOST_COLOURS:
        groups = {kind: np.concatenate([groups[name] for name in groups if name[-1] == kind]) for kind in "EI"}
    return spikes, groups


def draw(network: be.Network, result: Any, title: str, figure: Any = None, theme: str = "light") -> Any:
    """Draw spikes of 200 neurons in the last 300 ms, above the rates of all neurons; return the figure."""
    spikes, groups = together(network, result)
    end = (result.first + result.steps) * network.dt
    last = spikes.between(end - SHOWN, end)
    return last.plot(figure, groups=groups, sample=MOST, bin=5, theme=theme, title=title)


def show(
    name: str, network: be.Network, milliseconds: float = 1000, seed: int = 0, picture: Path | None = None
) -> dict[str, float]:
    """Build and run a network, print its rates and speed, and return the rate of each population in Hz."""
    start = time.perf_counter()
    simulation = network.build(seed=seed)
    record = [f"{population.name}.spikes" for population in network.populations]
    first = simulation.run(1, record=record)
    began = time.perf_counter()
    result = first + simulation.run(round(milliseconds / network.dt) - 1, record=record)
    seconds = time.perf_counter() - began
    rates = {p.name: float(result[f"{p.name}.spikes"].rates().mean()) for p in network.populations}
    sizes = [population.size for population in network.populations]
    mean = np.average(list(rates.values()), weights=sizes)
    each = ", ".join(f"{population} {rate:.1f}" for population, rate in rates.items())
    print(f"  network           {name}: {sum(sizes)} neurons, {milliseconds:g} ms of biological time")
    print(f"  rate              {mean:.1f} Hz ({each})")
    print(f"  real-time factor  {seconds * 1e3 / milliseconds:.3f}: it took {seconds:.3f} s", end="")
    print(f", and {began - start:.1f} s to build and compile")
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        draw(network, result, title=f"{name}: {min(MOST, sum(sizes))} of {sum(sizes)} neurons").savefig(picture)
        print(f"  picture           {picture}")
    return rates


def above_zero(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a function that reads a number, such as an int, from the command line, and refuses those not above 0."""

    def read(text: str) -> Any:
        number = kind(text)
        if not 0 < number < float("inf"):
            raise ValueError
        return number

    read.__name__ = f"{kind.__name__} above 0"  # argparse says: invalid float above 0 value: '-1'
    return read


def main(name: str, network: Callable[..., be.Network], **options: float | Sequence[str]) -> None:
    """Run a network with options from the command line; each is a number, or one of a list of choices."""
    parser = argparse.ArgumentParser(description=f"Run the network {name}, and draw its spikes")
    parser.add_argument("--ms", type=above_zero(float), default=1000, help="how many milliseconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="a file to draw: SVG, PNG or PDF")
    for option, values in options.items():
        if isinstance(values, (int, float)):
            parser.add_argument(f"--{option}", type=above_zero(type(values)), default=values)
        else:
            parser.add_argument(f"--{option}", choices=values, default=values[0])
    given = parser.parse_args()
    described = network(**{option: getattr(given, option) for option in options})
    show(name, described, given.ms, given.seed, given.picture)
