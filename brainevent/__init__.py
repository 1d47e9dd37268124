# SPDX-License-Identifier: Apache-2.0
"""Operators for JAX with kernels in any language, and event-driven operators for spiking neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import config
from ._version import __version__
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
from .ffi.targets import export_checks, list_registered_targets, register_ffi_target
from .operator.batch import general_batching_rule
from .operator.custom_kernel import XLACustomKernel
from .operator.lowering import KernelEntry
from .operator.registry import get_all_primitive_names, get_primitives_by_tags, get_registry
from .operator.rules import defjvp

if TYPE_CHECKING:
    from .backends.numba import half, numba_kernel
    from .backends.numba_cuda import numba_cuda_callable, numba_cuda_kernel
    from .backends.nvrtc import cuda_kernel
    from .backends.source.cpp import load_cpp_file, load_cpp_inline
    from .backends.source.cuda import load_cuda_dir, load_cuda_file, load_cuda_inline
    from .backends.source.module import CompiledModule
    from .backends.warp import jaxinfo_to_warpinfo, jaxtype_to_warptype, warp_kernel
    from .bench.choices import TunedChoice, clear_tuned, export_tuned, import_tuned, tuned_choices
    from .bench.measure import benchmark_function
    from .bench.record import BenchmarkConfig, BenchmarkRecord
    from .bench.result import BenchmarkResult
    from .bench.tune import TuneResult
    from .doctor import print_diagnostics
    from .operator.check import CheckReport, check
    from .operator.check.report import CheckRow
    from .toolchain.cache import clear_cache, get_cache_dir, set_cache_dir
    from .toolchain.signature import normalize_tokens

__version_info__ = tuple(int(part) for part in __version__.split("."))

# Loaded when first used, so that `import brainevent` stays light.
_LAZY = {
    "BenchmarkConfig": "brainevent.bench.record",
    "BenchmarkRecord": "brainevent.bench.record",
    "BenchmarkResult": "brainevent.bench.result",
    "CheckReport": "brainevent.operator.check",
    "CheckRow": "brainevent.operator.check.report",
    "CompiledModule": "brainevent.backends.source.module",
    "TuneResult": "brainevent.bench.tune",
    "TunedChoice": "brainevent.bench.choices",
    "benchmark_function": "brainevent.bench.measure",
    "check": "brainevent.operator.check",
    "clear_cache": "brainevent.toolchain.cache",
    "clear_tuned": "brainevent.bench.choices",
    "cuda_kernel": "brainevent.backends.nvrtc",
    "export_tuned": "brainevent.bench.choices",
    "get_cache_dir": "brainevent.toolchain.cache",
    "half": "brainevent.backends.numba",
    "import_tuned": "brainevent.bench.choices",
    "jaxinfo_to_warpinfo": "brainevent.backends.warp",
    "jaxtype_to_warptype": "brainevent.backends.warp",
    "load_cpp_file": "brainevent.backends.source.cpp",
    "load_cpp_inline": "brainevent.backends.source.cpp",
    "load_cuda_dir": "brainevent.backends.source.cuda",
    "load_cuda_file": "brainevent.backends.source.cuda",
    "load_cuda_inline": "brainevent.backends.source.cuda",
    "normalize_tokens": "brainevent.toolchain.signature",
    "numba_cuda_callable": "brainevent.backends.numba_cuda",
    "numba_cuda_kernel": "brainevent.backends.numba_cuda",
    "numba_kernel": "brainevent.backends.numba",
    "print_diagnostics": "brainevent.doctor",
    "set_cache_dir": "brainevent.toolchain.cache",
    "tuned_choices": "brainevent.bench.choices",
    "warp_kernel": "brainevent.backends.warp",
}

__all__ = [
    "BenchmarkConfig",
    "BenchmarkDataFnNotProvidedError",
    "BenchmarkRecord",
    "BenchmarkResult",
    "BrainEventError",
    "CUDANotInstalledError",
    "CheckFailedError",
    "CheckReport",
    "CheckRow",
    "CompilationError",
    "CompiledModule",
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
    "TuneResult",
    "TunedChoice",
    "UnknownPlatformError",
    "UnsupportedArchError",
    "UnsupportedOperationError",
    "XLACustomKernel",
    "benchmark_function",
    "check",
    "clear_cache",
    "clear_tuned",
    "config",
    "cuda_kernel",
    "defjvp",
    "export_checks",
    "export_tuned",
    "general_batching_rule",
    "get_all_primitive_names",
    "get_cache_dir",
    "get_primitives_by_tags",
    "get_registry",
    "half",
    "import_tuned",
    "jaxinfo_to_warpinfo",
    "jaxtype_to_warptype",
    "list_registered_targets",
    "load_cpp_file",
    "load_cpp_inline",
    "load_cuda_dir",
    "load_cuda_file",
    "load_cuda_inline",
    "normalize_tokens",
    "numba_cuda_callable",
    "numba_cuda_kernel",
    "numba_kernel",
    "print_diagnostics",
    "register_ffi_target",
    "set_backend",
    "set_cache_dir",
    "tuned_choices",
    "use_backend",
    "warp_kernel",
]


_portable.install(
    {
        "numba": "brainevent.backends.numba.portable",
        "plan": "brainevent.ffi.launch",
        "source": "brainevent.backends.source.portable",
    }
)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
        return value
    raise AttributeError(f"module 'brainevent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
