# SPDX-License-Identifier: Apache-2.0
"""A sweep of a network over seeds, beside runs one after another: seconds of each."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import brainevent as be
from benchmarks.probes.network import limit_processors
from benchmarks.probes.network_described import ours, populations
from benchmarks.probes.rounds import interleave

_FIRST = 100  # steps before the clock starts


def measure(
    model: str, n: int, elements: int, steps: int, rounds: int, threads: int | None = None, whole: bool = True
) -> dict[str, list[float]]:
    """Time `alone`, all elements one after another; `sweep`, the same by `sim.sweep`; and `vmap`, by `be.simulate`.

    Without `whole`, one run stands for all of `alone`, so many times as long, and `vmap` is left out.
    """
    limit_processors(threads)
    sim = ours(model, n, 1, 0)
    record = [f"{name}.counts" for name in populations(model)]
    expected = sim.run(steps, record)
    swept = sim.sweep(_FIRST, record, seeds=range(elements), redraw=False)
    assert len(swept) == elements
    timers: dict[str, Callable[[], float]] = {
        "alone": lambda: _alone(sim, record, steps, elements if whole else 1) * (1 if whole else elements),
        "sweep": lambda: _sweep(sim, record, steps, elements, expected),
    }
    if whole:
        timers["vmap"] = _vmapped(sim, record, steps, elements)
    return interleave(timers, rounds)


def _alone(sim: Any, record: list[str], steps: int, elements: int) -> float:
    begin = time.perf_counter()
    for _ in range(elements):
        sim.reset()
        sim.run(steps, record)
    return time.perf_counter() - begin


def _sweep(sim: Any, record: list[str], steps: int, elements: int, expected: Any) -> float:
    begin = time.perf_counter()
    swept = sim.sweep(steps, record, seeds=range(elements), redraw=False)
    seconds = time.perf_counter() - begin
    for label in record:
        np.testing.assert_array_equal(swept[0][label], expected[label])
    return seconds


def _vmapped(sim: Any, record: list[str], steps: int, elements: int) -> Callable[[], float]:
    sim.reset()
    state = jax.tree.map(lambda x: np.stack([x] * elements), sim.state)
    run = jax.jit(jax.vmap(lambda state: be.simulate(sim, state, {}, steps, record=record)[1]))
    jax.block_until_ready(run(state))

    def timer() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(run(state))
        return time.perf_counter() - begin

    return timer
