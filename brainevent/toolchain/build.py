# SPDX-License-Identifier: Apache-2.0
"""One build as a value: its compiler command, its key in the cache, and the running of it."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CompilationError, HostCompilerIncompatibleError, UnsupportedArchError
from .find import CudaToolkit, HostCompiler
from .includes import included_files
from .signature import FunctionSpec
from .wrap import Source, translation_unit

__all__ = ["INCLUDE_DIR", "Build"]

INCLUDE_DIR = Path(__file__).parent / "include"

_SCHEMA = "1"  # of the key, and of what is generated
_SHOWN_LINES = 60
_COMMON = ("-std=c++17", "-shared")


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
            encoded = part if isinstance(part, bytes) else part.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()[:16]

    def _content(self) -> list[str | bytes]:
        parts: list[str | bytes] = [_SCHEMA, platform.machine(), *self.versions, self.compiler.version]
        parts += [*self.command(Path("source"), Path("library")), _headers_digest(self.ffi_include_dir)]
        if self.toolkit is not None:
            parts.append(self.toolkit.version)
        for source in self.sources:
            parts += [source.title, source.text]
        for spec in self.functions:
            parts += [spec.name, *spec.tokens]
        parts.append(str(self.in_graphs))
        folders = [*([self.source_folder] if self.source_folder else []), *self.include_paths]
        for path, content in included_files([source.text for source in self.sources], folders):
            parts += [path, content]
        if any(flag.endswith("=native") for flag in self.cflags):  # another processor would stumble over it
            parts.append(_processor())
        return parts

    def command(self, source: Path, library: Path) -> list[str]:
        """Return what is run."""
        own = [f"-I{INCLUDE_DIR}", f"-I{self.ffi_include_dir}", *(f"-I{path}" for path in self.include_paths)]
        if self.toolkit is None:
            level = f"-O{self.optimization_level}"
            options = [*_COMMON, "-fPIC", "-fvisibility=hidden", level, *self._quote_dir(), *own, *self.cflags]
            return [*self.compiler.command, *options, str(source), "-o", str(library), *self.ldflags]
        return [
            self.toolkit.nvcc,
            *self._cuda_options(self.toolkit),
            *own,
            *self.cflags,
            str(source),
            "-o",
            str(library),
        ]

    def _quote_dir(self) -> list[str]:
        return ["-iquote", self.source_folder] if self.source_folder else []

    def _cuda_options(self, toolkit: CudaToolkit) -> list[str]:
        options = [*_COMMON, f"-O{self.optimization_level}", "-Xcompiler", "-fPIC,-fvisibility=hidden"]
        options += ["-ccbin", self.compiler.command[0]] if len(self.compiler.command) == 1 else []
        for architecture in self.architectures:
            number = architecture.replace(".", "")
            options += ["-gencode", f"arch=compute_{number},code=sm_{number}"]
        newest = self.architectures[-1].replace(".", "")
        options += ["-gencode", f"arch=compute_{newest},code=compute_{newest}"]
        if not any("rdc" in flag or flag in ("-dc", "--device-c") for flag in self.cflags):
            options.append("-nodlink")  # a third of the time of a small build, needed for relocatable device code alone
        if self.use_fast_math:
            options.append("--use_fast_math")
        if os.environ.get("BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER", "").lower() in ("1", "true", "yes", "on"):
            options.append("-allow-unsupported-compiler")
        options += [option for path in self._quote_dir() for option in ("-Xcompiler", path)]
        options += [f"-I{path}" for path in toolkit.include_dirs]
        for path in toolkit.library_dirs:
            options += [f"-L{path}", "-Xlinker", "-rpath", "-Xlinker", path]
        return options + [option for flag in self.ldflags for option in ("-Xlinker", flag)]

    def run(self, folder: Path) -> Path:
        """Compile in an empty folder and return the library."""
        suffix = ".cpp" if self.toolkit is None else ".cu"
        for source in self.sources:  # Compilers quote the lines of what they find under the title.
            copy = folder / source.title
            if copy.parent == folder and not copy.exists():
                copy.write_text(source.text, encoding="utf-8")
        unit, library = folder / f"brainevent_handlers{suffix}", folder / "library.so"
        unit.write_text(translation_unit(self.sources, self.functions, in_graphs=self.in_graphs), encoding="utf-8")
        command = self.command(Path(unit.name), Path(library.name))
        status, output = _run(command, folder, self.where)
        if self.verbose:
            print(shlex.join(command), output, sep="\n", flush=True)  # noqa: T201 - the user asked for it
        if status != 0:
            raise self._failure(command, status, output)
        return library

    def _failure(self, command: Sequence[str], status: int, output: str) -> Exception:
        shown = _shown(output) or f"(the compiler said nothing; exit status {status})"
        text = f"{self.where}: compilation failed\n{shown}\ncommand: {shlex.join(command)}"
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
    limit = _time_limit()
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise CompilationError(
            f"{where}: {command[0]!r} cannot be run: {error.strerror}; reinstall it, or name another compiler",
            command=shlex.join(command),
        ) from None
    try:
        output, _ = process.communicate(timeout=limit)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise CompilationError(
            f"{where}: compilation failed: no end after {limit:g} s; set BRAINEVENT_COMPILE_TIMEOUT to more seconds "
            f"if the source needs them\ncommand: {shlex.join(command)}",
            command=shlex.join(command),
        ) from None
    return process.returncode, output.decode(errors="replace")


def _time_limit() -> float:
    text = os.environ.get("BRAINEVENT_COMPILE_TIMEOUT", "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f"BRAINEVENT_COMPILE_TIMEOUT is {text!r}; set it to a number of seconds, such as 600")
    return seconds


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
