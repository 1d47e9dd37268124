# SPDX-License-Identifier: Apache-2.0
"""A Numba function of integers as native code without Python or XLA, cached by content."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

from ..._content import Content
from .garbage import without_full_collections
from .handler import compile_inner
from .kept import address_of
from .linking import linked, make_private
from .noting import nothing_outdated
from .registries import load_registries

__all__ = ["compile_native", "native_address"]

_PREFIX = "brainevent_native_"
_I64 = ir.IntType(64)
_addresses: dict[str, int] = {}  # by name; code lives as long as the process
_lock = threading.Lock()


def native_address(title: str, source: str, words: int, make: Callable[[], Dispatcher]) -> int:
    """Return the address of `int64 function(int64, ...)` with this number of words, compiled once and cached.

    `source` contains everything on which the code of `make` depends, which is called if the cache has none. The
    function must not raise or allocate.
    """
    digest = hashlib.sha256(f"{title} {words} {source}".encode()).hexdigest()[:32]
    name = _PREFIX + digest
    with _lock:
        if name not in _addresses:
            content = Content(digest, "", None)
            _addresses[name] = address_of(name, title, content, lambda: compile_native(make(), words, name))
        return _addresses[name]


@global_compiler_lock
@without_full_collections()
def compile_native(kernel: Dispatcher, words: int, name: str) -> llvm.ModuleRef:
    """Return an optimized module that holds a function of words under `name`, and all that it calls."""
    load_registries()
    with nothing_outdated():
        compiled = compile_inner(kernel, (types.int64,) * words)
    library = cpu_target.target_context.codegen().create_library(name)
    module = library.create_ir_module(name)
    function = ir.Function(module, ir.FunctionType(_I64, [_I64] * words), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    _, result = cpu_target.target_context.call_internal_no_propagate(
        builder, compiled.fndesc, compiled.signature, function.args
    )
    builder.ret(result)
    library.add_ir_module(module)
    library._final_module.link_in(linked(compiled.library))
    make_private(library._final_module, name)
    library._optimize_final_module()
    library._final_module.verify()
    return library._final_module
