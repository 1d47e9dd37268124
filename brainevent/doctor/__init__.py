# SPDX-License-Identifier: Apache-2.0
"""Report what this machine offers to kernels, and what is wrong with it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import jax

from .. import config
from .._compat import scan_lowering_missing
from .._version import __version__
from ..errors import (
    GpuArchDetectionError,
    HeaderNotFoundError,
    KernelToolchainError,
    NvccNotFoundError,
    did_you_mean,
)
from ..ffi.devices import cuda_capabilities
from ..ffi.frame import api_version
from ..ffi.targets import list_registered_targets
from ..languages import Language, in_one_sentence, known_languages
from ..toolchain import cache, directory
from ..toolchain.architectures import gpu_architectures
from ..toolchain.find import (
    Candidate,
    cuda_candidates,
    find_cuda_toolkit,
    find_host_compiler,
    host_compiler_candidates,
)
from .findings import Line, Report, Section, printable
from .trial import trials

__all__ = ["Line", "Report", "Section", "print_diagnostics", "report", "size_in_words"]

_REQUIRED = ("jax", "jaxlib", "numpy", "numba")
_OPTIONAL = ("jax-cuda12-plugin", "jax-cuda13-plugin")
_PREFIX = "BRAINEVENT_"
_OURS = tuple(
    _PREFIX + name
    for name in (
        "ALLOW_UNSUPPORTED_COMPILER", "CACHE_DIR", "COMPILE_TIMEOUT", "COMPUTE_CAPABILITIES", "CSR_HYBRID_CONFIG",
        "DEBUG_INDICES", "EMULATE", "FUSE_LOOPS", "NUMBA_CACHE", "NVCC_PATH", "NVCC_PREFER", "TOOLCHAIN_DEBUG",
    )
)  # fmt: skip
_OTHERS = (
    "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CXX", "JAX_PLATFORMS", "NVCC_APPEND_FLAGS",
    "NUMBA_ENABLE_CUDASIM", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS", "XDG_CACHE_HOME", "XLA_FLAGS",
)  # fmt: skip
_ELSEWHERE = "compiled libraries go to the directory for temporary files"
_READY = "ready"
_NOT_KEPT = "works, but compiled code is not stored for later processes"
_NO_GPU_TO_COMPILE_FOR = (
    "no GPU on this machine; to compile for another, set BRAINEVENT_COMPUTE_CAPABILITIES, such as 8.6"
)
_NOT_HERE = (NvccNotFoundError, HeaderNotFoundError, GpuArchDetectionError)  # not a fault on a machine without a GPU


def print_diagnostics(file: TextIO | None = None) -> None:
    """Print what this machine offers to kernels, as `brainevent doctor` does.

    Faults are lines of the text, not errors.

    Args:
        file: The file to write to; None for standard output.

    Examples:
        >>> import io, brainevent
        >>> text = io.StringIO()
        >>> brainevent.print_diagnostics(text)
        >>> text.getvalue().splitlines()[0]
        'Versions: ok'
    """
    report().write(sys.stdout if file is None else file)


def report(*, attempt: bool = False) -> Report:
    """Inspect the machine without changing anything; with `attempt`, also compile and run a kernel."""
    here = {"cpu", *(name for name in ("gpu", "tpu") if _quietly(name))}
    gpu = "gpu" in here
    sections = [
        _section("Versions", _versions),
        _section("Devices", _devices),
        _section("C++ compiler", _host_compiler),
        _section("CUDA compiler", lambda: [*_cuda_compiler(gpu), *_architectures(gpu), *_need(gpu)]),
        _section("Environment", _environment),
        _section("Cache", _cache),
        _section("Registered targets", _targets),
        _section("Kernel languages", lambda: _languages(here)),
        _section("Emulation on the CPU", _emulation),
        _section("Loops as native calls", _loops),
    ]
    if attempt:
        sections.append(_section("Trial", trials))
    return Report(tuple(sections))


def size_in_words(size: float) -> str:
    """Return "3.4 MiB"."""
    if size < 1024:
        return f"{size:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1023.95:  # values that round to 1024.0 have the next unit
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def _section(title: str, probe: Callable[[], Iterable[Line | str]]) -> Section:
    """Return the findings of a probe; a text that it yields is its conclusion."""
    found: list[Line | str] = []
    try:
        found.extend(probe())
    except Exception as error:  # noqa: BLE001 - a probe that fails is a line
        found.append(_error("", error))
    lines = tuple(line for line in found if isinstance(line, Line))
    said = "; ".join(line for line in found if isinstance(line, str))
    return Section(title, lines or (Line("none", ""),), said)


def _error(label: str, error: Exception) -> Line:
    return Line(label, f"ERROR ({type(error).__name__}): {str(error) or 'without a message'}", fault=True)


def _versions() -> Iterator[Line]:
    yield Line("brainevent", __version__)
    yield Line("Python", f"{platform.python_version()}, {sys.executable}")
    yield Line("system", platform.platform())
    packages = dict.fromkeys(package for row in known_languages() for package in row.packages)
    for name in dict.fromkeys((*_REQUIRED, *_OPTIONAL, *packages)):
        try:
            yield Line(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            if name in _REQUIRED:
                yield Line(name, f"not installed; run: pip install {name}", fault=True)
    yield Line("XLA FFI headers", jax.ffi.include_dir())
    try:
        yield Line("XLA FFI version", ".".join(map(str, api_version())))
    except (OSError, RuntimeError) as error:
        yield _error("XLA FFI version", error)


def _quietly(name: str) -> list[Any]:
    """Return the devices of a platform, none if they are not known."""
    try:
        return jax.devices(name)
    except Exception:  # noqa: BLE001 - `_devices` says why
        return []


def _loops() -> Iterator[Line]:
    if (missing := scan_lowering_missing()) is not None:
        yield Line("jax.lax.scan", f"compiled by JAX, with config.fuse_loops, too: {missing}", fault=True)
    else:
        chosen = "on" if config.is_fusing_loops() else "off; turn it on with config.fuse_loops()"
        yield Line("jax.lax.scan", chosen)


def _devices() -> Iterator[Line | str]:
    for name in ("cpu", "gpu", "tpu"):
        described = Counter(map(_described, _quietly(name)))
        for text, count in described.items():
            yield Line(name, f"{count} x {text}")
        if name == "gpu" and not described:
            yield Line(name, _why_no_gpu())
            yield "ok, without a GPU"
    try:
        yield Line("default", jax.default_backend())
    except Exception as error:  # noqa: BLE001
        yield _error("default", error)


def _described(device: Any) -> str:
    capability = getattr(device, "compute_capability", None)
    return device.device_kind + (f", compute capability {capability}" if capability else "")


def _why_no_gpu() -> str:
    """Return "none", with the error if JAX has tried to use one, or the setting that prevents it."""
    allowed = os.environ.get("JAX_PLATFORMS", "")
    if allowed and not {"cuda", "gpu", "rocm"} & set(allowed.lower().split(",")):
        return f"none: JAX_PLATFORMS is {allowed}"
    try:
        jax.devices("cuda")
    except Exception as error:  # noqa: BLE001
        return f"none: {error}" if "failed to initialize" in str(error) else "none"
    return "none"


def _host_compiler() -> Iterator[Line]:
    try:
        compiler = find_host_compiler()
    except KernelToolchainError as error:
        yield _in_short("command", error, fault=True)
        yield from _tried(host_compiler_candidates())
        return
    yield Line("command", " ".join(compiler.command))
    yield Line("version", compiler.version)
    yield Line("found in", compiler.origin)


def _cuda_compiler(gpu: bool) -> Iterator[Line]:
    try:
        toolkit = find_cuda_toolkit()
    except (KernelToolchainError, ValueError) as error:
        yield _in_short("nvcc", error, gpu or not isinstance(error, _NOT_HERE))
        if not isinstance(error, ValueError):
            yield from _tried(cuda_candidates())
        return
    yield Line("nvcc", toolkit.nvcc)
    yield Line("version", toolkit.version)
    yield Line("found in", toolkit.origin)
    yield Line("toolkit", toolkit.root)
    yield Line("include dirs", "\n".join(toolkit.include_dirs) or "those of the host compiler")


def _need(gpu: bool) -> Iterator[str]:
    if not gpu:
        yield "not needed here, as JAX sees no GPU"


def _in_short(label: str, error: Exception, fault: bool) -> Line:
    said = in_one_sentence(error)
    return Line(label, f"ERROR ({type(error).__name__}): {said}" if fault else said, fault)


def _tried(candidates: Iterable[Candidate]) -> Iterator[Line]:
    for origin, path, outcome in candidates:
        yield Line(f"  {origin}", f"{path} {'would serve' if outcome == 'found' else outcome}".strip())


def _architectures(gpu: bool) -> Iterator[Line]:
    try:
        yield Line("compiles for", ", ".join(gpu_architectures(None, cuda_capabilities)))
    except Exception as error:  # noqa: BLE001
        is_fault = gpu or not isinstance(error, _NOT_HERE)
        yield _error("compiles for", error) if is_fault else Line("compiles for", _NO_GPU_TO_COMPILE_FOR)


def _environment() -> Iterator[Line | str]:
    unread = 0
    for name in sorted(os.environ):
        if name in _OURS or name in _OTHERS:
            yield Line(name, os.environ[name] or "(set, but empty)")
        elif name.startswith(_PREFIX):
            unread += 1
            yield Line(printable(name)[:40], f"{os.environ[name]} (not read by anything{did_you_mean(name, _OURS)})")
    if unread:
        yield f"ok, but {unread} {'variable is' if unread == 1 else 'variables are'} not read by anything"


def _cache() -> Iterator[Line | str]:
    try:
        yield Line("directory", cache.get_cache_dir())
        base = directory.current_base()
        directory.guard_way(base)
        if os.path.lexists(base):
            directory.guard_base(base)
        found = cache.entries()
        yield Line("entries", f"{len(found)}, {size_in_words(sum(entry.bytes for entry in found))}")
        state = _state(base)
        yield Line("state", state)
        if _ELSEWHERE in state:
            yield _NOT_KEPT
    except directory.UnsafeError as error:
        yield Line("state", f"not used, since {error.trouble}: {_ELSEWHERE}")
        yield _NOT_KEPT
    except directory.UnwritableError as error:
        yield Line("state", f"not readable ({error.reason}): {_ELSEWHERE}")
        yield _NOT_KEPT
    except (OSError, KernelToolchainError) as error:
        yield _error("state", error)


def _state(base: Path) -> str:
    """Return what would happen to a new library."""
    existing = next(path for path in (base, *base.parents) if os.path.lexists(path))
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"{existing} is not writable: {_ELSEWHERE}"
    return "writable, and by this user alone" if existing == base else "not created yet: the first build creates it"


def _targets() -> Iterator[Line | str]:
    names = list_registered_targets()
    yield Line("number", str(len(names)))
    yield f"{len(names) or 'none'} in this process"
    if names:
        yield Line("names", ", ".join(names))


def _languages(here: set[str]) -> Iterator[Line | str]:
    ready = 0
    for row in known_languages():
        line = _language(row, here)
        ready += line.text == _READY
        yield line
    yield f"ok, {ready} of {len(known_languages())} are ready"


def _language(row: Language, here: set[str]) -> Line:
    expected = not row.extra and not here.isdisjoint(row.platforms)
    try:
        why = row.why_missing()
    except Exception as error:  # noqa: BLE001
        return _error(row.name, error) if expected else Line(row.name, f"not here: {type(error).__name__}: {error}")
    return Line(row.name, f"not here: {why}", expected) if why else Line(row.name, _READY)


def _emulation() -> Iterator[Line | str]:
    is_on = config.is_emulating()
    yield "on" if is_on else "off"
    if is_on:
        yield Line("state", "on: programs for the CPU may run kernels for GPUs and TPUs")
    else:
        yield Line("state", "off; brainevent.config.emulate(), or BRAINEVENT_EMULATE=1 in the environment, turns it on")
    for row in known_languages():
        if row.emulator is not None:
            why = row.why_not_emulated()
            yield Line(row.name, f"not here: {why}" if why else f"{'' if is_on else 'would run '}by {row.emulator}")
    yield from (Line(label, text) for row in known_languages() for label, text in row.notes())
