# SPDX-License-Identifier: Apache-2.0
"""Kernels in Triton with their twins; importing this needs the packages triton and jax_triton."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import numpy as np
import triton
import triton.language as tl
from zoo import like

from brainevent import XLACustomKernel

BLOCK = 128


@triton.jit
def add(x, y, out, size: tl.constexpr, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < size
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, size: tl.constexpr, block: tl.constexpr):
    row, i = tl.program_id(0) * size, tl.arange(0, block)
    values = tl.load(x + row + i, mask=i < size, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + i, powers / tl.sum(powers, axis=0), mask=i < size)


@triton.jit
def parts(x, shift, positive, negative, size: tl.constexpr, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < size) + shift
    tl.store(positive + i, tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL), mask=i < size)
    tl.store(negative + i, tl.minimum(value, 0.0, propagate_nan=tl.PropagateNan.ALL), mask=i < size)


@triton.jit
def add_active_rows(spikes, weights, out, rows: tl.constexpr, columns: tl.constexpr, block: tl.constexpr):
    """Each program adds one row to what all programs share, if its neuron is active."""
    row, j = tl.program_id(0), tl.arange(0, block)
    strength = tl.load(spikes + row, mask=row < rows, other=0)
    if strength != 0:
        values = tl.load(weights + row * columns + j, mask=j < columns)
        tl.atomic_add(out + j, strength * values, mask=j < columns)


@triton.jit
def leak(v, decay, out, size: tl.constexpr, block: tl.constexpr):
    """Scale rows, each by a factor of its own: a batch is more rows."""
    row, i = tl.program_id(1), tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(v + row * size + i, mask=i < size)
    tl.store(out + row * size + i, tl.load(decay + row) * value, mask=i < size)


CONFIGS = [triton.Config({"block": block}, num_warps=warps) for block, warps in ((64, 2), (256, 4), (1024, 8))]


@triton.autotune(configs=CONFIGS, key=["size"])
@triton.jit
def halve(x, out, chosen, size: tl.constexpr, block: tl.constexpr):
    """Halve, and tell which configuration does it."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + i, tl.load(x + i, mask=i < size) / 2, mask=i < size)
    tl.store(chosen, block)


@dataclass(frozen=True)
class Written:
    """A kernel as a function of (outs, GPU), its twin in jax.numpy, and operands.

    The GPU is a compute capability such as 90, or None for the one that is here.
    """

    name: str
    generator: Callable[..., Callable[..., Any]]
    twin: Callable[..., Any]
    operands: tuple[Any, ...]
    rule: str
    whole: tuple[str, ...] = ()

    def operator(self, name, capability=None):
        op = XLACustomKernel(name)
        op.def_triton_kernel(lambda *, outs: self.generator(outs, capability))
        op.def_reference(self.twin)
        op.def_sharding_rule(self.rule, need_replication_factors=self.whole)
        return op


def blocks_of(size):
    return (triton.cdiv(size, BLOCK),)


def adding(outs, capability):
    size = outs[0].size
    return lambda x, y: jax_triton.triton_call(
        x, y, kernel=add, out_shape=like(outs[0])[0], grid=blocks_of(size), size=size, block=BLOCK,
        compute_capability=capability,
    )  # fmt: skip


def softmaxed(outs, capability):
    rows, size = outs[0].shape
    return lambda x: jax_triton.triton_call(
        x, kernel=softmax, out_shape=like(outs[0])[0], grid=(rows,), size=size, block=triton.next_power_of_2(size),
        num_warps=2, compute_capability=capability,
    )  # fmt: skip


def parted(outs, capability):
    size = outs[0].size
    return lambda x: jax_triton.triton_call(
        x, 0.5, kernel=parts, out_shape=like(*outs), grid=blocks_of(size), size=size, block=BLOCK,
        compute_capability=capability,
    )  # fmt: skip


def active(outs, capability):
    columns = outs[0].size
    return lambda spikes, weights: jax_triton.triton_call(
        spikes, weights, kernel=add_active_rows, out_shape=like(outs[0])[0],
        grid=(max(1, spikes.size),), zeroed_outputs=(0,),  # a launch of no programs is refused, and would zero nothing
        rows=spikes.size, columns=columns, block=triton.next_power_of_2(columns), compute_capability=capability,
    )  # fmt: skip


def leaking(outs, capability):
    """A kernel that takes a whole batch in one launch."""
    size = outs[0].shape[0]

    @jax.custom_batching.custom_vmap
    def call(v, decay):
        return jax_triton.triton_call(
            v, decay, kernel=leak, out_shape=like(v)[0], grid=(triton.cdiv(size, BLOCK), v.size // size), size=size,
            block=BLOCK, compute_capability=capability,
        )  # fmt: skip

    @call.def_vmap
    def rule(count, mapped, *operands):
        whole = [x if m else jnp.broadcast_to(x, (count, *x.shape)) for x, m in zip(operands, mapped, strict=True)]
        return call(*whole), True

    return call


def halved(x, capability=None):
    """Return half of x, and the block size that was found to be the fastest."""
    outs = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.int32))
    return jax_triton.triton_call(
        x, kernel=halve, out_shape=outs, grid=lambda config: (triton.cdiv(x.size, config["block"]),), size=x.size,
        compute_capability=capability,
    )  # fmt: skip


X = np.linspace(-2, 3, 300, dtype=np.float32)
MATRIX = np.linspace(-1, 1, 8 * 24, dtype=np.float32).reshape(8, 24)
KERNELS = {
    kernel.name: kernel
    for kernel in (
        Written("adding", adding, lambda x, y: x + y, (X, X[::-1].copy()), "i, i -> i"),
        Written("softmaxed", softmaxed, lambda x: jax.nn.softmax(x, axis=1), (MATRIX,), "i j -> i j", ("j",)),
        Written("parted", parted, lambda x: (jnp.maximum(x + 0.5, 0), jnp.minimum(x + 0.5, 0)), (X,), "i -> i, i"),
        Written("active", active, lambda spikes, weights: jnp.matmul(spikes, weights, precision="highest"),
                (np.array([0, 1, 0, 0, 1, 0, 2, 0], np.float32), MATRIX), "i, i j -> j", ("i",)),
        Written("leaking", leaking, lambda v, decay: decay * v, (X, np.float32([0.5])), "i, k -> i", ("k",)),
    )
}  # fmt: skip
IN_ONE_LAUNCH = ("leaking",)
