# SPDX-License-Identifier: Apache-2.0
"""Arrays of other sizes, made from given ones: integers stay valid indices."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from ..compare import is_inexact

__all__ = ["resized"]

EVERY = 4099  # of the elements that are added to a sparse array, one of so many is kept


def resized(
    x: np.ndarray, shape: Sequence[int], sizes: Mapping[int, int], fixed: Collection[int] = (), sparse: bool = False
) -> np.ndarray | None:
    """Shorten and extend an array; integers stay valid indices, and distinct if they were. None if impossible.

    Args:
        x: The array.
        shape: Its new shape.
        sizes: For each size that changes, the new one. Integers may be indices along such dimensions.
        fixed: The sizes that do not change. Integers may be indices along such dimensions, too.
        sparse: Whether most of the added numbers are zero, so that rounding errors of long sums stay small.
    """
    least = [min(old, new) for old, new in zip(x.shape, shape, strict=True)]
    cut = _shortened(x, least, {old: new for old, new in sizes.items() if new < old})
    if cut is None or cut.shape == tuple(shape):
        return cut
    extents = list(zip(shape, cut.shape, strict=True))
    longer = cut[np.ix_(*(np.arange(new) % old for new, old in extents))]
    if jnp.issubdtype(x.dtype, jnp.integer):
        return _spread(cut, longer, {min(old, new): new for old, new in sizes.items()}, fixed)
    if is_inexact(x) and not np.isin(np.asarray(x, np.complex128), (0, 1)).all():  # not events
        turns = sum(np.meshgrid(*(np.arange(new) // old for new, old in extents), indexing="ij", sparse=True))
        longer = (longer * (1 - turns % 3 / 4)).astype(x.dtype)  # no two neighbouring repetitions are equal
    if sparse and (is_inexact(x) or x.dtype == np.bool_):
        axes = np.meshgrid(*(_kept(*extent) for extent in extents), indexing="ij", sparse=True)
        kept: np.ndarray = functools.reduce(np.logical_and, axes)
        longer = np.where(kept, longer, np.zeros_like(longer))
    return longer


def _shortened(x: np.ndarray, shape: Sequence[int], limits: Mapping[int, int]) -> np.ndarray | None:
    cut = x[tuple(slice(size) for size in shape)] if x.ndim else x
    if not cut.size or not jnp.issubdtype(x.dtype, jnp.integer):
        return cut
    values, before = x.reshape(-1), x.size
    for size, limit in limits.items():
        if values.max() < size:  # they may be indices along this dimension
            values = values[values < limit]
        if not values.size:
            return None
    if values.size < cut.size and np.unique(x).size == before:
        return None
    return cut if values.size == before else np.resize(values, cut.shape)


def _spread(cut: np.ndarray, longer: np.ndarray, sizes: Mapping[int, int], fixed: Collection[int]) -> np.ndarray:
    """Extend repeated integers to the end of the dimensions along which they may be indices."""
    largest = int(cut.max())
    limits = [new for old, new in sizes.items() if largest < old]
    if cut.min() < 0 or not limits or any(largest < size for size in fixed):
        return longer
    limit, flat = min(limits), longer.reshape(-1)
    if np.unique(cut).size == cut.size and flat.size <= limit:
        others = np.setdiff1d(np.arange(limit), cut)[::-1]
        flat = np.concatenate([cut.reshape(-1), others[: flat.size - cut.size]])
    else:
        turns = max((limit - 1 - largest) // (largest + 1), 0) + 1
        flat = flat + np.arange(flat.size) // cut.size % turns * (largest + 1)
    return np.asarray(flat, cut.dtype).reshape(longer.shape)


def _kept(new: int, old: int) -> np.ndarray:
    places = np.arange(new)
    return np.asarray((places < old) | (places >= new - old) | (places % EVERY == 0))
