# SPDX-License-Identifier: Apache-2.0
"""Operators for JAX with kernels in any language, and event-driven operators for spiking neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import config, errors
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
    ShapeError,
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
from .operator.registry import load_when_asked as _load_when_asked
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
    from .event.arrays import BinaryArray, EventRepresentation
    from .event.bitpack import BitPackedBinary, bitpack
    from .event.compact import CompactBinary
    from .event.coo.functions import binary_coomm, binary_coomv, coomm, coomv
    from .event.coo.operators import binary_coomm_p, binary_coomv_p, coomm_p, coomv_p
    from .event.csr.conversions import coo2csr, coo_to_csc_index, csc_to_csr_index, csr_to_coo_index, csr_to_csc_index
    from .event.csr.functions import (
        binary_csrmm,
        binary_csrmm_indexed,
        binary_csrmv,
        binary_csrmv_indexed,
        cscmv_dt2t,
        csr_slice_rows,
        csrmm,
        csrmm_indexed,
        csrmv,
        csrmv_dt2t,
        csrmv_indexed,
    )
    from .event.csr.operators import (
        binary_csrmm_indexed_p,
        binary_csrmm_p,
        binary_csrmv_indexed_p,
        binary_csrmv_p,
        csrmm_indexed_p,
        csrmm_p,
        csrmv_indexed_p,
        csrmv_p,
    )
    from .event.csr.slices import csr_slice_rows_p
    from .event.dense.functions import binary_densemm, binary_densemv
    from .event.dense.operators import binary_densemm_p, binary_densemv_p
    from .event.fixed.functions import binary_fcnmm, binary_fcnmv, fcnmm, fcnmv
    from .event.fixed.operators import binary_fcnmm_p, binary_fcnmv_p, fcnmm_p, fcnmv_p
    from .event.matrices.base import DataRepresentation
    from .event.matrices.coo import COO
    from .event.matrices.csr import CSC, CSR
    from .event.matrices.dense import Dense
    from .event.matrices.fixed import FixedNumPerPost, FixedNumPerPre
    from .event.plasticity.functions import (
        update_csc_on_binary_post,
        update_csc_on_binary_pre,
        update_csr_on_binary_post,
        update_csr_on_binary_pre,
        update_dense_on_binary_post,
        update_dense_on_binary_pre,
        update_fixed_post_conn_on_binary_pre,
        update_fixed_pre_conn_on_binary_post,
    )
    from .event.plasticity.operators import (
        fcn_plasticity_row_p,
        update_csr_on_binary_post_p,
        update_csr_on_binary_pre_p,
        update_dense_on_binary_post_p,
        update_dense_on_binary_pre_p,
    )
    from .operator.check import CheckReport, check
    from .operator.check.report import CheckRow
    from .spikes.record import record
    from .spikes.trains import Spikes
    from .toolchain.cache import clear_cache, get_cache_dir, set_cache_dir
    from .toolchain.signature import normalize_tokens

__version_info__ = tuple(int(part) for part in __version__.split("."))

# Loaded when first used, so that `import brainevent` stays light.
_LAZY = {
    "BenchmarkConfig": "brainevent.bench.record",
    "BenchmarkRecord": "brainevent.bench.record",
    "BenchmarkResult": "brainevent.bench.result",
    "BinaryArray": "brainevent.event.arrays",
    "BitPackedBinary": "brainevent.event.bitpack",
    "COO": "brainevent.event.matrices.coo",
    "CSC": "brainevent.event.matrices.csr",
    "CSR": "brainevent.event.matrices.csr",
    "CheckReport": "brainevent.operator.check",
    "CheckRow": "brainevent.operator.check.report",
    "CompactBinary": "brainevent.event.compact",
    "CompiledModule": "brainevent.backends.source.module",
    "DataRepresentation": "brainevent.event.matrices.base",
    "Dense": "brainevent.event.matrices.dense",
    "EventRepresentation": "brainevent.event.arrays",
    "FixedNumPerPost": "brainevent.event.matrices.fixed",
    "FixedNumPerPre": "brainevent.event.matrices.fixed",
    "Spikes": "brainevent.spikes.trains",
    "TuneResult": "brainevent.bench.tune",
    "TunedChoice": "brainevent.bench.choices",
    "benchmark_function": "brainevent.bench.measure",
    "binary_coomm": "brainevent.event.coo.functions",
    "binary_coomm_p": "brainevent.event.coo.operators",
    "binary_coomv": "brainevent.event.coo.functions",
    "binary_coomv_p": "brainevent.event.coo.operators",
    "binary_csrmm": "brainevent.event.csr.functions",
    "binary_csrmm_indexed": "brainevent.event.csr.functions",
    "binary_csrmm_indexed_p": "brainevent.event.csr.operators",
    "binary_csrmm_p": "brainevent.event.csr.operators",
    "binary_csrmv": "brainevent.event.csr.functions",
    "binary_csrmv_indexed": "brainevent.event.csr.functions",
    "binary_csrmv_indexed_p": "brainevent.event.csr.operators",
    "binary_csrmv_p": "brainevent.event.csr.operators",
    "binary_densemm": "brainevent.event.dense.functions",
    "binary_densemm_p": "brainevent.event.dense.operators",
    "binary_densemv": "brainevent.event.dense.functions",
    "binary_densemv_p": "brainevent.event.dense.operators",
    "binary_fcnmm": "brainevent.event.fixed.functions",
    "binary_fcnmm_p": "brainevent.event.fixed.operators",
    "binary_fcnmv": "brainevent.event.fixed.functions",
    "binary_fcnmv_p": "brainevent.event.fixed.operators",
    "bitpack": "brainevent.event.bitpack",
    "check": "brainevent.operator.check",
    "clear_cache": "brainevent.toolchain.cache",
    "clear_tuned": "brainevent.bench.choices",
    "coo2csr": "brainevent.event.csr.conversions",
    "coo_to_csc_index": "brainevent.event.csr.conversions",
    "coomm": "brainevent.event.coo.functions",
    "coomm_p": "brainevent.event.coo.operators",
    "coomv": "brainevent.event.coo.functions",
    "coomv_p": "brainevent.event.coo.operators",
    "csc_to_csr_index": "brainevent.event.csr.conversions",
    "cscmv_dt2t": "brainevent.event.csr.functions",
    "csr_slice_rows": "brainevent.event.csr.functions",
    "csr_slice_rows_p": "brainevent.event.csr.slices",
    "csr_to_coo_index": "brainevent.event.csr.conversions",
    "csr_to_csc_index": "brainevent.event.csr.conversions",
    "csrmm": "brainevent.event.csr.functions",
    "csrmm_indexed": "brainevent.event.csr.functions",
    "csrmm_indexed_p": "brainevent.event.csr.operators",
    "csrmm_p": "brainevent.event.csr.operators",
    "csrmv": "brainevent.event.csr.functions",
    "csrmv_dt2t": "brainevent.event.csr.functions",
    "csrmv_indexed": "brainevent.event.csr.functions",
    "csrmv_indexed_p": "brainevent.event.csr.operators",
    "csrmv_p": "brainevent.event.csr.operators",
    "cuda_kernel": "brainevent.backends.nvrtc",
    "export_tuned": "brainevent.bench.choices",
    "fcn_plasticity_row_p": "brainevent.event.plasticity.operators",
    "fcnmm": "brainevent.event.fixed.functions",
    "fcnmm_p": "brainevent.event.fixed.operators",
    "fcnmv": "brainevent.event.fixed.functions",
    "fcnmv_p": "brainevent.event.fixed.operators",
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
    "record": "brainevent.spikes.record",
    "set_cache_dir": "brainevent.toolchain.cache",
    "tuned_choices": "brainevent.bench.choices",
    "update_csc_on_binary_post": "brainevent.event.plasticity.functions",
    "update_csc_on_binary_pre": "brainevent.event.plasticity.functions",
    "update_csr_on_binary_post": "brainevent.event.plasticity.functions",
    "update_csr_on_binary_post_p": "brainevent.event.plasticity.operators",
    "update_csr_on_binary_pre": "brainevent.event.plasticity.functions",
    "update_csr_on_binary_pre_p": "brainevent.event.plasticity.operators",
    "update_dense_on_binary_post": "brainevent.event.plasticity.functions",
    "update_dense_on_binary_post_p": "brainevent.event.plasticity.operators",
    "update_dense_on_binary_pre": "brainevent.event.plasticity.functions",
    "update_dense_on_binary_pre_p": "brainevent.event.plasticity.operators",
    "update_fixed_post_conn_on_binary_pre": "brainevent.event.plasticity.functions",
    "update_fixed_pre_conn_on_binary_post": "brainevent.event.plasticity.functions",
    "warp_kernel": "brainevent.backends.warp",
}

__all__ = [
    "COO",
    "CSC",
    "CSR",
    "BenchmarkConfig",
    "BenchmarkDataFnNotProvidedError",
    "BenchmarkRecord",
    "BenchmarkResult",
    "BinaryArray",
    "BitPackedBinary",
    "BrainEventError",
    "CUDANotInstalledError",
    "CheckFailedError",
    "CheckReport",
    "CheckRow",
    "CompactBinary",
    "CompilationError",
    "CompiledModule",
    "DataRepresentation",
    "Dense",
    "EventRepresentation",
    "FixedNumPerPost",
    "FixedNumPerPre",
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
    "ShapeError",
    "Spikes",
    "TuneResult",
    "TunedChoice",
    "UnknownPlatformError",
    "UnsupportedArchError",
    "UnsupportedOperationError",
    "XLACustomKernel",
    "benchmark_function",
    "binary_coomm",
    "binary_coomm_p",
    "binary_coomv",
    "binary_coomv_p",
    "binary_csrmm",
    "binary_csrmm_indexed",
    "binary_csrmm_indexed_p",
    "binary_csrmm_p",
    "binary_csrmv",
    "binary_csrmv_indexed",
    "binary_csrmv_indexed_p",
    "binary_csrmv_p",
    "binary_densemm",
    "binary_densemm_p",
    "binary_densemv",
    "binary_densemv_p",
    "binary_fcnmm",
    "binary_fcnmm_p",
    "binary_fcnmv",
    "binary_fcnmv_p",
    "bitpack",
    "check",
    "clear_cache",
    "clear_tuned",
    "config",
    "coo2csr",
    "coo_to_csc_index",
    "coomm",
    "coomm_p",
    "coomv",
    "coomv_p",
    "csc_to_csr_index",
    "cscmv_dt2t",
    "csr_slice_rows",
    "csr_slice_rows_p",
    "csr_to_coo_index",
    "csr_to_csc_index",
    "csrmm",
    "csrmm_indexed",
    "csrmm_indexed_p",
    "csrmm_p",
    "csrmv",
    "csrmv_dt2t",
    "csrmv_indexed",
    "csrmv_indexed_p",
    "csrmv_p",
    "cuda_kernel",
    "defjvp",
    "errors",
    "export_checks",
    "export_tuned",
    "fcn_plasticity_row_p",
    "fcnmm",
    "fcnmm_p",
    "fcnmv",
    "fcnmv_p",
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
    "record",
    "register_ffi_target",
    "set_backend",
    "set_cache_dir",
    "tuned_choices",
    "update_csc_on_binary_post",
    "update_csc_on_binary_pre",
    "update_csr_on_binary_post",
    "update_csr_on_binary_post_p",
    "update_csr_on_binary_pre",
    "update_csr_on_binary_pre_p",
    "update_dense_on_binary_post",
    "update_dense_on_binary_post_p",
    "update_dense_on_binary_pre",
    "update_dense_on_binary_pre_p",
    "update_fixed_post_conn_on_binary_pre",
    "update_fixed_pre_conn_on_binary_post",
    "use_backend",
    "warp_kernel",
]


_load_when_asked("brainevent.event.library")
_portable.install(
    {
        "numba": "brainevent.backends.numba.portable",
        "plan": "brainevent.ffi.launch",
        "source": "brainevent.backends.source.portable",
    }
)


# Names of earlier releases, which existing programs use.
_RENAMED = {
    "EventArray": "BinaryArray",
    "FixedPostNumConn": "FixedNumPerPre",
    "FixedPreNumConn": "FixedNumPerPost",
    "csr2csc_on_post": "update_csr_on_binary_post",
    "csr_on_pre": "update_csr_on_binary_pre",
    "dense_on_post": "update_dense_on_binary_post",
    "dense_on_pre": "update_dense_on_binary_pre",
}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        import warnings

        message = f"brainevent.{name} is now called brainevent.{_RENAMED[name]}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return __getattr__(_RENAMED[name])
    if name in _LAZY:
        import importlib

        value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
        return value
    raise AttributeError(f"module 'brainevent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
