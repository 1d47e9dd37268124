# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ on the GPU: source text in, functions of JAX arrays out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...ffi.devices import cuda_capabilities
from ...toolchain import cache
from ...toolchain.architectures import gpu_architectures
from ...toolchain.find import find_cuda_toolkit
from .described import described
from .module import CompiledModule, load
from .texts import Functions, directory_sources, file_sources, inline_sources, module_name

__all__ = ["load_cuda_dir", "load_cuda_file", "load_cuda_inline"]


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
    """Compile CUDA C++ text with nvcc and load it; what was compiled before comes from the cache.

    `functions` says which host functions are entry points: None for those with a `// @BE` comment, a list of names, or
    a dict of names and their tokens. Each becomes a function of the module, and the target "name.function" of
    `jax.ffi.ffi_call`. Without `compute_capability`, this machine's GPUs decide what is compiled.

    `allow_cuda_graph=False` keeps XLA from recording the calls in a CUDA graph, for entry points that do more than
    launch kernels: that allocate, wait, or read results on the host.
    """
    sources = inline_sources("load_cuda_inline", name, cuda_sources, "cu")
    where = sources.where
    cache.check_name(name, where)
    if optimization_level not in (0, 1, 2, 3):
        raise ValueError(f"{where}: optimization_level is {optimization_level!r}; pass 0, 1, 2 or 3")
    build = described(
        sources,
        functions,
        cflags={"extra_cuda_cflags": extra_cuda_cflags},
        ldflags=extra_ldflags,
        include_paths=extra_include_paths,
        verbose=verbose,
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


def load_cuda_file(
    filepath: str | os.PathLike[str], functions: Functions = None, *, name: str | None = None, **kwargs: Any
) -> CompiledModule:
    """Compile a .cu file and load it, with the options of `load_cuda_inline`; `name` defaults to the file's stem.

    Includes in quotes are looked up beside the file first.
    """
    sources: Any = file_sources("load_cuda_file", filepath)
    return load_cuda_inline(name or module_name(sources, Path(filepath).stem), sources, functions, **kwargs)


def load_cuda_dir(
    directory: str | os.PathLike[str],
    functions: Functions = None,
    *,
    name: str | None = None,
    file_patterns: Sequence[str] | None = None,
    **kwargs: Any,
) -> CompiledModule:
    """Compile the .cu files of a folder as one text and load it; `name` defaults to the folder's.

    `file_patterns` are those of `pathlib.Path.glob`, by default `["*.cu"]`; within each, files are sorted.
    """
    sources: Any = directory_sources("load_cuda_dir", directory, file_patterns or ["*.cu"])
    return load_cuda_inline(name or module_name(sources, Path(directory).resolve().name), sources, functions, **kwargs)
