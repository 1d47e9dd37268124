# SPDX-License-Identifier: Apache-2.0
"""Names of native targets, their registration with XLA, and their lifetime: that of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax

from .portable import TARGET

__all__ = ["export_checks", "register_once"]

_PALLAS = ("__gpu$xla.gpu.triton", "mosaic_gpu_v2")  # what Pallas kernels are on a GPU
_registered: dict[tuple[str, str], None] = {}  # in order
_lock = threading.Lock()


def register_once(name: str, platform: str, address: Callable[[], int]) -> None:
    """Register `address()` as the target `name`, unless that was done; what it points to must live for ever."""
    with _lock:
        if (name, platform) in _registered:
            return
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address()), platform=platform)
        _registered[name, platform] = None


def export_checks() -> list[Any]:
    """Return the checks that `jax.export.export(f, disabled_checks=...)` must leave out for our kernels and Pallas's.

    JAX promises stability only for some of its own custom calls, and refuses others unless told.

    >>> import jax, jax.numpy as jnp, brainevent
    >>> double = brainevent.XLACustomKernel("doc_exported")
    >>> _ = double.def_reference(lambda x: 2 * x)
    >>> program = jax.export.export(jax.jit(double), disabled_checks=brainevent.export_checks())(jnp.ones(2))
    >>> program.call(jnp.arange(2.0))
    Array([0., 2.], dtype=float32)
    """
    with _lock:
        names = [TARGET, *_PALLAS, *dict.fromkeys(name for name, _ in _registered)]
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]
