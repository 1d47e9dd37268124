# SPDX-License-Identifier: Apache-2.0
"""Time one call on a GPU, in a jitted chain and in a jitted loop over 1024 floats."""

from collections.abc import Callable

import jax
import numpy as np

from benchmarks.probes.contenders import Contender
from benchmarks.probes.gpu_contenders import WAYS, operands
from benchmarks.probes.rounds import time_calls
from benchmarks.probes.ways import Answer, Field

_SIZE = 1024
_CALLS = 5_000  # of a sample in a chain


def measure(ways: dict[str, int], chain: int, rounds: int) -> Answer:
    """Seconds per call, for each way as `NAME_chain` and `NAME_loop`; `ways` says how often each loop goes round."""

    def timers(name: str, call: Contender) -> dict[str, Callable[[], float]]:
        loop = ways[name]
        repeats = max(1, min(_CALLS, loop) // chain)
        return {
            f"{name}_chain": _timer(chained(call, chain), chain, repeats),
            f"{name}_loop": _timer(_looped(call, loop), loop, 1),
        }

    return Field.of(WAYS, ways, timers).measure(rounds)


def chained(contender: Contender, calls: int) -> Contender:
    """The jitted program of so many calls in a row."""

    def chain(a: jax.Array, b: jax.Array) -> jax.Array:
        for _ in range(calls):
            a = contender(a, b)
        return a

    return jax.jit(chain)


def _looped(contender: Contender, calls: int) -> Contender:
    return jax.jit(lambda a, b: jax.lax.fori_loop(0, calls, lambda _, total: contender(total, b), a))


def _timer(program: Contender, calls: int, repeats: int) -> Callable[[], float]:
    a, b = operands(_SIZE)
    for _ in range(3):  # A graph is recorded in one of the first runs.
        np.testing.assert_array_equal(program(a, b), np.asarray(a) + calls * np.asarray(b))
    return time_calls(lambda: program(a, b).block_until_ready(), repeats=repeats, calls=calls)
