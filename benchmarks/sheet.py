# SPDX-License-Identifier: Apache-2.0
"""Synapses of a sheet: 100 000 neurons with 1 000 synapses each, by a probability that falls with distance."""

from collections.abc import Iterator

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

_NEURONS, _QUICK = 100_000, 10_000
_BAR, _GPU_BAR = Bar(5, on="value"), Bar(0.5, on="value")
_ON_GPU = {"gpu": "drawn and measured", "gpu, ready to run": "built, ready to run"}


def measure_rows(options: Options) -> Iterator[Row]:
    """Builds in one process, of which the first compiles and is left out."""
    name, arguments = _described(options)
    answer = run_probe("sheet", arguments)
    note = f"{answer['synapses'] / 1e6:.1f} M synapses"
    yield make_row("sheet", name, "s", answer["seconds"], bar=_BAR, note=note)
    yield make_row("sheet", f"{name}: seconds of a core, of two", "s", [x / 2 for x in answer["processor"]], bar=_BAR)


def measure_gpu_rows(options: Options) -> Iterator[Row]:
    """The same on a GPU: the synapses alone, and all that a run needs."""
    name, arguments = _described(options)
    for where, label in _ON_GPU.items():
        answer = run_probe("sheet", {**arguments, "where": where}, platform="gpu")
        note = f"{answer['synapses'] / 1e6:.1f} M synapses"
        yield make_row("gpu_sheet", f"{name}: {label}", "s", answer["seconds"], bar=_GPU_BAR, note=note)


def _described(options: Options) -> tuple[str, dict[str, int]]:
    neurons = _QUICK if options.quick else _NEURONS
    name = f"{neurons} neurons with 1000 synapses each, Gaussian up to 3 deviations, on a torus"
    rounds = options.choose_rounds(full=5, quick=1)
    return name, {"neurons": neurons, "synapses": 1000, "rounds": rounds}
