# SPDX-License-Identifier: Apache-2.0
"""Time `binary_csrmv` on a GPU in every variant of its kernels: us per product in a compiled loop, net of the loop.

`python -m benchmarks.probes.gpu_csrmv [--quick] [--languages]`; each result is compared with sums in float64.
"""

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_VECTORS = 16  # of spikes, which take turns
_POINTS = ((4_000, 80), (4_000, 1000), (77_000, 80), (77_000, 1000), (100_000, 1000), (1_000_000, 80), (77_000, 3870))
_ACTIVE = (0.0003, 0.001, 0.01, 0.1)
_LANGUAGES = ("numba_cuda", "warp", "triton", "pallas", "reference")


def ways(*, languages: bool) -> dict[str, dict[str, Any]]:
    """The keywords that choose each variant, or each language."""
    from brainevent.event.csr.operators import binary_csrmv_p

    entry = binary_csrmv_p._kernels["gpu"]["cuda_raw"]
    found = {}
    for variant in entry.variants:
        label = " ".join(f"{name}={int(value)}" for name, value in variant)
        found[label] = {"backend": "cuda_raw", **dict(variant)}
    if languages:
        found |= {name: {"backend": name} for name in _LANGUAGES}
    return found


def seconds_of_loop(step: Callable[..., Any], operands: tuple[Any, ...], width: int, repeats: int) -> tuple[float, Any]:
    """Seconds of one turn of a loop, at best, and its last result."""

    @jax.jit
    def loop(spikes: Any, *rest: Any) -> Any:
        def turn(i: Any, before: Any) -> Any:
            return step(jax.lax.dynamic_index_in_dim(spikes, i % _VECTORS, keepdims=False), before, *rest)

        return jax.lax.fori_loop(0, repeats, turn, jnp.zeros(width, jnp.float32))

    last = jax.block_until_ready(loop(*operands))
    times = []
    for _ in range(7):
        start = time.perf_counter()
        jax.block_until_ready(loop(*operands))
        times.append(time.perf_counter() - start)
    return min(times) / repeats, last


def empty(spikes: Any, before: Any, *rest: Any) -> Any:
    """Do what the loop does without a product: cut out a vector of spikes, and write a result."""
    return jnp.where(spikes[0], before + 1, before - 1)


def product(spikes: Any, before: Any, *matrix: Any, keywords: dict[str, Any], size: int) -> Any:
    """Add the rows of who spikes."""
    from brainevent.event.csr.operators import binary_csrmv_p

    out = jax.ShapeDtypeStruct((size,), jnp.float32)
    (found,) = binary_csrmv_p(*matrix, spikes, outs=[out], shape=(size, size), transpose=True, **keywords)
    return found


def expected(weights: np.ndarray, indices: np.ndarray, spikes: np.ndarray, fan_out: int) -> np.ndarray:
    """The product in float64."""
    rows = np.flatnonzero(spikes)
    columns = indices.reshape(-1, fan_out)[rows].ravel()
    each = np.full(columns.size, weights[0]) if weights.size == 1 else weights.reshape(-1, fan_out)[rows].ravel()
    return np.bincount(columns, each.astype(np.float64), minlength=spikes.size)


def measure(points: tuple[tuple[int, int], ...], active: tuple[float, ...], chosen: dict[str, Any]) -> None:
    """Print a table of all points and ways."""
    print("neurons fan-out active weights | synapses, us of the empty loop | us net of it, G synapses/s")
    for size, fan_out in points:
        random = np.random.default_rng(1)
        indices = random.integers(0, size, size * fan_out, dtype=np.int32)
        indptr = np.arange(size + 1, dtype=np.int32) * fan_out
        weights = {"one": np.full(1, 0.5, np.float32), "many": random.random(indices.size, dtype=np.float32)}
        structure = jnp.asarray(indices), jnp.asarray(indptr)
        for share in active:
            spikes = random.random((_VECTORS, size)) < share
            for kind, values in weights.items():
                operands = (jnp.asarray(spikes), jnp.asarray(values), *structure)
                synapses = spikes.sum() / _VECTORS * fan_out
                repeats = int(np.clip(2e8 / (synapses + 1e5), 64, 1000)) // _VECTORS * _VECTORS
                idle, _ = seconds_of_loop(empty, operands, size, repeats)
                print(f"{size} x {fan_out} {share:g} {kind} | {synapses:.3g}, {1e6 * idle:.1f} |")
                wanted = expected(values, indices, spikes[-1], fan_out)
                for name, keywords in chosen.items():
                    print(f"    {name:38}", end=" ", flush=True)
                    try:
                        step = functools.partial(product, keywords=keywords, size=size)
                        took, last = seconds_of_loop(step, operands, size, repeats)
                    except Exception as error:  # noqa: BLE001 - the other ways are measured
                        print(f"FAILED {type(error).__name__}: {str(error).splitlines()[0]:.150}")
                        continue
                    wrong = np.abs(np.asarray(last) - wanted).max() / (1 + np.abs(wanted).max())
                    net = took - idle
                    verdict = "" if wrong < 1e-5 else f"  WRONG by {wrong:.2g}"
                    print(f"{1e6 * net:9.1f} us  {synapses / net / 1e9:7.1f} G/s{verdict}")


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 000 x 1000 alone")
    parser.add_argument("--languages", action="store_true", help="other languages than CUDA C++ too")
    options = parser.parse_args()
    print(jax.devices()[0].device_kind, jax.__version__)
    points = ((100_000, 1000),) if options.quick else _POINTS
    measure(points, _ACTIVE[1:] if options.quick else _ACTIVE, ways(languages=options.languages))


if __name__ == "__main__":
    main()
