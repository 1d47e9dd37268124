# SPDX-License-Identifier: Apache-2.0
"""Watch the resident memory of this process while one contender is called again and again."""

import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from benchmarks.probes.contenders import Contender, example, make_cpp, make_numba_kernel, make_operator

_MAKERS: dict[str, Callable[[], Contender]] = {
    "cpp": make_cpp,
    "numba_kernel": make_numba_kernel,
    "operator": make_operator,
}
_CHECKPOINTS = 10
# XLA keeps about 1.5 MB a program: ten thousand programs would not fit.
SHAPES_IN_A_PROGRAM = 100


def measure(contender: str, modes: dict[str, int]) -> dict[str, list[int]]:
    """For each mode with its number of calls: resident bytes after a warm-up of a tenth, then after each tenth."""
    call = _MAKERS[contender]()
    return {mode: _watch(_STEPS[mode](call, calls // _CHECKPOINTS)) for mode, calls in modes.items()}


def _watch(step: Callable[[int], None]) -> list[int]:
    resident = []
    for index in range(_CHECKPOINTS + 1):
        step(index)
        resident.append(_resident_bytes())
    return resident


def _resident_bytes() -> int:
    """What the process holds, once what it could give back is given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _loop_step(contender: Contender, calls: int) -> Callable[[int], None]:
    a, b = example()
    loop = jax.jit(lambda a, b: jax.lax.fori_loop(0, calls, lambda _, total: contender(total, b), a))
    return lambda index: np.testing.assert_array_equal(loop(a, b), np.arange(64) + calls)


def _call_step(contender: Contender, calls: int) -> Callable[[int], None]:
    a, b = example()

    def step(index: int) -> None:
        for _ in range(calls):
            contender(a, b).block_until_ready()

    return step


def _jitted_step(contender: Contender, calls: int) -> Callable[[int], None]:
    return _call_step(jax.jit(contender), calls)


def _shape_step(contender: Contender, calls: int) -> Callable[[int], None]:
    call = jax.jit(lambda operands: [contender(operand, operand) for operand in operands])

    def step(index: int) -> None:
        first, end = 1 + index * calls, 1 + (index + 1) * calls
        for start in range(first, end, SHAPES_IN_A_PROGRAM):
            sizes = range(start, min(start + SHAPES_IN_A_PROGRAM, end))
            jax.block_until_ready(call([np.ones(size, np.float32) for size in sizes]))

    return step


def _cleared_shape_step(contender: Contender, calls: int) -> Callable[[int], None]:
    call_shapes = _shape_step(contender, calls)

    def step(index: int) -> None:
        call_shapes(index)
        jax.clear_caches()

    return step


_STEPS: dict[str, Callable[[Contender, int], Callable[[int], None]]] = {
    "loop": _loop_step,
    "eager": _call_step,
    "jitted": _jitted_step,
    "shapes": _shape_step,
    "shapes_cleared": _cleared_shape_step,
}
