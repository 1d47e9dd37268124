# SPDX-License-Identifier: Apache-2.0
"""Overhead: one call of out = a + b over 64 floats, inside a jitted loop of 100 000 iterations."""

from benchmarks.options import Options
from benchmarks.peer import PEER_NAME
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

_FAST, _SLOW = 100_000, 5_000
_BAR = Bar(1.2)
_OURS = {
    "jax": "jnp.add: no call at all",
    "cpp_nothing": "C++ handler that does nothing",
    "cpp": "C++ handler, g++ -O3",
    "module": "C++: module callable (load_cpp_inline)",
    "module_ffi_call": "C++: plain jax.ffi.ffi_call of it",
    "module_operator": "C++: XLACustomKernel with it",
    "numba_kernel": "numba_kernel",
    "operator": "XLACustomKernel with numba_kernel",
    "pure_callback": "jax.pure_callback with NumPy",
    "warp": "Warp jax_kernel on the CPU",
}
_JUDGED = ("module", "module_ffi_call", "module_operator", "numba_kernel", "operator")
_PEER = {
    "cpp": "C++ handler, in the peer's process",
    "numba_kernel": f"{PEER_NAME}: numba_kernel",
    "operator": f"{PEER_NAME}: XLACustomKernel",
}


def measure_rows(options: Options) -> list[Row]:
    """One row per way of calling the function; the ratio is to C++."""
    contenders = dict.fromkeys(["jax", "cpp_nothing", "cpp", *_JUDGED], _FAST)
    contenders["pure_callback"] = _SLOW
    if options.warp:
        contenders["warp"] = _SLOW
    rows = _rows(_OURS, contenders, _measure(options, contenders), bars=dict.fromkeys(_JUDGED, _BAR))
    if options.peer:
        contenders = {"cpp": _FAST, "numba_kernel": _SLOW, "operator": _SLOW}
        rows += _rows(_PEER, contenders, _measure(options, contenders, peer=True), bars={})
    return rows


def _measure(options: Options, contenders: dict[str, int], peer: bool = False) -> dict[str, list[float]]:
    """Join the samples of several processes: where code and buffers lie in memory differs between them."""
    arguments = {"contenders": contenders, "rounds": options.choose_rounds(full=11, quick=5)}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(1 if options.quick else 3):
        answer = run_probe("overhead", arguments, options.peer if peer else None)
        for name, more in answer.items():
            samples[name] += more
    return samples


def _rows(
    names: dict[str, str], contenders: dict[str, int], samples: dict[str, list[float]], bars: dict[str, Bar]
) -> list[Row]:
    microseconds = {name: [1e6 * sample for sample in samples[name]] for name in contenders}
    return [
        make_row(
            "overhead",
            names[name],
            "us",
            microseconds[name],
            baseline=microseconds["cpp"],
            ratio_to="C++",
            bar=bars.get(name),
            note=f"{iterations} iterations",
        )
        for name, iterations in contenders.items()
    ]
