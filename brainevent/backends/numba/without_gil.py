# SPDX-License-Identifier: Apache-2.0
"""Take Python's lock out of parallel kernels.

Around every parallel loop Numba's code acquires Python's lock and lets it go again, to be sure that the loop runs
without it. XLA's threads never hold it; to them this is a wait for the interpreter at every call, and the end of the
thread if the interpreter is shutting down, on which XLA then waits for ever.
"""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm

__all__ = ["is_parallel", "module_of"]

_CALL = r"^[^\n]*\bcall\b[^\n@]*@{}\([^\n]*\n"
_BETWEEN = r"(?P<between>(?:(?![^\n]*\bcall\b)[ \t][^\n]*\n)*)"  # instructions of the same block, none of them a call
_ACQUIRE = re.compile(_CALL.format("numba_gil_ensure") + _BETWEEN + _CALL.format("PyEval_SaveThread"), re.MULTILINE)
_RELEASE = re.compile(_CALL.format("PyEval_RestoreThread") + _BETWEEN + _CALL.format("numba_gil_release"), re.MULTILINE)


def is_parallel(library: Any) -> bool:
    """Tell whether compiled code uses Numba's threads, in the kernel or in a helper."""
    return "@numba_parallel_for" in _text(library)


def module_of(library: Any) -> llvm.ModuleRef:
    """Return a copy of compiled code, private but for its entries, without the lock around its parallel loops."""
    text = _text(library)
    for pattern in (_RELEASE, _ACQUIRE):  # in this order: what the second removes, the first reads
        text = pattern.sub(lambda match: match["between"], text)
    return llvm.parse_assembly(text)


def _text(library: Any) -> str:
    """Return code as text, also that which Numba found in its cache on disk."""
    return str(library._get_module_for_linking())
