# SPDX-License-Identifier: Apache-2.0
"""`sddmm`: elements of a product of dense matrices where a sparse one has elements."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from platforms import few_examples

from brainevent import CSR, sddmm
from brainevent.errors import ShapeError

A, B = (np.random.default_rng(i).normal(size=shape).astype("float32") for i, shape in enumerate([(4, 3), (3, 5)]))
MATRIX = CSR.random((4, 5), prob=0.4, seed=1)
sampled = lambda a, b: sddmm(a, b, MATRIX.indices, MATRIX.indptr, shape=(4, 5))
rows, columns = (np.asarray(x) for x in MATRIX.tocoo()._coordinates())


@few_examples(3)
@given(m=st.integers(0, 9), n=st.integers(0, 4), k=st.integers(0, 9), seed=st.integers(0, 9))
def test_elements_are_those_of_the_product(m, n, k, seed):
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(m, n)).astype("float32"), random.normal(size=(n, k)).astype("float32")
    matrix = CSR.random((m, k), prob=0.5, seed=seed)
    found = sddmm(a, b, matrix.indices, matrix.indptr, shape=(m, k))
    where = tuple(np.asarray(x) for x in matrix.tocoo()._coordinates())
    np.testing.assert_allclose(found, (a @ b)[where], rtol=1e-5, atol=1e-5)


def test_derivatives_and_batches():
    loss = lambda found: (jnp.sin(found) ** 2).sum()
    wanted = jax.grad(lambda a, b: loss((a @ b)[rows, columns]), (0, 1))(A, B)
    for one, other in zip(jax.jit(jax.grad(lambda a, b: loss(sampled(a, b)), (0, 1)))(A, B), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    found = jax.vmap(sampled, (0, None))(jnp.stack([A, 2 * A]), B)
    np.testing.assert_allclose(found[1], 2 * found[0], rtol=1e-5)


def test_the_product_is_never_made():
    """It would have 10^10 elements."""
    n = 100_000
    a = jnp.arange(n, dtype=jnp.float32)[:, None]
    found = sddmm(a, jnp.ones((1, n)), jnp.arange(n), jnp.arange(n + 1), shape=(n, n))
    np.testing.assert_array_equal(found, a[:, 0])


def test_units_multiply():
    units = pytest.importorskip("brainunit")
    assert units.math.allclose(sampled(A * units.mV, B * units.mS), sampled(A, B) * units.uA)


@pytest.mark.parametrize(
    ("a", "b", "error", "words"),
    [
        (
            A,
            B[:2],
            ShapeError,
            r"sddmm: a has shape \(4, 3\) and b \(2, 5\); .* have the shape \(4, 5\)",
        ),
        (A[0], B, ShapeError, r"a has shape \(3,\)"),
        (A[:3], B, ShapeError, r"a has shape \(3, 3\)"),
        (A.astype(int), B.astype(int), TypeError, "sddmm: a is int32 and b int32; pass floating numbers"),
    ],
)
def test_wrong_operands_are_reported(a, b, error, words):
    with pytest.raises(error, match=words):
        sampled(a, b)
