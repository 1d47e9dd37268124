# SPDX-License-Identifier: Apache-2.0
"""Compile CUDA C++ with NVRTC, which needs no other compiler and no GPU, and cache the result by content."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import CompilationError, UnsupportedArchError
from ...toolchain import cache
from ...toolchain.flags import file_digests, forced_includes, named_folders
from ...toolchain.includes import included_files
from .translation_unit import VIRTUAL_HEADERS, OwnText, TranslationUnit

__all__ = ["Code", "compiled"]

_SCHEMA = "1"  # of the key, and of what is kept
_SHOWN_LINES = 60
_INSTALL = "run: pip install 'cuda-bindings[all]' (with JAX for CUDA 12: 'cuda-bindings[all]==12.*')"
_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")  # found before any other NVRTC
_NAMING = "__nv_name_map("  # the line that NVRTC reports for the requested names
_VERSIONS = ("cuda_runtime_api.h", "thrust/version.h", "curand.h")  # change with every release of CUDA's headers

_Unit = TranslationUnit | OwnText

_codes: dict[str, Code] = {}


@dataclass(frozen=True)
class Code:
    """The output of NVRTC: a cubin or PTX, the kernel's name in it, and its parameter types, as mangled."""

    binary: bytes
    entry: str
    types: tuple[str, ...]

    def packed(self) -> bytes:
        """Return it in the format of the cache."""
        return json.dumps({"entry": self.entry, "types": self.types}).encode() + b"\n" + self.binary

    @classmethod
    def unpacked(cls, content: bytes) -> Code:
        """Return the object from this format."""
        line, binary = content.split(b"\n", 1)
        header = json.loads(line)
        return cls(binary, header["entry"], tuple(header["types"]))


def compiled(where: str, unit: _Unit, architectures: Sequence[str]) -> Code:
    """Compile for one architecture, or to PTX for the lowest of several."""
    least, kind = architectures[0].replace(".", ""), "cubin" if len(architectures) == 1 else "ptx"
    options = (*unit.options, f"--gpu-architecture={'sm' if kind == 'cubin' else 'compute'}_{least}")
    key = _key(unit, options)
    if key not in _codes:
        _codes[key] = _kept(where, unit, options, kind, key)
    return _codes[key]


def _key(unit: _Unit, options: Sequence[str]) -> str:
    """Return 16 hex digits of all that determines the output."""
    digest = hashlib.sha256()
    forced = [f'#include "{name}"' for name in forced_includes(unit.options)]
    # NVRTC searches the current folder, too.
    own = included_files([*forced, unit.source], ["", *named_folders(unit.options)])
    parts = [_SCHEMA, _release(), *_headers(unit)[1], unit.text, *unit.expressions, *options]
    parts += [part for pair in file_digests(unit.options) for part in pair]
    for part in (*parts, *(part for pair in own for part in pair)):
        encoded = part if isinstance(part, bytes) else part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:16]


def _kept(where: str, unit: _Unit, options: Sequence[str], kind: str, key: str) -> Code:
    """Look the code up in the cache on disk, or make it."""

    def build(folder: Path) -> Path:
        (folder / "code").write_bytes(_compile(where, unit, options, kind).packed())
        return folder / "code"

    return Code.unpacked(cache.read(unit.name, key, build, suffix=".gpu"))


@functools.cache
def _nvrtc() -> tuple[Any, tuple[int, int]]:
    """Return NVRTC's functions, and its version."""
    try:
        nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise ImportError(f"cuda_kernel: the package 'cuda-bindings' is not installed; {_INSTALL}") from error
    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:
        raise ImportError(f"cuda_kernel: the library NVRTC is not found; {_INSTALL}") from error
    return nvrtc, (major, minor)


@functools.cache
def _release() -> str:
    """Return an identifier of the release of NVRTC, without loading it if it is in a package."""
    found = []
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found) or str(_nvrtc()[1])


def _headers(unit: _Unit) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders of CUDA's own headers that are installed, and an identifier of their release."""
    return _cuda_headers() if any("include" in text for text in (unit.text, *unit.options)) else ((), ())


@functools.cache
def _cuda_headers() -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        find = importlib.import_module("cuda.pathfinder").find_nvidia_header_directory
    except (ImportError, AttributeError):  # an older release; then include paths are the user's
        return (), ()
    found = [find(library) for library in ("cudart", "cccl", "curand")]
    folders = tuple(dict.fromkeys(folder for folder in found if folder))
    files = [Path(folder, name) for folder in folders for name in _VERSIONS]
    return folders, tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file())


