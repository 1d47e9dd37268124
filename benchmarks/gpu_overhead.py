# SPDX-License-Identifier: Apache-2.0
"""Overhead on a GPU: one call of out = a + b over 1024 floats, within a CUDA graph and in a loop, in every language."""

from collections.abc import Mapping, Sequence

from benchmarks.options import Options
from benchmarks.row import Absent, Bar, Failed, Row, make_row
from benchmarks.ways import Measured, measure_ways

NAME = "gpu_overhead"
CHAIN, LOOP, SLOW_LOOP = 50, 10_000, 1_000
NAMES = {
    "jax": "JAX's own a + b",
    "jax_alone": "JAX's own a + b, kept apart by barriers",
    "cuda": "CUDA handler by hand, nvcc -O3",
    "module": "module callable (load_cuda_inline)",
    "module_ffi_call": "plain jax.ffi.ffi_call of it",
    "module_operator": "XLACustomKernel with it",
    "module_without_graph": "module callable, allow_cuda_graph=False",
    "cuda_kernel": "cuda_kernel",
    "cubin_kernel": "cubin_kernel",
    "cutile_kernel": "cutile_kernel",
    "cute_kernel": "cute_kernel",
    "numba_cuda": "numba_cuda_kernel",
    "numba_cuda_mlir": "numba_cuda_kernel of numba-cuda-mlir",
    "callable": "numba_cuda_callable, recorded",
    "callable_with_temporary": "numba_cuda_callable, recorded: two kernels, a temporary",
    "callable_through_python": "numba_cuda_callable, fallback: it waits for the stream",
    "warp_kernel": "warp_kernel",
    "triton": "Triton: jax_triton.triton_call",
    "pallas": "Pallas: pallas_call",
    "warp_jax": "Warp's own jax_kernel",
}
PEER_NAMES = {"numba_cuda": "numba_cuda_kernel", "callable": "numba_cuda_callable"}
PLACES = {"chain": f"a jitted chain of {CHAIN}", "loop": f"a jitted loop of {LOOP}"}

_PLANS = ("cuda_kernel", "cubin_kernel", "cutile_kernel", "cute_kernel", "numba_cuda", "callable", "warp_kernel")
_BARS = dict.fromkeys(("module", "module_ffi_call", "module_operator"), Bar(1.1)) | dict.fromkeys(_PLANS, Bar(1.15))
_SLOW = ("callable_through_python", "warp_jax")
_CHAIN_NOTES = {
    "jax": "fused into one kernel",
    "jax_alone": "a kernel each",
    "module_without_graph": "launched one by one",
    "callable_through_python": "launched one by one",
    "warp_jax": "Warp's default graph mode",
    "triton": "",
    "pallas": "",
}


def row_name(label: str, place: str) -> str:
    """What a row is called; `place` is "chain" or "loop"."""
    return f"{label}; {PLACES[place]}"


def peer_label(title: str, way: str) -> str:
    """What a way of the peer's is called."""
    return f"{title}: {PEER_NAMES[way]}"


def measure_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """One row per way and place; the ratio is to the handler written by hand, in the same process."""
    ways = {name: SLOW_LOOP if name in _SLOW else LOOP for name in NAMES if options.warp or name != "warp_jax"}
    arguments = {"chain": CHAIN, "rounds": options.choose_rounds(full=9, quick=5)}
    ours = measure_ways(NAME, ways, arguments, processes=1 if options.quick else 3)
    return [*_rows(ours, NAMES, ways), *ours.notes(NAMES), *_measure_peer(options, arguments)]


def _measure_peer(options: Options, arguments: dict[str, int]) -> Sequence[Row | Absent | Failed]:
    if options.peer_packages is None:
        return []
    from benchmarks.probes.cuda import toolkit_for_others

    ways = {"cuda": LOOP} | dict.fromkeys(PEER_NAMES, SLOW_LOOP)
    labels = {"cuda": f"{NAMES['cuda']}, in the peer's process"}
    labels |= {way: peer_label(options.peer_title, way) for way in PEER_NAMES}
    where = {"packages": options.peer_packages, "environment": toolkit_for_others()}
    peer = measure_ways(NAME, ways, arguments, **where)
    return [*_rows(peer, labels, ways, bars={}), *peer.notes(labels)]


def _rows(
    measured: Measured, labels: Mapping[str, str], loops: Mapping[str, int], bars: Mapping[str, Bar] = _BARS
) -> list[Row]:
    return [
        make_row(
            NAME,
            row_name(label, place),
            "us",
            measured.samples[f"{way}_{place}"],
            baseline=measured.samples.get(f"cuda_{place}"),
            ratio_to="by hand",
            bar=bars.get(way) if f"cuda_{place}" in measured.samples else None,
            note=_note(way, place, loops[way], ours=bars is _BARS),
        )
        for place in PLACES
        for way, label in labels.items()
        if f"{way}_{place}" in measured.samples
    ]


def _note(way: str, place: str, loop: int, ours: bool) -> str:
    if place == "loop":
        return "" if loop == LOOP else f"{loop} iterations"
    if not ours and way != "cuda":
        return ""
    return _CHAIN_NOTES.get(way, "one CUDA graph")
