# SPDX-License-Identifier: Apache-2.0
"""Time what a new kernel costs before its first result, and what a new shape of a known one costs."""

import itertools
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.contenders import Contender, example, like, make_cpp, make_numba_kernel
from benchmarks.probes.cpp import build_command, register_handler
from benchmarks.probes.rounds import interleave

_SOURCE = """
def add(a, b, out):
    for i in range(out.size):
        out[i] = a[i] + {scale}.0 * b[i]
"""


def measure(contenders: list[str], rounds: int, shapes: int) -> dict[str, list[float]]:
    """Seconds: `first_NAME` is a process's first kernel, `new_NAME` a later one, `shape_NAME` one more shape."""
    np.testing.assert_array_equal(jax.jit(jnp.add)(*example()), np.arange(64) + 1)  # starts the CPU client
    makers = {"cpp": _new_cpp_kernel, "numba_kernel": _new_numba_kernel}
    scales = itertools.count(2)
    timers = {name: (lambda make=makers[name]: _time_kernel(make, next(scales))) for name in contenders}
    first = {f"first_{name}": [timer()] for name, timer in timers.items()}
    new = {f"new_{name}": samples for name, samples in interleave(timers, rounds).items()}
    known = {"cpp": make_cpp, "numba_kernel": make_numba_kernel}
    shape_timers = {f"shape_{name}": _shape_timer(known[name](), shapes) for name in contenders}
    return first | new | interleave(shape_timers, rounds)


def _time_kernel(make: Callable[[int], Contender], scale: int) -> float:
    """From source text to the first result of a jitted call."""
    a, b = example()
    start = time.perf_counter()
    total = jax.jit(make(scale))(a, b).block_until_ready()
    seconds = time.perf_counter() - start
    np.testing.assert_array_equal(total, np.asarray(a) + scale * np.asarray(b))
    return seconds


def _new_cpp_kernel(scale: int) -> Contender:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, f"scale{scale}.so")
        subprocess.run(build_command(library, float(scale)), check=True)
        target = register_handler(library, "Add", f"bench_cpp_add_{scale}")
    return lambda a, b: jax.ffi.ffi_call(target, like(a))(a, b)


def _new_numba_kernel(scale: int) -> Contender:
    import numba

    import brainevent

    scope: dict[str, Any] = {}
    exec(_SOURCE.format(scale=scale), scope)
    add = numba.njit(scope["add"])
    return lambda a, b: brainevent.numba_kernel(add, outs=[like(a)])(a, b)[0]


def _shape_timer(contender: Contender, shapes: int) -> Callable[[], float]:
    """Time the first jitted call on each of some shapes never seen before, in seconds per shape."""
    call, sizes = jax.jit(contender), itertools.count(65)
    call(*example()).block_until_ready()

    def timer() -> float:
        operands = [np.ones(next(sizes), np.float32) for _ in range(shapes)]
        start = time.perf_counter()
        for operand in operands:
            call(operand, operand).block_until_ready()
        return (time.perf_counter() - start) / shapes

    return timer
