# SPDX-License-Identifier: Apache-2.0
"""`together`: do the same on several GPUs at once, each in a thread, with values that all of them need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["Gather", "Meeting", "alone", "together"]

T = TypeVar("T")
Gather = Callable[[Any], list[Any]]  # from the value of this GPU to those of all


def alone(value: Any) -> list[Any]:
    """Return the values of all GPUs, which are one."""
    return [value]


class Meeting:
    """Where threads, one for each GPU, pass a value and get those of all, as often as each of them comes."""

    def __init__(self, count: int):
        self._barrier = threading.Barrier(count)
        self._values: list[Any] = [None] * count

    def of_all(self, number: int, value: Any) -> list[Any]:
        """Pass the value of one, and return those of all, in their order."""
        self._values[number] = value
        self._barrier.wait()
        found = list(self._values)
        self._barrier.wait()  # before the next values are passed
        return found

    def end(self) -> None:
        """Let all who wait, now or later, raise `threading.BrokenBarrierError`."""
        self._barrier.abort()


def together(names: Sequence[str], act: Callable[[int, Meeting], T]) -> list[T]:
    """Call a function with each number at the same time; return its results, or raise the first error of its own.

    `names` says which GPU an error is of.
    """
    meeting, errors = Meeting(len(names)), dict[int, BaseException]()
    found: list[Any] = [None] * len(names)

    def run(number: int) -> None:
        try:
            found[number] = act(number, meeting)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            errors[number] = error
            meeting.end()

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    own = {k: error for k, error in errors.items() if not isinstance(error, threading.BrokenBarrierError)}
    for number, error in sorted(own.items()):
        error.add_note(f"on {names[number]}")
        raise error
    return found
