# SPDX-License-Identifier: Apache-2.0
"""One build as a value: its command, its key in the cache, and its execution."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import (
    CompilationError,
    HostCompilerIncompatibleError,
    KernelError,
    KernelToolchainError,
    UnsupportedArchError,
)
from . import process
from .directory import FULL, FullDiskError, make_private
from .find import CudaToolkit, HostCompiler
from .flags import file_digests, forced_includes, named_folders
from .includes import included_files
from .signature import FunctionSpec
from .trust import UntrustedError, check_ancestors
from .wrap import WITHOUT_HALF, Source, translation_unit

__all__ = ["INCLUDE_DIR", "Build"]

_PLAIN = re.compile(r"[\w./+@=:%^-]+", re.ASCII)
_SHELL = re.compile(r"[\s$`;|&<>()\"'\\*?#~!]")
_PREPROCESSOR = re.compile(r"(-[DU]|-I|-isystem|-iquote|-idirafter|-include|-imacros)(.*)", re.DOTALL)
_PASSED_ON = re.compile(r"(-Xcompiler|--compiler-options|-Xlinker|--linker-options)(?:=(.*))?", re.DOTALL)
INCLUDE_DIR = Path(__file__).parent / "include"

_SCHEMA = "1"  # of the key, and of generated code
_SHOWN_LINES = 60
_NVCC_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")  # variables that nvcc reads
_FLAGS = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")  # variables that g++ and clang++ read
_COMMON = ("-std=c++17", "-shared")
_HALF = re.compile("float16|half", re.IGNORECASE)
_RELOCATABLE = re.compile(r".*rdc|-dc$|--device-c$|--relocatable-device-code")


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


@dataclass(frozen=True)
class Build:
    """Sources, compiler and options; `architectures` and `toolkit` are only for CUDA."""

    where: str  # the call, for error messages
    sources: tuple[Source, ...]
    functions: tuple[FunctionSpec, ...]
    compiler: HostCompiler
    ffi_include_dir: str
    versions: tuple[str, ...]  # of the packages whose headers or interfaces are used
    toolkit: CudaToolkit | None = None
    architectures: tuple[str, ...] = ()
    optimization_level: int = 3
    use_fast_math: bool = False
    in_graphs: bool = False
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    source_folder: str | None = None  # the folder for includes in quotes
    verbose: bool = False

    def key(self) -> str:
        """Return 16 hex digits of everything that determines the library."""
        digest = hashlib.sha256()
        for part in self._content():
            encoded = part if isinstance(part, bytes) else part.encode(errors="surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()[:16]

    def _content(self) -> list[str | bytes]:
        parts: list[str | bytes] = [_SCHEMA, platform.machine(), *self.versions, self.compiler.version]
        # The versions of compilers and headers are part of it, their paths are not, so that installations agree.
        tools = [*self.compiler.command[:1], *([self.toolkit.nvcc] if self.toolkit else [])]
        folders = [str(INCLUDE_DIR), self.ffi_include_dir, *(self.toolkit.include_dirs if self.toolkit else ())]
        command = self.command(Path("source"), Path("library"), dict.fromkeys(folders, "headers"))
        command = ["tool" if word in tools else word for word in command]
        parts += [*command, _headers_digest(self.ffi_include_dir)]
        parts += [os.environ.get(name, "") for name in _FLAGS]
        if self.toolkit is not None:
            parts += [self.toolkit.version, *(os.environ.get(name, "") for name in _NVCC_FLAGS)]
        for source in self.sources:
            parts += [source.title, source.text]
        for spec in self.functions:
            parts += [spec.name, *spec.tokens]
        parts.append(str(self.in_graphs))
        for found in (self._included(), file_digests([*self.cflags, *self.ldflags])):
            parts += [part for pair in found for part in pair]
        if any("=native" in flag for flag in command):  # another processor might not run it
            parts.append(_processor())
        return parts

    def _included(self) -> Iterator[tuple[str, bytes]]:
        """Yield the paths and contents of the user's own headers."""
        folders = [*([self.source_folder] if self.source_folder else []), *self.include_paths]
        forced = [f'#include "{name}"' for name in forced_includes(self.cflags)]
        texts = [*forced, *(source.text for source in self.sources)]
        return included_files(texts, [*folders, *named_folders(self.cflags)])

    def command(self, source: Path, library: Path, names: Mapping[str, str] | None = None) -> list[str]:
        """Return the command; `names` are other names of folders. Words of type `ByFile` must be put into files."""
        names = names or {}
        include_dirs = [names.get(path, path) for path in (str(INCLUDE_DIR), *self.include_paths)]
        own = [f"-I{path}" for path in include_dirs]
        system = f"-isystem{names.get(self.ffi_include_dir, self.ffi_include_dir)}"  # no warnings of it
        if self.toolkit is None:
            level = f"-O{self.optimization_level}"
            quote_dir = ["-iquote", self.source_folder] if self.source_folder else []
            options = [*_COMMON, "-fPIC", "-fvisibility=hidden", level, *quote_dir, *own, system, *self.cflags]
            return [*self.compiler.command, *options, str(source), "-o", str(library), *self.ldflags]
        options = self._cuda_options(self.toolkit)
        quote_dir = [f"-iquote{self.source_folder}"] if self.source_folder else []
        own += [f"-I{names.get(path, path)}" for path in self.toolkit.include_dirs]
        for word in (*quote_dir, *own, system):
            options += to_host_compiler(word)
        options += compiler_words(self.cflags, self.where)
        return [self.toolkit.nvcc, *options, str(source), "-o", str(library)]

    def _cuda_options(self, toolkit: CudaToolkit) -> list[str]:
        options = [*_COMMON, f"-O{self.optimization_level}", "-Xcompiler", "-fPIC,-fvisibility=hidden"]
        options += ["-ccbin", self.compiler.command[0]] if len(self.compiler.command) == 1 else []
        for architecture in self.architectures:
            number = architecture.replace(".", "")
            options += ["-gencode", f"arch=compute_{number},code=sm_{number}"]
        if len(self.architectures) > 1:
            options += ["--threads", str(len(self.architectures))]
        newest = self.architectures[-1].replace(".", "")
        options += ["-gencode", f"arch=compute_{newest},code=compute_{newest}"]
        if not any(_RELOCATABLE.match(flag) for flag in self.cflags):
            options.append("-nodlink")  # a third of the time of a small build
        if self.use_fast_math:
            options.append("--use_fast_math")
        if os.environ.get("BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER", "").lower() in ("1", "true", "yes", "on"):
            options.append("-allow-unsupported-compiler")
        for path in toolkit.library_dirs:
            options += [f"-L{path}"] if is_plain(path) else to_linker(f"-L{path}")
            options += [*to_linker("-rpath"), *to_linker(path)]
        return options + linker_words(self.ldflags)

    def run(self, folder: Path) -> Path:
        """Compile within a folder and return the library."""
        try:
            return self._made_in(folder)
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise self._no_room(folder, FULL[error.errno]) from error

    def _made_in(self, folder: Path) -> Path:
        # A chosen folder may contain files of the user, and other builds, also at the same time or by other users.
        folder = _private(folder / f"brainevent_{self.key()}", self.where)
        titles = {source.title for source in self.sources}
        for source in self.sources:  # Compilers quote the lines of the file with the title.
            copy = folder / source.title
            if copy.parent == folder:
                _write(copy, source.text)
        own = "generated"
        while own in titles:
            own += "_"
        _private(folder / own, self.where)
        others = [content.decode(errors="replace") for _, content in self._included()]
        text = translation_unit(self.sources, self.functions, in_graphs=self.in_graphs, others=[*self.cflags, *others])
        try:
            return self._compile(text, folder, own)
        except CompilationError as error:
            short = self.toolkit is not None and text.startswith(WITHOUT_HALF)
            if not (short and _HALF.search(str(error.compiler_output))):
                raise
        return self._compile(text.removeprefix(WITHOUT_HALF), folder, own)  # it names half types by token pasting

    def _compile(self, text: str, folder: Path, own: str) -> Path:
        """Write and compile a translation unit, in a separate subfolder."""
        unit, library = Path(own, f"handlers{'.cu' if self.toolkit else '.cpp'}"), Path(own, "library.so")
        (folder / library).unlink(missing_ok=True)
        _write(folder / unit, text)
        command = self.command(unit, library)
        for number, word in enumerate(command):
            if isinstance(word, ByFile):
                command[number] = f"@{own}/word_{number}"
                _write(folder / own / f"word_{number}", quoted(word), "surrogateescape")
        finished = self._finished(command, folder)
        output = finished.output
        if self.verbose:
            print(shlex.join(command), output, sep="\n" if output else "", flush=True)  # noqa: T201 - the user asked
        if finished.status and (reason := next((reason for reason in FULL.values() if reason in output), "")):
            raise self._no_room(folder, reason, compiler_output=output, command=shlex.join(command))
        if finished.status or not (folder / library).is_file():
            raise self._failure(command, finished)
        return folder / library

    def _finished(self, command: Sequence[str], folder: Path) -> process.Finished:
        limit = _time_limit()
        try:
            finished = process.run(command, folder, limit)
        except process.NotStartedError as error:
            raise CompilationError(
                f"{self.where}: {command[0]!r} cannot be run: {error.strerror}; reinstall it, or name another compiler",
                command=shlex.join(command),
            ) from None
        if finished.late:
            raise CompilationError(
                f"{self.where}: compilation failed: it took more than {limit:g} s; set BRAINEVENT_COMPILE_TIMEOUT to "
                f"more seconds if the source needs them\ncommand: {shlex.join(command)}",
                command=shlex.join(command),
            )
        return finished

    def _no_room(self, folder: Path, reason: str, **details: str) -> Exception:
        shown = _shown(details.get("compiler_output", ""))
        return FullDiskError(
            f"{self.where}: compilation failed: the disk that holds {folder} is full; free some space there, or choose "
            f"another directory with set_cache_dir(...) or build_directory=\n{shown or reason}",
            **details,
        )

    def _failure(self, command: Sequence[str], finished: process.Finished) -> Exception:
        output = finished.output
        if finished.status == 0:
            what = "the compiler made no library; leave out the flags that keep it from linking, such as -fsyntax-only"
            shown = _shown(output) or "(the compiler printed nothing)"
        else:
            what = "compilation failed"
            shown = _shown(output) or f"(the compiler printed nothing; exit status {finished.status})"
        text = f"{self.where}: {what}\n{shown}\ncommand: {shlex.join(command)}"
        if os.environ.get("BRAINEVENT_TOOLCHAIN_DEBUG"):
            text += f"\ncompiler: {self.compiler}\ntoolkit: {self.toolkit}\nsearch path: {os.environ.get('PATH', '')}"
        details = {"compiler_output": output, "command": shlex.join(command)}
        lowered = output.lower()
        if "unsupported gpu architecture" in lowered or "is not defined for option 'gpu-architecture'" in lowered:
            assert self.toolkit is not None
            asked = ", ".join(self.architectures)
            advice = (
                f"nvcc {self.toolkit.version} does not know compute capability {asked}; install a CUDA toolkit that "
                "does, or choose another with compute_capability= (`nvcc --list-gpu-arch` lists those it knows)"
            )
            return UnsupportedArchError(f"{text}\n{advice}", **details)
        if "unsupported gnu version" in lowered or "unsupported clang version" in lowered:
            advice = (
                "this CUDA toolkit rejects this host compiler; name another in CXX, or set "
                "BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER=1 to try anyway"
            )
            return HostCompilerIncompatibleError(f"{text}\n{advice}", **details)
        return CompilationError(text, **details)


