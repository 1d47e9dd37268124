# SPDX-License-Identifier: Apache-2.0
"""What a kernel that multiplies an array by a number must do on a GPU, in whichever language it is written."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

import brainevent

X = jnp.arange(1000.0)


def check_runs_batches_and_graphs(scaled):
    """Run `scaled(x, factor)`, (n,) -> (n,), alone, in batches, in a CUDA graph, and exported."""
    half = lambda x: scaled(x, 0.5)
    np.testing.assert_array_equal(half(X), 0.5 * X)
    rows = X * jnp.arange(3.0)[:, None]
    np.testing.assert_array_equal(jax.jit(jax.vmap(half))(rows), 0.5 * rows)
    odd = jnp.arange(15.0).reshape(5, 3)  # elements that begin at multiples of 4 bytes
    np.testing.assert_array_equal(jax.vmap(lambda x: scaled(x, 2.0))(odd), 2 * odd)

    @jax.jit
    def chain(x):
        for _ in range(50):
            x = half(2 * x)
        return x

    for _ in range(3):  # XLA records a graph, and runs it again
        np.testing.assert_array_equal(chain(X), X)
    program = export.export(jax.jit(half), disabled_checks=brainevent.export_checks())(X)
    np.testing.assert_array_equal(export.deserialize(program.serialize()).call(X), 0.5 * X)


def check_every_promise(language, scaled):
    """Make `scaled(x, factor)` the kernel of an operator, and check all that operators promise."""
    op = brainevent.XLACustomKernel(f"scaled_by_{language}_on_a_gpu")
    op.def_reference(lambda x, *, factor: factor * x)
    op.def_kernel(language, "gpu", lambda *, outs, factor: lambda x: [scaled(x, factor)])
    report = brainevent.check(op, X, factor=0.5, outs=X)
    assert report.ok, str(report)
