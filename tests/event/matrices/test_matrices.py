# SPDX-License-Identifier: Apache-2.0
"""Matrices: every format against NumPy's dense products in float64, made, converted, cut, jitted and refused."""

import itertools
import math
import operator
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from forked import run_forked
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent
from brainevent import COO, CSC, CSR, BinaryArray, Dense, FixedNumPerPost, FixedNumPerPre
from brainevent.event import structure
from brainevent.event.structure import checked_indptr, narrow

pytestmark = pytest.mark.covering

FORMATS = {
    "csr": lambda coo: coo.tocsr(),
    "csc": lambda coo: coo.tocsc(),
    "coo": lambda coo: coo,
    "dense": lambda coo: Dense(coo.todense()),
    "per_pre": lambda coo: FixedNumPerPre.fromsparse(coo, num_conn=coo.nse),
    "per_post": lambda coo: FixedNumPerPost.fromsparse(coo, num_conn=coo.nse),
    "csr, turned": lambda coo: coo.tocsr().precompute_weight_indices(),
    "csc, turned": lambda coo: coo.tocsc().precompute_weight_indices(),
    "per_pre, turned": lambda coo: FORMATS["per_pre"](coo).precompute_weight_indices(),
    "per_post, turned": lambda coo: FORMATS["per_post"](coo).precompute_weight_indices(),
}
SPARSE = ["csr", "csc", "coo", "per_pre", "per_post"]
TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-5, "float64": 1e-12}

TH = pytest.mark.thorough
LIKE_OTHERS = ("csc, turned", "per_pre, turned")  # CSC is CSR, and what is fixed per row what is per column, transposed
formats = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=TH) if name in LIKE_OTHERS else name for name in FORMATS]
)

# Where a turned format does what the plain one does, and one of columns what one of rows does.
few_formats = pytest.mark.parametrize(
    "name", [name if name in ("csr", "coo", "dense", "per_post") else pytest.param(name, marks=TH) for name in FORMATS]
)


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=tolerance, atol=tolerance)


def coordinates(shape, stored, seed, *, homogeneous=False, dtype="float32"):
    """Return a COO matrix with elements stored anywhere, some of them twice, and the same dense in float64."""
    rng = np.random.default_rng(seed)
    stored = stored if 0 not in shape else 0
    row, col = (rng.integers(0, max(size, 1), stored, np.int32) for size in shape)
    data = jnp.asarray(rng.uniform(0.5, 1.5, 1 if homogeneous else stored), dtype)
    dense = np.zeros(shape)
    np.add.at(dense, (row, col), np.asarray(data, np.float64))
    return COO(data, row, col, shape=shape), dense


EXAMPLE = coordinates((5, 7), 12, seed=1)
# Few shapes, so that few programs are compiled: with what is drawn among them, NumPy is asked too.
cases = st.tuples(st.sampled_from([(5, 7), (0, 3), (4, 0), (3, 1)]), st.sampled_from([9, 0]), st.booleans())
few = settings(max_examples=2)


# ---- products


@jax.jit
def products(matrix, x, y):
    """Return all products of a matrix with numbers, events and booleans, on both sides."""
    return [
        (matrix @ y, x.T @ matrix),
        (matrix @ BinaryArray(y), BinaryArray(x.T) @ matrix),
        (matrix @ (y != 0), (x.T != 0) @ matrix),
    ]


@few_formats
@pytest.mark.parametrize("dtype", ["float32", *(pytest.param(name, marks=TH) for name in ("float16", "bfloat16"))])
@few
@given(cases, st.integers(0, 9), st.sampled_from([(), (3,)]))
def test_products_are_those_of_the_dense_matrix(name, dtype, case, seed, columns):
    shape, stored, homogeneous = case
    coo, dense = coordinates(shape, stored, seed, homogeneous=homogeneous, dtype=dtype)
    rng = np.random.default_rng(seed + 1)
    x, y = (jnp.asarray(rng.uniform(-1, 1, (size, *columns)), dtype) for size in shape)
    left, right = (np.asarray(z, np.float64) for z in (x.T, y))
    numbers, *events = products(FORMATS[name](coo), x, y)
    for found, expected in [
        (numbers, (dense @ right, left @ dense)),
        *((of_events, (dense @ (right != 0), (left != 0) @ dense)) for of_events in events),
    ]:
        for one, other in zip(found, expected, strict=True):
            assert (one.dtype, one.shape) == (dtype, other.shape)
            close(one, other, TOLERANCE[dtype])


@pytest.mark.parametrize("name", [pytest.param(name, marks=TH) if name != "csr" else name for name in FORMATS])
def test_products_in_float64(name):
    with jax.enable_x64(True):
        coo, dense = coordinates((4, 5), 9, seed=3, dtype="float64")
        matrix = FORMATS[name](coo)
        x = np.linspace(-1, 1, 5)
        close(matrix @ jnp.asarray(x), dense @ x, 1e-12)
        close(BinaryArray(jnp.asarray(x)) @ matrix.T, (x != 0) @ dense.T, 1e-12)


