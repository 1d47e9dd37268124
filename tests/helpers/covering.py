# SPDX-License-Identifier: Apache-2.0
"""Thin full grids of parameters to covering arrays: what is left out is marked `thorough`.

Of a test that is marked `covering`, `make test` runs so many items that each value of each parameter occurs, and each
pair of values of two parameters that occurs in the grid. For a test that several classes inherit, the class is one more
parameter. With `strength=1`, each value is enough, and with `strength=0`, one item; with `times=3`, all is to occur
three times, as far as the grid has it. With `most=2`, it is two items at most: those that hold most of it. Items for a
GPU are all left as they are.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations

import pytest

__all__ = ["covering_rows"]

Row = Mapping[str, Hashable]


def covering_rows(rows: Sequence[Row], strength: int = 2, times: int = 1, most: int | None = None) -> list[int]:
    """Return the numbers of rows that together hold every combination of `strength` values that is in any row."""
    chosen = []
    for _ in range(times):
        left = [i for i in range(len(rows)) if i not in chosen]
        chosen += [left[i] for i in _once([_combinations(rows[i], strength) for i in left])]
    return sorted(chosen[:most])


def _once(missing: list[set[Hashable]]) -> list[int]:
    """Return the numbers of sets whose union is that of all: always the one that has most of what is missing."""
    chosen = []
    while any(missing):
        best = max(range(len(missing)), key=lambda i: (len(missing[i]), -i))
        chosen.append(best)
        missing = [left - missing[best] for left in missing]
    return chosen


def _combinations(row: Row, strength: int) -> set[tuple[tuple[str, Hashable], ...]]:
    values = sorted(row.items(), key=lambda value: value[0])
    return set(combinations(values, min(strength, len(values))))


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as thorough what the covering arrays leave out."""
    grids = defaultdict(list)
    for item in sorted(items, key=lambda item: item.path):  # in one order in every worker
        if _strength(item) is not None and not any(map(item.get_closest_marker, ("thorough", "gpu"))):
            grids[item.function.__module__, item.function.__qualname__].append(item)
    for grid in grids.values():
        asked = grid[0].get_closest_marker("covering").kwargs
        chosen = set(covering_rows([_row(item) for item in grid], **asked))
        for number, item in enumerate(grid):
            if number not in chosen:
                item.add_marker("thorough")


def _strength(item: pytest.Item) -> int | None:
    """Return the strength that an item's mark asks for; None if it is to run in any case."""
    mark = item.get_closest_marker("covering")
    return mark.kwargs.get("strength", 2) if mark and isinstance(item, pytest.Function) else None


def _row(item: pytest.Item) -> Row:
    """Return which value each of an item's parameters has, and where it was collected."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return {name: id(value) for name, value in parameters.items()} | {"class": item.parent}
