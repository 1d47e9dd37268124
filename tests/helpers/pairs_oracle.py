# SPDX-License-Identifier: Apache-2.0
"""Synapses that functions of two neurons decide, pair by pair in plain NumPy: the oracle of every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from brainevent.network.plan.keys import key_of
from brainevent.scalar.threefry import threefry

__all__ = ["LAWS", "Attributes", "drawn_attributes", "pairs_of_oracle"]

Array = Any
F = np.float32


class Attributes(NamedTuple):
    """Where neurons are, as functions read it."""

    x: Array
    y: Array


def _square(a: Any, b: Any) -> Any:
    return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)


def _around(a: Any, b: Any, xp: Any) -> Any:
    """Return the distance along x on a ring of length 1."""
    apart = xp.abs(a.x - b.x)
    return xp.minimum(apart, F(1) - apart)


# Of operations that round alike everywhere: probabilities, of two neurons and a module with functions of arrays.
LAWS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "one number": lambda a, b, xp: F(0.25) + F(0) * a.x,
    "near": lambda a, b, xp: xp.where(_square(a, b) < F(0.04), F(0.5), F(0)),
    "falls": lambda a, b, xp: F(0.02) / (F(0.02) + _square(a, b)),
    "a ring": lambda a, b, xp: xp.maximum(F(0), F(1) - F(4) * _around(a, b, xp)),
    "in a layer": lambda a, b, xp: xp.where(xp.floor(a.x * F(4)) == xp.floor(b.x * F(4)), F(1), F(0)),
    "of the source": lambda a, b, xp: a.x * a.x,
    "of the target": lambda a, b, xp: xp.where(b.y > F(0.5), F(1) - b.y, F(0)),
    "nowhere": lambda a, b, xp: xp.where(a.x + b.x < F(-1), F(1), F(0)),
}


def drawn_attributes(name: str, size: int, seed: int) -> Attributes:
    """Return attributes x and y that are `uniform(0, 1)`, as a population of a name draws them."""
    return Attributes(*(_units(key_of(seed, f"at {name}.{key}"), 0, np.arange(size))[0] for key in "xy"))


def _units(key: tuple[int, int], row: Any, place: Any) -> tuple[Array, Array]:
    """Return numbers from 0 to 1, without 1, of the first and of the second word of places in rows."""
    counters = np.broadcast_arrays(np.asarray(row, np.uint32), np.asarray(place, np.uint32))
    words = threefry(np.uint32(key[0]), np.uint32(key[1]), *(np.array(one) for one in counters))
    first, second = ((word >> np.uint32(8)).astype(F) * F(2**-24) for word in words)
    return first, second


def pairs_of_oracle(
    name: str, chance: Callable[..., Any], source: Attributes, target: Attributes, seed: int, *, skip: bool
) -> tuple[Array, Array]:
    """Return the sources and targets of synapses: a pair has one if its word is below its probability."""
    key = key_of(seed, f"targets of {name}")
    rows, columns = (np.arange(len(one.x)) for one in (source, target))
    grid = np.broadcast_arrays(rows[:, None].astype(np.uint32), columns[None, :].astype(np.uint32))
    words = threefry(np.uint32(key[0]), np.uint32(key[1]), *(np.array(one) for one in grid))[0]
    unit = np.minimum(words.astype(F) * F(2**-32), F(1 - 2**-24))
    by_row = Attributes(*(one[:, None] for one in source))
    by_column = Attributes(*(one[None, :] for one in target))
    connected = unit < np.broadcast_to(chance(by_row, by_column, np), unit.shape)
    if skip:
        np.fill_diagonal(connected, False)
    sources, targets = np.nonzero(connected)
    return sources, targets
