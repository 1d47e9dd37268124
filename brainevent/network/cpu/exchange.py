# SPDX-License-Identifier: Apache-2.0
"""`Exchange`: the spikes of some steps of a process as words for other processes, and theirs in its memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .memory import Memory
from .native import exchange_function
from .on_exchange import HEAD
from .tables import EXCHANGE, Table, address, words_of

__all__ = ["Exchange"]

_ROOM = 256  # spikes of the first message
Array = Any
Gather = Callable[[Array], Array]  # of uint32 (size,) of each process: uint32 (count, size)


class Exchange:
    """The messages of one process.

    Args:
        memory: Its memory.
        populations: Those of which other processes deliver spikes, the same in all processes.
        own: The number of this process.
        count: How many there are.
        room: How many words the messages had so far, likewise.
    """

    def __init__(self, memory: Memory, populations: Sequence[str], own: int, count: int, room: int = 0):
        self._gathered_at = np.zeros(count, np.int64)
        self.room = max(room, HEAD + memory.apart * len(populations) + _ROOM)
        rules = [memory.plan.population(name).rule for name in populations]
        self._lists = [
            words_of([address(memory.lists[name].lines) for name in populations]),
            words_of([np.dtype(rule.dtype).itemsize if rule.value else 0 for rule in rules]),
            words_of([word for function, tables in memory.afar for one in tables for word in (function, one.address)]),
        ]
        words = dict.fromkeys(EXCHANGE._fields, 0)
        words |= {"parts": memory.plan.parts, "populations": len(populations), "hosts": count, "own": own}
        words |= dict(zip(("lines", "itemsizes", "afar"), map(address, self._lists), strict=True))
        words |= {"at": address(self._gathered_at), "deliveries": self._lists[2].size // 2}
        self._table, self._alive = Table(EXCHANGE._fields, words), memory

    def all_told(self, begin: int, end: int, status: int, gather: Gather, failed: int) -> list[int]:
        """Tell the spikes of some steps, and a status; take those of all others, and return the status of each.

        If a status has a bit of `failed`, no spikes are taken.
        """
        self._table.update({"begin": begin, "end": end})
        told = self._gathered(status, gather)
        most = int(told[:, 1].max())
        if most > self.room:  # each process knows it
            self.room = 1 << (most - 1).bit_length()
            told = self._gathered(status, gather)
        found: list[int] = told[:, 0].tolist()
        if not any(one & failed for one in found):
            told = np.ascontiguousarray(told)
            self._table.update({"buffer": told.ctypes.data, "row": told.shape[1]})
            exchange_function("unpack")(self._table.address)
        return found

    def _gathered(self, status: int, gather: Gather) -> Array:
        message = np.zeros(self.room, np.uint32)
        self._table.update({"buffer": address(message), "row": self.room})
        message[0], message[1] = status, exchange_function("pack")(self._table.address)
        return gather(message)
