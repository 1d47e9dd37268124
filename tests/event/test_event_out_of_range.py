# SPDX-License-Identifier: Apache-2.0
"""Where indices are not known, in a trace, one that is out of range adds nothing, and reads and writes nothing."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from out_of_range import (
    CASES,
    POINTERS,
    assert_case,
    assert_derivatives,
    assert_pointers,
    assert_slices,
    compressed,
    every_format,
    spoilt,
)
from platforms import every_backend, every_kernel, few_examples
from product_promises import BACKENDS, both_ways, one_or_many, vector_or_matrix
from sparse_products import close, operand, taken
from test_event_csr_languages import LANGUAGES, emulating

import brainevent
from brainevent import COO, CSC, CSR, BinaryArray, FixedNumPerPost, FixedNumPerPre
from brainevent.event import structure
from brainevent.event.on_cpu import products, threads

pytestmark = pytest.mark.covering

__all__ = ["emulating"]


@pytest.fixture
def with_64_bits():
    with jax.enable_x64(True):
        yield


csr_or_fixed = pytest.mark.parametrize("name", ["csr", pytest.param("fcn", marks=pytest.mark.thorough)])
SOME = few_examples(3)


@pytest.mark.usefixtures("with_64_bits")
@pytest.mark.covering(strength=1)
@every_format
@every_backend
@SOME
@given(**CASES)
def test_products(name, backend, **case):
    assert_case(name, backend=backend, **case)


@pytest.mark.thorough
@csr_or_fixed
@both_ways
def test_products_in_threads(name, transpose, monkeypatch):
    monkeypatch.setattr(threads, "_MANY", 0)
    for seed in range(3):
        case = {"seed": seed, "m": 31, "k": 40, "connections": 5, "columns": None, "index": "int32"}
        assert_case(name, homogeneous=False, transpose=transpose, event=True, backend="numba", **case)


@pytest.mark.covering(strength=0)
@one_or_many
@csr_or_fixed
@pytest.mark.thorough
def test_rows_that_threads_share(name, homogeneous, monkeypatch):
    """What names nothing is at both ends of a row."""
    monkeypatch.setattr(threads, "_MANY", 0)
    rows, columns, connections, random = 900, 60_000, 700, np.random.default_rng(1)
    indices = np.sort(random.integers(-4000, columns + 4000, (rows, connections)))
    weights = random.integers(1, 5, 1 if homogeneous else indices.shape)
    x, there = random.random(rows) < 0.7, (indices >= 0) & (indices < columns)
    each = np.broadcast_to(weights, indices.shape) * x[:, None]
    arrays = [jnp.asarray(weights, "float32"), jnp.asarray(indices, "int32")]
    if name == "csr":
        arrays = [array.reshape(-1) for array in arrays] + [jnp.arange(rows + 1) * connections]
    how = {"shape": (rows, columns), "transpose": True, "indices_sorted": True, "backend": "numba"}
    found = jax.jit(lambda *operands: getattr(brainevent, f"binary_{name}mv")(*operands, **how))(*arrays, x)
    np.testing.assert_array_equal(found, np.bincount(indices[there], each[there], minlength=columns))


@both_ways
def test_columns_of_pairs_that_are_far_out_of_range(transpose):
    rows, columns = jnp.array([0, 1, -5, 2**31 - 1, 2]), jnp.array([1, 2**31 - 1, 0, 3, -(2**31)])
    x = np.arange(1.0, 1 + 2 * (3 if transpose else 4)).reshape(-1, 2)
    how = {"shape": (3, 4), "transpose": transpose, "backend": "numba"}
    found = jax.jit(lambda r, c: brainevent.coomm(jnp.ones(5), r, c, x, **how))(rows, columns)
    expected = np.zeros((4 if transpose else 3, 2))
    expected[1 if transpose else 0] = x[0 if transpose else 1]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.thorough  # each is tested alone: such pointers, and rows that threads share
@one_or_many
def test_invalid_row_pointers_of_rows_that_threads_share(homogeneous, monkeypatch):
    monkeypatch.setattr(threads, "_MANY", 0)
    stored, columns, random = 300_000, 50_000, np.random.default_rng(1)
    indices, begins = np.sort(random.integers(0, columns, stored)), random.integers(-30_000, stored + 30_000, 50)
    weights = np.ones(1) if homogeneous else random.integers(1, 5, stored)
    arrays = [jnp.asarray(weights, "float32"), jnp.asarray(indices, "int32"), jnp.asarray(begins)]
    how = {"shape": (49, columns), "transpose": True, "indices_sorted": True, "backend": "numba"}
    found = jax.jit(lambda *arrays: brainevent.binary_csrmv(*arrays, jnp.ones(49, bool), **how))(*arrays)
    wanted, each = np.zeros(columns), np.broadcast_to(weights, indices.shape)
    for begin, end in itertools.pairwise(np.clip(begins, 0, stored)):
        wanted += np.bincount(indices[begin:end], each[begin:end], minlength=columns) if begin < end else 0
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.covering(strength=1, most=2)
@every_format
@both_ways
@vector_or_matrix
@pytest.mark.parametrize(("k", "connections"), [(20_000, 400), (9_000, 2_101)], ids=["for tiles", "for several pages"])
def test_rows_that_are_long_enough(name, transpose, columns, k, connections):
    case = {"seed": 5, "m": 40, "k": k, "connections": connections, "index": "int32", "homogeneous": False}
    assert_case(name, columns=columns, transpose=transpose, event=True, backend="numba", **case)


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize("language", [language for language in LANGUAGES if language not in BACKENDS])
@both_ways
@one_or_many
def test_products_in_other_languages(language, transpose, homogeneous, emulating):
    for seed in (0, 7, 8):  # none is below the range, all are out of it, some are
        case = {"seed": seed, "m": 9, "k": 12, "connections": 4, "columns": None, "index": "int32"}
        how = {"homogeneous": homogeneous, "transpose": transpose, "event": True, "backend": language}
        assert_case("csr", **case, **how)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize(
    "language", [language for language in LANGUAGES if language not in ("reference", "pallas_tpu")]
)
@both_ways
def test_invalid_row_pointers_in_other_languages(language, transpose, emulating):
    for pointers in ([0, -7, 50, 3, 2**31 - 1, -(2**31), 36], [36, 30, 20, 10, 5, 2, 0], [-1, 5, 9, 9, 20, 36, 37]):
        assert_pointers(pointers, homogeneous=False, transpose=transpose, backend=language)


@pytest.mark.covering(strength=0)
@every_kernel
@both_ways
@SOME
@given(POINTERS, st.booleans(), st.booleans(), st.booleans(), st.none() | st.just(2))
def test_invalid_row_pointers(backend, transpose, pointers, event, homogeneous, indexed, columns):
    how = {"event": event, "homogeneous": homogeneous, "indexed": indexed, "columns": columns}
    assert_pointers(pointers, transpose=transpose, backend=backend, **how)


@SOME
@given(
    st.lists(st.sampled_from([-3, 0, 17, 2000, 2100, 5000, 9000, 18_000, 2**31 - 1]), min_size=7, max_size=7),
    st.booleans(),
    st.booleans(),
)
@pytest.mark.thorough
def test_invalid_row_pointers_of_long_rows(pointers, homogeneous, indexed):
    how = {"homogeneous": homogeneous, "indexed": indexed, "connections": 3000}
    assert_pointers(pointers, transpose=True, backend="numba", **how)


@pytest.mark.covering(strength=1)
@every_backend
@both_ways
@vector_or_matrix
def test_permutations_out_of_range_are_clipped_to_the_first_or_last_weight(backend, transpose, columns):
    sparse = compressed(3, 8, 12, 4, homogeneous=False)
    perm = np.random.default_rng(4).permutation(32)
    perm[::3], perm[1::3] = -5, 2**31 - 1
    x = operand(5, taken(sparse, transpose=transpose), columns, "bool", 0.5)
    arrays = (*sparse.indices, jnp.asarray(perm))
    name = f"binary_csr{'mv' if columns is None else 'mm'}_indexed"
    call = lambda *arrays: getattr(brainevent, name)(
        sparse.weights, *arrays, x, shape=sparse.shape, transpose=transpose, backend=backend
    )
    each = dataclasses.replace(sparse, weights=sparse.weights[np.clip(perm, 0, 31)])
    close(jax.jit(call)(*arrays), each.product(x, transpose=transpose, event=True))


@pytest.mark.covering(strength=1, most=3)
@every_format
@every_backend
@both_ways
@vector_or_matrix
@pytest.mark.parametrize("event", [True, False])
def test_derivatives(name, backend, transpose, columns, event):
    assert_derivatives(name, seed=6, columns=columns, transpose=transpose, event=event, backend=backend)


@every_backend
def test_slices(backend):
    assert_slices(backend=backend)


@pytest.mark.parametrize("of_columns", [False, True])
def test_values_per_weight(of_columns):
    sparse = compressed(8, 9, 12, 4, homogeneous=False)
    arrays, _, there = spoilt(sparse, 9, (12, None), 0.3)
    y = jnp.arange(1.0, 13 if of_columns else 10)
    found = jax.jit(
        lambda arrays: brainevent.csrmv_dt2t(y, sparse.weights, *arrays, shape=sparse.shape, transpose=of_columns)
    )(arrays)
    place = np.where(there, sparse.columns, 0) if of_columns else sparse.rows
    close(found, np.where(there if of_columns else True, np.asarray(sparse.weights) * np.asarray(y)[place], 0))


def made(kind, **how):
    """Return a matrix of (2, 3) of which the last index names nothing."""
    if kind in (FixedNumPerPre, FixedNumPerPost):
        indices, shape = [[0, 2], [1, 9]], (2, 3) if kind is FixedNumPerPre else (3, 2)
        return kind(jnp.ones((2, 2)), jnp.array(indices), shape=shape, **how)
    if kind is COO:
        return COO(jnp.ones(4), jnp.array([0, 0, 1, 1]), jnp.array([0, 2, 1, 9]), shape=(2, 3), **how)
    shape = (2, 3) if kind is CSR else (3, 2)
    return kind(jnp.ones(4), jnp.array([0, 2, 1, 9]), jnp.array([0, 2, 4]), shape=shape, **how)


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize(
    "kind",
    [CSR, COO, FixedNumPerPost, *(pytest.param(kind, marks=pytest.mark.thorough) for kind in (CSC, FixedNumPerPre))],
)
@pytest.mark.parametrize("inside", [False, True], ids=["check_structure=False", "in a trace"])
def test_unchecked_matrices_ignore_indices_out_of_range(kind, inside):
    wanted = np.array([[1, 0, 1], [0, 1, 0]])
    if kind in (CSC, FixedNumPerPost):
        wanted = wanted.T

    def products(x, y):
        if inside:
            matrix = jax.jit(lambda: made(kind))() if x is None else made(kind)
        else:
            matrix = made(kind, check_structure=False)
        assert not matrix.indices_within
        return BinaryArray(x) @ matrix, matrix @ BinaryArray(y), x.astype(float) @ matrix, matrix @ y.astype(float)

    x, y = (jnp.ones(size, bool) for size in wanted.shape)
    run = jax.jit(products) if inside else products
    for found, axis in zip(run(x, y), (0, 1, 0, 1), strict=True):
        close(found, wanted.sum(axis))


def test_what_matrices_know_of_their_indices():
    indices, indptr = jnp.array([0, 2, 1]), jnp.array([0, 2, 3])
    matrix = CSR(1.0, indices, indptr, shape=(2, 3))
    for known in (matrix, matrix.T, matrix.tocsc(), matrix.tocoo(), matrix.tocoo().T.tocsr(), 2 * matrix):
        assert known.indices_within
        assert jax.eval_shape(lambda x: x, known).indices_within
        assert jax.eval_shape(lambda x: x.T.tocsc(), known).indices_within
    assert matrix.slice_rows([1]).indices_within
    assert matrix.diag_add(1.0).indices_within
    assert CSR.random((4, 5), prob=0.5).indices_within
    assert FixedNumPerPre.random((4, 5), 2).tocsr().indices_within
    assert CSR.fromdense(jnp.eye(3)).indices_within
    unknown = CSR(1.0, indices, indptr, shape=(2, 3), check_structure=False)
    for matrix in (
        unknown,
        unknown.T,
        unknown.tocoo(),
        unknown.tocsc(),
        unknown.slice_rows([1]),
        unknown.diag_add(1.0),
    ):
        assert not matrix.indices_within
    assert CSR(1.0, indices, indptr, shape=(2, 3), check_structure=False, indices_within=True).indices_within
    assert not jax.eval_shape(lambda indices: CSR(1.0, indices, indptr, shape=(2, 3)), indices).indices_within


@SOME
@given(
    rows=st.lists(st.lists(st.integers(0, 9), min_size=5, max_size=5), min_size=7, max_size=7), ascending=st.booleans()
)
def test_whether_rows_ascend_is_found_on_a_gpu_too(rows, ascending):
    indices = np.sort(rows, axis=1) if ascending else np.array(rows)
    expected = bool(np.all(indices[:, 1:] >= indices[:, :-1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "_on_host", lambda x: False)
        patch.setattr(structure, "_CHUNK", 7)
        found = FixedNumPerPre(1.0, jnp.asarray(indices, jnp.int32), shape=(len(rows), 10))
        assert found.indices_sorted == expected
        indptr = np.arange(len(rows) + 1, dtype=np.int32) * 5
        assert CSR(1.0, jnp.asarray(indices.ravel(), jnp.int32), indptr, shape=found.shape).indices_sorted == expected


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("far", [10**8, -(10**8)])
def test_indices_that_are_put_in_the_place_of_others(far):
    dense = np.array([[0, 2, 3], [4, 0, 0]], np.float32)
    for matrix, name in (
        (CSR.fromdense(dense, precompute_weight_indices=True), "indices"),
        (brainevent.CSC.fromdense(dense), "indices"),
        (FixedNumPerPre.fromsparse(brainevent.COO.fromdense(dense), num_conn=2), "indices"),
        (brainevent.COO.fromdense(dense), "col"),
    ):
        setattr(matrix, name, jnp.full_like(getattr(matrix, name), far))
        assert not matrix.indices_within
        assert not matrix.indices_sorted
        assert not matrix.buffers
        assert not np.any(np.ones(2, bool) @ matrix)
        assert not np.any(matrix @ np.ones(3, bool))


def test_a_shape_that_is_put_in_the_place_of_another():
    matrix = CSR.fromdense(jnp.eye(3))
    matrix.shape = (3, 2)
    np.testing.assert_array_equal(np.ones(3, bool) @ matrix, [1, 1])


def test_kernels_do_not_test_what_is_known(monkeypatch):
    kernels = []
    built = products.kernel
    note = lambda law, rows, *rest, **how: kernels.append(rows.within) or built(law, rows, *rest, **how)
    monkeypatch.setattr(products, "kernel", note)
    indices, indptr, x = jnp.array([0, 2, 1]), jnp.array([0, 2, 3]), jnp.ones(2)
    call = lambda indices: brainevent.csrmv(jnp.ones(3), indices, indptr, x, shape=(2, 3), transpose=True)
    for run, within in (
        (lambda: call(indices), True),
        (jax.jit(lambda: call(indices)), True),
        (lambda: jax.jit(call)(indices), False),
    ):
        kernels.clear()
        np.testing.assert_array_equal(run(), [1, 1, 1])
        assert kernels == [within]
    matrix = CSR(1.0, indices, indptr, shape=(2, 3))
    kernels.clear()
    np.testing.assert_array_equal(jax.jit(lambda matrix: x @ matrix)(matrix), [1, 1, 1])
    assert kernels == [True]


def test_what_is_before_the_first_row_is_not_counted_from_the_last():
    dense = np.array([[10, 0], [0, 100]])

    @jax.jit
    def forms(row, col):
        matrix = COO(jnp.array([1.0, 10.0, 100.0]), row, col, shape=(2, 2))
        turned = CSR(matrix.data, row, jnp.array([0, 2, 3]), shape=(2, 2))
        return matrix.todense(), matrix.tocsr() @ jnp.ones(2), matrix.sum(), matrix.sum(1), turned.tocsc() @ jnp.ones(2)

    for far in (-2, -1, 2, 10**6):
        found, by_rows, total, sums, turned = forms(jnp.array([far, 0, 1]), jnp.array([0, 0, 1]))
        np.testing.assert_array_equal(found, dense)
        np.testing.assert_array_equal(by_rows, dense.sum(1))
        np.testing.assert_array_equal(sums, dense.sum(1))
        np.testing.assert_array_equal(turned, [10, 100])
        assert total == 110


@pytest.mark.usefixtures("with_64_bits")
def test_a_wide_index_does_not_become_a_right_one():
    run = jax.jit(
        lambda indices, indptr: CSR(jnp.ones(2), indices, indptr, shape=(1, 3)) @ jnp.array([1.0, 10.0, 100.0])
    )
    np.testing.assert_array_equal(run(jnp.array([0, 2**32 + 2]), jnp.array([0, 2])), [1])
    np.testing.assert_array_equal(run(jnp.array([0, 2]), jnp.array([2**32, 2])), [0])
    wide = np.array([0, 2**32 + 2])
    close(CSR(jnp.ones(2), wide, [0, 2], shape=(1, 3), check_structure=False) @ jnp.ones(3), [1])
    with jax.enable_x64(False), pytest.raises(ValueError, match="csrmv: indices holds 2147483647, out of range"):
        brainevent.csrmv(jnp.ones(2), wide, np.array([0, 2]), jnp.ones(3), shape=(1, 3))


@pytest.mark.thorough
@pytest.mark.usefixtures("with_64_bits")
def test_the_largest_index_holds_up_no_tile():
    indices = np.sort(np.random.default_rng(0).integers(0, 20_000, (40, 400)))
    indices[:, [7, 14]] = 2**63 - 1
    run = jax.jit(
        lambda indices: brainevent.binary_fcnmv(
            jnp.ones(1, jnp.float32), indices, jnp.ones(40, bool), shape=(40, 20_000), transpose=True, backend="numba"
        )
    )
    there = indices[indices < 20_000]
    np.testing.assert_array_equal(run(jnp.asarray(indices)), np.bincount(there, minlength=20_000))


def test_gradients_through_permutations_out_of_range():
    sparse = compressed(3, 8, 12, 4, homogeneous=False)
    perm = np.random.default_rng(4).permutation(32)
    perm[::3], perm[1::3] = -5, 2**31 - 1
    x, cotangent = jnp.arange(1.0, 13), jnp.arange(8.0)

    @jax.jit
    def gradient(weights, perm):
        call = lambda weights: brainevent.csrmv_indexed(weights, *sparse.indices, perm, x, shape=sparse.shape)
        return jax.vjp(call, weights.astype(float))[1](cotangent)[0]

    wanted = np.zeros(32)
    np.add.at(wanted, np.clip(perm, 0, 31), np.asarray(cotangent)[sparse.rows] * np.asarray(x)[sparse.columns])
    close(gradient(sparse.weights, jnp.asarray(perm)), wanted)


def test_infinite_values_at_indices_out_of_range_are_ignored():
    values = jax.jit(
        lambda indices: brainevent.csrmv_dt2t(
            jnp.ones(2), jnp.array([jnp.inf, 2.0]), indices, jnp.array([0, 2]), shape=(1, 2), transpose=True
        )
    )
    np.testing.assert_array_equal(values(jnp.array([7, 1])), [0, 2])


def test_unchecked_indices_are_not_marked_as_within_range():
    assert not FixedNumPerPre.fromdense(jnp.zeros((3, 0)), num_conn=2).indices_within
    assert not FixedNumPerPost.fromdense(jnp.zeros((0, 3)), num_conn=2).indices_within
    assert FixedNumPerPre.fromdense(jnp.eye(3), num_conn=2).indices_within
    matrix = CSR(jnp.ones(3), jnp.array([0, 2, 1]), jnp.array([0, 2, 3]), shape=(2, 3), precompute_weight_indices=True)
    assert matrix.indices_within
    assert not CSR(1.0, jnp.array([0]), jnp.array([0, 1]), shape=(1, 1), buffers=matrix.buffers).indices_within
    matrix.register_buffer("mine", jnp.ones(1))
    assert matrix.indices_within
    matrix.set_buffer("turned_perm", jnp.array([0, 10**8, -3]))
    assert not matrix.indices_within
    close(matrix @ BinaryArray(jnp.ones(3, bool)), [2, 1])


def test_a_matrix_has_memory_of_its_own():
    room = np.zeros(64, np.int32)
    for begin in range(16):  # of which some are aligned, so that JAX could take them as they are
        indices = room[begin : begin + 8]
        matrix = CSR(1.0, indices, np.array([0, 8]), shape=(1, 3))
        indices[0] = 10**6
        assert matrix.indices[0] == 0
        indices[0] = 0
