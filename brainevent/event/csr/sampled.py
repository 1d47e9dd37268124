# SPDX-License-Identifier: Apache-2.0
"""`sddmm`: a product of two dense matrices, computed only where a sparse one has elements."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ... import _units as units
from ...errors import ShapeError
from ...typing import ArrayLike, IndexLike, Shape
from ..description import Description
from ..laws.products import PAIRS
from ..structure import as_array, checked_shape
from ..table import apply
from .format import CSR

__all__ = ["sddmm"]

_OF_PAIRS = Description(CSR, PAIRS)


def sddmm(
    a: ArrayLike, b: ArrayLike, indices: IndexLike, indptr: IndexLike, *, shape: Shape, backend: str | None = None
) -> jax.Array:
    """Return the elements of `a @ b` at the places that a sparse matrix stores.

    Time and memory grow with the number of stored elements, and not with the size of the product.

    Args:
        a: Floating numbers, (m, n).
        b: Floating numbers, (n, k).
        indices: The column of each stored element, int32 or int64, (nse,).
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        shape: The shape of the product, (m, k).
        backend: The name of the kernel to use; None for the default.

    Returns:
        The elements of the product, (nse,), in the order in which they are stored. A quantity if an operand has a unit.

    Raises:
        TypeError: If neither operand is floating, or indices are not integers.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.
        ShapeError: If the shapes do not fit each other.
        KernelFallbackExhaustedError: If the platform has no kernel of the name `backend`.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> a, b = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([[1.0, 0.0, 10.0], [0.0, 1.0, 100.0]])
        >>> brainevent.sddmm(a, b, jnp.array([0, 2, 1]), jnp.array([0, 2, 3]), shape=(2, 3))
        Array([  1., 210.,   4.], dtype=float32)
    """
    (a, unit), (b, unit_of_b) = units.split(a), units.split(b)
    shape, a, b = checked_shape("sddmm", shape), as_array(a), as_array(b)
    (columns, starts), _ = CSR.checked("sddmm", (indices, indptr), shape, None)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or (a.shape[0], b.shape[1]) != shape:
        raise ShapeError(f"sddmm: a has shape {a.shape} and b {b.shape}; their product must have the shape {shape}")
    dtype = jnp.result_type(a, b)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f'sddmm: a is {a.dtype} and b {b.dtype}; pass floating numbers (a.astype("float32"))')
    out = jax.ShapeDtypeStruct(columns.shape, dtype)
    sides = a.astype(dtype), b.astype(dtype).T
    (found,) = apply(_OF_PAIRS, columns, starts, *sides, outs=[out], backend=backend)
    return units.join(found, units.product(unit, unit_of_b))
