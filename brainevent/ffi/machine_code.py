# SPDX-License-Identifier: Apache-2.0
"""Machine code of texts for LLVM: compiled once, and found again by later processes.

To compile a handler takes longer than all else that a kept program does before it runs. Its text holds no address of a
process, and it is compiled for any processor of the machine's kind.
"""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from typing import Any

from ..errors import KernelToolchainError

__all__ = ["address_of", "keep_in"]

_FORMAT = 1  # of the key
_OPTIMISED = 2  # the level
_engines: list[Any] = []  # machine code lives as long as the process
_caches: list[str] = []  # the module whose `read` finds machine code, the last one counts


def keep_in(module: str) -> None:
    """Set the module whose `read(name, key, build, suffix=...)` finds machine code, or keeps what is built."""
    _caches.append(module)


def address_of(function: str, title: str, text: str) -> int:
    """Return the address of a function of a text, which holds nothing of this process; `title` names its file."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(_kept(title, text)))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(function))


def _machine() -> Any:
    import llvmlite.binding as llvm

    return llvm.Target.from_default_triple().create_target_machine(opt=_OPTIMISED)


def _kept(title: str, text: str) -> bytes:
    """Return the machine code of a text from the cache, or compile it and keep it there."""

    def build(folder: Path) -> Path:
        (folder / "code").write_bytes(_compiled(text))
        return folder / "code"

    if not _caches:
        return _compiled(text)
    try:
        found: bytes = importlib.import_module(_caches[-1]).read(title, _key(text), build, suffix=".o")
    except (KernelToolchainError, OSError):  # the cache cannot be used
        return _compiled(text)
    return found


def _key(text: str) -> str:
    """Return the hash of all that machine code depends on."""
    import llvmlite
    import llvmlite.binding as llvm

    machine = _machine()
    releases = llvmlite.__version__, llvm.llvm_version_info
    parts = _FORMAT, text, _OPTIMISED, *releases, machine.triple, str(machine.target_data)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _compiled(text: str) -> bytes:
    import llvmlite.binding as llvm

    module, machine = llvm.parse_assembly(text), _machine()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=_OPTIMISED))
    passes.getModulePassManager().run(module, passes)
    found: bytes = machine.emit_object(module)
    return found
