# SPDX-License-Identifier: Apache-2.0
"""Functions with the calling convention of TVM FFI, which several compilers produce, for CPUs and GPUs."""

from __future__ import annotations

from typing import Any

from ...errors import RegistrationValueError
from ...languages import Generator, Language, Variants, no_package, where_compiled

__all__ = ["LANGUAGES"]


def _why_missing() -> str | None:
    return no_package("tvm_ffi", "pip install apache-tvm-ffi")


def def_tvm_kernel(
    self: Any, platform: str, kg: Generator, asdefault: bool = False, *, variants: Variants | None = None
) -> None:
    """Register a kernel with the calling convention of TVM FFI: a generator that returns what `tvm_kernel` returns.

    Args:
        platform: "cpu" or "gpu".

    Raises:
        RegistrationValueError: If the platform is another one.

    Examples:
        >>> import brainevent
        >>> double = brainevent.XLACustomKernel("doc_tvm")
        >>> double.def_tvm_kernel("gpu", lambda *, outs: brainevent.tvm_kernel("double.so", outs[0]))
        >>> double.available_backends("gpu")
        ['tvm']
    """
    if platform not in ("cpu", "gpu"):
        raise RegistrationValueError(f"operator {self.name!r}: a tvm kernel runs on 'cpu' or 'gpu', not {platform!r}")
    self.def_kernel("tvm", platform, kg, asdefault, variants=variants)


LANGUAGES = (
    Language(
        "tvm",
        "TVM FFI",
        platforms=("cpu", "gpu"),
        why_missing=where_compiled("TVM FFI", _why_missing),
        method=def_tvm_kernel,
        wrappers={"tvm_kernel": f"{__name__}.kernel"},
        packages=("apache-tvm-ffi",),
        extra=True,
        needs="`apache-tvm-ffi`; the library's own compiler, ahead of time",
        on_laptop="kernels for the CPU",
        loaders={"tvm": "brainevent.ffi.tvm.target"},
    ),
)
