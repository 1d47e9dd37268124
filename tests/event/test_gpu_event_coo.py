# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: products with matrices in coordinates, by the CUDA C++ kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparse_products import FLOATS, NUMBERS, called, close, coordinates, operand, taken

import brainevent
from brainevent import binary_coomv

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

SIZES = [(1, 1, 1), (33, 70, 5), (300, 41, 80), (65, 5000, 1000), (0, 4, 2), (4, 0, 2), (4, 4, 0)]

both_ways = pytest.mark.parametrize("transpose", [False, True], ids=["A", "A.T"])
one_or_many = pytest.mark.parametrize("homogeneous", [False, True], ids=["weights", "one weight"])


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


def assert_product(sparse, x, *, transpose, event, dtype="float32"):
    found = called(sparse, x, "binary_" * event + "coo", transpose=transpose, backend="cuda_raw")
    assert found.dtype == (sparse.weights.dtype if event else jnp.promote_types(sparse.weights.dtype, x.dtype))
    close(found, sparse.product(x, transpose=transpose, event=event), dtype)


@both_ways
@one_or_many
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("columns", [None, 1, 45, 0])
@pytest.mark.parametrize("active", [0.0, 0.05, 1.0])
def test_products(transpose, homogeneous, size, columns, active):
    sparse = coordinates(0, *size, homogeneous=homogeneous)
    x = operand(1, taken(sparse, transpose=transpose), columns, "float32", active)
    for event in (True, False):
        assert_product(sparse, x, transpose=transpose, event=event)


@both_ways
@pytest.mark.parametrize("columns", [None, 45])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("of_x", NUMBERS)
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_every_dtype(transpose, columns, dtype, of_x, index):
    sparse = coordinates(2, 70, 300, 20, homogeneous=False, dtype=dtype, index=index)
    x = operand(3, taken(sparse, transpose=transpose), columns, of_x)
    for event in (True, False):
        assert_product(sparse, x, transpose=transpose, event=event, dtype=dtype)


@both_ways
@pytest.mark.parametrize("columns", [None, 5])
@pytest.mark.parametrize("per_thread", [1, 4, 16, 10**6])
def test_every_variant(transpose, columns, per_thread):
    sparse = coordinates(4, 700, 900, 101, homogeneous=False)
    x = operand(5, taken(sparse, transpose=transpose), columns, "bool", 0.1)
    operator = brainevent.binary_coomv_p if columns is None else brainevent.binary_coomm_p
    out = jax.ShapeDtypeStruct((sparse.shape[1 if transpose else 0], *x.shape[1:]), jnp.float32)
    (found,) = operator(
        sparse.weights, *sparse.indices, x, outs=[out], shape=sparse.shape, transpose=transpose,
        per_thread=per_thread, backend="cuda_raw",
    )  # fmt: skip
    close(found, sparse.product(x, transpose=transpose, event=True))


@both_ways
@one_or_many
@pytest.mark.parametrize("columns", [None, 4])
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
def test_promises(transpose, homogeneous, columns, event):
    sparse = coordinates(9, 8, 12, 4, homogeneous=homogeneous)
    # Sums of quarters are exact: threads add in any order, and equal calls are to give equal bits.
    weights = jnp.round(4 * sparse.weights) / 4
    x = operand(10, taken(sparse, transpose=transpose), columns, "float32")
    operator = getattr(brainevent, f"{'binary_' * event}coo{'mv' if columns is None else 'mm'}_p")
    options = {"shape": sparse.shape, "transpose": transpose, "backends": ["cuda_raw"]}
    brainevent.check(operator, weights, *sparse.indices, x, **options).raise_if_failed()


@both_ways
def test_batches_of_everything(transpose):
    sparse = coordinates(8, 40, 60, 12, homogeneous=False)
    xs = jnp.stack([operand(seed, taken(sparse, transpose=transpose), None) for seed in range(3)])
    weights = jnp.stack([sparse.weights, 2 * sparse.weights, -sparse.weights])
    row, col = (jnp.stack([array] * 3) for array in sparse.indices)
    one = lambda w, row, col, x: binary_coomv(w, row, col, x, shape=sparse.shape, transpose=transpose)
    wanted = [f * sparse.product(x, transpose=transpose, event=True) for f, x in zip((1, 2, -1), xs, strict=True)]
    close(jax.vmap(one)(weights, row, col, xs), np.stack(wanted))


@both_ways
def test_gradients(transpose):
    sparse = coordinates(11, 40, 60, 12, homogeneous=False, dtype="float64")
    x = operand(12, taken(sparse, transpose=transpose), None, "float64")

    def gradient(backend):
        loss = lambda w, x: jnp.sin(called(sparse, x, "binary_coo", w, transpose=transpose, backend=backend)).sum()
        return jax.grad(loss, (0, 1))(sparse.weights, x)

    for found, wanted in zip(gradient("cuda_raw"), gradient("reference"), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-10)
