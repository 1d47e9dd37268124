# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: products of which one kernel lists the rows that count, and another one sums them part by part."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_gpu_event_csr as long_rows
import test_gpu_event_out_of_range as out_of_range
from product_promises import one_or_many
from sanitizer import sanitized

import brainevent
from brainevent.event.csr import on_gpu

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")
ENOUGH = [1, 60]  # rows of 2048 that count, from which on they are listed


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=ENOUGH)
def listed(monkeypatch, request):
    """List the rows of matrices of any size, where they are sorted and long."""
    list_all(monkeypatch.setattr, request.param)
    jax.clear_caches()
    yield
    jax.clear_caches()


def list_all(set_to, enough):
    set_to(on_gpu._Parts, "of", classmethod(lambda cls, *_: None))
    for name, value in {"_WORTH": 0, "_RUN": 0, "_SURELY_MANY": enough}.items():
        set_to(on_gpu, name, value)


def drawn(random, rows, columns, homogeneous, where="even"):
    """Return weights, sorted columns and row pointers, of rows of 0 to 1399 elements."""
    lengths = random.integers(0, 1400, rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = long_rows.columns_of(random, indptr[-1], columns, where)
    indices = np.sort(indices + np.repeat(np.arange(rows) * columns, lengths)) % columns
    weights = random.integers(1, 5, 1 if homogeneous else indices.size).astype(np.float32)
    return weights, indices, indptr


def added(weights, indices, indptr, x, columns):
    """Return the product in float64."""
    return np.bincount(indices, weights * np.repeat(x, np.diff(indptr)), minlength=columns)


@one_or_many
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
@pytest.mark.parametrize(("columns", "dtype"), [(900_000, "float32"), (500_000, "float64"), (2_000_000, "bfloat16")])
def test_many_columns(homogeneous, event, columns, dtype):
    """Some blocks find few rows that count, some many, some none; all adds are exact."""
    random, rows = np.random.default_rng(1), 40_000
    weights, indices, indptr = drawn(random, rows, columns, homogeneous)
    assert on_gpu._Listed.of(rows, columns, np.dtype(dtype if dtype == "float64" else "float32"), indices.size, 128)
    arrays = jnp.asarray(weights, dtype), jnp.asarray(indices, "int32"), jnp.asarray(indptr, "int32")
    matrix = brainevent.CSR(arrays, shape=(rows, columns), backend="cuda_raw")
    shares = np.repeat([0.0, 0.01, 0.5, 1.0], rows // 4)
    for scale in (1.0, 0.1, 0.0):
        x = (random.random(rows) < scale * shares) * random.integers(1, 3, rows)
        operand = jnp.asarray(x, dtype)
        found = (brainevent.BinaryArray(operand) if event else operand) @ matrix
        wanted = added(weights, indices, indptr, (x != 0) if event else x, columns)
        np.testing.assert_array_equal(found, np.asarray(jnp.asarray(wanted).astype(dtype)))


@one_or_many
@pytest.mark.parametrize(
    ("columns", "dtype"), [(1, "float32"), (7, "float64"), (100, "float32"), (4000, "bfloat16"), (200_000, "float32")]
)
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
@pytest.mark.parametrize("where", ["even", "skewed", "narrow"])
def test_rows_of_all_lengths(listed, homogeneous, columns, dtype, event, where):
    long_rows.test_long_rows(homogeneous, columns, dtype, event, where)


@one_or_many
@pytest.mark.parametrize("columns", [7, 100, 5000])
def test_rows_that_are_not_sorted_as_promised(listed, homogeneous, columns):
    long_rows.test_rows_that_are_not_sorted_as_promised(homogeneous, columns)


@one_or_many
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("each", [1, 3])
def test_many_rows(listed, monkeypatch, homogeneous, index, each):
    """A thread of those that look at rows has one, or some."""
    monkeypatch.setattr(on_gpu, "_LISTING", -(-300_001 // (each * on_gpu._LOOKING)))
    long_rows.test_many_sorted_rows(homogeneous, index)


def test_batches_and_their_gradient(listed):
    long_rows.test_batches_of_sorted_rows_and_their_gradient()


def test_weights_that_are_nan_or_infinite(listed):
    long_rows.test_weights_that_are_nan_or_infinite()


@one_or_many
@pytest.mark.parametrize("columns", [100, 200_000])
@pytest.mark.parametrize("event", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_indices_that_name_nothing(listed, homogeneous, columns, event, indexed):
    out_of_range.test_long_rows(homogeneous, columns, event, True, indexed)


@one_or_many
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_indices_of_64_bits(listed, homogeneous, index):
    random, rows, columns = np.random.default_rng(2), 700, 3000
    weights, indices, indptr = drawn(random, rows, columns, homogeneous)
    x = random.random(rows) < 0.3
    arrays = jnp.asarray(weights), jnp.asarray(indices, "int64"), jnp.asarray(indptr, index)
    options = {"shape": (rows, columns), "transpose": True, "indices_sorted": True, "backend": "cuda_raw"}
    found = brainevent.binary_csrmv(*arrays, jnp.asarray(x), **options)
    np.testing.assert_array_equal(found, added(weights, indices, indptr, x, columns))


@one_or_many
def test_pointers_that_lead_nowhere(listed, homogeneous):
    """Whatever they say, nothing is read beyond what is stored, and a row that ends before it begins is empty."""
    random, columns = np.random.default_rng(3), 5000
    begins = random.integers(-500, 40_500, 900)
    indices = np.sort(random.integers(0, columns, 40_000))
    weights = random.integers(1, 5, 1 if homogeneous else indices.size).astype(np.float32)
    arrays = jnp.asarray(weights), jnp.asarray(indices, "int32"), jnp.asarray(begins, "int32")
    options = {"shape": (899, columns), "transpose": True, "indices_sorted": True, "backend": "cuda_raw"}
    found = jax.jit(lambda *arrays: brainevent.binary_csrmv(*arrays, jnp.ones(899, bool), **options))(*arrays)
    each, wanted = np.broadcast_to(weights, indices.shape), np.zeros(columns)
    near = np.clip(begins, 0, indices.size)
    for begin, end in itertools.pairwise(near):
        wanted += np.bincount(indices[begin:end], each[begin:end], minlength=columns) if begin < end else 0
    np.testing.assert_array_equal(found, wanted)


@one_or_many
def test_rows_too_long_to_be_listed(listed, monkeypatch, homogeneous):
    """Of more than two thousand million elements; here of more than 700."""
    read, wanted = on_gpu._source, "LONGEST = 0x7fffffff - 2 * STAGE;"
    assert wanted in read("listing.cu")
    monkeypatch.setattr(on_gpu, "_source", lambda *names: read(*names).replace(wanted, "LONGEST = 700;"))
    long_rows.test_long_rows(homogeneous, 200_000, "float32", True, "even")


PROGRAM = """
    import sys, warnings
    warnings.filterwarnings("ignore")
    import jax
    import test_gpu_event_listed as listed

    listed.list_all(setattr, int(sys.argv[1]))
    with jax.enable_x64(True):
        for homogeneous in (True, False):
            for indexed in (True, False):
                listed.out_of_range.test_long_rows(homogeneous, 5000, True, True, indexed)
            listed.long_rows.test_rows_that_are_not_sorted_as_promised(homogeneous, 5000)
    print("right")
"""


@pytest.mark.parametrize("enough", [1, 300])
@pytest.mark.parametrize(("tool", "kernel"), [("memcheck", None), ("racecheck", "list")])
def test_sanitizer(tool, kernel, enough, tmp_path):
    assert sanitized(tool, tmp_path, PROGRAM, enough, kernel=kernel).endswith("right")
