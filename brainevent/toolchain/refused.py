# SPDX-License-Identifier: Apache-2.0
"""Reject compiler flags that read flags from files, write further files, or run other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..errors import KernelError

__all__ = ["refuse_flags"]

_READS = "reads more flags from a file, whose text error messages would show; write the flags themselves"
_WRITES = "sets the path of the library, which the cache must choose; build_directory= keeps what is built"
_LISTS = "writes a list or a map into a file; leave it out: the headers that a source includes are part of its key"
_KEEPS = "keeps intermediate files; build_directory= keeps the text that is compiled, and the library"
_SPECS = "lets a file choose what the compiler runs; write flags instead, or name another compiler in CXX"
_DUMPS = "writes files of its own; leave it out, or compile the source by hand to look at them"
_RUNS = "runs another program within the compiler; to use another compiler, name it in CXX"

# Of g++, clang++ and nvcc, many with one dash or two; a value follows "=", directly, or as the next word.
_COMPILER = (
    (re.compile(r"@.*|-optf.*|--options-file.*"), _READS),
    (re.compile(r"-o(?!pt-info).*|--output(=.*|-file.*|-directory.*)?"), _WRITES),
    (re.compile(r"-M.*|--(generate-(nonsystem-)?|write-(user-)?|user-)?dependenc.*"), _LISTS),
    (re.compile(r"--?save-temps.*|--?keep(-dir)?(=.*)?"), _KEEPS),
    (re.compile(r"--?specs.*|--config.*"), _SPECS),
    (re.compile(r"--?wrapper.*|--?f(pass-)?plugin.*|-load(=.*)?"), _RUNS),
    (re.compile(r"-B(?!static|dynamic|symbolic|group|shareable).*|--?prefix.*"), _RUNS),
    (re.compile(r"--?(ccbin|compiler-bindir)(=.*)?|-ccbin.*|--?fuse-ld=.*/.*|--?ld-path.*"), _RUNS),
    (re.compile(r"-d[A-Zump].*|--?dump-?(dir|base).*|--?fdump-.*|--?aux-info.*|--?fcallgraph-info.*"), _DUMPS),
    (
        re.compile(r"--?fopt-info.*=.*|--?f(no-)?(save-)?optimization-record.*|-fstack-usage|-a[cdghilmns]*=.*|--MD.*"),
        _DUMPS,
    ),
    (re.compile(r"--?f(device-)?time-trace.*|--?time(=.*)?|--(error_output|list|xref|\w*file_name).*"), _DUMPS),
    (re.compile(r"--coverage|--?f(no-)?(test-coverage|profile-.*)|--?fdiagnostics-.*-file.*"), _DUMPS),
)
# Of linkers, all with one dash or two, and shortened words; those of the compiler are rejected as well.
_LINKER = {
    "output": _WRITES, "Map": _LISTS, "dependency-file": _LISTS, "plugin": _RUNS, "plugin-opt": _RUNS,
    "reproduce": _DUMPS, "time-trace": _DUMPS,
}  # fmt: skip
_SHORTEST = 3  # letters of a shortened word

_JOINED = re.compile(r"-W([lpa]),(.*)", re.DOTALL)
_PASSED_ON = re.compile(
    r"(-X\w+|--(?:compiler|linker|archive|ptxas|nvlink)-options|--for-(?:assembler|linker))(?:=(.*))?", re.DOTALL
)


def refuse_flags(where: str, option: str, flags: Sequence[str]) -> None:
    """Raise for a flag that does more than affect the compilation, also if it is passed on to another tool."""
    for flag, word, to_linker in _words(flags, option == "extra_ldflags"):
        if reason := _reason(word, to_linker):
            shown = repr(flag) if flag == word else f"{flag!r}, with {word!r}"
            raise KernelError(f"{where}: {option} has {shown}; this {reason}")


def _words(flags: Sequence[str], to_linker: bool) -> Iterator[tuple[str, str, bool]]:
    """Yield each flag and each word that it passes on, with whether the linker may read it."""
    passing = None
    for flag in flags:
        given = _PASSED_ON.fullmatch(flag)
        if passing is not None:  # for any value
            yield from _parts(f"{passing} {flag}", flag, "ink" in passing)
            passing = None
        elif given is None:
            yield from _parts(flag, flag, to_linker)
        elif given[2] is None:
            passing = given[1]
        else:
            yield from _parts(flag, given[2], "ink" in given[1])


def _parts(flag: str, text: str, to_linker: bool) -> Iterator[tuple[str, str, bool]]:
    """Yield the words in a flag, which may be passed on twice, as in "-Xcompiler -Wl,-o,x"."""
    yield flag, text, to_linker
    joined = _JOINED.fullmatch(text)
    for part in (joined[2] if joined else text).split(","):
        yield flag, part, to_linker or bool(joined and joined[1] == "l")


def _reason(word: str, to_linker: bool) -> str | None:
    for pattern, reason in _COMPILER:
        if pattern.fullmatch(word):
            return reason
    name = word.lstrip("-").partition("=")[0]
    if to_linker and word.startswith("-") and len(name) >= _SHORTEST:
        return next((reason for full, reason in _LINKER.items() if full.startswith(name)), None)
    return None
