# SPDX-License-Identifier: Apache-2.0
"""Data to measure the operators on matrices in compressed sparse rows with, and the bytes that a call must move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...bench.record import BenchmarkConfig

__all__ = ["of_elements", "of_products", "of_slices"]

_SIZES = ((4000, 80), (20_000, 200))  # neurons, and targets of each
_ACTIVE = (0.01, 0.1)
_COLUMNS = 16

Data = Callable[..., list[BenchmarkConfig]]


def _network(n: int, fan_out: int) -> tuple[jax.Array, jax.Array]:
    """Return indices and row pointers of random targets."""
    indices = jnp.asarray(np.random.default_rng(0).integers(0, n, n * fan_out, np.int32))
    return indices, jnp.arange(n + 1, dtype=jnp.int32) * fan_out


def of_products(*, columns: bool, event: bool, indexed: bool) -> Data:
    """Return a function that makes data: random targets, one weight and many, both directions, few events and many."""

    def data(*, platform: str) -> list[BenchmarkConfig]:
        configs = []
        for n, fan_out in _SIZES:
            indices, indptr = _network(n, fan_out)
            perm = [jnp.asarray(np.random.default_rng(2).permutation(indices.size), jnp.int32)] if indexed else []
            for active in _ACTIVE if event else (1.0,):
                drawn = np.random.default_rng(1).random((n, _COLUMNS) if columns else n) < active
                x = jnp.asarray(drawn, bool if event else jnp.float32)
                for weights, kind in ((jnp.ones(1), "one weight"), (jnp.ones(indices.shape), "weights")):
                    for transpose in (True, False):
                        rows = int(drawn.reshape(n, -1).any(1).sum()) if transpose else n
                        each = 4 + 4 * (weights.size > 1) * (1 + indexed)
                        configs.append(
                            BenchmarkConfig(
                                f"{n} x {fan_out} active={active:g} {kind}{', transpose' * transpose}",
                                (weights, indices, indptr, *perm, x),
                                {"shape": (n, n), "transpose": transpose},
                                {"n": n, "fan_out": fan_out, "active": active},
                                bytes=x.nbytes + 32 * rows + rows * fan_out * each + 8 * x.size,
                            )
                        )
        return configs

    return data


def of_elements(*, platform: str) -> list[BenchmarkConfig]:
    """Make data for the products of each stored element."""
    configs = []
    for n, fan_out in _SIZES:
        indices, indptr = _network(n, fan_out)
        for columns in (1, _COLUMNS):
            sides = (jnp.ones((n, columns)), jnp.ones((n, columns)))
            moved = 2 * indices.nbytes + indptr.nbytes + 2 * sides[0].nbytes
            configs.append(
                BenchmarkConfig(
                    f"{n} x {fan_out} columns={columns}",
                    (indices, indptr, *sides),
                    {},
                    {"n": n, "fan_out": fan_out, "columns": columns},
                    bytes=moved,
                )
            )
    return configs


def of_slices(*, grad: bool) -> Data:
    """Return a function that makes data: a hundredth of the rows, dense; or such rows, added to the elements."""

    def data(*, platform: str) -> list[BenchmarkConfig]:
        configs = []
        for n, fan_out in _SIZES:
            indices, indptr = _network(n, fan_out)
            chosen = jnp.arange(0, n, 100, dtype=jnp.int32)
            operands: tuple[Any, ...] = (jnp.ones(indices.shape), indices, indptr, chosen)
            if grad:
                operands = (indices, indptr, chosen, jnp.ones((chosen.size, n)))
            written = 4 * indices.size if grad else 4 * chosen.size * n
            configs.append(
                BenchmarkConfig(
                    f"{n} x {fan_out} rows={chosen.size}",
                    operands,
                    {"shape": (n, n)},
                    {"n": n, "fan_out": fan_out},
                    bytes=written + chosen.size * (32 + 12 * fan_out),
                )
            )
        return configs

    return data
