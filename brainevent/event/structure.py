# SPDX-License-Identifier: Apache-2.0
"""Is this the structure of a sparse matrix? Checked once, so that kernels need not check it.

It is checked when a matrix is made, or when a function gets an array for the first time. Dtypes and shapes are always
checked, values only if they are concrete. Under tracing, kernels test each index instead, and ignore those that are out
of range.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import config
from ..errors import ShapeError
from .debug_indices import report_indices, report_pointers
from .remembered import Remembered

__all__ = [
    "are_known",
    "are_sorted",
    "as_array",
    "as_indices",
    "check_compressed",
    "check_indices",
    "check_once",
    "checked_count",
    "checked_indptr",
    "checked_shape",
    "checked_weights",
    "extremes",
    "held",
    "known_on_host",
    "narrow",
    "places_are_wide",
]

_INT32 = 2**31  # the first position that an int32 does not hold
_CHUNK = 2**24  # indices that are compared at once
_passed = Remembered[bool]()  # the checks that arrays passed, with the facts


def checked_shape(where: str, shape: Any) -> tuple[int, int]:
    """Return the shape of a matrix as two plain integers.

    >>> checked_shape("CSR", [3, 4])
    (3, 4)
    """
    if shape is None:
        raise TypeError(f"{where}: no shape is given; pass shape=(rows, columns)")
    try:
        found = tuple(int(size.__index__()) for size in shape)
    except (AttributeError, TypeError):
        raise TypeError(f"{where}: shape is {shape!r}; pass two integers, shape=(rows, columns)") from None
    if len(found) != 2 or min(found) < 0:
        raise ValueError(f"{where}: shape is {shape!r}; pass two sizes that are not negative, shape=(rows, columns)")
    return found[0], found[1]


def checked_count(where: str, name: str, number: Any) -> int:
    """Return a number of things as a plain integer, or raise.

    >>> checked_count("random", "num_conn", np.int64(3))
    3
    """
    try:
        return int(operator.index(number))
    except TypeError:
        raise TypeError(f"{where}: {name} is {number!r}; pass an integer") from None


def as_array(x: Any, dtype: Any = None) -> jax.Array:
    """Return x as an array; `jnp.asarray` takes long even for what is an array already."""
    return x if isinstance(x, jax.Array) else jnp.asarray(x, dtype)


def as_indices(x: Any) -> Any:
    """Return indices as they are, and a list as an array of integers, even if it is empty."""
    if hasattr(x, "dtype"):
        return x
    found = np.asarray(x)
    return found if found.size else found.astype(np.int32)


def checked_weights(where: str, given: Any, stored: Sequence[int], name: str = "data") -> jax.Array:
    """Return weights, which are floating: one for all stored elements, or one for each."""
    try:
        weights = as_array(given, None if hasattr(given, "dtype") else float)
    except (TypeError, ValueError):
        raise TypeError(f"{where}: {name} is {type(given).__name__}; pass floating weights") from None
    if not jnp.issubdtype(weights.dtype, jnp.floating):
        raise TypeError(f'{where}: {name} is {weights.dtype}; pass floating weights ({name}.astype("float32"))')
    stored = tuple(stored)
    if weights.shape != stored and weights.size != 1:
        raise ShapeError(
            f"{where}: {name} has shape {weights.shape}; pass one weight for all stored elements, or one for each, "
            f"in the shape of the indices, {stored}"
        )
    return weights if weights.ndim <= len(stored) else weights.reshape(1)


def check_indices(where: str, name: str, indices: Any, bound: int, *, ndim: int = 1) -> None:
    """Raise unless indices are integers in an array of this rank and, if they are concrete, in range."""
    _check_integers(where, name, indices, ndim)
    if 0 in indices.shape:
        return
    if not _known(indices):
        report_indices(where, name, indices, bound)
        return
    low, high = extremes(indices)
    if low < 0:
        raise ValueError(f"{where}: {name} holds {low}; indices must not be negative")
    if high >= bound:
        raise ValueError(
            f"{where}: {name} holds {high}, out of range for a size of {bound}; pass indices below {bound}"
        )


def check_compressed(where: str, indices: Any, indptr: Any, *, slices: int, bound: int) -> None:
    """Raise unless `indptr` cuts `indices` into this many slices, whose elements are below the bound."""
    check_indices(where, "indices", indices, bound)
    _check_integers(where, "indptr", indptr, 1)
    stored = indices.shape[0]
    if indptr.shape[0] != slices + 1:
        raise ValueError(
            f"{where}: indptr has {indptr.shape[0]} elements; it must have {slices + 1}, one more than "
            f"there are {'columns' if where == 'CSC' else 'rows'}"
        )
    if not _known(indptr):
        report_pointers(where, "indptr", indptr, stored)
        return
    positions = np.asarray(indptr)
    if positions[0] != 0 or positions[-1] != stored:
        raise ValueError(
            f"{where}: indptr goes from {positions[0]} to {positions[-1]}; it must begin with 0 and end with {stored}, "
            "the number of indices"
        )
    falls = np.flatnonzero(positions[1:] < positions[:-1])
    if falls.size:
        at = int(falls[0])
        raise ValueError(
            f"{where}: indptr decreases from {positions[at]} to {positions[at + 1]} at position {at + 1}; it must not"
        )


def check_once(
    check: Callable[..., None], where: str, *arguments: Any, within: bool | None = None, **facts: int
) -> bool:
    """Run a check, `check(where, *arguments, **facts)`, unless the same arrays have passed it with the same facts.

    Arrays of JAX never change, so nothing is checked twice. Return whether the values of the arrays are known to be
    right. If `within` is not None, it is that answer: nothing is checked. With `config.debug_indices` everything is
    checked, now or when the program runs.
    """
    debugging = config.is_debugging_indices()
    if within is not None and not debugging:
        return within
    arrays = [x for x in arguments if isinstance(x, jax.Array)]
    known = are_known(*arrays)
    about = check, *facts.values()
    if debugging and not known:
        check(where, *arguments, **facts)  # each time: an earlier check may be in a branch that does not run
    elif not _passed.find(arrays, *about) and any(map(_known, arrays)):
        check(where, *arguments, **facts)
        _passed.keep(True, arrays, *about)
    return known


def are_known(*arrays: Any) -> bool:
    """Say whether the values of all arrays are concrete: not traced, and not on another host."""
    return all(map(_known, arrays))


def are_sorted(indices: Any, indptr: Any = None) -> bool:
    """Say whether the indices of each slice are known to ascend; slices are rows, or what `indptr` cuts.

    >>> are_sorted(np.array([[0, 2], [1, 1]])), are_sorted(np.array([3, 5, 4]), np.array([0, 2, 3]))
    (True, True)
    """
    if not are_known(*(x for x in (indices, indptr) if x is not None)):
        return False
    size = indices.shape[0]
    count: Callable[..., Any] = jax.jit(_falls, static_argnums=2)  # compiled, it copies no part of what it compares
    if _on_host(indices):
        indices, count = np.asarray(indices), _falls
    with jax.ensure_compile_time_eval():
        if indptr is None:
            step = max(1, _CHUNK // max(1, indices.shape[1]))
            return not any(int(count(indices, at, min(step, size - at))) for at in range(0, size, step))
        falls = sum(int(count(indices, at, min(_CHUNK, size - 1 - at) + 1)) for at in range(0, size - 1, _CHUNK))
        starts = np.unique(np.asarray(indptr))
        starts = starts[(starts > 0) & (starts < size)]  # only where a slice begins may indices decrease
        return falls == int((indices[starts] < indices[starts - 1]).sum())


def _falls(indices: Any, at: Any, size: int) -> Any:
    """Count the places where indices decrease along the last axis, in a part of this size along the first."""
    on_host = isinstance(indices, np.ndarray)
    part = indices[at : at + size] if on_host else jax.lax.dynamic_slice_in_dim(indices, at, size)
    return (part[..., 1:] < part[..., :-1]).sum()


def checked_indptr(where: str, indptr: Any, stored: int, dtype: Any = "auto") -> jax.Array:
    """Return `indptr` in int32, or in int64 if int32 cannot hold the number of stored elements."""
    return _in_dtype(where, "indptr", indptr, _index_dtype(where, "indptr_dtype", stored, dtype))


def narrow(where: str, name: str, indices: Any, bound: int, dtype: Any = "auto") -> jax.Array:
    """Return indices in int32, or in int64 if int32 cannot hold all numbers below the bound."""
    return _in_dtype(where, name, indices, _index_dtype(where, "index_dtype", bound - 1, dtype))


def _index_dtype(where: str, keyword: str, largest: int, dtype: Any) -> np.dtype[Any]:
    """Return the requested dtype, or for "auto" the smaller one that holds the largest number."""
    narrow, wide = np.dtype("int32"), np.dtype("int64")
    needed = narrow if largest < _INT32 else wide
    found = needed if isinstance(dtype, str) and dtype == "auto" else np.dtype(dtype)
    if found not in (narrow, wide):
        raise TypeError(f"{where}: {keyword} is {found}; pass 'auto', 'int32' or 'int64'")
    if found.itemsize < needed.itemsize:
        raise ValueError(f"{where}: int32 does not hold {largest}; pass {keyword}='int64'")
    return found


def places_are_wide() -> bool:
    """Say whether JAX allows int64, for places among more elements than int32 counts."""
    return jax.dtypes.canonicalize_dtype(np.int64) == np.int64


def known_on_host(where: str, *arrays: Any) -> Any:
    """Return arrays as arrays of NumPy; raise under tracing, where the size of a result is unknown."""
    if not are_known(*arrays):
        raise RuntimeError(f"{where}: the size of its result is unknown under tracing; call it outside of jax.jit")
    found = tuple(np.asarray(array) for array in arrays)
    return found if len(found) > 1 else found[0]


def _in_dtype(where: str, name: str, x: Any, dtype: np.dtype[Any]) -> jax.Array:
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(f'{where}: {name} needs int64; jax.config.update("jax_enable_x64", True) allows it')
    return held(x, dtype)


def held(x: Any, dtype: np.dtype[Any]) -> jax.Array:
    """Return indices in a dtype; those that do not fit it stay out of range, and memory of NumPy is not shared."""
    if x.dtype.itemsize > dtype.itemsize:
        least = 0 if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else -_INT32
        x = (np if isinstance(x, np.ndarray) else jnp).clip(x, least, _INT32 - 1)
    return jnp.asarray(x, dtype) if isinstance(x, jax.Array) else jnp.array(x, dtype)


def _check_integers(where: str, name: str, x: Any, ndim: int) -> None:
    if not (hasattr(x, "dtype") and hasattr(x, "shape")):
        raise TypeError(f"{where}: {name} is {type(x).__name__}; pass an array of integers, such as int32")
    if not jnp.issubdtype(x.dtype, jnp.integer):
        raise TypeError(f'{where}: {name} is {x.dtype}; pass integers ({name}.astype("int32"))')
    if len(x.shape) != ndim:
        raise ValueError(f"{where}: {name} has shape {tuple(x.shape)}; its rank must be {ndim}")


def _known(x: Any) -> bool:
    return not isinstance(x, jax.core.Tracer) and getattr(x, "is_fully_addressable", True)


def _on_host(x: Any) -> bool:
    return not isinstance(x, jax.Array) or all(device.platform == "cpu" for device in x.devices())


def extremes(x: Any) -> tuple[int, int]:
    """Return the least and the largest number of a concrete array."""
    if _on_host(x):
        values = np.asarray(x)
        return int(values.min()), int(values.max())
    with jax.ensure_compile_time_eval():  # it may be concrete within a trace, and too large to be copied to the host
        return int(x.min()), int(x.max())
