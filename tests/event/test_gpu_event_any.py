# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: products with any matrix, of any size that is quickly made; NumPy is the oracle."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_products import FLOATS, TOLERANCE, Sparse, taken

import brainevent
from brainevent import BinaryArray, WeightedArray

pytestmark = pytest.mark.gpu

FORMATS = ("CSR", "CSC", "COO", "FixedNumPerPre", "FixedNumPerPost", "Dense")
MOST = 300_000  # elements
SIZES = st.integers(0, 40) | st.integers(41, 400) | st.integers(401, 20_000)
MATRICES = {
    "seed": st.integers(0, 99),
    "m": SIZES,
    "k": SIZES,
    "connections": st.integers(0, 9) | st.integers(10, 255) | st.integers(256, 1500),
    "where": st.sampled_from(["even", "skewed", "narrow", "one"]),
    "ascending": st.booleans(),
    "homogeneous": st.booleans(),
    "dtype": st.sampled_from(FLOATS),
    "index": st.sampled_from(["int32", "int64"]),
}


@pytest.fixture(autouse=True, scope="module")
def with_64_bits():
    with jax.enable_x64(True):
        yield


def drawn(seed, m, k, connections, where, ascending, homogeneous, dtype, index):
    """Return a matrix of equally long rows, among whose weights are some that are no number."""
    random = np.random.default_rng(seed)
    m = min(m, MOST // max(1, connections))
    shape = m, connections if k else 0
    if where == "even":
        indices = random.integers(0, max(1, k), shape)
    elif where == "skewed":
        indices = (k * random.random(shape) ** 6).astype(np.int64)
    else:
        indices = k // 3 + random.integers(0, max(1, k // 50 if where == "narrow" else 1), shape)
    indices = np.sort(indices, axis=1) if ascending else indices
    weights = random.integers(1, 5, 1 if homogeneous else shape).astype(np.float64)
    if not homogeneous:
        weights[random.random(shape) < 0.001] = np.nan
    rows = np.repeat(np.arange(m), shape[1])
    return Sparse(jnp.asarray(weights, dtype), (jnp.asarray(indices, index),), (m, k), rows, indices.ravel())


def in_format(sparse, name):
    """Return the matrix in a format, and what it then is: that of fixed numbers of a column is its transpose."""
    (indices,), (m, k) = sparse.indices, sparse.shape
    if name == "FixedNumPerPost":
        turned = dataclasses.replace(sparse, shape=(k, m), rows=sparse.columns, columns=sparse.rows)
        return brainevent.FixedNumPerPost((sparse.weights, indices), shape=(k, m)), turned
    if name == "Dense":
        dense = dataclasses.replace(sparse, weights=jnp.nan_to_num(sparse.weights))
        return brainevent.Dense(jnp.asarray(dense.dense(), sparse.weights.dtype)), dense
    made = brainevent.FixedNumPerPre((sparse.weights, indices), shape=(m, k))
    make = {"CSR": made.tocsr, "CSC": lambda: made.tocsr().tocsc(), "COO": made.tocoo, "FixedNumPerPre": lambda: made}
    return make[name](), sparse


def operand(seed, shape, kind, active):
    """Return events, or numbers of which some are zero, negative or none at all where only their sign counts."""
    random = np.random.default_rng(seed)
    on = random.random(shape) < active
    if kind == "bool":
        return on
    silent = random.choice([0.0, -0.0, -1.0, -2.0], shape)
    x = np.where(on, random.choice([1.0, 2.0, 3.0], shape), silent)
    if kind == "events":
        x = np.where(on & (random.random(shape) < 0.1), np.inf, x)
        x = np.where(~on & (random.random(shape) < 0.1), random.choice([np.nan, -np.inf], shape), x)
    return x.astype(np.float32)


def product(sparse, x, *, transpose, event):
    """Return the product in float64: a weight that is no number counts where it is added, and nowhere else."""
    x = (x != 0 if event else x).astype(np.float64)
    each = np.broadcast_to(np.asarray(sparse.weights, np.float64).ravel(), sparse.rows.shape)
    sums, lost = (
        scipy.sparse.coo_array((numbers, (sparse.rows, sparse.columns)), shape=sparse.shape)
        for numbers in (np.nan_to_num(each), np.isnan(each).astype(np.float64))
    )
    return np.where((lost.T if transpose else lost) @ (x != 0) > 0, np.nan, (sums.T if transpose else sums) @ x)


def same(found, wanted, dtype):
    """Compare, to the precision of the type, what no type can add in an order of its own."""
    most = float(jnp.finfo(found.dtype).max)
    found = np.asarray(found, np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    wanted = np.where(abs(wanted) > most, np.copysign(np.inf, wanted), wanted)
    np.testing.assert_allclose(found, wanted, rtol=4 * TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("transpose", [False, True], ids=["A", "A.T"])
@pytest.mark.parametrize("kind", ["bool", "events", "numbers", "values"])
@settings(max_examples=40)
@given(
    columns=st.none() | st.integers(0, 4) | st.integers(5, 70),
    active=st.sampled_from([0.0, 0.01, 0.1, 0.6, 1.0]),
    **MATRICES,
)
def test_products(name, transpose, kind, columns, active, **matrix):
    if columns is not None:
        matrix["connections"] = min(matrix["connections"], 300)
    if name == "Dense":
        matrix |= {"m": matrix["m"] % 2000, "k": matrix["k"] % 2000}
    sparse = drawn(**matrix)
    if kind == "numbers":  # what is no number times zero may be left out
        sparse = dataclasses.replace(sparse, weights=jnp.nan_to_num(sparse.weights))
    matrix_of_format, sparse = in_format(sparse, name)
    size = taken(sparse, transpose=transpose)
    x = operand(matrix["seed"], size if columns is None else (size, columns), kind, active)
    wanted = product(sparse, x, transpose=transpose, event=kind in ("bool", "events"))
    events = {"numbers": jnp.asarray, "values": WeightedArray}.get(kind, BinaryArray)(jnp.asarray(x))
    if transpose:
        found = (events if columns is None else events.T) @ matrix_of_format
        found = found if columns is None else found.T
    else:
        found = matrix_of_format @ events
    same(found, wanted, matrix["dtype"])
