# SPDX-License-Identifier: Apache-2.0
"""Settings: whether programs report indices that are out of range."""

from __future__ import annotations

from contextlib import AbstractContextManager

from .switch import Switch

__all__ = ["DEBUG_INDICES", "debug_indices", "is_debugging_indices"]

DEBUG_INDICES = "BRAINEVENT_DEBUG_INDICES"
_switch = Switch(DEBUG_INDICES)


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
    return _switch.choose("debug_indices", on)


def is_debugging_indices() -> bool:
    """Return whether programs report indices that are out of range.

    Returns:
        What `debug_indices` chose.

    Examples:
        >>> import brainevent
        >>> brainevent.config.is_debugging_indices()
        False
    """
    return _switch.is_on()
