# SPDX-License-Identifier: Apache-2.0
"""Write populations as nodes of SONATA: an HDF5 file, types in csv, and parameters that all have in JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .described import Cells
from .files import h5py_for
from .writing import mark

__all__ = ["FIRST_TYPE", "NODES", "NODE_TYPES", "file_name", "write_nodes", "write_table"]

NODES, NODE_TYPES = "nodes.h5", "node_types.csv"
FIRST_TYPE = 100
_COLUMNS = ("node_type_id", "model_type", "model_template", "dynamics_params")

Array = Any


def write_nodes(folder: Path, models: Path, populations: Iterable[Cells]) -> None:
    """Write all populations: each is a type, and its neurons are one group for each length of their lists."""
    rows: list[Sequence[Any]] = []
    by_label: dict[str, list[tuple[int, Cells]]] = {}
    for number, cells in enumerate(populations, FIRST_TYPE):
        by_label.setdefault(cells.label, []).append((number, cells))
        if cells.neuron is None:
            rows.append((number, "virtual", "NULL", "NULL"))
            continue
        params = f"{file_name(cells.name)}_{number}.json"
        same = {key: _plain(one) for key, one in _written(cells).items() if _all_same(one)}
        (models / params).write_text(json.dumps(same, indent=1))
        rows.append((number, "point_neuron", f"nest:{cells.neuron.name}", params))
    write_table(folder / NODE_TYPES, _COLUMNS, rows)
    with h5py_for("write_sonata").File(folder / NODES, "w") as file:
        mark(file)
        for label, parts in by_label.items():
            _write(file.create_group(f"nodes/{label}"), parts)


def _write(group: Any, parts: list[tuple[int, Cells]]) -> None:
    """Write the nodes of one population of SONATA, given the types and neurons of which it has some."""
    ids, types, group_ids, places = ([np.empty(0, np.uint32)] for _ in range(4))
    number = 0
    for kind, cells in parts:
        of_node = np.empty(cells.ids.size, np.uint32)
        within = np.empty(cells.ids.size, np.uint32)
        values = {key: one for key, one in _written(cells).items() if not _all_same(one)}
        for chosen in _alike(values, cells.ids.size):
            inner = group.create_group(str(number))
            for key, one in cells.at.items():
                inner[key] = one[chosen]
            for key, one in values.items():
                found = one[chosen]
                inner[f"dynamics_params/{key}"] = found if found.ndim == 1 else found[:, ~np.isnan(found[0])]
            of_node[chosen], within[chosen] = number, np.arange(chosen.size)
            number += 1
        ids.append(cells.ids)
        types.append(np.full(cells.ids.size, kind))
        group_ids.append(of_node)
        places.append(within)
    for key, columns, dtype in (
        ("node_id", ids, np.uint64),
        ("node_type_id", types, np.uint32),
        ("node_group_id", group_ids, np.uint32),
        ("node_group_index", places, np.uint32),
    ):
        group[key] = np.concatenate(columns).astype(dtype)


def _written(cells: Cells) -> dict[str, Array]:
    """Return the parameters that are written: without those of which a model has only one value."""
    assert cells.neuron is not None or not cells.values
    return {key: one for key, one in cells.values.items() if cells.neuron and key not in cells.neuron.fixed}


def _all_same(values: Array) -> bool:
    return bool(((values == values[:1]) | (np.isnan(values) & np.isnan(values[:1]))).all())


def _plain(values: Array) -> float | list[float]:
    """Return what all neurons have as a number, or as a list."""
    first: Array = values[0]
    return first[~np.isnan(first)].tolist() if first.ndim else first.item()


def _alike(values: Mapping[str, Array], size: int) -> list[Array]:
    """Return the neurons whose lists have the same elements, one array for each such set of elements."""
    lists = [np.isnan(one) for one in values.values() if one.ndim > 1]
    if not lists:
        return [np.arange(size)]
    _, which = np.unique(np.concatenate(lists, axis=1), axis=0, return_inverse=True)
    return [np.flatnonzero(which.reshape(-1) == k) for k in range(int(which.max()) + 1)]


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a csv file as SONATA has them: with spaces between values."""
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter=" ", lineterminator="\n").writerows([columns, *rows])


def file_name(name: str) -> str:
    """Return a name with letters, digits, - and _ alone, for files and node sets."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "-_") else "_" for one in name)
