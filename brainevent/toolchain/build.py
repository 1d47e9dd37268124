# SPDX-License-Identifier: Apache-2.0
"""One build as a value: its compiler command, its key in the cache, and the running of it."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import CompilationError, HostCompilerIncompatibleError, UnsupportedArchError
from .find import CudaToolkit, HostCompiler
from .includes import included_files, named_folders
from .signature import FunctionSpec
from .wrap import Source, translation_unit

__all__ = ["INCLUDE_DIR", "Build"]

INCLUDE_DIR = Path(__file__).parent / "include"

_SCHEMA = "1"  # of the key, and of what is generated
_SHOWN_LINES = 60
_NVCC_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")  # variables that nvcc reads
_FLAGS = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")  # variables that g++ and clang++ read
_COMMON = ("-std=c++17", "-shared")
_PLAIN = re.compile(r"[\w./+@-]+")  # a path that nvcc, which passes some of its arguments to a shell, leaves alone
_RELOCATABLE = re.compile(r".*rdc|-dc$|--device-c$|--relocatable-device-code")


@dataclass(frozen=True)
class Build:
    """Sources, compiler and options; `architectures` and `toolkit` are of CUDA alone."""

    where: str  # the call, for error messages
    sources: tuple[Source, ...]
    functions: tuple[FunctionSpec, ...]
    compiler: HostCompiler
    ffi_include_dir: str
    versions: tuple[str, ...]  # of the packages whose headers or interfaces are compiled in
    toolkit: CudaToolkit | None = None
    architectures: tuple[str, ...] = ()
    optimization_level: int = 3
    use_fast_math: bool = False
    in_graphs: bool = False
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    source_folder: str | None = None  # where includes in quotes are looked up first
    verbose: bool = False

    def key(self) -> str:
        """Return 16 hex digits of all that decides what the library does."""
        digest = hashlib.sha256()
        for part in self._content():
            encoded = part if isinstance(part, bytes) else part.encode(errors="surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()[:16]

    def _content(self) -> list[str | bytes]:
        parts: list[str | bytes] = [_SCHEMA, platform.machine(), *self.versions, self.compiler.version]
        # Where compilers and headers lie is no part of it, so that installations agree on names: what they are, is.
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
        for path, content in self._included():
            parts += [path, content]
        if any("=native" in flag for flag in command):  # another processor would stumble over it
            parts.append(_processor())
        return parts

    def _included(self) -> Iterator[tuple[str, bytes]]:
        """Yield the paths and contents of the user's own headers."""
        folders = [*([self.source_folder] if self.source_folder else []), *self.include_paths]
        return included_files([source.text for source in self.sources], [*folders, *named_folders(self.cflags)])

    def command(self, source: Path, library: Path, links: Mapping[str, str] | None = None) -> list[str]:
        """Return what is run; `links` are other names of folders."""
        include_dirs = [str(INCLUDE_DIR), self.ffi_include_dir, *self.include_paths]
        own = [f"-I{(links or {}).get(path, path)}" for path in include_dirs]
        if self.toolkit is None:
            level = f"-O{self.optimization_level}"
            quote_dir = ["-iquote", self.source_folder] if self.source_folder else []
            options = [*_COMMON, "-fPIC", "-fvisibility=hidden", level, *quote_dir, *own, *self.cflags]
            return [*self.compiler.command, *options, str(source), "-o", str(library), *self.ldflags]
        options = [*self._cuda_options(self.toolkit, links or {}), *own, *self.cflags]
        return [self.toolkit.nvcc, *options, str(source), "-o", str(library)]

    def _cuda_options(self, toolkit: CudaToolkit, links: Mapping[str, str]) -> list[str]:
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
            options.append("-nodlink")  # a third of the time of a small build, needed for relocatable device code alone
        if self.use_fast_math:
            options.append("--use_fast_math")
        if os.environ.get("BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER", "").lower() in ("1", "true", "yes", "on"):
            options.append("-allow-unsupported-compiler")
        if self.source_folder:
            options += ["-Xcompiler", "-iquote", "-Xcompiler", links.get(self.source_folder, self.source_folder)]
        options += [f"-I{links.get(path, path)}" for path in toolkit.include_dirs]
        for path in toolkit.library_dirs:
            options += [f"-L{path}", "-Xlinker", "-rpath", "-Xlinker", path if _PLAIN.fullmatch(path) else f'"{path}"']
        # nvcc splits at commas by itself, and hands `-Wl` on to the linker, which does not know it.
        return options + [option for flag in self.ldflags for option in ("-Xlinker", flag.removeprefix("-Wl,"))]

    def _link_folders(self, folder: Path) -> dict[str, str]:
        """Give plain names to the folders whose names nvcc would split, or hand to a shell to read."""
        if self.toolkit is None:
            return {}
        paths = [str(INCLUDE_DIR), self.ffi_include_dir, *self.include_paths, *self.toolkit.include_dirs]
        paths += [self.source_folder] if self.source_folder else []
        odd = [path for path in dict.fromkeys(paths) if not _PLAIN.fullmatch(path)]
        links = {path: f"folder_{number}" for number, path in enumerate(odd)}
        for path, link in links.items():
            with suppress(FileNotFoundError):
                (folder / link).unlink()
            (folder / link).symlink_to(path)
        return links

    def run(self, folder: Path) -> Path:
        """Compile within a folder and return the library."""
        # A chosen folder may hold files of the user's, and other builds, perhaps at the same time.
        folder = folder / f"brainevent_{self.key()}"
        folder.mkdir(exist_ok=True)
        for source in self.sources:  # Compilers quote the lines of what they find under the title.
            copy = folder / source.title
            if copy.parent == folder:
                _write(copy, source.text)
        unit, library = folder / f"brainevent_handlers{'.cu' if self.toolkit else '.cpp'}", folder / "library.so"
        others = [content.decode(errors="replace") for _, content in self._included()]
        _write(
            unit,
            translation_unit(self.sources, self.functions, in_graphs=self.in_graphs, others=[*self.cflags, *others]),
        )
        command = self.command(Path(unit.name), Path(library.name), self._link_folders(folder))
        status, output = _run(command, folder, self.where)
        if self.verbose:
            print(shlex.join(command), output, sep="\n" if output else "", flush=True)  # noqa: T201 - the user asked
        if status != 0:
            raise self._failure(command, status, output)
        return library

    def _failure(self, command: Sequence[str], status: int, output: str) -> Exception:
        shown = _shown(output) or f"(the compiler said nothing; exit status {status})"
        text = f"{self.where}: compilation failed\n{shown}\ncommand: {shlex.join(command)}"
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
                "this CUDA toolkit refuses this host compiler; name another in CXX, or set "
                "BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER=1 to try all the same"
            )
            return HostCompilerIncompatibleError(f"{text}\n{advice}", **details)
        return CompilationError(text, **details)


