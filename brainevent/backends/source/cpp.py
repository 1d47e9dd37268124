# SPDX-License-Identifier: Apache-2.0
"""C++ on the CPU: source text in, functions of JAX arrays out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..._documented import documented
from ...toolchain import cache
from .module import CompiledModule, load
from .texts import LIBRARY, LOADED, NOT_LOADED, Functions, described, file_sources, inline_sources, module_name

__all__ = ["load_cpp_file", "load_cpp_inline"]


@documented(LOADED, NOT_LOADED, LIBRARY)
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
    """Compile C++ for the CPU and load it; compiled code is cached.

    Each entry point becomes a function of the module, and the target "name.function" of `jax.ffi.ffi_call`.

    Args:
        cpp_sources: The text, or several texts that are compiled as one.
        extra_cflags: Options of the compiler.

    Raises:
        CompilationError: If the compiler rejects the text.
        HostCompilerNotFoundError: If there is no compiler.

    Examples:
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
    r"""Compile a C++ file for the CPU and load it.

    Includes in quotes are searched in the folder of the file first.

    Args:
        filepath: The path of the file.
        functions: The entry points, as for `load_cpp_inline`.
        name: A name for the library; None for that of the file.
        **kwargs: The keywords of `load_cpp_inline`.

    Returns:
        The library, with a function for each entry point.

    Raises:
        FileNotFoundError: If there is no such file.
        CompilationError: If the compiler rejects the text.

    Examples:
        >>> import pathlib, tempfile
        >>> import jax.numpy as jnp, brainevent
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "doc_file.cpp"
        >>> text = (
        ...     '#include "brainevent/common.h"\n// @BE f ret\nvoid f(BE::Tensor out) { out.data_ptr<float>()[0] = 7; }'
        ... )
        >>> _ = file.write_text(text)
        >>> brainevent.load_cpp_file(file).f(outs=jnp.zeros(1))
        Array([7.], dtype=float32)
    """
    sources: Any = file_sources("load_cpp_file", filepath)
    return load_cpp_inline(name or module_name(sources, Path(filepath).stem), sources, functions, **kwargs)
