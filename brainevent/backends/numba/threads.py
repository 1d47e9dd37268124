# SPDX-License-Identifier: Apache-2.0
"""Make code find the functions of Numba's threads by name: Numba writes addresses, which other processes lack."""

from __future__ import annotations

import ctypes
import re

import llvmlite.binding as llvm

__all__ = ["FUNCTIONS", "with_named_functions"]

FUNCTIONS = {
    "get_num_threads": "i32 @get_num_threads()",
    "set_num_threads": "void @set_num_threads(i32)",
    "get_thread_id": "i32 @get_thread_id()",
    "get_parallel_chunksize": "i32 @get_parallel_chunksize()",
    "set_parallel_chunksize": "i32 @set_parallel_chunksize(i32)",
}
_BY_ADDRESS = re.compile(r"numba\.dynamic\.globals\.([0-9a-f]+)")


def with_named_functions(module: llvm.ModuleRef) -> llvm.ModuleRef:
    """Return compiled code, copied if necessary, in which pointers to these functions are resolved by name."""
    names = _names_by_address()
    variables = (variable.name for variable in module.global_variables)
    if names.keys().isdisjoint(map(_address, variables)):
        return module
    text = str(module)
    for address, name in names.items():
        pointer = f"@brainevent.pointer.{name}"
        by_address = rf"@numba\.dynamic\.globals\.{address:x}\b"
        text, count = re.subn(
            rf"^{by_address} = .*$", f"{pointer} = linkonce global ptr @{name}", text, flags=re.MULTILINE
        )
        text = re.sub(by_address, pointer, text)
        if count and not re.search(rf"^declare .*@{name}\(", text, re.MULTILINE):
            text += f"\ndeclare {FUNCTIONS[name]}\n"
    return llvm.parse_assembly(text)


def _address(variable: str) -> int | None:
    found = _BY_ADDRESS.fullmatch(variable)
    return int(found[1], 16) if found else None


def _names_by_address() -> dict[int | None, str]:
    """List the functions where Numba's threads run: before that, no code holds an address of theirs."""
    from numba.np.ufunc import parallel

    functions = {name: getattr(parallel, f"_{name}", None) for name in FUNCTIONS}
    return {ctypes.cast(f, ctypes.c_void_p).value: name for name, f in functions.items() if f is not None}
