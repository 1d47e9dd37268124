# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: products with matrices of equally long rows, by the CUDA C++ kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparse_products import FLOATS, NUMBERS, called, close, fixed, operand, taken

import brainevent
from brainevent import binary_fcnmv, fcnmv

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

# Rows, columns and elements of a row: less than a warp and more, with fours and without, and nothing.
SIZES = [(1, 1, 1), (33, 70, 5), (300, 41, 80), (65, 5000, 1000), (40, 30, 259), (0, 4, 2), (4, 0, 2), (4, 4, 0)]

both_ways = pytest.mark.parametrize("transpose", [False, True], ids=["A", "A.T"])
one_or_many = pytest.mark.parametrize("homogeneous", [False, True], ids=["weights", "one weight"])


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


def assert_product(sparse, x, *, transpose, event, dtype="float32", **options):
    found = called(sparse, x, "binary_" * event + "fcn", transpose=transpose, backend="cuda_raw", **options)
    assert found.dtype == (sparse.weights.dtype if event else jnp.promote_types(sparse.weights.dtype, x.dtype))
    close(found, sparse.product(x, transpose=transpose, event=event), dtype)


@both_ways
@one_or_many
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("columns", [None, 1, 3, 45, 0])
@pytest.mark.parametrize("active", [0.0, 0.05, 1.0])
def test_products(transpose, homogeneous, size, columns, active):
    sparse = fixed(0, *size, homogeneous=homogeneous)
    x = operand(1, taken(sparse, transpose=transpose), columns, "float32", active)
    for event in (True, False):
        assert_product(sparse, x, transpose=transpose, event=event)


@both_ways
@pytest.mark.parametrize("columns", [None, 45])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("of_x", NUMBERS)
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_every_dtype(transpose, columns, dtype, of_x, index):
    sparse = fixed(2, 70, 300, 20, homogeneous=False, dtype=dtype, index=index)
    x = operand(3, taken(sparse, transpose=transpose), columns, of_x)
    for event in (True, False):
        assert_product(sparse, x, transpose=transpose, event=event, dtype=dtype)


@both_ways
@one_or_many
@pytest.mark.parametrize("columns", [None, 5])
@pytest.mark.parametrize("connections", [80, 1000, 1001])
def test_every_variant(transpose, homogeneous, columns, connections):
    sparse = fixed(4, 700, 900, connections, homogeneous=homogeneous)
    x = operand(5, taken(sparse, transpose=transpose), columns, "bool", 0.1)
    operator = brainevent.binary_fcnmv_p if columns is None else brainevent.binary_fcnmm_p
    out = jax.ShapeDtypeStruct((sparse.shape[1 if transpose else 0], *x.shape[1:]), jnp.float32)
    for variant in operator.definition.kernels["gpu"]["cuda_raw"].variants:
        (found,) = operator(
            sparse.weights, *sparse.indices, x, outs=[out], shape=sparse.shape, transpose=transpose,
            backend="cuda_raw", **dict(variant),
        )  # fmt: skip
        close(found, sparse.product(x, transpose=transpose, event=True))


@both_ways
@pytest.mark.parametrize("columns", [None, 3])
def test_weights_of_inactive_rows_add_nothing(transpose, columns):
    sparse = fixed(6, 40, 60, 8, homogeneous=False)
    places = sparse.rows if transpose else sparse.columns
    x = operand(7, taken(sparse, transpose=transpose), columns).at[places[0]].set(False)
    silent = jnp.asarray((places == places[0]).reshape(sparse.weights.shape))
    found = called(
        sparse, x, "binary_fcn", jnp.where(silent, jnp.nan, sparse.weights), transpose=transpose, backend="cuda_raw"
    )
    close(found, sparse.product(x, transpose=transpose, event=True))


@both_ways
@one_or_many
def test_batches_of_everything(transpose, homogeneous):
    sparse = fixed(8, 40, 60, 12, homogeneous=homogeneous)
    xs = jnp.stack([operand(seed, taken(sparse, transpose=transpose), None) for seed in range(3)])
    weights = jnp.stack([sparse.weights, 2 * sparse.weights, -sparse.weights])
    indices = jnp.stack([sparse.indices[0]] * 3)
    one = lambda w, i, x: binary_fcnmv(w, i, x, shape=sparse.shape, transpose=transpose)
    wanted = [
        factor * sparse.product(x, transpose=transpose, event=True) for factor, x in zip((1, 2, -1), xs, strict=True)
    ]
    close(jax.vmap(one)(weights, indices, xs), np.stack(wanted))
    close(jax.vmap(one, (0, None, 0))(weights, indices[0], xs), np.stack(wanted))


@both_ways
@one_or_many
@pytest.mark.parametrize("columns", [None, 4])
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
def test_promises(transpose, homogeneous, columns, event):
    sparse = fixed(9, 8, 12, 4, homogeneous=homogeneous)
    # Sums of quarters are exact: threads add in any order, and equal calls are to give equal bits.
    weights = jnp.round(4 * sparse.weights) / 4
    x = operand(10, taken(sparse, transpose=transpose), columns, "float32")
    operator = getattr(brainevent, f"{'binary_' * event}fcn{'mv' if columns is None else 'mm'}_p")
    options = {"shape": sparse.shape, "transpose": transpose, "backends": ["cuda_raw"]}
    brainevent.check(operator, weights, *sparse.indices, x, **options).raise_if_failed()


@both_ways
def test_gradients(transpose):
    sparse = fixed(11, 40, 60, 12, homogeneous=False, dtype="float64")
    x = operand(12, taken(sparse, transpose=transpose), None, "float64")

    def gradient(backend):
        loss = lambda w, x: jnp.sin(called(sparse, x, "binary_fcn", w, transpose=transpose, backend=backend)).sum()
        return jax.grad(loss, (0, 1))(sparse.weights, x)

    for found, wanted in zip(gradient("cuda_raw"), gradient("reference"), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_tuned():
    sparse = fixed(13, 2000, 3000, 200, homogeneous=True)
    x = operand(14, 2000, None, "bool", 0.02)
    found = brainevent.binary_fcnmv_p.tune(
        sparse.weights, *sparse.indices, x, shape=sparse.shape, transpose=True, seconds=0.05
    )
    assert found is not None
    assert_product(sparse, x, transpose=True, event=True)
    brainevent.clear_tuned()


def test_positions_beyond_32_bits():
    """A matrix of more than 2**31 elements, of which the last row counts."""
    rows, connections = 2**21 + 8, 2**10
    indices = jnp.broadcast_to(jnp.arange(connections, dtype="int32"), (rows, connections)).copy()
    x = jnp.zeros(rows, bool).at[jnp.array([3, rows - 1])].set(True)
    shape = (rows, connections)
    found = binary_fcnmv(jnp.ones(1, "float32"), indices, x, shape=shape, transpose=True, backend="cuda_raw")
    np.testing.assert_array_equal(found, 2)
    weights = jnp.ones(indices.shape, "float16").at[rows - 1].set(3)
    found = fcnmv(weights, indices, x.astype("float32"), shape=shape, transpose=True, backend="cuda_raw")
    np.testing.assert_array_equal(found, 4)
    found = binary_fcnmv(weights, indices, jnp.ones(connections, bool), shape=shape, backend="cuda_raw")
    assert (found[0], found[rows - 1]) == (connections, 3 * connections)
