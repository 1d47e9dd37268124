# SPDX-License-Identifier: Apache-2.0
"""C++ and CUDA C++: from a source text to functions of JAX arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import RegistrationValueError
from ...languages import Generator, Language, Variants, no_device, no_tool, where_compiled

__all__ = ["LANGUAGES"]


def _no_compiler() -> str | None:
    from ...toolchain.find import find_host_compiler

    return no_tool(find_host_compiler)


def _no_nvcc() -> str | None:
    from ...toolchain.find import find_cuda_toolkit

    return no_device("gpu") or no_tool(find_cuda_toolkit)


def def_cpp_kernel(self: Any, kg: Generator, asdefault: bool = False, *, variants: Variants | None = None) -> None:
    r"""Register a kernel in C++ for the CPU: a generator that calls a function of what `load_cpp_inline` returns.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> seven = brainevent.XLACustomKernel("doc_cpp_seven")
        >>> def generator(*, outs):
        ...     module = brainevent.load_cpp_inline(
        ...         "doc_cpp_seven",
        ...         '#include "brainevent/common.h"\n'
        ...         "// @BE seven ret\n"
        ...         "void seven(BE::Tensor out) { out.data_ptr<float>()[0] = 7; }",
        ...     )
        ...     return lambda: module.seven(outs=outs)
        >>> seven.def_cpp_kernel(generator)
        >>> seven(outs=jnp.zeros(1))
        Array([7.], dtype=float32)
    """
    self.def_kernel("cpp", "cpu", kg, asdefault, variants=variants)


def def_cuda_raw_kernel(
    self: Any,
    kg: Generator,
    asdefault: bool = False,
    *,
    platform: str = "gpu",
    variants: Variants | None = None,
    language: str = "cuda_raw",
) -> None:
    """Register a kernel in CUDA C++, from `load_cuda_inline` or `cuda_kernel`.

    Args:
        platform: "gpu", or "cpu" for host code that nvcc compiles.
        language: "nvrtc" for kernels of `cuda_kernel`, which need no nvcc.

    Raises:
        RegistrationValueError: If the platform is another one.
    """
    if platform not in ("cpu", "gpu"):
        raise RegistrationValueError(
            f"operator {self.name!r}: a cuda_raw kernel runs on 'cpu' or 'gpu', not {platform!r}"
        )
    self.def_kernel("cuda_raw", platform, kg, asdefault, variants=variants, language=language)


def _trial(name: str) -> Callable[[], Any]:
    def build() -> Any:
        from . import trials

        return getattr(trials, name)()

    return build


LANGUAGES = (
    Language(
        "cpp",
        "C++",
        platforms=("cpu",),
        why_missing=where_compiled("C++", _no_compiler),
        method=def_cpp_kernel,
        wrappers={
            "load_cpp_file": f"{__name__}.cpp",
            "load_cpp_inline": f"{__name__}.cpp",
            "CompiledModule": f"{__name__}.module",
            **dict.fromkeys(("CPPBackend", "CUDABackend", "CompilerBackend", "HIPBackend"), f"{__name__}.compilers"),
        },
        needs="a C++ compiler",
        on_laptop="yes",
        loaders={"source": f"{__name__}.portable"},
        trial=_trial("add_one_in_cpp"),
    ),
    Language(
        "cuda_raw",
        "CUDA C++",
        platforms=("gpu",),
        why_missing=where_compiled("CUDA C++", _no_nvcc),
        method=def_cuda_raw_kernel,
        wrappers=dict.fromkeys(("load_cuda_dir", "load_cuda_file", "load_cuda_inline"), f"{__name__}.cuda"),
        needs="`nvcc`, a C++ compiler",
        on_laptop="compiles",
        trial=_trial("add_one_in_cuda"),
    ),
)
