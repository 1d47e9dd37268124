# SPDX-License-Identifier: Apache-2.0
"""Two examples from neuroscience on a GPU, at their size and at 1 000 times it, in several languages."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.gpu_overhead import NAMES
from benchmarks.options import Options
from benchmarks.row import Absent, Failed, Row, make_row
from benchmarks.ways import measure_ways

CSR, LIF = "gpu_csr", "gpu_lif"
STEPS = 20
OPERATOR = ("cuda_raw", "numba_cuda", "warp", "triton", "pallas")
_LANGUAGES = ("cuda", "cuda_kernel", "numba_cuda", "warp_kernel", "warp_jax")
CSR_NAMES = {"dense": "JAX: a dense product", "segment_sum": "JAX: jax.ops.segment_sum"}
CSR_NAMES |= {f"operator_{backend}": f"binary_csrmv, backend {backend}" for backend in OPERATOR}
CSR_NAMES |= {way: NAMES[way] for way in _LANGUAGES}
LIF_NAMES = {"jax": "JAX: jnp.where", "callable": f"{NAMES['callable']}: two kernels"}
LIF_NAMES |= {way: NAMES[way] for way in _LANGUAGES}
PLACES = {"call": "one jitted call from Python", "chain": f"a jitted chain of {STEPS}"}


def measure_csr_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """Spikes of a tenth of the neurons, times a sparse matrix; the large one has no dense twin: it would be 2 TB."""
    small = {"n_pre": 1_000, "n_post": 500, "fan_out": 25}
    large = {"n_pre": 1_000_000, "n_post": 500_000, "fan_out": 25}
    sparse = {way: name for way, name in CSR_NAMES.items() if way != "dense"}
    return [
        *_measure(options, CSR, CSR_NAMES, "25 000 connections", small, calls=200),
        *_measure(options, CSR, sparse, "25 million connections", large, calls=20),
    ]


def measure_lif_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """Neurons over their threshold spike, and go back to rest."""
    return [
        *_measure(options, LIF, LIF_NAMES, "10 000 neurons", {"size": 10_000}, calls=200),
        *_measure(options, LIF, LIF_NAMES, "10 million neurons", {"size": 10_000_000}, calls=40),
    ]


def _measure(
    options: Options, probe: str, labels: Mapping[str, str], size: str, problem: dict[str, int], calls: int
) -> Sequence[Row | Absent | Failed]:
    ways: dict[str, Any] = {way: 1 for way in labels if options.warp or way != "warp_jax"}
    rounds = options.choose_rounds(full=15, quick=5)
    measured = measure_ways(probe, ways, {**problem, "steps": STEPS, "calls": calls, "rounds": rounds})
    rows = [
        make_row(
            probe,
            f"{size}: {label}; {place}",
            "us",
            measured.samples[f"{way}_{suffix}"],
            baseline=measured.samples.get(f"cuda_{suffix}"),
            ratio_to="by hand",
        )
        for suffix, place in PLACES.items()
        for way, label in labels.items()
        if f"{way}_{suffix}" in measured.samples
    ]
    return [*rows, *measured.notes(labels, prefix=f"{size}: ")]
