# SPDX-License-Identifier: Apache-2.0
"""What programs say whose arrays are not where the native code of their network runs."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["OnCpu", "OnGpu"]


class OnCpu:
    """A target of a network with `backend="numba"`."""

    owner: ClassVar[str] = "simulate: a network that was built with backend='numba'"
    instead: ClassVar[str] = (
        "pass arrays that are on the CPU, for example within jax.default_device(jax.devices('cpu')[0]), or build the "
        "network with backend='cuda' or 'jax'"
    )


class OnGpu:
    """A target of a network with `backend="cuda"`."""

    owner: ClassVar[str] = "simulate: a network that was built with backend='cuda'"
    instead: ClassVar[str] = "pass arrays that are on the GPU, or build the network with backend='numba' or 'jax'"
