# SPDX-License-Identifier: Apache-2.0
"""Compile and run a kernel, as a test of this machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from ..errors import KernelExecutionError
from ..languages import Language, known_languages
from ..toolchain import cache, directory
from .findings import Line

__all__ = ["trials"]


def trials() -> Iterator[Line]:
    """Compile and run a kernel in each language that has one for it, in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="brainevent-", ignore_cleanup_errors=True) as folder:
        chosen = list(directory._chosen)
        cache.set_cache_dir(folder)
        try:
            for row in known_languages():
                if row.trial is not None:
                    yield _trial(row, row.trial)
        finally:
            cache.set_cache_dir(chosen[0] if chosen else None)


def _trial(row: Language, build: Callable[[], Callable[[Any], Any]]) -> Line:
    """Compile, load and run; a machine without a GPU need not have what compiles for it."""
    if row.platforms[0] != "cpu" and (why := row.why_missing()):
        return Line(row.name, f"not here: {why}")
    try:
        start = time.perf_counter()
        add_one = build()
        built = time.perf_counter()
        x = jax.device_put(np.arange(3, dtype=np.float32), jax.devices(row.platforms[0])[0])
        result = np.asarray(add_one(x)).tolist()
        done = time.perf_counter()
        if result != [1, 2, 3]:
            raise KernelExecutionError(
                f"the kernel adds 1 to [0, 1, 2] and returns {result}; the compiler may be broken"
            )
    except Exception as error:  # noqa: BLE001
        return Line(row.name, f"ERROR ({type(error).__name__}): {str(error) or 'without a message'}", fault=True)
    return Line(row.name, f"compiled and loaded in {built - start:.1f} s, ran in {done - built:.2f} s")
