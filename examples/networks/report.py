# SPDX-License-Identifier: Apache-2.0
"""Run a network, and say how it went: its rate, its speed, its kernels and a picture."""

import argparse
import re
import time
from pathlib import Path

import jax

import brainevent
from examples.networks.network import DT, Network, groups


def show(network: Network, n: int = 4000, steps: int = 10_000, seed: int = 0, picture: Path | None = None) -> None:
    """Run n neurons twice, since the first time compiles, and print what came of it."""
    state, synapses = network.prepare(n, seed)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        _, spikes = jax.block_until_ready(brainevent.record(network.step, state, steps, synapses, dt=DT))
        seconds.append(time.perf_counter() - start)
    kinds = ", ".join(f"{name} {spikes.of(part).rates().mean():.1f}" for name, part in groups(n).items())
    print(f"  network           {network.name}: {n} neurons, {synapses.nse} synapses, {spikes.duration:g} ms of life")
    print(f"  rate              {spikes.rates().mean():.1f} Hz ({kinds})")
    print(f"  real-time factor  {seconds[1] * 1e3 / spikes.duration:.3f}: it took {seconds[1]:.3f} s", end="")
    print(f", and {seconds[0] - seconds[1]:.1f} s to compile")
    (device,) = spikes.bits.devices()
    ran = ", ".join(kernels(network, state, synapses, device.platform))
    print(f"  kernels           {ran}; on {device.device_kind}")
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        title = f"{network.name.upper()} with {n} neurons"
        spikes.raster(groups=groups(n), title=title).savefig(picture)
        print(f"  picture           {picture}")


def kernels(network: Network, state, synapses, platform: str) -> list[str]:
    """Return each operator of a step, with the kernel that it is compiled to on a platform."""
    program = jax.jit(network.step).lower(state, 0, synapses).as_text()
    operators = re.findall(r'be\.operator = "(\w+)"', program)
    return [f"{name} ({_backend(brainevent.get_registry()[name], platform)})" for name in operators]


def _backend(operator: brainevent.XLACustomKernel, platform: str) -> str:
    """Return the backend of an operator on a platform: the one that is set for all, if it has it, or its own."""
    chosen = brainevent.config.get_backend(platform)
    return chosen if chosen in operator.available_backends(platform) else operator.get_default(platform)


def main(network: Network) -> None:
    """Take what to run from the command line."""
    parser = argparse.ArgumentParser(description=f"Run the network {network.name}, and draw its spikes")
    parser.add_argument("-n", type=int, default=4000, help="how many neurons")
    parser.add_argument("--ms", type=float, default=1000, help="how many milliseconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="a file to draw: SVG, PNG or PDF")
    given = parser.parse_args()
    show(network, given.n, round(given.ms / DT), given.seed, given.picture)
