# SPDX-License-Identifier: Apache-2.0
"""Empty the caches of a processor by writing more data than they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from .chain import device_of

__all__ = ["Flush", "cache_bytes", "flush_bytes"]

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_GPU_BYTES = 256 << 20  # twice the largest second-level cache that GPUs have today
_UNKNOWN_BYTES = 64 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_bytes(folder: Path = _CACHES) -> int | None:
    """Return the size of the largest cache of this CPU; None if it is not known."""
    sizes = [re.fullmatch(r"(\d+)([KMG]?)", path.read_text().strip()) for path in folder.glob("index*/size")]
    return max((int(size[1]) * _UNITS[size[2]] for size in sizes if size), default=None)


def flush_bytes(device: jax.Device) -> int:
    """Return the number of bytes to write so that nothing else stays in the caches of a device."""
    return 2 * (cache_bytes() or _UNKNOWN_BYTES) if device.platform == "cpu" else _GPU_BYTES


@dataclass
class Flush:
    """A buffer that is larger than the caches; `run` writes all of it."""

    buffer: jax.Array

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> Flush:
        """Make the buffer on the device where the first of the arrays is, or else on the default device."""
        device = device_of(arrays)
        return cls(jnp.zeros(flush_bytes(device), jnp.uint8, device=device))

    def run(self) -> None:
        """Write the buffer, and wait until that is done."""
        self.buffer = jax.block_until_ready(_written(self.buffer))


_written = jax.jit(lambda buffer: buffer + jnp.uint8(1), donate_argnums=0)