@few_formats
def test_integers_and_lists_are_numbers(name):
    matrix, dense = FORMATS[name](EXAMPLE[0]), EXAMPLE[1]
    close(matrix @ np.arange(7), dense @ np.arange(7))
    close(jnp.arange(5) @ matrix, np.arange(5) @ dense)
    close(matrix @ [1, 0, 2, 0, 3, 0, 4], dense @ [1, 0, 2, 0, 3, 0, 4])


@formats
def test_weights_of_inactive_rows_add_nothing_even_if_nan(name):
    coo, dense = EXAMPLE
    matrix = FORMATS[name](coo)
    silent = np.arange(7) % 2 == 0
    values = np.where(np.asarray(dense) != 0, dense, 0) * np.where(silent, np.nan, 1)
    poisoned = matrix * jnp.asarray(np.where(np.broadcast_to(silent, (5, 7)), np.nan, 1.0))
    close(poisoned @ BinaryArray(jnp.asarray(~silent)), np.nansum(values, axis=1))
    close(BinaryArray(jnp.asarray(~silent)) @ poisoned.T, np.nansum(values, axis=1))


def test_turned_structure_makes_both_directions_follow_events():
    def operators(matrix, left):
        spikes = jnp.ones(5 if left else 7, bool)
        program = str(jax.make_jaxpr(lambda m: spikes @ m if left else m @ spikes)(matrix))
        return "indexed" in program

    coo = EXAMPLE[0]
    plain = coo.tocsr()
    turned = CSR((1.0, plain.indices, plain.indptr), shape=(5, 7), precompute_weight_indices=True)
    assert [operators(plain, True), operators(plain, False)] == [False, False]
    assert [operators(turned, True), operators(turned, False)] == [False, True]
    assert [operators(turned.T.T, True), operators(turned.T.T, False)] == [False, True]
    post = FORMATS["per_post, turned"](coo)
    assert [operators(post, True), operators(post, False)] == [True, False]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: m @ jnp.ones(5), ValueError, r"CSR\(5, 7\) @ x: x has shape \(5,\); its first axis must be 7"),
        (lambda m: jnp.ones((2, 7)) @ m, ValueError, r"x @ CSR\(5, 7\): x has shape \(2, 7\); its last axis must be 5"),
        (
            lambda m: m @ jnp.ones((2, 3, 7)),
            brainevent.MathError,
            r"x has shape \(2, 3, 7\); pass a vector or a matrix",
        ),
        (lambda m: m @ 2.0, brainevent.MathError, r"x has shape \(\); pass a vector or a matrix"),
        (lambda m: m @ m.T, NotImplementedError, r"CSR @ CSC: no product .* multiply by \.todense\(\) of one"),
        (lambda m: m * m.tocsc(), NotImplementedError, r"CSR \* CSC: not .* multiply by \.todense\(\) of the second"),
        (lambda m: m * jnp.ones(7), ValueError, r"CSR\(5, 7\) \* array of shape \(7,\): pass a scalar"),
        (lambda m: m @ scipy.sparse.eye_array(7), NotImplementedError, r"CSR @ \w+: no product of two such matrices"),
        (lambda m: m * 1j, TypeError, r"data is complex64; pass floating weights"),
        (lambda m: m / jnp.full((5, 7), 1j), TypeError, r"data is complex64; pass floating weights"),
        (lambda m: m @ jnp.full(7, 1j), TypeError, r"CSR: x is complex64; pass booleans, integers or real numbers"),
        (lambda m: Dense(m.todense()) @ jnp.full(7, 1j), TypeError, r"Dense: x is complex64; pass booleans, int"),
        (lambda m: m.sum(2), ValueError, r"CSR.sum: axis is 2; pass 0, 1, or None"),
    ],
)
def test_products_that_have_no_meaning(call, error, words):
    with pytest.raises(error, match=words):
        call(FORMATS["csr"](EXAMPLE[0]))


# ---- conversions and construction


@pytest.mark.parametrize("start", FORMATS)
@few
@given(cases)
def test_every_format_becomes_every_other(start, case):
    shape, stored, homogeneous = case
    coo, dense = coordinates(shape, stored, seed=stored, homogeneous=homogeneous)
    matrix = FORMATS[start](coo)
    assert matrix.shape == matrix.todense().shape == shape
    close(matrix.todense(), dense)
    close(matrix.T.todense(), dense.T)
    for found, kind in ((matrix.tocsr(), CSR), (matrix.tocsc(), CSC), (matrix.tocoo(), COO)):
        assert type(found) is kind
        close(found.todense(), dense)
        close(found.T.todense(), dense.T)
    for kind, axis in ((FixedNumPerPre, 0), (FixedNumPerPost, 1)):
        found = kind.fromsparse(matrix, num_conn=matrix.nse)
        assert found.indices.shape == (shape[axis], matrix.nse)
        close(found.todense(), dense)


