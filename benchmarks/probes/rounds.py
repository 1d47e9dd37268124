# SPDX-License-Identifier: Apache-2.0
"""Time contenders in turns, so that a slow moment of the machine hits all of them."""

import gc
import time
from collections.abc import Callable, Mapping


def interleave(timers: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Call every timer once a round, A B C then C B A: name -> one sample a round."""
    samples: dict[str, list[float]] = {name: [] for name in timers}
    names = list(timers)
    gc.collect()
    for index in range(rounds):
        for name in names if index % 2 == 0 else reversed(names):
            samples[name].append(timers[name]())
    return samples


def time_calls(call: Callable[[], object], repeats: int = 1, calls: int = 1) -> Callable[[], float]:
    """A timer of `repeats` runs of `call`, in seconds per call when one run holds `calls` of them."""

    def timer() -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - start) / (repeats * calls)

    return timer
