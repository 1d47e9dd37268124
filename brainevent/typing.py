# SPDX-License-Identifier: Apache-2.0
"""Names for the arguments and results of public signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np
from jax.typing import DTypeLike

__all__ = [
    "ArrayLike",
    "DTypeLike",
    "EventLike",
    "Events",
    "IndexLike",
    "PyTree",
    "Quantity",
    "SeedLike",
    "Shape",
    "TypesLike",
]


class Quantity(Protocol):
    """Numbers with a unit, such as those of `brainunit`."""

    @property
    def mantissa(self) -> Any:
        """The numbers."""

    @property
    def unit(self) -> Any:
        """The unit."""


class Events(Protocol):
    """Events in one of the forms of `brainevent`, such as a `BinaryArray`."""

    @property
    def value(self) -> Any:
        """The events as an array."""


ArrayLike: TypeAlias = jax.typing.ArrayLike | Quantity
"""An array of JAX or NumPy, a number, or a quantity of `brainunit`."""

EventLike: TypeAlias = ArrayLike | Events
"""Events in any form: a `BinaryArray` or its like, or an array in which every element that is not zero is an event."""

IndexLike: TypeAlias = jax.Array | np.ndarray | Sequence[int | np.integer[Any]]
"""Indices, of int32 or int64: an array of JAX or NumPy, or a list of integers."""

SeedLike: TypeAlias = int | jax.Array | np.integer[Any] | None
"""The seed of a random matrix: an integer, a key of `jax.random.key`, or None for a new one."""

Shape: TypeAlias = tuple[int, int]
"""The shape of a matrix: (rows, columns)."""

PyTree: TypeAlias = Any
"""An array, or a nested structure of tuples, lists, dictionaries and registered classes with arrays as leaves."""

TypesLike: TypeAlias = Any
"""Types of results: a `jax.ShapeDtypeStruct`, an array with this type, or a nested structure of these."""
