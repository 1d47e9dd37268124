# SPDX-License-Identifier: Apache-2.0
"""The products with matrices of equally long rows that users call: they check operands, and know of units."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...bench.record import BenchmarkConfig
from ...errors import ShapeError
from .. import units
from ..form import split_operand
from ..operands import checked_indices, checked_weights, checked_x, promises, promoted
from ..structure import check_indices, check_once, checked_shape
from .operators import binary_fcnmm_p, binary_fcnmv_p, fcnmm_p, fcnmv_p

__all__ = ["binary_fcnmm", "binary_fcnmv", "fcnmm", "fcnmv"]


def binary_fcnmv(
    weights: Any,
    indices: Any,
    spikes: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Sum the weights of who spikes, with a matrix of `shape` (n_pre, n_post) whose rows store equally many elements.

    Row i stores the elements `weights[i]`, or one weight of size 1 for all, in the columns `indices[i]`; duplicates add
    up. If `transpose`, n_pre spikes give (n_post,), and only the rows of who spikes are visited: the fast way.
    Otherwise n_post spikes give (n_pre,).

    A spike is True, or a number that is not zero, and counts as one. Gradients: by the weights, and by the spikes as if
    each counted as its number. Quantities of `brainunit` give a quantity, of the product of the units.
    `indices_sorted=True` promises that the columns of each row ascend: then long rows are quicker on GPUs, and
    on CPUs where threads share a product. A `FixedNumPerPre` knows it itself.

    >>> import jax.numpy as jnp, brainevent
    >>> indices = jnp.array([[0, 2], [1, 2]])
    >>> weights = jnp.array([[1.0, 2.0], [4.0, 8.0]])
    >>> spikes = jnp.array([True, True])
    >>> brainevent.binary_fcnmv(weights, indices, spikes, shape=(2, 3), transpose=True)
    Array([ 1.,  4., 10.], dtype=float32)
    >>> brainevent.binary_fcnmv(weights, indices, jnp.array([1, 0, 1]), shape=(2, 3))
    Array([3., 8.], dtype=float32)
    """
    return _product(
        "binary_fcnmv", binary_fcnmv_p, weights, indices, ("spikes", spikes), shape, transpose, indices_sorted, backend
    )


def binary_fcnmm(
    weights: Any,
    indices: Any,
    matrix: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Do what `binary_fcnmv` does for each column of a matrix of spikes.

    >>> import jax.numpy as jnp, brainevent
    >>> indices = jnp.array([[0, 2], [1, 2]])
    >>> spikes = jnp.array([[True, False, True], [False, False, True]])
    >>> brainevent.binary_fcnmm(jnp.ones(1), indices, spikes, shape=(2, 3), transpose=True)
    Array([[1., 0., 1.],
           [0., 0., 1.],
           [1., 0., 2.]], dtype=float32)
    """
    return _product(
        "binary_fcnmm", binary_fcnmm_p, weights, indices, ("matrix", matrix), shape, transpose, indices_sorted, backend
    )


def fcnmv(
    weights: Any,
    indices: Any,
    vector: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply a matrix whose rows store equally many elements, as in `binary_fcnmv`, with a vector of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> indices = jnp.array([[0, 2], [1, 2]])
    >>> brainevent.fcnmv(jnp.ones(1), indices, jnp.array([0.5, 2.0]), shape=(2, 3), transpose=True)
    Array([0.5, 2. , 2.5], dtype=float32)
    """
    return _product("fcnmv", fcnmv_p, weights, indices, ("vector", vector), shape, transpose, indices_sorted, backend)


def fcnmm(
    weights: Any,
    indices: Any,
    matrix: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply a matrix whose rows store equally many elements, as in `binary_fcnmv`, with a matrix of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> indices = jnp.array([[0, 2], [1, 2]])
    >>> brainevent.fcnmm(jnp.ones(1), indices, jnp.eye(3), shape=(2, 3))
    Array([[1., 0., 1.],
           [0., 1., 1.]], dtype=float32)
    """
    return _product("fcnmm", fcnmm_p, weights, indices, ("matrix", matrix), shape, transpose, indices_sorted, backend)


def _product(
    where: str,
    operator: Any,
    weights: Any,
    indices: Any,
    named: tuple[str, Any],
    shape: Any,
    transpose: bool,
    indices_sorted: bool,
    backend: str | None,
) -> Any:
    name, x = named
    event = where.startswith("binary")
    (weights, weight_unit), (x, unit) = units.split(weights), split_operand(x, event=event)
    shape, transpose = checked_shape(where, shape), bool(transpose)
    indices = checked_indices(where, "indices", indices, 2)
    if indices.shape[0] != shape[0]:
        raise ShapeError(f"{where}: indices has shape {indices.shape}; shape={shape} says that it has {shape[0]} rows")
    weights = checked_weights(where, "weights", weights, indices.shape)
    within = check_once(check_indices, where, "indices", indices, bound=shape[1], ndim=2)
    x, result = checked_x(where, name, x, 1 if where.endswith("mv") else 2, shape, transpose=transpose)
    weights = promoted(weights, x, event=event)
    out = jax.ShapeDtypeStruct(result, weights.dtype)
    keywords = {"shape": shape, "transpose": transpose, "backend": backend}
    keywords |= promises(indices_sorted=indices_sorted, indices_within=within)
    (found,) = operator(weights, indices, x, outs=[out], **keywords)
    return units.join(found, units.product(weight_unit, unit))


def _benchmark_data(*, event: bool, columns: int | None) -> Any:
    """Return a function that makes data: random connections, both directions, few events and many."""

    def data(*, platform: str) -> list[BenchmarkConfig]:
        configs = []
        for n, connections in ((4000, 80), (10_000, 200)):
            random = np.random.default_rng(0)
            indices = jnp.asarray(random.integers(0, n, (n, connections), np.int32))
            for active, transpose in itertools.product((0.01, 0.1) if event else (1.0,), (True, False)):
                drawn = random.random((n,) if columns is None else (n, columns)) < active
                x = jnp.asarray(drawn, bool if event else jnp.float32)
                rows = int(drawn.reshape(n, -1).any(1).sum()) if transpose else n
                for weights in (jnp.ones(1), jnp.ones(indices.shape)):
                    kind = "one weight" if weights.size == 1 else "weights"
                    stored = rows * connections * (4 if weights.size == 1 else 8)
                    configs.append(
                        BenchmarkConfig(
                            f"{n} x {connections}, active={active:g}, {kind}{', transpose' * transpose}",
                            (weights, indices, x),
                            {"shape": (n, n), "transpose": transpose},
                            {"n": n, "connections": connections, "active": active},
                            bytes=x.nbytes + 32 * rows + stored + 8 * x.size,
                        )
                    )
        return configs

    return data


for _operator, _call, _event, _columns in (
    (binary_fcnmv_p, binary_fcnmv, True, None),
    (binary_fcnmm_p, binary_fcnmm, True, 16),
    (fcnmv_p, fcnmv, False, None),
    (fcnmm_p, fcnmm, False, 16),
):
    _operator.def_call(_call)
    _operator.def_benchmark_data(_benchmark_data(event=_event, columns=_columns))
