# SPDX-License-Identifier: Apache-2.0
"""Settings: whether programs for the CPU may run kernels for GPUs and TPUs."""

from __future__ import annotations

import os
from collections.abc import Callable

from .. import _jit_key

__all__ = ["EMULATE", "call_when_emulating", "emulate", "emulates", "is_emulating"]

EMULATE = "BRAINEVENT_EMULATE"
_emulating: bool = False
_called: list[Callable[[bool], None]] = []


def emulate(on: bool = True) -> None:
    """Let programs for the CPU run kernels for GPUs and TPUs, in languages that can be emulated.

    `brainevent doctor` lists these languages. The environment variable `BRAINEVENT_EMULATE=1` does the same. Functions
    that are already jitted use the setting from their next call. For Numba-CUDA, call it before `numba.cuda` is
    imported: this import decides whether `numba.cuda` is a simulator.

    Args:
        on: Whether to emulate.

    Raises:
        TypeError: If `on` is not a boolean.

    Examples:
        >>> import brainevent
        >>> brainevent.config.emulate()
        >>> brainevent.config.is_emulating()
        True
        >>> brainevent.config.emulate(False)
    """
    global _emulating
    if not isinstance(on, bool):
        raise TypeError(f"config.emulate: on must be True or False, found {on!r}")
    changed, _emulating = on != _emulating, on
    if on:  # child processes inherit the setting
        os.environ[EMULATE] = "1"
    else:
        os.environ.pop(EMULATE, None)
    for function in _called:
        function(on)
    if changed:
        _jit_key.refresh()


def is_emulating() -> bool:
    """Return whether programs for the CPU may run kernels for GPUs and TPUs.

    Returns:
        What `emulate` chose.

    Examples:
        >>> import brainevent
        >>> brainevent.config.is_emulating()
        False
    """
    _jit_key.ask("emulating", lambda: _emulating)
    return _emulating


def emulates() -> bool:
    """Return the setting, without making it part of compiled programs."""
    return _emulating


def call_when_emulating(function: Callable[[bool], None]) -> None:
    """Call a function with True and False when emulation is switched on and off; it may be on already."""
    _called.append(function)
    if _emulating:
        function(True)