@pytest.mark.parametrize("kind", [CSR, CSC, COO])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_scipy_matrices_of_any_form_are_taken(kind, form):
    dense = np.asarray(EXAMPLE[1], np.float32)
    for made in (scipy.sparse.coo_matrix(dense), scipy.sparse.coo_array(dense)):
        foreign = getattr(made, f"to{form}")()
        close(kind(foreign).todense(), dense)
        close(kind.fromscipy(foreign).todense(), dense)


@pytest.mark.parametrize("kind", [CSR, CSC, COO, Dense, FixedNumPerPre, FixedNumPerPost])
def test_dense_arrays_are_taken(kind):
    dense = np.array([[0, 2.0, 3], [4, 0, 5]], np.float32) if kind is not FixedNumPerPost else np.eye(3)
    made = kind.fromdense(dense)
    close(made.todense(), dense)
    assert made.nse == np.count_nonzero(dense) or kind is Dense


@pytest.mark.parametrize("kind", [CSR, CSC, COO])
def test_a_trace_makes_a_matrix_of_a_dense_one_if_nse_is_given(kind):
    dense = jnp.array([[0, 2.0, 3], [0, 0, 0], [4, 0, 0]])
    made = jax.jit(lambda d: kind.fromdense(d, nse=5))(dense)
    assert made.nse == kind.fromdense(dense, nse=5).nse == 5
    close(made.todense(), dense)
    close(kind.fromdense(dense, nse=5).todense(), dense)
    gradient = jax.grad(lambda d: (kind.fromdense(d, nse=5) @ jnp.arange(3.0)).sum())(dense)
    close(gradient, np.where(dense, np.arange(3.0), 0))
    with pytest.raises(ValueError, match=r"fromdense: the number of nonzero elements is unknown .* pass nse"):
        jax.jit(kind.fromdense)(dense)
    with pytest.raises(ValueError, match=r"fromdense: 3 elements are nonzero; nse=2 does not fit"):
        kind.fromdense(dense, nse=2)


def test_parts_are_given_one_by_one_or_as_one():
    data, indices, indptr = [1.0, 2.0, 3.0], [0, 2, 1], [0, 2, 3]
    dense = [[1, 0, 2], [0, 3, 0]]
    close(CSR(data, indices, indptr, shape=(2, 3)).todense(), dense)
    close(CSR((data, indices, indptr), shape=[2, 3]).todense(), dense)
    close(CSC((data, indices, indptr), shape=(3, 2)).todense(), np.transpose(dense))
    close(COO(data, [0, 0, 1], [0, 2, 1], shape=(2, 3)).todense(), dense)
    close(FixedNumPerPre(([[1.0, 2.0]], [[0, 2]]), shape=(1, 3)).todense(), [[1, 0, 2]])
    close(FixedNumPerPost([[1.0, 2.0]], [[0, 2]], shape=(3, 1)).todense(), [[1], [0], [2]])
    close(Dense(2.0, shape=(2, 3)).todense(), np.full((2, 3), 2.0))
    for made in (CSR(2, indices, indptr, shape=(2, 3)), CSR(jnp.array([2.0]), indices, indptr, shape=(2, 3))):
        assert made.nse == 3
        close(made.todense(), [[2, 0, 2], [0, 2, 0]])


def test_rows_of_unequal_length_need_a_number_to_fill_up_to():
    with pytest.raises(ValueError, match=r"FixedNumPerPre: from 1 to 3 elements a row; pass num_conn=3"):
        FixedNumPerPre.fromdense(EXAMPLE[1])
    with pytest.raises(ValueError, match=r"FixedNumPerPost: num_conn is 1, but there are up to \d elements; pass that"):
        FixedNumPerPost.fromdense(EXAMPLE[1], num_conn=1)
    equal = FixedNumPerPre((1.5, jnp.array([[0, 1], [2, 1]])), shape=(2, 3))
    assert FixedNumPerPre.fromsparse(equal.tocsr()).data.size == 1


def test_indices_take_32_bits_where_these_suffice():
    made = CSR(np.ones(2, np.float32), np.array([0, 1], np.uint8), np.array([0, 2], np.int64), shape=(1, 2))
    assert (made.indices.dtype, made.indptr.dtype) == (np.int32, np.int32)
    empty = np.array([], np.int64)
    assert narrow("CSR", "indices", empty, 2**31).dtype == np.int32
    with pytest.raises(ValueError, match=r"CSR: indices needs int64; .*jax_enable_x64.* allows it"):
        narrow("CSR", "indices", empty, 2**31 + 1)
    with pytest.raises(ValueError, match=r"CSR: int32 does not hold 2147483648; pass indptr_dtype='int64'"):
        checked_indptr("CSR", empty, 2**31, "int32")
    with pytest.raises(TypeError, match=r"CSR: indptr_dtype is float32; pass 'auto', 'int32' or 'int64'"):
        checked_indptr("CSR", empty, 3, "float32")
    with jax.enable_x64(True):
        assert narrow("CSR", "indices", empty, 2**31 + 1).dtype == np.int64
        assert checked_indptr("CSR", np.array([0, 2**31]), 2**31).dtype == np.int64
        assert checked_indptr("CSR", empty, 2**31 - 1).dtype == np.int32
        wide = CSR.fromdense(jnp.eye(3), indptr_dtype="int64", index_dtype="int64")
        assert (wide.indices.dtype, wide.indptr.dtype) == (np.int64, np.int64)
        close(jnp.array([1.0, 0.0, 1.0]) @ wide, [1, 0, 1])
        close(wide @ jnp.arange(3.0), [0, 1, 2])


