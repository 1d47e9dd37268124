# SPDX-License-Identifier: Apache-2.0
"""Time one call on a GPU, in a jitted chain and in a jitted loop over 1024 floats."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.contenders import Contender, make_jax_add
from benchmarks.probes.gpu_contenders import make_cuda
from benchmarks.probes.modules import make_module, make_module_ffi_call, make_module_operator, make_module_without_graph
from benchmarks.probes.rounds import interleave, time_calls

MAKERS: dict[str, Callable[[], Contender]] = {
    "jax": make_jax_add,
    "cuda": make_cuda,
    "module": lambda: make_module("cuda"),
    "module_ffi_call": lambda: make_module_ffi_call("cuda"),
    "module_operator": lambda: make_module_operator("cuda"),
    "module_without_graph": make_module_without_graph,
}
_SIZE = 1024
_CHAINS = 100


def measure(chain: int, loop: int, rounds: int) -> dict[str, list[float]]:
    """Seconds per call, for each contender as `NAME_chain` and `NAME_loop`."""
    made = {name: make() for name, make in MAKERS.items()}
    timers = {f"{name}_chain": _timer(_chained(call, chain), chain, _CHAINS) for name, call in made.items()}
    timers |= {f"{name}_loop": _timer(_looped(call, loop), loop, 1) for name, call in made.items()}
    return interleave(timers, rounds)


def _chained(contender: Contender, calls: int) -> Contender:
    def chain(a: jax.Array, b: jax.Array) -> jax.Array:
        for _ in range(calls):
            a = contender(a, b)
        return a

    return jax.jit(chain)


def _looped(contender: Contender, calls: int) -> Contender:
    return jax.jit(lambda a, b: jax.lax.fori_loop(0, calls, lambda _, total: contender(total, b), a))


def _timer(program: Contender, calls: int, repeats: int) -> Callable[[], float]:
    a, b = jnp.arange(_SIZE, dtype=jnp.float32), jnp.ones(_SIZE, jnp.float32)
    for _ in range(3):  # A graph is recorded in one of the first runs.
        np.testing.assert_array_equal(program(a, b), np.asarray(a) + calls * np.asarray(b))
    return time_calls(lambda: program(a, b).block_until_ready(), repeats=repeats, calls=calls)
