# SPDX-License-Identifier: Apache-2.0
"""Matrices as lists of synapses: ours, SciPy's, and dense arrays of shape (sources, targets)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError
from ...event.matrices.base import DataRepresentation
from ...event.matrices.dense import Dense
from ...event.operands import is_scipy
from ..description.units import array_in

__all__ = ["Listed", "listed"]

Array = Any


@dataclass(frozen=True, eq=False)
class Listed:
    """Synapses one by one.

    `sources` and `targets` are int32 (n,), `weights` is float64 (n,), or (1,) if it is the same for all. `stored` is
    the shape of one delay for each stored element; `chosen` says where in such an array those of the synapses are.
    """

    sources: Array
    targets: Array
    weights: Array
    stored: tuple[int, ...]
    chosen: Any

    def delays(self, where: str, delays: Array) -> Array:
        """Return the delays of the synapses, of those of all stored elements."""
        if np.shape(delays) == self.stored:
            return np.ascontiguousarray(delays[self.chosen].reshape(-1))
        raise NetworkError(
            f"{where}: has the shape {np.shape(delays)}; pass one number, or one for each stored element: {self.stored}"
        )


def listed(where: str, matrix: Any, shape: tuple[int, int], unit: Any = None) -> Listed:
    """Return the synapses of a matrix; `unit` is that of its weights, if they have one."""
    if isinstance(matrix, DataRepresentation) and not isinstance(matrix, Dense):
        found = _sparse(where, matrix, shape, unit)
    elif is_scipy(matrix):
        found = _scipy(where, matrix, shape, unit)
    else:
        found = _dense(where, matrix.todense() if isinstance(matrix, Dense) else matrix, shape, unit)
    for what, places, size in (("row", found.sources, shape[0]), ("column", found.targets, shape[1])):
        if places.size and not (places.min() >= 0 and places.max() < size):
            wrong = int(np.flatnonzero((places < 0) | (places >= size))[0])
            raise NetworkError(f"{where}: element {wrong} is in {what} {places[wrong]}; pass 0 to {size - 1}")
    return found


def _check_shape(where: str, found: tuple[int, ...], shape: tuple[int, int]) -> None:
    if tuple(found) != shape:
        turned = " (it is that of the transposed matrix: pass matrix.T)" if tuple(found) == shape[::-1] else ""
        raise NetworkError(f"{where}: has the shape {tuple(found)}{turned}; pass (sources, targets), which is {shape}")


def _numbers(where: str, data: Any, unit: Any) -> Array:
    numbers = array_in(where, data, unit)
    if numbers.dtype == object:
        raise NetworkError(f"{where} is of type {type(data).__name__}; pass one of brainevent or SciPy, or an array")
    if numbers.dtype.kind not in "biuf" and numbers.dtype.name != "bfloat16":
        raise NetworkError(f"{where}: holds {numbers.dtype}; pass real numbers")
    return numbers.astype(np.float64)


def _sparse(where: str, matrix: Any, shape: tuple[int, int], unit: Any) -> Listed:
    _check_shape(where, matrix.shape, shape)
    sources, targets = (np.ascontiguousarray(np.asarray(x).reshape(-1), np.int32) for x in matrix._coordinates())
    weights = _numbers(where, matrix.data, unit).reshape(-1)
    return Listed(sources, targets, weights, tuple(matrix._stored), ...)


def _scipy(where: str, matrix: Any, shape: tuple[int, int], unit: Any) -> Listed:
    _check_shape(where, matrix.shape, shape)
    found = matrix.tocoo()
    sources, targets = (np.ascontiguousarray(x, np.int32) for x in (found.row, found.col))
    return Listed(sources, targets, _numbers(where, found.data, unit), (sources.size,), ...)


def _dense(where: str, matrix: Any, shape: tuple[int, int], unit: Any) -> Listed:
    numbers = _numbers(where, matrix, unit)
    _check_shape(where, numbers.shape, shape)
    places = np.nonzero(numbers)
    sources, targets = (place.astype(np.int32) for place in places)
    return Listed(sources, targets, numbers[places], shape, places)
