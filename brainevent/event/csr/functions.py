# SPDX-License-Identifier: Apache-2.0
"""The functions that users call for matrices in compressed sparse rows: they check operands, and know of units."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .. import units
from ..calls import product, weights_of
from ..description import Description
from ..laws.copies import COPIED
from ..laws.products import EVENTS, NUMBERS
from ..operands import checked_indices
from ..room import check_array
from ..structure import checked_shape
from ..table import apply, call_by, descriptions
from .format import CSR

__all__ = [
    "binary_csrmm",
    "binary_csrmm_indexed",
    "binary_csrmv",
    "binary_csrmv_indexed",
    "csr_slice_rows",
    "csrmm",
    "csrmm_indexed",
    "csrmv",
    "csrmv_indexed",
]


MV, MM, MV_INDEXED, MM_INDEXED = descriptions(CSR, NUMBERS, indexed=True)
EVENT_MV, EVENT_MM, EVENT_MV_INDEXED, EVENT_MM_INDEXED = descriptions(CSR, EVENTS, indexed=True)
COPY = Description(CSR, COPIED)


def binary_csrmv(
    data: Any,
    indices: Any,
    indptr: Any,
    v: Any,
    *,
    shape: tuple[int, int],
    workspace: Any = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> Any:
    """Sum the weights of who spikes, with a matrix of `shape` (m, k) in compressed sparse rows.

    Row i stores `data[indptr[i]:indptr[i + 1]]`, or one weight of size 1 for all, in the columns `indices` at the same
    places; columns need no order, and duplicates add up. If `transpose`, m spikes give (k,), and only the rows of who
    spikes are visited: the fast way. Otherwise k spikes give (m,).

    A spike is True, or a number that is not zero, and counts as one. Gradients: by the weights, and by the spikes as if
    each counted as its number; if `weighted`, it does, as a `WeightedArray`. Quantities of `brainunit` give a
    quantity, of the product of the units. `workspace` is not needed, and what is passed is ignored.
    `indices_sorted=True` promises that the columns of each row ascend: then long rows are quicker on GPUs, and on CPUs
    where threads share a product. A `CSR` knows it itself. What indices hold is looked at once; in a trace, where that
    is not known, one that is out of range adds nothing.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> weights = jnp.array([1.0, 2.0, 4.0])
    >>> brainevent.binary_csrmv(weights, indices, indptr, jnp.array([True, True]), shape=(2, 3), transpose=True)
    Array([1., 0., 6.], dtype=float32)
    >>> brainevent.binary_csrmv(weights, indices, indptr, jnp.array([0.0, 1.0, 0.5]), shape=(2, 3))
    Array([2., 4.], dtype=float32)
    """
    return product(EVENT_MV, data, (indices, indptr), ("v", v), shape, transpose, backend, indices_sorted, weighted)


def binary_csrmm(
    data: Any,
    indices: Any,
    indptr: Any,
    B: Any,  # noqa: N803
    *,
    shape: tuple[int, int],
    workspace: Any = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> Any:
    """Do what `binary_csrmv` does for each column of a matrix of spikes.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> brainevent.binary_csrmm(jnp.ones(1), indices, indptr, jnp.eye(2), shape=(2, 3), transpose=True)
    Array([[1., 0.],
           [0., 0.],
           [1., 1.]], dtype=float32)
    """
    return product(EVENT_MM, data, (indices, indptr), ("B", B), shape, transpose, backend, indices_sorted, weighted)


def binary_csrmv_indexed(
    data: Any,
    indices: Any,
    indptr: Any,
    perm: Any,
    v: Any,
    *,
    shape: tuple[int, int],
    workspace: Any = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> Any:
    """Do what `binary_csrmv` does where the stored element j has the weight `data[perm[j]]`.

    So the same weights serve a matrix in compressed sparse rows and in compressed sparse columns, whichever way the
    events come.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([0, 1, 2])
    >>> weights, spikes = jnp.array([1.0, 2.0, 4.0]), jnp.array([True, False, True])
    >>> brainevent.binary_csrmv_indexed(weights, indices, indptr, perm, spikes, shape=(3, 2), transpose=True)
    Array([3., 4.], dtype=float32)
    """
    return product(
        EVENT_MV_INDEXED, data, (indices, indptr, perm), ("v", v), shape, transpose, backend, indices_sorted, weighted
    )


def binary_csrmm_indexed(
    data: Any,
    indices: Any,
    indptr: Any,
    perm: Any,
    B: Any,  # noqa: N803
    *,
    shape: tuple[int, int],
    workspace: Any = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> Any:
    """Do what `binary_csrmv_indexed` does for each column of a matrix of spikes.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([2, 1, 0])
    >>> weights, spikes = jnp.array([1.0, 2.0, 4.0]), jnp.array([[1, 0], [0, 1]])
    >>> brainevent.binary_csrmm_indexed(weights, indices, indptr, perm, spikes, shape=(3, 2))
    Array([[4., 0.],
           [0., 0.],
           [2., 1.]], dtype=float32)
    """
    return product(
        EVENT_MM_INDEXED, data, (indices, indptr, perm), ("B", B), shape, transpose, backend, indices_sorted, weighted
    )


def csrmv(
    data: Any,
    indices: Any,
    indptr: Any,
    v: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply a matrix in compressed sparse rows, as in `binary_csrmv`, or its transpose, with a vector of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> brainevent.csrmv(jnp.array([1.0, 2.0, 4.0]), indices, indptr, jnp.array([1.0, 5.0, 0.5]), shape=(2, 3))
    Array([2., 2.], dtype=float32)
    """
    return product(MV, data, (indices, indptr), ("v", v), shape, transpose, backend, indices_sorted)


