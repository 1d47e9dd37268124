# SPDX-License-Identifier: Apache-2.0
"""The interface of a walk for functions that walk one kind of value: its state, and how to continue it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

__all__ = ["Walking"]


class Walking(ABC):
    """The part of a walk's state that concerns functions for Numba."""

    def __init__(self, anew: Any, as_written: bool) -> None:
        self.anew, self.as_written = anew, as_written
        self.fleeting = False  # whether the name is one of this process
        self.known: dict[int, tuple[Any, tuple[bytes, ...]]] = {}  # of functions for Numba: what they are
        self.open: dict[int, int] = {}  # those that are being walked
        self.recursive: set[int] = set()
        self.extending = 0  # extensions of Numba around: their functions run when Numba compiles

    @abstractmethod
    def parts(self, value: Any) -> Iterator[bytes]:
        """Yield the content of a value."""

    @abstractmethod
    def apart(self, parts: Iterator[bytes]) -> bytes:
        """Return the digest of parts that are walked separately: it does not depend on the context."""

    @abstractmethod
    def taught(self) -> bytes | None:
        """Return the digest of extensions that any kernel can use; b"" if there are none, None during that walk."""