# ---- what bad structure gets

INDICES, INDPTR = np.array([0, 2, 1]), np.array([0, 2, 3])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: CSR(1.0, INDICES * 1.0, INDPTR, shape=(2, 3)), TypeError, r"CSR: indices is float64; pass integers"),
        (lambda: CSR(1.0, INDICES, INDPTR * 1.0, shape=(2, 3)), TypeError, r"CSR: indptr is float64; pass integers"),
        (lambda: CSC(1.0, INDICES > 0, INDPTR, shape=(3, 2)), TypeError, r"CSC: indices is bool; pass integers"),
        (
            lambda: CSR(1.0, INDICES - 1, INDPTR, shape=(2, 3)),
            ValueError,
            r"CSR: indices holds -1; indices must not be",
        ),
        (lambda: CSR(1.0, INDICES, INDPTR, shape=(2, 2)), ValueError, r"CSR: indices holds 2, .* pass indices below 2"),
        (lambda: CSC(1.0, INDICES, INDPTR, shape=(2, 2)), ValueError, r"CSC: indices holds 2, out of range"),
        (lambda: CSR(1.0, INDICES, INDPTR, shape=(3, 3)), ValueError, r"CSR: indptr has 3 elements; it must have 4"),
        (
            lambda: CSR(1.0, INDICES, [1, 2, 3], shape=(2, 3)),
            ValueError,
            r"CSR: indptr goes from 1 to 3; it must begin with 0",
        ),
        (
            lambda: CSR(1.0, INDICES, [0, 2, 4], shape=(2, 3)),
            ValueError,
            r"CSR: indptr goes from 0 to 4; .* end with 3",
        ),
        (
            lambda: CSR(1.0, INDICES, [0, 3, 2, 3], shape=(3, 3)),
            ValueError,
            r"CSR: indptr decreases from 3 to 2 at position 2; it must not",
        ),
        (
            lambda: CSR(1.0, INDICES[None], INDPTR, shape=(2, 3)),
            ValueError,
            r"CSR: indices has shape \(1, 3\); its rank",
        ),
        (
            lambda: CSR(jnp.ones(2), INDICES, INDPTR, shape=(2, 3)),
            ValueError,
            r"CSR: data has shape \(2,\); pass one wei",
        ),
        (
            lambda: CSR(np.arange(3), INDICES, INDPTR, shape=(2, 3)),
            TypeError,
            r"CSR: data is int\d+; pass floating weights",
        ),
        (lambda: CSR(1.0, INDICES, INDPTR), TypeError, r"CSR: no shape is given; pass shape=\(rows, columns\)"),
        (lambda: CSR(1.0, INDICES, INDPTR, shape=(2, -3)), ValueError, r"CSR: shape is \(2, -3\); pass two sizes that"),
        (lambda: CSR(1.0, INDICES, INDPTR, shape=(2, 3.5)), TypeError, r"CSR: shape is \(2, 3.5\); pass two integers"),
        (lambda: CSR(1.0), TypeError, r"CSR: pass CSR\(data, indices, indptr, shape=...\) or CSR\(\(data,"),
        (lambda: COO(1.0, [0, 3], [0, 1], shape=(3, 3)), ValueError, r"COO: row holds 3, out of range"),
        (lambda: COO(1.0, [0, 2], [0, -1], shape=(3, 3)), ValueError, r"COO: col holds -1"),
        (lambda: COO(1.0, [0, 2], [0], shape=(3, 3)), ValueError, r"COO: row has shape \(2,\) and col \(1,\)"),
        (
            lambda: FixedNumPerPre((1.0, [[0], [4]]), shape=(2, 3)),
            ValueError,
            r"FixedNumPerPre: indices holds 4, out of r",
        ),
        (
            lambda: FixedNumPerPre((1.0, [[0], [1]]), shape=(3, 3)),
            ValueError,
            r"FixedNumPerPre: .* must have 3 rows, one for each pre",
        ),
        (
            lambda: FixedNumPerPost((1.0, [[0], [1]]), shape=(2, 3)),
            ValueError,
            r"FixedNumPerPost: .* must have 3 rows, one for each postsynaptic neuron",
        ),
        (
            lambda: FixedNumPerPost((1.0, [0, 1]), shape=(2, 2)),
            ValueError,
            r"FixedNumPerPost: indices has shape \(2,\)",
        ),
        (lambda: FixedNumPerPre((jnp.ones(2), [[0], [1]]), shape=(2, 2)), ValueError, r"of the indices, \(2, 1\)"),
        (lambda: CSR("a", INDICES, INDPTR, shape=(2, 3)), TypeError, r"CSR: data is str; pass floating weights"),
        (
            lambda: CSR.fromdense(jnp.eye(3)).diag_add(jnp.ones(2)),
            ValueError,
            r"CSR.diag_add: the diagonal has shape \(2,\); pass a number, or an array \(3,\)",
        ),
        (lambda: Dense(jnp.ones(3)), ValueError, r"Dense: shape is \(3,\); pass two sizes"),
        (lambda: CSR.fromdense(jnp.ones(3)), ValueError, r"CSR.fromdense: the array has shape \(3,\); pass a matrix"),
        (lambda: COO.fromdense(np.eye(3, dtype=int)), TypeError, r"COO.fromdense: the array is int\d+; pass floating"),
        (lambda: FixedNumPerPost.fromdense(1j * np.eye(3)), TypeError, r"FixedNumPerPost.fromdense: the array is comp"),
        (lambda: FixedNumPerPre.fromdense(np.eye(3), num_conn=1.5), TypeError, r"num_conn is 1.5; pass an integer"),
        (lambda: FixedNumPerPre.random((3, 3), 1.5), TypeError, r"number of connections is 1.5; pass an integer"),
        (lambda: jax.jit(FixedNumPerPre.fromdense)(jnp.eye(3)), RuntimeError, r"fromdense: .* outside of jax.jit"),
        (lambda: CSR(1.0, INDICES, shape=(2, 3)), TypeError, r"CSR: pass CSR\(data, indices, indptr, shape=...\) or"),
        (lambda: COO(1.0, INDICES, shape=(2, 3)), TypeError, r"COO: pass COO\(data, row, col, shape=...\) or"),
    ],
)
def test_bad_structure_is_refused_when_a_matrix_is_made(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_lists_are_taken_also_where_they_are_empty():
    close(CSR(([], [], [0, 0]), shape=(1, 3)).todense(), np.zeros((1, 3)))
    close(COO([], [], [], shape=(2, 3)).todense(), np.zeros((2, 3)))
    close(FixedNumPerPre((1.0, [[], []]), shape=(2, 3)).todense(), np.zeros((2, 3)))
    for kind in (CSR, CSC, COO, Dense, FixedNumPerPre, FixedNumPerPost):
        close(kind.fromdense([[0, 2], [3, 0]]).todense(), [[0, 2], [3, 0]])
    close((Dense([[1.0, 2.0]]) * [[3.0, 4.0]]).todense(), [[3, 8]])
    close((CSR.fromdense([[1.0, 2.0]]) * [2.0]).todense(), [[2, 4]])
    close(Dense(scipy.sparse.csr_array([[0.0, 2.0], [3.0, 0.0]])).todense(), [[0, 2], [3, 0]])
    close(FixedNumPerPost.fromsparse(scipy.sparse.csr_array([[0.0, 2.0], [3.0, 0.0]])).todense(), [[0, 2], [3, 0]])


def test_structure_is_not_checked_in_a_trace_or_if_switched_off():
    wrong = jnp.array([0, 9, 1])
    made = jax.jit(lambda indices: CSR(1.0, indices, INDPTR, shape=(2, 3)))(wrong)
    assert made.indices.tolist() == [0, 9, 1]
    assert CSR(1.0, wrong, INDPTR, shape=(2, 3), check_structure=False).nse == 3
    with pytest.raises(ValueError, match="out of range"):
        jax.jit(lambda data: CSR(data, wrong, INDPTR, shape=(2, 3)))(1.0)  # here the indices are known


def test_structure_on_another_device_is_looked_at_there(monkeypatch):
    monkeypatch.setattr(structure, "_on_host", lambda x: False)
    indices = jnp.array([0, 2, 1])
    for make in (lambda x: x, jax.jit):
        assert make(lambda: CSR(1.0, indices, INDPTR, shape=(2, 3)))().nse == 3
        with pytest.raises(ValueError, match="CSR: indices holds 2, out of range"):
            make(lambda: CSR(1.0, indices, INDPTR, shape=(2, 2)))()


def test_order_and_duplicates_are_free():
    made = CSR(jnp.array([1.0, 2.0, 4.0]), [2, 0, 2], [0, 3], shape=(1, 3))
    for matrix in (made, made.tocsc(), made.tocoo(), made.tocsc().tocsr()):
        close(matrix.todense(), [[2, 0, 5]])
        close(jnp.array([True]) @ matrix, [2, 0, 5])


# ---- arithmetic, rows


@few_formats
@few
@given(cases)
def test_arithmetic_is_that_of_the_dense_matrix(name, case):
    shape, stored, homogeneous = case
    coo, dense = coordinates(shape, stored, seed=stored, homogeneous=homogeneous)
    matrix = FORMATS[name](coo)
    other = np.random.default_rng(0).uniform(1, 2, shape).astype(np.float32)
    for found, expected in [
        (matrix * 2, dense * 2),
        (jnp.float32(2) * matrix, dense * 2),
        (np.float32(2) * matrix, dense * 2),
        (matrix / jnp.array([4.0]), dense / 4),
        (matrix * other, dense * other),
        (other * matrix, dense * other),
        (matrix / other, dense / other),
        (-matrix, -dense),
        (+matrix, dense),
        (abs(-matrix), dense),
        (matrix.apply(jnp.negative), -dense),
    ]:
        assert type(found) is type(matrix)
        close(found.todense(), expected)
    for found, expected in [
        (matrix + 1, dense + 1),
        (other + matrix, dense + other),
        (matrix - other, dense - other),
        (1 - matrix, 1 - dense),
        (matrix - matrix.tocoo(), dense * 0),
    ]:
        assert isinstance(found, brainevent.Dense if name == "dense" else jax.Array)
        close(found.todense() if name == "dense" else found, expected)
    close(matrix.sum(), dense.sum())
    close(matrix.sum(0), dense.sum(0))
    close(matrix.sum(axis=-1), dense.sum(1))


@few_formats
def test_rows_are_dense(name):
    matrix, dense = FORMATS[name](EXAMPLE[0]), EXAMPLE[1]
    for rows in (1, -1, np.int32(2), slice(1, 4), slice(None, None, -2), np.array([3, 0, 3, -2]), dense[:, 0] > 0):
        close(matrix[rows], dense[rows])
    close(matrix[2, 3], dense[2, 3])
    close(matrix[1:3, ::2], dense[1:3, ::2])
    close(np.stack(list(matrix)), dense)
    close(matrix[jnp.array([9, 1, -9])], np.stack([dense[0] * 0, dense[1], dense[0] * 0]))
    close(jax.jit(lambda m, i: m[i])(matrix, jnp.array([2, 4])), dense[[2, 4]])
    with pytest.raises(IndexError, match=r"\[5\]: there are 5 rows"):
        matrix[5]
    with pytest.raises(TypeError, match=r"pass an integer, a slice, a mask or a vector of integers"):
        matrix[jnp.array([0.5])]


@few_formats
def test_elements_are_named_as_those_of_arrays(name):
    matrix, dense = FORMATS[name](EXAMPLE[0]), EXAMPLE[1]
    for columns in ([1, 3], np.array([-1, 0]), dense[0] > 0, slice(None, None, -2), 4):
        close(matrix[:, columns], dense[:, columns])
        close(matrix[2, columns], dense[2, columns])
    close(matrix[[0, 1, -1], [2, 3, -2]], dense[[0, 1, -1], [2, 3, -2]])  # three elements, not a block
    close(jax.jit(lambda m, i: m[i, i])(matrix, jnp.array([1, 4])), dense[[1, 4], [1, 4]])
    close(matrix[[4, 9], [0, 0]], [dense[4, 0], 0])
    close(matrix[2, jnp.array([9, 1, -9])], [0, dense[2, 1], 0])
    assert matrix[[]].shape == (0, 7)
    assert matrix[:, []].shape == (5, 0)


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        ((0, 7), IndexError, r"CSR\[7\]: there are 7 columns"),
        ([True, False], IndexError, r"CSR\[rows\]: the mask has shape \(2,\); pass one boolean for each of 5"),
        (True, IndexError, r"the mask has shape \(\)"),
        ((0, 1, 2), IndexError, r"CSR: a matrix has rows and columns; pass matrix\[rows, columns\]"),
        (..., TypeError, r"CSR\[rows\]: rows is Ellipsis; pass an integer"),
        ((0, "a"), TypeError, r"CSR\[columns\]: columns is 'a'; pass an integer"),
    ],
)
def test_an_index_that_names_nothing(index, error, words):
    with pytest.raises(error, match=words):
        FORMATS["csr"](EXAMPLE[0])[index]


