# SPDX-License-Identifier: Apache-2.0
"""Time the loading of one source text: compiled, or from the cache."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.probes import cpp, cuda
from benchmarks.probes.contenders import example, like
from benchmarks.probes.sources import FUNCTION, LOADERS

_NAME = "bench_build"
_TARGET = f"{_NAME}.{FUNCTION}"


def measure(
    contender: str,
    language: str,
    cache: str,
    cold: bool,
    run: bool,
    capability: str | None = None,
    cuda_home: str | None = None,
) -> list[float]:
    """Seconds: a cold build, or the first load of this process and the second; `run` says whether it can run here."""
    if cuda_home:
        os.environ["CUDA_HOME"] = cuda_home
    a, b = example()
    np.testing.assert_array_equal(a + b, np.arange(64) + 1)  # starts the client
    load = _LOADS[contender](language, cache, cold, capability)
    seconds = [_time(load) for _ in range(1 if cold else 2)]
    if run:
        total = jax.ffi.ffi_call(_TARGET, like(a))(a, b)
        np.testing.assert_array_equal(total, np.asarray(a) + np.asarray(b))
    return seconds


def _time(load: Callable[[], object]) -> float:
    start = time.perf_counter()
    loaded = load()
    seconds = time.perf_counter() - start
    assert loaded is not None
    return seconds


def _module_load(language: str, cache: str, cold: bool, capability: str | None) -> Callable[[], object]:
    """What users call; the handler that it leaves is looked up, for where there is no GPU that is all to check."""
    import brainevent

    brainevent.set_cache_dir(cache)
    name, source = LOADERS[language]
    loader, options = getattr(brainevent, name), {} if language == "cpp" else {"compute_capability": capability}

    def load() -> Any:
        return loader(_NAME, source, force_rebuild=cold, **options).get_handler(FUNCTION)

    return load


def _handler_load(language: str, cache: str, cold: bool, capability: str | None) -> Callable[[], object]:
    """The same by hand: XLA's C++ headers, one command, ctypes."""
    assert cold
    library = Path(cache, "handler.so")
    if language == "cpp":
        command, platform = cpp.build_command(library), "cpu"
    else:
        command, platform = cuda.build_command(library, capability or cuda.own_capability()), "CUDA"

    def load() -> str:
        subprocess.run(command, check=True)
        return cpp.register_handler(library, "Add", _TARGET, platform)

    return load


_LOADS = {"module": _module_load, "handler": _handler_load}
