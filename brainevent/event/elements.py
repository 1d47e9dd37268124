# SPDX-License-Identifier: Apache-2.0
"""Where the stored elements of a matrix are, in `jax.numpy`: so every operator has a reference for every format.

A format says in which row and in which column each element is: by an array of indices, or by an axis of what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .operands import is_within

__all__ = ["Elements", "Place", "is_in", "taken_at"]

Place = Any  # an array of indices in the shape of what is stored, or the number of one of its axes


@dataclass(frozen=True)
class Elements:
    """The elements of a matrix of a `shape`, stored in arrays of the shape `stored`."""

    stored: tuple[int, ...]
    shape: tuple[int, int]
    row: Place
    column: Place

    def directed(self, *, transpose: bool) -> tuple[Place, Place, int]:
        """Return the places from which a product takes values, those to which it adds, and the size of its result."""
        m, k = self.shape
        return (self.row, self.column, k) if transpose else (self.column, self.row, m)

    @property
    def there(self) -> Any:
        """Whether each element is in a row and in a column of the matrix."""
        return is_in(self.row, self.shape[0]) & is_in(self.column, self.shape[1])

    def numbers(self, place: Place) -> jax.Array:
        """Return the number of the row or column of each element, flat."""
        if isinstance(place, int):
            along = self.at(place, jnp.arange(self.stored[place], dtype=jnp.int32))
            return jnp.broadcast_to(along, self.stored).reshape(-1)
        return place.reshape(-1)

    def at(self, place: Place, x: Any) -> jax.Array:
        """Return for each element the value of x (size, ...) at its place; any value if the place is out of range."""
        if isinstance(place, int):
            return jnp.expand_dims(x, [axis for axis in range(len(self.stored)) if axis != place])
        return taken_at(x, place)

    def merged(self, place: Place, terms: Any, size: int, *, merge: str = "add", start: float = 0) -> jax.Array:
        """Add, or merge, the terms of elements (stored, ...) that have the same place: (size, ...)."""
        rest = terms.shape[len(self.stored) :]
        there = jnp.broadcast_to(self.there, self.stored)
        there = jnp.expand_dims(there, range(there.ndim, there.ndim + len(rest)))
        terms = jnp.broadcast_to(jnp.where(there, terms, jnp.asarray(start, terms.dtype)), (*self.stored, *rest))
        if isinstance(place, int):
            others = tuple(axis for axis in range(len(self.stored)) if axis != place)
            return terms.sum(others) if merge == "add" else getattr(terms, merge)(others, initial=start)
        found = jnp.full((size, *rest), start, terms.dtype).at[jnp.where(self.there, place, 0)]
        merged: jax.Array = getattr(found, merge)(terms)
        return merged


def is_in(place: Place, size: int) -> Any:
    """Say of each element whether its row or column is in range."""
    return jnp.ones((), bool) if isinstance(place, int) else is_within(place, size)


def taken_at(x: Any, places: Any) -> jax.Array:
    """Return the values of x (size, ...) at places; any value for a place that is out of range."""
    if not x.shape[0]:
        return jnp.zeros((*places.shape, *x.shape[1:]), x.dtype)
    found: jax.Array = x[jnp.where(is_within(places, x.shape[0]), places, 0)]
    return found
