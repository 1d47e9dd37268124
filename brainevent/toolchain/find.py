# SPDX-License-Identifier: Apache-2.0
"""Find the compilers of this machine."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from .. import config
from ..errors import HeaderNotFoundError, HostCompilerNotFoundError, NvccNotFoundError
from . import probe

__all__ = [
    "Candidate",
    "CudaToolkit",
    "HostCompiler",
    "cuda_candidates",
    "find_cuda_toolkit",
    "find_host_compiler",
    "host_compiler_candidates",
]

_HOST_NAMES = ("g++", "c++", "clang++")
_DEFAULT_CUDA = "/usr/local/cuda"
_DRYRUN = ("--dryrun", "-E", "-x", "cu", os.devnull)
_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS")  # affect its answer
_LINE = re.compile(r"^#\$ (TOP|INCLUDES|SYSTEM_INCLUDES|LIBRARIES)= *(.*?) *$", re.MULTILINE)
_OPTION = re.compile(r"-(I|L|isystem)(.*)")
_RELEASE = re.compile(r"\bV(\d+\.\d+\.\d+)")
_BUILD = re.compile(r"^Build (\S+)", re.MULTILINE)
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


def program(path: str) -> str:
    """Return the file to run: nvcc searches its toolkit next to the link by which it is called."""
    target = os.path.realpath(path)
    stranded = os.path.islink(path) and not os.path.exists(os.path.join(os.path.dirname(path), "nvcc.profile"))
    return target if stranded and os.path.basename(target) == "nvcc" else path


def ask_nvcc(path: str, host_compiler: Callable[[], str | None], memo: Path | None) -> probe.Said:
    """Return nvcc's answer, cached until it, the real nvcc or its profile changes.

    `host_compiler()` is used if nvcc finds none, because nvcc then prints nothing.
    """

    def ask() -> probe.Said:
        version = _version(probe.run([path, "--version"]))
        lines = dict(_LINE.findall(_dryrun(path, host_compiler)))
        if not lines.get("TOP"):
            raise probe.NoAnswerError("does not print where its toolkit is: no TOP= in what nvcc --dryrun prints")
        includes = _folders(lines.get("INCLUDES", "")) + _folders(lines.get("SYSTEM_INCLUDES", ""))
        files = tuple(os.path.join(lines["TOP"], "bin", name) for name in ("nvcc", "nvcc.profile"))
        return probe.Said(version, lines["TOP"], includes, _folders(lines.get("LIBRARIES", "")), files)

    return probe.recall(path, ["nvcc 1", *(os.environ.get(name, "") for name in _VARIABLES)], ask, memo)


def _dryrun(path: str, host_compiler: Callable[[], str | None]) -> str:
    try:
        return probe.run([path, *_DRYRUN])
    except probe.NoAnswerError as error:
        if "host compiler" not in str(error):
            raise
        host = host_compiler()
        if host is None:
            raise probe.NoAnswerError(f"{error} (it needs a C++ compiler: install g++, or set CXX)") from error
    return probe.run([path, "-ccbin", host, *_DRYRUN])


def _version(printed: str) -> str:
    """Return "13.0.88 (cuda_13.0.r13.0/compiler.36424714_0)"."""
    release, build = _RELEASE.search(printed), _BUILD.search(printed)
    if release is None:
        raise probe.NoAnswerError("does not print its version as nvcc does: no V<number> in what nvcc --version prints")
    return f"{release[1]} ({build[1]})" if build else release[1]


def _folders(options: str) -> tuple[str, ...]:
    """Return the folders of '"-I/a" "-isystem" "/b"'."""
    try:
        folders, words = [], iter(shlex.split(options))
    except ValueError as error:
        raise probe.NoAnswerError(f"names folders that cannot be read: {options!r}: {error}") from error
    for word in words:
        option = _OPTION.fullmatch(word)
        if option is not None:
            folders.append(option[2] or next(words, ""))
    return tuple(folder for folder in folders if folder)


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


def host_compiler_candidates() -> list[Candidate]:
    """Return every place of a C++ compiler, in the order of search, with the outcome."""
    return list(_survey(host_places(), lambda place: _host_compiler(place, None)))


def cuda_candidates() -> list[Candidate]:
    """Return every place of a CUDA compiler, in the order of search, with the outcome."""
    return list(_survey(nvcc_places(), lambda place: _cuda_toolkit(place, None)))


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
