# SPDX-License-Identifier: Apache-2.0
"""Names of native targets, their registration with XLA, and their lifetime: that of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax

__all__ = ["register_once"]

_registered: dict[tuple[str, str], Any] = {}
_lock = threading.Lock()


def register_once(name: str, platform: str, address: Callable[[], int], keep: Any = None) -> None:
    """Register `address()` as the target `name`, unless that was done; `keep` stays alive, as XLA's pointer does."""
    with _lock:
        if (name, platform) in _registered:
            return
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address()), platform=platform)
        _registered[name, platform] = keep