def test_rows_are_sliced_into_a_sparse_matrix():
    matrix, dense = FORMATS["csr"](EXAMPLE[0]), EXAMPLE[1]
    for rows in ([3, 0, 3, -1], slice(1, 4), dense[:, 0] > 0, 2, np.array([], int)):
        found = matrix.slice_rows(rows)
        assert type(found) is CSR
        close(found.todense(), np.atleast_2d(dense[rows]))
    assert (matrix * 0 + 1).shape == matrix.shape
    assert CSR(1.0, INDICES, INDPTR, shape=(2, 3)).slice_rows([1]).data.size == 1
    with pytest.raises(IndexError, match=r"CSR.slice_rows: the rows are \[0, -6\]; the matrix has 5"):
        matrix.slice_rows([0, -6])
    with pytest.raises(TypeError, match=r"CSR.slice_rows\[rows\]: rows is \[1.0\]; pass an integer, a slice"):
        matrix.slice_rows([1.0])
    with pytest.raises(IndexError, match=r"CSR.slice_rows\[rows\]: the mask has shape \(2,\); pass one"):
        matrix.slice_rows([True, False])
    with pytest.raises(RuntimeError, match=r"CSR.slice_rows: .* call it outside of jax.jit"):
        jax.jit(lambda m: m.slice_rows([0]).todense())(matrix)


