# SPDX-License-Identifier: Apache-2.0
"""Data to measure values of synapses times values of neurons with, and the bytes that a call must move."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from ...bench.record import BenchmarkConfig

__all__ = ["of"]

_SIZES = ((4000, 80), (20_000, 200))  # neurons, and targets of each
_BATCH = 4


def of(*, batched: bool) -> Callable[..., list[BenchmarkConfig]]:
    """Return a function that makes data: random targets, values of rows and of columns."""
    batch = (_BATCH,) if batched else ()

    def data(*, platform: str) -> list[BenchmarkConfig]:
        configs = []
        for n, fan_out in _SIZES:
            indices = jnp.asarray(np.random.default_rng(0).integers(0, n, n * fan_out, np.int32))
            indptr = jnp.arange(n + 1, dtype=jnp.int32) * fan_out
            y, w = jnp.ones((*batch, n)), jnp.ones((*batch, indices.size))
            for transpose in (False, True):
                structure = indices if transpose else indptr
                configs.append(
                    BenchmarkConfig(
                        f"{n} x {fan_out}{', transpose' * transpose}",
                        (y, w, indices, indptr),
                        {"shape": (n, n), "transpose": transpose},
                        {"n": n, "fan_out": fan_out},
                        bytes=structure.nbytes + y.nbytes + 2 * w.nbytes,
                    )
                )
        return configs

    return data
