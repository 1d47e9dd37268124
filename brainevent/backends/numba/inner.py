# SPDX-License-Identifier: Apache-2.0
"""Numba functions that other compiled code alone calls: no way in from Python, and no code of their own."""

from __future__ import annotations

from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

__all__ = ["inner"]


def inner(function: Any = None, *, apart: bool = False, **options: Any) -> Any:
    """Compile a function that other compiled code alone calls, as `numba.njit` does, as far as that needs it.

    That takes about half of the time. To call it from Python ends the process. `apart` promises that no two arrays
    that it is given overlap: loops over many arrays are then computed for several elements at once.
    """
    pipeline = _ApartCompiler if apart else _InnerCompiler
    compile_ = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=pipeline, **options)
    return compile_ if function is None else compile_(function)


class _InnerCompiler(Compiler):
    """Numba's compiler, which leaves the processor's code to whoever links the function in."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any):
        super().__init__(typing, target, library or _LinkedLibrary(target.codegen(), "inner"), *rest)


class _ApartCompiler(_InnerCompiler):
    """The same, of functions whose arrays do not overlap."""

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, locals_: Any):
        flags.noalias = True
        super().__init__(typing, target, library, args, result, flags, locals_)


class _LinkedLibrary(JITCodeLibrary):
    """A module that is optimized, to be linked into others, and not given to the engine."""

    @property
    def codegen(self) -> Any:
        """The code generator, as the one who compiles the function asks for it."""
        return _WithoutEnvironments(self._codegen)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Say that the function has no address, as where a name is not defined."""
        self._ensure_finalized()
        return 0


class _WithoutEnvironments:
    """A code generator that sets nothing in code which is not there."""

    def __init__(self, codegen: Any):
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Leave it: whoever links the function in sets it there."""