def csrmm(
    data: Any,
    indices: Any,
    indptr: Any,
    B: Any,  # noqa: N803
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply a matrix in compressed sparse rows, as in `binary_csrmv`, or its transpose, with a matrix of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> brainevent.csrmm(jnp.array([1.0, 2.0, 4.0]), indices, indptr, jnp.eye(3), shape=(2, 3))
    Array([[1., 0., 2.],
           [0., 0., 4.]], dtype=float32)
    """
    return product(MM, data, (indices, indptr), ("B", B), shape, transpose, backend, indices_sorted)


def csrmv_indexed(
    data: Any,
    indices: Any,
    indptr: Any,
    perm: Any,
    v: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Do what `csrmv` does where the stored element j has the weight `data[perm[j]]`.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([2, 1, 0])
    >>> brainevent.csrmv_indexed(
    ...     jnp.array([1.0, 2.0, 4.0]), indices, indptr, perm, jnp.array([10.0, 1.0]), shape=(3, 2)
    ... )
    Array([40.,  0., 21.], dtype=float32)
    """
    return product(MV_INDEXED, data, (indices, indptr, perm), ("v", v), shape, transpose, backend, indices_sorted)


def csrmm_indexed(
    data: Any,
    indices: Any,
    indptr: Any,
    perm: Any,
    B: Any,  # noqa: N803
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Do what `csrmm` does where the stored element j has the weight `data[perm[j]]`.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([2, 1, 0])
    >>> brainevent.csrmm_indexed(jnp.array([1.0, 2.0, 4.0]), indices, indptr, perm, jnp.eye(2), shape=(3, 2))
    Array([[4., 0.],
           [0., 0.],
           [2., 1.]], dtype=float32)
    """
    return product(MM_INDEXED, data, (indices, indptr, perm), ("B", B), shape, transpose, backend, indices_sorted)


def csr_slice_rows(
    data: Any, indices: Any, indptr: Any, row_indices: Any, *, shape: tuple[int, int], backend: str | None = None
) -> Any:
    """Return some rows of a matrix in compressed sparse rows, dense; a row that there is not is zeros.

    A vector of rows gives a matrix, and a single number, as in NumPy, the row as a vector.

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
    """Do what `csr_slice_rows` does; a matrix says whether its indices are known to be in range."""
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


call_by({MV: csrmv, MM: csrmm, MV_INDEXED: csrmv_indexed, MM_INDEXED: csrmm_indexed, COPY: csr_slice_rows})
call_by({EVENT_MV: binary_csrmv, EVENT_MM: binary_csrmm})
call_by({EVENT_MV_INDEXED: binary_csrmv_indexed, EVENT_MM_INDEXED: binary_csrmm_indexed})
