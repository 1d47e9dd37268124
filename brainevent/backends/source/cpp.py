# SPDX-License-Identifier: Apache-2.0
"""C++ on the CPU: source text in, functions of JAX arrays out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...toolchain import cache
from .described import described
from .module import CompiledModule, load
from .texts import Functions, file_sources, inline_sources, module_name

__all__ = ["load_cpp_file", "load_cpp_inline"]


def load_cpp_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    functions: Functions = None,
    *,
    extra_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    force_rebuild: bool = False,
    replace: bool = False,
    auto_register: bool = True,
    target_prefix: str | None = None,
) -> CompiledModule:
    """Compile C++ text for the CPU and load it; what was compiled before comes from the cache.

    `functions` says which functions are entry points: None for those with a `// @BE` comment, a list of names, or a
    dict of names and their tokens. Each becomes a function of the module, and the target "name.function" of
    `jax.ffi.ffi_call`.

    >>> import jax.numpy as jnp, brainevent
    >>> mod = brainevent.load_cpp_inline(
    ...     "doc_double",
    ...     '''
    ... #include "brainevent/common.h"
    ... // @BE twice arg ret
    ... void twice(const BE::Tensor x, BE::Tensor out) {
    ...   for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
    ... }
    ... ''',
    ... )
    >>> x = jnp.arange(3.0)
    >>> mod.twice(x, outs=x)
    Array([0., 2., 4.], dtype=float32)
    """
    sources = inline_sources("load_cpp_inline", name, cpp_sources, "cpp")
    cache.check_name(name, sources.where)
    build = described(
        sources,
        functions,
        cflags={"extra_cflags": extra_cflags},
        ldflags=extra_ldflags,
        include_paths=extra_include_paths,
        verbose=verbose,
    )
    return load(
        build,
        name,
        platform="cpu",
        directory=build_directory,
        force=force_rebuild,
        auto_register=auto_register,
        target_prefix=target_prefix,
        replace=replace,
    )


def load_cpp_file(
    filepath: str | os.PathLike[str], functions: Functions = None, *, name: str | None = None, **kwargs: Any
) -> CompiledModule:
    """Compile a C++ file and load it, with the options of `load_cpp_inline`; `name` defaults to the file's stem.

    Includes in quotes are looked up beside the file first.
    """
    sources: Any = file_sources("load_cpp_file", filepath)
    return load_cpp_inline(name or module_name(sources, Path(filepath).stem), sources, functions, **kwargs)