def _time_limit() -> float:
    text = os.environ.get("BRAINEVENT_COMPILE_TIMEOUT", "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f"BRAINEVENT_COMPILE_TIMEOUT is {text!r}; set it to a number of seconds, such as 600")
    return seconds


def _private(folder: Path, where: str) -> Path:
    """Make a folder that no other user can write to or replace, or check an existing one."""
    try:
        check_ancestors(folder)
        return make_private(folder, where, "pass another build_directory")
    except UntrustedError as error:
        raise KernelToolchainError(
            f"{where}: other users could replace {folder} with code that would run as you ({error.reason}); "
            + (f"run `{error.remedy}`, or " if error.remedy else "")
            + "pass another build_directory"
        ) from error
    except NotADirectoryError:
        raise KernelToolchainError(
            f"{where}: {folder} is a file or a link, not a folder made by brainevent; remove it, or pass another "
            "build_directory"
        ) from None


def _write(path: Path, text: str, errors: str = "surrogatepass") -> None:
    """Write a new file, and replace what exists, including links."""
    path.unlink(missing_ok=True)
    with open(path, "xb") as file:
        file.write(text.encode(errors=errors))


def _shown(output: str) -> str:
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    more = [f"... {len(lines) - _SHOWN_LINES} more lines in the error's compiler_output"]
    return "\n".join(lines[:_SHOWN_LINES] + (more if len(lines) > _SHOWN_LINES else []))


@functools.cache
def _headers_digest(ffi_include_dir: str) -> str:
    """Return the digest of the headers that every build includes."""
    digest = hashlib.sha256()
    for path in [*sorted(INCLUDE_DIR.rglob("*.h")), Path(ffi_include_dir, "xla", "ffi", "api", "c_api.h")]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _processor() -> str:
    """Return an identifier of the processor within its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))
