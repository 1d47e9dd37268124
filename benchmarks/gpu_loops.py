# SPDX-License-Identifier: Apache-2.0
"""Loops of `jax.lax.scan` on a GPU: XLA's, the same as one kernel (`config.fuse_loops`), and the engine of networks.

    $ python benchmarks/gpu_loops.py            # all
    $ python benchmarks/gpu_loops.py cuba noise # some

Each line is the shortest time of a step in microseconds, of runs in turns in one process, the median of three such
times, and how long the first call of the loop as one kernel takes. Spikes of both loops are counted as well.
"""

import statistics
import sys
import time

import jax
import numpy as np
from fused_programs import PROGRAMS, coba, compiled, cuba, noise, stdp
from jax import numpy as jnp

from examples.networks import coba as coba_network
from examples.networks import cuba as cuba_network

SIZES = {4_000: 10_000, 40_000: 4_000, 400_000: 1_000}
CHOSEN = {cuba: SIZES, coba: SIZES, noise: SIZES, stdp: {1_000: 4_000, 10_000: 2_000}}
ENGINES = {cuba: cuba_network, coba: coba_network}
ATTEMPTS, ROUNDS = 3, 5


def times(run, steps):
    """Return the shortest time of a step in microseconds, for each attempt."""
    found = []
    for _ in range(ATTEMPTS):
        best = np.inf
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            jax.block_until_ready(run())
            best = min(best, time.perf_counter() - begin)
        found.append(best / steps * 1e6)
    return found


def measured(program, n, steps):
    """Print the times of one program."""
    begin = time.perf_counter()
    programs, arguments, steps, is_fused = compiled(*program(n, steps))
    seconds = time.perf_counter() - begin
    spikes = [float(jnp.sum(each(*arguments)[1])) for each in programs]
    xla, own = (times(lambda each=each: each(*arguments), steps) for each in programs)
    said = "" if is_fused else " (left to XLA)"
    columns = [statistics.median(xla), statistics.median(own)]
    line = f"{program.__name__:6} {n:7} XLA {columns[0]:7.2f} us, one kernel {columns[1]:7.2f} us{said}"
    line += (
        f", relative {columns[1] / columns[0]:.2f}, spikes {spikes[0]:.0f} {spikes[1]:.0f}, compiled in {seconds:.1f} s"
    )
    if program in ENGINES:
        network = ENGINES[program].network(n=n)
        names = [f"{population.name}.spikes" for population in network.populations]
        simulation = network.build(seed=1)
        simulation.run(steps, record=names)
        engine = times(lambda: simulation.run(steps, record=names), steps)
        line += f", engine {statistics.median(engine):.2f} us"
    print(line, flush=True)


if __name__ == "__main__":
    print(jax.devices()[0].device_kind, jax.__version__)
    wanted = sys.argv[1:] or [program.__name__ for program in CHOSEN]
    assert {program.__name__ for program in PROGRAMS} >= set(wanted), f"there are {[p.__name__ for p in CHOSEN]}"
    for program, sizes in CHOSEN.items():
        if program.__name__ in wanted:
            for n, steps in sizes.items():
                measured(program, n, steps)
