# SPDX-License-Identifier: Apache-2.0
"""Source texts as loaders take them: strings, files, folders of files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from ..._compat import jaxlib_version
from ..._version import __version__
from ...errors import KernelError
from ...toolchain import cache
from ...toolchain.build import Build
from ...toolchain.find import find_host_compiler
from ...toolchain.flags import absolute_paths
from ...toolchain.refused import refuse_flags
from ...toolchain.signature import resolve_functions
from ...toolchain.wrap import Source

__all__ = [
    "LIBRARY",
    "LOADED",
    "NOT_LOADED",
    "Functions",
    "Sources",
    "described",
    "directory_sources",
    "file_sources",
    "flags",
    "folders",
    "inline_sources",
    "module_name",
]

Functions = Mapping[str, Sequence[str]] | Sequence[str] | None

# What docstrings of loaders say: arguments, errors and result.
LOADED = {
    "name": "A name for the library.",
    "functions": "The entry points: None for those with a `// @BE` comment, a list of names, or a dictionary of names "
    "and their tokens.",
    "extra_ldflags": "Options of the linker.",
    "extra_include_paths": "Folders with headers.",
    "build_directory": "The folder to keep the library in; None for the cache.",
    "verbose": "Whether to print the compiler's commands and output.",
    "force_rebuild": "Whether to compile even if the cache has the library.",
    "replace": "Whether registered targets of the same names are replaced.",
    "auto_register": "Whether to register targets for `jax.ffi.ffi_call`.",
    "target_prefix": "What the names of targets begin with; None for `name`.",
}
NOT_LOADED = {
    "KernelError": "If the declaration of an entry point cannot be read.",
    "KernelRegistrationError": "If a target of the same name has other content, and `replace` is False.",
}
LIBRARY = "The library, with a function for each entry point."


@dataclass(frozen=True)
class Sources:
    """Texts that are compiled as one, their call, for messages, and the folder of their headers."""

    where: str
    parts: tuple[Source, ...]
    folder: str | None = None


def inline_sources(loader: str, name: str, texts: str | Sequence[str] | Sources, suffix: str) -> Sources:
    """Take one text, or several; compilers will call them `name.suffix`, or `name_0.suffix` and so on."""
    if isinstance(texts, Sources):
        return texts
    where = f"{loader}({name!r})"
    several = [text.removeprefix("\ufeff") for text in _strings(where, texts)]
    titles = [f"{name}.{suffix}"] if len(several) == 1 else [f"{name}_{i}.{suffix}" for i in range(len(several))]
    return Sources(where, tuple(Source(title, text) for title, text in zip(titles, several, strict=True)))


def _strings(where: str, texts: object) -> list[str]:
    several: list[Any] = list(texts) if isinstance(texts, (list, tuple)) else [texts]
    for text in several:
        if not isinstance(text, str):
            file = where.partition("(")[0].replace("_inline", "_file")
            raise TypeError(
                f"{where}: a source is a string, found {text!r:.80}, of type {type(text).__name__}; pass the text, or "
                f"a list of texts; for a file, call {file}(path)"
            )
    if not several:
        raise KernelError(f"{where}: the list of sources is empty; pass the text, or a list of texts")
    return several


def module_name(sources: Sources, stem: str) -> str:
    """Return the name of a file or folder, if it is a valid name of a module."""
    try:
        return cache.check_name(stem, sources.where)
    except KernelError as error:
        plain = re.sub(r"^(?=[0-9])|[^A-Za-z0-9_]+", "_", stem) or "kernels"
        raise KernelError(f"{error}; or give the module another name: name={plain!r:.100}") from None


def file_sources(loader: str, filepath: str | os.PathLike[str]) -> Sources:
    """Read a file; its own folder comes first for includes in quotes."""
    if not isinstance(filepath, (str, os.PathLike)):
        raise TypeError(
            f"{loader}: {filepath!r:.80}, of type {type(filepath).__name__}, is not a path; pass a str or Path"
        )
    path = Path(filepath).expanduser()
    where = f"{loader}({os.fspath(filepath)!r})"
    return Sources(where, (_read(where, path, path.name),), str(path.parent.resolve()))


def directory_sources(loader: str, directory: str | os.PathLike[str], patterns: Sequence[str]) -> Sources:
    """Read the files of a folder that match the patterns, sorted within each pattern."""
    folder = Path(directory).expanduser()
    where = f"{loader}({os.fspath(directory)!r})"
    if not folder.is_dir():
        raise FileNotFoundError(f"{where}: there is no such folder; correct the path")
    paths = dict.fromkeys(
        path for pattern in words(where, "file_patterns", patterns) for path in _matching(folder, pattern)
    )
    if not paths:
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "nothing"
        raise KernelError(f"{where}: no file matches {', '.join(patterns)}; found there: {there}; set file_patterns")
    parts = tuple(_read(where, path, path.relative_to(folder).as_posix()) for path in paths)
    return Sources(where, parts, str(folder.resolve()))


def _matching(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.glob(pattern) if path.is_file())


def _read(where: str, path: Path, title: str) -> Source:
    try:
        return Source(title, path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        near = sorted(other.name for other in path.parent.glob(f"*{path.suffix}"))[:5] if path.parent.is_dir() else []
        found = f"; in that folder: {', '.join(near)}" if near else ""
        raise FileNotFoundError(f"{where}: there is no file {path}{found}") from None
    except IsADirectoryError:
        advice = "call load_cuda_dir for all its .cu files, or pass" if where.startswith("load_cuda") else "pass"
        raise KernelError(f"{where}: {path} is a folder; {advice} the path of one file") from None
    except UnicodeDecodeError as error:
        raise KernelError(f"{where}: {path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def words(where: str, what: str, value: Sequence[str] | None) -> tuple[str, ...]:
    """Return a user's list of strings, or raise; a single string would be read letter by letter."""
    if value is None:
        return ()
    several: list[object] = list(value) if isinstance(value, (list, tuple)) else [value]
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in several):
        example = [os.fsdecode(word) if isinstance(word, (bytes, os.PathLike)) else str(word) for word in several]
        raise TypeError(f"{where}: {what} is {value!r}; pass a list of strings, such as {what}={example!r}")
    for word in value:
        if "\0" in word:
            raise KernelError(
                f"{where}: {what} has {word!r}, with a null character, which would end it; remove that character"
            )
    return tuple(value)


