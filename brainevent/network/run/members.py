# SPDX-License-Identifier: Apache-2.0
"""The arrays of an npz file from an unknown source: no objects, and only arrays of the expected size are read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

__all__ = ["UNREADABLE", "Members"]

Array = Any
UNREADABLE = (
    *(ValueError, OSError, EOFError, LookupError, TypeError, AttributeError, MemoryError, RecursionError),
    *(NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error),
)
_SMALL = 2**26  # bytes
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Members:
    """The members of an open npz file, by the names of arrays; reading raises one of `UNREADABLE`."""

    def __init__(self, file: IO[bytes]):
        self._archive = zipfile.ZipFile(file)
        self.names = [name.removesuffix(".npy") for name in self._archive.namelist() if name.endswith(".npy")]

    def small(self, name: str) -> Array:
        """Return an array that is small."""
        size = self._archive.getinfo(f"{name}.npy").file_size
        if size > _SMALL:
            raise ValueError(f"{name} takes {size} bytes")
        return self._read(name)

    def tree(self, group: str, like: Mapping[str, Mapping[str, Array]]) -> dict[str, dict[str, Array]]:
        """Return the arrays `group/NAME/KEY` by name and key.

        Those that do not have the dtype and shape of the same array in `like` are not read: all their elements are 0.
        """
        found: dict[str, dict[str, Array]] = {name: {} for name in like}
        for path in self.names:
            if path.startswith(f"{group}/"):
                name, _, key = path.removeprefix(f"{group}/").rpartition("/")
                known = like.get(name, {}).get(key)
                kinds = [] if known is None else [(known.dtype, np.shape(known))]
                found.setdefault(name, {})[key] = self.expected(path, kinds)
        return found

    def expected(self, path: str, kinds: Sequence[tuple[Any, tuple[int, ...]]]) -> Array:
        """Return an array if it is of one of these dtypes and shapes; else one of its dtype and shape, all 0."""
        with self._archive.open(f"{path}.npy") as file:
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
        if (dtype, shape) in kinds:
            return self._read(path)
        return np.broadcast_to(np.zeros((), dtype), shape)

    def _read(self, name: str) -> Array:
        with self._archive.open(f"{name}.npy") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            if file.read(1):
                raise ValueError(f"{name} has more bytes than its array")
        if array.dtype == bool and array.size and array.view(np.uint8).max() > 1:
            raise ValueError(f"{name} has booleans that are neither 0 nor 1")
        return array
