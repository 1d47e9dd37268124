# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: products of matrices in compressed sparse rows, in every variant and every language."""

import dataclasses
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from meshes import cut, sent
from product_promises import both_ways, one_or_many
from sparse_products import Sparse, close, numbers, operand, taken
from test_event_csr import INDEXED, compressed, permuted
from test_gpu_event_formats import in_quarters

import brainevent
from brainevent import binary_csrmm, binary_csrmv, binary_csrmv_p, csr_slice_rows, csrmm, csrmv, languages
from brainevent.backends.nvrtc import clusters
from brainevent.event.library import OPERATORS
from brainevent.ffi.devices import cuda_capabilities, cuda_multiprocessors
from brainevent.languages import language
from brainevent.toolchain.architectures import gpu_architectures

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

PACKAGES = {"numba_cuda": "numba_cuda", "warp": "warp", "triton": "jax_triton", "pallas": "jax"}
VARIANTS = [dict(variant) for variant in binary_csrmv_p.definition.kernels["gpu"]["cuda_raw"].variants]


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


def called(sparse, x, *, event, **options):
    function = (binary_csrmv if event else csrmv) if x.ndim == 1 else (binary_csrmm if event else csrmm)
    return function(sparse.weights, *sparse.indices, x, shape=sparse.shape, **options)


@one_or_many
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("connections", [3, 80, 1000])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_every_variant(homogeneous, variant, connections, index):
    """Rows begin anywhere, so that reading four at once has a beginning and an end to do one by one."""
    sparse = compressed(4, 300, 200, connections, homogeneous=homogeneous, index=index)
    for active in (0.0, 0.1, 1.0):
        x = operand(5, 300, None, "bool", active)
        out = jax.ShapeDtypeStruct((200,), jnp.float32)
        options = {"shape": sparse.shape, "transpose": True, "backend": "cuda_raw", **variant}
        (found,) = binary_csrmv_p(sparse.weights, *sparse.indices, x, outs=[out], **options)
        close(found, sparse.product(x, transpose=True, event=True))


def lengths_of(random, rows, kind):
    return np.full(rows, 701) if kind == "equal" else random.integers(0, 1400, rows)


def columns_of(random, size, columns, where):
    """Draw columns: all as likely, or a few of them more than all others, or within a narrow band."""
    if where == "even":
        return random.integers(0, columns, size)
    if where == "skewed":
        return (columns * random.random(size) ** 6).astype(np.int64)
    return columns // 3 + random.integers(0, max(1, columns // 50), size)


def test_clusters_are_counted():
    """By the driver: what is assumed where there is no device is too few for some, and too many for none."""
    if int(jax.devices("cuda")[0].compute_capability.split(".")[0]) >= 9:
        asked = clusters._asked(8, gpu_architectures(None, cuda_capabilities))
        print("clusters of 8:", asked)
        assert cuda_multiprocessors() // 8 >= asked == clusters.most_clusters(8) > 8


@one_or_many
@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        (7, "float32"),
        (100, "float32"),
        (4000, "bfloat16"),
        (60_000, "float64"),
        (200_000, "float32"),
        (900_000, "float32"),
    ],
)
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
@pytest.mark.parametrize("where", ["even", "skewed", "narrow", "unsorted"])
def test_long_rows(homogeneous, columns, dtype, event, where):
    """Clusters of blocks go through sorted ones; all adds are exact here. Rows are of all lengths, none among them."""
    random = np.random.default_rng(5)
    rows = 3001
    lengths = lengths_of(random, rows, "equal" if columns == 4000 else "all")
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    of_row = np.repeat(np.arange(rows), lengths)
    indices = columns_of(random, indptr[-1], columns, "even" if where == "unsorted" else where)
    if where != "unsorted":
        indices = indices[np.lexsort((indices, of_row))]
    weights = random.integers(1, 5, 1 if homogeneous else indices.size).astype(np.float32)
    arrays = jnp.asarray(weights, dtype), jnp.asarray(indices, "int32"), jnp.asarray(indptr, "int32")
    matrix = brainevent.CSR(arrays, shape=(rows, columns), backend="cuda_raw")
    assert matrix.indices_sorted == (where != "unsorted")
    for active in (0.0, 0.001, 0.5, 1.0):
        x = (random.random(rows) < active) * random.integers(1, 3, rows)
        each = weights * ((x != 0) if event else x)[of_row]
        wanted = np.bincount(indices, each, minlength=columns)
        operand = jnp.asarray(x, dtype)
        found = (brainevent.BinaryArray(operand) if event else operand) @ matrix
        np.testing.assert_array_equal(found, np.asarray(jnp.asarray(wanted).astype(dtype)))


