# SPDX-License-Identifier: Apache-2.0
"""`Remembered`: what is known of arrays, for as long as they exist. Arrays of JAX never change."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Remembered"]

Known = TypeVar("Known")


class Remembered(Generic[Known]):
    """Values by arrays, and by what else they depend on; a value is forgotten when one of its arrays is gone."""

    def __init__(self) -> None:
        self._values: dict[Hashable, tuple[Known, list[weakref.ref[Any]]]] = {}
        mine = weakref.ref(self)

        def forget(key: Hashable) -> None:
            # Arrays may outlive this object and the names of all modules, as one value may hold the arrays of another.
            if (remembered := mine()) is not None:
                remembered._values.pop(key, None)

        self._forget = forget

    def __len__(self) -> int:
        return len(self._values)

    def find(self, arrays: Sequence[Any], *facts: Hashable) -> Known | None:
        """Return the value of these arrays and facts, if there is one."""
        found = self._values.get(_key(arrays, facts))
        return None if found is None else found[0]

    def keep(self, value: Known, arrays: Sequence[Any], *facts: Hashable) -> Known:
        """Keep a value of these arrays and facts, and return it."""
        key, forget = _key(arrays, facts), self._forget
        self._values[key] = value, [weakref.ref(array, lambda _: forget(key)) for array in arrays]
        return value


def _key(arrays: Sequence[Any], facts: tuple[Hashable, ...]) -> Hashable:
    return tuple(map(id, arrays)), facts
