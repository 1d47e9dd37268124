# SPDX-License-Identifier: Apache-2.0
"""Time the vmap of a CUDA kernel: a native loop over the batch, against a scan."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.contenders import Contender, make_jax_add
from benchmarks.probes.gpu_contenders import make_cuda
from benchmarks.probes.modules import make_module, make_module_operator
from benchmarks.probes.rounds import interleave, time_calls

WAYS: dict[str, Callable[[], Contender]] = {
    "jax": make_jax_add,
    "module": lambda: make_module("cuda"),
    "operator": lambda: make_module_operator("cuda"),
    "module_whole": lambda: make_module("cuda", vmap_method="broadcast_all"),
    "cuda_whole": lambda: make_cuda(vmap_method="broadcast_all"),
    "cuda_scan": lambda: make_cuda(vmap_method="sequential"),
}
_SIZE = 1024
_CALLS = 10


def measure(batch: int, chain: int, rounds: int) -> dict[str, list[float]]:
    """Seconds per batch: `NAME_call` is one jitted call, `NAME_chain` one of a jitted chain."""
    b = jnp.ones((batch, _SIZE), jnp.float32)
    a = jnp.arange(batch * _SIZE, dtype=jnp.float32).reshape(batch, _SIZE)
    timers = {}
    for name, make in WAYS.items():
        way = jax.vmap(make())
        timers[f"{name}_call"] = _timer(way, 1, a, b)
        timers[f"{name}_chain"] = _timer(way, chain, a, b)
    return interleave(timers, rounds)


def _timer(way: Contender, calls: int, a: jax.Array, b: jax.Array) -> Callable[[], float]:
    def chain(a: jax.Array, b: jax.Array) -> jax.Array:
        for _ in range(calls):
            a = way(a, b)
        return a

    program = jax.jit(chain)
    for _ in range(3):  # A graph is recorded in one of the first runs.
        np.testing.assert_array_equal(program(a, b), np.asarray(a) + calls * np.asarray(b))
    return time_calls(lambda: program(a, b).block_until_ready(), repeats=_CALLS, calls=calls)
