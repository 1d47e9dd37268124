# SPDX-License-Identifier: Apache-2.0
"""Compiled handlers as object code: made of modules, written down, and loaded into Numba's engine."""

from __future__ import annotations

import ctypes
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from numba.core.compiler_lock import global_compiler_lock
from numba.core.lowering import Environment
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from . import runtime
from .handler import ENVIRONMENT
from .registries import uninterrupted
from .threads import FUNCTIONS

__all__ = ["MissingSymbolsError", "ObjectCode", "local_reason"]

THREADS = frozenset({runtime.ENTER_PARALLEL, *FUNCTIONS})  # what needs Numba's threads
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size
_loaded: list[Any] = []  # code and what it points to live as long as the process


class MissingSymbolsError(Exception):
    """Code calls functions that this process does not have."""


@dataclass(frozen=True)
class ObjectCode:
    """A handler's object code; `environments` are the names of pointers that are filled in when it is loaded."""

    name: str
    environments: tuple[str, ...]
    code: bytes

    @classmethod
    def of(cls, module: llvm.ModuleRef, name: str) -> ObjectCode:
        """Make code for this processor of a module that holds the handler `name`."""
        machine = cpu_target.target_context.codegen()._tm
        return cls(name, tuple(_environments(module, name)), machine.emit_object(module))

    def packed(self) -> bytes:
        """Return it as the cache keeps it."""
        header = json.dumps({"name": self.name, "environments": self.environments})
        return header.encode() + b"\n" + zlib.compress(self.code, 1)

    @classmethod
    def unpacked(cls, content: bytes) -> ObjectCode:
        """Return what was packed."""
        line, code = content.split(b"\n", 1)
        header = json.loads(line)
        return cls(header["name"], tuple(header["environments"]), zlib.decompress(code))

    @global_compiler_lock
    def load(self) -> int:
        """Return the handler's address, or raise `MissingSymbolsError`: MCJIT would end the process."""
        reference = llvm.ObjectFileRef.from_data(self.code)
        wanted = _undefined(reference)
        with uninterrupted():
            runtime.prepare()
            if not THREADS.isdisjoint(wanted):
                runtime.prepare_parallel()
            context = cpu_target.target_context
            rtsys.initialize(context)  # memory for arrays that kernels make
        engine = context.codegen()._engine
        missing = [name for name in wanted if not (engine.is_symbol_defined(name) or llvm.address_of_symbol(name))]
        if missing:
            raise MissingSymbolsError(", ".join(missing))
        engine._ee.add_object_file(reference)
        engine.finalize_object()
        for variable in self.environments:
            self._fill_in(engine, variable)
        _loaded.append(reference)
        return int(engine.get_function_address(self.name))

    def _fill_in(self, engine: Any, variable: str) -> None:
        """Let code box values for an exception's message, as it does where Numba loads it."""
        environment = Environment._memo.get(variable.removeprefix(f"{self.name}_")) or Environment({})
        _loaded.append(environment)
        ctypes.c_void_p.from_address(engine.get_global_value_address(variable)).value = id(environment)


def local_reason(module: llvm.ModuleRef) -> str | None:
    """Say why code serves the process alone in which it was compiled, if it does."""
    if any(variable.name.startswith("numba.dynamic.globals") for variable in module.global_variables):
        return "it holds a C function from ctypes or cffi, or a large global array"
    if any(function.name == "PyObject_CallFunctionObjArgs" for function in module.functions):
        return "it runs Python code in object mode"
    return None


def _environments(module: llvm.ModuleRef, name: str) -> Iterator[str]:
    return (v.name for v in module.global_variables if v.name.startswith(f"{name}_{ENVIRONMENT}"))


def _undefined(reference: llvm.ObjectFileRef) -> list[str]:
    """Return the names of all that an object file uses and does not hold."""
    sections = {section.name(): section.data() for section in reference.sections()}
    names = sections[b".strtab"]
    symbols = _SYMBOL.iter_unpack(sections[b".symtab"])
    wanted = [name for name, _, _, section, _, _ in symbols if name and not section]
    return [names[start : names.index(b"\0", start)].decode() for start in wanted]
