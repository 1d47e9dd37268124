# SPDX-License-Identifier: Apache-2.0
"""Data to measure plasticity with: random connections, few spikes and many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...bench.record import BenchmarkConfig
from ..csr.conversions import csr_to_csc_index

__all__ = ["of"]

_SIZES = ((4000, 80), (10_000, 1000))  # neurons, and connections of each
_DENSE = (1000, 4000)


def of(name: str) -> Callable[..., list[BenchmarkConfig]]:
    """Return a function that makes the data of an operator, by its name."""
    make = {"binary_csr_plast": _rows, "csr2csc_on_post": _columns, "fcn_plasticity_row": _fixed}.get(name)

    def data(*, platform: str) -> list[BenchmarkConfig]:
        if make is None:
            return [_dense(n, active, post="post" in name) for n in _DENSE for active in (0.01, 0.1)]
        return [_sparse(make, n, connections, active) for n, connections in _SIZES for active in (0.01, 0.1)]

    return data


def _sparse(make: Callable[..., Any], n: int, connections: int, active: float) -> BenchmarkConfig:
    random = np.random.default_rng(0)
    indices = np.sort(random.integers(0, n, (n, connections), np.int32))
    spikes, trace = jnp.asarray(random.random(n) < active), jnp.asarray(random.random(n), jnp.float32)
    operands = make(n, connections, indices, spikes, trace)
    changed = int(spikes.sum()) * connections
    return BenchmarkConfig(
        f"{n} x {connections}, active={active:g}",
        (*operands, jnp.zeros(0)),
        {},
        {"n": n, "connections": connections, "active": active},
        bytes=n + 16 * changed,
    )


def _rows(n: int, connections: int, indices: Any, spikes: Any, trace: Any) -> Any:
    pointers = jnp.arange(n + 1, dtype=jnp.int32) * connections
    return jnp.ones(indices.size), jnp.asarray(indices.reshape(-1)), pointers, spikes, trace


def _columns(n: int, connections: int, indices: Any, spikes: Any, trace: Any) -> Any:
    weights, columns, pointers, *_ = _rows(n, connections, indices, spikes, trace)
    starts, rows, places = csr_to_csc_index(pointers, columns, shape=(n, n))
    return weights, rows, starts, places, trace, spikes


def _fixed(n: int, connections: int, indices: Any, spikes: Any, trace: Any) -> Any:
    return jnp.ones(indices.shape), jnp.asarray(indices), spikes, trace


def _dense(n: int, active: float, *, post: bool) -> BenchmarkConfig:
    random = np.random.default_rng(0)
    spikes, trace = jnp.asarray(random.random(n) < active), jnp.asarray(random.random(n), jnp.float32)
    sides = (trace, spikes) if post else (spikes, trace)
    size = int(spikes.sum()) * n * (64 if post else 8)  # of a column, memory sends a whole line for each element
    return BenchmarkConfig(
        f"{n} x {n}, active={active:g}",
        (jnp.ones((n, n)), *sides, jnp.zeros(0)),
        {},
        {"n": n, "active": active},
        bytes=size,
    )
