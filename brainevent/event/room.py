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
_OLD_GROUP = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"
_GIVEN_BACK = ("inactive_file", "slab_reclaimable")  # what files were read, and what the system remembers of them
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
    chosen: Any = jax.config.values["jax_default_device"]  # a device, or the name of a platform
    device = chosen if isinstance(chosen, jax.Device) else jax.devices(chosen)[0]
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
    rest = (left for left in (_left(_GROUP, "memory.max", "memory.current"), _left(*_OLD_GROUP)) if left is not None)
    return max(0, min((free, *rest)))


def _left(group: Path, most: str, used: str) -> int | None:
    """Return what a container may still take, with what the system would give back; None where there is no limit."""
    try:
        left = int((group / most).read_text()) - int((group / used).read_text())
    except (OSError, ValueError):  # no container, or one without a limit, which says "max"
        return None
    try:
        lines = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return left + sum(int(lines.get(name, 0)) for name in _GIVEN_BACK)
    except (OSError, ValueError):
        return left
