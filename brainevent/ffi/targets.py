# SPDX-License-Identifier: Apache-2.0
"""Names of native targets, their registration with XLA, and their lifetime: that of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax

from .portable import TARGET

__all__ = ["export_checks", "register_once"]

_registered: dict[tuple[str, str], Any] = {}
_lock = threading.Lock()


def register_once(name: str, platform: str, address: Callable[[], int], keep: Any = None) -> None:
    """Register `address()` as the target `name`, unless that was done; `keep` stays alive, as XLA's pointer does."""
    with _lock:
        if (name, platform) in _registered:
            return
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address()), platform=platform)
        _registered[name, platform] = keep


def export_checks() -> list[Any]:
    """Return the checks that `jax.export.export(f, disabled_checks=...)` must leave out for our native kernels.

    JAX promises stability only for its own custom calls, and so refuses others unless told.
    """
    with _lock:
        names = [TARGET, *dict.fromkeys(name for name, _ in _registered)]
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]
