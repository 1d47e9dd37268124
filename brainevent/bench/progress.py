# SPDX-License-Identifier: Apache-2.0
"""Show the progress of a long run on a terminal."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from .words import time_text

__all__ = ["Overall", "PlainBar", "counted", "overall", "shown"]

_Item = TypeVar("_Item")
_LINE = 79
_BAR = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
_running: ContextVar[Overall | None] = ContextVar("overall progress", default=None)


def shown(items: Sequence[_Item], what: str, *, quiet: bool = False) -> Iterator[_Item]:
    """Iterate over items and show the progress on stderr, if it is a terminal; within `overall`, as a part of it.

    >>> list(shown([1, 2], "doc"))
    [1, 2]
    """
    if (whole := _running.get()) is not None:
        for item in items:
            yield item
            whole.advance(1 / len(items))
    elif quiet or not sys.stderr.isatty():
        yield from items
    else:
        with overall([what]) as whole:
            whole.begin(what)
            yield from shown(items, what)


class Overall:
    """One bar for several runs, each of which may report its own items: of tqdm, else a line of text."""

    def __init__(self, names: Sequence[str]):
        self.names = list(names)
        self.at, self.share = -1, 0.0  # the run that is under way, and how much of it is done
        self.bar = _bar(len(names)) if names and sys.stderr.isatty() else None

    def begin(self, name: str) -> str:
        """Note that a run begins, and return its title: "name (2 of 3)"."""
        self.at, self.share = self.names.index(name), 0.0
        several = len(self.names) > 1
        words = f"{name} ({self.at + 1} of {len(self.names)})" if several else name
        if self.bar is not None:
            self.bar.set_description_str(words)
            self._show()
        return words

    def advance(self, share: float) -> None:
        """Note that a further share of the run is done."""
        self.share = min(self.share + share, 1.0)
        self._show()

    def pause(self) -> None:
        """Remove the bar from the terminal, so that something can be printed; the next step shows it again."""
        if self.bar is not None:
            self.bar.clear()

    def _show(self) -> None:
        if self.bar is not None:
            self.bar.n = self.at + self.share
            self.bar.refresh()

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.close()


@contextmanager
def overall(names: Sequence[str]) -> Iterator[Overall]:
    """Show the common progress of several runs on a terminal; within it, `shown` reports to it.

    >>> with overall(["one", "two"]) as progress:
    ...     progress.begin("two")
    'two (2 of 2)'
    """
    whole = Overall(names)
    token = _running.set(whole)
    try:
        yield whole
    finally:
        _running.reset(token)
        whole.close()


def _bar(total: int) -> Any:
    try:
        tqdm = importlib.import_module("tqdm").tqdm  # it need not be there, nor its types
    except ImportError:
        return _Line(total)
    return tqdm(total=total, bar_format=_BAR, leave=False)


class _Line:
    """A substitute for a bar of tqdm: one line of text that is overwritten."""

    def __init__(self, total: int):
        self.total, self.n, self.words = total, 0.0, ""
        self.began = time.perf_counter()

    def set_description_str(self, words: str) -> None:
        self.words = words

    def refresh(self) -> None:
        ran, share = time.perf_counter() - self.began, self.n / self.total
        left = f", about {time_text(ran * (1 - share) / share)} left" if share else ""
        sys.stderr.write(f"\r\x1b[K{self.words}: {100 * share:.0f} % in {time_text(ran)}{left}"[: _LINE + 4])
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    close = clear


@contextmanager
def counted(total: int, what: str, unit: str, *, quiet: bool = False) -> Iterator[Callable[[int], object]]:
    """Yield a function that counts finished items, and show the progress on stderr: with tqdm, or as text.

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
    """A line of text on stderr that is overwritten, or, in a file, a line for each tenth."""

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
