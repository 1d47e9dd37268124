# SPDX-License-Identifier: Apache-2.0
"""How many bytes per second a device reads and writes, measured once per process by a copy."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from .cold import flush_bytes
from .measure import measure

__all__ = ["measured_bandwidth"]


@functools.cache
def measured_bandwidth(device: jax.Device) -> float:
    """Return the bytes per second of a loop that negates numbers of twice the size of the caches."""
    numbers = jnp.zeros(flush_bytes(device) // 4, jnp.float32, device=device)
    # Many calls per run: the first touch of fresh memory would else be most of it.
    found = measure(jnp.negative, (numbers,), n_warmup=1, n_runs=5, n_batch_per_run=20)
    return 2 * numbers.nbytes / min(found.samples)
