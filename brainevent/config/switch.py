# SPDX-License-Identifier: Apache-2.0
"""Settings that are on or off: for the whole process by a call, and for a block and its thread by `with`."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from .. import _jit_key

__all__ = ["Switch"]

_MOST_SWITCHES = 64  # that can still be undone


class Switch:
    """A setting, off at first; `name` is that of its environment variable, and its question in JIT keys."""

    def __init__(self, name: str):
        self.name = name
        # The calls' choices for the process, each with a token to undo it; the latest is valid.
        self._choices: list[tuple[object, bool]] = [(None, False)]
        self._lock = threading.Lock()

    def choose(self, function: str, on: bool) -> AbstractContextManager[None]:
        """Set it for the process, or in a `with` statement for the block and this thread."""
        if not isinstance(on, bool):
            raise TypeError(f"config.{function}: on must be True or False, found {on!r}")
        return _Choice(self, on)

    def is_on(self) -> bool:
        """Return the setting here and now, and make it part of the program that is traced."""
        if (here := dict(_jit_key.block_choices()).get(self.name)) is not None:
            return here == "on"
        _jit_key.ask(self.name, lambda: self._choices[-1][1])
        return self._choices[-1][1]

    def change(self, add: tuple[object, bool] | None = None, remove: object = None) -> None:
        """Add a call's choice for the process, or undo it: the latest choice that is not undone is valid."""
        with self._lock:
            before = self._choices[-1][1]
            if add is not None:
                self._choices.append(add)
                if oldest := self._choices[1:-_MOST_SWITCHES]:
                    self._choices[: len(oldest) + 1] = [(None, oldest[-1][1])]
            self._choices[1:] = [entry for entry in self._choices[1:] if entry[0] is not remove]
            changed = before != self._choices[-1][1]
        if changed:
            _jit_key.refresh(self.name)


class _Choice(AbstractContextManager[None]):
    """Sets a switch for the process, or in a `with` statement for the block and this thread."""

    def __init__(self, switch: Switch, on: bool):
        self._switch, self._on, self._blocks, self._said = switch, on, ExitStack(), object()
        switch.change(add=(self._said, on))

    def __enter__(self) -> None:
        self._switch.change(remove=self._said)
        self._blocks.enter_context(_jit_key.within_block(self._switch.name, "on" if self._on else "off"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocks.pop_all().__exit__(kind, error, trace)