@one_or_many
@pytest.mark.parametrize("columns", [7, 100, 5000])
def test_rows_that_are_not_sorted_as_promised(homogeneous, columns):
    """Sums are wrong, but none is of what is not there, or is there once."""
    random = np.random.default_rng(8)
    rows, connections = 500, 700
    indices = random.integers(0, columns, rows * connections)
    weights = random.integers(1, 5, 1 if homogeneous else indices.size)
    arrays = jnp.asarray(weights, "float32"), jnp.asarray(indices, "int32"), jnp.arange(rows + 1) * connections
    options = {"shape": (rows, columns), "transpose": True, "indices_sorted": True, "backend": "cuda_raw"}
    found = np.asarray(binary_csrmv(*arrays, jnp.ones(rows, bool), **options))
    assert found.min() >= 0
    assert (found <= np.bincount(indices, np.broadcast_to(weights, indices.shape), minlength=columns)).all()


@one_or_many
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_many_sorted_rows(homogeneous, index):
    """So many that blocks look at them in several goes; row pointers of 64 bits, and weights by a permutation."""
    random = np.random.default_rng(6)
    rows, columns, connections = 300_001, 5000, 300
    indices = np.sort(random.integers(0, columns, (rows, connections), dtype=np.int32))
    weights = random.integers(1, 5, 1 if homogeneous else indices.size).astype(np.float32)
    perm = random.permutation(indices.size).astype("int32")
    indptr = jnp.arange(rows + 1, dtype=index) * connections
    options = {"shape": (rows, columns), "transpose": True, "indices_sorted": True, "backend": "cuda_raw"}
    x = random.random(rows) < 0.01
    each = weights if homogeneous else weights[perm].reshape(rows, -1)[x].ravel()
    wanted = np.bincount(indices[x].ravel(), np.broadcast_to(each, x.sum() * connections), minlength=columns)
    arrays = jnp.asarray(weights), jnp.asarray(indices.ravel()), indptr, jnp.asarray(perm)
    found = brainevent.binary_csrmv_indexed(*arrays, jnp.asarray(x), **options)
    np.testing.assert_array_equal(found, wanted)


def test_batches_of_sorted_rows_and_their_gradient():
    sparse = compressed(20, 300, 4000, 500, homogeneous=False)
    indices, indptr = (np.asarray(part) for part in sparse.indices)
    indices = indices[np.lexsort((indices, np.repeat(np.arange(300), np.diff(indptr))))]
    matrix = brainevent.CSR((sparse.weights, indices, indptr), shape=(300, 4000))
    assert matrix.indices_sorted
    batch = jnp.stack([sparse.weights, 2 * sparse.weights, -sparse.weights])  # each begins where it is not aligned
    x = operand(21, 300, None, "float32", 0.3)
    events, structure = brainevent.BinaryArray(x), (jnp.asarray(indices), jnp.asarray(indptr))

    def loss(data, backend):
        made = brainevent.CSR(data, *structure, shape=(300, 4000), backend=backend)
        return ((events @ made) ** 2).sum()

    run = lambda backend: jax.vmap(jax.value_and_grad(lambda data: loss(data, backend)))(batch)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4), run("cuda_raw"), run("reference"))


def test_weights_that_are_nan_or_infinite():
    """Of silent neurons they add nothing, also where blocks count first."""
    indices, indptr = jnp.tile(jnp.arange(1000, dtype="int32"), 4200), jnp.arange(4201, dtype="int32") * 1000
    x = jnp.arange(4200) < 2000
    weights = jnp.where(jnp.repeat(x, 1000), 1.0, jnp.nan)
    options = {"shape": (4200, 1001), "transpose": True, "indices_sorted": True, "backend": "cuda_raw"}
    wanted = np.append(np.full(1000, 2000), 0)
    np.testing.assert_array_equal(binary_csrmv(weights, indices, indptr, x, **options), wanted)
    found = binary_csrmv(jnp.full(1, jnp.nan), indices, indptr, x, **options)
    np.testing.assert_array_equal(found, np.where(wanted > 0, np.nan, 0))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_batches_that_are_not_aligned(variant):
    """Each matrix of a batch begins where the one before it ends, which may be anywhere."""
    each = [compressed(seed, 5, 9, 7, homogeneous=False) for seed in range(3)]
    x = operand(6, 5, None, "bool", 0.6)
    operands = [jnp.stack(arrays) for arrays in zip(*((one.weights, *one.indices) for one in each), strict=True)]
    options = {"shape": (5, 9), "transpose": True, "backend": "cuda_raw", **variant}
    out = jax.ShapeDtypeStruct((9,), jnp.float32)
    one = lambda *operands: binary_csrmv_p(*operands, x, outs=[out], **options)[0]
    for sparse, found in zip(each, jax.vmap(one)(*operands), strict=True):
        close(found, sparse.product(x, transpose=True, event=True))


