# SPDX-License-Identifier: Apache-2.0
"""Time one call from Python, eager and jitted, until its result is there."""

from collections.abc import Callable

import jax
import numpy as np

from benchmarks.probes.contenders import (
    Contender,
    example,
    make_cpp,
    make_jax_add,
    make_numba_kernel,
    make_operator,
)
from benchmarks.probes.rounds import interleave, time_calls

_MAKERS: dict[str, Callable[[], Contender]] = {
    "jax": make_jax_add,
    "cpp": make_cpp,
    "numba_kernel": make_numba_kernel,
    "operator": make_operator,
}


def measure(contenders: list[str], eager_calls: int, jitted_calls: int, rounds: int) -> dict[str, list[float]]:
    """Seconds per call, for each contender as `eager_NAME` and `jitted_NAME`."""
    made = {name: _MAKERS[name]() for name in contenders}
    timers = {f"eager_{name}": _timer(call, eager_calls) for name, call in made.items()}
    timers |= {f"jitted_{name}": _timer(jax.jit(call), jitted_calls) for name, call in made.items()}
    return interleave(timers, rounds)


def _timer(call: Contender, calls: int) -> Callable[[], float]:
    a, b = example()
    np.testing.assert_array_equal(call(a, b), np.asarray(a) + np.asarray(b))
    return time_calls(lambda: call(a, b).block_until_ready(), repeats=calls)
