# SPDX-License-Identifier: Apache-2.0
"""Loops that call operators with kernels of Numba-CUDA, what these compute, and steps that keep numbers small."""

import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax import lax
from numba import cuda

import brainevent as be

STEPS, BLOCK = 40, 48
TABLE = np.array([3, -1, 0.5, 2], np.float32)


@cuda.jit
def leak(x, chosen, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = numba.float32(0.5) * x[i] + cuda.gridDim.x if chosen[i] else x[i]


@cuda.jit
def moved_onto(x, chosen, zeros, out):
    i = cuda.grid(1)
    if i >= out.size:
        return
    if chosen[i]:
        cuda.atomic.add(out, (i + 1) % out.size, 2 * x[i])


@cuda.jit
def looked_up(x, chosen, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + TABLE[i % 4]


@cuda.jit
def turned(x, chosen, out):
    """Reverse the elements of each block.

    Threads of a block meet before any
    of them ends.
    """
    all_of_block = cuda.shared.array(64, numba.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    all_of_block[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    if i < x.size:
        out[i] = all_of_block[63 - t]


@cuda.jit
def on_a_grid(x, chosen, out):
    i, j = cuda.grid(2)
    if i < x.size // 10 and j < 10:
        out[10 * i + j] = x[10 * i + j] if (i + j) % 3 else -x[10 * i + j]


@cuda.jit
def own(x, chosen, out):
    """Double elements. Thread t reads x[t] alone. Thread t reads chosen[t] alone."""
    i = cuda.grid(1)
    if i < out.size:
        out[(i + 1) % out.size] = 2 * x[i] if chosen[i] else 0


@cuda.jit
def alone(x, chosen, out):
    """Halve elements. Thread t reads x[t] alone. Thread t reads chosen[t] alone. Thread t writes out[t] alone."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 0.5 * x[i] if chosen[i] else -x[i]


@cuda.jit
def rounded(x, chosen, out):
    """Compute what a driver may merge: a product with several readers."""
    i = cuda.grid(1)
    if i < out.size:
        product = x[i] * numba.float32(1.1)
        out[i] = (product + numba.float32(0.3)) * (product - numba.float32(0.7)) * product


@cuda.jit
def functions(x, chosen, out):
    """Call functions, and index memory of the thread's own."""
    i = cuda.grid(1)
    if i < out.size:
        terms = cuda.local.array(4, numba.float32)
        terms[0], terms[1] = math.sin(x[i] * numba.float32(1e5)), math.exp(x[i])
        terms[2], terms[3] = math.pow(abs(x[i]), numba.float32(1.5)), numba.float32(1) / (x[i] + numba.float32(9))
        out[i] = terms[i % 4] - terms[int(abs(x[i]) * 7) % 4] / 3


@cuda.jit
def summed_in_warps(x, chosen, out):
    """Sum over the lanes of a warp. Lanes of a warp end together."""
    i = cuda.grid(1)
    total = x[i] if i < x.size else numba.float32(0)
    for k in range(5):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << k)
    if i < out.size:
        out[i] = total / 32


def of(kernel, name=None, reference=None, **how):
    """Return an operator with a kernel of Numba-CUDA."""
    operator = be.XLACustomKernel(name or f"{kernel.py_func.__name__}_of_numba_cuda_in_loops")

    def kernel_of(*, outs):
        [out] = outs
        call = be.numba_cuda_kernel(kernel, outs=out, **{"launch_dims": out.shape, "threads_per_block": BLOCK, **how})
        given = [jnp.zeros(out.shape, out.dtype)] if "input_output_aliases" in how else []
        return lambda x, chosen: [call(x, chosen, *given)]

    operator.def_numba_cuda_kernel(kernel_of)
    if reference is not None:
        operator.def_reference(lambda x, chosen, *, outs: [reference(x, chosen)])
    return operator


def _turned(x, chosen):
    n = x.shape[0]
    return jnp.pad(x, (0, -n % 64)).reshape(-1, 64)[:, ::-1].reshape(-1)[:n]


def _signs(x, chosen):
    i, j = np.indices((x.shape[0] // 10, 10))
    return jnp.where(((i + j) % 3).reshape(-1) != 0, x, -x)


def _moved(x, chosen):
    return jnp.roll(jnp.where(chosen, 2 * x, 0), 1)


@functools.cache
def operators(n):
    """Return operators of arrays of n elements, a multiple of 10, by names; they compute exactly what is written."""
    rows = n // 10
    return {
        "leak": of(leak, f"leak{n}", lambda x, chosen: jnp.where(chosen, 0.5 * x + -(-n // BLOCK), x)),
        "atomic": of(moved_onto, f"atomic{n}", _moved, input_output_aliases={2: 0}),
        "table": of(looked_up, f"table{n}", lambda x, chosen: x + jnp.resize(TABLE, n)),
        "shared": of(turned, f"shared{n}", _turned, threads_per_block=64),
        "two axes": of(on_a_grid, f"axes{n}", _signs, launch_dims=(rows, 10), threads_per_block=256),
        "own": of(own, f"own{n}", _moved, threads_per_block=32),
        "alone": of(alone, f"alone{n}", lambda x, chosen: jnp.where(chosen, 0.5 * x, -x), threads_per_block=64),
    }


def looped(*operators, steps=STEPS):
    """Return a loop that calls operators one after the other."""

    def run(v):
        def step(v, _):
            out = v
            for operator in operators:
                (out,) = operator(out, out > 0, outs=[jax.ShapeDtypeStruct(v.shape, v.dtype)])
            return out * 0.0625 - 0.5, out

        return lax.scan(step, v, length=steps)

    return run


def loops(n):
    """Return loops over arrays of n elements."""
    all_of_them = operators(n)
    found = {name: looped(operator) for name, operator in all_of_them.items()}
    found["all of them"] = looped(*all_of_them.values(), all_of_them["leak"])
    found["a batch"] = lambda v: jax.vmap(found["atomic"])(jnp.stack([v, -v, v[::-1]]))
    found["a batch of blocks"] = lambda v: jax.vmap(found["shared"])(jnp.stack([v, -v]))
    return found
