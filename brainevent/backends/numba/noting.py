# SPDX-License-Identifier: Apache-2.0
"""Note the content of functions when Numba compiles them: their globals may change before a kernel uses them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import caching, event

from ..._content import needs_nothing_else, note_before

__all__ = ["nothing_outdated", "start"]


# The objects with which code makes Python's values: older code may still use them.
_environments: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class _Noting(event.Listener):  # type: ignore[misc]
    """Listens to the beginning and end of Numba's compilations; Numba holds its lock between them."""

    def __init__(self) -> None:
        self._begun: dict[int, Callable[[Any], None]] = {}  # by the identity of what both events have

    def on_start(self, event: Any) -> None:
        self._begun[id(event.data)] = note_before(event.data["dispatcher"])

    def on_end(self, event: Any) -> None:
        note = self._begun.pop(id(event.data), None)
        overload = event.data["dispatcher"].overloads.get(tuple(event.data["args"]))
        if note is not None and overload is not None:
            note(overload)
            if (library := getattr(overload, "library", None)) is not None:
                _environments[library] = getattr(overload, "environment", None)


def start() -> None:
    """Listen from now on."""
    event.register("numba:compile", _Noting())


@contextmanager
def nothing_outdated() -> Iterator[None]:
    """Make Numba compile cached helpers again if they use other code, whose changes its cache does not notice.

    The caller holds the lock of Numba's cache.
    """
    load = caching.Cache.load_overload

    def load_overload(self: Any, *arguments: Any) -> Any:
        return load(self, *arguments) if needs_nothing_else(self._py_func) else None

    caching.Cache.load_overload = load_overload
    try:
        yield
    finally:
        caching.Cache.load_overload = load
