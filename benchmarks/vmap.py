# SPDX-License-Identifier: Apache-2.0
"""vmap: a batch of 1 000 over 64 floats, by the operator's native loop and by a scan."""

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

_BATCH = 1_000
_BAR = Bar(5, at_least=True)
_WAYS = {
    "native": "operator, default vmap: native loop",
    "native_cpp": "C++ operator, default vmap: native loop",
    "scan": "operator, general_batching_rule: scan",
    "map": "numba_kernel under jax.lax.map",
    "cpp_whole": "C++ handler, one call for the batch",
    "cpp_scan": "C++ handler, vmap_method='sequential'",
}
_PLACES = {"": "one jitted call from Python", "_loop": "inside a jitted loop"}


def measure_rows(options: Options) -> list[Row]:
    """One row per way and place; the ratio says how many times faster than the scan it is."""
    measured = run_probe("vmap", {"batch": _BATCH, "rounds": options.choose_rounds(full=31, quick=7)})
    microseconds = {name: [1e6 * sample for sample in samples] for name, samples in measured.items()}
    return [
        make_row(
            "vmap",
            f"{label}; {place}",
            "us",
            microseconds[way + suffix],
            baseline=microseconds["scan" + suffix],
            ratio_to="faster than scan",
            inverse=True,
            bar=_BAR if way in ("native", "native_cpp") else None,
            note=f"a batch of {_BATCH}",
        )
        for suffix, place in _PLACES.items()
        for way, label in _WAYS.items()
    ]
