# SPDX-License-Identifier: Apache-2.0
"""Open HDF5 files, which needs h5py, and read their datasets; read tables; what is missing is named."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError

__all__ = ["dataset", "decoded", "h5py_for", "integers", "members", "opened", "rows_of_table"]

Array = Any
Group = Any  # of h5py


def h5py_for(where: str) -> Any:
    """Import h5py; raise if it is not installed."""
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise ImportError(f"{where}: needs the package h5py; install it with `pip install h5py`") from error


def opened(where: str, path: Path) -> Any:
    """Open a file for reading."""
    h5py = h5py_for(where)
    if not path.is_file():
        raise NetworkError(f"{where}: {path} does not exist; correct the path in the config")
    if not h5py.is_hdf5(path):
        raise NetworkError(f"{where}: {path} is not an HDF5 file")
    return h5py.File(path, "r")


def members(where: str, file: Any, name: str) -> dict[str, Group]:
    """Return the groups within a group of a file, such as the populations of `nodes`."""
    if name not in file:
        raise NetworkError(f"{where}: {file.file.filename} has no group '/{name}'; is it a SONATA file of {name}?")
    return {key: value for key, value in file[name].items() if hasattr(value, "items")}


def dataset(where: str, group: Group, name: str) -> Array:
    """Return the numbers of a dataset (n,)."""
    if name not in group:
        raise NetworkError(f"{where}: {group.file.filename} has no dataset '{group.name}/{name}'")
    found = group[name]
    if len(found.shape) != 1:
        raise NetworkError(f"{where}: dataset '{found.name}' has the shape {found.shape}; it must have one dimension")
    return found[()]


def integers(where: str, group: Group, name: str) -> Array:
    """Return a dataset (n,) of ids or places, which some programs write as floats."""
    found = dataset(where, group, name)
    if found.dtype.kind in "iu":
        return found
    whole = found.dtype.kind == "f" and np.abs(found).max(initial=0) < 2.0**53 and bool((found == np.rint(found)).all())
    if not whole:
        raise NetworkError(f"{where}: dataset '{group[name].name}' of {group.file.filename} holds no integers")
    return found.astype(np.int64)


def decoded(value: Any) -> Any:
    """Return text of a file as a string, also one in an array; other values as they are."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value


def rows_of_table(where: str, path: Path) -> list[list[str]]:
    """Return the rows of a csv file whose columns have spaces between them, the names of the columns first."""
    try:
        with open(path, newline="") as file:
            return [row for row in csv.reader(file, delimiter=" ", skipinitialspace=True) if any(row)]
    except FileNotFoundError:
        raise NetworkError(f"{where}: {path} does not exist; correct the path in the config") from None