def _compile(where: str, unit: _Unit, options: Sequence[str], kind: str) -> Code:
    nvrtc, version = _nvrtc()
    words = [*options, *(f"--include-path={folder}" for folder in _headers(unit)[0])]
    with _program(nvrtc, where, unit) as program:
        for expression in unit.expressions:
            _check(nvrtc, where, nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        # NVRTC's own cache holds one binary for --ftz=true and --ftz=false (13.0); ours makes it superfluous.
        status = _run(nvrtc, program, [*words, "--no-cache"])
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:  # an older NVRTC, which has no cache
            status = _run(nvrtc, program, words)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _text(nvrtc, where, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise _failure(where, log, words, version)
        binary = _text(nvrtc, where, program, "CUBIN" if kind == "cubin" else "PTX")
        entry, *probes = [
            _check(nvrtc, where, nvrtc.nvrtcGetLoweredName(program, expression.encode())).decode()
            for expression in unit.expressions
        ]
    return Code(binary, entry, unit.types(where, probes))


def _run(nvrtc: Any, program: Any, words: Sequence[str]) -> Any:
    (status,) = nvrtc.nvrtcCompileProgram(program, len(words), [word.encode() for word in words])
    return status


@contextlib.contextmanager
def _program(nvrtc: Any, where: str, unit: _Unit) -> Iterator[Any]:
    names, texts = [name.encode() for name in VIRTUAL_HEADERS], [text.encode() for text in VIRTUAL_HEADERS.values()]
    title = f"{unit.name}.cu".encode()
    text = unit.text.encode(errors="replace")
    program = _check(nvrtc, where, nvrtc.nvrtcCreateProgram(text, title, len(names), texts, names))
    try:
        yield program
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _check(nvrtc: Any, where: str, said: Sequence[Any]) -> Any:
    """Return the result of a function of NVRTC, or raise."""
    status, *values = said
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompilationError(f"{where}: NVRTC returned no code ({status.name}); try without options")
    return values[0] if values else None


def _text(nvrtc: Any, where: str, program: Any, what: str) -> bytes:
    size = _check(nvrtc, where, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    text = bytes(size)
    _check(nvrtc, where, getattr(nvrtc, f"nvrtcGet{what}")(program, text))
    return text


def _failure(where: str, log: str, words: Sequence[str], version: tuple[int, int]) -> Exception:
    command = " ".join(["nvrtc", *words])
    details = {"compiler_output": log, "command": command}
    if "invalid value for --gpu-architecture" in log:
        asked = next(word.partition("=")[2] for word in words if word.startswith("--gpu-architecture"))
        return UnsupportedArchError(
            f"{where}: NVRTC {version[0]}.{version[1]} does not know {asked}; install the one for your GPU, or name "
            "another with config.set_compute_capability",
            **details,
        )
    lines = [line.rstrip() for line in _readable(log).splitlines() if line.strip()]
    more = [f"... {len(lines) - _SHOWN_LINES} more lines in the error's compiler_output"]
    shown = "\n".join(lines[:_SHOWN_LINES] + (more if len(lines) > _SHOWN_LINES else []))
    advice = ""
    if "open source file" in log:
        advice = (
            "\nNVRTC does not read the host's headers. Those of CUDA: pip install nvidia-cuda-runtime "
            "nvidia-cuda-cccl; for yours, pass options=('-I/their/folder',)"
        )
    elif lines[0].startswith(_NAMING):
        advice = (
            "\nAt the end of the source there is no such kernel: write the entry with all its namespaces, such as "
            "'outer::inner::kernel', give each overload its own name, and check that no #if excludes the kernel"
        )
    return CompilationError(f"{where}: compilation failed\n{shown}\ncommand: {command}{advice}", **details)


def _readable(log: str) -> str:
    """Remove NVRTC's messages about our own questions if there are others about the source."""
    parts = [part.strip("\n").split("\n") for part in log.split("\n\n") if part.strip()]
    kept = [lines for lines in parts if "brainevent_" not in lines[0]] or parts
    shown: dict[Any, list[str]] = {}
    for number, lines in enumerate(kept):
        naming, message = lines[0].startswith(_NAMING), lines[0].partition(": error: ")[2]
        if naming and message.startswith("Error in parsing name expression"):  # the lines after it repeat those above
            continue
        is_own = naming or "brainevent_" in "".join(lines)
        shown.setdefault(message if naming else number, lines[:1] if is_own else lines)
    return "\n\n".join("\n".join(lines) for lines in shown.values())
