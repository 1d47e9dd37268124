# SPDX-License-Identifier: Apache-2.0
"""A step of threshold and reset, in several languages: v (n,), threshold (1,), rest (1,) -> spikes (n,), v (n,)."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes import cuda
from benchmarks.probes.contenders import keep_last
from benchmarks.probes.cpp import register_handler
from benchmarks.probes.gpu_contenders import BLOCK, blocks, quiet_warp, warp_entry
from benchmarks.probes.stepping import example_timers
from benchmarks.probes.ways import Answer, Field, Way

NEURONS = Path(__file__).with_name("neurons.cu")
Step = Callable[[Any, Any, Any], Any]
_CUDA = """
extern "C" __global__ void fire(const float* v, const float* threshold, const float* rest, int* spikes, float* after,
                                int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  const bool spike = v[i] >= threshold[0];
  spikes[i] = spike;
  after[i] = spike ? rest[0] : v[i];
}
"""


def measure(ways: dict[str, int], size: int, steps: int, calls: int, rounds: int) -> Answer:
    """Seconds per step, for each way as `NAME_call` and `NAME_chain`; `calls` are made for a sample."""
    v = jnp.asarray(np.random.default_rng(0).uniform(-75, -50, size).astype(np.float32))
    threshold, rest = jnp.array([-55.0]), jnp.array([-70.0])
    spikes = np.asarray(v) >= -55
    after = np.where(spikes, np.float32(-70), np.asarray(v))

    def expected(steps: int) -> list[np.ndarray]:
        return [np.int32(spikes if steps == 1 else np.zeros(size)), after]  # who spiked is at rest

    def timers(name: str, step: Step) -> dict[str, Callable[[], float]]:
        advance = lambda state, threshold, rest: step(state[1], threshold, rest)
        return example_timers(name, advance, ((jnp.zeros(size, jnp.int32), v), threshold, rest), expected, steps, calls)

    return Field.of(WAYS, ways, timers).measure(rounds)


def _outs(v: Any) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(v.shape, jnp.int32), jax.ShapeDtypeStruct(v.shape, v.dtype)]


def _make_jax() -> Step:
    def step(v: Any, threshold: Any, rest: Any) -> Any:
        spikes = v >= threshold
        return spikes.astype(jnp.int32), jnp.where(spikes, rest, v)

    return step


def _make_cuda() -> Step:
    target = register_handler(cuda.build_handlers(NEURONS), "Lif", "bench_lif_by_hand", "CUDA")
    return lambda v, threshold, rest: jax.ffi.ffi_call(target, _outs(v))(v, threshold, rest)


def _make_cuda_kernel() -> Step:
    import brainevent

    build = keep_last(lambda size: brainevent.cuda_kernel(_CUDA, "fire", _sized(size), launch_dims=size))
    return lambda v, threshold, rest: build(v.size)(v, threshold, rest, size=v.size)


def _sized(size: int) -> list[jax.ShapeDtypeStruct]:
    return _outs(jax.ShapeDtypeStruct((size,), jnp.float32))


def _make_numba_cuda() -> Step:
    from numba import cuda as numba_cuda

    import brainevent

    @numba_cuda.jit
    def fire(v: Any, threshold: Any, rest: Any, spikes: Any, after: Any) -> None:
        i = numba_cuda.grid(1)
        if i < v.size:
            spikes[i] = v[i] >= threshold[0]
            after[i] = rest[0] if spikes[i] else v[i]

    build = keep_last(lambda size: brainevent.numba_cuda_kernel(fire, _sized(size), launch_dims=size))
    return lambda v, threshold, rest: build(v.size)(v, threshold, rest)


def _make_callable() -> Step:
    """Two kernels in a row: spikes first, and then what becomes of each neuron."""
    from numba import cuda as numba_cuda

    import brainevent

    @numba_cuda.jit
    def detect(v: Any, threshold: Any, spikes: Any) -> None:
        i = numba_cuda.grid(1)
        if i < v.size:
            spikes[i] = v[i] >= threshold[0]

    @numba_cuda.jit
    def reset(v: Any, spikes: Any, rest: Any, after: Any) -> None:
        i = numba_cuda.grid(1)
        if i < v.size:
            after[i] = rest[0] if spikes[i] else v[i]

    def fire(v: Any, threshold: Any, rest: Any, spikes: Any, after: Any, stream: Any) -> None:
        detect[blocks(v), BLOCK, stream](v, threshold, spikes)
        reset[blocks(v), BLOCK, stream](v, spikes, rest, after)

    build = keep_last(lambda size: brainevent.numba_cuda_callable(fire, _sized(size)))
    return lambda v, threshold, rest: build(v.size)(v, threshold, rest)


@functools.cache
def _warp_fire() -> Any:
    warp = quiet_warp()
    floats, integers = warp.array(dtype=warp.float32), warp.array(dtype=warp.int32)

    def fire(v, threshold, rest, spikes, after):  # type: ignore[no-untyped-def]
        i = warp.tid()
        if v[i] >= threshold[0]:
            spikes[i] = 1
            after[i] = rest[0]
        else:
            spikes[i] = 0
            after[i] = v[i]

    fire.__annotations__ = {"v": floats, "threshold": floats, "rest": floats, "spikes": integers, "after": floats}
    return warp.kernel(fire)


def _make_warp_kernel() -> Step:
    import brainevent

    fire = _warp_fire()
    build = keep_last(lambda size: brainevent.warp_kernel(fire, _sized(size), launch_dims=size))
    return lambda v, threshold, rest: build(v.size)(v, threshold, rest)


def _make_warp_jax() -> Step:
    call = warp_entry()(_warp_fire(), num_outputs=2)
    return lambda v, threshold, rest: tuple(call(v, threshold, rest))


WAYS = {
    "jax": Way(_make_jax),
    "cuda": Way(_make_cuda),
    "cuda_kernel": Way(_make_cuda_kernel, ("brainevent", "cuda.bindings")),
    "numba_cuda": Way(_make_numba_cuda, ("brainevent", "numba.cuda")),
    "callable": Way(_make_callable, ("brainevent", "numba.cuda")),
    "warp_kernel": Way(_make_warp_kernel, ("brainevent", "warp")),
    "warp_jax": Way(_make_warp_jax, ("warp",)),
}
