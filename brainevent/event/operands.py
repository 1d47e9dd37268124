# SPDX-License-Identifier: Apache-2.0
"""What the products with sparse matrices ask of their operands, before a kernel sees them.

Only dtypes and shapes are looked at here: whether indices are within the shape is asked in `structure.py`, once.
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
    """Return indices, which are int32 or int64, in an array of this rank; those of NumPy are known in a trace, too."""
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
    """Say of each index whether it is within range; one that is not, of a trace, adds nothing to a product."""
    return (indices >= 0) & (indices < size)


def promoted(weights: jax.Array, x: Any, *, event: bool) -> jax.Array:
    """Return weights in the type that their product with x has: JAX's for both, and their own where x are events."""
    return weights if event else weights.astype(jnp.result_type(weights, x))


def promises(**known: bool) -> dict[str, bool]:
    """Return the keyword arguments that tell an operator what is known of indices: those that are true.

    >>> promises(indices_sorted=False, indices_within=True)
    {'indices_within': True}
    """
    return {name: True for name, is_known in known.items() if is_known}
