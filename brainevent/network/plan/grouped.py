# SPDX-License-Identifier: Apache-2.0
"""`Grouped`: how many synapses a neuron has from each group of sources, where an attribute says who is in which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...errors import NetworkError, did_you_mean
from ..description.connect import Connect
from ..description.populations import Population
from ..description.values import Values
from .ends import Ends

__all__ = ["NO_GROUPS", "Grouped", "grouped_of"]

_MOST = 2**32 - 1  # synapses into a neuron
_MOST_GROUPS = 2**24  # that attributes tell apart

Array = Any


@dataclass(frozen=True, eq=False)
class Grouped:
    """Groups of the neurons between which synapses are drawn, and how many synapses there are.

    A target of group i has `table[i, j]` synapses from sources of group j: int64. `group` is the group of each target,
    int32 (targets,). `order` are the sources group by group, int32, of which those of group j begin at `begins[j]`,
    int64 (groups of sources + 1,). `sizes` says how many targets there are in each group. `by` is the name of the
    attribute.
    """

    by: str
    table: Array
    group: Array
    order: Array
    begins: Array
    sizes: Array

    @property
    def edges(self) -> Array:
        """Where the synapses from each group begin among those of a target, and where the last ones end."""
        edges = np.zeros((self.table.shape[0], self.table.shape[1] + 1), np.int64)
        np.cumsum(self.table, axis=1, out=edges[:, 1:])
        return edges

    @property
    def counts(self) -> Array:
        """How many synapses each target has: int64."""
        return self.table.sum(1)[self.group]

    @property
    def total(self) -> int:
        """How many synapses there are."""
        return int(self.table.sum(1) @ self.sizes)

    @property
    def most(self) -> int:
        """The largest number of synapses of a target."""
        return int(self.table.sum(1)[self.sizes > 0].max(initial=0))

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """What native loops read."""
        return self.group, self.table, self.order, self.begins


# What native loops read where synapses are not drawn between groups.
NO_GROUPS = np.zeros(0, np.int32), np.zeros((0, 0), np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class _Members:
    """The neurons of a population by group: as in `Grouped`, with how many there are in each group."""

    group: Array
    order: Array
    sizes: Array


_known: WeakKeyDictionary[Population, dict[str, _Members]] = WeakKeyDictionary()  # attributes do not change


def grouped_of(where: str, connect: Connect, populations: tuple[Population, Population], ends: Ends | None) -> Grouped:
    """Return the groups of the neurons of a description; raise unless each is in the table, and has sources."""
    by, table = str(connect.by), connect.number
    numbers = (None, None) if ends is None else (ends.sources, ends.targets)
    source, target = (
        _members(where, by, population, own, size)
        for population, own, size in zip(populations, numbers, table.shape[::-1], strict=True)
    )
    sizes, there = (
        np.pad(one.sizes, (0, size - one.sizes.size))
        for one, size in zip((source, target), table.shape[::-1], strict=True)
    )
    missing = np.argwhere((table > 0) & (there[:, None] > 0) & (sizes == 0))
    if missing.size:
        i, j = missing[0].tolist()
        raise NetworkError(
            f"{where}: in_degree(..., by={by!r}) draws {table[i, j]} synapses into each target of group {i} from "
            f"sources of group {j}, but {populations[0].name} has none; pass 0 at ({i}, {j}), or a source in this group"
        )
    found = Grouped(by, table, target.group, source.order, np.concatenate([[0], np.cumsum(sizes)]), there)
    if found.most > _MOST:
        raise NetworkError(f"{where}: in_degree(..., by={by!r}) draws {found.most} synapses into a neuron; pass fewer")
    return found


def _members(where: str, by: str, population: Population, numbers: Array | None, groups: int) -> _Members:
    """Return the neurons of a population by group, or those of the given numbers; raise unless all groups are there."""
    of = _known.setdefault(population, {})
    if by not in of:
        of[by] = _sorted(_groups(where, by, population))
    found = of[by]
    if found.sizes.size > groups:
        found = _sorted(found.group if numbers is None else found.group[numbers])
        wrong = np.flatnonzero(found.group >= groups)
        if wrong.size:
            place = int(wrong[0]) if numbers is None else int(numbers[wrong[0]])
            raise NetworkError(
                f"{where}: the attribute {by} of neuron {place} of {population.name} is {found.group[wrong[0]]}, but "
                f"the table has {groups} groups there; pass integers from 0 to {groups - 1}, or a larger table"
            )
        return found
    return found if numbers is None else _sorted(found.group[numbers])


def _sorted(group: Array) -> _Members:
    short = group.astype(np.uint16) if group.max(initial=0) < 2**16 else group  # NumPy sorts these faster
    return _Members(group, short.argsort(kind="stable").astype(np.int32), np.bincount(group))


def _groups(where: str, by: str, population: Population) -> Array:
    """Return the group of each neuron, int32."""
    name = population.name
    if by not in population.at:
        known = list(population.at)
        raise NetworkError(
            f"{where}: {name} has no attribute {by!r}, by which in_degree groups neurons{did_you_mean(by, known)}; "
            f"pass at={{{by!r}: array}} to Population"
        )
    given = population.at[by]
    if isinstance(given, Values):
        raise NetworkError(f"{where}: the attribute {by} of {name} is drawn; in_degree(..., by={by!r}) needs an array")
    found = np.broadcast_to(given, population.size)
    wrong = np.flatnonzero((found != np.floor(found)) | (found < 0) | (found >= _MOST_GROUPS))
    if wrong.size:
        raise NetworkError(
            f"{where}: the attribute {by} of neuron {wrong[0]} of {name} is {found[wrong[0]]:g}; in_degree(..., "
            f"by={by!r}) needs integers, which count groups from 0"
        )
    return found.astype(np.int32)
