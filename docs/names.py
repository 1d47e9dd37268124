# SPDX-License-Identifier: Apache-2.0
"""Write the page of all names of the interface that programs for `brainevent` 0.3 know: `python -m docs.names FILE`.

The names and what differs are listed here. Whether a name is there is asked of the package.
"""

import sys
from pathlib import Path

import brainevent

__all__ = ["DIFFERS", "TOPICS", "missing", "page", "write"]

TOPICS = {
    "Operators": """
        KernelEntry XLACustomKernel defjvp general_batching_rule get_all_primitive_names get_primitives_by_tags
        get_registry list_registered_targets register_ffi_target
    """,
    "Kernels and compilers": """
        CPPBackend CUDABackend CompiledModule CompilerBackend HIPBackend clear_cache get_cache_dir jaxinfo_to_warpinfo
        jaxtype_to_warptype load_cpp_file load_cpp_inline load_cuda_dir load_cuda_file load_cuda_inline normalize_tokens
        numba_cuda_callable numba_cuda_kernel numba_kernel print_diagnostics set_cache_dir
    """,
    "Settings": "HybridConfig config get_hybrid_config init_csr_config",
    "Random generators": """
        PallasLFSR113RNG PallasLFSR128RNG PallasLFSR88RNG PallasLFSRRNG get_pallas_lfsr_rng_class
    """,
    "Benchmarks": "BenchmarkConfig BenchmarkRecord BenchmarkResult benchmark_function",
    "Events": "BinaryArray BitPackedBinary CompactBinary EventRepresentation WeightedArray bitpack",
    "Matrices": """
        CSC CSR DataRepresentation Dense FixedNumConn FixedNumPerPost FixedNumPerPre TCSR coo2csr coo_to_csc_index
        csc_to_csr_index csr_to_coo_index csr_to_csc_index
    """,
    "Products": """
        binary_csrmm binary_csrmm_indexed binary_csrmm_indexed_p binary_csrmm_p binary_csrmv binary_csrmv_indexed
        binary_csrmv_indexed_p binary_csrmv_p binary_densemm binary_densemm_p binary_densemv binary_densemv_p
        binary_fcnmm binary_fcnmm_p binary_fcnmv binary_fcnmv_p csr_slice_rows csr_slice_rows_p csrmm csrmm_p csrmv
        csrmv_p fcnmm fcnmv
    """,
    "Values of synapses": """
        cscmm_dt2t cscmv_dt2t csrmm_dt2t csrmm_dt2t_p csrmv_dt2t csrmv_dt2t_p fcnmm_dt2t fcnmv_dt2t
    """,
    "Plasticity": """
        csr_apply_on_post csr_apply_on_pre fcn_plasticity_row_p update_csc_on_binary_post update_csc_on_binary_pre
        update_csr_on_binary_post update_csr_on_binary_post_p update_csr_on_binary_pre update_csr_on_binary_pre_p
        update_dense_on_binary_post update_dense_on_binary_post_p update_dense_on_binary_pre
        update_dense_on_binary_pre_p update_fixed_post_conn_on_binary_pre update_fixed_pre_conn_on_binary_post
    """,
    "Delays": """
        CSRDelayLayout csr_delay_deliver csr_delay_deliver_layout csr_delay_deliver_layout_p csr_delay_deliver_p
    """,
    "Drawn connectivity": """
        JITCMatrix JITCNormalC JITCNormalR JITCScalarC JITCScalarMatrix JITCScalarR JITCUniformC JITCUniformR
        binary_jitnmm binary_jitnmm_p binary_jitnmv binary_jitnmv_p binary_jitsmm binary_jitsmm_p binary_jitsmv
        binary_jitsmv_p binary_jitumm binary_jitumm_p binary_jitumv binary_jitumv_p jitn jitn_p jitnmm jitnmm_p jitnmv
        jitnmv_dt2t jitnmv_p jits jits_p jitsmm jitsmm_p jitsmv jitsmv_dt2t jitsmv_p jitu jitu_p jitumm jitumm_p jitumv
        jitumv_dt2t jitumv_p
    """,
    "Errors": """
        BenchmarkDataFnNotProvidedError BrainEventError CUDANotInstalledError CompilationError GpuArchDetectionError
        HeaderNotFoundError HostCompilerIncompatibleError HostCompilerNotFoundError KernelCompilationError KernelError
        KernelExecutionError KernelFallbackExhaustedError KernelLoadError KernelNotAvailableError
        KernelRegistrationError KernelToolchainError MathError NvccNotFoundError UnsupportedArchError
        UnsupportedOperationError
    """,
}
_MISSING = "Not there yet."

