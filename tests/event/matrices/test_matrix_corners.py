# SPDX-License-Identifier: Apache-2.0
"""Matrices in rare cases: conversions in a trace, long sums in 16 bits, one element, integers of any width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent
from brainevent import COO, CSC, CSR, BinaryArray, CompactBinary, Dense, FixedNumPerPost, FixedNumPerPre, Spikes

pytestmark = pytest.mark.covering

FORMATS = [CSR, CSC, COO, Dense, FixedNumPerPre, FixedNumPerPost]
EYE = np.eye(3, dtype=np.float32)
TURNS = {
    "csr": lambda matrix: matrix.tocsr(),
    "csc": lambda matrix: matrix.tocsc(),
    "coo": lambda matrix: matrix.tocoo(),
    "turned": lambda matrix: matrix.T.tocsr().T,
}


@settings(max_examples=4)
@given(
    kind=st.sampled_from(["csr", "csc", "coo", "pre"]),
    indices=st.lists(st.integers(-3, 8), min_size=6, max_size=6),
    way=st.lists(st.sampled_from(sorted(TURNS)), min_size=1, max_size=3),
)
def test_what_is_out_of_range_in_a_trace_stays_so_in_every_format(kind, indices, way):
    weights, cut = jnp.arange(1.0, 7), np.array([0, 2, 3, 6], np.int32)
    others = np.repeat(np.arange(3), [2, 1, 3])
    make = {
        "csr": lambda found: CSR(weights, found, cut, shape=(3, 5)),
        "csc": lambda found: CSC(weights, found, cut, shape=(5, 3)),
        "coo": lambda found: COO(weights, found, others, shape=(5, 3)),
        "pre": lambda found: FixedNumPerPre(weights.reshape(3, 2), found.reshape(3, 2), shape=(3, 5)),
    }[kind]
    others = np.repeat(np.arange(3), 2) if kind == "pre" else others
    expected = np.zeros((3, 5), np.float32)
    for row, column, weight in zip(others, indices, np.arange(1.0, 7), strict=True):
        if 0 <= column < 5:
            expected[row, column] += weight
    expected = expected.T if kind in ("csc", "coo") else expected

    @jax.jit
    def through(found):
        matrix = make(found)
        for name in way:
            matrix = TURNS[name](matrix)
        ones = jnp.ones(expected.shape[0]), jnp.ones(expected.shape[1], bool)
        return matrix.todense(), ones[0] @ matrix, matrix @ ones[1], matrix[1], matrix.sum()

    found = through(jnp.array(indices, jnp.int32))
    wanted = expected, expected.sum(0), expected.sum(1), expected[1], expected.sum()
    for one, another in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, another)


@pytest.mark.parametrize("backend", ["numba", "reference"])
def test_columns_that_are_found_in_a_trace_are_the_same_to_every_kernel(backend):
    @jax.jit
    def product(indices):
        starts, rows, perm = brainevent.csr_to_csc_index(jnp.array([0, 1, 2]), indices, shape=(2, 3))
        weights = jnp.array([1.0, 10.0])[perm]
        return brainevent.binary_csrmv(weights, rows, starts, jnp.ones(2, bool), shape=(3, 2), backend=backend)

    np.testing.assert_array_equal(product(jnp.array([0, 7])), [1, 0, 0])


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("kind", [CSR, pytest.param(CSC, marks=pytest.mark.thorough), COO])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("homogeneous", [True, False])
def test_long_sums_in_16_bits_lose_nothing(kind, dtype, homogeneous):
    zeros = np.zeros(5000, np.int32)
    matrix = COO(jnp.ones(1 if homogeneous else 5000, dtype), zeros, zeros, shape=(1, 1))
    matrix = {CSR: matrix.tocsr, CSC: matrix.tocsc, COO: matrix.tocoo}[kind]()
    exact = float(jnp.asarray(5000, dtype))
    found = matrix.todense(), matrix + jnp.zeros((1, 1), dtype), matrix[0], matrix.sum(), matrix.sum(1)
    assert all(one.dtype == dtype and float(one.reshape(())) == exact for one in found)


def test_the_sum_of_many_float16_weights_is_exact_enough():
    matrix = COO(np.float16(0.001), np.zeros(100_000, np.int32), np.zeros(100_000, np.int32), shape=(1, 1))
    np.testing.assert_allclose(matrix.sum(), 100, rtol=2e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [FixedNumPerPre, FixedNumPerPost])
def test_a_matrix_of_one_element_is_converted(kind):
    shape = (1, 5) if kind is FixedNumPerPre else (5, 1)
    matrix = kind.random(shape, 1, weights=jax.random.normal, seed=0)
    for found in (matrix.tocsr(), matrix.tocsc(), matrix.tocoo(), matrix.T.tocsr().T):
        np.testing.assert_array_equal(found.todense(), matrix.todense())
        np.testing.assert_array_equal(np.ones(shape[0], bool) @ found, matrix.todense().sum(0))


@pytest.mark.parametrize("weight", [2.0, np.full(1, 2.0), np.full((1, 1), 2.0)], ids=["0", "1", "2"])
def test_one_weight_of_any_rank_is_that_of_all_elements(weight):
    csr = CSR(weight, [0, 2, 1], [0, 2, 3], shape=(2, 3))
    coo, pre = COO(weight, [0, 1], [1, 0], shape=(2, 3)), FixedNumPerPre(weight, [[0, 2], [1, 2]], shape=(2, 3))
    for matrix, expected in (
        (csr, [[2, 0, 2], [0, 2, 0]]),
        (CSR(1.0, [0, 2, 1], [0, 2, 3], shape=(2, 3)).with_data(weight), [[2, 0, 2], [0, 2, 0]]),
        (coo, [[0, 2, 0], [2, 0, 0]]),
        (pre, [[2, 0, 2], [0, 2, 2]]),
    ):
        for found in (matrix, matrix.tocsr(), matrix.tocsc(), matrix.tocoo()):
            np.testing.assert_array_equal(found.todense(), expected)


# ---- indices in brackets


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32", "int64", "uint64"])
def test_rows_and_columns_are_chosen_by_integers_of_any_width(kind, dtype):
    dense = np.ones((300, 300), np.float32) + np.arange(300)[:, None] + 1000 * np.arange(300)
    matrix, last = kind.fromdense(dense), 1 if dtype.startswith("u") else -1
    chosen = np.array([3, last], dtype)
    np.testing.assert_array_equal(matrix[chosen], dense[chosen])
    np.testing.assert_array_equal(matrix[chosen[0]], dense[3])
    np.testing.assert_array_equal(matrix[:, chosen], dense[:, chosen])
    np.testing.assert_array_equal(matrix[chosen, chosen], dense[chosen, chosen])


def test_indices_of_64_bits_without_a_sign_are_those_that_they_are():
    with jax.enable_x64(True):
        indices = jnp.array([1, 2**40], jnp.uint64)
        matrix = jax.jit(lambda indices: CSR(np.ones(2), indices, [0, 1, 2], shape=(2, 3)).todense())(indices)
        np.testing.assert_array_equal(matrix, [[0, 1, 0], [0, 0, 0]])
        np.testing.assert_array_equal(CSR.fromdense(EYE)[indices], [EYE[1], np.zeros(3)])


@pytest.mark.parametrize("far", [np.array([2**40]), np.array([-(2**40)]), np.array([2**63], np.uint64), [301], [-301]])
def test_rows_out_of_range_are_zero(far):
    for kind in FORMATS:
        assert not np.any(kind.fromdense(np.ones((300, 2), np.float32))[far])


# ---- other packages' matrices, and events where numbers stand


def test_events_beside_matrices_of_scipy_are_not_taken_as_numbers():
    events = BinaryArray(jnp.array([2.0, 0.0, 0.0]))
    for matrix in (scipy.sparse.eye_array(3), scipy.sparse.csr_matrix(EYE)):
        with pytest.raises(TypeError, match=r"SciPy cannot multiply events; .* with brainevent.CSR.fromscipy"):
            events @ matrix
        np.testing.assert_array_equal(events @ CSR.fromscipy(matrix), [1, 0, 0])


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_made_from_scipy_and_added_to_it(kind):
    matrix = kind.fromscipy(2 * scipy.sparse.eye_array(3, dtype=np.float32))
    assert isinstance(matrix, kind)
    np.testing.assert_array_equal(matrix.todense(), 2 * EYE)
    np.testing.assert_array_equal(matrix + scipy.sparse.csr_array(EYE), 3 * EYE)


@pytest.mark.parametrize("kind", [CSR, CSC, COO, FixedNumPerPre, FixedNumPerPost])
def test_a_sparse_matrix_is_not_dense(kind):
    with pytest.raises(TypeError, match=rf"{kind.__name__}.fromdense: csr_array is a sparse matrix; call .*fromscipy"):
        kind.fromdense(scipy.sparse.csr_array(EYE))


@pytest.mark.parametrize("form", [BinaryArray, CompactBinary.from_array, brainevent.BitPackedBinary])
@pytest.mark.parametrize("event", [True, False])
def test_functions_take_events_too(form, event):
    name = "binary_" * event
    weights, x = jnp.arange(1.0, 10).reshape(3, 3), jnp.array([2.0, 0.0, -0.5])
    csr, coo, pre = CSR.fromdense(weights), COO.fromdense(weights), FixedNumPerPre.fromdense(weights)
    calls = {
        "csrmv": lambda call, x: call(csr.data, csr.indices, csr.indptr, x, shape=(3, 3)),
        "coomv": lambda call, x: call(coo.data, coo.row, coo.col, x, shape=(3, 3)),
        "fcnmv": lambda call, x: call(pre.data, pre.indices, x, shape=(3, 3)),
        "densemv": lambda call, x: call(weights, x),
    }
    for function, run in calls.items():
        call = getattr(brainevent, name + function, None)
        if call is not None:
            found = jax.jit(lambda x, run=run, call=call: run(call, form(x)))(x)
            np.testing.assert_allclose(found, np.asarray(weights)[:, [0, 2]].sum(1))


def test_events_become_an_array_of_numpy():
    assert np.asarray(BinaryArray(jnp.array([2.0, -1.0]))).tolist() == [2, -1]
    assert np.asarray(CompactBinary.from_array(jnp.array([0.0, 3.0])), np.float32).tolist() == [0, 1]
    copied = np.array(BinaryArray(jnp.zeros(2)))
    copied[0] = 1
    assert copied.tolist() == [1, 0]


# ---- what a CSC shares with a CSR


def test_rows_and_the_diagonal_of_compressed_columns():
    dense = np.array([[0, 2, 3], [4, 0, 0], [0, 0, 5]], np.float32)
    matrix = CSC.fromdense(dense)
    chosen = matrix.slice_rows([2, 0])
    assert isinstance(chosen, CSC)
    np.testing.assert_array_equal(chosen.todense(), dense[[2, 0]])
    shifted = matrix.diag_add(jnp.array([1.0, 2.0, 3.0]))
    assert isinstance(shifted, CSC)
    np.testing.assert_array_equal(shifted.todense(), dense + np.diag([1, 2, 3]))
    assert CSR.fromdense(dense).slice_rows([]).shape == (0, 3)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("kind", [CSR, CSC])
def test_a_diagonal_is_added_in_a_trace(kind):
    """Where the structure is not known, an element comes in for each row; where it is, for those that lack it."""
    dense = np.array([[0, 2, 3, 0], [4, 7, 0, 1], [0, 0, 0, 0]], np.float32)
    matrix, diagonal = kind.fromdense(dense), jnp.array([1.0, 2.0, 3.0])
    expected = dense + np.eye(3, 4) * [[1], [2], [3]]

    def add(matrix, diagonal):
        return matrix.diag_add(diagonal)

    unknown, known = jax.jit(add)(matrix, diagonal), jax.jit(lambda diagonal: add(add(matrix, diagonal), 0.0))(diagonal)
    assert (matrix.nse, known.nse, unknown.nse) == (5, 7, 8)
    for found in (unknown, known, add(matrix, diagonal)):
        assert isinstance(found, kind)
        np.testing.assert_array_equal(found.todense(), expected)
        assert found.indices_sorted
        assert kind(found.data, found.indices, found.indptr, shape=found.shape).indices_sorted
    gradient = jax.jit(jax.grad(lambda diagonal: (add(matrix, diagonal) @ jnp.arange(4.0)).sum()))(diagonal)
    np.testing.assert_array_equal(gradient, [0, 1, 2])


def test_a_diagonal_is_added_to_what_names_nothing():
    """Elements that a trace leaves out stay left out, where their structure is known as well."""
    indices, indptr = jnp.array([7, 0, -1, 1]), jnp.array([0, 3, 2])
    add = lambda indices, indptr: CSR(jnp.ones(4), indices, indptr, shape=(2, 2), check_structure=False).diag_add(5.0)
    inside, outside = jax.jit(add)(indices, indptr), add(indices, indptr)
    np.testing.assert_array_equal(inside.todense(), outside.todense())
    assert float(inside.todense()[0, 0]) == 6.0


# ---- functions


def test_row_pointers_that_fall_are_no_coordinates():
    with pytest.raises(ValueError, match="csr_to_coo_index: indptr decreases after position 1; it must not"):
        brainevent.csr_to_coo_index([0, 3, 1, 3], [0, 1, 2])


def test_a_shape_that_is_a_number():
    with pytest.raises(TypeError, match="cscmv_dt2t: shape is 3; pass two integers"):
        brainevent.cscmv_dt2t([1.0], [1.0], [0], [0, 1], shape=3)


def test_lists_that_are_empty_are_of_integers():
    assert [x.size for x in brainevent.coo2csr([], [], shape=(2, 3))] == [3, 0, 0]
    np.testing.assert_array_equal(brainevent.csrmv(1.0, [], [0, 0, 0], jnp.ones(3), shape=(2, 3)), [0, 0])
    np.testing.assert_array_equal(brainevent.coomv(1.0, [], [], jnp.ones(3), shape=(2, 3)), [0, 0])


# ---- spikes


def test_the_caption_of_intervals_counts_the_bins_that_are_drawn():
    pytest.importorskip("matplotlib")
    spikes = Spikes.from_dense(np.array([[1], [1], [0], [1], [0], [0], [0], [0], [1]]), dt=0.1)
    drawn = spikes.plot_intervals()
    (axes,) = drawn.axes
    words = " ".join(text.get_text() for text in [*axes.texts, *drawn.texts])
    assert f"3 intervals, in {len(axes.patches[0].get_data().values)} bins." in words


@pytest.mark.parametrize("dt", [0, -1, True, np.nan, np.inf, "0.1", None, np.ones(1)])
def test_a_step_has_a_length(dt):
    with pytest.raises(ValueError, match=r"Spikes.from_dense: dt is .*; pass the length of a step in milliseconds"):
        Spikes.from_dense(np.ones((2, 3), bool), dt=dt)


@pytest.mark.parametrize("dt", [np.float32(0.5), jnp.float32(0.5), 0.5])
def test_a_step_has_a_length_of_any_floating_type(dt):
    assert Spikes.from_dense(np.ones((2, 3), bool), dt=dt).duration == 1
    _, spikes = brainevent.record(lambda x, i: (x, x > 0), jnp.ones(3), 2, dt=dt)
    assert spikes.duration == 1


def test_others_define_matrices_of_their_own():
    class Diagonal(brainevent.DataRepresentation):
        def __init__(self, values):
            super().__init__((values,), shape=(len(values), len(values)), buffers={"trace": 3})
            self.values = values

        def __matmul__(self, x):
            return self.values * x

    matrix = Diagonal(jnp.array([1.0, 2.0]))
    assert isinstance(matrix, brainevent.DataRepresentation)
    assert (matrix.shape, matrix.ndim, matrix.size, matrix.buffers) == ((2, 2), 2, 4, {"trace": 3})
    assert (matrix @ jnp.array([3.0, 4.0])).tolist() == [3, 8]
    with pytest.raises(TypeError, match="shape"):
        brainevent.DataRepresentation(jnp.ones(2))


@pytest.mark.parametrize(("turn", "kind"), [(Dense.tocsr, CSR), (Dense.tocsc, CSC)])
def test_dense_matrices_are_stored_with_the_options_of_fromdense(turn, kind):
    array = jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    found = turn(Dense(array, backend="jax"), nse=5, index_dtype=jnp.int32, precompute_weight_indices=True)
    assert (type(found), found.nse, found.backend) == (kind, 5, "jax")
    assert "turned_perm" in found.buffers
    np.testing.assert_array_equal(found.todense(), array)
    np.testing.assert_array_equal(jax.jit(lambda x: turn(Dense(x), nse=3).todense())(array), array)
    with pytest.raises(ValueError, match="nse"):
        turn(Dense(array), nse=2)


def test_dense_matrices_are_made_with_buffers():
    matrix = Dense.fromdense(jnp.eye(2), buffers={"trace": jnp.arange(2.0)})
    np.testing.assert_array_equal(matrix.T.trace, [0.0, 1.0])
