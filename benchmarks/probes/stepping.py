# SPDX-License-Identifier: Apache-2.0
"""Time one step of an example: alone, and as one of several in a program."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks.probes.rounds import time_calls

# (state, *operands) -> state
Advance = Callable[..., Any]


def example_timers(
    name: str,
    advance: Advance,
    arrays: Sequence[Any],
    expected: Callable[[int], Sequence[np.ndarray]],
    steps: int,
    calls: int,
) -> dict[str, Callable[[], float]]:
    """Timers of one jitted step from Python, and of one in a jitted chain, where steps are kept apart by barriers.

    `expected(steps)` is the state after so many.
    """

    def chain(state: Any, *operands: Any) -> Any:
        for _ in range(steps):
            state = jax.lax.optimization_barrier(advance(state, *operands))
        return state

    programs = {"call": (jax.jit(advance), 1), "chain": (jax.jit(chain), steps)}
    return {
        f"{name}_{place}": _timer(program, arrays, expected(number), number, calls)
        for place, (program, number) in programs.items()
    }


def _timer(
    program: Advance, arrays: Sequence[Any], expected: Sequence[np.ndarray], steps: int, calls: int
) -> Callable[[], float]:
    for _ in range(3):  # A graph is recorded in one of the first runs.
        results = jax.block_until_ready(program(*arrays))
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, right)
    return time_calls(lambda: jax.block_until_ready(program(*arrays)), repeats=max(1, calls // steps), calls=steps)
