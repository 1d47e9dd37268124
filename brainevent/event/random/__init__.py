# SPDX-License-Identifier: Apache-2.0
"""Random connectivity: with a fixed probability, or with a fixed number in each row; sorted, without duplicates.

Each row draws from a stream of its own, so that a seed gives the same connections whatever the number of threads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from ..._system import cores
from ..room import check_places, check_room
from ..structure import checked_count

__all__ = ["bernoulli_rows", "checked_seed", "drawn_weights", "fixed_columns", "fixed_rows"]

_LARGEST = 2**31  # columns: an int32 holds each
_ALIGNED = 64  # bytes: JAX uses memory with this alignment as it is, and copies other memory
_AT_ONCE = 2**24  # connections that are drawn before they are sorted by row
_FEW_STEPS = 2**14  # take less time than the start of threads
_CHUNKS = 8  # for each thread, as some rows take longer than others


def bernoulli_rows(rows: int, columns: int, prob: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Connect each row with each column with a probability: return `indices` and `indptr`.

    >>> indices, indptr = bernoulli_rows(1000, 1000, 0.1, seed=0)
    >>> bool(abs(indptr[-1] - 100_000) < 1000)
    True
    """
    from .on_cpu import count_columns, fill_columns

    if not _is_probability(prob):
        raise ValueError(f"random: prob is {prob!r}; pass a probability from 0 to 1")
    _check_columns(columns)
    expected = round(rows * columns * float(prob))
    _check_size(rows, expected)
    scale = np.array([1 / math.log1p(-prob) if 0 < prob < 1 else (-math.inf if prob == 0 else -0.0)])
    counts = np.zeros(rows + 1, np.int64)
    stream = np.uint64(seed)
    _in_threads(rows, expected, lambda start, stop: count_columns(start, stop, columns, scale, stream, counts))
    indptr = np.cumsum(counts)
    indices = _aligned_empty(int(indptr[-1]))
    _in_threads(rows, expected, lambda start, stop: fill_columns(start, stop, columns, scale, stream, indptr, indices))
    return indices, indptr


def fixed_rows(rows: int, columns: int, number: int, seed: int, *, pointers: bool = False) -> np.ndarray:
    """Connect each row with `number` different columns, all equally likely: return `indices` of shape (rows, number).

    `pointers` says that the matrix will have row pointers, too.

    >>> fixed_rows(2, 3, 3, seed=0)
    array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    _check_number(number := checked_count("random", "the number of connections", number), columns)
    _check_size(rows if pointers else 0, rows * number)
    indices = _aligned_empty(rows * number)
    _choose(0, rows, columns, number, seed, indices)
    return indices.reshape(rows, number)


def fixed_columns(rows: int, columns: int, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Connect each column with `number` different rows, all equally likely: return `indices` and `indptr` of the rows.

    >>> fixed_columns(2, 3, 1, seed=0)[0]
    array([0, 1, 2], dtype=int32)
    """
    from .on_cpu import count_rows, turn

    _check_number(number := checked_count("random", "the number of connections", number), rows)
    _check_size(rows, columns * number)
    at_once = max(1, _AT_ONCE // max(1, number))  # columns: all are drawn twice, so that few are kept at a time
    drawn = np.empty(min(at_once, columns) * number, np.int32)

    def chunks() -> Iterator[tuple[int, np.ndarray]]:
        for first in range(0, columns, at_once):
            last = min(first + at_once, columns)
            part = drawn[: (last - first) * number]
            _choose(first, last, rows, number, seed, part)
            yield first, part

    counts = np.zeros(rows + 1, np.int64)
    for _, part in chunks():
        count_rows(part, counts)
    indptr = np.cumsum(counts)
    places, indices = indptr.copy(), _aligned_empty(columns * number)
    for first, part in chunks():
        turn(part, number, first, places, indices)
    return indices, indptr


def checked_seed(seed: Any) -> int:
    """Return a seed of 64 bits: this one, or for None a random one of the operating system."""
    if seed is None:
        return int.from_bytes(os.urandom(8), "little")
    try:
        return int(seed.__index__()) % 2**64
    except (AttributeError, TypeError):
        raise TypeError(f"random: seed is {seed!r}; pass an integer, or None for a new one each time") from None


def drawn_weights(weights: Any, shape: tuple[int, ...], seed: int) -> Any:
    """Return weights as they are; or those that a function of a key and a shape draws, like `jax.random.normal`."""
    return weights(jax.random.key(seed % 2**32), shape) if callable(weights) else weights


def _choose(first: int, last: int, columns: int, number: int, seed: int, indices: np.ndarray) -> None:
    """Write `number` different columns of the rows from first to last."""
    from .on_cpu import choose_columns

    words = -(-columns // 64)

    def choose(start: int, stop: int) -> None:
        taken = np.zeros(words, np.uint64)
        choose_columns(first + start, first + stop, columns, number, np.uint64(seed), first, taken, indices)

    if indices.size:
        _in_threads(last - first, indices.size + (last - first) * words, choose)


def _check_number(number: int, columns: int) -> None:
    if not 0 <= number <= columns:
        raise ValueError(f"random: {number} different connections of {columns}; pass a number from 0 to {columns}")
    _check_columns(columns)


def _is_probability(prob: Any) -> bool:
    try:
        return bool(0 <= prob <= 1)
    except (TypeError, ValueError):  # a word, or an array
        return False


def _check_size(rows: int, connections: int) -> None:
    """Raise, before anything is drawn, if indices and row pointers do not fit the memory."""
    what = f"{connections} connections of {rows} rows" if rows else f"{connections} connections"
    check_room("random", f"indices of {what}", 4 * connections + 16 * rows, on_host=True)
    if rows:
        check_places("random", f"{connections} connections", connections)


def _check_columns(columns: int) -> None:
    if columns > _LARGEST:
        raise ValueError(f"random: {columns} columns; draw at most {_LARGEST}, whose indices are int32")


def _aligned_empty(size: int) -> np.ndarray:
    extra = _ALIGNED // 4
    memory = np.empty(size + extra, np.int32)
    start = -memory.ctypes.data % _ALIGNED // 4
    return memory[start : start + size]


def _in_threads(rows: int, steps: int, work: Callable[[int, int], object]) -> None:
    """Do the work for ranges of rows, if it has many steps in threads: it does not hold Python's lock."""
    if steps < _FEW_STEPS:
        work(0, rows)
        return
    threads = cores()
    edges = np.linspace(0, rows, min(rows, threads * _CHUNKS) + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))
