# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: how many kernels the host still launches when a jitted chain runs again."""

from collections.abc import Sequence

from benchmarks.gpu_overhead import CHAIN, NAMES
from benchmarks.options import Options
from benchmarks.row import Absent, Bar, Failed, Row, make_row
from benchmarks.ways import measure_ways

NAME = "gpu_graph"
_WAYS = ("module", "module_without_graph", "cuda_kernel", "numba_cuda", "callable", "warp_kernel")
# XLA records a graph again when a buffer has moved, which is rare: at most one run in ten.
_BAR = Bar(CHAIN / 10, on="value")


def measure_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """One row per way; without a graph, the host launches every kernel in every run."""
    measured = measure_ways(NAME, dict.fromkeys(_WAYS), {"chain": CHAIN, "runs": 50 if options.quick else 200})
    return [
        *(
            make_row(
                NAME,
                NAMES[way],
                f"of {CHAIN}",
                [1e-6 * sample for sample in measured.samples[way]],
                bar=None if way == "module_without_graph" else _BAR,
                note="no graph, to compare with" if way == "module_without_graph" else "",
            )
            for way in _WAYS
            if way in measured.samples
        ),
        *measured.notes(NAMES),
    ]
