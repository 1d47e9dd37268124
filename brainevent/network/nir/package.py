# SPDX-License-Identifier: Apache-2.0
"""The package nir, which is loaded when a file is read or a graph is made."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

from ...errors import NetworkError

__all__ = ["graph_of_file", "nir_package"]


def graph_of_file(path: str | os.PathLike[str]) -> Any:
    """Return the `nir.NIRGraph` of a file."""
    package = nir_package("from_nir")
    if not os.path.isfile(path):
        raise NetworkError(f"from_nir: {os.fspath(path)} is no file; correct the path")
    try:
        # Its own check of types knows neither groups nor windows that are no squares.
        return package.read(path, type_check=False)
    except (OSError, KeyError) as error:  # of h5py: no HDF5, or nothing in it that NIR expects
        raise NetworkError(f"from_nir: {os.fspath(path)} is no file of NIR: {error.args[0]}") from error


def nir_package(where: str) -> ModuleType:
    """Return the package; raise if it is not installed, also where a folder of the program has its name."""
    try:
        package = importlib.import_module("nir")
        if getattr(package, "__file__", None) is None:
            raise ModuleNotFoundError(f"the folder {next(iter(package.__path__))} has its name", name="nir")
        return package
    except ImportError as error:
        raise ModuleNotFoundError(
            f"{where} needs the package nir, which does not load: {error}; run: pip install nir", name=error.name
        ) from error
