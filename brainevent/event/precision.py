# SPDX-License-Identifier: Apache-2.0
"""The dtype of sums of weights."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

__all__ = ["precise"]


def precise(dtype: Any) -> Any:
    """Return the dtype of sums of weights of a dtype: 16 bits are too few for a long sum."""
    return jnp.promote_types(dtype, jnp.float32)
