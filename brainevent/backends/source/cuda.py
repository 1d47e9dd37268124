# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ on the GPU: source text in, functions of JAX arrays out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..._documented import documented
from ...ffi.devices import cuda_capabilities
from ...toolchain import cache
from ...toolchain.architectures import gpu_architectures
from ...toolchain.find import find_cuda_toolkit
from .module import CompiledModule, load
from .texts import (
    LIBRARY,
    LOADED,
    NOT_LOADED,
    Functions,
    described,
    directory_sources,
    file_sources,
    inline_sources,
    module_name,
)

__all__ = ["load_cuda_dir", "load_cuda_file", "load_cuda_inline"]


@documented(LOADED, NOT_LOADED, LIBRARY)
def load_cuda_inline(
    name: str,
    cuda_sources: str | Sequence[str],
    functions: Functions = None,
    *,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    compute_capability: str | float | Sequence[str | float] | None = None,
    force_rebuild: bool = False,
    replace: bool = False,
    auto_register: bool = True,
    target_prefix: str | None = None,
    optimization_level: int = 3,
    use_fast_math: bool = False,
    allow_cuda_graph: bool = True,
) -> CompiledModule:
    """Compile CUDA C++ with nvcc and load it; compiled code is cached.

    Each entry point, which is a host function, becomes a function of the module, and the target "name.function" of
    `jax.ffi.ffi_call`.

    Args:
        cuda_sources: The text, or several texts that are compiled as one.
        extra_cuda_cflags: Options of nvcc.
        compute_capability: The GPUs to compile for, such as "8.6"; None for those here.
        optimization_level: From 0 to 3.
        use_fast_math: Whether nvcc may replace exact mathematics by faster functions.
        allow_cuda_graph: Whether XLA may record calls in a CUDA graph. Pass False for entry points that do more than
            launch kernels: that allocate, wait, or read results on the host.

    Raises:
        ValueError: If there is no such optimization level.
        CompilationError: If nvcc rejects the text.
        NvccNotFoundError: If there is no nvcc.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> source = '''
        ... #include "brainevent/common.h"
        ... __global__ void twice_kernel(const float* x, float* out, int n) {
        ...   int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...   if (i < n) out[i] = 2 * x[i];
        ... }
        ... // @BE twice arg ret stream
        ... void twice(const BE::Tensor x, BE::Tensor out, int64_t stream) {
        ...   int n = x.numel();
        ...   auto queue = (cudaStream_t)stream;
        ...   twice_kernel<<<(n + 255) / 256, 256, 0, queue>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
        ... }'''
        >>> x = jnp.arange(3.0)
        >>> brainevent.load_cuda_inline("doc_twice", source).twice(x, outs=x)  # doctest: +SKIP
        Array([0., 2., 4.], dtype=float32)
    """
    sources = inline_sources("load_cuda_inline", name, cuda_sources, "cu")
    where = sources.where
    cache.check_name(name, where)
    if optimization_level not in (0, 1, 2, 3):
        raise ValueError(f"{where}: optimization_level is {optimization_level!r}; pass 0, 1, 2 or 3")
    cflags = {"extra_cuda_cflags": extra_cuda_cflags}
    build = described(
        sources, functions, cflags=cflags, ldflags=extra_ldflags, include_paths=extra_include_paths, verbose=verbose
    )
    build = dataclasses.replace(
        build,
        toolkit=find_cuda_toolkit(cache.memo_dir()),
        architectures=gpu_architectures(compute_capability, cuda_capabilities),
        optimization_level=int(optimization_level),
        use_fast_math=bool(use_fast_math),
        in_graphs=bool(allow_cuda_graph),
    )
    return load(
        build,
        name,
        platform="CUDA",
        directory=build_directory,
        force=force_rebuild,
        auto_register=auto_register,
        target_prefix=target_prefix,
        replace=replace,
    )


_of_files = documented(
    {"functions": "The entry points, as for `load_cuda_inline`."},
    {"CompilationError": "If nvcc rejects the text.", "NvccNotFoundError": "If there is no nvcc."},
    LIBRARY,
)


@_of_files
def load_cuda_file(
    filepath: str | os.PathLike[str], functions: Functions = None, *, name: str | None = None, **kwargs: Any
) -> CompiledModule:
    """Compile a .cu file and load it.

    Includes in quotes are searched in the folder of the file first.

    Args:
        filepath: The path of the file.
        name: A name for the library; None for that of the file.
        **kwargs: The keywords of `load_cuda_inline`.

    Raises:
        FileNotFoundError: If there is no such file.

    Examples:
        >>> import brainevent
        >>> module = brainevent.load_cuda_file("kernels/twice.cu", use_fast_math=True)  # doctest: +SKIP
    """
    sources: Any = file_sources("load_cuda_file", filepath)
    return load_cuda_inline(name or module_name(sources, Path(filepath).stem), sources, functions, **kwargs)


@_of_files
def load_cuda_dir(
    directory: str | os.PathLike[str],
    functions: Functions = None,
    *,
    name: str | None = None,
    file_patterns: Sequence[str] | None = None,
    **kwargs: Any,
) -> CompiledModule:
    """Compile the .cu files of a folder as one text, and load it.

    Args:
        directory: The path of the folder.
        name: A name for the library; None for that of the folder.
        file_patterns: Patterns of `pathlib.Path.glob`; None for `["*.cu"]`. Files are sorted within each.
        **kwargs: The keywords of `load_cuda_inline`.

    Raises:
        FileNotFoundError: If there is no such folder, or no such file in it.

    Examples:
        >>> import brainevent
        >>> module = brainevent.load_cuda_dir("kernels", file_patterns=["*.cu"])  # doctest: +SKIP
    """
    sources: Any = directory_sources("load_cuda_dir", directory, file_patterns or ["*.cu"])
    return load_cuda_inline(name or module_name(sources, Path(directory).resolve().name), sources, functions, **kwargs)
