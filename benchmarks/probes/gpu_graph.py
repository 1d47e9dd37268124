# SPDX-License-Identifier: Apache-2.0
"""Count what the host launches while a jitted chain runs: nothing, once XLA replays the chain as a CUDA graph."""

import ctypes
import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.probes.contenders import Contender, like
from benchmarks.probes.cpp import build_once
from benchmarks.probes.gpu_contenders import WAYS, operands
from benchmarks.probes.gpu_overhead import chained
from benchmarks.probes.modules import FOLDER
from benchmarks.probes.sources import COUNTING_ADD
from benchmarks.probes.ways import Answer, Field, Way

_SOURCE = Path(__file__).with_name("count.cc")
_SIZE = 1024
_WARM = 3
Counter = Callable[[], int]


def measure(ways: list[str], chain: int, runs: int) -> Answer:
    """Launches by the host in one run of the chain, on average over `runs` of them after the first few."""
    counters = {
        "module": _count_module("bench_counting", allow_cuda_graph=True),
        "module_without_graph": _count_module("bench_counting_alone", allow_cuda_graph=False),
    }

    def timers(name: str, made: Any) -> dict[str, Callable[[], float]]:
        call, count = made if name in counters else (made, _count_launches())
        return {name: _mean_launches(chained(call, chain), count, chain, runs)}

    return Field.of(WAYS | {name: Way(make) for name, make in counters.items()}, ways, timers).measure(1)


def _mean_launches(program: Contender, count: Counter, chain: int, runs: int) -> Callable[[], float]:
    a, b = operands(_SIZE)
    before = count()
    for _ in range(_WARM):
        np.testing.assert_array_equal(program(a, b), np.asarray(a) + chain * np.asarray(b))
    if count() - before < chain:
        raise RuntimeError(f"only {count() - before} launches were counted, and the chain has {chain}")

    def run() -> float:
        start = count()
        for _ in range(runs):
            program(a, b).block_until_ready()
        return (count() - start) / runs

    return run


@functools.cache
def _count_launches() -> Counter:
    """Put a counter before the driver's `cuLaunchKernel`, through which all launch plans go."""
    from brainevent.ffi.launch.driver import driver

    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise RuntimeError(f"no C++ compiler: {compiler!r} is not on PATH; install g++, or name one in CXX")
    command = [compiler, "-O2", "-fPIC", "-shared", str(_SOURCE), "-o"]
    library = ctypes.CDLL(str(build_once(_SOURCE, lambda path: [*command, str(path)])))
    cuda: Any = driver()
    address = cuda.address
    ctypes.c_void_p.in_dll(library, "launch_kernel").value = address("cuLaunchKernel")
    counted = ctypes.cast(library.counted, ctypes.c_void_p).value
    cuda.address = lambda name: counted if name == "cuLaunchKernel" else address(name)
    launches = ctypes.c_long.in_dll(library, "launches")
    return lambda: launches.value


def _count_module(name: str, allow_cuda_graph: bool) -> Callable[[], tuple[Contender, Counter]]:
    """A module that counts its own launches."""

    def make() -> tuple[Contender, Counter]:
        import brainevent

        brainevent.set_cache_dir(FOLDER / "cache")
        module = brainevent.load_cuda_inline(name, COUNTING_ADD, allow_cuda_graph=allow_cuda_graph)
        launches = ctypes.c_long.in_dll(ctypes.CDLL(module.path), "launches")
        call: Any = module.counted_add
        return lambda a, b: call(a, b, outs=like(a)), lambda: launches.value

    return make
