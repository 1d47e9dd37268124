# SPDX-License-Identifier: Apache-2.0
"""Names that are loaded when first used: public names, and those of earlier releases."""

__all__ = ["LAZY", "REMOVED", "RENAMED"]

# Loaded when first used, so that `import brainevent` stays light. Languages in `backends/` add those of their own.
_ROOMS = {
    "compat.lfsr": """
        PallasLFSR113RNG PallasLFSR128RNG PallasLFSR88RNG PallasLFSRRNG get_pallas_lfsr_rng_class
    """,
    "bench.tuning_store": "TunedChoice clear_tuned export_tuned import_tuned tuned_choices",
    "bench.measure": "benchmark_function",
    "bench.record": "BenchmarkConfig BenchmarkRecord",
    "bench.result": "BenchmarkResult",
    "bench.tune": "TuneResult",
    "doctor": "print_diagnostics",
    "event.arrays": "BinaryArray WeightedArray",
    "event.bitpack": "BitPackedBinary bitpack",
    "event.compact": "CompactBinary",
    "event.functions.coo": "binary_coomm binary_coomv coomm coomv",
    "event.csr.conversions": "coo2csr coo_to_csc_index csc_to_csr_index csr_to_coo_index csr_to_csc_index",
    "event.functions.csr": """
        binary_csrmm binary_csrmm_indexed binary_csrmv binary_csrmv_indexed
        csr_slice_rows csrmm csrmm_indexed csrmv csrmv_indexed sddmm
    """,
    "compat.hybrid": "HybridConfig get_hybrid_config init_csr_config",
    "event.delays.functions": "csr_delay_deliver csr_delay_deliver_layout take_arrivals",
    "event.delays.layout": "CSRDelayLayout",
    "event.functions.dense": "binary_densemm binary_densemv",
    "event.functions.drawn": """
        binary_jitnmm binary_jitnmv jitn jitnmm jitnmv jitnmv_dt2t
        binary_jitsmm binary_jitsmv jits jitsmm jitsmv jitsmv_dt2t
        binary_jitumm binary_jitumv jitu jitumm jitumv jitumv_dt2t
    """,
    "event.functions.fixed": "binary_fcnmm binary_fcnmv fcnmm fcnmv",
    "event.library": """
        binary_coomm_p binary_coomv_p binary_csrmm_indexed_p binary_csrmm_p binary_csrmv_indexed_p binary_csrmv_p
        binary_densemm_p binary_densemv_p binary_fcnmm_p binary_fcnmv_p coomm_p coomv_p csr_delay_deliver_layout_p
        csr_delay_deliver_p csr_slice_rows_p csrmm_dt2t_p csrmm_indexed_p csrmm_p csrmv_dt2t_p csrmv_indexed_p csrmv_p
        fcn_plasticity_row_p fcnmm_p fcnmv_p
        update_csr_on_binary_post_p update_csr_on_binary_pre_p update_dense_on_binary_post_p
        update_dense_on_binary_pre_p
        binary_jitnmm_p binary_jitnmv_p binary_jitsmm_p binary_jitsmv_p binary_jitumm_p binary_jitumv_p take_arrivals_p
        jitn_p jitnmm_p jitnmv_p jits_p jitsmm_p jitsmv_p jitu_p jitumm_p jitumv_p
    """,
    "event.matrices.base": "DataRepresentation",
    "event.matrices.coo": "COO",
    "event.matrices.csc": "CSC",
    "event.matrices.csr": "CSR",
    "event.matrices.dense": "Dense",
    "event.matrices.drawn": "JITCMatrix JITCScalarMatrix",
    "event.matrices.drawn_kinds": """
        JITCNormalC JITCNormalR JITCScalarC JITCScalarR JITCUniformC JITCUniformR
    """,
    "event.matrices.fixed": "FixedNumConn FixedNumPerPost FixedNumPerPre",
    "event.matrices.gradients": "grad value_and_grad",
    "event.matrices.tcsr": "TCSR",
    "event.plasticity.by_rule": "csr_apply_on_post csr_apply_on_pre",
    "event.plasticity.functions": """
        update_dense_on_binary_post update_dense_on_binary_pre update_fixed_post_conn_on_binary_pre
        update_fixed_pre_conn_on_binary_post
        update_csc_on_binary_post update_csc_on_binary_pre update_csr_on_binary_post update_csr_on_binary_pre
    """,
    "event.representation": "EventRepresentation",
    "event.synapses.functions": "cscmm_dt2t cscmv_dt2t csrmm_dt2t csrmv_dt2t fcnmm_dt2t fcnmv_dt2t",
    "loops.explain": "explain_loops",
    "network": "models plasticity surrogate",
    "network.description": "connect",
    "network.description.coupling": "Coupling",
    "network.description.network": "Network",
    "network.description.parts": "Part",
    "network.description.plasticity": "Plasticity trace",
    "network.description.populations": "Population Projection",
    "network.description.values": "exponential integers lognormal normal uniform",
    "network.eprop": "eprop",
    "network.nir.network": "NIRNetwork",
    "network.nir.reading": "from_nir",
    "network.nir.writing": "to_nir",
    "network.plan.quantum": "RoundedWeightsWarning",
    "network.reference.simulate": "simulate",
    "network.run.requests": "every",
    "network.run.result": "Result",
    "network.run.simulation": "Simulation",
    "network.run.stepper": "Stepper",
    "network.run.swept": "SweepResult",
    "network.sonata.circuit": "write_sonata",
    "network.sonata.network": "SonataNetwork",
    "network.sonata.reading": "read_sonata",
    "network.sonata.report_file": "SonataReport read_sonata_report write_sonata_report",
    "network.sonata.writing": "write_sonata_spikes",
    "operator.check": "CheckReport check",
    "operator.check.report": "CheckRow",
    "spikes.labelled": "LabelledSpikes",
    "spikes.plots": "plot_traces plot_weights",
    "spikes.record": "record",
    "spikes.trains": "Spikes",
    "toolchain.cache": "clear_cache get_cache_dir set_cache_dir",
    "toolchain.signature": "normalize_tokens",
}
LAZY = {name: f"brainevent.{room}" for room, names in _ROOMS.items() for name in names.split()}

# Names of earlier releases, which existing programs use.
RENAMED = {
    "EventArray": "BinaryArray",
    "FixedPostNumConn": "FixedNumPerPre",
    "FixedPreNumConn": "FixedNumPerPost",
    "JITCHomoC": "JITCScalarC",
    "JITCHomoR": "JITCScalarR",
    "csr2csc_on_post": "update_csr_on_binary_post",
    "csr_on_pre": "update_csr_on_binary_pre",
    "dense_on_post": "update_dense_on_binary_post",
    "dense_on_pre": "update_dense_on_binary_pre",
}

# Removed names, with their replacements.
_GONE = {
    "a matrix of coordinates has update_on_pre and update_on_post; or make a CSR by coo2csr": """
        update_coo_on_binary_post update_coo_on_binary_post_p update_coo_on_binary_pre update_coo_on_binary_pre_p
    """,
    "use binary_fcnmv and binary_fcnmm, which take events in every form": """
        bitpack_binary_fcnmm bitpack_binary_fcnmm_p bitpack_binary_fcnmv bitpack_binary_fcnmv_p
        compact_binary_fcnmm compact_binary_fcnmm_p compact_binary_fcnmv compact_binary_fcnmv_p
    """,
    "use FixedNumPerPost or FixedNumPerPre": "CscLayout EllLayout",
}
REMOVED = {name: advice for advice, names in _GONE.items() for name in names.split()}