@both_ways
@one_or_many
@pytest.mark.parametrize("name", INDEXED)
def test_weights_by_a_permutation(transpose, homogeneous, name):
    sparse = compressed(7, 90, 120, 20, homogeneous=homogeneous)
    perm, known = permuted(sparse, 8)
    x = numbers(9, taken(sparse, transpose=transpose), 5 if "mm" in name else None)
    options = {"shape": sparse.shape, "transpose": transpose, "backend": "cuda_raw"}
    found = getattr(brainevent, name)(sparse.weights, *sparse.indices, perm, x, **options)
    close(found, known.product(x, transpose=transpose, event="binary" in name))


@one_or_many
@pytest.mark.parametrize("size", [(300_007, 50, 2), (20_000, 70, 400)])
def test_many_rows(homogeneous, size):
    """Of which a warp looks at 64: those that are short, and those whose elements several warps share."""
    sparse = in_quarters(compressed(1, *size, homogeneous=homogeneous))
    for active in (0.0, 0.0005, 1.0):
        x = operand(2, sparse.shape[0], None, "float32", active)
        for event in (True, False):
            wanted = sparse.product(x, transpose=True, event=event)
            close(called(sparse, x, event=event, transpose=True, backend="cuda_raw"), wanted)


@both_ways
@one_or_many
@pytest.mark.parametrize("language", PACKAGES)
def test_every_language(transpose, homogeneous, language):
    if importlib.util.find_spec(PACKAGES[language]) is None:
        pytest.skip(f"needs {PACKAGES[language]}")
    for dtype, index in (("float32", "int32"), ("bfloat16", "int32"), ("float64", "int64")):
        for size in ((300, 70, 40), (40, 600, 3), (0, 40, 3), (40, 40, 0)):
            sparse = compressed(10, *size, homogeneous=homogeneous, dtype=dtype, index=index)
            for of_x in ("bool", "float32"):
                x = operand(11, taken(sparse, transpose=transpose), None, of_x)
                found = called(sparse, x, event=True, transpose=transpose, backend=language)
                close(found, sparse.product(x, transpose=transpose, event=True), dtype)


@pytest.mark.parametrize("language", PACKAGES)
def test_every_language_in_batches_and_loops(language):
    if importlib.util.find_spec(PACKAGES[language]) is None:
        pytest.skip(f"needs {PACKAGES[language]}")
    sparse = compressed(12, 70, 70, 9, homogeneous=False)
    x = operand(13, 70, None, "bool", 0.5)
    step = lambda w, x: called(
        Sparse(w, sparse.indices, sparse.shape, sparse.rows, sparse.columns), x,
        event=True, transpose=True, backend=language,
    )  # fmt: skip
    batch = jnp.stack([sparse.weights, 2 * sparse.weights])
    wanted = sparse.product(x, transpose=True, event=True)
    close(jax.vmap(step, (0, None))(batch, x), np.stack([wanted, 2 * wanted]))
    run = jax.jit(lambda w, x: jax.lax.fori_loop(0, 3, lambda _, x: step(w, x) > 0, x))
    for _ in range(3):
        known = np.asarray(x)
        for _ in range(3):
            known = sparse.product(jnp.asarray(known), transpose=True, event=True) > 0
        np.testing.assert_array_equal(run(sparse.weights, x), known)


