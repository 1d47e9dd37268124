# SPDX-License-Identifier: Apache-2.0
"""What JAX says of the GPUs at hand."""

from __future__ import annotations

import jax

__all__ = ["cuda_capabilities"]


def cuda_capabilities() -> tuple[str, ...]:
    """Return ("9.0", "9.0") for two devices; raise what JAX raises where there is none."""
    return tuple(str(device.compute_capability) for device in jax.devices("cuda"))
