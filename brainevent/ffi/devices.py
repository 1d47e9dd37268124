# SPDX-License-Identifier: Apache-2.0
"""What JAX says of the GPUs at hand."""

from __future__ import annotations

import jax

__all__ = ["cuda_capabilities", "cuda_multiprocessors"]

_OF_LARGE_ONES = 132


def cuda_capabilities() -> tuple[str, ...]:
    """Return ("9.0", "9.0") for two devices; raise what JAX raises where there is none."""
    return tuple(str(device.compute_capability) for device in jax.devices("cuda"))


def cuda_multiprocessors() -> int:
    """Return how many a device has: the first one, or a large one where there is none to ask, as when one exports."""
    try:
        return int(jax.devices("cuda")[0].core_count)
    except (RuntimeError, AttributeError):
        return _OF_LARGE_ONES
