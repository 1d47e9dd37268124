# SPDX-License-Identifier: Apache-2.0
"""Carry a compiled handler to another process, as LLVM bitcode, and load one that was carried here."""

from __future__ import annotations

import platform
from typing import Any

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.core.lowering import Environment
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from ...errors import UnsupportedOperationError
from ...ffi.portable import pack
from . import runtime

__all__ = ["carry", "load"]

# What betrays that code holds an address.
_LOCAL = {
    "numba.dynamic.globals": "it holds a C function from ctypes or cffi, or a large global array",
    "@PyObject_CallFunctionObjArgs": "it runs Python code in object mode",
}
_libraries: list[Any] = []  # loaded code lives as long as the process


def carry(library: Any, title: str) -> np.ndarray:
    """Pack a self-contained handler for an exported program."""
    text = library.get_llvm_str()
    for sign, what in _LOCAL.items():
        if sign in text:
            raise UnsupportedOperationError(
                f"the Numba kernel {title!r} cannot be exported: {what}, which exists in this process alone"
            )
    name, _, code = library.serialize_using_bitcode()
    return pack("numba", {"name": name, "parallel": runtime.ENTER_PARALLEL in text, **_environment()}, code)


def _environment() -> dict[str, str]:
    """Return what must be equal where bitcode is loaded."""
    return {"machine": platform.machine(), "system": platform.system(), "numba": numba.__version__}


@global_compiler_lock
def load(header: dict[str, Any], code: bytes) -> int:
    """Return the address of a carried handler."""
    for what, here in _environment().items():
        if header[what] != here:
            raise RuntimeError(
                f"its Numba kernels were compiled for {what} {header[what]}, and this is {here}; export it again here"
            )
    context = cpu_target.target_context
    context.refresh()
    rtsys.initialize(context)
    runtime.prepare()
    if header["parallel"]:
        runtime.prepare_parallel()
    library = context.codegen().unserialize_library((header["name"], "bitcode", code))
    _give_environments(library)
    _libraries.append(library)
    return int(library.get_pointer_to_function(header["name"]))


def _give_environments(library: Any) -> None:
    """Let code box values for an exception's message, as it does where it was compiled."""
    for variable in library._final_module.global_variables:
        if variable.name.startswith("_ZN08NumbaEnv"):
            environment = Environment({})
            _libraries.append(environment)
            library.codegen.set_env(variable.name, environment)
