# SPDX-License-Identifier: Apache-2.0
"""vmap on a GPU: a batch of 100 over 1024 floats, by the handler's native loop and by a scan."""

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Row, make_row

_BATCH, _CHAIN = 100, 10
_WAYS = {
    "jax": "a + b: XLA's own kernel",
    "module": "module callable, default vmap: native loop",
    "operator": "XLACustomKernel, default vmap: native loop",
    "module_whole": "module callable, vmap_method='broadcast_all': one call",
    "cuda_whole": "CUDA handler by hand, vmap_method='broadcast_all': one call",
    "cuda_scan": "CUDA handler by hand, vmap_method='sequential': scan",
}
_PLACES = {"call": "one jitted call from Python", "chain": f"in a jitted chain of {_CHAIN}"}


def measure_rows(options: Options) -> list[Row]:
    """One row per way and place; the ratio says how many times faster than the scan it is."""
    arguments = {"batch": _BATCH, "chain": _CHAIN, "rounds": options.choose_rounds(full=31, quick=7)}
    measured = run_probe("gpu_vmap", arguments, platform="gpu")
    microseconds = {name: [1e6 * sample for sample in samples] for name, samples in measured.items()}
    return [
        make_row(
            "gpu_vmap",
            f"{label}; {place}",
            "us",
            microseconds[f"{way}_{suffix}"],
            baseline=microseconds[f"cuda_scan_{suffix}"],
            ratio_to="faster than scan",
            inverse=True,
            note=f"a batch of {_BATCH}",
        )
        for suffix, place in _PLACES.items()
        for way, label in _WAYS.items()
    ]
