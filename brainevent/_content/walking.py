# SPDX-License-Identifier: Apache-2.0
"""What functions that walk one kind of value need of a walk: its state, and how to continue it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

__all__ = ["Walking"]


class Walking(ABC):
    """The state of a walk, as far as it concerns functions for Numba."""

    def __init__(self, anew: Any, as_written: bool) -> None:
        self.anew, self.as_written = anew, as_written
        self.fleeting = False  # whether the name is one of this process
        self.known: dict[int, tuple[Any, tuple[bytes, ...]]] = {}  # of functions for Numba: what they are
        self.open: dict[int, int] = {}  # those that are being walked
        self.recursive: set[int] = set()

    @abstractmethod
    def parts(self, value: Any) -> Iterator[bytes]:
        """Yield the content of a value."""

    @abstractmethod
    def apart(self, parts: Iterator[bytes]) -> bytes:
        """Return the digest of parts that are walked by themselves: it is the same wherever they are met."""

    @abstractmethod
    def taught(self) -> bytes | None:
        """Return the digest of what any kernel may use; b"" if there is nothing, None while that is walked itself."""
