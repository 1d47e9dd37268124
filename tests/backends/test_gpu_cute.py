# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: CuTe DSL kernels run, in batches, in CUDA graphs, exported; and every promise of an operator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import brainevent
from brainevent import XLACustomKernel
from brainevent.languages import language

pytestmark = pytest.mark.gpu
cute = pytest.importorskip("cutlass.cute")  # wheels: nvidia-cutlass-dsl and its libs, apache-tvm-ffi
import cutlass  # noqa: E402

X = jnp.arange(1000.0)
ARGUMENTS = {"x": "input", "out": "output", "factor": "float32"}


@cute.kernel
def scale(x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32):
    i = cute.arch.block_idx()[0] * cute.arch.block_dim()[0] + cute.arch.thread_idx()[0]
    if i < cute.size(out):
        out[i] = factor * x[i]


@cute.jit
def launch(x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32, stream):
    scale(x, out, factor).launch(grid=[(cute.size(out) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


@pytest.fixture(scope="module", autouse=True)
def here():
    if why := language("cute").why_missing():
        pytest.skip(why)


def test_runs_batches_and_graphs():
    kernel = brainevent.cute_kernel(launch, X, arguments=ARGUMENTS)
    one = lambda x: kernel(x, factor=0.5)
    np.testing.assert_array_equal(one(X), 0.5 * X)
    rows = X * jnp.arange(3.0)[:, None]
    np.testing.assert_array_equal(jax.jit(jax.vmap(one))(rows), 0.5 * rows)
    odd = jnp.arange(15.0).reshape(5, 3)  # elements that begin at multiples of 4 bytes
    few = brainevent.cute_kernel(launch, odd[0], arguments=ARGUMENTS)
    np.testing.assert_array_equal(jax.vmap(lambda x: few(x, factor=2.0))(odd), 2 * odd)

    @jax.jit
    def chain(x):
        for _ in range(50):
            x = one(2 * x)
        return x

    for _ in range(3):  # XLA records a graph, and runs it again
        np.testing.assert_array_equal(chain(X), X)
    program = export.export(jax.jit(one), disabled_checks=brainevent.export_checks())(X)
    np.testing.assert_array_equal(export.deserialize(program.serialize()).call(X), 0.5 * X)


def test_every_promise():
    op = XLACustomKernel("scaled_by_cute")
    op.def_reference(lambda x, *, factor: factor * x)

    def generator(*, outs, factor):
        kernel = brainevent.cute_kernel(launch, outs[0], arguments=ARGUMENTS)
        return lambda x: [kernel(x, factor=factor)]

    op.def_cute_kernel(generator)
    report = brainevent.check(op, X, factor=0.5, outs=X)
    assert report.ok, str(report)
