# SPDX-License-Identifier: Apache-2.0
"""Modules of compiled functions with all that they call, apart from other code in the process."""

from __future__ import annotations

import weakref
from typing import Any

import llvmlite.binding as llvm
from numba.core.lowering import Environment

__all__ = ["ENVIRONMENT", "environments", "linked", "make_private"]

ENVIRONMENT = "_ZN08NumbaEnv"  # begins the name of a pointer that Numba keeps for a function; its loader fills it in
_environments: weakref.WeakKeyDictionary[llvm.ModuleRef, dict[str, Environment]] = weakref.WeakKeyDictionary()


def linked(library: Any) -> llvm.ModuleRef:
    """Return a kernel's module, as Numba has compiled it so far, with all that it calls."""
    if library._finalized:
        return library._get_module_for_linking().clone()
    module = library._final_module
    for helper in dict.fromkeys(library._linking_libraries):
        module.link_in(helper._get_module_for_linking(), preserve=True)
    return module


def make_private(module: llvm.ModuleRef, name: str) -> None:
    """Keep all but the handler within its module: other code in this process may have the same names."""
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
            function.name = f"{name}_{function.name}"  # LLVM may change how it is called, and share it
    known = {}
    for variable in module.global_variables:
        if variable.name.startswith(ENVIRONMENT):
            environment = Environment._memo.get(variable.name)
            variable.name = f"{name}_{variable.name}"
            if environment is not None:
                known[variable.name] = environment
    _environments[module] = known


def environments(module: llvm.ModuleRef) -> dict[str, Environment]:
    """Return what holds the Python objects that a private module uses, by the names of pointers to it.

    Numba keeps it as long as the compiled function; the module may outlive that.
    """
    return _environments[module]
