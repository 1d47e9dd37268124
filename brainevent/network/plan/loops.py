# SPDX-License-Identifier: Apache-2.0
"""The native loops that draw, sort and merge synapses, as Python calls them.

The loops themselves are in `on_cpu_*.py`, which are imported only when one is compiled; and Numba, whose import takes
longer than a small network, when one is called.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ...backends.numba.uninterrupted import uninterrupted
from ...scalar.numba_text import numba_text
from ...scalar.pair import TracedPair
from ..native import sources

__all__ = ["count_drawn", "count_ends", "count_ends_at", "count_gaps", "count_runs", "count_taken", "draw_rows"]
__all__ += ["draw_words", "index_targets", "merge_parts", "merge_runs", "place_listed", "place_rows", "sort_rows"]
__all__ += ["draw_pairs", "find_pairs", "map_pairs", "take_runs", "values_of"]


Loop = Callable[..., int]


def _late(title: str, make: Callable[[], Any], sources: Callable[[], str]) -> Loop:
    """Return a loop of `backends.numba.loops` that is made when it is first called."""

    @functools.cache
    def made() -> Loop:
        with uninterrupted():
            return importlib.import_module("brainevent.backends.numba.loops").Loop(title, make, sources)

    def run(*arguments: Any) -> int:
        return made()(*arguments)

    return run


def _loop(room: str, name: str) -> Loop:
    return _late(f"network_{name}", lambda: getattr(importlib.import_module(f"{__package__}.{room}"), name), sources)


draw_words, values_of = (_loop("on_cpu_values", name) for name in ("draw_words", "values_of"))
count_drawn, count_gaps, count_ends = (_loop("on_cpu_rows", f"count_{what}") for what in ("drawn", "gaps", "ends"))
draw_rows, place_rows = _loop("on_cpu_sorting", "draw_rows"), _loop("on_cpu_sorting", "place_rows")
place_listed, sort_rows = _loop("on_cpu_sorting", "place_listed"), _loop("on_cpu_sorting", "sort_rows")
count_runs, merge_runs = _loop("on_cpu_bundles", "count_runs"), _loop("on_cpu_bundles", "merge_runs")
count_ends_at, index_targets = _loop("on_cpu_index", "count_ends_at"), _loop("on_cpu_index", "index_targets")
merge_parts = _loop("on_cpu_index", "merge_parts")
count_taken, take_runs = _loop("on_cpu_bundles", "count_taken"), _loop("on_cpu_bundles", "take_runs")
draw_pairs = _loop("on_cpu_pairs", "draw_pairs")


def _of_pair(made: str, pair: TracedPair) -> Loop:
    def make() -> object:
        return getattr(importlib.import_module(f"{__package__}.on_cpu_pairs"), made)(pair)

    return _late(f"network_{made}", make, lambda: f"{sources()} {pair.names} {numba_text([pair.form])}")


@functools.lru_cache(256)
def find_pairs(pair: TracedPair) -> Loop:
    """Return the loop that finds the targets of sources, by a probability."""
    return _of_pair("finding", pair)


@functools.lru_cache(256)
def map_pairs(pair: TracedPair) -> Loop:
    """Return the loop that computes values of synapses."""
    return _of_pair("mapping", pair)
