# SPDX-License-Identifier: Apache-2.0
"""Numba functions that only compiled code calls: without an entry for Python, and without machine code."""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

__all__ = ["inner"]

_FLUSHES = '"denormal-fp-math"="preserve-sign,preserve-sign"'


def inner(
    function: Any = None, *, apart: bool = False, flushes: bool = False, later: bool = False, **options: Any
) -> Any:
    """Compile a function that only compiled code calls, like `numba.njit`, but only as far as necessary.

    This takes about half of the time. A call from Python ends the process. `apart` promises that no two of its arrays
    overlap: loops over many arrays are then vectorized. `flushes` promises that the processor flushes denormals to zero
    when the function runs: constants are then flushed, too. `later`, without `apart`, leaves all optimization to the
    code that links the function: many small functions then take less time in all, but a loop that is vectorized by
    itself may not be vectorized within a larger function.
    """
    assert not (later and apart)
    pipeline = _LATER[flushes] if later else _PIPELINES[apart, flushes]
    compile_ = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=pipeline, **options)
    return compile_ if function is None else compile_(function)


class _InnerCompiler(Compiler):
    """Numba's compiler, without machine code: the code that links the function generates it."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any):
        super().__init__(typing, target, library or _LinkedLibrary(target.codegen(), "inner"), *rest)


class _LaterCompiler(Compiler):
    """The same, of functions that are optimized where they are linked in."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any):
        super().__init__(typing, target, library or _LaterLibrary(target.codegen(), "inner"), *rest)


class _LaterFlushingCompiler(Compiler):
    """Both that and the promise that denormals are flushed."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any):
        super().__init__(typing, target, library or _LaterFlushingLibrary(target.codegen(), "inner"), *rest)


class _ApartCompiler(_InnerCompiler):
    """The same, of functions whose arrays do not overlap."""

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, locals_: Any):
        flags.noalias = True
        super().__init__(typing, target, library, args, result, flags, locals_)


class _FlushingCompiler(_InnerCompiler):
    """The same, of functions that run where denormals are flushed."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any):
        super().__init__(typing, target, library or _FlushingLibrary(target.codegen(), "inner"), *rest)


class _FlushingApartCompiler(_ApartCompiler, _FlushingCompiler):
    """Both."""


_PIPELINES = {
    (False, False): _InnerCompiler,
    (True, False): _ApartCompiler,
    (False, True): _FlushingCompiler,
    (True, True): _FlushingApartCompiler,
}
_LATER = {False: _LaterCompiler, True: _LaterFlushingCompiler}


class _LinkedLibrary(JITCodeLibrary):
    """A module that is optimized, to be linked into others, and not given to the engine."""

    @property
    def codegen(self) -> Any:
        """The code generator for the compiler of the function."""
        return _WithoutEnvironments(self._codegen)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Raise: the function has no address, like a name that is not defined."""
        self._ensure_finalized()
        return 0


class _LaterLibrary(_LinkedLibrary):
    """A module that is linked into others as it is."""

    def _optimize_final_module(self) -> None:
        """Do nothing: the modules that link it in optimize it."""


class _FlushingLibrary(_LinkedLibrary):
    """The same, for functions that tell LLVM that denormals are flushed."""

    def add_ir_module(self, ir_module: Any) -> None:
        """Add Numba's code with this attribute, which Numba cannot set."""
        text = cgutils.normalize_ir_text(str(ir_module))
        module = llvm.parse_assembly(re.sub(r"^(define .*)$", rf"\1 {_FLUSHES}", text, flags=re.M))
        module.name = ir_module.name
        module.verify()
        self.add_llvm_module(module)


class _LaterFlushingLibrary(_LaterLibrary, _FlushingLibrary):
    """Both."""


class _WithoutEnvironments:
    """A code generator that does not set environments, because there is no machine code yet."""

    def __init__(self, codegen: Any):
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: the code that links the function in sets it."""
