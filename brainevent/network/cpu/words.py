# SPDX-License-Identifier: Apache-2.0
"""Tables of words: arrays of int64 with the addresses and sizes that native code needs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..pages import aligned
from .layout import LINE

__all__ = ["Table", "address", "lines", "words_of"]

Array = Any


def address(array: Array) -> int:
    """Return where an array begins; it must be contiguous, and live as long as the address is used."""
    assert array.flags.c_contiguous
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # in a third of the time
    except (TypeError, ValueError):  # read-only, or empty
        return int(array.ctypes.data)


def words_of(values: Sequence[int]) -> Array:
    """Return words without names."""
    return np.array(values, np.int64)


def lines(count: int) -> Array:
    """Return the given number of cache lines, of words that are 0."""
    return aligned((count, LINE), np.int64)


class Table:
    """Words by name."""

    def __init__(self, names: Sequence[str], values: Mapping[str, int]):
        assert set(names) == set(values), set(names) ^ set(values)
        self._places = {name: place for place, name in enumerate(names)}
        self._words = words_of([values[name] for name in names])
        self.address = address(self._words)

    def update(self, values: Mapping[str, int]) -> None:
        """Write words."""
        for name, value in values.items():
            self[name] = value

    def changed(self, values: Mapping[str, int]) -> Table:
        """Return a copy with other words."""
        words = {name: self[name] for name in self._places}
        return Table(list(words), words | dict(values))

    def view(self, name: str) -> Array:
        """Return the array (1,) that is a word."""
        place = self._places[name]
        return self._words[place : place + 1]

    def __getitem__(self, name: str) -> int:
        """Return a word."""
        return int(self._words[self._places[name]])

    def __setitem__(self, name: str, value: int) -> None:
        """Write a word."""
        self._words[self._places[name]] = value
