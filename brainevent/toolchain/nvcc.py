# SPDX-License-Identifier: Apache-2.0
"""Ask nvcc for the place of its toolkit: the file on PATH may be a wrapper elsewhere."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from . import probe

__all__ = ["ask_nvcc", "program"]

_DRYRUN = ("--dryrun", "-E", "-x", "cu", os.devnull)
_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS")  # affect its answer
_LINE = re.compile(r"^#\$ (TOP|INCLUDES|SYSTEM_INCLUDES|LIBRARIES)= *(.*?) *$", re.MULTILINE)
_OPTION = re.compile(r"-(I|L|isystem)(.*)")
_RELEASE = re.compile(r"\bV(\d+\.\d+\.\d+)")
_BUILD = re.compile(r"^Build (\S+)", re.MULTILINE)


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
