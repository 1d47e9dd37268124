# SPDX-License-Identifier: Apache-2.0
"""Deliveries of spikes through synapses with a delay each, in a compiled loop, beside a loop in C++: seconds a step."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.cpp import build_once
from benchmarks.probes.progress import tell

_SOURCE = Path(__file__).with_name("delays.cc")
_COMMAND = ["g++", "-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", str(_SOURCE), "-o"]


def measure(
    neurons: int, rows: int, synapses: int, active: int, slots: int, steps: int, rounds: int, cpp: bool
) -> dict[str, list[float]]:
    """Samples of each way: the loop alone, without a ring, with deliveries of a matrix, of a layout, and C++.

    A step takes what arrives, adds it to what decays, and delivers.

    Neurons of the first `rows` rows have synapses, and spike.
    """
    import brainevent

    random = np.random.default_rng(1)
    indices = np.sort(random.integers(0, neurons, (rows, synapses), np.int32), 1).reshape(-1)
    indptr = np.minimum(np.arange(neurons + 1), rows).astype(np.int32) * synapses
    delays = np.clip(np.round(random.normal(15, 7.5, indices.size)), 1, slots - 1).astype(np.int32)
    weights = random.normal(size=indices.size).astype(np.float32)
    trains = np.zeros((steps, neurons), bool)
    for train in trains:
        train[random.choice(rows, active, replace=False)] = True
    tell("layout")
    matrix = brainevent.CSR(jnp.asarray(weights), jnp.asarray(indices), jnp.asarray(indptr), shape=(neurons, neurons))
    layout, steps_of = matrix.delay_layout(delays, slots), jnp.asarray(delays)
    spikes = jnp.asarray(trains)
    ways: dict[str, Callable[[Any, Any, Any], Any]] = {
        "the loop alone": lambda ring, x, t: (x, ring),
        "delay_deliver": _stepping(lambda ring, x, t: matrix.delay_deliver(ring, x, steps_of, t)),
        "delay_layout, deliver": _stepping(lambda ring, x, t: layout.deliver(ring, x, t)),
    }
    loops = {name: _compiled(way, spikes) for name, way in ways.items()}
    runs: dict[str, Callable[[], Any]] = {name: _timed(loop, slots, neurons) for name, loop in loops.items()}
    if cpp:
        given = (weights, indices, indptr, delays, trains)
        runs["C++ by hand"] = _by_hand(slots, neurons, *given)
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):  # the first is left out; in turns: a machine is not as fast all the time
        sums = {}
        for name, run in runs.items():
            seconds, v = run()
            samples[name].append(seconds / steps)
            sums[name] = float(np.asarray(v, np.float64).sum())
        wanted = sums["delay_deliver"]
        assert all(abs(sums[name] - wanted) <= 1e-3 * abs(wanted) + 1 for name in sums if name != "the loop alone"), (
            sums
        )
    return {name: found[1:] for name, found in samples.items()}


def _stepping(deliver: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    import brainevent

    def way(ring: Any, x: Any, t: Any) -> Any:
        arrived, ring = brainevent.take_arrivals(ring, t)
        return arrived, deliver(ring, x, t)

    return way


def _compiled(way: Callable[[Any, Any, Any], Any], spikes: Any) -> Any:
    def step(carry: Any, now: Any) -> Any:
        (ring, v), (t, x) = carry, now
        arrived, ring = way(ring, x, t)
        return (ring, 0.9 * v + arrived), None

    loop = lambda carry: jax.lax.scan(step, carry, (jnp.arange(spikes.shape[0]), spikes))[0]
    return jax.jit(loop, donate_argnums=0)


def _timed(loop: Any, slots: int, columns: int) -> Callable[[], tuple[float, Any]]:
    def run() -> tuple[float, Any]:
        carry = jax.block_until_ready((jnp.zeros((slots, columns)), jnp.zeros(columns)))
        begin = time.perf_counter()
        _, v = jax.block_until_ready(loop(carry))
        return time.perf_counter() - begin, v

    return run


def _by_hand(slots: int, columns: int, *given: np.ndarray) -> Callable[[], tuple[float, Any]]:
    library = ctypes.CDLL(str(build_once(_SOURCE, lambda path: [*_COMMAND, str(path)])))
    steps, rows = given[-1].shape

    def run() -> tuple[float, Any]:
        ring, v = np.zeros((slots, columns), np.float32), np.zeros(columns, np.float32)
        first, second, *arrays = (ctypes.c_void_p(array.ctypes.data) for array in (ring, v, *given))
        begin = time.perf_counter()
        library.run_steps(first, second, slots, columns, *arrays, rows, steps)
        return time.perf_counter() - begin, v

    return run
