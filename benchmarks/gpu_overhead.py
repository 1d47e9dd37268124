# SPDX-License-Identifier: Apache-2.0
"""Overhead on a GPU: one call of out = a + b over 1024 floats, within a CUDA graph and in a loop."""

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

_CHAIN, _LOOP = 50, 10_000
_BAR = Bar(1.1)
_NAMES = {
    "jax": "a + b: no call, XLA's own kernel",
    "cuda": "CUDA handler by hand, nvcc -O3",
    "module": "module callable (load_cuda_inline)",
    "module_ffi_call": "plain jax.ffi.ffi_call of it",
    "module_operator": "XLACustomKernel with it",
    "module_without_graph": "module callable, allow_cuda_graph=False",
}
_JUDGED = ("module", "module_ffi_call", "module_operator")
_PLACES = {"chain": f"a jitted chain of {_CHAIN}", "loop": f"a jitted loop of {_LOOP}"}
_NOTES = {"jax_chain": "fused into one kernel", "module_without_graph_chain": "launched one by one"}


def measure_rows(options: Options) -> list[Row]:
    """One row per way and place; the ratio is to the handler written by hand."""
    arguments = {"chain": _CHAIN, "loop": _LOOP, "rounds": options.choose_rounds(full=11, quick=5)}
    samples: dict[str, list[float]] = {}
    for _ in range(1 if options.quick else 3):
        for name, more in run_probe("gpu_overhead", arguments, platform="gpu").items():
            samples.setdefault(name, []).extend(1e6 * sample for sample in more)
    return [
        make_row(
            "gpu_overhead",
            f"{name}; {place}",
            "us",
            samples[f"{way}_{suffix}"],
            baseline=samples[f"cuda_{suffix}"],
            ratio_to="by hand",
            bar=_BAR if way in _JUDGED else None,
            note=_NOTES.get(f"{way}_{suffix}", "one CUDA graph" if suffix == "chain" else ""),
        )
        for suffix, place in _PLACES.items()
        for way, name in _NAMES.items()
    ]
