# SPDX-License-Identifier: Apache-2.0
"""Time the vmap of an operator: our native loop over the batch, against a scan."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.contenders import SIZE, Contender, make_cpp, make_numba_kernel, make_operator
from benchmarks.probes.modules import make_module_operator
from benchmarks.probes.rounds import interleave, time_calls

_LOOP = 20


def measure(batch: int, rounds: int) -> dict[str, list[float]]:
    """Seconds per batch; names ending in `_loop` were called from inside a jitted loop."""
    kernel = make_numba_kernel()
    ways: dict[str, Contender] = {
        "native": jax.vmap(make_operator("bench_native")),
        "native_cpp": jax.vmap(make_module_operator("cpp")),
        "scan": jax.vmap(make_operator("bench_scan", general_batching=True)),
        "map": lambda a, b: jax.lax.map(lambda pair: kernel(*pair), (a, b)),
        "cpp_whole": jax.vmap(make_cpp(vmap_method="broadcast_all")),
        "cpp_scan": jax.vmap(make_cpp(vmap_method="sequential")),
    }
    a = jnp.arange(batch * SIZE, dtype=jnp.float32).reshape(batch, SIZE) % 1024
    b = jnp.ones((batch, SIZE), jnp.float32)
    timers = {name: _call_timer(way, a, b) for name, way in ways.items()}
    timers |= {f"{name}_loop": _loop_timer(way, a, b) for name, way in ways.items()}
    return interleave(timers, rounds)


def _call_timer(way: Contender, a: jax.Array, b: jax.Array) -> Callable[[], float]:
    call = jax.jit(way)
    np.testing.assert_array_equal(call(a, b), np.asarray(a) + np.asarray(b))
    return time_calls(lambda: call(a, b).block_until_ready(), repeats=_LOOP)


def _loop_timer(way: Contender, a: jax.Array, b: jax.Array) -> Callable[[], float]:
    loop = jax.jit(lambda a, b: jax.lax.fori_loop(0, _LOOP, lambda _, total: way(total, b), a))
    np.testing.assert_array_equal(loop(a, b), np.asarray(a) + _LOOP * np.asarray(b))
    return time_calls(lambda: loop(a, b).block_until_ready(), calls=_LOOP)
