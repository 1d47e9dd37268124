# SPDX-License-Identifier: Apache-2.0
"""Export a compiled handler as LLVM bitcode, and load exported handlers."""

from __future__ import annotations

import platform
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np

from ...errors import UnsupportedOperationError
from ...ffi.portable import pack
from .objects import Boxing, LocalError, ObjectCode, local_reason

__all__ = ["carry", "load"]


def carry(module: llvm.ModuleRef, name: str, title: str, opaque: str | None) -> np.ndarray:
    """Pack the handler `name`, and all that it calls, for an exported program, unless a part is `opaque`."""
    reason = None
    if local := local_reason(module):
        reason = f"{local}, which exists only in this process"
    elif opaque:
        reason = (
            f"it uses {opaque}, whose content another process cannot identify; pass its data as "
            "operands, or as numbers and tuples"
        )
    try:
        boxing = Boxing.of(module, name).written()
    except LocalError as error:
        reason = reason or str(error)
    if reason:
        raise UnsupportedOperationError(f"the Numba kernel {title!r} cannot be exported: {reason}")
    return pack("numba", {"name": name, "boxing": boxing, **_environment()}, module.as_bitcode())


def _environment() -> dict[str, str]:
    """Return the versions that must be equal where bitcode is loaded."""
    return {"machine": platform.machine(), "system": platform.system(), "numba": numba.__version__}


def load(header: dict[str, Any], code: bytes) -> int:
    """Return the address of an exported handler."""
    for what, here in _environment().items():
        if header[what] != here:
            raise RuntimeError(
                f"its Numba kernels were compiled for {what} {header[what]}, and this is {here}; export it again here"
            )
    return ObjectCode.of(llvm.parse_bitcode(code), header["name"], Boxing.read(header["boxing"])).load()
