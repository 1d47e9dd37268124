# SPDX-License-Identifier: Apache-2.0
"""Synapses of a sheet: 100 000 neurons with 1 000 synapses each, by a probability that falls with distance."""

from collections.abc import Iterator

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

_NEURONS, _QUICK = 100_000, 10_000
_BAR = Bar(5, on="value")


def measure_rows(options: Options) -> Iterator[Row]:
    """Builds in one process, of which the first compiles and is left out."""
    neurons = _QUICK if options.quick else _NEURONS
    rounds = options.choose_rounds(full=5, quick=1)
    answer = run_probe("sheet", {"neurons": neurons, "synapses": 1000, "rounds": rounds})
    name = f"{neurons} neurons with 1000 synapses each, Gaussian up to 3 deviations, on a torus"
    note = f"{answer['synapses'] / 1e6:.1f} M synapses"
    yield make_row("sheet", name, "s", answer["seconds"], bar=_BAR, note=note)
    yield make_row("sheet", f"{name}: seconds of a core, of two", "s", [x / 2 for x in answer["processor"]], bar=_BAR)
