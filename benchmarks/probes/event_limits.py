# SPDX-License-Identifier: Apache-2.0
"""What bounds a product of spikes and a matrix: bytes per second, scattered additions per second, and a launch."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.progress import tell

_TIMES = 7
_ADDS = """
__global__ void add(const float* one, float* sums, unsigned n, int each) {
  unsigned place = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 12345u;
  for (int i = 0; i < each; i++) {
    place = place * 1664525u + 1013904223u;
    atomicAdd(sums + __umulhi(place, n), one[0]);
  }
}
"""
_NOTHING = "__global__ void nothing(const float* x, float* out) {}"


def measure(sizes: list[int]) -> dict[str, Any]:
    """Return `bytes` per second, `adds` per second by the number of sums, and the seconds of a `launch`.

    On a CPU they are those of one thread, which launches nothing.
    """
    tell("limits")
    return _of_gpu(sizes) if jax.default_backend() == "gpu" else _of_cpu(sizes)


def _best(call: Callable[[], Any]) -> float:
    found = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def _of_cpu(sizes: list[int]) -> dict[str, Any]:
    import numba

    @numba.njit(fastmath=True)
    def total(x: Any) -> Any:
        found = np.float32(0)
        for i in range(x.size):
            found += x[i]
        return found

    @numba.njit
    def add(places: Any, sums: Any) -> None:
        for j in range(places.size):
            sums[np.uint64(places[j])] += np.float32(0.5)

    def adds(n: int) -> float:
        places, sums = np.random.default_rng(0).integers(0, n, 2**20, dtype=np.int32), np.zeros(n, np.float32)
        return places.size / _best(lambda: add(places, sums))

    x = np.ones(2**28, np.float32)
    return {"bytes": x.nbytes / _best(lambda: total(x)), "adds": {str(n): adds(n) for n in sizes}, "launch": 0.0}


def _of_gpu(sizes: list[int]) -> dict[str, Any]:
    import brainevent

    def timed(call: Callable[[Any], Any], x: Any, turns: int) -> float:
        """Seconds of one call in a loop."""
        loop = jax.jit(lambda x: jax.lax.fori_loop(0, turns, lambda _, x: call(x), x))
        return _best(lambda: jax.block_until_ready(loop(x))) / turns

    nothing = brainevent.cuda_kernel(
        _NOTHING, "nothing", jax.ShapeDtypeStruct((1,), jnp.float32), launch_dims=1, input_output_aliases={0: 0}
    )
    x = jnp.ones(2**29, jnp.float32)
    launch = timed(nothing, jnp.ones(1), 500)
    copied = timed(lambda x: x + 1, x, 20) - launch

    def adds(n: int) -> float:
        each, threads = 64, 132 * 8 * 256
        out = jax.ShapeDtypeStruct((n,), jnp.float32)
        kernel = brainevent.cuda_kernel(_ADDS, "add", out, launch_dims=threads, zeroed=True)
        return threads * each / (timed(lambda x: x + kernel(x, n=n, each=each)[:1], jnp.ones(1), 50) - launch)

    return {"bytes": 2 * x.nbytes / copied, "adds": {str(n): adds(n) for n in sizes}, "launch": launch}
