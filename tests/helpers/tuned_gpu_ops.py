# SPDX-License-Identifier: Apache-2.0
"""An operator with kernels of several languages and speeds on a GPU, for tests in this process and in others."""

import jax
import jax.numpy as jnp

import brainevent

X = jnp.arange(1.0, 4097.0)
SOURCE = """
__global__ void doubled(const float* x, float* out, int n, int turns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float y = x[i];
  for (int k = 0; k < turns; k++) y = cosf(y);
  out[i] = y > 2.f ? 0.f : 2.f * x[i];
}
"""


def in_cuda(*, outs, turns, threads):
    kernel = brainevent.cuda_kernel(SOURCE, "doubled", outs, launch_dims=outs[0].shape, threads_per_block=threads)
    return lambda x: kernel(x, n=x.size, turns=turns)


def in_numba(*, outs):
    from numba import cuda

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]

    return brainevent.numba_cuda_kernel(kernel, outs=outs, launch_dims=outs[0].shape)


def wrong(*, outs):
    return lambda x: x + 1


def doubling(name):
    """Return an operator with a slow default, in two variants, a slow reference, a fast kernel and a wrong one."""
    operator = brainevent.XLACustomKernel(name)
    operator.def_kernel("cuda", "gpu", in_cuda, variants={"turns": (100_000,), "threads": (64, 128)})
    operator.def_kernel("numba_cuda", "gpu", in_numba)
    operator.def_kernel("wrong", "gpu", wrong)
    operator.def_reference(lambda x: 2 * jax.lax.fori_loop(0, 3_000, lambda i, y: jnp.cos(y) * 0 + x, x))
    operator.def_call(operator)
    operator.def_benchmark_data(
        lambda *, platform: [
            brainevent.BenchmarkConfig(f"n={n}", (X[:n],), data_kwargs={"n": n}, bytes=8 * n, flops=n)
            for n in (256, 4096)
        ]
    )
    return operator
