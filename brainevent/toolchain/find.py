# SPDX-License-Identifier: Apache-2.0
"""Find the compilers of this machine."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..errors import HeaderNotFoundError, HostCompilerNotFoundError, NvccNotFoundError
from . import probe
from .nvcc import ask_nvcc, program
from .places import Place, host_places, nvcc_places, pip_siblings

__all__ = [
    "Candidate",
    "CudaToolkit",
    "HostCompiler",
    "cuda_candidates",
    "find_cuda_toolkit",
    "find_host_compiler",
    "host_compiler_candidates",
]

T = TypeVar("T")

_HEADER = "cuda_runtime.h"
_SYSTEM_INCLUDE = "/usr/include"
_ALL_ARGUMENTS = re.compile(rb'"\$@"')
_LAUNCHERS = ("ccache", "colorgcc", "distcc", "icecc", "sccache")  # each runs a compiler that may change

_INSTALL_HOST = """Install one:
  apt:   apt install g++
  conda: conda install gxx
  pip:   there is no pip package of a C++ compiler (ziglang does not serve); use apt or conda
or name one: set CXX to its path"""
_INSTALL_NVCC = """Install it:
  pip:   pip install "jax[cuda13]" nvidia-cuda-nvcc nvidia-cuda-cccl
  conda: conda install -c nvidia cuda-nvcc cuda-cudart-dev
  apt:   apt install nvidia-cuda-toolkit
or name one: set BRAINEVENT_NVCC_PATH to its path, or CUDA_HOME to the directory of its toolkit"""
_INSTALL_HEADERS = """Install the headers of the compiler's own CUDA release:
  pip:   pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl   (CUDA 12: nvidia-cuda-runtime-cu12)
  conda: conda install -c nvidia cuda-cudart-dev
  apt:   apt install nvidia-cuda-toolkit
or name a whole toolkit: set CUDA_HOME to its directory"""


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler that runs: `version` is a line for cache keys, `origin` the place where it was found."""

    command: tuple[str, ...]
    version: str
    origin: str


@dataclass(frozen=True)
class CudaToolkit:
    """An nvcc that runs, and its toolkit as nvcc itself describes it."""

    nvcc: str
    root: str
    include_dirs: tuple[str, ...]
    library_dirs: tuple[str, ...]
    version: str
    origin: str


class Candidate(NamedTuple):
    """A searched place; `outcome` is "found", or the reason why it cannot be used."""

    origin: str
    path: str
    outcome: str


class _NoHeadersError(probe.NoAnswerError):
    """An nvcc runs but has no headers."""


def find_host_compiler(memo: Path | None = None) -> HostCompiler:
    """Return the C++ compiler of $CXX, of the conda environment, or of PATH; `memo` is a folder to remember it in."""
    found, failed = _first(host_places(), lambda place: _host_compiler(place, memo))
    if found is not None:
        return found
    raise HostCompilerNotFoundError(_text("[E-CXX] no C++ compiler", failed, _INSTALL_HOST))


def find_cuda_toolkit(memo: Path | None = None) -> CudaToolkit:
    """Return the first nvcc that runs and has its headers; `memo` is a folder to remember it in."""
    found, failed = _first(nvcc_places(), lambda place: _cuda_toolkit(place, memo))
    if found is not None:
        return found
    if any(isinstance(why, _NoHeadersError) for _, why in failed):
        raise HeaderNotFoundError(_text(f"[E-HDR] no CUDA compiler (nvcc) with {_HEADER}", failed, _INSTALL_HEADERS))
    raise NvccNotFoundError(_text("[E-NVCC] no CUDA compiler (nvcc)", failed, _INSTALL_NVCC))


def host_compiler_candidates(memo: Path | None = None) -> list[Candidate]:
    """Return every place of a C++ compiler, in the order of search, with the outcome."""
    return list(_survey(host_places(), lambda place: _host_compiler(place, memo)))


def cuda_candidates(memo: Path | None = None) -> list[Candidate]:
    """Return every place of a CUDA compiler, in the order of search, with the outcome."""
    return list(_survey(nvcc_places(), lambda place: _cuda_toolkit(place, memo)))


_Failed = list[tuple[Place, probe.NoAnswerError]]


def _first(places: Iterable[Place], look: Callable[[Place], T]) -> tuple[T | None, _Failed]:
    """Return the tool of the first usable place, or the reasons if there is none; a named place ends the search."""
    failed: _Failed = []
    for place in places:
        try:
            return look(place), failed
        except probe.NoAnswerError as error:
            failed.append((place, error))
        if place.named:
            break
    return None, failed


