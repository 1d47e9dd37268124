# SPDX-License-Identifier: Apache-2.0
"""Compiled handlers as object code: made from modules, stored, and loaded into Numba's engine."""

from __future__ import annotations

import base64
import ctypes
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from numba.core import serialize
from numba.core.compiler_lock import global_compiler_lock
from numba.core.lowering import Environment
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from . import runtime
from .linking import ENVIRONMENT, environments
from .registries import uninterrupted
from .threads import FUNCTIONS

__all__ = ["Boxing", "LocalError", "MissingSymbolsError", "ObjectCode", "local_reason"]

THREADS = frozenset({runtime.ENTER_PARALLEL, *FUNCTIONS})  # what needs Numba's threads
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size
_loaded: list[Any] = []  # code and what it points to live as long as the process


class MissingSymbolsError(Exception):
    """Code calls functions that this process does not have."""


class LocalError(Exception):
    """Code works only in the process in which it was compiled."""


class Boxing(dict[str, list[Any]]):
    """The objects from which code makes Python's values, for messages and prints, by the name of a pointer."""

    @classmethod
    def of(cls, module: llvm.ModuleRef, name: str) -> Boxing:
        """Return the objects that a module of the handler `name` needs, which was compiled in this process."""
        known = environments(module)
        return cls(
            {
                variable: list(known[variable].consts) if variable in known else []
                for variable in _pointers(module, name)
            }
        )

    def written(self) -> dict[str, str]:
        """Return it as text, or raise `LocalError`."""
        try:
            return {
                variable: base64.b64encode(serialize.dumps(objects)).decode() if objects else ""
                for variable, objects in self.items()
            }
        except Exception as error:  # whatever the objects raise
            raise LocalError(f"it creates Python objects from values that cannot be stored ({error})") from error

    @classmethod
    def read(cls, text: Mapping[str, str]) -> Boxing:
        """Return what was written."""
        return cls({name: serialize.loads(base64.b64decode(word)) if word else [] for name, word in text.items()})


@dataclass(frozen=True)
class ObjectCode:
    """A handler's object code, with the objects for Python's values: pointers to fill in when it is loaded."""

    name: str
    boxing: Boxing
    code: bytes

    @classmethod
    def of(cls, module: llvm.ModuleRef, name: str, boxing: Boxing | None = None) -> ObjectCode:
        """Make code for this processor of a module that holds the handler `name`."""
        machine = cpu_target.target_context.codegen()._tm
        return cls(name, Boxing.of(module, name) if boxing is None else boxing, machine.emit_object(module))

    def packed(self) -> bytes:
        """Return it in the format of the cache, or raise `LocalError`."""
        header = json.dumps({"name": self.name, "boxing": self.boxing.written()})
        return header.encode() + b"\n" + zlib.compress(self.code, 1)

    @classmethod
    def unpacked(cls, content: bytes) -> ObjectCode:
        """Return the object from this format."""
        line, code = content.split(b"\n", 1)
        header = json.loads(line)
        return cls(header["name"], Boxing.read(header["boxing"]), zlib.decompress(code))

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
        for variable, objects in self.boxing.items():
            environment = Environment({})
            environment.consts.extend(objects)
            _loaded.append(environment)
            ctypes.c_void_p.from_address(engine.get_global_value_address(variable)).value = id(environment)
        _loaded.append(reference)
        return int(engine.get_function_address(self.name))


def local_reason(module: llvm.ModuleRef) -> str | None:
    """Return why code works only in the process in which it was compiled, or None."""
    if any(variable.name.startswith("numba.dynamic.globals") for variable in module.global_variables):
        return "it holds a C function from ctypes or cffi, or a large global array"
    if any(function.name == "PyObject_CallFunctionObjArgs" for function in module.functions):
        return "it runs Python code in object mode"
    return None


def _pointers(module: llvm.ModuleRef, name: str) -> Iterator[str]:
    return (v.name for v in module.global_variables if v.name.startswith(f"{name}_{ENVIRONMENT}"))


def _undefined(reference: llvm.ObjectFileRef) -> list[str]:
    """Return the names that an object file uses but does not define."""
    sections = {section.name(): section.data() for section in reference.sections()}
    names = sections[b".strtab"]
    symbols = _SYMBOL.iter_unpack(sections[b".symtab"])
    wanted = [name for name, _, _, section, _, _ in symbols if name and not section]
    return [names[start : names.index(b"\0", start)].decode() for start in wanted]
