# SPDX-License-Identifier: Apache-2.0
"""Matrices of random connections: how long they take, and how much memory beside what they keep."""

from collections.abc import Iterator

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

_SYNAPSES, _QUICK = 300_000_000, 3_000_000
_NEURONS = 77_000
_WAYS = {"prob": "with a probability", "num_per_row": "so many a row", "num_per_column": "so many a column"}
_A_MINUTE, _TWICE = Bar(60, on="value"), Bar(2, on="value")


def measure_rows(options: Options) -> Iterator[Row]:
    """One process for each matrix, as memory that is given back is not always seen to be."""
    synapses = _QUICK if options.quick else _SYNAPSES
    for way, words in _WAYS.items():
        answers = [
            run_probe("connectivity", {"way": way, "neurons": _NEURONS, "synapses": synapses})
            for _ in range(options.choose_rounds(full=3, quick=1))
        ]
        name, made = f"{synapses / 1e6:g} M synapses, {words}", [answer["seconds"] for answer in answers]
        peaks = [answer["peak"] / answer["kept"] for answer in answers]
        note = f"{answers[0]['kept'] / 2**20:.0f} MiB are kept"
        yield make_row("connectivity", name, "s", made, bar=_A_MINUTE)
        yield make_row("connectivity", f"{name}: peak of memory", "x what is kept", peaks, bar=_TWICE, note=note)