def _survey(places: Iterable[Place], look: Callable[[Place], object]) -> Iterator[Candidate]:
    for place in places:
        try:
            look(place)
        except probe.NoAnswerError as error:
            yield Candidate(place.origin, place.path, str(error))
        else:
            yield Candidate(place.origin, place.path, "found")


def _text(what: str, failed: _Failed, install: str) -> str:
    place, why = failed[-1]
    if place.named:
        return (
            f"{what}: {place.origin} names {place.path}, which {why}\n"
            f"Correct {place.origin}, or unset it to search further. {install}"
        )
    tried = "".join(f"  {at.origin}: {at.path}{' ' if at.path else ''}{error}\n" for at, error in failed)
    return f"{what} is found here. Tried:\n{tried}{install}"


def _host_compiler(place: Place, memo: Path | None) -> HostCompiler:
    if place.wrong:
        raise probe.NoAnswerError(place.wrong)
    tool, *arguments = place.command
    is_script, fixed = _is_script(tool)
    remembers = not arguments and not _is_launcher(tool) and (fixed or not is_script)

    def ask() -> probe.Said:
        printed = probe.run([*place.command, "--version"]).strip()
        if not printed:
            raise probe.NoAnswerError("does not print its version")
        files = _real_compiler(tool) if is_script and remembers else ()
        return probe.Said(printed.splitlines()[0].strip(), files=files, lasting=bool(files) or not is_script)

    said = probe.recall(tool, ["host 2", *arguments], ask, memo if remembers else None)
    # Arguments such as -m32 are part of the identity of the compiler.
    return HostCompiler(place.command, " ".join([said.version, shlex.join(arguments)]).strip(), place.origin)


def _is_launcher(tool: str) -> bool:
    """Return whether a link leads to a launcher of a compiler of the link's name, which may change alone."""
    return os.path.basename(os.path.realpath(tool)) in _LAUNCHERS


def _is_script(tool: str) -> tuple[bool, bool]:
    """Return whether it is a script, and whether a script always runs the same program."""
    try:
        with open(tool, "rb") as file:
            text = file.read(4096)
    except OSError:  # it may be executable but not readable
        return True, False
    return text[:2] == b"#!", len(text) < 4096 and not re.search(rb"[$`]", _ALL_ARGUMENTS.sub(b"", text))


def _real_compiler(tool: str) -> tuple[str, ...]:
    """Return the program that a script runs, which its memo must watch too, if the script can report it."""
    try:
        program = probe.run([tool, "-print-prog-name=cc1plus"]).strip()
    except probe.NoAnswerError:
        return ()
    return (program,) if os.path.isabs(program) else ()


def _cuda_toolkit(place: Place, memo: Path | None) -> CudaToolkit:
    if place.wrong:
        raise probe.NoAnswerError(place.wrong)
    nvcc = program(place.command[0])
    said = ask_nvcc(nvcc, lambda: _host_for_nvcc(memo), memo)
    includes, libraries = list(said.include_dirs), list(said.library_dirs)
    if place.origin == "pip":
        major = int(said.version.partition(".")[0])
        includes += pip_siblings(nvcc, major, "include")
        libraries += pip_siblings(nvcc, major, "lib")
    folders = _existing(includes)
    # Headers of a distribution's package are in a standard folder: as an option, they would come too early.
    if not any(os.path.isfile(os.path.join(folder, _HEADER)) for folder in (*folders, _SYSTEM_INCLUDE)):
        raise _NoHeadersError(f"has no {_HEADER} in {', '.join(map(os.path.realpath, includes)) or 'any folder'}")
    return CudaToolkit(
        nvcc=nvcc,
        root=os.path.realpath(said.top),
        include_dirs=folders,
        # Stubs are for the linker, to which nvcc passes them: at run time, such a library is empty.
        library_dirs=tuple(folder for folder in _existing(libraries) if os.path.basename(folder) != "stubs"),
        version=said.version,
        origin=place.origin,
    )


def _existing(folders: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(folder) for folder in folders if os.path.isdir(folder)))


def _host_for_nvcc(memo: Path | None) -> str | None:
    """Return a C++ compiler that nvcc's -ccbin takes, which is a path without arguments."""
    try:
        host = find_host_compiler(memo)
    except HostCompilerNotFoundError:
        return None
    return host.command[0] if len(host.command) == 1 else None
