# SPDX-License-Identifier: Apache-2.0
"""Whole programs with a loop of `jax.lax.scan`, compiled by XLA and as one native call (`config.fuse_loops`).

    $ python benchmarks/fused_programs.py            # all
    $ python benchmarks/fused_programs.py coba stdp  # some

Each line is a program in both ways, in turns in one process: the shortest times of a step, on the clock and of the
processor, which counts all threads, and their ratios. Where the cost model leaves a loop to XLA, both are the same.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import brainevent as be
from brainevent import config

ROUNDS = 15
random = np.random.default_rng(0)


def connected(rows, columns, number, weight=1.0):
    """Return a matrix with a number of targets for each row; all weights are equal, or each has its own."""
    targets = jnp.asarray(random.integers(0, columns, (rows, number)), jnp.int32)
    return be.FixedNumPerPre((weight, targets), shape=(rows, columns))


def cuba(n, steps):
    """Neurons whose synapses inject currents (Vogels and Abbott 2005), 80 targets each."""
    inhibitory = jnp.arange(n)[:, None] >= n * 4 // 5
    targets = jnp.asarray(random.integers(0, n, (n, 80)), jnp.int32) + n * inhibitory
    synapses = be.FixedNumPerPre((1.0, targets), shape=(n, 2 * n))

    def step(state, _, synapses):
        v, exc, inh, pause, spikes = state
        arrived = be.BinaryArray(spikes) @ synapses
        exc, inh = exc * np.exp(-0.1 / 5) + 1.62 * arrived[:n], inh * np.exp(-0.1 / 10) - 9.0 * arrived[n:]
        v = jnp.where(pause > 0, v, v + (exc + inh - (v + 49)) * (0.1 / 20))
        spikes = v > -50
        return (jnp.where(spikes, -60.0, v), exc, inh, jnp.where(spikes, 50.0, pause) - 1, spikes), spikes

    v = jnp.asarray(random.normal(-55, 5, n), jnp.float32)
    return step, (v, jnp.zeros(n), jnp.zeros(n), jnp.zeros(n), v > -50), steps, synapses


def coba(n, steps):
    """Neurons whose synapses are conductances: the loop of the page "A loop of your own"."""
    inhibitory = jnp.arange(n)[:, None] >= n * 4 // 5
    targets = jnp.asarray(random.integers(0, n, (n, 80)), jnp.int32) + n * inhibitory
    synapses = be.FixedNumPerPre((1.0, targets), shape=(n, 2 * n))

    def step(state, _, synapses):
        v, exc, inh, pause, arrived = state
        exc, inh = exc + 0.6 * arrived[:n], inh + 6.7 * arrived[n:]
        total = 1 + exc + inh
        rest = (-60 + 20 + exc * 0 + inh * -80) / total
        v = jnp.where(pause > 0, v, rest + (v - rest) * jnp.exp(-total * (0.1 / 20)))
        spikes = v > -50
        v, pause = jnp.where(spikes, -60.0, v), jnp.where(spikes, 50.0, pause) - 1
        return (v, exc * np.exp(-0.1 / 5), inh * np.exp(-0.1 / 10), pause, be.BinaryArray(spikes) @ synapses), spikes

    v, exc, inh = (jnp.asarray(m + s * random.normal(size=n), jnp.float32) for m, s in ((-55, 5), (4, 1.5), (20, 12)))
    return step, (v, exc, inh, jnp.zeros(n), jnp.zeros(2 * n)), steps, synapses


def stdp(n, steps):
    """Inhibitory synapses that learn by traces (Vogels 2011), by operators, in place."""
    wired = be.CSR.random((n // 5, n), num_per_row=n // 50, weights=0.1, seed=1)
    wired = wired.with_data(jnp.asarray(random.random(wired.nse), jnp.float32)).precompute_weight_indices()

    def step(state, key, _):
        matrix, v, pre, post = state
        spikes = jax.random.uniform(key, (n // 5,)) < 0.002
        arrived = be.BinaryArray(spikes) @ matrix
        v = v * 0.99 + 0.02 - 0.01 * arrived
        fired = v > 1
        pre, post = pre * 0.995 + spikes, post * 0.995 + fired
        matrix = matrix.update_on_pre(spikes, 1e-3 * (post - 0.1), after=arrived)
        matrix = matrix.update_on_post(1e-3 * pre, fired)
        return (matrix, jnp.where(fired, 0, v), pre, post), fired

    v = jnp.asarray(random.random(n), jnp.float32)
    return step, (wired, v, jnp.zeros(n // 5), jnp.zeros(n)), jax.random.split(jax.random.key(0), steps), None


def delays(n, steps):
    """Spikes that arrive after 1 to 15 steps: the loop of the page on delays."""
    wired = be.CSR.random((n, n), num_per_row=50, weights=0.1, seed=1)
    layout = wired.delay_layout(jnp.asarray(random.integers(1, 16, wired.nse), jnp.int32), 16)

    def step(state, t, layout):
        ring, v = state
        arrived, ring = be.take_arrivals(ring, t)
        v = 0.9 * v + arrived + 0.2
        spikes = v > 1
        return (layout.deliver(ring, be.BinaryArray(spikes), t), jnp.where(spikes, 0, v)), spikes.sum()

    return step, (jnp.zeros((16, n)), jnp.asarray(random.random(n), jnp.float32)), jnp.arange(steps), layout


def poisson(n, steps):
    """Inputs drawn by `jax.random.poisson`, whose loops end when the data say so."""

    def step(v, key, _):
        v = v * 0.9 + jax.random.poisson(key, 3.0, v.shape)
        return v, v > 30

    return step, jnp.zeros(n), jax.random.split(jax.random.key(0), steps), None


def noise(n, steps):
    """Neurons with normal noise."""

    def step(v, key, _):
        v = v * 0.9 + jax.random.normal(key, v.shape)
        return v, v > 2

    return step, jnp.zeros(n), jax.random.split(jax.random.key(0), steps), None


def branch(n, steps):
    """A stimulus in every tenth step, by `lax.cond`."""

    def step(v, t, _):
        v = lax.cond(t % 10 == 0, lambda v: v + 1, lambda v: v, v * 0.9)
        return v, v[0]

    return step, jnp.ones(n), jnp.arange(steps), None


def inner(n, steps):
    """Ten smaller steps in each step, by a loop within the loop."""

    def step(v, _, rate):
        v = lax.fori_loop(0, 10, lambda _, v: v + 0.01 * (1 - v * rate), v)
        return v, v.sum()

    return step, jnp.ones(n), steps, jnp.asarray(random.random(n), jnp.float32)


def indices(n, steps):
    """Reads and sums at arrays of indices."""

    def step(v, _, places):
        v = v * 0.5 + v[places] * 0.25
        return jnp.zeros_like(v).at[places].add(v) * 0.5 + 0.1, v[0]

    return step, jnp.ones(n), steps, jnp.asarray(random.integers(0, n, n), jnp.int32)


def dense(n, steps):
    """Rates with a dense matrix."""

    def step(v, _, weights):
        v = jnp.tanh(v @ weights + 0.1)
        return v, v[0]

    return step, jnp.ones(n), steps, jnp.asarray(random.normal(size=(n, n)) / n**0.5, jnp.float32)


PROGRAMS = {
    cuba: ((4_000, 2_000), (40_000, 300), (400_000, 40)),
    coba: ((4_000, 2_000), (40_000, 300), (400_000, 40)),
    stdp: ((1_000, 1_000), (10_000, 300)),
    delays: ((1_000, 1_000), (10_000, 200)),
    poisson: ((100, 200), (4_000, 32)),
    noise: ((100, 1_000), (4_000, 200)),
    branch: ((100, 1_000), (4_000, 1_000), (100_000, 100)),
    inner: ((100, 1_000), (4_000, 200)),
    indices: ((100, 1_000), (4_000, 500), (100_000, 64)),
    dense: ((32, 1_000), (256, 1_000), (1_024, 100)),
}


def compiled(step, state, rows, constant):
    """Return the program in both ways, its arguments, and the number of steps."""

    def run(state, rows, constant):
        return lax.scan(lambda state, row: step(state, row, constant), state, rows, length=length)

    length = rows if isinstance(rows, int) else None
    arguments = state, None if isinstance(rows, int) else rows, constant
    programs, is_fused = both_ways(run, arguments)
    return programs, arguments, length or len(rows), is_fused


def both_ways(run, arguments):
    """Return a function as a program of XLA's loop and of a native one, and whether there is one."""
    programs = []
    for fuse in (False, True):
        with config.fuse_loops(fuse):
            programs.append(jax.jit(lambda *x: run(*x)).lower(*arguments).compile())
    return programs, be.explain_loops(run, *arguments)[0].is_fused


def shortest(programs, arguments, rounds):
    """Return the shortest times of each: on the clock, and of the processor."""
    best = np.full((2, len(programs)), np.inf)
    for _ in range(rounds):
        for place, program in enumerate(programs):
            begin = time.perf_counter(), time.process_time()
            jax.block_until_ready(program(*arguments))
            taken = time.perf_counter() - begin[0], time.process_time() - begin[1]
            best[:, place] = np.minimum(best[:, place], taken)
    return best


def main(names):
    """Print a line for each program."""
    for make, sizes in PROGRAMS.items():
        for n, steps in sizes if not names or make.__name__ in names else ():
            programs, arguments, length, is_fused = compiled(*make(n, steps))
            wall, processor = shortest(programs, arguments, ROUNDS) / length * 1e6
            print(
                f"{make.__name__:8} {n:7,} {'native' if is_fused else 'XLA':6} clock {wall[0]:9.2f} us, "
                f"{wall[1]:9.2f}: {wall[1] / wall[0]:5.2f}   processor {processor[0]:9.2f}, {processor[1]:9.2f}: "
                f"{processor[1] / processor[0]:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
