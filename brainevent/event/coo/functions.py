# SPDX-License-Identifier: Apache-2.0
"""The products with matrices in coordinates that users call: they check operands, and know of units."""

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
from .operators import binary_coomm_p, binary_coomv_p, coomm_p, coomv_p

__all__ = ["binary_coomm", "binary_coomv", "coomm", "coomv"]


def binary_coomv(
    data: Any,
    row: Any,
    col: Any,
    v: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Sum the weights of who spikes, with a matrix of `shape` (m, k) in coordinates.

    Element i is `data[i]`, or one weight of size 1 for all, in row `row[i]` and column `col[i]`; in any order, and
    duplicates add up. k spikes give (m,); if `transpose`, m spikes give (k,). All elements are looked at, whoever
    spikes: another format is faster where few do.

    A spike is True, or a number that is not zero, and counts as one. Gradients: by the weights, and by the spikes as if
    each counted as its number. Quantities of `brainunit` give a quantity, of the product of the units.

    >>> import jax.numpy as jnp, brainevent
    >>> row, col, data = jnp.array([0, 0, 1]), jnp.array([0, 2, 2]), jnp.array([1.0, 2.0, 4.0])
    >>> brainevent.binary_coomv(data, row, col, jnp.array([False, False, True]), shape=(2, 3))
    Array([2., 4.], dtype=float32)
    >>> brainevent.binary_coomv(data, row, col, jnp.array([1, 1]), shape=(2, 3), transpose=True)
    Array([1., 0., 6.], dtype=float32)
    """
    return _product("binary_coomv", binary_coomv_p, data, row, col, ("v", v), shape, transpose, backend)


def binary_coomm(
    data: Any,
    row: Any,
    col: Any,
    B: Any,  # noqa: N803
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Do what `binary_coomv` does for each column of a matrix of spikes.

    >>> import jax.numpy as jnp, brainevent
    >>> row, col = jnp.array([0, 0, 1]), jnp.array([0, 2, 2])
    >>> brainevent.binary_coomm(jnp.ones(1), row, col, jnp.array([[1, 0], [0, 0], [1, 1]]), shape=(2, 3))
    Array([[2., 1.],
           [1., 1.]], dtype=float32)
    """
    return _product("binary_coomm", binary_coomm_p, data, row, col, ("B", B), shape, transpose, backend)


def coomv(
    data: Any,
    row: Any,
    col: Any,
    v: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply a matrix in coordinates, as in `binary_coomv`, with a vector of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> row, col = jnp.array([0, 0, 1]), jnp.array([0, 2, 2])
    >>> brainevent.coomv(jnp.ones(1), row, col, jnp.array([0.5, 1.0, 2.0]), shape=(2, 3))
    Array([2.5, 2. ], dtype=float32)
    """
    return _product("coomv", coomv_p, data, row, col, ("v", v), shape, transpose, backend)


def coomm(
    data: Any,
    row: Any,
    col: Any,
    B: Any,  # noqa: N803
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply a matrix in coordinates, as in `binary_coomv`, with a matrix of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> row, col = jnp.array([0, 0, 1]), jnp.array([0, 2, 2])
    >>> brainevent.coomm(jnp.ones(1), row, col, jnp.eye(3), shape=(2, 3))
    Array([[1., 0., 1.],
           [0., 0., 1.]], dtype=float32)
    """
    return _product("coomm", coomm_p, data, row, col, ("B", B), shape, transpose, backend)


def _product(
    where: str,
    operator: Any,
    data: Any,
    row: Any,
    col: Any,
    named: tuple[str, Any],
    shape: Any,
    transpose: bool,
    backend: str | None,
) -> Any:
    name, x = named
    event = where.startswith("binary")
    (data, weight_unit), (x, unit) = units.split(data), split_operand(x, event=event)
    shape, transpose = checked_shape(where, shape), bool(transpose)
    row, col = checked_indices(where, "row", row, 1), checked_indices(where, "col", col, 1)
    if row.shape != col.shape:
        raise ShapeError(f"{where}: row has shape {row.shape} and col {col.shape}; each element has one of both")
    data = checked_weights(where, "data", data, row.shape)
    within = check_once(check_indices, where, "row", row, bound=shape[0])
    within &= check_once(check_indices, where, "col", col, bound=shape[1])
    x, result = checked_x(where, name, x, 1 if where.endswith("mv") else 2, shape, transpose=transpose)
    data = promoted(data, x, event=event)
    out = jax.ShapeDtypeStruct(result, data.dtype)
    keywords = {"shape": shape, "transpose": transpose, "backend": backend, **promises(indices_within=within)}
    (found,) = operator(data, row, col, x, outs=[out], **keywords)
    return units.join(found, units.product(weight_unit, unit))


def _benchmark_data(*, event: bool, columns: int | None) -> Any:
    """Return a function that makes data: random elements, both directions, few events and many."""

    def data(*, platform: str) -> list[BenchmarkConfig]:
        configs = []
        for n, stored in ((4000, 320_000), (10_000, 2_000_000)):
            random = np.random.default_rng(0)
            row, col = (jnp.asarray(x) for x in random.integers(0, n, (2, stored), np.int32))
            row = jnp.sort(row)
            for active, transpose in itertools.product((0.01, 0.1) if event else (1.0,), (True, False)):
                drawn = random.random((n,) if columns is None else (n, columns)) < active
                x = jnp.asarray(drawn, bool if event else jnp.float32)
                for weights in (jnp.ones(1), jnp.ones(stored)):
                    kind = "one weight" if weights.size == 1 else "weights"
                    configs.append(
                        BenchmarkConfig(
                            f"{n}, {stored} elements, active={active:g}, {kind}{', transpose' * transpose}",
                            (weights, row, col, x),
                            {"shape": (n, n), "transpose": transpose},
                            {"n": n, "stored": stored, "active": active},
                            bytes=x.nbytes + 8 * stored + weights.nbytes + 8 * x.size,
                        )
                    )
        return configs

    return data


for _operator, _call, _event, _columns in (
    (binary_coomv_p, binary_coomv, True, None),
    (binary_coomm_p, binary_coomm, True, 16),
    (coomv_p, coomv, False, None),
    (coomm_p, coomm, False, 16),
):
    _operator.def_call(_call)
    _operator.def_benchmark_data(_benchmark_data(event=_event, columns=_columns))
