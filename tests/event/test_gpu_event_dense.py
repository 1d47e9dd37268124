# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: products of dense matrices with events, by the CUDA C++ kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent import binary_densemm, binary_densemm_p, binary_densemv, binary_densemv_p

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}
SIZES = [(1, 1), (33, 70), (500, 4100), (5000, 31), (0, 40), (40, 0)]  # of the result, and of what is summed over

both_ways = pytest.mark.parametrize("transpose", [False, True], ids=["weights", "weights.T"])


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


def drawn(m, k, n, *, dtype="float32", events="bool", active=0.1, transpose=False):
    random = np.random.default_rng(m + k)
    weights = random.normal(size=(k, m) if transpose else (m, k))
    shape = (k,) if n is None else (k, n)
    numbers = np.where(random.random(shape) < active, 2, 0 if events == "bool" else -1)
    return jnp.asarray(weights, dtype), jnp.asarray(numbers).astype(events)


def expected(weights, x, *, transpose):
    rows = np.asarray(weights.astype("float64")).T if transpose else np.asarray(weights.astype("float64"))
    active = np.asarray(x.astype("float64")) != 0
    if x.ndim == 1:
        return rows[:, active].sum(1)
    columns = [rows[:, column].sum(1) for column in active.T]
    return np.stack(columns, 1) if columns else np.zeros((rows.shape[0], 0))


def called(weights, x, **options):
    return (binary_densemv if x.ndim == 1 else binary_densemm)(weights, x, **options)


def close(found, weights, x, transpose):
    wanted = expected(weights, x, transpose=transpose)
    scale = 1 + abs(wanted).max(initial=0)
    np.testing.assert_allclose(found.astype("float64"), wanted, atol=scale * TOLERANCE[weights.dtype.name])


@both_ways
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("n", [None, 1, 45, 0])
@pytest.mark.parametrize("active", [0.0, 0.05, 1.0])
def test_products(transpose, size, n, active):
    weights, x = drawn(*size, n, active=active, transpose=transpose)
    close(called(weights, x, transpose=transpose, backend="cuda_raw"), weights, x, transpose)


@both_ways
@pytest.mark.parametrize("n", [None, 45])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("events", ["bool", "int8", "int32", "float16", "bfloat16", "float32", "float64"])
def test_every_dtype(transpose, n, dtype, events):
    weights, x = drawn(70, 300, n, dtype=dtype, events=events, transpose=transpose)
    close(called(weights, x, transpose=transpose, backend="cuda_raw"), weights, x, transpose)


def test_rows_enough_for_four_in_a_warp():
    weights, x = drawn(2**15 + 3, 100, None)
    close(binary_densemv(weights, x, backend="cuda_raw"), weights, x, False)


@pytest.mark.parametrize("n", [None, 3])
@both_ways
def test_weights_of_inactive_rows_add_nothing(transpose, n):
    weights, x = drawn(40, 60, n, transpose=transpose)
    x = x.at[5].set(False)
    weights = weights.at[(5,) if transpose else (slice(None), 5)].set(jnp.nan)
    for backend in ("cuda_raw", "dot"):
        close(called(weights, x, transpose=transpose, backend=backend), weights, x, transpose)


@both_ways
@pytest.mark.parametrize("n", [None, 45])
def test_equal_calls_give_equal_bits(transpose, n):
    weights, x = drawn(500, 4100, n, transpose=transpose)
    run = jax.jit(lambda weights, x: called(weights, x, transpose=transpose, backend="cuda_raw"))
    first = np.asarray(run(weights, x))
    for _ in range(20):
        np.testing.assert_array_equal(run(weights, x), first)


@both_ways
@pytest.mark.parametrize("operator", [binary_densemv_p, binary_densemm_p], ids=lambda operator: operator.name)
def test_promises(operator, transpose):
    weights, x = drawn(8, 12, None if operator is binary_densemv_p else 4, events="float32", transpose=transpose)
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
    weights, x = drawn(70, 1000, None)
    many = drawn(70, 1000, 45)[1]
    close(weights @ form(x), weights, x, False)
    close(form(x) @ weights.T, weights, x, False)
    close(weights @ form(many), weights, many, False)
    close((form(many.T) @ weights.T).T, weights, many, False)
