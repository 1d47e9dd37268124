# SPDX-License-Identifier: Apache-2.0
"""Spikes times a sparse matrix: `binary_csrmv` in each of its languages, and the shortest kernel there is, in several.

weights (1,), indices (n,), indptr (n_pre + 1,), spikes (n_pre,) -> (n_post,): each spike adds the one weight to all
columns of its row. The shortest kernel leaves each row to one thread.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes import cuda
from benchmarks.probes.cpp import register_handler
from benchmarks.probes.gpu_contenders import quiet_warp, warp_entry
from benchmarks.probes.gpu_lif import NEURONS
from benchmarks.probes.stepping import example_timers
from benchmarks.probes.ways import Answer, Field, Way

# (weights, indices, indptr, spikes, *more) -> post; and what more there is.
Product = tuple[Callable[..., Any], tuple[Any, ...]]
_WEIGHT = 0.125  # sums of it are exact, in any order
_OPERATOR = {  # the languages of its kernels for GPUs, and what each needs
    "cuda_raw": ("cuda.bindings",),
    "numba_cuda": ("numba.cuda",),
    "warp": ("warp",),
    "triton": ("triton", "jax_triton"),
    "pallas": (),
}
_CUDA = """
extern "C" __global__ void spike_rows(const float* weights, const int* indices, const int* indptr, const bool* spikes,
                                      float* post, int n_pre) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n_pre || !spikes[i]) return;
  const float weight = weights[0];
  for (int j = indptr[i]; j < indptr[i + 1]; ++j) atomicAdd(&post[indices[j]], weight);
}
"""


@dataclass(frozen=True)
class Network:
    """Connections drawn at random, the same number from each neuron."""

    n_pre: int
    n_post: int
    fan_out: int

    def draw(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices (n_pre * fan_out,), indptr (n_pre + 1,), and spikes of a tenth of the neurons (n_pre,)."""
        rng = np.random.default_rng(42)
        indices = rng.integers(0, self.n_post, self.n_pre * self.fan_out, dtype=np.int32)
        return indices, np.arange(self.n_pre + 1, dtype=np.int32) * self.fan_out, rng.random(self.n_pre) < 0.1

    @property
    def out(self) -> jax.ShapeDtypeStruct:
        """What comes out."""
        return jax.ShapeDtypeStruct((self.n_post,), jnp.float32)


def measure(ways: dict[str, int], n_pre: int, n_post: int, fan_out: int, steps: int, calls: int, rounds: int) -> Answer:
    """Seconds per product, for each way as `NAME_call` and `NAME_chain`; `calls` are made for a sample."""
    network = Network(n_pre, n_post, fan_out)
    indices, indptr, spikes = network.draw()
    active = indices.reshape(n_pre, fan_out)[spikes].reshape(-1)
    expected = [np.bincount(active, minlength=n_post).astype(np.float32) * np.float32(_WEIGHT)]
    weights = jnp.array([_WEIGHT])
    arrays = ([], weights, jnp.asarray(indices), jnp.asarray(indptr), jnp.asarray(spikes))

    def timers(name: str, made: Any) -> dict[str, Callable[[], float]]:
        product, more = made

        def advance(state: Any, weights: Any, *operands: Any) -> Any:
            # Without this, the products of a chain would be one: they have the same operands.
            return [product(weights + 0 * state[0][:1] if state else weights, *operands)]

        return example_timers(name, advance, (*arrays, *more), lambda _: expected, steps, calls)

    made = {name: Way(functools.partial(way.make, network), way.packages) for name, way in WAYS.items()}
    return Field.of(made, ways, timers).measure(rounds)


def _make_dense(network: Network) -> Product:
    indices, _, _ = network.draw()
    matrix = np.zeros((network.n_pre, network.n_post), np.float32)
    np.add.at(matrix, (np.repeat(np.arange(network.n_pre), network.fan_out), indices), 1)

    def product(weights: Any, indices: Any, indptr: Any, spikes: Any, matrix: Any) -> Any:
        return jnp.where(spikes, weights, 0) @ matrix

    return product, (jnp.asarray(matrix),)


