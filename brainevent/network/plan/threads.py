# SPDX-License-Identifier: Apache-2.0
"""How many threads run a network, or draw it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..._system import cores
from ...errors import NetworkError
from ..description.checks import is_integer

__all__ = ["even_edges", "in_threads", "parts_for", "row_edges", "threads_for"]

_VARIABLE = "BRAINEVENT_THREADS"
_NEURONS = 5000  # of a thread, at least: with fewer, threads wait for each other longer than they work
_MOST = 1024
_FEW = 50_000  # synapses that one thread draws
_CHUNKS = 4  # for each thread: some take longer than others


def parts_for(neurons: int, threads: int | None = None) -> int:
    """Return the number of parts of a network: the requested number, or what suits the machine and the size."""
    asked = _asked("build", threads)
    return max(1, min(cores(), neurons // _NEURONS)) if asked is None else asked


def threads_for(elements: int, threads: int | None = None) -> int:
    """Return how many threads run the elements of a sweep: the requested number, or one for each core."""
    return max(1, min(elements, _asked("sweep", threads) or cores()))


def _asked(what: str, threads: int | None) -> int | None:
    """Return the number of threads that an argument asks for, or the environment; None if none does."""
    if threads is not None:
        return _checked(f"{what}: threads", threads)
    if variable := os.environ.get(_VARIABLE, "").strip():
        return _checked(_VARIABLE, int(variable) if variable.isdecimal() else variable)
    return None


def even_edges(rows: int, synapses: float) -> list[int]:
    """Return where chunks of rows with equal numbers of synapses begin and end: one chunk if there are few."""
    chunks = 1 if synapses < _FEW else min(max(rows, 1), cores() * _CHUNKS)
    return [rows * i // chunks for i in range(chunks + 1)]


def row_edges(rows: Any) -> list[int]:
    """Return where chunks of rows with about equal numbers of synapses begin and end; row i ends at rows[i + 1]."""
    total = int(rows[-1])
    if total < _FEW:
        return [0, rows.size - 1]
    marks = np.linspace(0, total, cores() * _CHUNKS + 1)[1:-1]
    return [0, *np.unique(np.searchsorted(rows, marks).clip(1, rows.size - 2)).tolist(), rows.size - 1]


def in_threads(work: Callable[[int, int], Any], edges: Sequence[int]) -> list[Any]:
    """Do the work from each edge to the next, in threads: it must hold no lock of Python's. Return the results."""
    if len(edges) <= 2:
        return [work(edges[0], edges[-1])]
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))


def _checked(where: str, threads: Any) -> int:
    if not is_integer(threads) or not 1 <= threads <= _MOST:
        raise NetworkError(f"{where} is {threads!r}; pass an integer from 1 to {_MOST}")
    return int(threads)
