# SPDX-License-Identifier: Apache-2.0
"""`Image`: all arrays that belong to one run, as one piece of memory that native code copies and moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..pages import LINE_BYTES
from .tables import Table, address

__all__ = ["Image", "arrays_of"]

Array = Any


class Image:
    """Arrays side by side; those of words come first, with what is in them.

    A word that is the address of something in one of the arrays is, in the image, relative to its beginning. Which
    words are such is found by `twins`: arrays that were made in the same way, at other addresses. A number is the same
    in both; an address is not.

    Attributes:
        words: The first words, which hold something.
        moved: The places of the words among them to which the address of the memory is to be added.
        cleared: How many bytes there are of these, and of arrays that begin as zeros.
        nbytes: How much memory all arrays take.
    """

    def __init__(self, arrays: Sequence[Array], twins: Sequence[Array], zeros: Iterable[Array], empty: Iterable[Array]):
        self._at, self._sizes = dict[int, int](), dict[int, int]()
        end, ends = 0, []
        blank = [[one for one in some if one.nbytes] for some in (zeros, empty)]
        known = {address(one) for some in blank for one in some}
        pairs = zip(arrays, twins, strict=True)
        held = [(one, twin) for one, twin in _whole(pairs) if address(one) not in known]
        for some in ([one for one, _ in held], *blank):
            for one in some:
                self._at[address(one)], self._sizes[address(one)] = end, one.nbytes
                end += one.nbytes + -one.nbytes % LINE_BYTES
            ends.append(end)
        self._begins = np.array(sorted(self._at), np.int64)
        self.cleared, self.nbytes = ends[1], ends[2]
        self.words = np.zeros(ends[0] // 8, np.int64)
        moved = []
        for one, twin in held:
            begin = self._at[address(one)]
            self.words.view(np.uint8)[begin : begin + one.nbytes] = np.frombuffer(one.tobytes(), np.uint8)
            if one.dtype == np.int64:
                moved += [begin // 8 + place for place in self._pointers(one.reshape(-1), twin.reshape(-1))]
        self.moved = np.array(moved, np.int64)
        for place in moved:
            self.words[place] = self.place(int(self.words[place]))

    def place(self, where: int) -> int:
        """Return how many bytes after the beginning of the memory something lies, given its address."""
        begin = self._begin(where)
        assert begin is not None, where
        return self._at[begin] + where - begin

    def word(self, table: Table, name: str) -> int:
        """Return the place of a word of a table, in words."""
        return self.place(address(table.view(name))) // 8

    def _begin(self, where: int) -> int | None:
        """Return where the array begins that has an address in it, or at its end."""
        found = int(np.searchsorted(self._begins, where, side="right")) - 1
        if found < 0:
            return None
        begin = int(self._begins[found])
        return begin if where <= begin + self._sizes[begin] else None

    def _pointers(self, words: Array, others: Array) -> list[int]:
        return [k for k in np.flatnonzero(words != others).tolist() if self._begin(int(words[k])) is not None]


def _whole(pairs: Iterable[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    """Return arrays, with their twins, without those that are a part of another one, by address."""
    found: list[tuple[Array, Array]] = []
    end = 0
    for one, twin in sorted(pairs, key=lambda pair: (address(pair[0]), -pair[0].nbytes)):
        if address(one) + one.nbytes > end or not found:
            found.append((one, twin))
            end = address(one) + one.nbytes
    return found


def arrays_of(thing: Any, outside: Iterable[Any]) -> list[Array]:
    """Return all arrays that something holds, directly or not, but for those that are outside, or held by such."""
    seen: set[int] = set()
    others = {address(one) for one in _walked(list(outside), seen) if one.size}
    return [one for one in _walked(thing, seen) if one.size and address(one) not in others]


def _walked(thing: Any, seen: set[int]) -> Iterator[Array]:
    if id(thing) in seen or isinstance(thing, (str, int, float, bytes, type(None))):
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        if thing.flags.c_contiguous and thing.dtype != object:
            yield thing
        return
    if isinstance(thing, dict):
        inner: Iterable[Any] = thing.values()
    elif isinstance(thing, (list, tuple)):
        inner = thing
    elif is_dataclass(thing):
        inner = [getattr(thing, field.name) for field in fields(thing)]
    elif type(thing).__module__.startswith(__package__ or ""):
        inner = vars(thing).values()
    else:
        return
    for one in inner:
        yield from _walked(one, seen)
