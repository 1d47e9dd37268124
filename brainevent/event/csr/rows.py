# SPDX-License-Identifier: Apache-2.0
"""Dense rows of a matrix in compressed sparse rows."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ... import _units as units
from ...typing import ArrayLike, IndexLike, Shape
from ..calls import weights_of
from ..description import Description
from ..laws.copies import COPIED
from ..operands import checked_indices
from ..room import check_array
from ..structure import checked_shape
from ..table import apply, call_by
from .format import CSR

__all__ = ["csr_slice_rows", "sliced_rows"]

COPY = Description(CSR, COPIED)


def csr_slice_rows(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    row_indices: IndexLike,
    *,
    shape: Shape,
    backend: str | None = None,
) -> jax.Array:
    """Return chosen rows of a matrix in compressed sparse rows, as a dense array.

    Rows that are out of range are zero. The result is differentiable with respect to `data`.

    Args:
        data: Floating weights, (nse,), or one weight for all elements: a scalar or (1,).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        row_indices: The rows to return, int32 or int64, (r,), in any order and with repetitions, or a single number.
        shape: The shape of the matrix, (m, k).
        backend: The name of the kernel to use; None for the default.

    Returns:
        The rows, (r, k), or (k,) for a single number. The dtype is that of the weights. A quantity if they have a unit.

    Raises:
        TypeError: If the weights are not floating, or indices are not integers.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.
        ShapeError: If the shapes do not fit each other.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.csr_slice_rows(jnp.ones(1), indices, indptr, jnp.array([1, 0, 7]), shape=(2, 3))
        Array([[0., 0., 1.],
               [1., 0., 1.],
               [0., 0., 0.]], dtype=float32)
        >>> brainevent.csr_slice_rows(jnp.ones(1), indices, indptr, 0, shape=(2, 3))
        Array([1., 0., 1.], dtype=float32)
    """
    return sliced_rows(data, indices, indptr, row_indices, shape, backend)


def sliced_rows(
    data: Any, indices: Any, indptr: Any, rows: Any, shape: Any, backend: str | None, within: bool | None = None
) -> Any:
    """Return what `csr_slice_rows` returns; `within` says whether all indices are known to be in range."""
    where, shape = COPY.name, checked_shape(COPY.name, shape)
    data, unit = units.split(data)
    structure, _ = CSR.checked(where, (indices, indptr), shape, within)
    data = weights_of(COPY, data, structure, shape)
    if single := np.ndim(rows) == 0:
        rows = (rows if hasattr(rows, "dtype") else np.asarray(rows)).reshape(1)
    rows = checked_indices(where, "row_indices", rows, 1)
    out = jax.ShapeDtypeStruct((rows.shape[0], shape[1]), data.dtype)
    check_array(where, out.shape, out.dtype)
    (found,) = apply(COPY, data, *structure, rows, outs=[out], shape=shape, backend=backend)
    return units.join(found[0] if single else found, unit)


call_by({COPY: csr_slice_rows})
