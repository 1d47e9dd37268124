# SPDX-License-Identifier: Apache-2.0
"""Operators for JAX with kernels in any language, and event-driven operators for spiking neural networks."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from . import config, errors
from ._names import LAZY, REMOVED, RENAMED
from ._version import __version__
from .backends import LOADERS as _LOADERS
from .backends import WRAPPERS as _WRAPPERS
from .config import set_backend, use_backend
from .errors import (
    BenchmarkDataFnNotProvidedError,
    BrainEventError,
    CheckFailedError,
    CheckpointError,
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
    NetworkError,
    NoRuleError,
    NotFiniteError,
    NvccNotFoundError,
    RegistrationTypeError,
    RegistrationValueError,
    RuleError,
    ShapeError,
    UnknownNameError,
    UnknownPlatformError,
    UnsupportedArchError,
    UnsupportedOperationError,
)
from .ffi import machine_code as _machine_code
from .ffi import portable as _portable
from .ffi.targets import export_checks, list_registered_targets, register_ffi_target
from .loops import hook as _loops
from .operator.batch import general_batching_rule
from .operator.custom_kernel import XLACustomKernel
from .operator.entry import KernelEntry
from .operator.registry import get_all_primitive_names, get_primitives_by_tags, get_registry
from .operator.registry import load_when_asked as _load_when_asked
from .operator.rules import defjvp

if TYPE_CHECKING:
    from .backends.cubin.kernel import cubin_kernel
    from .backends.cute.kernel import cute_kernel
    from .backends.cutile.kernel import cutile_kernel
    from .backends.numba import half
    from .backends.numba.kernel import numba_kernel
    from .backends.numba_cuda.kernel import numba_cuda_callable, numba_cuda_kernel
    from .backends.nvrtc.kernel import cuda_kernel
    from .backends.source.compilers import CompilerBackend, CPPBackend, CUDABackend, HIPBackend
    from .backends.source.cpp import load_cpp_file, load_cpp_inline
    from .backends.source.cuda import load_cuda_dir, load_cuda_file, load_cuda_inline
    from .backends.source.module import CompiledModule
    from .backends.tvm.kernel import tvm_kernel
    from .backends.warp.dtypes import jaxinfo_to_warpinfo, jaxtype_to_warptype
    from .backends.warp.kernel import warp_kernel
    from .bench.measure import benchmark_function
    from .bench.record import BenchmarkConfig, BenchmarkRecord
    from .bench.result import BenchmarkResult
    from .bench.tune import TuneResult
    from .bench.tuning_store import TunedChoice, clear_tuned, export_tuned, import_tuned, tuned_choices
    from .compat.hybrid import HybridConfig, get_hybrid_config, init_csr_config
    from .compat.lfsr import (
        PallasLFSR88RNG,
        PallasLFSR113RNG,
        PallasLFSR128RNG,
        PallasLFSRRNG,
        get_pallas_lfsr_rng_class,
    )
    from .doctor import print_diagnostics
    from .event.arrays import BinaryArray, WeightedArray
    from .event.bitpack import BitPackedBinary, bitpack
    from .event.compact import CompactBinary
    from .event.csr.conversions import coo2csr, coo_to_csc_index, csc_to_csr_index, csr_to_coo_index, csr_to_csc_index
    from .event.delays.functions import csr_delay_deliver, csr_delay_deliver_layout, take_arrivals
    from .event.delays.layout import CSRDelayLayout
    from .event.functions.coo import binary_coomm, binary_coomv, coomm, coomv
    from .event.functions.csr import (
        binary_csrmm,
        binary_csrmm_indexed,
        binary_csrmv,
        binary_csrmv_indexed,
        csr_slice_rows,
        csrmm,
        csrmm_indexed,
        csrmv,
        csrmv_indexed,
        sddmm,
    )
    from .event.functions.dense import binary_densemm, binary_densemv
    from .event.functions.drawn import (
        binary_jitnmm,
        binary_jitnmv,
        binary_jitsmm,
        binary_jitsmv,
        binary_jitumm,
        binary_jitumv,
        jitn,
        jitnmm,
        jitnmv,
        jitnmv_dt2t,
        jits,
        jitsmm,
        jitsmv,
        jitsmv_dt2t,
        jitu,
        jitumm,
        jitumv,
        jitumv_dt2t,
    )
    from .event.functions.fixed import binary_fcnmm, binary_fcnmv, fcnmm, fcnmv
    from .event.library import (
        binary_coomm_p,
        binary_coomv_p,
        binary_csrmm_indexed_p,
        binary_csrmm_p,
        binary_csrmv_indexed_p,
        binary_csrmv_p,
        binary_densemm_p,
        binary_densemv_p,
        binary_fcnmm_p,
        binary_fcnmv_p,
        binary_jitnmm_p,
        binary_jitnmv_p,
        binary_jitsmm_p,
        binary_jitsmv_p,
        binary_jitumm_p,
        binary_jitumv_p,
        coomm_p,
        coomv_p,
        csr_delay_deliver_layout_p,
        csr_delay_deliver_p,
        csr_slice_rows_p,
        csrmm_dt2t_p,
        csrmm_indexed_p,
        csrmm_p,
        csrmv_dt2t_p,
        csrmv_indexed_p,
        csrmv_p,
        fcn_plasticity_row_p,
        fcnmm_p,
        fcnmv_p,
        jitn_p,
        jitnmm_p,
        jitnmv_p,
        jits_p,
        jitsmm_p,
        jitsmv_p,
        jitu_p,
        jitumm_p,
        jitumv_p,
        take_arrivals_p,
        update_csr_on_binary_post_p,
        update_csr_on_binary_pre_p,
        update_dense_on_binary_post_p,
        update_dense_on_binary_pre_p,
    )
    from .event.matrices.base import DataRepresentation
    from .event.matrices.coo import COO
    from .event.matrices.csc import CSC
    from .event.matrices.csr import CSR
    from .event.matrices.dense import Dense
    from .event.matrices.drawn import JITCMatrix, JITCScalarMatrix
    from .event.matrices.drawn_kinds import (
        JITCNormalC,
        JITCNormalR,
        JITCScalarC,
        JITCScalarR,
        JITCUniformC,
        JITCUniformR,
    )
    from .event.matrices.fixed import FixedNumConn, FixedNumPerPost, FixedNumPerPre
    from .event.matrices.gradients import grad, value_and_grad
    from .event.matrices.tcsr import TCSR
    from .event.plasticity.by_rule import csr_apply_on_post, csr_apply_on_pre
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
    from .event.representation import EventRepresentation
    from .event.synapses.functions import cscmm_dt2t, cscmv_dt2t, csrmm_dt2t, csrmv_dt2t, fcnmm_dt2t, fcnmv_dt2t
    from .loops.explain import explain_loops
    from .network import models, plasticity, surrogate
    from .network.description import connect
    from .network.description.coupling import Coupling
    from .network.description.network import Network
    from .network.description.parts import Part
    from .network.description.plasticity import Plasticity, trace
    from .network.description.populations import Population, Projection
    from .network.description.values import exponential, integers, lognormal, normal, uniform
    from .network.eprop import eprop
    from .network.nir.network import NIRNetwork
    from .network.nir.reading import from_nir
    from .network.nir.writing import to_nir
    from .network.plan.quantum import RoundedWeightsWarning
    from .network.reference.simulate import simulate
    from .network.run.requests import every
    from .network.run.result import Result
    from .network.run.simulation import Simulation
    from .network.run.stepper import Stepper
    from .network.run.swept import SweepResult
    from .network.sonata.circuit import write_sonata
    from .network.sonata.network import SonataNetwork
    from .network.sonata.reading import read_sonata
    from .network.sonata.report_file import SonataReport, read_sonata_report, write_sonata_report
    from .network.sonata.writing import write_sonata_spikes
    from .operator.check import CheckReport, check
    from .operator.check.report import CheckRow
    from .spikes.labelled import LabelledSpikes
    from .spikes.plots import plot_traces, plot_weights
    from .spikes.record import record
    from .spikes.trains import Spikes
    from .toolchain.cache import clear_cache, get_cache_dir, set_cache_dir
    from .toolchain.signature import normalize_tokens

__version_info__ = tuple(int(part) for part in __version__.split("."))

# fmt: off
__all__ = [
    "COO", "CSC", "CSR", "TCSR", "BenchmarkConfig", "BenchmarkDataFnNotProvidedError", "BenchmarkRecord",
    "BenchmarkResult", "BinaryArray", "BitPackedBinary", "BrainEventError", "CPPBackend", "CSRDelayLayout",
    "CUDABackend", "CUDANotInstalledError", "CheckFailedError", "CheckReport", "CheckRow", "CheckpointError",
    "CompactBinary", "CompilationError", "CompiledModule", "CompilerBackend", "Coupling", "DataRepresentation", "Dense",
    "EventRepresentation", "FixedNumConn", "FixedNumPerPost", "FixedNumPerPre", "GpuArchDetectionError", "HIPBackend",
    "HeaderNotFoundError", "HostCompilerIncompatibleError", "HostCompilerNotFoundError", "HybridConfig", "JITCMatrix",
    "JITCNormalC", "JITCNormalR", "JITCScalarC", "JITCScalarMatrix", "JITCScalarR", "JITCUniformC", "JITCUniformR",
    "KernelArgumentError", "KernelCompilationError", "KernelEntry", "KernelError", "KernelExecutionError",
    "KernelFallbackExhaustedError", "KernelLoadError", "KernelNotAvailableError", "KernelOutputError",
    "KernelRegistrationError", "KernelToolchainError", "LabelledSpikes", "MathError", "NIRNetwork", "Network",
    "NetworkError", "NoRuleError", "NotFiniteError", "NvccNotFoundError", "PallasLFSR88RNG", "PallasLFSR113RNG",
    "PallasLFSR128RNG", "PallasLFSRRNG", "Part", "Plasticity", "Population", "Projection", "RegistrationTypeError",
    "RegistrationValueError", "Result", "RoundedWeightsWarning", "RuleError", "ShapeError", "Simulation",
    "SonataNetwork", "SonataReport", "Spikes", "Stepper", "SweepResult", "TuneResult", "TunedChoice",
    "UnknownNameError", "UnknownPlatformError", "UnsupportedArchError", "UnsupportedOperationError", "WeightedArray",
    "XLACustomKernel", "benchmark_function", "binary_coomm", "binary_coomm_p", "binary_coomv", "binary_coomv_p",
    "binary_csrmm", "binary_csrmm_indexed", "binary_csrmm_indexed_p", "binary_csrmm_p", "binary_csrmv",
    "binary_csrmv_indexed", "binary_csrmv_indexed_p", "binary_csrmv_p", "binary_densemm", "binary_densemm_p",
    "binary_densemv", "binary_densemv_p", "binary_fcnmm", "binary_fcnmm_p", "binary_fcnmv", "binary_fcnmv_p",
    "binary_jitnmm", "binary_jitnmm_p", "binary_jitnmv", "binary_jitnmv_p", "binary_jitsmm", "binary_jitsmm_p",
    "binary_jitsmv", "binary_jitsmv_p", "binary_jitumm", "binary_jitumm_p", "binary_jitumv", "binary_jitumv_p",
    "bitpack", "check", "clear_cache", "clear_tuned", "config", "connect", "coo2csr", "coo_to_csc_index", "coomm",
    "coomm_p", "coomv", "coomv_p", "csc_to_csr_index", "cscmm_dt2t", "cscmv_dt2t", "csr_apply_on_post",
    "csr_apply_on_pre", "csr_delay_deliver", "csr_delay_deliver_layout", "csr_delay_deliver_layout_p",
    "csr_delay_deliver_p", "csr_slice_rows", "csr_slice_rows_p", "csr_to_coo_index", "csr_to_csc_index", "csrmm",
    "csrmm_dt2t", "csrmm_dt2t_p", "csrmm_indexed", "csrmm_indexed_p", "csrmm_p", "csrmv", "csrmv_dt2t", "csrmv_dt2t_p",
    "csrmv_indexed", "csrmv_indexed_p", "csrmv_p", "cubin_kernel", "cuda_kernel", "cute_kernel", "cutile_kernel",
    "defjvp", "eprop", "errors", "every", "explain_loops", "exponential", "export_checks", "export_tuned",
    "fcn_plasticity_row_p", "fcnmm", "fcnmm_dt2t", "fcnmm_p", "fcnmv", "fcnmv_dt2t", "fcnmv_p", "from_nir",
    "general_batching_rule", "get_all_primitive_names", "get_cache_dir", "get_hybrid_config",
    "get_pallas_lfsr_rng_class", "get_primitives_by_tags", "get_registry", "grad", "half", "import_tuned",
    "init_csr_config", "integers", "jaxinfo_to_warpinfo", "jaxtype_to_warptype", "jitn", "jitn_p", "jitnmm", "jitnmm_p",
    "jitnmv", "jitnmv_dt2t", "jitnmv_p", "jits", "jits_p", "jitsmm", "jitsmm_p", "jitsmv", "jitsmv_dt2t", "jitsmv_p",
    "jitu", "jitu_p", "jitumm", "jitumm_p", "jitumv", "jitumv_dt2t", "jitumv_p", "list_registered_targets",
    "load_cpp_file", "load_cpp_inline", "load_cuda_dir", "load_cuda_file", "load_cuda_inline", "lognormal", "models",
    "normal", "normalize_tokens", "numba_cuda_callable", "numba_cuda_kernel", "numba_kernel", "plasticity",
    "plot_traces", "plot_weights", "print_diagnostics", "read_sonata", "read_sonata_report", "record",
    "register_ffi_target", "sddmm", "set_backend", "set_cache_dir", "simulate", "surrogate", "take_arrivals",
    "take_arrivals_p", "to_nir", "trace", "tuned_choices", "tvm_kernel", "uniform", "update_csc_on_binary_post",
    "update_csc_on_binary_pre", "update_csr_on_binary_post", "update_csr_on_binary_post_p", "update_csr_on_binary_pre",
    "update_csr_on_binary_pre_p", "update_dense_on_binary_post", "update_dense_on_binary_post_p",
    "update_dense_on_binary_pre", "update_dense_on_binary_pre_p", "update_fixed_post_conn_on_binary_pre",
    "update_fixed_pre_conn_on_binary_post", "use_backend", "value_and_grad", "warp_kernel", "write_sonata",
    "write_sonata_report", "write_sonata_spikes",
]
# fmt: on

_load_when_asked("brainevent.event.library")
_portable.install(_LOADERS)
_machine_code.keep_in("brainevent.toolchain.cache")
_loops.install()
_MODULES = {**LAZY, **_WRAPPERS}


def __getattr__(name: str) -> Any:
    if name in RENAMED:
        new = RENAMED[name]
        message = f"brainevent.{name} is now called brainevent.{new}; the old name is deprecated, use brainevent.{new}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return __getattr__(new)
    if name in _MODULES:
        value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
        return value
    if name in REMOVED:
        raise AttributeError(f"brainevent.{name} was removed in 0.1.0: {REMOVED[name]}")
    raise AttributeError(f"module 'brainevent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
