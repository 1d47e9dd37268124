# SPDX-License-Identifier: Apache-2.0
"""Is there enough memory for a result? Checked before work begins that would end with memory full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._compat import is_tracing
from .structure import places_are_wide

__all__ = ["check_array", "check_host_room", "check_places", "check_room", "in_bytes"]

_MEMORY = Path("/proc/meminfo")
_OWN = Path("/proc/self/statm")
_GROUP = Path("/sys/fs/cgroup")  # of the container, where there is one
_OLD_GROUP = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"
_GIVEN_BACK = ("inactive_file", "slab_reclaimable")  # what files were read, and what the system remembers of them
_INT32 = 2**31
_SMALL = 2**26  # bytes that are not checked
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")


def check_array(where: str, shape: Sequence[int], dtype: Any) -> None:
    """Raise if an array of this shape does not fit; in a trace that may be compiled for another machine."""
    if not is_tracing():
        elements = math.prod(shape)
        check_room(
            where, f"an array of shape {tuple(shape)}, {elements} elements,", elements * np.dtype(dtype).itemsize
        )


def check_room(
    where: str,
    what: str,
    size: int,
    *,
    on_host: bool = False,
    instead: str = "ask for less",
    each: tuple[int, str] = (0, ""),
) -> None:
    """Raise if `size` bytes do not fit the memory of the device, or with `on_host` that of the host.

    `instead` says what to do. With `each`, the bytes of one of many and their name, the message says how many fit.
    """
    if size < _SMALL:
        return
    for name, most in _limits(on_host):
        fits = f"{most // each[0]} {each[1]} fit: " if each[0] else ""
        _check(where, what, size, name, most, fits + instead)


def check_host_room(where: str, what: str, size: int, instead: str, each: int = 0) -> None:
    """Raise if `size` bytes do not fit the memory of the host, whatever the devices are; `instead` says what to do.

    With `each`, the bytes of one element of many, the message says how many elements fit.
    """
    if size >= _SMALL and (most := _available()) is not None:
        fits = f"{most // each} elements fit: " if each else ""
        _check(where, what, size, "the host", most, fits + instead)


def _check(where: str, what: str, size: int, name: str, most: int, instead: str) -> None:
    if size > most:
        raise MemoryError(
            f"{where}: {what} would take {in_bytes(size)}, but {name} has {in_bytes(most)} of memory "
            f"{'left' if name == 'the host' else 'in all'}; {instead}"
        )


def check_places(where: str, what: str, count: int) -> None:
    """Raise if row pointers for `count` elements need int64, and JAX does not allow int64."""
    if count >= _INT32 and not places_are_wide():
        raise ValueError(
            f"{where}: {what} are {_INT32} or more, which int32 row pointers cannot hold; "
            'jax.config.update("jax_enable_x64", True) allows int64'
        )


def in_bytes(size: int) -> str:
    """Write a number of bytes with a unit.

    >>> in_bytes(999), in_bytes(4_398_046_511_104)
    ('999 bytes', '4.4 TB')
    """
    power = min((len(str(size)) - 1) // 3, len(_UNITS) - 1)
    return f"{size / 1000**power:.3g} {_UNITS[power]}" if power else f"{size} bytes"


def _limits(on_host: bool) -> list[tuple[str, int]]:
    """Return the memories that are used, and the bytes that each has, as far as they are known."""
    chosen: Any = jax.config.values["jax_default_device"]  # a device, or the name of a platform
    device = chosen if isinstance(chosen, jax.Device) else jax.local_devices(backend=chosen)[0]
    found = []
    if (on_host or device.platform == "cpu") and (most := _available()) is not None:
        found.append(("the host", most))
    if most := (device.memory_stats() or {}).get("bytes_limit"):
        found.append((str(device), int(most)))
    return found


def _available() -> int | None:
    """Return how many bytes a process can still get without swapping, or None if that is unknown."""
    try:
        lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    limits = _left(_GROUP, "memory.max", "memory.current"), _left(*_OLD_GROUP), _left_to_process()
    return max(0, min((free, *(left for left in limits if left is not None))))


def _left_to_process() -> int | None:
    """Return how many bytes of addresses this process may still take (`ulimit -v`); None without a limit."""
    import resource  # of Unix alone

    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return None
    try:
        return most - int(_OWN.read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return most


def _left(group: Path, most: str, used: str) -> int | None:
    """Return how many bytes a container may still take, reclaimable ones included; None without a limit."""
    try:
        left = int((group / most).read_text()) - int((group / used).read_text())
    except (OSError, ValueError):  # no container, or one without a limit, which says "max"
        return None
    try:
        lines = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return left + sum(int(lines.get(name, 0)) for name in _GIVEN_BACK)
    except (OSError, ValueError):
        return left
