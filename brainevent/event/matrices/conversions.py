# SPDX-License-Identifier: Apache-2.0
"""Between formats: the elements of dense arrays and back, the arguments of constructors, and formats by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ..operands import is_scipy
from ..precision import precise
from ..room import check_array, check_room

__all__ = [
    "InRows",
    "checked_dense",
    "dense_array",
    "dense_elements",
    "format_named",
    "named_format",
    "parts",
    "pick",
]

T = TypeVar("T")

_FORMATS: dict[str, type] = {}


def named_format(cls: type[T]) -> type[T]:
    """Let matrices be converted to this format, so that files of formats need not import each other."""
    _FORMATS[cls.__name__] = cls
    return cls


def format_named(name: str) -> Any:
    """Return the class of a format."""
    return _FORMATS[name]


def dense_array(matrix: Any) -> jax.Array:
    """Return a matrix as a dense array; elements that are stored more than once are added up."""
    matrix._look(f"{type(matrix).__name__}.todense")
    numbers, unit = units.split(matrix.data)
    sums = precise(numbers.dtype)
    check_array(f"{type(matrix).__name__}.todense", matrix.shape, sums)
    flat = jnp.broadcast_to(numbers, matrix._stored).reshape(-1).astype(sums)
    places: tuple[jax.Array, ...] = matrix._coordinates()
    if not matrix.indices_within:  # negative indices would count from the end
        places = tuple(jnp.where(x < 0, size, x) for x, size in zip(places, matrix.shape, strict=True))
    found = jnp.zeros(matrix.shape, sums).at[places].add(flat, mode="drop")
    return units.join(found.astype(numbers.dtype), unit)


class InRows(NamedTuple):
    """Elements of a matrix in the order of its rows."""

    data: Any
    rows: Any
    columns: Any


def parts(where: str, first: Any, names: Sequence[str]) -> Sequence[Any]:
    """Return the parts of a matrix that were passed as one tuple."""
    if not isinstance(first, (tuple, list)) or len(first) != len(names):
        listed = ", ".join(names)
        raise TypeError(f"{where}: pass {where}({listed}, shape=...) or {where}(({listed}), shape=...)")
    return first


def pick(data: Any, order: Any) -> Any:
    """Return weights in another order; one weight for all stays as it is."""
    return data if data.size == 1 else data[order]


def checked_dense(where: str, matrix: Any) -> Any:
    """Return a dense matrix of floating numbers, with their unit."""
    if is_scipy(matrix):
        raise TypeError(f"{where}.fromdense: {type(matrix).__name__} is a sparse matrix; call {where}.fromscipy")
    numbers, unit = units.split(matrix)
    numbers = jnp.asarray(numbers, None if hasattr(numbers, "dtype") else float)
    if numbers.ndim != 2:
        raise ValueError(f"{where}.fromdense: the array has shape {numbers.shape}; pass a matrix")
    if not jnp.issubdtype(numbers.dtype, jnp.floating):
        raise TypeError(f'{where}.fromdense: the array is {numbers.dtype}; pass floating weights (x.astype("float32"))')
    return units.join(numbers, unit)


def dense_elements(where: str, matrix: Any, nse: int | None = None) -> InRows:
    """Return the nonzero elements of a dense matrix; with `nse`, that number of elements, padded with zeros."""
    numbers, unit = units.split(matrix)
    last = (max(numbers.shape[0] - 1, 0), max(numbers.shape[1] - 1, 0))
    if isinstance(numbers, jax.core.Tracer):
        if nse is None:
            raise ValueError(
                f"{where}.fromdense: the number of nonzero elements is unknown under tracing; pass nse=..."
            )
        rows, columns = jnp.nonzero(numbers, size=nse, fill_value=last)
        filled = jnp.arange(nse) < jnp.count_nonzero(numbers)
        return InRows(units.join(jnp.where(filled, numbers[rows, columns], 0), unit), rows, columns)
    found = np.asarray(numbers).nonzero()
    extra = 0 if nse is None else nse - found[0].size
    if extra < 0 or (extra > 0 and numbers.size == 0):
        raise ValueError(f"{where}.fromdense: {found[0].size} elements are nonzero; nse={nse} does not fit them")
    check_room(f"{where}.fromdense", f"nse={nse} elements", extra * (numbers.dtype.itemsize + 16), on_host=True)
    data = jnp.pad(numbers[found], (0, extra))
    places = (np.pad(x, (0, extra), constant_values=at) for x, at in zip(found, last, strict=True))
    return InRows(units.join(data, unit), *places)
