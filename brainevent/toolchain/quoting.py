# SPDX-License-Identifier: Apache-2.0
"""Words for nvcc, which splits some at commas and passes some to a shell: special words are passed in files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..errors import KernelError

__all__ = ["ByFile", "compiler_words", "is_plain", "linker_words", "quoted", "to_host_compiler", "to_linker"]

_PLAIN = re.compile(r"[\w./+@=:%^-]+", re.ASCII)
_SHELL = re.compile(r"[\s$`;|&<>()\"'\\*?#~!]")
_PREPROCESSOR = re.compile(r"(-[DU]|-I|-isystem|-iquote|-idirafter|-include|-imacros)(.*)", re.DOTALL)
_PASSED_ON = re.compile(r"(-Xcompiler|--compiler-options|-Xlinker|--linker-options)(?:=(.*))?", re.DOTALL)


class ByFile(str):
    """A word that the host compiler or the linker must read from a file."""

    __slots__ = ()


def is_plain(word: str) -> bool:
    """Return whether nvcc leaves a word unchanged."""
    return _PLAIN.fullmatch(word) is not None


def quoted(word: str) -> str:
    """Return the content of a file that holds one word, as compilers and linkers read `@file`."""
    return re.sub(r"([^\w./+=:-])", r"\\\1", word, flags=re.ASCII) + "\n"


def to_host_compiler(word: str) -> list[str]:
    """Return the words by which nvcc passes an option of the preprocessor on unchanged."""
    plain = is_plain(word) and not word.startswith("-i")  # nvcc only knows -isystem, with a separate value
    return [word] if plain else ["-Xcompiler", word if is_plain(word) else ByFile(word)]


def to_linker(word: str) -> list[str]:
    """Return the words by which nvcc passes a word to the linker unchanged."""
    return ["-Xlinker", word if is_plain(word) else ByFile(word)]


def linker_words(flags: Sequence[str]) -> list[str]:
    """Return linker flags of a host compiler, such as "-Wl,-rpath,/opt", in nvcc's form."""
    words: list[str] = []
    for flag in flags:
        # The linker itself does not know `-Wl`.
        words += flag.removeprefix("-Wl,").split(",") if flag.startswith("-Wl,") else [flag]
    return [each for word in words if word != "-Xlinker" for each in to_linker(word)]


def compiler_words(flags: Sequence[str], where: str) -> list[str]:
    """Return a user's flags so that they arrive unchanged, or raise for one that a shell would interpret."""
    words: list[str] = []
    for option, value in _pairs(flags):
        if option in ("-Xlinker", "--linker-options"):
            words += [each for part in value.split(",") for each in to_linker(part)]
        elif option in ("-Xcompiler", "--compiler-options"):
            for part in value.split(","):
                words += ["-Xcompiler", part if is_plain(part) else ByFile(part)]
        elif _PREPROCESSOR.fullmatch(option):
            joined = len(option) == 2 or not value
            plain = [option + value] if joined else [option, value]
            words += plain if is_plain(option + value) else ["-Xcompiler", ByFile(option + value)]
        elif odd := _SHELL.search(option):
            raise KernelError(
                f"{where}: extra_cuda_cflags has {option!r}, but nvcc passes this flag to a shell, which would "
                f"interpret {odd[0]!r}; write it without, or, if it is the host compiler's, as ['-Xcompiler', "
                f"{option!r}]"
            )
        else:
            words.append(option)
    return words


def _pairs(flags: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each flag, with its value if we pass it on."""
    waiting = ""
    for flag in flags:
        preprocessor, passed_on = _PREPROCESSOR.fullmatch(flag), _PASSED_ON.fullmatch(flag)
        if waiting:
            yield waiting, flag
            waiting = ""
        elif preprocessor:
            if preprocessor[2]:
                yield preprocessor[1], preprocessor[2]
            else:
                waiting = flag
        elif passed_on:
            if passed_on[2] is not None:
                yield passed_on[1], passed_on[2]
            else:
                waiting = flag
        else:
            yield flag, ""
    if waiting:
        yield waiting, ""
