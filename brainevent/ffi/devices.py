# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this machine, from JAX."""

from __future__ import annotations

import jax

__all__ = ["cuda_capabilities", "cuda_multiprocessors"]

_OF_LARGE_ONES = 132


def cuda_capabilities() -> tuple[str, ...]:
    """Return ("9.0", "9.0") for two devices; raise JAX's error if there is none."""
    return tuple(str(device.compute_capability) for device in jax.devices("cuda"))


def cuda_multiprocessors() -> int:
    """Return the number of the first device, or without a device, as in an export, that of a large one."""
    try:
        return int(jax.devices("cuda")[0].core_count)
    except (RuntimeError, AttributeError):
        return _OF_LARGE_ONES
