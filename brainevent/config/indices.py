# SPDX-License-Identifier: Apache-2.0
"""Settings: whether programs report indices that are out of range."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from .. import _jit_key

__all__ = ["DEBUG_INDICES", "debug_indices", "is_debugging_indices"]

DEBUG_INDICES = "BRAINEVENT_DEBUG_INDICES"
# The calls' choices for the process, each with a token to undo it; the latest is valid.
_debug_indices: list[tuple[object, bool]] = [(None, False)]
_debug_lock = threading.Lock()
_MOST_SWITCHES = 64  # that can still be undone


def debug_indices(on: bool = True) -> AbstractContextManager[None]:
    """Let programs report indices and row pointers that are out of range; kernels ignore them otherwise.

    The program then fails as it runs, with an error that names the function or matrix, the array, the index and its
    place. The environment variable `BRAINEVENT_DEBUG_INDICES=1` does the same. Functions that are already jitted follow
    at their next call, and nothing is added to a program while it is off.

    Args:
        on: Whether to report them.

    Returns:
        A context manager. The choice holds for the whole process, or, in a `with` statement, for the block and this
        thread.

    Raises:
        TypeError: If `on` is not a boolean.

    Examples:
        >>> import brainevent
        >>> with brainevent.config.debug_indices():
        ...     brainevent.config.is_debugging_indices()
        True
        >>> brainevent.config.is_debugging_indices()
        False
    """
    if not isinstance(on, bool):
        raise TypeError(f"config.debug_indices: on must be True or False, found {on!r}")
    return _DebugIndices(on)


def is_debugging_indices() -> bool:
    """Return whether programs report indices that are out of range.

    Returns:
        What `debug_indices` chose.

    Examples:
        >>> import brainevent
        >>> brainevent.config.is_debugging_indices()
        False
    """
    if (here := dict(_jit_key.block_choices()).get(DEBUG_INDICES)) is not None:
        return here == "on"
    _jit_key.ask(DEBUG_INDICES, lambda: _debug_indices[-1][1])
    return _debug_indices[-1][1]


def _switch_debug_indices(add: tuple[object, bool] | None = None, remove: object = None) -> None:
    """Add a call's choice for the process, or undo it: the latest choice that is not undone is valid."""
    with _debug_lock:
        before = _debug_indices[-1][1]
        if add is not None:
            _debug_indices.append(add)
            if oldest := _debug_indices[1:-_MOST_SWITCHES]:
                _debug_indices[: len(oldest) + 1] = [(None, oldest[-1][1])]
        _debug_indices[1:] = [entry for entry in _debug_indices[1:] if entry[0] is not remove]
        changed = before != _debug_indices[-1][1]
    if changed:
        _jit_key.refresh(DEBUG_INDICES)


class _DebugIndices(AbstractContextManager[None]):
    """Sets it for the process, or in a `with` statement for the block and this thread."""

    def __init__(self, on: bool):
        self._on, self._blocks, self._said = on, ExitStack(), object()
        _switch_debug_indices(add=(self._said, on))

    def __enter__(self) -> None:
        _switch_debug_indices(remove=self._said)
        self._blocks.enter_context(_jit_key.within_block(DEBUG_INDICES, "on" if self._on else "off"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocks.pop_all().__exit__(kind, error, trace)
