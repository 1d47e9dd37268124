# SPDX-License-Identifier: Apache-2.0
"""Products of matrices in compressed sparse rows with numbers, as users call them."""

from __future__ import annotations

import jax

from ...typing import ArrayLike, IndexLike, Shape
from ..calls import product
from ..laws.products import NUMBERS
from ..table import call_by, descriptions
from .format import CSR

__all__ = ["csrmm", "csrmm_indexed", "csrmv", "csrmv_indexed"]

MV, MM, MV_INDEXED, MM_INDEXED = descriptions(CSR, NUMBERS, indexed=True)


def csrmv(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    v: ArrayLike,
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix in compressed sparse rows, or its transpose, with a vector of numbers.

    The matrix is stored as for `binary_csrmv`. The product is differentiable with respect to `data` and `v`.

    Args:
        data: Floating weights, (nse,), or one weight for all elements: a scalar or (1,).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        v: Real numbers, (k,); (m,) if `transpose`.
        shape: The shape of the matrix, (m, k).
        transpose: Whether to multiply with the transposed matrix, of shape (k, m).
        indices_sorted: Whether the column indices of each row are known to ascend. True makes long rows faster on GPUs,
            and on CPUs where threads share a product.
        backend: The name of the kernel to use; None for the default.

    Returns:
        The product, (m,); (k,) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one of
        them has a unit.

    Raises:
        TypeError: If the weights are not floating, indices are not integers, or the other operand is complex.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.
        ShapeError: If the shapes do not fit each other.
        MathError: If an operand has the wrong number of dimensions.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.csrmv(jnp.array([1.0, 2.0, 4.0]), indices, indptr, jnp.array([1.0, 5.0, 0.5]), shape=(2, 3))
        Array([2., 2.], dtype=float32)
    """
    return product(MV, data, (indices, indptr), ("v", v), shape, transpose, backend, indices_sorted)


def csrmm(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    B: ArrayLike,  # noqa: N803
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix in compressed sparse rows, or its transpose, with a dense matrix of numbers.

    The matrix is stored as for `binary_csrmv`. The product is differentiable with respect to `data` and `B`.

    Args:
        data: Floating weights, (nse,), or one weight for all elements: a scalar or (1,).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        B: Real numbers, (k, n); (m, n) if `transpose`.
        shape: The shape of the matrix, (m, k).
        transpose: Whether to multiply with the transposed matrix, of shape (k, m).
        indices_sorted: Whether the column indices of each row are known to ascend. True makes long rows faster on GPUs,
            and on CPUs where threads share a product.
        backend: The name of the kernel to use; None for the default.

    Returns:
        The product, (m, n); (k, n) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one
        of them has a unit.

    Raises:
        TypeError: If the weights are not floating, indices are not integers, or the other operand is complex.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.
        ShapeError: If the shapes do not fit each other.
        MathError: If an operand has the wrong number of dimensions.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.csrmm(jnp.array([1.0, 2.0, 4.0]), indices, indptr, jnp.eye(3), shape=(2, 3))
        Array([[1., 0., 2.],
               [0., 0., 4.]], dtype=float32)
    """
    return product(MM, data, (indices, indptr), ("B", B), shape, transpose, backend, indices_sorted)


def csrmv_indexed(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    perm: IndexLike,
    v: ArrayLike,
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix, whose stored element j has the weight `data[perm[j]]`, with a vector of numbers.

    All else is as in `csrmv`.

    Args:
        data: Floating weights, (nse,), in an order of their own, or one weight for all: a scalar or (1,).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        perm: The place in `data` of the weight of each stored element, int32 or int64, (nse,).
        v: Real numbers, (k,); (m,) if `transpose`.
        shape: The shape of the matrix, (m, k).
        transpose: Whether to multiply with the transposed matrix, of shape (k, m).
        indices_sorted: Whether the column indices of each row are known to ascend. True makes long rows faster on GPUs,
            and on CPUs where threads share a product.
        backend: The name of the kernel to use; None for the default.

    Returns:
        The product, (m,); (k,) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one of
        them has a unit.

    Raises:
        TypeError: If the weights are not floating, indices are not integers, or the other operand is complex.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.
        ShapeError: If the shapes do not fit each other.
        MathError: If an operand has the wrong number of dimensions.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([2, 1, 0])
        >>> brainevent.csrmv_indexed(
        ...     jnp.array([1.0, 2.0, 4.0]), indices, indptr, perm, jnp.array([10.0, 1.0]), shape=(3, 2)
        ... )
        Array([40.,  0., 21.], dtype=float32)
    """
    return product(MV_INDEXED, data, (indices, indptr, perm), ("v", v), shape, transpose, backend, indices_sorted)


def csrmm_indexed(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    perm: IndexLike,
    B: ArrayLike,  # noqa: N803
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix, whose stored element j has the weight `data[perm[j]]`, with a dense matrix of numbers.

    All else is as in `csrmm`.

    Args:
        data: Floating weights, (nse,), in an order of their own, or one weight for all: a scalar or (1,).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        perm: The place in `data` of the weight of each stored element, int32 or int64, (nse,).
        B: Real numbers, (k, n); (m, n) if `transpose`.
        shape: The shape of the matrix, (m, k).
        transpose: Whether to multiply with the transposed matrix, of shape (k, m).
        indices_sorted: Whether the column indices of each row are known to ascend. True makes long rows faster on GPUs,
            and on CPUs where threads share a product.
        backend: The name of the kernel to use; None for the default.

    Returns:
        The product, (m, n); (k, n) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one
        of them has a unit.

    Raises:
        TypeError: If the weights are not floating, indices are not integers, or the other operand is complex.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.
        ShapeError: If the shapes do not fit each other.
        MathError: If an operand has the wrong number of dimensions.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([2, 1, 0])
        >>> brainevent.csrmm_indexed(jnp.array([1.0, 2.0, 4.0]), indices, indptr, perm, jnp.eye(2), shape=(3, 2))
        Array([[4., 0.],
               [0., 0.],
               [2., 1.]], dtype=float32)
    """
    return product(MM_INDEXED, data, (indices, indptr, perm), ("B", B), shape, transpose, backend, indices_sorted)


call_by({MV: csrmv, MM: csrmm, MV_INDEXED: csrmv_indexed, MM_INDEXED: csrmm_indexed})
