# SPDX-License-Identifier: Apache-2.0
"""Cache compiled handlers by content, so that later processes load them."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np
from numba.core import config as numba_config
from numba.core.registry import cpu_target

from ... import config
from ..._content import Content
from ...errors import KernelToolchainError
from ...ffi import frame
from ...toolchain import cache
from ...toolchain.directory import UnwritableError
from .objects import LocalError, MissingSymbolsError, ObjectCode, local_reason
from .registries import uninterrupted

__all__ = ["address_of", "payload_of", "settings"]

_FORMAT = 2  # of what is kept
_SETTINGS = (
    "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "DIVERGENCE_CHECK", "ENABLE_AVX", "LLVM_REFPRUNE_FLAGS", "LLVM_REFPRUNE_PASS",
    "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE", "USING_SVML",
)  # fmt: skip
_PACKAGE = Path(__file__).parents[2]
_told: set[str] = set()
_alive: list[Any] = []  # arrays that code points to, which lives as long as the process
# Our own code that determines a handler, besides the kernel.
_MACHINERY = ("_content", "backends/numba", "ffi/call.py", "ffi/frame.py", "ffi/portable.py")


def address_of(name: str, title: str, content: Content, compile_: Callable[[], llvm.ModuleRef]) -> int:
    """Return the address of the handler `name`: loaded from the cache, or compiled, loaded and stored there."""
    made: list[ObjectCode] = []

    def made_once() -> ObjectCode:
        if not made:
            module = compile_()
            made.append(ObjectCode.of(module, name))
            if reason := local_reason(module):
                _alive.append(content.large)
                raise LocalError(reason)
        return made[0]

    def build(folder: Path) -> Path:
        (folder / "code").write_bytes(made_once().packed())
        return folder / "code"

    if content.opaque or content.fleeting or not config.get_numba_cache():
        _alive.append(content.large)
        return ObjectCode.of(compile_(), name).load()
    try:
        kept = cache.read(_file_name(title), _key(name, content), build, suffix=".numba")
        return (made[0] if made else ObjectCode.unpacked(kept)).load()
    except (MissingSymbolsError, KernelToolchainError, LocalError) as error:  # not from the cache, or not into it
        _tell(error)
        return (made[0] if made else ObjectCode.of(compile_(), name)).load()


def payload_of(name: str, title: str, content: Content, carry: Callable[[], np.ndarray]) -> np.ndarray:
    """Return the handler `name` for an exported program: from the cache, or made and stored there."""

    def build(folder: Path) -> Path:
        (folder / "payload").write_bytes(carry().tobytes())
        return folder / "payload"

    if content.opaque or content.fleeting or not config.get_numba_cache():
        return carry()
    try:
        return np.frombuffer(cache.read(_file_name(title), _key(name, content), build, suffix=".numba"), np.uint8)
    except KernelToolchainError as error:  # the cache cannot be used
        _tell(error)
        return carry()


def _tell(error: Exception) -> None:
    """Warn once that nothing is stored, with the reason; a cache that cannot be written warns by itself."""
    if isinstance(error, KernelToolchainError) and not isinstance(error, UnwritableError) and str(error) not in _told:
        _told.add(str(error))
        warnings.warn(f"compiled Numba kernels are not stored: {error}", RuntimeWarning, stacklevel=2)


def _file_name(title: str) -> str:
    return "numba_" + re.sub("[^A-Za-z0-9_]+", "", title)[:80]


def _key(name: str, content: Content) -> str:
    """Return the hash of all that must be equal to load the code, including the source lines in exceptions."""
    return hashlib.sha256(f"{name} {content.places} {_environment()}".encode()).hexdigest()


def settings() -> dict[str, Any]:
    """Return those settings of Numba that affect compiled code."""
    return {name: str(getattr(numba_config, name, None)) for name in _SETTINGS}


def _environment() -> str:
    return json.dumps([_FORMAT, *_machine(), settings()], sort_keys=True)


@functools.cache
def _machine() -> tuple[str, ...]:
    ours = hashlib.sha256()
    for path in map(_PACKAGE.joinpath, _MACHINERY):
        for file in sorted(path.glob("*.py")) if path.is_dir() else (path,):
            ours.update(file.read_bytes())
    with uninterrupted():
        codegen = cpu_target.target_context.codegen()
    versions = (sys.version, llvmlite.__version__, llvm.llvm_version_info, frame.api_version())
    return (*map(str, versions), *codegen.magic_tuple(), ours.hexdigest())
