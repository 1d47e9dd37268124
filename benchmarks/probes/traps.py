# SPDX-License-Identifier: Apache-2.0
"""Measure what a plain loop cannot: a kernel that does nothing, and a function that XLA hoists or drops."""

import statistics
from collections.abc import Callable

import jax
import jax.numpy as jnp

from benchmarks.probes.agreement import Samples, take_turns, time_chain
from benchmarks.probes.rounds import time_calls
from benchmarks.probes.spin import make_nothing

_EMPTY_CALLS = {"cpp": 5_000, "cuda": 1_000}
_CALLS = 10
_QUEUED = 30
_NAIVE_RUNS = 7
_SIZES = {"cpp": 100_000, "cuda": 1 << 25}
Timer = Callable[[], float]


def measure(language: str, rounds: int) -> Samples:
    """Seconds per call: chained, in plain loops, and one by one."""
    nothing, x = make_nothing(language), jnp.ones(1, jnp.uint32)
    array, single = jnp.linspace(0.0, 1.0, _SIZES[language]), jax.jit(_sines)
    empty_calls = _EMPTY_CALLS[language]
    loops = {
        "naive nothing": _loop_timer(lambda _, total, x: nothing(x), x, x, empty_calls),
        # No turn needs the one before, so one is enough.
        "hoisted": _loop_timer(lambda _, total, array: _sines(array), array, array, _CALLS),
        # Every turn differs, but only one element of each is kept.
        "dropped": _loop_timer(lambda i, total, array: total + _sines(array + i)[0], jnp.float32(0), array, _CALLS),
    }

    def take_nothing() -> dict[str, float]:
        return {f"{what} nothing": seconds for what, seconds in time_chain(nothing, (x,), empty_calls).items()}

    def take_function() -> dict[str, float]:
        return {f"{what} function": seconds for what, seconds in time_chain(_sines, (array,), _CALLS).items()}

    takes = {"nothing": take_nothing, "function": take_function}
    takes["single"] = lambda: {"single function": _one_after_another(single, array)}
    takes["loops"] = lambda: {name: timer() for name, timer in loops.items()}
    return take_turns(takes, rounds)


def _one_after_another(call: Callable[[jax.Array], jax.Array], array: jax.Array) -> float:
    """Seconds of a call among many from Python, of which only the last is waited for."""
    call(array).block_until_ready()
    return time_calls(lambda: [call(array) for _ in range(_QUEUED)][-1].block_until_ready(), calls=_QUEUED)()


def _sines(array: jax.Array) -> jax.Array:
    """Much work for each element alone: (n,) -> (n,)."""
    for _ in range(30):
        array = jnp.sin(array)
    return array


def _loop_timer(turn: Callable[..., jax.Array], start: jax.Array, operand: jax.Array, calls: int) -> Timer:
    """Time a plain loop as one would at first sight: seconds per turn, the median of some runs."""

    @jax.jit
    def loop(start: jax.Array, operand: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, calls, lambda i, total: turn(i, total, operand), start)

    loop(start, operand).block_until_ready()
    timer = time_calls(lambda: loop(start, operand).block_until_ready(), calls=calls)
    return lambda: statistics.median(timer() for _ in range(_NAIVE_RUNS))
