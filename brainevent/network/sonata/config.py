# SPDX-License-Identifier: Apache-2.0
"""Read the JSON files of a circuit and of a simulation, with the variables of their manifests replaced."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import NetworkError, did_you_mean

__all__ = ["Config", "read_config", "read_json"]

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")


@dataclass(frozen=True, eq=False)
class Config:
    """A simulation and its circuit: the content of their files, with paths that are not relative to a variable.

    Attributes:
        path: File that was read.
        content: All sections; those of the simulation replace those of the circuit.
        folders: Folder of the file from which each section comes: relative paths begin there.
    """

    path: Path
    content: Mapping[str, Any]
    folders: Mapping[str, Path]

    def section(self, name: str, kind: type = dict) -> Any:
        """Return a section, empty if there is none."""
        found = self.content.get(name)
        if found is None:
            return kind()
        if not isinstance(found, kind):
            raise NetworkError(f"read_sonata: {self.path}: {name!r} is {found!r}; it must be a {kind.__name__}")
        return found

    def file(self, section: str, path: Any, what: str) -> Path:
        """Return the path of a file that a section names."""
        if not isinstance(path, str) or not path:
            raise NetworkError(f"read_sonata: {self.path}: {what} is {path!r}; it must be the path of a file")
        return self.folders[section] / path


def read_config(path: Any) -> Config:
    """Read a config, and the circuit that a simulation names."""
    if not isinstance(path, (str, os.PathLike)):
        raise NetworkError(f"read_sonata: config is {path!r}; pass the path of a file")
    path = Path(path)
    content = _resolved(path)
    folders = dict.fromkeys(content, path.parent)
    circuit = content.pop("network", None) or content.pop("circuit", None)
    if isinstance(circuit, str):
        other = path.parent / circuit
        inner = _resolved(other)
        folders = {**dict.fromkeys(inner, other.parent), **folders}
        merged = {**inner, **content}
        for name in ("components", "node_sets"):  # both files may have some
            if isinstance(inner.get(name), dict) and isinstance(content.get(name), dict):
                merged[name] = {**inner[name], **content[name]}
        content = merged
    if "networks" not in content:
        raise NetworkError(
            f"read_sonata: {path} has neither 'networks' nor 'network', the path of a circuit config; it has "
            f"{', '.join(content) or 'nothing'}"
        )
    return Config(path, content, folders)


def read_json(where: str, path: Path) -> dict[str, Any]:
    """Read a file that holds one object."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise NetworkError(f"{where}: {path} does not exist") from None
    except (IsADirectoryError, NotADirectoryError):
        raise NetworkError(f"{where}: {path} is no file") from None
    except ValueError as error:
        raise NetworkError(f"{where}: {path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise NetworkError(f"{where}: {path} holds a {type(found).__name__}; it must be an object {{...}}")
    return found


def _resolved(path: Path) -> dict[str, Any]:
    """Return the content of a config without its manifest, whose variables are replaced."""
    content = read_json("read_sonata", path)
    known = {"configdir": ".", "configfname": path.name, "workingdir": str(Path.cwd())}
    manifest = content.pop("manifest", None) or {}
    for name, value in manifest.items():
        known[name.strip("${}")] = value
    final: dict[str, str] = {}

    def value_of(name: str, within: tuple[str, ...]) -> str:
        if name in within:
            raise NetworkError(f"read_sonata: {path}: manifest: {' -> '.join((*within, name))} refers to itself")
        if name not in known:
            hint = did_you_mean(f"${name}", [f"${one}" for one in known])
            raise NetworkError(f"read_sonata: {path}: ${name} is not in the manifest{hint}")
        if name not in final:
            final[name] = _VARIABLE.sub(lambda found: value_of(found[1], (*within, name)), str(known[name]))
        return final[name]

    def replaced(value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(lambda found: value_of(found[1], ()), value)
        if isinstance(value, dict):
            return {key: replaced(one) for key, one in value.items()}
        return [replaced(one) for one in value] if isinstance(value, list) else value

    kept = ("node_sets",)  # their values may be patterns with a $
    return {key: value if key in kept else replaced(value) for key, value in content.items()}
