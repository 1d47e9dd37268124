# SPDX-License-Identifier: Apache-2.0
"""The table of benchmarks: a new one is a line here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchmarks import compile_time, import_time, latency, memory, overhead, vmap
from benchmarks.options import Options
from benchmarks.row import Row


@dataclass(frozen=True)
class Benchmark:
    """A name, what it measures, and how to get its rows."""

    name: str
    title: str
    platform: Literal["cpu", "gpu"]
    measure_rows: Callable[[Options], list[Row]]


BENCHMARKS = (
    Benchmark("overhead", "one call over 64 floats inside a jitted loop", "cpu", overhead.measure_rows),
    Benchmark("vmap", "a batch of 1 000 over 64 floats", "cpu", vmap.measure_rows),
    Benchmark("import", "import brainevent after import jax", "cpu", import_time.measure_rows),
    Benchmark("latency", "one call from Python over 64 floats", "cpu", latency.measure_rows),
    Benchmark("compile", "a new kernel or shape, up to its first result", "cpu", compile_time.measure_rows),
    Benchmark("memory", "growth of the resident memory after a warm-up", "cpu", memory.measure_rows),
)