def _make_segment_sum(network: Network) -> Product:
    def product(weights: Any, indices: Any, indptr: Any, spikes: Any, rows: Any) -> Any:
        return jax.ops.segment_sum(jnp.where(spikes, weights, 0)[rows], indices, network.n_post)

    return product, (jnp.repeat(jnp.arange(network.n_pre, dtype=jnp.int32), network.fan_out),)


def _make_cuda(network: Network) -> Product:
    target = register_handler(cuda.build_handlers(NEURONS), "Csr", "bench_csr_by_hand", "CUDA")
    return jax.ffi.ffi_call(target, network.out), ()


def _make_operator(network: Network, backend: str) -> Product:
    import brainevent

    shape = (network.n_pre, network.n_post)
    return functools.partial(brainevent.binary_csrmv, shape=shape, transpose=True, backend=backend), ()


def _make_cuda_kernel(network: Network) -> Product:
    import brainevent

    call = brainevent.cuda_kernel(_CUDA, "spike_rows", network.out, launch_dims=network.n_pre, zeroed=True)
    return lambda *arrays: call(*arrays, n_pre=network.n_pre), ()


def _make_numba_cuda(network: Network) -> Product:
    from numba import cuda as numba_cuda

    import brainevent

    @numba_cuda.jit
    def spike_rows(weights: Any, indices: Any, indptr: Any, spikes: Any, zeros: Any, post: Any) -> None:
        i = numba_cuda.grid(1)
        if i < spikes.size and spikes[i]:
            for j in range(indptr[i], indptr[i + 1]):
                numba_cuda.atomic.add(post, indices[j], weights[0])

    call = brainevent.numba_cuda_kernel(spike_rows, network.out, launch_dims=network.n_pre, input_output_aliases={4: 0})
    return lambda *arrays: call(*arrays, jnp.zeros(network.n_post)), ()


@functools.cache
def _warp_spike_rows() -> Any:
    warp = quiet_warp()
    floats, integers, flags = (warp.array(dtype=kind) for kind in (warp.float32, warp.int32, warp.bool))

    def spike_rows(weights, indices, indptr, spikes, post):  # type: ignore[no-untyped-def]
        i = warp.tid()
        if spikes[i]:
            for j in range(indptr[i], indptr[i + 1]):
                warp.atomic_add(post, indices[j], weights[0])

    spike_rows.__annotations__ = {
        "weights": floats, "indices": integers, "indptr": integers, "spikes": flags, "post": floats
    }  # fmt: skip
    return warp.kernel(spike_rows)


def _make_warp_kernel(network: Network) -> Product:
    import brainevent

    return brainevent.warp_kernel(_warp_spike_rows(), network.out, launch_dims=network.n_pre, zeroed=True), ()


def _make_warp_jax(network: Network) -> Product:
    call = warp_entry()(_warp_spike_rows(), launch_dims=[network.n_pre], in_out_argnames=["post"])
    return lambda *arrays: call(*arrays, jnp.zeros(network.n_post))[0], ()


@dataclass(frozen=True)
class _NetworkWay:
    """A way that is made for a network."""

    make: Callable[[Network], Product]
    packages: tuple[str, ...] = ()


WAYS = {
    "dense": _NetworkWay(_make_dense),
    "segment_sum": _NetworkWay(_make_segment_sum),
    "cuda": _NetworkWay(_make_cuda),
    **{
        f"operator_{backend}": _NetworkWay(functools.partial(_make_operator, backend=backend), ("brainevent", *needs))
        for backend, needs in _OPERATOR.items()
    },
    "cuda_kernel": _NetworkWay(_make_cuda_kernel, ("brainevent", "cuda.bindings")),
    "numba_cuda": _NetworkWay(_make_numba_cuda, ("brainevent", "numba.cuda")),
    "warp_kernel": _NetworkWay(_make_warp_kernel, ("brainevent", "warp")),
    "warp_jax": _NetworkWay(_make_warp_jax, ("warp",)),
}
