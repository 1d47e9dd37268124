# SPDX-License-Identifier: Apache-2.0
"""Show on a terminal how far a long run has come."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from .words import time_text

__all__ = ["PlainBar", "counted", "shown"]

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


@contextmanager
def counted(total: int, what: str, unit: str, *, quiet: bool = False) -> Iterator[Callable[[int], object]]:
    """Give a function that is told how many more are done, and show that on stderr: as a bar of tqdm, else in words.

    >>> with counted(100, "network", "steps", quiet=True) as update:
    ...     update(60)
    """
    if quiet:
        yield lambda n: None
        return
    try:
        auto = importlib.import_module("tqdm.auto")  # a widget in a notebook
    except ImportError:
        bar: Any = PlainBar(total, what, unit)
    else:
        bar = auto.tqdm(total=total, desc=what, unit=f" {unit}", unit_scale=True)
    try:
        yield bar.update
    finally:
        bar.close()


class PlainBar:
    """A line of text on stderr that is written over, or, in a file, a line for each tenth."""

    def __init__(self, total: int, what: str, unit: str):
        self.total, self.what, self.unit = total, what, unit
        self.done = self.tenths = 0
        self.began = time.perf_counter()

    def update(self, n: int) -> None:
        """Note that n more are done."""
        self.done += n
        ran = time.perf_counter() - self.began
        left = f", {time_text(ran * (self.total - self.done) / self.done)} left" if 0 < self.done < self.total else ""
        share = f"{100 * self.done // self.total} %"
        line = f"{self.what}: {self.done} of {self.total} {self.unit}, {share} in {time_text(ran)}{left}"
        tenths = 10 * self.done // self.total
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{line:<79}")
        elif tenths > self.tenths:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
        self.tenths = tenths

    def close(self) -> None:
        """End the line."""
        if sys.stderr.isatty():
            sys.stderr.write("\n")