@few
@given(cases)
def test_a_diagonal_is_added(case):
    shape, stored, homogeneous = case
    coo, dense = coordinates(shape, stored, seed=stored, homogeneous=homogeneous)
    diagonal = np.arange(1.0, min(shape) + 1)
    expected = dense.copy()
    np.fill_diagonal(expected, dense.diagonal() + diagonal)
    matrix = coo.tocsr().diag_add(jnp.asarray(diagonal))
    close(matrix.todense(), expected)
    assert matrix.indices_sorted
    assert all((np.diff(matrix.indices[slice(*ends)]) >= 0).all() for ends in itertools.pairwise(matrix.indptr))
    again = matrix.diag_add(1.0)
    assert again.nse == matrix.nse  # it is stored by now
    close(again.todense(), expected + np.eye(*shape))


def test_with_data_keeps_the_structure():
    matrix = FORMATS["csr"](EXAMPLE[0])
    assert matrix.with_data(jnp.arange(12.0)).indices is matrix.indices
    assert matrix.with_data(2.0).data.shape == ()
    with pytest.raises(ValueError, match=r"CSR.with_data: data has shape \(3,\); pass one weight"):
        matrix.with_data(jnp.ones(3))


# ---- pytrees


@few_formats
def test_one_jitted_function_takes_different_matrices(name):
    traces = []

    @jax.jit
    def double(matrix, x):
        traces.append(matrix)
        return matrix * 2, x @ matrix

    for seed in (1, 2):
        coo, dense = coordinates((5, 7), 12, seed=seed)
        matrix = FORMATS[name](coo)
        found, product = double(matrix, jnp.ones(5))
        assert type(found) is type(matrix)
        close(found.todense(), dense * 2)
        close(product, dense.sum(0))
    assert len(traces) == 1


