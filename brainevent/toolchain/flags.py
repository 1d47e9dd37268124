# SPDX-License-Identifier: Apache-2.0
"""Compiler flags: the folders and files that they name, made absolute, and read if they affect the build."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

__all__ = ["absolute_paths", "file_digests", "forced_includes", "named_folders"]

_FOLDER = re.compile(r"(-isystem|-iquote|-idirafter|--include-path|--library-path|--system-include|-I|-L)(=?)(.*)")
_INCLUDE = re.compile(r"(-include|-imacros|--include|--imacros|--pre-include)(=?)(.*)")
_PASSED_ON = re.compile(r"(?:-Xcompiler|-Xlinker|-Xpreprocessor|--compiler-options|--linker-options)(?:=(.*))?")
_LINKED = re.compile(r".*\.(?:a|o|so|so\.[\d.]+)")


def absolute_paths(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the flags with full paths of folders and files, for compilers that run in another folder.

    >>> absolute_paths(["-I", "/opt", "-lm"])
    ('-I', '/opt', '-lm')
    """
    found = []
    option: re.Match[str] | None = None  # the option whose value is the next word
    for flag in flags:
        match = _FOLDER.fullmatch(flag) or _INCLUDE.fullmatch(flag)
        if option is not None:
            found.append(_absolute(flag, option))
        elif match is not None and match[3]:
            found.append(f"{match[1]}{match[2]}{_absolute(match[3], match)}")
        else:
            alone = not flag.startswith("-") and _LINKED.fullmatch(flag) and os.path.isfile(flag)
            found.append(os.path.abspath(flag) if alone else flag)
        option = match if option is None and match is not None and not match[3] else None
    return tuple(found)


def _absolute(path: str, option: re.Match[str]) -> str:
    """Return the full path of a folder; an included file may also lie in one of the folders."""
    there = option.re is _FOLDER or os.path.isfile(path)
    return os.path.abspath(path) if path and there else path


def named_folders(flags: Sequence[str]) -> Iterator[str]:
    """Yield the folders that options name by their full path, as in "-I/opt/include"."""
    yield from (path for option, path in _values(flags, _FOLDER) if os.path.isabs(path) and option not in _LIBRARIES)


def forced_includes(flags: Sequence[str]) -> Iterator[str]:
    """Yield the files that options include first, as in "-include settings.h"."""
    yield from (path for _, path in _values(flags, _INCLUDE))


_LIBRARIES = ("-L", "--library-path")


def _values(flags: Sequence[str], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    words = list(_words(flags))
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if option := pattern.fullmatch(word):
            yield option[1], option[3] or following


def _words(flags: Sequence[str]) -> Iterator[str]:
    """Yield the flags, and what `-Xcompiler a,b` or `-Wl,a,b` pass on."""
    passed_on = False
    for flag in flags:
        match = _PASSED_ON.fullmatch(flag)
        if match is None:
            yield from flag.split(",") if passed_on or flag.startswith(("-Wl,", "-Wp,")) else [flag]
        elif match[1]:
            yield from match[1].split(",")
        passed_on = match is not None and match[1] is None


def file_digests(flags: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the path and the content's hash of each file that flags name: archives, objects, linker scripts."""
    for word in dict.fromkeys(_words(flags)):
        for path in dict.fromkeys((word, word.partition("=")[2])):
            if os.path.isabs(path) and os.path.isfile(path):
                with suppress(OSError), open(path, "rb") as file:  # the compiler will report the error
                    yield path, hashlib.file_digest(file, "sha256").hexdigest()
