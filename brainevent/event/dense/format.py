# SPDX-License-Identifier: Apache-2.0
"""Dense matrices as a format: every element is stored, and there are no indices.

`weights @ x` takes weights (m, k), and `weights.T @ x` weights (k, m). Devices may share rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..description import Checked, Cut, Description, Format, Law, Shape
from ..elements import Elements
from ..laws.products import NUMBERS, PAIRS
from ..precision import precise

__all__ = ["DENSE", "dot"]


def _elements(structure: Sequence[Any], shape: Shape) -> Elements:
    return Elements(shape, shape, 0, 1)


def _checked(where: str, structure: Sequence[Any], shape: Shape, within: bool | None) -> Checked:
    return [], False


def dot(weights: Any, x: Any, *, transpose: bool) -> jax.Array:
    """Return the product of numbers in the dtype of the kernels' sums."""
    exact = precise(jnp.promote_types(weights.dtype, x.dtype))
    weights, x = weights.astype(exact), x.astype(exact)
    highest = jax.lax.Precision.HIGHEST
    if transpose:  # the barrier keeps XLA from computing weights.T @ x, which takes up to fifty times as long on a CPU
        return jax.lax.optimization_barrier(jnp.matmul(x.T, weights, precision=highest)).T
    return jnp.matmul(weights, x, precision=highest)


def _numbers(weights: Any, x: Any, *, transpose: bool, outs: Sequence[Any], **_: Any) -> list[Any]:
    return [dot(weights, x, transpose=transpose).astype(outs[0].dtype)]


def _pairs(of_rows: Any, of_columns: Any, *, outs: Sequence[Any], **_: Any) -> list[Any]:
    if of_rows.shape[1] == 1:
        return [(of_rows * of_columns.T).astype(outs[0].dtype)]
    return [dot(of_rows, of_columns.T, transpose=False).astype(outs[0].dtype)]


_OWN: dict[Law, Callable[..., list[Any]]] = {NUMBERS: _numbers, PAIRS: _pairs}


def _own(of: Description) -> Callable[..., list[Any]] | None:
    return _OWN.get(of.law)


DENSE = Format(
    name="dense",
    tag="dense",
    arrays=(),
    weights="weights",
    elements=_elements,
    checked=_checked,
    draw=lambda n, number, **_: (),
    cut=Cut(arrays=(), stored="m k", row="m", column="k", reduced=("m", "k")),
    stored=lambda structure, shape: shape,
    own=_own,
    sizes=((1000, 1000), (4000, 4000)),
    bytes=0,
)