_ANY_BATCH = "Batches broadcast; dtypes are promoted. Has derivatives in reverse mode."
_PROMOTED = "Dtypes are promoted, and one value serves all synapses. Has derivatives in reverse mode."
_DERIVED = "Takes wrapped events, and lists as shapes. Bounds do not change the dtype of the weights."
_TOOLCHAIN = "`toolchain` is ignored: compilers are found as for `load_cpp_inline`."
_SEEDED = "The seed goes through a hash, so numbers differ. `random_integers` takes negative bounds."
_OTHER_MATRIX = "The same seed draws another matrix; the number of its elements follows the probability."
_INERT = "Accepted, and changes nothing: kernels here have no such constants."
DIFFERS = {
    "BinaryArray": "`T` and `transpose` return a `BinaryArray`, and not an array.",
    "BitPackedBinary": "`value` holds booleans, whatever it was made of.",
    "CPPBackend": _TOOLCHAIN,
    "CSC": "As `CSR`. `solve` solves `matrix @ x = b`, and not the transposed system.",
    "CSR": """Indices are leaves of the pytree: one jitted function takes matrices with different indices, and
        `brainevent.grad` takes gradients with respect to a matrix. Masks and pairs in brackets are as in NumPy. `solve`
        takes matrices as b, and raises if the matrix is singular. It is hashable.""",
    "CUDABackend": _TOOLCHAIN,
    "CompactBinary": """Has products. `n_active` has no dimension, `active_ids` is filled up with the number of neurons,
        and `vmap` counts each vector by itself.""",
    "Dense": """Rows out of range raise. `+` and `-` give arrays. `solve` has no options, and raises if the matrix is
        singular. An `nse` that is too small raises outside of `jax.jit`.""",
    "FixedNumPerPost": "`+` and `-` give arrays in which every element counts, and not the stored ones alone.",
    "FixedNumPerPre": "`+` and `-` give arrays in which every element counts, and not the stored ones alone.",
    "HIPBackend": "Not really: it has no compiler.",
    "HybridConfig": f"Not really. {_INERT} Wrong values raise when it is made.",
    "PallasLFSR113RNG": _SEEDED,
    "PallasLFSR128RNG": f"{_SEEDED} The generator is Marsaglia's xorshift.",
    "PallasLFSR88RNG": _SEEDED,
    "TCSR": """Tiles: not really, because the kernels here do not need them. `.T` is of a class of its own, with the
        options. Rows need no order, and 64-bit numbers need not be enabled.""",
    "WeightedArray": "`T` and `transpose` return a `WeightedArray`.",
    "cscmm_dt2t": _ANY_BATCH,
    "cscmv_dt2t": _PROMOTED,
    "csrmm": "The dtype is that to which JAX promotes both operands.",
    "csrmm_dt2t": _ANY_BATCH,
    "csrmv": "The dtype is that to which JAX promotes both operands.",
    "csrmv_dt2t": _PROMOTED,
    "get_hybrid_config": f"Not really. {_INERT}",
    "init_csr_config": f"Not really. {_INERT} Warns.",
    "load_cpp_inline": "Compiles with `-O3`.",
    "update_csc_on_binary_pre": f"{_DERIVED} Takes indices that are traced.",
}
_UPDATES = (name for name in TOPICS["Plasticity"].split() if name.startswith("update_") and not name.endswith("_p"))
_DRAWN = (name for name in TOPICS["Drawn connectivity"].split() if not name.endswith("_p"))
DIFFERS = {**dict.fromkeys(_UPDATES, _DERIVED), **dict.fromkeys(_DRAWN, _OTHER_MATRIX), **DIFFERS}

_INTRODUCTION = """\
# Every name, and what differs

For every public name of `brainevent` 0.3, this page says whether it is there, and what differs from that
release. The page is made by `python -m docs.names` whenever the documentation is built. {counted}

Errors about shapes are `ShapeError` everywhere, which is an `AssertionError` and a `ValueError`. [Coming
from the PyPI package](from-pypi.md) says what programs must look at, and the [API reference](api.md) lists the names
that are only here.
"""


def missing() -> list[str]:
    """Return the names that the package does not have."""
    return [name for names in TOPICS.values() for name in names.split() if not hasattr(brainevent, name)]


def page() -> str:
    """Return the text of the page."""
    total, absent = sum(len(names.split()) for names in TOPICS.values()), set(missing())
    counted = f"Of {total} names, {total - len(absent)} are there."
    lines = [_INTRODUCTION.format(counted=counted)]
    for topic, names in TOPICS.items():
        lines += [f"## {topic}", "", "| Name | There | What differs, and why |", "| --- | --- | --- |"]
        for name in names.split():
            differs = _MISSING if name in absent else " ".join(DIFFERS.get(name, "").split())
            lines.append(f"| `{name}` | {'no' if name in absent else 'yes'} | {differs} |")
        lines.append("")
    return "\n".join(lines)


def write(path: Path) -> None:
    """Write the page; leave it alone if it would stay the same."""
    text = page()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(*sys.argv[1:2] or [Path(__file__).parent / "names.md"]))
