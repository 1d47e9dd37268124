# SPDX-License-Identifier: Apache-2.0
"""Seconds until a step of training of a new process can run: what JAX traces, lowers and compiles for one network."""

import gc
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks.probes.progress import tell
from benchmarks.probes.training import Weights, backend_loss, by_hand, samples, weights_of


def measure(hidden: int, batch: int, steps: int, way: str, clock: str, again: dict[str, int]) -> dict[str, float]:
    """Return seconds by phase, of the processor or of the wall; `way` is a backend, or "hand" for a loop by hand.

    Phases that end with "again" are those of a second program of the process, of the sizes that `again` says. What was
    imported is not searched for garbage in any phase: when Python does so depends on how much was imported before.
    """
    now: Callable[[], float] = time.process_time if clock == "process" else time.perf_counter
    random = np.random.default_rng(0)
    weights = weights_of(random, hidden)
    data = jax.block_until_ready(jax.device_put(samples(random, batch, steps)))  # JAX is ready
    found = {}
    begin = now()
    if way != "hand":
        import brainevent  # noqa: F401

        found["import"] = now() - begin
    begin = now()
    loss = _loss(way, weights, steps)
    found["build"] = now() - begin
    gc.collect()
    gc.freeze()
    found |= _phases(loss, weights, data, now)
    sizes = {"hidden": hidden, "batch": batch, "steps": steps} | again
    weights = weights_of(random, sizes["hidden"])
    data = jax.block_until_ready(jax.device_put(samples(random, sizes["batch"], sizes["steps"])))
    second = _phases(_loss(way, weights, sizes["steps"]), weights, data, now)
    return found | {f"{name} again": seconds for name, seconds in second.items()}


def _loss(way: str, weights: Weights, steps: int) -> Callable[..., Any]:
    return by_hand(4) if way == "hand" else backend_loss(weights, steps, way)


def _phases(loss: Callable[..., Any], weights: Weights, data: Any, now: Callable[[], float]) -> dict[str, float]:
    tell("trace")
    times = [now()]
    traced = jax.jit(jax.value_and_grad(loss)).trace(weights, *data)
    times.append(now())
    lowered = traced.lower()
    times.append(now())
    compiled = lowered.compile()
    times.append(now())
    jax.block_until_ready(compiled(weights, *data))
    times.append(now())
    return dict(zip(("trace", "lower", "compile", "run"), np.diff(times).tolist(), strict=True))
