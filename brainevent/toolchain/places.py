# SPDX-License-Identifier: Apache-2.0
"""The places where compilers may be; runs none."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .. import config

__all__ = ["Place", "host_places", "nvcc_places", "pip_siblings"]

_HOST_NAMES = ("g++", "c++", "clang++")
_DEFAULT_CUDA = "/usr/local/cuda"


class Place(NamedTuple):
    """A place to search: a command, or what is `wrong` there; a `named` one was given by its path, and must work."""

    origin: str
    command: tuple[str, ...]
    wrong: str = ""
    named: bool = False

    @property
    def path(self) -> str:
        """Return the command as text."""
        return shlex.join(self.command)


def host_places() -> Iterator[Place]:
    """Yield the places of C++ compilers, the preferred one first."""
    named = os.environ.get("CXX", "").strip()
    yield _named_host(named) if named else Place("$CXX", (), "not set")
    yield from _conda_places(os.environ.get("CONDA_PREFIX", ""))
    for name in _HOST_NAMES:
        path = shutil.which(name)
        yield Place("PATH", (os.path.abspath(path),)) if path else Place("PATH", (name,), "is not on PATH")


def nvcc_places() -> Iterator[Place]:
    """Yield the places of CUDA compilers, the preferred one first."""
    prefer = os.environ.get("BRAINEVENT_NVCC_PREFER", "")
    if prefer not in ("", "pip", "system"):
        raise ValueError(f"$BRAINEVENT_NVCC_PREFER is {prefer!r}; set it to 'pip' or 'system', or unset it")
    yield _named_nvcc(os.environ.get("BRAINEVENT_NVCC_PATH", ""))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        home = os.environ.get(variable, "")
        yield _file(f"${variable}", f"{home}/bin/nvcc") if home else Place(f"${variable}", (), "not set")
    system_first = config.prefers_system_nvcc() or prefer == "system"
    for places in (_system_nvcc, _pip_nvccs) if system_first else (_pip_nvccs, _system_nvcc):
        yield from places()
    yield _file(_DEFAULT_CUDA, f"{_DEFAULT_CUDA}/bin/nvcc")


def pip_siblings(nvcc: str, major: int, folder: str) -> list[str]:
    """Return the folders "include" or "lib" of the pip packages that belong to a pip package's nvcc."""
    tree = Path(nvcc).parents[2]
    # Up to CUDA 12, each part has its own folder, which may exist next to a newer release.
    parts = ("cuda_runtime", "cuda_nvcc", "cuda_cccl") if major <= 12 else ()
    return [str(tree / part / folder) for part in (f"cu{major}", *parts)]


def _file(origin: str, path: str, *arguments: str, named: bool = False) -> Place:
    """Return the place of a file, with the reason if it cannot be run."""
    path = os.path.abspath(path)
    wrong = ""
    if not os.path.exists(path):
        wrong = "does not exist"
    elif not os.path.isfile(path):
        wrong = "is not a file"
    elif not os.access(path, os.X_OK):
        wrong = f"is not executable; run: chmod +x {shlex.quote(path)}"
    return Place(origin, (path, *arguments), wrong, named)


def _named_host(text: str) -> Place:
    try:
        program, *arguments = shlex.split(text)
    except ValueError as error:
        return Place("$CXX", (text,), f"is not a command: {error}", named=True)
    if "/" in program:
        return _file("$CXX", program, *arguments, named=True)
    path = shutil.which(program)
    if path is None:
        return Place("$CXX", (program, *arguments), f"does not exist: no {program!r} on PATH", named=True)
    return Place("$CXX", (os.path.abspath(path), *arguments), named=True)


def _conda_places(prefix: str) -> Iterator[Place]:
    """Yield the compilers for this machine; an environment may also hold some for others."""
    if not prefix:
        yield Place("$CONDA_PREFIX", (), "not set")
        return
    triplet = f"{platform.machine()}-conda-linux-gnu"
    names = (f"{triplet}-c++", f"{triplet}-g++", *_HOST_NAMES)
    folder = os.path.abspath(os.path.join(prefix, "bin"))
    paths = [path for name in names if os.path.exists(path := os.path.join(folder, name))]
    yield from (_file("$CONDA_PREFIX", path) for path in paths)
    if not paths:
        yield Place("$CONDA_PREFIX", (folder,), f"has none of {', '.join(names)}")


def _named_nvcc(path: str) -> Place:
    origin = "$BRAINEVENT_NVCC_PATH"
    if not path:
        return Place(origin, (), "not set")
    if not os.path.isdir(path):
        return _file(origin, path, named=True)
    for inside in ("nvcc", "bin/nvcc"):
        if os.path.exists(os.path.join(path, inside)):
            return _file(origin, os.path.join(path, inside), named=True)
    return Place(origin, (os.path.abspath(path),), "is a directory without nvcc", named=True)


def _system_nvcc() -> Iterator[Place]:
    path = shutil.which("nvcc")
    yield _file("PATH", path) if path else Place("PATH", ("nvcc",), "is not on PATH")


def _pip_nvccs() -> Iterator[Place]:
    """Yield the nvcc of every release among the Python packages, the newest first."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except ValueError:  # a handmade module of that name
        spec = None
    trees = [Path(tree) for tree in (spec.submodule_search_locations or () if spec else ())]
    releases = {part.name for tree in trees for part in tree.glob("cu[0-9]*") if part.name[2:].isdecimal()}
    newest_first = sorted(releases, key=lambda name: -int(name[2:]))
    paths = [tree / part / "bin" / "nvcc" for part in (*newest_first, "cuda_nvcc") for tree in trees]
    found = [_file("pip", str(path)) for path in paths if path.exists()]
    yield from found or [Place("pip", ("nvidia/cuNN/bin/nvcc",), "no such file among the Python packages")]
