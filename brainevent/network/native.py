# SPDX-License-Identifier: Apache-2.0
"""What the code of native functions of networks depends on: every file that the files of Numba code import."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["files_of", "sources"]

_PACKAGE = Path(__file__).parents[1]
_ROOMS = [_PACKAGE / "network", _PACKAGE / "scalar"]  # the cache of compiled code looks at `backends/numba` itself
_IMPORT = re.compile(r"^\s*from (\.+)([\w.]*) import (?:\(([\w,\s]*)\)|([\w, ]*))", re.MULTILINE)


@functools.cache
def sources() -> str:
    """Return the hash of our own code that decides what native functions do, besides the texts of rules."""
    files = files_of(sorted(Path(__file__).parent.glob("*/on_*.py")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def files_of(files: list[Path]) -> list[Path]:
    """Return files, and those of networks and of the compiler of rules that they import, directly or not."""
    found = set(files)
    while files:
        files = [new for file in files for new in _imported(file) if new not in found]
        found |= set(files)
    return sorted(found)


def _imported(file: Path) -> Iterator[Path]:
    """Yield the files that a file imports."""
    for dots, module, several, names in _IMPORT.findall(file.read_text()):
        folder = file.parents[len(dots) - 1].joinpath(*filter(None, module.split(".")))
        for path in (folder, *(folder / name.strip() for name in (several or names).split(","))):
            known = path.with_suffix(".py")
            if known.is_file() and any(room in known.parents for room in _ROOMS):
                yield known
