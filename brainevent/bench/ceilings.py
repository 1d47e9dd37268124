# SPDX-License-Identifier: Apache-2.0
"""The limits of a device, measured once per process: bytes per second by a copy, operations by a matrix product."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from .cold_caches import flush_bytes
from .measure import measure

__all__ = ["measured_bandwidth", "measured_flops"]

_CPU_SIDE, _GPU_SIDE = 2048, 8192  # of square matrices: the product takes milliseconds, and its call microseconds


@functools.cache
def measured_bandwidth(device: jax.Device) -> float:
    """Return the bytes per second of a loop that negates numbers of twice the size of the caches."""
    numbers = jnp.zeros(flush_bytes(device) // 4, jnp.float32, device=device)
    # Many calls per run: otherwise most of the time is the first access to new memory.
    found = measure(jnp.negative, (numbers,), n_warmup=1, n_runs=5, n_batch_per_run=20)
    return 2 * numbers.nbytes / min(found.samples)


@functools.cache
def measured_flops(device: jax.Device) -> float:
    """Return the floating-point operations per second of a product of square float32 matrices, in full precision."""
    side = _CPU_SIDE if device.platform == "cpu" else _GPU_SIDE
    matrix = jnp.full((side, side), 1 / side, jnp.float32, device=device)
    product = jax.jit(functools.partial(jnp.matmul, precision="highest"))  # otherwise a GPU rounds the operands
    found = measure(product, (matrix, matrix), n_warmup=1, n_runs=5)
    return 2 * side**3 / min(found.samples)
