# SPDX-License-Identifier: Apache-2.0
"""Attributes of nodes or edges: those of their types, and those of their groups, which come first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError
from .files import decoded, integers, rows_of_table

__all__ = ["Attributes", "Types", "attributes_of", "place_of_ids", "read_types"]

_WIDEST_TABLE = 2**26  # of ids
_MISSING = ("", "NULL", "NaN", "nan", "None")

Array = Any
Group = Any  # of h5py


@dataclass(frozen=True, eq=False)
class Types:
    """A csv file of types: a row for each.

    Attributes:
        path: The file; None if a config names none: then no element has a type.
        ids: Ids of the types: int64 (rows,).
        columns: Values by name, of which None is missing.
    """

    path: Path | None
    ids: Array
    columns: dict[str, list[str | None]]


@dataclass(frozen=True, eq=False)
class _Part:
    """Elements of one group: where they are in the population, and where their attributes are in the group."""

    group: Group
    elements: Any  # int64 (n,), or all of them
    places: Any


@dataclass(frozen=True, eq=False)
class Attributes:
    """Attributes of the elements of one population, in their order.

    Attributes:
        where: Names the population in errors.
        size: How many elements there are.
        types: Their types.
        rows: The row of each element in the types: int (size,).
        used: The rows that elements have.
        parts: Their groups.
    """

    where: str
    size: int
    types: Types
    rows: Array
    used: Array
    parts: tuple[_Part, ...]

    def numbers(self, name: str) -> Array:
        """Return float64 (size,), which is NaN where an element lacks the attribute; it may be a view of one number."""
        result = self._numbers_of_types(name)
        for part, found in self._datasets(name):
            try:
                values = np.asarray(found[()], np.float64)
            except (TypeError, ValueError):
                raise NetworkError(f"{self.where}: '{found.name}' of {found.file.filename} holds no numbers") from None
            values = self._taken(part, found, values)
            if part.elements is ...:
                result = values
            else:
                result = np.array(result)
                result[part.elements] = values
        return result

    def words(self, name: str) -> tuple[Array, list[Any]]:
        """Return text as a code for each element, int (size,), and the text of each code, None where it is missing."""
        column = self.types.columns.get(name, [])
        words: list[Any] = sorted({column[row] for row in self.used if column and column[row] is not None})
        words.append(None)
        of_row = np.array([words.index(column[row]) if column else len(words) - 1 for row in self.used] or [0])
        result = self._by_row(of_row)
        for part, found in self._datasets(name):
            library = found.parent.get("@library", {})
            if name in library:
                own, codes = [decoded(one) for one in library[name][()]], np.asarray(found[()], np.int64)
                self._check_codes(found, codes, len(own))
            else:
                raw, codes = np.unique(found[()], return_inverse=True)
                own = [decoded(one) for one in raw]
            codes = self._taken(part, found, codes) + len(words)
            words += own
            result = np.array(result)
            result[part.elements] = codes
        return result, words

    def named(self, element: int) -> str:
        """Name the type of an element."""
        return f"type {self.types.ids[self.rows[element]]}" if self.types.path else "no type"

    def missing(self, name: str, element: int) -> NetworkError:
        """Return the error that says where an attribute could be that an element lacks."""
        groups = [p.group.name for p in self.parts if p.elements is ... or np.isin(element, p.elements)]
        places = [f"{self.types.path}"] if self.types.path else []
        places += [f"group {one!r} of {self.parts[0].group.file.filename}" for one in groups]
        return NetworkError(f"{self.where}: {self.named(element)} has no {name!r}; add it to {' or to '.join(places)}")

    def _numbers_of_types(self, name: str) -> Array:
        column = self.types.columns.get(name)
        if column is None:
            return np.broadcast_to(np.nan, (self.size,))
        values = np.full(self.used.size, np.nan)
        for place, row in enumerate(self.used):
            if (word := column[row]) is not None:
                try:
                    values[place] = float(word)
                except ValueError:
                    raise NetworkError(
                        f"{self.where}: {name} of type {self.types.ids[row]} is {word!r} in {self.types.path}; it must "
                        "be a number"
                    ) from None
        return self._by_row(values)

    def _by_row(self, values: Array) -> Array:
        """Return a value for each element, given one for each row that is used."""
        if self.used.size <= 1 or (values == values[0]).all():
            return np.broadcast_to(values[0] if values.size else values.dtype.type(0), (self.size,))
        table = np.zeros(int(self.used[-1]) + 1, values.dtype)
        table[self.used] = values
        return table[self.rows]

    def _datasets(self, name: str) -> Iterator[tuple[_Part, Any]]:
        for part in self.parts:
            if name in part.group and hasattr(part.group[name], "shape"):
                yield part, part.group[name]

    def _taken(self, part: _Part, found: Any, values: Array) -> Array:
        """Return the values of the elements of a group, in their order."""
        least = self.size if part.places is ... else int(part.places.max(initial=-1)) + 1
        if values.ndim != 1:
            raise NetworkError(
                f"{self.where}: '{found.name}' of {found.file.filename} has the shape {values.shape}; it must have one "
                "dimension"
            )
        if values.shape[0] < least:
            raise NetworkError(
                f"{self.where}: '{found.name}' of {found.file.filename} has {values.shape[0]} elements, but "
                f"{least} are used"
            )
        return values[: self.size] if part.places is ... else values[part.places]

    def _check_codes(self, found: Any, codes: Array, known: int) -> None:
        if codes.size and not (codes.min() >= 0 and codes.max() < known):
            raise NetworkError(
                f"{self.where}: '{found.name}' of {found.file.filename} has values beyond the {known} of its @library"
            )


def read_types(where: str, path: Path | None, key: str, population: str) -> Types:
    """Read the types of a population: those of its name, if the file has a column `population`."""
    if path is None:
        return Types(None, np.empty(0, np.int64), {})
    rows = rows_of_table(where, path)
    head = rows[0] if rows else []
    if key not in head:
        raise NetworkError(f"{where}: {path} has no column {key!r}; its columns are {', '.join(head) or 'none'}")
    for number, row in enumerate(rows):
        while len(row) > len(head) and row[-1] == "":  # spaces at the end of a line
            row.pop()
        if len(row) != len(head):
            raise NetworkError(f"{where}: {path}: row {number} has {len(row)} values for {len(head)} columns: {row}")
    table = [dict(zip(head, (None if v in _MISSING else v for v in row), strict=True)) for row in rows[1:]]
    table = [row for row in table if row.get("population") in (None, population)]
    try:
        ids = np.array([int(row[key] or "") for row in table], np.int64)
    except ValueError:
        raise NetworkError(f"{where}: {path}: a {key} is no integer") from None
    twice = np.flatnonzero(np.bincount(np.unique(ids, return_inverse=True)[1]) > 1)
    if twice.size:
        raise NetworkError(f"{where}: {path} has {key} {np.unique(ids)[twice[0]]} more than once")
    return Types(path, ids, {name: [row[name] for row in table] for name in head})


def attributes_of(where: str, group: Group, kind: str, types: Types) -> Attributes:
    """Return the attributes of a population; `kind` is "node" or "edge"."""
    name = f"{kind}_type_id"
    if types.path is None:
        size = next(iter(one.shape[0] for one in group.values() if hasattr(one, "shape")), 0)
        size = group[name].shape[0] if name in group else size
        rows, used = np.zeros(size, np.int64), np.empty(0, np.int64)
    else:
        ids = integers(where, group, name)
        size = ids.size
        rows = place_of_ids(types.ids, ids)
        if size and rows.min() < 0:
            element = int(np.argmin(rows))
            raise NetworkError(
                f"{where}: {kind} {element} has the {name} {ids[element]}, which {types.path} does not have"
            )
        used = np.flatnonzero(np.bincount(rows, minlength=1)) if size else np.empty(0, np.int64)
    return Attributes(where, size, types, rows, used, _parts(where, group, kind, size))


def _parts(where: str, group: Group, kind: str, size: int) -> tuple[_Part, ...]:
    """Return the groups of a population."""
    numbered = {int(key): value for key, value in group.items() if key.isdigit() and hasattr(value, "items")}
    if f"{kind}_group_id" not in group:
        if len(numbered) > 1:
            raise dataset_missing(where, group, f"{kind}_group_id")
        return tuple(_Part(one, ..., ...) for one in numbered.values())
    ids, places = (integers(where, group, f"{kind}_group_{what}") for what in ("id", "index"))
    if ids.size != size or places.size != size:
        raise NetworkError(
            f"{where}: {group.file.filename} has {size} {kind}s, but {ids.size} {kind}_group_id and {places.size} "
            f"{kind}_group_index"
        )
    places = places.astype(np.int64, copy=False)
    if size and ids.min() == ids.max():
        chosen: dict[int, Any] = {int(ids[0]): ...}
    else:
        chosen = {int(one): np.flatnonzero(ids == one) for one in np.unique(ids)}
    parts = []
    for number, elements in chosen.items():
        if number not in numbered:
            raise NetworkError(f"{where}: {group.file.filename} has no group '{group.name}/{number}', which is used")
        own = places if elements is ... else places[elements]
        if own.size and own.min() < 0:
            raise NetworkError(f"{where}: {group.file.filename} has a negative {kind}_group_index")
        in_order = elements is ... and (own == np.arange(size)).all()
        parts.append(_Part(numbered[number], elements, ... if in_order else own))
    return tuple(parts)


def dataset_missing(where: str, group: Group, name: str) -> NetworkError:
    """Return the error that names a dataset that several groups need."""
    return NetworkError(f"{where}: {group.file.filename} has several groups, but no dataset '{group.name}/{name}'")


def place_of_ids(known: Array, ids: Array) -> Array:
    """Return the place of each id among the known ones, which differ; -1 where it is not among them."""
    ids = np.asarray(ids)
    if not known.size:
        return np.full(ids.shape, -1, np.int32)
    low, high = int(known.min()), int(known.max())
    if high - low >= _WIDEST_TABLE:
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known, ids, sorter=order), known.size - 1)
        found = order[place]
        return np.where(known[found] == ids, found, -1)
    if ids.size and (int(ids.min()) < low or int(ids.max()) > high):
        ids = ids.astype(np.int64)
        within = (ids >= low) & (ids <= high)
        return np.where(within, place_of_ids(known, np.where(within, ids, low)), -1)
    if known.size == high - low + 1 and (known == np.arange(low, high + 1)).all():
        return ids.astype(np.int32) if low == 0 else (ids.astype(np.int64) - low).astype(np.int32)
    table = np.full(high - low + 1, -1, np.int32)
    table[known - low] = np.arange(known.size, dtype=np.int32)
    return table[ids if low == 0 else ids.astype(np.int64) - low]
