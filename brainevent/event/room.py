# SPDX-License-Identifier: Apache-2.0
"""Is there room for a result? Asked before work begins that could only end when memory is full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._compat import is_tracing
from .structure import places_are_wide

__all__ = ["check_array", "check_places", "check_room", "in_bytes"]

_MEMORY = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")  # of the container, where there is one
_INT32 = 2**31
_SMALL = 2**26  # bytes for which nobody is asked
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")


def check_array(where: str, shape: Sequence[int], dtype: Any) -> None:
    """Raise if an array of this shape does not fit; in a trace that may be compiled for another machine."""
    if not is_tracing():
        elements = math.prod(shape)
        check_room(
            where, f"an array of shape {tuple(shape)}, {elements} elements,", elements * np.dtype(dtype).itemsize
        )


def check_room(where: str, what: str, size: int, *, on_host: bool = False) -> None:
    """Raise if so many bytes do not fit: the host's memory, if that is where they go, and the device's."""
    if size < _SMALL:
        return
    for name, most in _limits(on_host):
        if size > most:
            raise MemoryError(
                f"{where}: {what} would take {in_bytes(size)}, and {in_bytes(most)} of {name}'s memory are "
                f"{'available' if name == 'the host' else 'all that there is'}; ask for less"
            )


def check_places(where: str, what: str, count: int) -> None:
    """Raise if row pointers for so many elements need int64, which JAX has not been told to allow."""
    if count >= _INT32 and not places_are_wide():
        raise ValueError(
            f"{where}: {what} are at least {_INT32}, the first number that int32 row pointers do not hold; "
            'jax.config.update("jax_enable_x64", True) allows int64'
        )


def in_bytes(size: int) -> str:
    """Write a number of bytes as people do.

    >>> in_bytes(999), in_bytes(4_398_046_511_104)
    ('999 bytes', '4.4 TB')
    """
    power = min((len(str(size)) - 1) // 3, len(_UNITS) - 1)
    return f"{size / 1000**power:.3g} {_UNITS[power]}" if power else f"{size} bytes"


def _limits(on_host: bool) -> list[tuple[str, int]]:
    """Return the memories that count, with how much each has, as far as that can be known."""
    device = jax.devices()[0]
    found = []
    if (on_host or device.platform == "cpu") and (most := _available()) is not None:
        found.append(("the host", most))
    if most := (device.memory_stats() or {}).get("bytes_limit"):
        found.append((str(device), int(most)))
    return found


def _available() -> int | None:
    """Return how many bytes a process can still get without swapping, or None where nobody tells."""
    try:
        lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    try:
        most, used = (int((_GROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
    except (OSError, ValueError):  # no container, or one without a limit, which says "max"
        return free
    return max(0, min(free, most - used))
