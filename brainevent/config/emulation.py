# SPDX-License-Identifier: Apache-2.0
"""Settings: whether programs for the CPU may run kernels for GPUs and TPUs."""

from __future__ import annotations

import os
import sys

from .. import _jit_key

__all__ = ["EMULATE", "emulate", "emulates", "is_emulating"]

EMULATE = "BRAINEVENT_EMULATE"
_SIMULATE = "NUMBA_ENABLE_CUDASIM"  # Numba reads it once, when numba.cuda is imported
_emulating: bool = False
_simulator_asked_for: bool = False  # set by us in that variable


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
    _simulate_numba_cuda(on)
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


def _simulate_numba_cuda(on: bool) -> None:
    """Make `numba.cuda` Numba's simulator, or not, if it is not imported yet and the user has not chosen."""
    global _simulator_asked_for
    if "numba.cuda" in sys.modules or (_SIMULATE in os.environ) != _simulator_asked_for or on == _simulator_asked_for:
        return
    if on:
        os.environ[_SIMULATE] = "1"
    else:
        del os.environ[_SIMULATE]
    _simulator_asked_for = on
    if (numba_config := sys.modules.get("numba.core.config")) is not None:  # it has already read the environment
        numba_config.ENABLE_CUDASIM = int(on)  # type: ignore[attr-defined]