def test_a_kernel_that_nvrtc_compiles_is_checked_where_nvcc_is_missing(monkeypatch):
    """Also where it fails: a missing nvcc is no excuse for it."""
    row = language("cuda_raw")
    monkeypatch.setitem(languages.LANGUAGES, "cuda_raw", dataclasses.replace(row, why_missing=lambda: "no nvcc"))
    sparse = in_quarters(compressed(14, 8, 12, 4, homogeneous=False))
    x = operand(15, taken(sparse, transpose=True), None, "float32")
    options = {"shape": sparse.shape, "transpose": True, "backends": ["cuda_raw"], "promises": ["other values"]}
    report = brainevent.check(binary_csrmv_p, sparse.weights, *sparse.indices, x, **options)
    assert [row.status for row in report.rows] == ["ok", "ok", "ok"], str(report)
    wrong = [jax.ShapeDtypeStruct((13,), jnp.float32)]
    report = brainevent.check(binary_csrmv_p, sparse.weights, *sparse.indices, x, outs=wrong, **options)
    assert report.rows[0].status == "failed", str(report)


def test_promises_of_what_gives_weights_their_gradient():
    sparse = compressed(16, 8, 12, 4, homogeneous=False)
    outs = [jax.ShapeDtypeStruct(sparse.rows.shape, jnp.float32)]
    sides = numbers(17, 8, 4), numbers(18, 12, 4)
    brainevent.check(OPERATORS["csr_per_element"], *sparse.indices, *sides, outs=outs).raise_if_failed()


@one_or_many
def test_chosen_rows_and_their_gradient(homogeneous):
    sparse = compressed(19, 90, 120, 20, homogeneous=homogeneous)
    rows = jnp.array([3, 89, -1, 3, 90], "int32")
    call = lambda w, backend: csr_slice_rows(w, *sparse.indices, rows, shape=sparse.shape, backend=backend)
    dense = np.vstack([sparse.dense(), np.zeros((1, 120))])
    close(call(sparse.weights, "cuda_raw"), dense[[3, 89, 90, 3, 90]])
    gradients = [jax.grad(lambda w, b=b: (call(w, b) ** 2).sum())(sparse.weights) for b in ("cuda_raw", "reference")]
    close(*gradients)


@pytest.mark.skipif("len(jax.devices('gpu')) < 2", reason="needs two GPUs")
@pytest.mark.parametrize("connections", [4, 502], ids=["short rows", "rows that clusters of blocks sum"])
@one_or_many
def test_two_devices_share_the_stored_elements(homogeneous, connections):
    random = np.random.default_rng(20)
    columns = np.sort(random.integers(0, 5000, (901, connections), dtype="int32"))
    weights = jnp.ones(1) if homogeneous else jnp.asarray(random.integers(1, 5, columns.size), jnp.float32)
    indptr = np.arange(902) * connections
    matrix = brainevent.CSR((weights, jnp.asarray(columns.ravel()), jnp.asarray(indptr)), shape=(901, 5000))
    two = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices("gpu")[:2])
    place = lambda leaf: cut(two, leaf, *["d"] * (leaf.size == columns.size))
    placed = brainevent.CSR(*map(place, (matrix.data, matrix.indices, matrix.indptr)), shape=matrix.shape)
    x = cut(two, random.random(901) < 0.2)
    call = lambda x, matrix: brainevent.BinaryArray(x) @ matrix
    wanted = np.asarray(x) @ np.asarray(matrix.todense(), np.float64)
    assert matrix.indices_sorted
    assert sent(call, x, placed) == {"all-reduce": 1}
    close(jax.jit(call)(x, placed), wanted)
    gradient = jax.grad(lambda x, matrix: (call(x, matrix) ** 2).sum(), 1, allow_int=True)
    found, expected = (jax.jit(gradient)(x, m).data for m in (placed, matrix))
    close(found, expected)
    assert homogeneous or found.sharding.spec == jax.P("d")


def test_positions_beyond_32_bits():
    """A matrix of more than 2**31 stored elements, of which the last row counts: 2**31 + 2**16 indices, 8.6 GB."""
    rows, connections = 2**15 + 1, 2**16
    indices = jnp.zeros(rows * connections, "int32").at[-1].set(7)
    indptr = jnp.arange(rows + 1, dtype="int64") * connections
    for variant in VARIANTS:
        x = jnp.zeros(rows, bool).at[-1].set(True)
        options = {"shape": (rows, 8), "transpose": True, "backend": "cuda_raw"}
        out = jax.ShapeDtypeStruct((8,), jnp.float32)
        (found,) = binary_csrmv_p(jnp.ones(1), indices, indptr, x, outs=[out], **options, **variant)
        np.testing.assert_array_equal(found, [connections - 1, 0, 0, 0, 0, 0, 0, 1])
