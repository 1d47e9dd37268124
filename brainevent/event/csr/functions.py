# SPDX-License-Identifier: Apache-2.0
"""Products of matrices in compressed sparse rows with events, as users call them."""

from __future__ import annotations

import jax

from ...typing import ArrayLike, EventLike, IndexLike, PyTree, Shape
from ..calls import product
from ..laws.products import EVENTS
from ..table import call_by, descriptions
from .format import CSR

__all__ = ["binary_csrmm", "binary_csrmm_indexed", "binary_csrmv", "binary_csrmv_indexed"]

EVENT_MV, EVENT_MM, EVENT_MV_INDEXED, EVENT_MM_INDEXED = descriptions(CSR, EVENTS, indexed=True)


def binary_csrmv(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    v: EventLike,
    *,
    shape: Shape,
    workspace: PyTree = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for a matrix in compressed sparse rows.

    Row i stores the elements `data[indptr[i]:indptr[i + 1]]` in the columns `indices[indptr[i]:indptr[i + 1]]`. Columns
    may come in any order, and duplicates add up. `transpose=True` is the fast direction: only the rows of neurons that
    spiked are read.

    A spike counts as one, whatever its value. The result is differentiable with respect to the weights, and with
    respect to the spikes as if each counted as its value. Concrete indices are validated once; under tracing,
    out-of-range indices are ignored.

    Args:
        data: Floating weights, (nse,), or one weight for all elements: a scalar or (1,).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        v: The spikes: booleans, or real numbers whose nonzero values are spikes, (k,); (m,) if `transpose`.
        shape: The shape of the matrix, (m, k).
        workspace: Ignored. Other releases take a buffer here.
        transpose: Whether to multiply with the transposed matrix, of shape (k, m).
        indices_sorted: Whether the column indices of each row are known to ascend. True makes long rows faster on GPUs,
            and on CPUs where threads share a product.
        backend: The name of the kernel to use; None for the default.
        weighted: Whether an event counts as its value, as in a `WeightedArray`, and not as one.

    Returns:
        The sums, (m,); (k,) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Raises:
        TypeError: If the weights are not floating, indices are not integers, or the other operand is complex.
        ValueError: If concrete indices are out of range, `indptr` does not fit them, or `weighted` contradicts the
            form of the events.
        ShapeError: If the shapes do not fit each other.
        MathError: If an operand has the wrong number of dimensions.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
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
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    B: EventLike,  # noqa: N803
    *,
    shape: Shape,
    workspace: PyTree = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for each column of a matrix of spikes.

    Each column is treated as the vector `v` of `binary_csrmv`.

    Args:
        data: Floating weights, (nse,), or one weight for all elements: a scalar or (1,).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        B: The spikes, as in `binary_csrmv`, one vector a column, (k, n); (m, n) if `transpose`.
        shape: The shape of the matrix, (m, k).
        workspace: Ignored. Other releases take a buffer here.
        transpose: Whether to multiply with the transposed matrix, of shape (k, m).
        indices_sorted: Whether the column indices of each row are known to ascend. True makes long rows faster on GPUs,
            and on CPUs where threads share a product.
        backend: The name of the kernel to use; None for the default.
        weighted: Whether an event counts as its value, as in a `WeightedArray`, and not as one.

    Returns:
        The sums, (m, n); (k, n) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Raises:
        TypeError: If the weights are not floating, indices are not integers, or the other operand is complex.
        ValueError: If concrete indices are out of range, `indptr` does not fit them, or `weighted` contradicts the
            form of the events.
        ShapeError: If the shapes do not fit each other.
        MathError: If an operand has the wrong number of dimensions.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.binary_csrmm(jnp.ones(1), indices, indptr, jnp.eye(2), shape=(2, 3), transpose=True)
        Array([[1., 0.],
               [0., 0.],
               [1., 1.]], dtype=float32)
    """
    return product(EVENT_MM, data, (indices, indptr), ("B", B), shape, transpose, backend, indices_sorted, weighted)


def binary_csrmv_indexed(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    perm: IndexLike,
    v: EventLike,
    *,
    shape: Shape,
    workspace: PyTree = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, where stored element j has the weight `data[perm[j]]`.

    One array of weights can so serve a matrix cut into rows and the same matrix cut into columns, and products are fast
    in both directions. `csr_to_csc_index` returns `perm`.

    Args:
        data: Floating weights, (nse,), in an order of their own, or one weight for all: a scalar or (1,).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        perm: The place in `data` of the weight of each stored element, int32 or int64, (nse,).
        v: The spikes: booleans, or real numbers whose nonzero values are spikes, (k,); (m,) if `transpose`.
        shape: The shape of the matrix, (m, k).
        workspace: Ignored. Other releases take a buffer here.
        transpose: Whether to multiply with the transposed matrix, of shape (k, m).
        indices_sorted: Whether the column indices of each row are known to ascend. True makes long rows faster on GPUs,
            and on CPUs where threads share a product.
        backend: The name of the kernel to use; None for the default.
        weighted: Whether an event counts as its value, as in a `WeightedArray`, and not as one.

    Returns:
        The sums, (m,); (k,) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Raises:
        TypeError: If the weights are not floating, indices are not integers, or the other operand is complex.
        ValueError: If concrete indices are out of range, `indptr` does not fit them, or `weighted` contradicts the
            form of the events.
        ShapeError: If the shapes do not fit each other.
        MathError: If an operand has the wrong number of dimensions.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
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
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    perm: IndexLike,
    B: EventLike,  # noqa: N803
    *,
    shape: Shape,
    workspace: PyTree = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights `data[perm[j]]` of the neurons that spiked, for each column of a matrix of spikes.

    Each column is treated as the vector `v` of `binary_csrmv_indexed`.

    Args:
        data: Floating weights, (nse,), in an order of their own, or one weight for all: a scalar or (1,).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        perm: The place in `data` of the weight of each stored element, int32 or int64, (nse,).
        B: The spikes, as in `binary_csrmv`, one vector a column, (k, n); (m, n) if `transpose`.
        shape: The shape of the matrix, (m, k).
        workspace: Ignored. Other releases take a buffer here.
        transpose: Whether to multiply with the transposed matrix, of shape (k, m).
        indices_sorted: Whether the column indices of each row are known to ascend. True makes long rows faster on GPUs,
            and on CPUs where threads share a product.
        backend: The name of the kernel to use; None for the default.
        weighted: Whether an event counts as its value, as in a `WeightedArray`, and not as one.

    Returns:
        The sums, (m, n); (k, n) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Raises:
        TypeError: If the weights are not floating, indices are not integers, or the other operand is complex.
        ValueError: If concrete indices are out of range, `indptr` does not fit them, or `weighted` contradicts the
            form of the events.
        ShapeError: If the shapes do not fit each other.
        MathError: If an operand has the wrong number of dimensions.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
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


call_by({EVENT_MV: binary_csrmv, EVENT_MM: binary_csrmm})
call_by({EVENT_MV_INDEXED: binary_csrmv_indexed, EVENT_MM_INDEXED: binary_csrmm_indexed})
