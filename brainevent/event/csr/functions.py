# SPDX-License-Identifier: Apache-2.0
"""The functions that users call for matrices in compressed sparse rows: they check operands, and know of units."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ...errors import ShapeError
from .. import units
from ..form import split_operand
from ..operands import checked_indices, checked_weights, checked_x, promises, promoted
from ..room import check_array
from ..structure import check_indices, check_once, checked_shape
from . import benchmark_data, operators
from .checked import checked_structure
from .conversions import coo2csr, coo_to_csc_index, csc_to_csr_index, csr_to_coo_index, csr_to_csc_index
from .slices import csr_add_rows_p, csr_slice_rows_p

__all__ = [
    "binary_csrmm",
    "binary_csrmm_indexed",
    "binary_csrmv",
    "binary_csrmv_indexed",
    "coo2csr",
    "coo_to_csc_index",
    "csc_to_csr_index",
    "csr_slice_rows",
    "csr_to_coo_index",
    "csr_to_csc_index",
    "csrmm",
    "csrmm_indexed",
    "csrmv",
    "csrmv_indexed",
]


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
) -> Any:
    """Sum the weights of who spikes, with a matrix of `shape` (m, k) in compressed sparse rows.

    Row i stores `data[indptr[i]:indptr[i + 1]]`, or one weight of size 1 for all, in the columns `indices` at the same
    places; columns need no order, and duplicates add up. If `transpose`, m spikes give (k,), and only the rows of who
    spikes are visited: the fast way. Otherwise k spikes give (m,).

    A spike is True, or a number that is not zero, and counts as one. Gradients: by the weights, and by the spikes as if
    each counted as its number. Quantities of `brainunit` give a quantity, of the product of the units. `workspace` is
    not needed, and what is passed is ignored. `indices_sorted=True` promises that the columns of each row ascend: then
    long rows are quicker on GPUs, and on CPUs where threads share a product. A `CSR` knows it itself. What indices hold
    is looked at once; in a trace, where that is not known, one that is out of range adds nothing.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> weights = jnp.array([1.0, 2.0, 4.0])
    >>> brainevent.binary_csrmv(weights, indices, indptr, jnp.array([True, True]), shape=(2, 3), transpose=True)
    Array([1., 0., 6.], dtype=float32)
    >>> brainevent.binary_csrmv(weights, indices, indptr, jnp.array([0.0, 1.0, 0.5]), shape=(2, 3))
    Array([2., 4.], dtype=float32)
    """
    return _product("binary_csrmv", data, indices, indptr, None, v, shape, transpose, indices_sorted, backend)


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
) -> Any:
    """Do what `binary_csrmv` does for each column of a matrix of spikes.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> brainevent.binary_csrmm(jnp.ones(1), indices, indptr, jnp.eye(2), shape=(2, 3), transpose=True)
    Array([[1., 0.],
           [0., 0.],
           [1., 1.]], dtype=float32)
    """
    return _product("binary_csrmm", data, indices, indptr, None, B, shape, transpose, indices_sorted, backend)


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
    return _product("binary_csrmv_indexed", data, indices, indptr, perm, v, shape, transpose, indices_sorted, backend)


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
    return _product("binary_csrmm_indexed", data, indices, indptr, perm, B, shape, transpose, indices_sorted, backend)


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
    return _product("csrmv", data, indices, indptr, None, v, shape, transpose, indices_sorted, backend)


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
    return _product("csrmm", data, indices, indptr, None, B, shape, transpose, indices_sorted, backend)


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
    return _product("csrmv_indexed", data, indices, indptr, perm, v, shape, transpose, indices_sorted, backend)


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
    return _product("csrmm_indexed", data, indices, indptr, perm, B, shape, transpose, indices_sorted, backend)


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
    where = "csr_slice_rows"
    data, unit = units.split(data)
    shape, data, indices, indptr, _ = _checked(where, data, indices, indptr, shape)
    if single := np.ndim(row_indices) == 0:
        row_indices = (row_indices if hasattr(row_indices, "dtype") else np.asarray(row_indices)).reshape(1)
    rows = checked_indices(where, "row_indices", row_indices, 1)
    out = jax.ShapeDtypeStruct((rows.shape[0], shape[1]), data.dtype)
    check_array(where, out.shape, out.dtype)
    (found,) = csr_slice_rows_p(data, indices, indptr, rows, outs=[out], shape=shape, backend=backend)
    return units.join(found[0] if single else found, unit)


def _checked(
    where: str, data: Any, indices: Any, indptr: Any, shape: Any
) -> tuple[tuple[int, int], Any, Any, Any, bool]:
    """Return the shape and the arrays of a matrix, if they go together, and whether all are known to be in range."""
    shape = checked_shape(where, shape)
    (indices, indptr), within = checked_structure(where, indices, indptr, shape)
    return shape, checked_weights(where, "data", data, indices.shape), indices, indptr, within


def _product(
    where: str,
    data: Any,
    indices: Any,
    indptr: Any,
    perm: Any,
    x: Any,
    shape: Any,
    transpose: bool,
    indices_sorted: bool,
    backend: str | None,
) -> Any:
    event = where.startswith("binary")
    (data, weight_unit), (x, unit) = units.split(data), split_operand(x, event=event)
    shape, data, indices, indptr, within = _checked(where, data, indices, indptr, shape)
    rank = 1 if "mv" in where else 2
    x, result = checked_x(where, "v" if rank == 1 else "B", x, rank, shape, transpose=bool(transpose))
    structure = [indices, indptr]
    if where.endswith("indexed"):
        perm = checked_indices(where, "perm", perm, 1)
        if perm.shape != indices.shape:
            raise ShapeError(f"{where}: perm has shape {perm.shape}; pass one place for each of {indices.shape[0]}")
        within &= check_once(check_indices, where, "perm", perm, bound=perm.size)
        structure.append(perm)
    data = promoted(data, x, event=event)
    out = jax.ShapeDtypeStruct(result, data.dtype)
    operator = getattr(operators, f"{where}_p")
    keywords = {"shape": shape, "transpose": bool(transpose), "backend": backend}
    keywords |= promises(indices_sorted=indices_sorted, indices_within=within)
    (found,) = operator(data, *structure, x, outs=[out], **keywords)
    return units.join(found, units.product(weight_unit, unit))


for _call in (
    binary_csrmm,
    binary_csrmm_indexed,
    binary_csrmv,
    binary_csrmv_indexed,
    csrmm,
    csrmm_indexed,
    csrmv,
    csrmv_indexed,
):
    _name = _call.__name__
    _operator = getattr(operators, f"{_name}_p")
    _operator.def_call(_call)
    _operator.def_benchmark_data(
        benchmark_data.of_products(columns="mm" in _name, event="binary" in _name, indexed="indexed" in _name)
    )
operators.csr_per_element_p.def_call(operators.csr_per_element_p)
operators.csr_per_element_p.def_benchmark_data(benchmark_data.of_elements)
csr_slice_rows_p.def_call(csr_slice_rows)
csr_slice_rows_p.def_benchmark_data(benchmark_data.of_slices(grad=False))
csr_add_rows_p.def_call(csr_add_rows_p)
csr_add_rows_p.def_benchmark_data(benchmark_data.of_slices(grad=True))