@formats
def test_pytrees(name):
    matrix, dense = FORMATS[name](EXAMPLE[0]), EXAMPLE[1]
    leaves, tree = jax.tree.flatten(matrix)
    assert tree.unflatten(leaves).shape == (5, 7)
    assert type(jax.tree.map(lambda _: None, matrix)) is type(matrix)  # it is made of anything
    assert jax.eval_shape(lambda m: m.T, matrix).shape == (7, 5)
    assert len(leaves) == len(jax.tree.leaves(jax.device_put(matrix)))
    for copy in (jax.device_put(matrix, jax.devices()[1]), pickle.loads(pickle.dumps(matrix)), tree.unflatten(leaves)):
        close(copy.todense(), dense)
        assert copy.buffers.keys() == matrix.buffers.keys()
    assert matrix.block_until_ready() is not None
    found, _ = jax.lax.scan(lambda m, _: (m * 2, None), matrix, length=3)
    close(found.todense(), dense * 8)


@few_formats
def test_derivatives_and_batches_go_through_data(name):
    matrix = FORMATS[name](EXAMPLE[0])
    x = jnp.linspace(-1, 1, 7)
    data = jax.random.normal(jax.random.key(0), matrix.data.shape)
    twice = jnp.stack([data, 2 * data])
    for operand in (x, BinaryArray(x)):
        numbers = (x != 0) * 1.0 if isinstance(operand, BinaryArray) else x
        product = lambda d, operand=operand: matrix.with_data(d) @ operand
        dense = lambda d, numbers=numbers: matrix.with_data(d).todense() @ numbers
        both = lambda f: (jax.jacobian(f)(data), jax.vmap(f)(twice))
        for found, wanted in zip(*(jax.jit(both, static_argnums=0)(f) for f in (product, dense)), strict=True):
            close(found, wanted)
    close(jax.grad(lambda x: (matrix @ x).sum())(x), matrix.todense().sum(0))
    close(jax.vmap(lambda x: matrix @ x)(jnp.stack([x, -x]))[1], -(matrix @ x))
    many = jax.vmap(matrix.with_data)(jnp.stack([data, data]))
    assert many.data.shape == (2, *data.shape)


def test_buffers_travel():
    matrix = FORMATS["csr"](EXAMPLE[0])
    with pytest.raises(KeyError, match=r"CSR: no buffer 'trace'; register it first \(registered: none\)"):
        matrix.set_buffer("trace", 1)
    matrix.register_buffer("trace", jnp.arange(3))
    matrix.set_buffer("trace", jnp.arange(4))
    moved = jax.jit(operator.neg)(matrix)
    assert moved.buffers["trace"].tolist() == [0, 1, 2, 3]
    assert CSR(1.0, INDICES, INDPTR, shape=(2, 3), buffers={"a": jnp.ones(1)}).T.buffers.keys() == {"a"}