def flags(where: str, what: str, value: Sequence[str] | None) -> tuple[str, ...]:
    """Return a user's flags, with paths relative to the current folder made absolute."""
    found = absolute_paths(words(where, what, value))
    refuse_flags(where, what, found)
    return found


def folders(where: str, paths: Sequence[str | os.PathLike[str]] | None) -> tuple[str, ...]:
    """Return absolute paths, or raise for a missing folder, which compilers would ignore."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError(f"{where}: extra_include_paths is {paths!r}; pass a list, such as [{os.fspath(paths)!r}]")
    absolute = tuple(os.path.abspath(os.path.expanduser(os.fspath(path))) for path in paths or ())
    for path in absolute:
        if not os.path.isdir(path):
            raise FileNotFoundError(
                f"{where}: extra_include_paths names {path}, and there is no such folder; remove it"
            )
    return absolute


def described(
    sources: Sources,
    functions: Functions,
    *,
    cflags: dict[str, Sequence[str] | None],
    ldflags: Sequence[str] | None,
    include_paths: Sequence[str] | None,
    verbose: bool,
) -> Build:
    """Describe the build of sources; `cflags` are keyed by the name of their option."""
    where = sources.where
    ((option, given),) = cflags.items()
    return Build(
        where=where,
        sources=sources.parts,
        functions=resolve_functions(sources.parts, functions, where),
        cflags=flags(where, option, given),
        ldflags=flags(where, "extra_ldflags", ldflags),
        include_paths=folders(where, include_paths),
        source_folder=sources.folder,
        compiler=find_host_compiler(cache.memo_dir()),
        ffi_include_dir=jax.ffi.include_dir(),
        versions=(__version__, jaxlib_version),
        verbose=verbose,
    )
