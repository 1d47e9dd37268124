# SPDX-License-Identifier: Apache-2.0
"""Two kernels in every language: x * y of vectors, and w @ x of a matrix and a vector."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import pytest
from zoo import like, matvec, product

import brainevent

BLOCK = 128


@dataclass(frozen=True)
class LanguageKernels:
    """Two kernels in one language: its backend's name, and a function that makes both generators."""

    backend: str
    generators: Callable[[], tuple[Callable[..., Any], Callable[..., Any]]]

    def animals(self, name, platform):
        """Return the two operators, with a kernel for one platform; skip where the language is missing."""
        try:
            multiply, rows = self.generators()
        except ImportError as missing:
            pytest.skip(str(missing))

        def register(generator, twin, rule, **factors):
            def on(operator):
                operator.def_kernel(self.backend, platform, generator)
                operator.def_reference(twin)
                operator.def_sharding_rule(rule, **factors)

            return on

        return (
            product(f"{name}_product", register(multiply, jnp.multiply, "i, i -> i")),
            # Pallas wants powers of two, and the transposed matrix is an operand, too.
            matvec(
                f"{name}_matvec", register(rows, jnp.matmul, "m k, k -> m", reduction_factors=("k",)), lambda n: 2 * n
            ),
        )


CUDA_CPP = r"""
#include <cuda_runtime.h>
#include "brainevent/common.h"

__global__ void multiply_kernel(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * y[i];
}

__global__ void rows_kernel(const float* w, const float* x, float* out, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  float total = 0;
  for (int j = 0; j < n; ++j) total += w[i * n + j] * x[j];
  out[i] = total;
}

// @BE multiply arg arg ret stream
void multiply(const BE::Tensor x, const BE::Tensor y, BE::Tensor out, int64_t stream) {
  int n = x.numel();
  multiply_kernel<<<(n + 127) / 128, 128, 0, (cudaStream_t)stream>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<const float*>(y.data_ptr()),
      static_cast<float*>(out.data_ptr()), n);
}

// @BE rows arg arg ret stream
void rows(const BE::Tensor w, const BE::Tensor x, BE::Tensor out, int64_t stream) {
  int m = w.size(0), n = w.size(1);
  rows_kernel<<<(m + 127) / 128, 128, 0, (cudaStream_t)stream>>>(
      static_cast<const float*>(w.data_ptr()), static_cast<const float*>(x.data_ptr()),
      static_cast<float*>(out.data_ptr()), m, n);
}
"""


def cuda_cpp():
    module = brainevent.load_cuda_inline("language_kernels", CUDA_CPP)
    generator = lambda function: lambda *, outs: lambda *xs: function(*xs, outs=like(outs[0])[0])
    return generator(module.multiply), generator(module.rows)


