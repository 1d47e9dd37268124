# SPDX-License-Identifier: Apache-2.0
"""NVIDIA CuTe DSL: host functions and their kernels, compiled ahead to libraries of TVM FFI."""

from __future__ import annotations

from ...languages import Language, no_device, no_driver, no_package, no_tool, where_compiled

__all__ = ["INSTALL", "LANGUAGES"]

INSTALL = "pip install 'nvidia-cutlass-dsl[cu13]' apache-tvm-ffi"


def _why_missing() -> str | None:
    from ...toolchain.find import find_host_compiler

    return (
        no_package("cutlass.cute", INSTALL, "nvidia-cutlass-dsl")
        or no_package("tvm_ffi", INSTALL, "apache-tvm-ffi")
        or no_tool(find_host_compiler)
        or no_device("gpu")
        or no_driver("the machine code of CuTe DSL", (12, 9))
    )


LANGUAGES = (
    Language(
        "cute",
        "CuTe DSL",
        platforms=("gpu",),
        needs="`nvidia-cutlass-dsl`, `apache-tvm-ffi`, a C++ compiler",
        packages=("nvidia-cutlass-dsl", "apache-tvm-ffi"),
        extra=True,
        libraries=("cutlass",),
        why_missing=where_compiled("CuTe DSL", _why_missing),
        wrappers={"cute_kernel": f"{__name__}.kernel"},
        returns="what `cute_kernel` returns",
        on_laptop="compiles",
    ),
)
