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
_CLEANS = "deletes what was built; leave it out"
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
    (
        re.compile(
            r"-d(?!ynamic|ryrun|efault-stream|iag-|evice|link|lto|opt|c$).*|--?(dump-?(dir|base)|aux-?(info|base)|fdump-).*"
        ),
        _DUMPS,
    ),
    (
        re.compile(r"--?fopt-info.*=.*|--?f(no-)?(save-)?optimization-record.*|-fstack-usage|-a[cdghilmns]*=.*|--MD.*"),
        _DUMPS,
    ),
    (re.compile(r"--?f(device-)?time-trace.*|--?time(=.*)?|--(error_output|list|xref|\w*file_name).*"), _DUMPS),
    (re.compile(r"--?coverage|--?f(no-)?(test-coverage|(cs-)?profile-.*|coverage-.*|memory-profile.*)"), _DUMPS),
    (
        re.compile(r"--?fdiagnostics-((add|set)-output|log|.*-file).*|-diagnostic-log-file.*|--?serialize-diag.*"),
        _DUMPS,
    ),
    (re.compile(r"--?f(callgraph-info|crash-diagnostics|proc-stat-report|save-main-file|wpa|ltrans).*"), _DUMPS),
    (re.compile(r"--?g?split-dwarf.*|--?save-stats.*|-gen-cdb.*|--?symbol-graph-dir.*|--?working-directory.*"), _DUMPS),
    (re.compile(r"-(module-dependency|header-include-file|stats-file|info-output|pass-remarks-output).*"), _DUMPS),
    (re.compile(r"--?fmodules?(-(?!mapper).*)?"), _DUMPS),
    (re.compile(r"--?fmodule-mapper.*|--?run(-args.*)?"), _RUNS),  # a mapper may be a program
    (re.compile(r"--?(aug(ment)?-)?(hls|host-linker-script)(=.*)?|--?(gen|use)-lcs"), _DUMPS),
    (re.compile(r"--?clean(-targets)?"), _CLEANS),
)
# Of linkers, all with one dash or two, and shortened words; those of the compiler are rejected as well.
_LINKER = {
    "output": _WRITES, "Map": _LISTS, "dependency-file": _LISTS, "plugin": _RUNS, "plugin-opt": _RUNS,
    "reproduce": _DUMPS, "time-trace": _DUMPS, "out-implib": _DUMPS, "lto-obj-path": _DUMPS, "cache-dir": _DUMPS,
    "thinlto-cache-dir": _DUMPS, "thinlto-index-only": _DUMPS, "thinlto-emit-index-files": _DUMPS,
    "thinlto-emit-imports-files": _DUMPS, "print-archive-stats": _DUMPS, "why-extract": _DUMPS, "why-live": _DUMPS,
    "print-symbol-order": _DUMPS, "opt-remarks-filename": _DUMPS, "error-handling-script": _RUNS,
}  # fmt: skip
_SHORTEST = 3  # letters of a shortened word

_JOINED = re.compile(r"-W([lpa]),(.*)", re.DOTALL)
_PASSED_ON = re.compile(
    r"(-X\w+|--(?:compiler|linker|archive|ptxas|nvlink)-options|--for-(?:assembler|linker))(?:=(.*))?", re.DOTALL
)


def refuse_flags(where: str, option: str, flags: Sequence[str]) -> None:
    """Raise for a flag that does more than affect the compilation, also if it is passed on to another tool."""
    for flag, word, reader in _words(flags, "ink" if option == "extra_ldflags" else ""):
        if reason := _reason(word, reader):
            shown = repr(flag) if flag == word else f"{flag!r}, with {word!r}"
            raise KernelError(f"{where}: {option} has {shown}; this {reason}")


def _words(flags: Sequence[str], reader: str) -> Iterator[tuple[str, str, str]]:
    """Yield each flag and each word that it passes on, with the option that names the tool which reads it."""
    passing = None
    for flag in flags:
        given = _PASSED_ON.fullmatch(flag)
        if passing is not None:  # for any value
            yield from _parts(f"{passing} {flag}", flag, passing)
            passing = None
        elif given is None:
            yield from _parts(flag, flag, reader)
        elif given[2] is None:
            passing = given[1]
        else:
            yield from _parts(flag, given[2], given[1])


def _parts(flag: str, text: str, reader: str) -> Iterator[tuple[str, str, str]]:
    """Yield the words in a flag, which may be passed on twice, as in "-Xcompiler -Wl,-o,x"."""
    yield flag, text, reader
    joined = _JOINED.fullmatch(text)
    for part in (joined[2] if joined else text).split(","):
        yield flag, part, "ink" if joined and joined[1] == "l" else reader


def _reason(word: str, reader: str) -> str | None:
    for pattern, reason in _COMPILER:
        if pattern.fullmatch(word):
            return reason
    if "cudafe" in reader and word.startswith(("-L", "-X")):  # its own words for --list and --xref
        return _LISTS
    name = word.lstrip("-").partition("=")[0]
    if "ink" in reader and word.startswith("-") and len(name) >= _SHORTEST:
        return next((reason for full, reason in _LINKER.items() if full.startswith(name)), None)
    return None
