# SPDX-License-Identifier: Apache-2.0
"""In what numbers sums of weights are made."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

__all__ = ["precise"]


def precise(dtype: Any) -> Any:
    """Return the type of sums of weights of a dtype: 16 bits would lose what a long sum needs."""
    return jnp.promote_types(dtype, jnp.float32)