def _run(command: Sequence[str], folder: Path, where: str) -> tuple[int, str]:
    """Run a compiler and all it starts, within a time limit; messages in English, temporary files in the folder."""
    limit, late = _time_limit(), threading.Event()
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": "."}
    # A file, for the end of a pipe would be awaited from whatever the compiler leaves running.
    with tempfile.TemporaryFile(dir=folder) as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise CompilationError(
                f"{where}: {command[0]!r} cannot be run: {error.strerror}; reinstall it, or name another compiler",
                command=shlex.join(command),
            ) from None

        def stop() -> None:
            late.set()
            _kill(process)

        timer = threading.Timer(limit, stop)
        timer.start()
        try:
            status = process.wait()
        finally:
            timer.cancel()
            _kill(process)
        output.seek(0)
        printed = output.read().decode(errors="replace")
    if late.is_set() and status != 0:
        raise CompilationError(
            f"{where}: compilation failed: no end after {limit:g} s; set BRAINEVENT_COMPILE_TIMEOUT to more seconds "
            f"if the source needs them\ncommand: {shlex.join(command)}",
            command=shlex.join(command),
        )
    return status, printed


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, and all that it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _time_limit() -> float:
    text = os.environ.get("BRAINEVENT_COMPILE_TIMEOUT", "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f"BRAINEVENT_COMPILE_TIMEOUT is {text!r}; set it to a number of seconds, such as 600")
    return min(seconds, threading.TIMEOUT_MAX)


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode(errors="surrogatepass"))


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
    """Return what tells processors of one architecture apart."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))
