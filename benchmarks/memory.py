# SPDX-License-Identifier: Apache-2.0
"""Memory: growth of the resident memory over many calls and over many shapes."""

from concurrent.futures import ThreadPoolExecutor

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

# Contender -> mode -> growth in KiB.
Growths = dict[str, dict[str, list[float]]]

_CONTENDERS = {"cpp": "C++ handler", "numba_kernel": "numba_kernel", "operator": "XLACustomKernel"}
# A million calls that leak one byte each would miss it.
_CALLS_BAR = Bar(1024, on="value")
# JAX itself keeps every shape's program; we may not keep more.
_SHAPES_BAR = Bar(1.05)
_CALLS = {
    "loop": (1_000_000, "calls inside jitted loops"),
    "jitted": (20_000, "jitted calls from Python"),
    "eager": (20_000, "eager calls"),
}
_SHAPES = {
    "shapes": (10_000, "shapes"),
    "shapes_cleared": (10_000, "shapes, jax.clear_caches() after each tenth"),
}


def measure_rows(options: Options) -> list[Row]:
    """Growth in KiB after a warm-up; over shapes also its ratio to what C++ grows, since JAX keeps the programs."""
    calls = {mode: count // (10 if options.quick else 1) for mode, (count, _) in _CALLS.items()}
    shapes = {mode: count // (4 if options.quick else 1) for mode, (count, _) in _SHAPES.items()}
    growths = _measure([calls, *({mode: count} for mode, count in shapes.items())])
    rows = []
    for mode, (_, label) in _CALLS.items():
        for name, contender in _CONTENDERS.items():
            bar = None if name == "cpp" else _CALLS_BAR
            rows.append(make_row("memory", f"{contender}: {calls[mode]} {label}", "KiB", growths[name][mode], bar=bar))
    for mode, (_, label) in _SHAPES.items():
        rows += [_shape_row(f"{shapes[mode]} {label}", name, mode, growths) for name in _CONTENDERS]
    return rows


def _measure(processes: list[dict[str, int]]) -> Growths:
    """Run each set of modes in a process of its own, for every contender."""
    growths: Growths = {name: {} for name in _CONTENDERS}
    for modes in processes:
        # Memory, not time: the contenders run side by side.
        with ThreadPoolExecutor() as pool:
            running = {
                name: pool.submit(run_probe, "memory", {"contender": name, "modes": modes}) for name in _CONTENDERS
            }
        for name, future in running.items():
            for mode, resident in future.result().items():
                growths[name][mode] = [(resident[-1] - resident[0]) / 1024]
    return growths


def _shape_row(label: str, name: str, mode: str, growths: Growths) -> Row:
    growth, baseline = growths[name][mode], growths["cpp"][mode]
    return make_row(
        "memory",
        f"{_CONTENDERS[name]}: {label}",
        "KiB",
        growth,
        baseline=baseline,
        ratio_to="C++",
        bar=None if name == "cpp" else _SHAPES_BAR,
        note="" if name == "cpp" else f"{growth[0] - baseline[0]:+.0f} KiB against C++",
    )
