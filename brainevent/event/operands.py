# SPDX-License-Identifier: Apache-2.0
"""Checks of the operands of products with sparse matrices, before a kernel gets them.

Only dtypes and shapes are checked here; `structure.py` checks once whether indices are in range.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ShapeError
from .structure import as_indices, held

__all__ = ["checked_indices", "is_scipy", "is_within", "promises", "promoted"]


def checked_indices(where: str, name: str, indices: Any, ndim: int) -> jax.Array:
    """Return indices, int32 or int64, as an array of this rank; arrays of NumPy stay concrete under tracing."""
    if not isinstance(indices, jax.Array):
        with jax.ensure_compile_time_eval():
            given = np.asarray(as_indices(indices))
            indices = held(given, jax.dtypes.canonicalize_dtype(given.dtype))
    if indices.dtype not in (jnp.int32, jnp.int64):
        raise TypeError(f'{where}: {name} is {indices.dtype}; pass int32 or int64 ({name}.astype("int32"))')
    if indices.ndim != ndim:
        raise ShapeError(f"{where}: {name} has shape {indices.shape}; its rank must be {ndim}")
    return indices


def is_scipy(x: Any) -> bool:
    """Say whether x is a sparse matrix or array of SciPy, which need not be installed."""
    return type(x).__module__.startswith("scipy.sparse") and hasattr(x, "tocoo")


def is_within(indices: Any, size: int) -> jax.Array:
    """Say of each index whether it is in range; in products under tracing, out-of-range indices are ignored."""
    return (indices >= 0) & (indices < size)


def promoted(weights: jax.Array, x: Any, *, event: bool) -> jax.Array:
    """Return weights in the dtype of their product with x: the promoted one, or with events that of the weights."""
    return weights if event else weights.astype(jnp.result_type(weights, x))


def promises(**known: bool) -> dict[str, bool]:
    """Return what is known of indices as keyword arguments of operators: those that are true.

    >>> promises(indices_sorted=False, indices_within=True)
    {'indices_within': True}
    """
    return {name: True for name, is_known in known.items() if is_known}
