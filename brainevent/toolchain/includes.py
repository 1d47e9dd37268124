# SPDX-License-Identifier: Apache-2.0
"""The user's own files that a source text includes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["included_files"]

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include(?:_next)?[ \t]*(.*)$", re.MULTILINE)
_HEADERS = (".h", ".hh", ".hpp", ".cuh", ".inl", ".inc")


def included_files(texts: Sequence[str], folders: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) of each file that the texts include from the folders, and those that these include.

    Every branch of every condition is included. If a macro names an included file, all headers in the folders are
    included.
    """
    seen: set[str] = set()
    waiting = [(text, list(folders)) for text in texts]
    while waiting:
        text, places = waiting.pop()
        for match in _INCLUDE.finditer(text):
            named = match[1].strip()
            if named[:1] in ('"', "<"):
                name = named[1:].partition('"' if named[0] == '"' else ">")[0]
                anywhere = [""] if os.path.isabs(name) else places
                found = [path for place in anywhere if os.path.isfile(path := os.path.join(place, name))][:1]
            else:
                found = list(_all_headers(folders))
            for path in found:
                real = os.path.realpath(path)
                if real not in seen:
                    seen.add(real)
                    content = Path(real).read_bytes()
                    yield path, content
                    waiting.append((content.decode(errors="replace"), [os.path.dirname(path), *folders]))


def _all_headers(folders: Sequence[str]) -> Iterator[str]:
    for folder in folders:
        for where, inner, names in os.walk(folder):
            inner.sort()
            yield from (os.path.join(where, name) for name in sorted(names) if name.endswith(_HEADERS))
