# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: gradients by the weights of large matrices in coordinates; the rest is in test_event_gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_event_gradients import bad_values, both_sides

import brainevent as be

pytestmark = pytest.mark.gpu


@both_sides
@pytest.mark.parametrize("kind", ["binary", "weighted"])
@pytest.mark.parametrize("columns", [1, 3, 40])
@bad_values
def test_large_matrices_in_coordinates(left, kind, columns, bad):
    """Gradients by the kernel of elements in coordinates are those of the reference, also out of range."""
    random = np.random.default_rng(0)
    row, col = random.integers(-2, 3002, (2, 200_000), np.int32)
    weights = jnp.asarray(random.normal(size=row.size), jnp.float32)
    x = jnp.asarray(np.where(random.random((3000, columns)) < 0.1, random.normal(size=(3000, columns)), 0), jnp.float32)
    cotangent = jnp.asarray(random.normal(size=x.shape), jnp.float32).at[::7].set(bad)

    @functools.partial(jax.jit, static_argnames="backend")
    def gradient(row, col, backend):  # which are not known to be within range
        call = lambda w: (be.binary_coomm if kind == "binary" else weighted_coomm)(
            w, row, col, x, shape=(3000, 3000), transpose=left, backend=backend
        )
        return jax.vjp(call, weights)[1](cotangent)[0]

    operator = be.get_registry()[f"{kind}_coo_per_element"]
    assert operator.get_default("gpu") == "cuda_raw"
    found, wanted = gradient(row, col, None), gradient(row, col, "reference")
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    outside = (row < 0) | (row >= 3000) | (col < 0) | (col >= 3000)
    assert outside.any()
    assert (np.asarray(found)[outside] == 0).all()


def weighted_coomm(weights, row, col, x, *, shape, transpose, backend):
    operator = be.get_registry()["weighted_coomm"]
    out = jax.ShapeDtypeStruct((shape[1 if transpose else 0], x.shape[1]), weights.dtype)
    return operator(weights, row, col, x, shape=shape, transpose=transpose, outs=[out], backend=backend)[0]
