# SPDX-License-Identifier: Apache-2.0
"""Show on a terminal how far a long run has come."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

__all__ = ["shown"]

_Item = TypeVar("_Item")


def shown(items: Sequence[_Item], what: str, *, quiet: bool = False) -> Iterator[_Item]:
    """Go through the items under a bar, if stderr is a terminal and tqdm is installed.

    >>> list(shown([1, 2], "doc"))
    [1, 2]
    """
    yield from items if quiet or not sys.stderr.isatty() else _barred(items, what)


def _barred(items: Sequence[_Item], what: str) -> Iterable[_Item]:
    try:
        tqdm = importlib.import_module("tqdm").tqdm  # it need not be there, nor its types
    except ImportError:
        return items
    bar: Iterable[_Item] = tqdm(items, desc=what, leave=False)
    return bar
