# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: cuTile kernels run, in batches, in CUDA graphs, exported; and every promise of an operator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import brainevent
from brainevent import XLACustomKernel
from brainevent.languages import language

pytestmark = pytest.mark.gpu
ct = pytest.importorskip("cuda.tile")  # wheels: cuda-tile, nvidia-cuda-tileiras, nvidia-nvvm, nvidia-cuda-nvcc

X = jnp.arange(1000.0)
TILE = 128


@ct.kernel
def scale(x, out, factor, tile: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=factor * ct.load(x, index=(i,), shape=(tile,)))


@ct.kernel
def halve(x, tile: ct.Constant[int]):
    ct.store(x, index=(ct.bid(0),), tile=ct.load(x, index=(ct.bid(0),), shape=(tile,)) / 2)


@ct.kernel
def multiply(a, b, out, tile: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tile, tile), dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(tile, tile))):
        x = ct.load(a, index=(i, k), shape=(tile, tile), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, j), shape=(tile, tile), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(out, index=(i, j), tile=total)


@pytest.fixture(scope="module", autouse=True)
def here():
    if why := language("cutile").why_missing():
        pytest.skip(why)


def blocks(x, *_):
    return -(-x.size // TILE)


def test_runs_batches_and_graphs():
    kernel = brainevent.cutile_kernel(scale, X, grid=blocks)
    one = lambda x: kernel(x, factor=0.5, tile=TILE)
    np.testing.assert_array_equal(one(X), 0.5 * X)
    rows = X * jnp.arange(3.0)[:, None]
    np.testing.assert_array_equal(jax.jit(jax.vmap(one))(rows), 0.5 * rows)
    odd = jnp.arange(15.0).reshape(5, 3)  # elements that begin at multiples of 4 bytes
    few = brainevent.cutile_kernel(scale, odd[0], grid=1)
    np.testing.assert_array_equal(jax.vmap(lambda x: few(x, factor=2.0, tile=4))(odd), 2 * odd)

    @jax.jit
    def chain(x):
        for _ in range(50):
            x = one(2 * x)
        return x

    for _ in range(3):  # XLA records a graph, and runs it again
        np.testing.assert_array_equal(chain(X), X)
    program = export.export(jax.jit(one), disabled_checks=brainevent.export_checks())(X)
    np.testing.assert_array_equal(export.deserialize(program.serialize()).call(X), 0.5 * X)


def test_updates_in_place_leave_the_input_alone():
    kernel = brainevent.cutile_kernel(halve, X, grid=blocks, inout={"x": 0})
    np.testing.assert_array_equal(jax.jit(lambda x: kernel(x, tile=TILE) + x)(X), 1.5 * X)


def test_a_product_of_matrices():
    a, b = (jnp.arange(n * m, dtype=jnp.float32).reshape(n, m) % 7 for n, m in ((70, 50), (50, 90)))
    out = jax.ShapeDtypeStruct((70, 90), jnp.float32)
    kernel = brainevent.cutile_kernel(multiply, out, grid=(-(-70 // 32), -(-90 // 32)))
    np.testing.assert_allclose(kernel(a, b, tile=32), np.asarray(a) @ np.asarray(b), rtol=1e-2)


def test_every_promise():
    op = XLACustomKernel("scaled_in_tiles")
    op.def_reference(lambda x, *, factor: factor * x)

    def generator(*, outs, factor):
        kernel = brainevent.cutile_kernel(scale, outs, grid=blocks)
        return lambda x: kernel(x, factor=factor, tile=TILE)

    op.def_cutile_kernel(generator)
    report = brainevent.check(op, X, factor=0.5, outs=X)
    assert report.ok, str(report)
