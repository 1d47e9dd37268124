# SPDX-License-Identifier: Apache-2.0
"""Operators for JAX with kernels in any language, and event-driven operators for spiking neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import config
from .config import set_backend, use_backend
from .errors import (
    BenchmarkDataFnNotProvidedError,
    BrainEventError,
    CheckFailedError,
    CompilationError,
    CUDANotInstalledError,
    GpuArchDetectionError,
    HeaderNotFoundError,
    HostCompilerIncompatibleError,
    HostCompilerNotFoundError,
    KernelArgumentError,
    KernelCompilationError,
    KernelError,
    KernelExecutionError,
    KernelFallbackExhaustedError,
    KernelLoadError,
    KernelNotAvailableError,
    KernelOutputError,
    KernelRegistrationError,
    KernelToolchainError,
    MathError,
    NoRuleError,
    NvccNotFoundError,
    RegistrationTypeError,
    RegistrationValueError,
    UnknownPlatformError,
    UnsupportedArchError,
    UnsupportedOperationError,
)
from .ffi import portable as _portable
from .ffi.targets import export_checks
from .operator.batch import general_batching_rule
from .operator.custom_kernel import XLACustomKernel
from .operator.lowering import KernelEntry
from .operator.registry import get_all_primitive_names, get_primitives_by_tags, get_registry
from .operator.rules import defjvp

if TYPE_CHECKING:
    from .backends.numba import half, numba_kernel
    from .operator.check import CheckReport, check
    from .operator.check.report import CheckRow

__version__ = "0.1.0"
__version_info__ = tuple(int(part) for part in __version__.split("."))

# Loaded when first used, so that `import brainevent` stays light.
_LAZY = {
    "CheckReport": "brainevent.operator.check",
    "CheckRow": "brainevent.operator.check.report",
    "check": "brainevent.operator.check",
    "half": "brainevent.backends.numba",
    "numba_kernel": "brainevent.backends.numba",
}

__all__ = [
    "BenchmarkDataFnNotProvidedError",
    "BrainEventError",
    "CUDANotInstalledError",
    "CheckFailedError",
    "CheckReport",
    "CheckRow",
    "CompilationError",
    "GpuArchDetectionError",
    "HeaderNotFoundError",
    "HostCompilerIncompatibleError",
    "HostCompilerNotFoundError",
    "KernelArgumentError",
    "KernelCompilationError",
    "KernelEntry",
    "KernelError",
    "KernelExecutionError",
    "KernelFallbackExhaustedError",
    "KernelLoadError",
    "KernelNotAvailableError",
    "KernelOutputError",
    "KernelRegistrationError",
    "KernelToolchainError",
    "MathError",
    "NoRuleError",
    "NvccNotFoundError",
    "RegistrationTypeError",
    "RegistrationValueError",
    "UnknownPlatformError",
    "UnsupportedArchError",
    "UnsupportedOperationError",
    "XLACustomKernel",
    "check",
    "config",
    "defjvp",
    "export_checks",
    "general_batching_rule",
    "get_all_primitive_names",
    "get_primitives_by_tags",
    "get_registry",
    "half",
    "numba_kernel",
    "set_backend",
    "use_backend",
]


_portable.install({"numba": "brainevent.backends.numba.portable"})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
        return value
    raise AttributeError(f"module 'brainevent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