def numba_cuda_functions():
    from numba import cuda

    @cuda.jit
    def multiply(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * y[i]

    @cuda.jit
    def rows(w, x, out):
        i = cuda.grid(1)
        if i < out.size:
            total = 0.0
            for j in range(x.size):
                total += w[i, j] * x[j]
            out[i] = total

    return multiply, rows


def numba_cuda():
    def generator(kernel):
        return lambda *, outs: brainevent.numba_cuda_kernel(
            kernel, outs=like(outs[0])[0], launch_dims=outs[0].shape[0], threads_per_block=BLOCK
        )

    return tuple(map(generator, numba_cuda_functions()))


def numba_cuda_recorded():
    """Each through a temporary array and a second kernel."""
    from numba import cuda

    @cuda.jit
    def halve(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 0.5 * x[i]

    @cuda.jit
    def double(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]

    def generator(kernel):
        def run(a, b, out, stream):
            half, result = cuda.device_array(b.shape, b.dtype), cuda.device_array(out.shape, out.dtype)
            halve[b.shape[0] // BLOCK + 1, BLOCK, stream](b, half)
            kernel[out.shape[0] // BLOCK + 1, BLOCK, stream](a, half, result)
            double[out.shape[0] // BLOCK + 1, BLOCK, stream](result, out)

        return lambda *, outs: brainevent.numba_cuda_callable(run, outs=like(outs[0])[0])

    return tuple(map(generator, numba_cuda_functions()))


def warp_kernels():
    import warp

    @warp.kernel
    def multiply(x: warp.array(dtype=warp.float32), y: warp.array(dtype=warp.float32), out: warp.array(dtype=float)):
        i = warp.tid()
        out[i] = x[i] * y[i]

    @warp.kernel
    def rows(w: warp.array2d(dtype=float), x: warp.array(dtype=float), out: warp.array(dtype=float)):
        i, j = warp.tid()
        warp.atomic_add(out, i, w[i, j] * x[j])

    return multiply, rows


def warp():
    multiply, rows = warp_kernels()
    return (
        lambda *, outs: brainevent.warp_kernel(multiply, like(outs[0])[0], launch_dims=outs[0].shape),
        lambda *, outs: (
            lambda w, x: brainevent.warp_kernel(rows, like(outs[0])[0], launch_dims=w.shape, zeroed=True)(w, x)
        ),
    )


RAW = """
template <typename T> __device__ T product(T x, T y) { return x * y; }

__global__ void multiply(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = product(x[i], y[i]);
}

__global__ void rows(const float* w, const float* x, float* out, int n) {
  atomicAdd(out + blockIdx.x, w[blockIdx.x * n + threadIdx.x] * x[threadIdx.x]);
}
"""


def raw_cuda():
    def multiply(*, outs):
        kernel = brainevent.cuda_kernel(RAW, "multiply", like(outs[0])[0], launch_dims=lambda x, y, out: out.shape)
        return lambda x, y: kernel(x, y, n=x.size)

    def rows(*, outs):
        sizes = {"grid": lambda w, x, out: out.shape, "block": lambda w, x, out: x.shape}
        kernel = brainevent.cuda_kernel(RAW, "rows", like(outs[0])[0], zeroed=True, **sizes)
        return lambda w, x: kernel(w, x, n=x.size)

    return multiply, rows


def triton():
    import jax_triton
    import triton
    import triton.language as tl

    @triton.jit
    def multiply(x, y, out, n: tl.constexpr, block: tl.constexpr):
        i = tl.program_id(0) * block + tl.arange(0, block)
        product = tl.load(x + i, mask=i < n) * tl.load(y + i, mask=i < n)
        tl.store(out + i, product, mask=i < n)

    @triton.jit
    def rows(w, x, out, n: tl.constexpr, block: tl.constexpr):
        row, j = tl.program_id(0), tl.arange(0, block)
        terms = tl.load(w + row * n + j, mask=j < n, other=0.0) * tl.load(x + j, mask=j < n, other=0.0)
        tl.store(out + row, tl.sum(terms))

    def call(kernel, grid_of):
        def generator(*, outs):
            def run(a, b):
                n = b.shape[0]
                block = triton.next_power_of_2(n)
                grid = grid_of(outs[0].shape[0], block)
                return jax_triton.triton_call(
                    a, b, kernel=kernel, out_shape=like(outs[0])[0], grid=grid, n=n, block=block
                )

            return run

        return generator

    return call(multiply, lambda n, block: (triton.cdiv(n, block),)), call(rows, lambda m, block: (m,))


def pallas():
    from jax.experimental import pallas as pl

    def multiply(x, y, out):
        out[...] = x[...] * y[...]

    def rows(w, x, out):
        out[...] = (w[...] * x[...]).sum(1)

    def of_rows(*, outs):
        m = outs[0].shape[0]

        def run(w, x):
            n = x.shape[0]
            row, whole = pl.BlockSpec((1, n), lambda i: (i, 0)), pl.BlockSpec((n,), lambda i: (0,))
            return pl.pallas_call(
                rows,
                out_shape=like(outs[0])[0],
                grid=(m,),
                in_specs=[row, whole],
                out_specs=pl.BlockSpec((1,), lambda i: (i,)),
            )(w, x)

        return run

    return lambda *, outs: pl.pallas_call(multiply, out_shape=like(outs[0])[0]), of_rows


LANGUAGE_KERNELS = {
    "cuda_cpp": LanguageKernels("cuda_raw", cuda_cpp),
    "numba_cuda": LanguageKernels("numba_cuda", numba_cuda),
    "numba_cuda_recorded": LanguageKernels("numba_cuda", numba_cuda_recorded),
    "warp": LanguageKernels("warp", warp),
    "raw_cuda": LanguageKernels("nvrtc", raw_cuda),
    "triton": LanguageKernels("triton", triton),
    "pallas": LanguageKernels("pallas", pallas),
}
EMULATED = ("numba_cuda", "numba_cuda_recorded", "warp", "pallas")  # those that run on the CPU, too