def test_what_a_matrix_says_of_itself():
    matrix = FORMATS["csr"](EXAMPLE[0])
    assert repr(matrix) == "CSR(float32[5, 7], nse=12)"
    assert repr(Dense(jnp.ones((2, 3)))) == "Dense(float32[2, 3], nse=6)"
    assert (matrix.nse, matrix.dtype, matrix.shape, matrix.ndim, matrix.size, len(matrix)) == (
        12,
        "float32",
        (5, 7),
        2,
        35,
        5,
    )
    assert {matrix: 1}[matrix] == 1  # two matrices are never the same by chance
    assert isinstance(matrix, brainevent.DataRepresentation)


# ---- neighbours


@pytest.mark.parametrize(
    ("old", "new"),
    [("EventArray", BinaryArray), ("FixedPostNumConn", FixedNumPerPre), ("FixedPreNumConn", FixedNumPerPost)],
)
def test_old_names_still_work(old, new):
    with pytest.warns(DeprecationWarning, match=rf"brainevent.{old} is now called brainevent.{new.__name__}"):
        assert getattr(brainevent, old) is new


@few_formats
def test_quantities_are_data_and_operands(name):
    u = pytest.importorskip("brainunit")
    coo, dense = EXAMPLE
    matrix = FORMATS[name](coo).apply(lambda data: data * u.mS)
    x = jnp.linspace(-1, 1, 7)
    assert isinstance(matrix, u.sparse.SparseMatrix)
    for found, expected in [
        (matrix @ x, dense @ x * u.mS),
        ((x * u.mV) @ matrix.T, dense @ x * u.mS * u.mV),
        (matrix @ (x * u.mV), dense @ x * u.mS * u.mV),
        (matrix @ BinaryArray(x), dense @ (x != 0) * u.mS),
        (matrix.todense(), dense * u.mS),
        (matrix.tocsr().todense(), dense * u.mS),
        (matrix.tocsc().todense(), dense * u.mS),
        (matrix[1], dense[1] * u.mS),
        (matrix.sum(0), dense.sum(0) * u.mS),
        ((u.mV * 2 * matrix).todense(), dense * 2 * u.mS * u.mV),
        ((matrix * u.mV).todense(), dense * u.mS * u.mV),
        ((matrix / (2 * u.mV)).todense(), dense * u.mS / (2 * u.mV)),
        (jnp.eye(5) @ (matrix + dense * u.uS), dense * 1.001 * u.mS),
        (matrix.tocsr().diag_add(1.0 * u.mS).todense(), (dense + np.eye(5, 7)) * u.mS),
    ]:
        assert u.math.allclose(found, expected, rtol=1e-4, atol=1e-5 * u.get_unit(expected))
    with pytest.raises(u.UnitMismatchError):
        matrix + dense * u.mV


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("package", ["brainunit", "saiunit"])
def test_units_may_come_after_the_first_matrix_and_are_never_brought_along(package):
    pytest.importorskip(package)
    program = """
import sys
import brainevent, jax.numpy as jnp
matrix = brainevent.CSR.fromdense(jnp.eye(2))
dense = brainevent.Dense(jnp.eye(2))
matrix @ jnp.ones(2), brainevent.BinaryArray(jnp.ones(2)) @ matrix
assert not {"brainunit", "saiunit"} & sys.modules.keys()
u = __import__(sys.argv[1])
for earlier in (dense, matrix):
    found = 2 * u.mV * earlier
    assert type(found) is type(earlier)
    assert isinstance(found.data, u.Quantity)
later = brainevent.CSR.fromdense(jnp.eye(2))
assert isinstance(later, u.sparse.SparseMatrix)
assert isinstance(earlier, u.sparse.SparseMatrix)
print(((jnp.ones(2) * u.mV) @ (later * u.mS)).mantissa.tolist())
"""
    assert run_forked(program, package).strip() == "[1.0, 1.0]"


@pytest.mark.parametrize("shape", [(5,), (3, 5)])
def test_numbers_to_the_left_of_a_dense_matrix_do_not_turn_it(shape):
    """XLA on a CPU takes far longer for the product of a turned matrix."""
    matrix, x = Dense(jnp.arange(35.0).reshape(5, 7)), jnp.linspace(-1, 1, math.prod(shape)).reshape(shape)
    turned = [
        e.invars[0].aval.shape for e in jax.make_jaxpr(lambda m, x: x @ m)(matrix, x).eqns if "transpose" in str(e)
    ]
    assert matrix.shape not in turned
    np.testing.assert_allclose(x @ matrix, np.asarray(x) @ np.asarray(matrix.data), rtol=1e-5, atol=1e-5)
