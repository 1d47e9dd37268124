# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: products with sparse matrices of each format, of all sizes and types, by the CUDA C++ kernels.

What does not depend on the size is in `product_promises`, for both platforms.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from product_promises import both_ways, one_or_many
from sparse_products import FLOATS, NUMBERS, called, close, coordinates, fixed, operand, taken
from test_event_csr import compressed

import brainevent
from brainevent import binary_fcnmv, fcnmv

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

FORMATS = {"coo": coordinates, "fcn": fixed, "csr": compressed}
# Rows, columns and elements of a row: less than a warp and more, with fours and without, and nothing.
SIZES = [(1, 1, 1), (33, 70, 5), (300, 41, 80), (65, 5000, 1000), (0, 4, 2), (4, 0, 2), (4, 4, 0)]
SIZES_OF = {"fcn": [(40, 30, 259)], "csr": [(500, 4100, 40), (4100, 500, 1000)]}
every_format = pytest.mark.parametrize("name", FORMATS)


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


def in_quarters(sparse):
    """Return a matrix whose sums are exact in any order: threads add in no order, and equal calls give equal bits."""
    return dataclasses.replace(sparse, weights=jnp.round(4 * sparse.weights) / 4)


def assert_product(name, sparse, x, *, transpose, event, dtype="float32", **options):
    found = called(sparse, x, "binary_" * event + name, transpose=transpose, backend="cuda_raw", **options)
    assert found.dtype == (sparse.weights.dtype if event else jnp.promote_types(sparse.weights.dtype, x.dtype))
    close(found, sparse.product(x, transpose=transpose, event=event), dtype)


@both_ways
@one_or_many
@pytest.mark.parametrize(
    ("name", "size"), [(name, size) for name in FORMATS for size in SIZES + SIZES_OF.get(name, [])], ids=str
)
@pytest.mark.parametrize("columns", [None, 1, 3, 45, 0])
@pytest.mark.parametrize("active", [0.0, 0.05, 1.0])
def test_products(transpose, homogeneous, name, size, columns, active):
    sparse = in_quarters(FORMATS[name](0, *size, homogeneous=homogeneous))
    x = operand(1, taken(sparse, transpose=transpose), columns, "float32", active)
    for event in (True, False):
        assert_product(name, sparse, x, transpose=transpose, event=event)


@every_format
@both_ways
@pytest.mark.parametrize("columns", [None, 45])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("of_x", NUMBERS)
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_every_dtype(name, transpose, columns, dtype, of_x, index):
    sparse = FORMATS[name](2, 70, 300, 20, homogeneous=False, dtype=dtype, index=index)
    x = operand(3, taken(sparse, transpose=transpose), columns, of_x)
    for event in (True, False):
        assert_product(name, sparse, x, transpose=transpose, event=event, dtype=dtype)


@both_ways
@one_or_many
@pytest.mark.parametrize("columns", [None, 5])
@pytest.mark.parametrize(("name", "connections"), [("coo", 101), ("fcn", 80), ("fcn", 1000), ("fcn", 1001)])
def test_every_variant(transpose, homogeneous, columns, name, connections):
    sparse = FORMATS[name](4, 700, 900, connections, homogeneous=homogeneous)
    x = operand(5, taken(sparse, transpose=transpose), columns, "bool", 0.1)
    operator = getattr(brainevent, f"binary_{name}{'mv' if columns is None else 'mm'}_p")
    out = jax.ShapeDtypeStruct((sparse.shape[1 if transpose else 0], *x.shape[1:]), jnp.float32)
    variants = operator.definition.kernels["gpu"]["cuda_raw"].variants
    for variant in variants if name == "fcn" else [{"per_thread": n} for n in (1, 4, 16, 10**6)]:
        (found,) = operator(
            sparse.weights, *sparse.indices, x, outs=[out], shape=sparse.shape, transpose=transpose,
            backend="cuda_raw", **dict(variant),
        )  # fmt: skip
        close(found, sparse.product(x, transpose=transpose, event=True))


@every_format
@both_ways
@one_or_many
def test_batches_of_everything(name, transpose, homogeneous):
    sparse = FORMATS[name](8, 40, 60, 12, homogeneous=homogeneous)
    xs = jnp.stack([operand(seed, taken(sparse, transpose=transpose), None) for seed in range(3)])
    weights = jnp.stack([sparse.weights, 2 * sparse.weights, -sparse.weights])
    call = getattr(brainevent, f"binary_{name}mv")
    one = lambda w, indices, x: call(w, *indices, x, shape=sparse.shape, transpose=transpose)
    wanted = np.stack(
        [f * sparse.product(x, transpose=transpose, event=True) for f, x in zip((1, 2, -1), xs, strict=True)]
    )
    close(jax.vmap(one)(weights, jax.tree.map(lambda array: jnp.stack([array] * 3), sparse.indices), xs), wanted)
    close(jax.vmap(one, (0, None, 0))(weights, sparse.indices, xs), wanted)


def test_tuned():
    sparse = fixed(13, 2000, 3000, 200, homogeneous=True)
    x = operand(14, 2000, None, "bool", 0.02)
    found = brainevent.binary_fcnmv_p.tune(
        sparse.weights, *sparse.indices, x, shape=sparse.shape, transpose=True, seconds=0.05
    )
    assert found is not None
    assert_product("fcn", sparse, x, transpose=True, event=True)
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
