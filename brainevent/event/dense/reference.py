# SPDX-License-Identifier: Apache-2.0
"""What products of a dense matrix with events are, in `jax.numpy`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..activity import weighted
from ..precision import precise

__all__ = ["product"]


def product(weights: Any, x: Any, *, transpose: bool) -> jax.Array:
    """Return `weights @ x`, or `weights.T @ x`, of events x: a vector, or a matrix with one per column."""
    turned = (weights.T if transpose else weights).astype(precise(weights.dtype))
    return weighted(jnp.expand_dims(turned, range(2, x.ndim + 1)), x).sum(1).astype(weights.dtype)
