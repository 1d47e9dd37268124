# SPDX-License-Identifier: Apache-2.0
"""Let NumPy move data where JAX would compile a program of one operation, once for each shape.

A seventh of all programs of the suite were such. Only operations that compute nothing are done so, outside of all
programs, with arrays of the default device. What is left to JAX: arrays of several devices or of a chosen one, weak
types, keys, and conversions that round twice or saturate.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["move_with_numpy"]

Implementation = Callable[..., Any]
_WIDE = ("float32", "float64")


def move_with_numpy() -> None:
    """Replace what JAX does with single operations from now on."""
    from jax import lax

    for name, moved in _MOVES.items():
        primitive = getattr(lax, f"{name}_p")
        if not hasattr(primitive.impl, "left_to_jax"):
            primitive.def_impl(_quick(moved, primitive.impl))


def _quick(moved: Implementation, left: Implementation) -> Implementation:
    import jax
    from jax._src.array import ArrayImpl

    def is_plain(x: Any) -> bool:
        if isinstance(x, ArrayImpl):
            return not (x._committed or x.weak_type) and len(x.devices()) == 1 and isinstance(x.dtype, np.dtype)
        return isinstance(x, np.ndarray | np.generic)

    def impl(*operands: Any, **params: Any) -> Any:
        if params.get("sharding") is None and all(map(is_plain, operands)) and not jax.config.jax_debug_nans:
            found = moved(*map(np.asarray, operands), **params)
            if found is not None and jax.dtypes.canonicalize_dtype(found.dtype) == found.dtype:
                return jax.device_put(_unaligned(found))
        return left(*operands, **params)

    impl.left_to_jax = left
    return impl


def _unaligned(x: Any) -> Any:
    """Return a copy that XLA has to copy again: it owns its array then, as it does that of a program."""
    if not x.dtype.itemsize:  # no numbers, as the derivatives of integers
        return np.array(x)
    memory = np.empty(x.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + 16
    copy = memory[begin : begin + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


def _broadcast_in_dim(x: Any, *dynamic: Any, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    if dynamic or not all(isinstance(size, int) for size in shape):
        return None
    sizes = dict(zip(broadcast_dimensions, x.shape, strict=True))
    return np.broadcast_to(x.reshape([sizes.get(axis, 1) for axis in range(len(shape))]), shape)


def _convert_element_type(x: Any, *, new_dtype: Any, weak_type: bool, **_: Any) -> Any:
    if weak_type or not isinstance(new_dtype, np.dtype):
        return None
    whole = x.dtype.kind in "biu"
    if not (new_dtype.name in _WIDE and (whole or x.dtype.name in _WIDE)) and not (whole and new_dtype.kind in "biu"):
        return None
    if not whole and not (np.abs(x) >= np.finfo(np.float32).tiny)[x != 0].all():  # XLA may flush denormals
        return None
    with np.errstate(all="ignore"):
        return x.astype(new_dtype)


def _reshape(x: Any, *dynamic: Any, new_sizes: Any, dimensions: Any, **_: Any) -> Any:
    return None if dynamic or dimensions is not None else x.reshape(new_sizes)


def _iota(*dynamic: Any, dtype: Any, shape: Any, dimension: int, **_: Any) -> Any:
    if dynamic or not isinstance(dtype, np.dtype) or (dtype.kind not in "iu" and dtype.name not in _WIDE):
        return None
    sizes = [size if axis == dimension else 1 for axis, size in enumerate(shape)]
    return np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(sizes), shape)


def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    if len(starts) != x.ndim:
        return None
    first = [min(max(0, int(at)), n - size) for at, n, size in zip(starts, x.shape, slice_sizes, strict=True)]
    return x[tuple(slice(at, at + size) for at, size in zip(first, slice_sizes, strict=True))]


def _gather(x: Any, starts: Any, *, dimension_numbers: Any, slice_sizes: Any, **_: Any) -> Any:
    how, between, into = dimension_numbers, starts.shape[:-1], range(x.ndim)
    if how.operand_batching_dims or not x.size:
        return None
    first = dict(zip(how.start_index_map, np.moveaxis(starts.astype(np.int64), -1, 0), strict=True))
    if any(at.size and (at.min() < 0 or at.max() > x.shape[i] - slice_sizes[i]) for i, at in first.items()):
        return None  # what then happens is a matter of the mode
    kept = [i for i in into if i not in how.collapsed_slice_dims]
    places = []
    for i in into:
        along = [slice_sizes[i] if i == k else 1 for k in kept]
        at = np.broadcast_to(first.get(i, 0), between).reshape(between + (1,) * len(kept))
        places.append(at + np.arange(slice_sizes[i]).reshape(along if i in kept else [1] * len(kept)))
    found = x[tuple(places)]
    return np.moveaxis(found, range(len(between), found.ndim), how.offset_dims)


def _stage(x: Any) -> Any:
    return x


_MOVES: dict[str, Implementation] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "convert_element_type": _convert_element_type,
    "reshape": _reshape,
    "iota": _iota,
    "dynamic_slice": _dynamic_slice,
    "squeeze": lambda x, *, dimensions: x.reshape([n for axis, n in enumerate(x.shape) if axis not in dimensions]),
    "transpose": lambda x, *, permutation: x.transpose(permutation),
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "gather": _gather,
    "stage": _stage,
}
