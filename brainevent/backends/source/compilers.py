# SPDX-License-Identifier: Apache-2.0
"""Compilers of source text behind one interface: text in, the path of a shared library out."""

from __future__ import annotations

import dataclasses
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from ..._compat import jaxlib_version
from ..._version import __version__
from ...ffi.devices import cuda_capabilities
from ...toolchain import cache
from ...toolchain.architectures import gpu_architectures
from ...toolchain.build import Build
from ...toolchain.find import find_cuda_toolkit, find_host_compiler
from .texts import flags, folders, inline_sources

__all__ = ["CPPBackend", "CUDABackend", "CompilerBackend", "HIPBackend"]

PathLike = str | os.PathLike[str]


class CompilerBackend(ABC):
    """A compiler: the base class, whose subclasses have a `platform_name` and compile text to a shared library.

    `load_cpp_inline` and `load_cuda_inline` do more: they cache libraries, and return JAX functions.

    Examples:
        >>> import brainevent
        >>> isinstance(brainevent.CPPBackend(), brainevent.CompilerBackend)
        True
    """

    platform_name: str

    @abstractmethod
    def compile_source(
        self,
        source: str,
        output_path: PathLike,
        build_dir: PathLike,
        *,
        extra_cflags: Sequence[str] | None = None,
        extra_ldflags: Sequence[str] | None = None,
        extra_include_paths: Sequence[str] | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> str:
        """Compile a text to a shared library.

        Args:
            source: The text.
            output_path: The path of the library.
            build_dir: The folder to compile in.
            extra_cflags: Options of the compiler.
            extra_ldflags: Options of the linker.
            extra_include_paths: Folders with headers.
            verbose: Whether to print the compiler's command and output.
            **options: Options of a subclass.

        Returns:
            The path of the library.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(platform={self.platform_name!r})"


class CPPBackend(CompilerBackend):
    """The C++ compiler of this machine, which is searched for when it is needed.

    Args:
        toolchain: Ignored.

    Examples:
        >>> import pathlib, tempfile, brainevent
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> text = 'extern "C" int seven() { return 7; }'
        >>> path = brainevent.CPPBackend().compile_source(text, folder / "seven.so", folder)
        >>> import ctypes
        >>> ctypes.CDLL(path).seven()
        7
    """

    platform_name = "cpu"

    def __init__(self, toolchain: Any = None) -> None:
        self.toolchain = toolchain

    def compile_source(
        self,
        source: str,
        output_path: PathLike,
        build_dir: PathLike,
        *,
        extra_cflags: Sequence[str] | None = None,
        extra_ldflags: Sequence[str] | None = None,
        extra_include_paths: Sequence[str] | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> str:
        """Compile a text to a shared library.

        Args:
            source: The text.
            output_path: The path of the library.
            build_dir: The folder to compile in.
            extra_cflags: Options of the compiler.
            extra_ldflags: Options of the linker.
            extra_include_paths: Folders with headers.
            verbose: Whether to print the compiler's command and output.
            **options: None here. A `CUDABackend` takes `extra_cuda_cflags`, `gpu_arch`, `optimization_level` and
                `use_fast_math`.

        Returns:
            The path of the library.

        Raises:
            CompilationError: If the compiler rejects the text; its output is part of the message.
            TypeError: If an option is unknown.
        """
        where = f"{type(self).__name__}.compile_source"
        sources = inline_sources(where, "source", source, "cpp")
        build = Build(
            where=where,
            sources=sources.parts,
            functions=(),
            compiler=find_host_compiler(cache.memo_dir()),
            ffi_include_dir=jax.ffi.include_dir(),
            versions=(__version__, jaxlib_version),
            cflags=(*self._visible, *flags(where, "extra_cflags", extra_cflags)),
            ldflags=flags(where, "extra_ldflags", extra_ldflags),
            include_paths=folders(where, extra_include_paths),
            verbose=verbose,
        )
        folder = Path(build_dir).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._described(build, **options).run(folder), output_path)
        return str(output_path)

    _visible: tuple[str, ...] = ("-fvisibility=default",)  # users of this class look up symbols by name

    def _described(self, build: Build, **options: Any) -> Build:
        if options:
            raise TypeError(f"{build.where}: unknown option {next(iter(options))!r}; leave it out")
        return build


class CUDABackend(CPPBackend):
    """NVIDIA's nvcc, which is searched for when it is needed.

    Args:
        toolchain: Ignored.

    Examples:
        >>> import brainevent
        >>> brainevent.CUDABackend()
        CUDABackend(platform='cuda')
    """

    platform_name = "cuda"
    _visible = ("-Xcompiler", "-fvisibility=default")

    def _described(
        self,
        build: Build,
        *,
        extra_cuda_cflags: Sequence[str] | None = None,
        gpu_arch: Any = None,
        optimization_level: int = 3,
        use_fast_math: bool = False,
        **options: Any,
    ) -> Build:
        return dataclasses.replace(
            super()._described(build, **options),
            cflags=(*build.cflags, *flags(build.where, "extra_cuda_cflags", extra_cuda_cflags)),
            toolkit=find_cuda_toolkit(cache.memo_dir()),
            architectures=gpu_architectures(gpu_arch, cuda_capabilities),
            optimization_level=int(optimization_level),
            use_fast_math=bool(use_fast_math),
        )


class HIPBackend(CompilerBackend):
    """A placeholder without a compiler: kernels for AMD's GPUs are not supported.

    Examples:
        >>> import brainevent
        >>> brainevent.HIPBackend().compile_source("", "a.so", ".")
        Traceback (most recent call last):
            ...
        NotImplementedError: HIPBackend: there is no compiler for HIP here; use CUDABackend, or CPPBackend
    """

    platform_name = "hip"

    def compile_source(self, source: str, output_path: PathLike, build_dir: PathLike, **options: Any) -> str:  # type: ignore[override]
        """Raise an error: HIP is not supported.

        Args:
            source: Ignored.
            output_path: Ignored.
            build_dir: Ignored.
            **options: Ignored.

        Returns:
            Nothing.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("HIPBackend: there is no compiler for HIP here; use CUDABackend, or CPPBackend")
