# SPDX-License-Identifier: Apache-2.0
"""Remove Python's lock from parallel kernels.

Around every parallel loop, Numba's code acquires and releases Python's lock, to ensure that the loop runs without it.
XLA's threads never hold it. For them this is a wait for the interpreter at every call, and the end of the thread if the
interpreter is shutting down, for which XLA then waits without end.
"""

from __future__ import annotations

import re

import llvmlite.binding as llvm

__all__ = ["is_parallel", "without_gil"]

_CALL = r"^[^\n]*\bcall\b[^\n@]*@{}\([^\n]*\n"
_BETWEEN = r"(?P<between>(?:(?![^\n]*\bcall\b)[ \t][^\n]*\n)*)"  # instructions of the same block, none of them a call
_ACQUIRE = re.compile(_CALL.format("numba_gil_ensure") + _BETWEEN + _CALL.format("PyEval_SaveThread"), re.MULTILINE)
_RELEASE = re.compile(_CALL.format("PyEval_RestoreThread") + _BETWEEN + _CALL.format("numba_gil_release"), re.MULTILINE)


def is_parallel(module: llvm.ModuleRef) -> bool:
    """Return whether compiled code uses Numba's threads, in the kernel or in a helper."""
    return any(function.name == "numba_parallel_for" for function in module.functions)


def without_gil(module: llvm.ModuleRef) -> llvm.ModuleRef:
    """Return a copy of compiled code without the lock around its parallel loops."""
    text = str(module)
    for pattern in (_RELEASE, _ACQUIRE):  # in this order: what the second removes, the first reads
        text = pattern.sub(lambda match: match["between"], text)
    return llvm.parse_assembly(text)
