# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: cuTile kernels run, in batches, in CUDA graphs, exported; and every promise of an operator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scaling_kernels import X, check_every_promise, check_runs_batches_and_graphs

import brainevent
from brainevent.languages import language

pytestmark = pytest.mark.gpu
ct = pytest.importorskip("cuda.tile")  # wheels: cuda-tile, nvidia-cuda-tileiras, nvidia-nvvm, nvidia-cuda-nvcc
from test_cutile import halve, scale  # noqa: E402

TILE = 128


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


def scaled(x, factor):
    return brainevent.cutile_kernel(scale, x, grid=blocks)(x, factor=factor, shift=0, tile=TILE)


def test_runs_batches_and_graphs():
    check_runs_batches_and_graphs(scaled)


def test_every_promise():
    check_every_promise("cutile", scaled)


def test_updates_in_place_leave_the_input_alone():
    kernel = brainevent.cutile_kernel(halve, X, grid=blocks, inout={"x": 0})
    np.testing.assert_array_equal(jax.jit(lambda x: kernel(x, tile=TILE) + x)(X), 1.5 * X)


def test_a_product_of_matrices():
    a, b = (jnp.arange(n * m, dtype=jnp.float32).reshape(n, m) % 7 for n, m in ((70, 50), (50, 90)))
    out = jax.ShapeDtypeStruct((70, 90), jnp.float32)
    kernel = brainevent.cutile_kernel(multiply, out, grid=(-(-70 // 32), -(-90 // 32)))
    np.testing.assert_allclose(kernel(a, b, tile=32), np.asarray(a) @ np.asarray(b), rtol=1e-2)
