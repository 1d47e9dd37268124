# SPDX-License-Identifier: Apache-2.0
"""Warp kernels that several tests run, on the CPU and on the GPU; Warp wants them in a file."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import warp as wp

import brainevent

FLOATS = wp.array(dtype=wp.float32)
INTS = wp.array(dtype=wp.int32)


def need_compiler_for_cpus():
    """Skip with a Warp that was built without it: wheels have it."""
    if not wp.is_cpu_available():
        pytest.skip("this Warp was built without its compiler for CPUs, warp-clang")


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@wp.kernel
def add(x: FLOATS, y: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = x[i] + y[i]


@wp.kernel
def affine(scale: wp.float32, x: FLOATS, shift: wp.float32, out: FLOATS):
    i = wp.tid()
    out[i] = scale * x[i] + shift


@wp.kernel
def copy(x: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x[i]


@wp.kernel
def outer(x: FLOATS, y: FLOATS, product: wp.array2d(dtype=wp.float32), difference: wp.array2d(dtype=wp.float32)):
    i, j = wp.tid()
    product[i, j] = x[i] * y[j]
    difference[i, j] = x[i] - y[j]


@wp.kernel
def scatter(x: FLOATS, where: INTS, out: FLOATS):
    i = wp.tid()
    wp.atomic_add(out, where[i], x[i])


@wp.kernel
def scatter_onto(x: FLOATS, where: INTS, start: FLOATS, out: FLOATS):
    i = wp.tid()
    wp.atomic_add(out, where[i], x[i])


@wp.kernel
def lengths(x: wp.array(dtype=wp.vec3), m: wp.mat33, out: FLOATS):
    i = wp.tid()
    out[i] = wp.length(m * x[i])


@wp.kernel
def place(out: wp.array(dtype=wp.int32, ndim=4)):
    i, j, k, m = wp.tid()
    out[i, j, k, m] = 1000 * i + 100 * j + 10 * k + m


@wp.kernel
def csr(weights: FLOATS, indices: INTS, indptr: INTS, spikes: wp.array(dtype=wp.bool), posts: FLOATS):
    i = wp.tid()
    if spikes[i]:
        for j in range(indptr[i], indptr[i + 1]):
            wp.atomic_add(posts, indices[j], weights[0])


@wp.kernel
def tile_squares(x: FLOATS, out: FLOATS):
    i = wp.tid()
    tile = wp.tile_load(x, shape=8, offset=8 * i, storage="shared")
    wp.tile_atomic_add(out, wp.tile_sum(wp.tile_map(wp.mul, tile, tile)), offset=i)


@wp.struct
class Line:
    slope: wp.float32
    offset: wp.vec2


@wp.kernel
def on_line(line: Line, x: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = line.slope * x[i] + line.offset[1]


@wp.kernel
def sine(x: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = wp.sin(x[i])


def added(x, y):
    """Add two vectors."""
    return brainevent.warp_kernel(add, like(x), launch_dims=x.shape)(x, y)


def scattered(x, where, size):
    """Sum by index."""
    out = jax.ShapeDtypeStruct((size,), jnp.float32)
    return brainevent.warp_kernel(scatter, out, launch_dims=x.shape, zeroed=True)(x, where)
