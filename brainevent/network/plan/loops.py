# SPDX-License-Identifier: Apache-2.0
"""The native loops that draw, sort and merge synapses, as Python calls them.

The loops themselves are in `on_cpu_*.py`, which are imported only when one is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...backends.numba.loops import Loop, hash_of

__all__ = ["count_drawn", "count_ends", "count_gaps", "count_runs", "count_taken", "draw_rows", "draw_words"]
__all__ += ["merge_runs", "place_listed", "place_rows", "sort_rows", "take_runs", "values_of"]


@functools.cache
def _sources() -> str:
    """Return the hash of our own code that decides what the loops do."""
    here, scalar = Path(__file__).parent, Path(__file__).parents[2] / "scalar"
    return hash_of([*sorted(here.glob("on_cpu_*.py")), here / "law.py", here / "rows.py", *sorted(scalar.glob("*.py"))])


def _loop(name: str, room: Callable[[], Any]) -> Loop:
    return Loop(f"network_{name}", lambda: getattr(room(), name), _sources)


def _words() -> Any:
    from . import on_cpu_words

    return on_cpu_words


def _rows() -> Any:
    from . import on_cpu_rows

    return on_cpu_rows


def _sorting() -> Any:
    from . import on_cpu_sorting

    return on_cpu_sorting


def _bundles() -> Any:
    from . import on_cpu_bundles

    return on_cpu_bundles


draw_words, values_of = _loop("draw_words", _words), _loop("values_of", _words)
count_drawn, count_gaps, count_ends = (_loop(name, _rows) for name in ("count_drawn", "count_gaps", "count_ends"))
draw_rows, place_rows = _loop("draw_rows", _sorting), _loop("place_rows", _sorting)
place_listed, sort_rows = _loop("place_listed", _sorting), _loop("sort_rows", _sorting)
count_runs, merge_runs = _loop("count_runs", _bundles), _loop("merge_runs", _bundles)
count_taken, take_runs = _loop("count_taken", _bundles), _loop("take_runs", _bundles)
