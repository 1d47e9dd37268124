# SPDX-License-Identifier: Apache-2.0
"""`sddmm`: a product of two dense matrices, computed only where a sparse one has elements."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...errors import ShapeError
from .. import units
from ..description import Description
from ..laws.products import PAIRS
from ..structure import as_array, checked_shape
from ..table import apply
from .format import CSR

__all__ = ["sddmm"]

_OF_PAIRS = Description(CSR, PAIRS)


def sddmm(a: Any, b: Any, indices: Any, indptr: Any, *, shape: tuple[int, int], backend: str | None = None) -> Any:
    """Return the elements of `a @ b` that a matrix in compressed sparse rows stores, in its order: (nse,).

    Time and memory grow with the stored elements, and not with the product. Quantities of `brainunit` give a quantity.

    Args:
        a: Numbers, of shape (m, n).
        b: Numbers, of shape (n, k).
        indices: The column of each stored element, int32 or int64, of shape (nse,).
        indptr: Where each row begins among them, of shape (m + 1,).
        shape: That of the product, (m, k).
        backend: A kernel by name.

    Returns:
        An element of the product for each that is stored.

    Raises:
        ShapeError: If shapes do not go together.

    >>> import jax.numpy as jnp, brainevent
    >>> a, b = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([[1.0, 0.0, 10.0], [0.0, 1.0, 100.0]])
    >>> brainevent.sddmm(a, b, jnp.array([0, 2, 1]), jnp.array([0, 2, 3]), shape=(2, 3))
    Array([  1., 210.,   4.], dtype=float32)
    """
    (a, unit), (b, unit_of_b) = units.split(a), units.split(b)
    shape, a, b = checked_shape("sddmm", shape), as_array(a), as_array(b)
    (indices, indptr), _ = CSR.checked("sddmm", (indices, indptr), shape, None)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or (a.shape[0], b.shape[1]) != shape:
        raise ShapeError(f"sddmm: a has shape {a.shape} and b {b.shape}; their product must have the shape {shape}")
    dtype = jnp.result_type(a, b)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f'sddmm: a is {a.dtype} and b {b.dtype}; pass floating numbers (a.astype("float32"))')
    out = jax.ShapeDtypeStruct(indices.shape, dtype)
    sides = a.astype(dtype), b.astype(dtype).T
    (found,) = apply(_OF_PAIRS, indices, indptr, *sides, outs=[out], backend=backend)
    return units.join(found, units.product(unit, unit_of_b))
