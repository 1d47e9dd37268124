# SPDX-License-Identifier: Apache-2.0
"""What a network on a GPU costs before its first step: seconds to compile and to build it, and the memory it takes."""

import gc
import time
from collections.abc import Callable
from typing import Any

from benchmarks.probes.network_described import NETWORKS, populations
from brainevent.network.gpu.cuda_device import default_device


class Watched:
    """A device from now on: the seconds in which its kernels were compiled and loaded, and the bytes that it holds."""

    def __init__(self, device: Any):
        self.compiling, self.held, self.most = 0.0, 0, 0
        self._sizes: dict[int, int] = {}
        kernel, memory, free = device.kernel, device.memory, device.free

        def timed(*what: Any) -> Any:
            begin = time.perf_counter()
            found = kernel(*what)
            self.compiling += time.perf_counter() - begin
            return found

        def taken(nbytes: int, what: str) -> Any:
            found = memory(nbytes, what)
            self._sizes[found.address] = nbytes
            self.held += nbytes
            self.most = max(self.most, self.held)
            return found

        def given_back(address: int) -> None:
            self.held -= self._sizes.pop(address, 0)
            free(address)

        device.kernel, device.memory, device.free = timed, taken, given_back


def measure(model: str, n: int) -> dict[str, Any]:
    """Build a network twice from one description, in a new process.

    `compiling` are the seconds of all that is compiled up to the first step, with its spikes recorded, or of finding it
    where it is kept. `building` are those of each build: the second one compiles nothing. `held` are bytes on the
    device after it, and `most` while it was built.
    """
    device = default_device()
    watched = Watched(device)
    network = NETWORKS[model](n)
    building = []
    for seed in (1, 2):
        simulation = None
        gc.collect()  # its memory is free before the next one is built
        watched.most = watched.held
        seconds, simulation = _timed(lambda seed=seed: _built(network, seed, device))  # type: ignore[misc]
        building.append(seconds)
        held, most = watched.held, watched.most
        simulation.run(1, record=[f"{name}.spikes" for name in populations(model)])
    synapses = sum(projection.entries for projection in simulation.plan.projections)
    found = {"compiling": watched.compiling, "building": building, "synapses": synapses}
    return found | {"held": held, "most": most}


def _built(network: Any, seed: int, device: Any) -> Any:
    simulation = network.build(seed=seed, backend="cuda")
    device.wait()
    return simulation


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    found = call()
    return time.perf_counter() - begin, found
