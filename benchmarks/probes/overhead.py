# SPDX-License-Identifier: Apache-2.0
"""Time one call inside a jitted loop over 64 floats."""

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
    make_pure_callback,
    make_warp,
)
from benchmarks.probes.modules import make_module, make_module_ffi_call, make_module_operator
from benchmarks.probes.rounds import interleave, time_calls

MAKERS: dict[str, Callable[[], Contender]] = {
    "jax": make_jax_add,
    "cpp_nothing": lambda: make_cpp("Nothing"),
    "cpp": make_cpp,
    "module": lambda: make_module("cpp"),
    "module_ffi_call": lambda: make_module_ffi_call("cpp"),
    "module_operator": lambda: make_module_operator("cpp"),
    "numba_kernel": make_numba_kernel,
    "operator": make_operator,
    "pure_callback": make_pure_callback,
    "warp": make_warp,
}


def measure(contenders: dict[str, int], rounds: int) -> dict[str, list[float]]:
    """Seconds per call, for each contender with its number of iterations."""
    timers = {name: _loop_timer(name, iterations) for name, iterations in contenders.items()}
    return interleave(timers, rounds)


def _loop_timer(name: str, iterations: int) -> Callable[[], float]:
    contender, (a, b) = MAKERS[name](), example()
    loop = jax.jit(lambda a, b: jax.lax.fori_loop(0, iterations, lambda _, total: contender(total, b), a))
    total = loop(a, b).block_until_ready()
    if name != "cpp_nothing":
        # A fast wrong answer is no result; these sums are exact in float32.
        np.testing.assert_array_equal(total, np.asarray(a) + iterations * np.asarray(b))
    return time_calls(lambda: loop(a, b).block_until_ready(), calls=iterations)
