# SPDX-License-Identifier: Apache-2.0
"""What users call for products of a dense matrix with events: it checks the operands, and takes care of units."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...bench.record import BenchmarkConfig
from ...errors import ShapeError
from .. import units
from ..activity import is_active
from ..form import split_operand
from ..operands import checked_weights, checked_x
from .operators import binary_densemm_p, binary_densemv_p

__all__ = ["binary_densemm", "binary_densemv"]


def binary_densemv(weights: Any, spikes: Any, *, transpose: bool = False, backend: str | None = None) -> Any:
    """Sum the weights of who spikes: (m, k) with k spikes -> (m,); if `transpose`, (k, m) with k spikes -> (m,).

    A spike is True, or a number that is not zero, and counts as one. Gradients: by the weights, and by the spikes as if
    each counted as its number. Quantities of `brainunit` give a quantity, of the product of the units. Integers are
    added as integers, by `jax.numpy`.

    >>> import jax.numpy as jnp, brainevent
    >>> weights = jnp.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    >>> brainevent.binary_densemv(weights, jnp.array([True, False, True]))
    Array([ 5., 40.], dtype=float32)
    >>> brainevent.binary_densemv(weights, jnp.array([0.0, 0.5]), transpose=True)
    Array([ 8., 16., 32.], dtype=float32)
    """
    return _product("binary_densemv", binary_densemv_p, weights, spikes, 1, transpose, backend)


def binary_densemm(weights: Any, spikes: Any, *, transpose: bool = False, backend: str | None = None) -> Any:
    """Sum the weights of who spikes, for each column of spikes: (m, k) with (k, n) -> (m, n).

    If `transpose`, the weights are (k, m). All else is as in `binary_densemv`, one column of spikes at a time.

    >>> import jax.numpy as jnp, brainevent
    >>> weights = jnp.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    >>> brainevent.binary_densemm(weights, jnp.array([[1, 0], [0, 0], [1, 1]]))
    Array([[ 5.,  4.],
           [40., 32.]], dtype=float32)
    """
    return _product("binary_densemm", binary_densemm_p, weights, spikes, 2, transpose, backend)


def _product(
    where: str, operator: Any, weights: Any, spikes: Any, rank: int, transpose: bool, backend: str | None
) -> Any:
    weights, weight_unit = units.split(weights)
    spikes, spike_unit = split_operand(spikes, event=True)
    weights = jnp.asarray(weights)
    if weights.ndim != 2:
        raise ShapeError(f"{where}: weights has shape {weights.shape}; pass a matrix, of two dimensions")
    spikes, shape = checked_x(where, "spikes", spikes, rank, weights.shape, transpose=transpose)
    if jnp.issubdtype(weights.dtype, jnp.integer):  # no kernel adds integers
        found = jnp.matmul(weights.T if transpose else weights, is_active(spikes).astype(weights.dtype))
        return units.join(found, units.product(weight_unit, spike_unit))
    weights = checked_weights(where, "weights", weights, weights.shape)
    out = jax.ShapeDtypeStruct(shape, weights.dtype)
    (found,) = operator(weights, spikes, outs=[out], transpose=bool(transpose), backend=backend)
    return units.join(found, units.product(weight_unit, spike_unit))


def _benchmark_data(columns: int | None) -> Callable[..., list[BenchmarkConfig]]:
    """Return a function that makes data: square matrices, few events and many, both directions."""

    def one(weights: jax.Array, active: float, transpose: bool) -> BenchmarkConfig:
        n = weights.shape[0]
        drawn = np.random.default_rng(1).random((n,) if columns is None else (n, columns)) < active
        visited, spikes = int(drawn.reshape(n, -1).any(1).sum()) * n, jnp.asarray(drawn)
        return BenchmarkConfig(
            f"n={n} active={active:g} {'weights.T' if transpose else 'weights'}",
            (weights, spikes),
            {"transpose": transpose},
            {"n": n, "active": active},
            bytes=weights.itemsize * (visited + spikes.size) + spikes.nbytes,  # the result has as many elements as x
        )

    def data(*, platform: str) -> list[BenchmarkConfig]:
        drawn = (np.random.default_rng(0).standard_normal((n, n), np.float32) for n in (1000, 4000))
        matrices = [jnp.asarray(weights) for weights in drawn]
        return [one(*point) for point in itertools.product(matrices, (0.01, 0.1), (True, False))]

    return data


binary_densemv_p.def_call(binary_densemv)
binary_densemv_p.def_benchmark_data(_benchmark_data(None))
binary_densemm_p.def_call(binary_densemm)
binary_densemm_p.def_benchmark_data(_benchmark_data(16))
