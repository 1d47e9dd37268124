# SPDX-License-Identifier: Apache-2.0
"""Kernels of known length: one that turns as often as its operand says, and one that does nothing."""

import ctypes
import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.contenders import Contender, like
from benchmarks.probes.cpp import FOLDER
from benchmarks.probes.spin_sources import CPP_SPIN, CUDA_EVENTS, CUDA_SPIN

_TRIED = 1_000_000  # turns, to find how long one takes
# (runs, calls of a run) -> seconds per call, in the middle of the runs
Clock = Callable[[int, int], float]


@dataclass(frozen=True)
class Spin:
    """The jitted call of an operator, `call(x, turns)`, and how long one of its turns takes."""

    language: str
    call: Contender
    seconds_per_turn: float

    @classmethod
    def of(cls, language: str) -> "Spin":
        """Make it in "numba", "cpp" or "cuda", check what it computes, and time its turns."""
        operator = _make_operator(language)
        call = jax.jit(lambda x, turns: operator(x, turns, outs=[like(x)])[0])
        np.testing.assert_array_equal(call(*_operands(1000)), _turned(1, 1000))
        return cls(language, call, min(_time(call, *_operands(_TRIED)) for _ in range(5)) / _TRIED)

    def operands(self, seconds: float) -> tuple[jax.Array, jax.Array]:
        """What to call it with, so that it takes this long."""
        return _operands(round(seconds / self.seconds_per_turn))


def make_nothing(language: str) -> Callable[[jax.Array], jax.Array]:
    """A kernel that does nothing, in "cpp" or "cuda"."""
    nothing = _load(language).nothing
    return lambda x: nothing(x, outs=like(x))


def make_clock(language: str, operands: tuple[jax.Array, jax.Array]) -> Clock:
    """A clock that is not ours: of the kernel's latest calls, from inside; or on a GPU, of launches between events."""
    return _cpp_clock() if language == "cpp" else _event_clock(operands)


def _cpp_clock() -> Clock:
    library = ctypes.CDLL(_load("cpp").path)
    kept, calls = (ctypes.c_long.in_dll(library, name) for name in ("kept", "calls"))
    seconds = np.ctypeslib.as_array((ctypes.c_double * kept.value).in_dll(library, "seconds"))

    def clock(runs: int, calls_each: int) -> float:
        latest = np.arange(calls.value - runs * calls_each, calls.value) % kept.value
        return float(np.median(seconds[latest].reshape(runs, calls_each).mean(axis=1)))

    return clock


def _event_clock(operands: tuple[jax.Array, jax.Array]) -> Clock:
    module = _load("events")
    seconds = ctypes.c_double.in_dll(ctypes.CDLL(module.path), "seconds_per_launch")
    timed_spin: Any = module.timed_spin

    @functools.partial(jax.jit, static_argnames="launches")
    def call(x: jax.Array, turns: jax.Array, launches: int) -> jax.Array:
        return timed_spin(x, turns, outs=like(x), launches=launches)

    def run(launches: int) -> float:
        call(*operands, launches=launches).block_until_ready()
        return seconds.value

    def clock(runs: int, calls_each: int) -> float:
        run(calls_each)
        return statistics.median(run(calls_each) for _ in range(runs))

    return clock


def _make_operator(language: str) -> Any:
    import brainevent

    operator = brainevent.XLACustomKernel(f"bench_spin_{language}")
    if language == "numba":
        kernel = _numba_spin()
        operator.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(kernel, outs=outs))
        return operator
    spin = _load(language).spin
    define = operator.def_cpp_kernel if language == "cpp" else operator.def_cuda_raw_kernel
    define(lambda *, outs: lambda x, turns: spin(x, turns, outs=outs))
    return operator


@functools.cache
def _load(part: str) -> Any:
    """The module of "cpp", "cuda" or "events", built on the first use."""
    import brainevent

    brainevent.set_cache_dir(FOLDER / "cache")
    if part == "cpp":
        return brainevent.load_cpp_inline("bench_spin_cpp", CPP_SPIN)
    source, in_graphs = (CUDA_SPIN, True) if part == "cuda" else (CUDA_EVENTS, False)
    return brainevent.load_cuda_inline(f"bench_spin_{part}", source, allow_cuda_graph=in_graphs)


def _numba_spin() -> Any:
    import numba

    @numba.njit
    def spin(x: Any, turns: Any, out: Any) -> None:
        value = x[0]
        for _ in range(turns[0]):
            value = np.uint32(value ^ (value << np.uint32(13)))
            value = np.uint32(value ^ (value >> np.uint32(17)))
            value = np.uint32(value ^ (value << np.uint32(5)))
        out[0] = value

    return spin


def _turned(value: int, turns: int) -> int:
    """What a kernel must compute."""
    for _ in range(turns):
        value ^= (value << 13) & 0xFFFFFFFF
        value ^= value >> 17
        value ^= (value << 5) & 0xFFFFFFFF
    return value


def _operands(turns: int) -> tuple[jax.Array, jax.Array]:
    return jnp.ones(1, jnp.uint32), jnp.full(1, turns, jnp.int32)


def _time(call: Contender, *operands: jax.Array) -> float:
    start = time.perf_counter()
    call(*operands).block_until_ready()
    return time.perf_counter() - start
