# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: products of dense matrices with events, by the CUDA C++ kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_event_dense import EVENTS, TOLERANCE, both_ways, called, close, drawn, with_64_bits

import brainevent
from brainevent import binary_densemm_p, binary_densemv, binary_densemv_p

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

__all__ = ["with_64_bits"]

SIZES = [(1, 1), (33, 70), (500, 4100), (5000, 31), (0, 40), (40, 0)]  # of the result, and of what is summed over


@both_ways
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("n", [None, 1, 45, 0])
@pytest.mark.parametrize("active", [0.0, 0.05, 1.0])
def test_products(transpose, size, n, active):
    m, k = size
    weights, x = drawn(0, k, m, n, active=active, transpose=transpose)
    close(called(weights, x, transpose=transpose, backend="cuda_raw"), weights, x, transpose)


@both_ways
@pytest.mark.parametrize("n", [None, 45])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("events", EVENTS)
def test_every_dtype(transpose, n, dtype, events):
    weights, x = drawn(0, 300, 70, n, dtype=dtype, events=events, transpose=transpose)
    close(called(weights, x, transpose=transpose, backend="cuda_raw"), weights, x, transpose)


def test_rows_enough_for_four_in_a_warp():
    weights, x = drawn(0, 100, 2**15 + 3, None)
    close(binary_densemv(weights, x, backend="cuda_raw"), weights, x, False)


@both_ways
@pytest.mark.parametrize("n", [None, 45])
def test_equal_calls_give_equal_bits(transpose, n):
    weights, x = drawn(0, 4100, 500, n, transpose=transpose)
    run = jax.jit(lambda weights, x: called(weights, x, transpose=transpose, backend="cuda_raw"))
    first = np.asarray(run(weights, x))
    for _ in range(20):
        np.testing.assert_array_equal(run(weights, x), first)


@both_ways
@pytest.mark.parametrize("operator", [binary_densemv_p, binary_densemm_p], ids=lambda operator: operator.name)
def test_promises(operator, transpose):
    weights, x = drawn(0, 12, 8, None if operator is binary_densemv_p else 4, events="float32", transpose=transpose)
    brainevent.check(operator, weights, x, transpose=transpose).raise_if_failed()


def test_positions_beyond_32_bits():
    """A matrix of more than 2**32 weights, of which the last row and column count."""
    rows, columns = 2**16 + 8, 2**16
    weights = jnp.ones((rows, columns), "float16")
    x = jnp.zeros(rows, bool).at[jnp.array([3, rows - 1])].set(True)
    assert (binary_densemv(weights, x, transpose=True, backend="cuda_raw") == 2).all()
    x = jnp.zeros(columns, bool).at[jnp.array([3, columns - 1])].set(True)
    assert (binary_densemv(weights, x, backend="cuda_raw") == 2).all()


@pytest.mark.parametrize(
    "form", [brainevent.BinaryArray, brainevent.BitPackedBinary, brainevent.CompactBinary.from_array]
)
def test_every_form_of_events(form):
    weights, x = drawn(0, 1000, 70, None)
    many = drawn(0, 1000, 70, 45)[1]
    close(weights @ form(x), weights, x, False)
    close(form(x) @ weights.T, weights, x, False)
    close(weights @ form(many), weights, many, False)
    close((form(many.T) @ weights.T).T, weights, many, False)
