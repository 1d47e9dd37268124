# SPDX-License-Identifier: Apache-2.0
"""Matrices element by element: quotients, remainders, products of the same structure, rows of each format."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent import COO, CSC, CSR, Dense, FixedNumPerPost, FixedNumPerPre

DENSE = jnp.array([[0.0, 2.0, 3.0], [4.0, 0.0, -5.0]])
FORMATS = {
    "CSR": CSR.fromdense,
    "CSC": CSC.fromdense,
    "COO": COO.fromdense,
    "PerPre": lambda dense: FixedNumPerPre.fromdense(dense, num_conn=2),
    "PerPost": lambda dense: FixedNumPerPost.fromdense(dense, num_conn=2),
    "Dense": Dense,
}
formats = pytest.mark.parametrize("name", FORMATS)


@formats
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sign", ["mul", "truediv", "mod"])
def test_scalars_meet_what_is_stored(name, sign, reverse):
    matrix, function = FORMATS[name](DENSE), getattr(operator, sign)
    found = function(1.5, matrix) if reverse else function(matrix, 1.5)
    assert type(found) is type(matrix)
    np.testing.assert_array_equal(found.data, function(1.5, matrix.data) if reverse else function(matrix.data, 1.5))
    np.testing.assert_array_equal(matrix.apply2(1.5, function, reverse=reverse).data, found.data)


@formats
def test_matrices_of_one_structure_multiply(name):
    matrix = FixedNumPerPost.random((4, 3), 2, seed=0) if name == "PerPost" else FORMATS[name](DENSE)
    other = matrix.with_data(matrix.data + 1)
    found = matrix * other
    assert type(found) is type(matrix)
    np.testing.assert_array_equal(found.data, matrix.data * other.data)
    np.testing.assert_array_equal(jax.jit(lambda m, d: (m * m.with_data(d)).data)(matrix, other.data), found.data)
    with pytest.raises(NotImplementedError, match="not known to store elements in the same places"):
        CSR.fromdense(DENSE) * CSR.fromdense(DENSE + 1)
    if name != "Dense":
        with pytest.raises(NotImplementedError, match=r"multiply by .todense\(\) of the second"):
            matrix / other


def test_elements_that_are_stored_twice_do_not_multiply():
    twice = CSR(jnp.ones(2), [1, 1], [0, 2], shape=(1, 2))
    with pytest.raises(NotImplementedError, match=r"CSR \* CSR: some elements are stored more than once"):
        twice * twice.with_data(jnp.ones(2))


@pytest.mark.parametrize("other", [np.arange(3.0), jnp.array([[2.0], [3.0]]), DENSE, [1.0, 2.0, 3.0]])
def test_dense_matrices_are_broadcast_with_arrays(other):
    matrix = Dense(DENSE)
    for found, wanted in ((matrix * other, DENSE * jnp.asarray(other)), (other * matrix, jnp.asarray(other) * DENSE)):
        assert type(found) is Dense
        np.testing.assert_array_equal(found.data, wanted)
    np.testing.assert_array_equal((matrix * matrix).data, DENSE * DENSE)
    np.testing.assert_array_equal((other / Dense(DENSE + 7)).data, jnp.asarray(other) / (DENSE + 7))
    for wrong in (jnp.ones(2), jnp.ones((4, 2, 3))):
        with pytest.raises(ValueError, match=r"Dense\(2, 3\) \* array of shape"):
            matrix * wrong


def test_units_of_quotients():
    units = pytest.importorskip("brainunit")
    matrix = CSR.fromdense(DENSE) * units.mV
    assert units.math.allclose((6.0 * units.uA / matrix).data[0], 3.0 * units.mS)
    assert units.math.allclose((matrix % (1.5 * units.mV)).data[0], 0.5 * units.mV)
    assert units.math.allclose(Dense(DENSE * units.mV).diag_add(0.001 * units.volt).data[0, 0], 1.0 * units.mV)


@pytest.mark.parametrize("name", ["CSR", "CSC", "COO", "Dense", "PerPre", "PerPost"])
@pytest.mark.parametrize("rows", [1, [1, 0, 1], slice(1, None), [True, False], -1])
def test_rows_of_a_matrix_are_a_matrix(name, rows):
    matrix = FORMATS[name](DENSE)
    found = matrix.slice_rows(rows)
    assert type(found) is (CSR if name in ("COO", "PerPost") else type(matrix))
    chosen = np.asarray(rows) if isinstance(rows, list) else rows
    np.testing.assert_array_equal(found.todense(), np.atleast_2d(np.asarray(DENSE)[chosen]))
    with pytest.raises(IndexError, match="2"):
        matrix.slice_rows([0, 2])


@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("name", ["Dense", "PerPre"])
def test_rows_are_chosen_in_a_trace(name, one):
    matrix = FORMATS[name](DENSE)
    matrix = matrix.with_data(2.0) if one and name == "PerPre" else matrix
    found = jax.jit(lambda m, rows: m.slice_rows(rows).todense())(matrix, jnp.array([1, 2, 0]))
    dense = np.asarray(matrix.todense())
    np.testing.assert_array_equal(found, [dense[1], np.zeros(3), dense[0]])


def test_rows_of_a_drawn_matrix_are_stored():
    matrix = brainevent.JITCScalarR((1.5, 0.5, 3), shape=(20, 30))
    np.testing.assert_array_equal(matrix.slice_rows([4, 2]).todense(), np.asarray(matrix.todense())[[4, 2]])


@pytest.mark.parametrize("name", ["CSC", "COO", "PerPre", "PerPost"])
def test_a_diagonal_is_added_in_every_format(name):
    found = FORMATS[name](DENSE).diag_add(jnp.array([1.0, 10.0]))
    assert type(found) is (CSC if name == "CSC" else CSR)
    np.testing.assert_array_equal(found.todense(), DENSE.at[[0, 1], [0, 1]].add(jnp.array([1, 10])))


def test_a_diagonal_is_added_to_a_dense_matrix():
    np.testing.assert_array_equal(Dense(DENSE).diag_add(1.0).data, DENSE + jnp.eye(2, 3))
    np.testing.assert_array_equal(
        Dense(DENSE).diag_add([1.0, 10.0]).data, DENSE.at[[0, 1], [0, 1]].add(jnp.array([1, 10]))
    )
    with pytest.raises(
        brainevent.errors.ShapeError, match=r"Dense.diag_add: the diagonal has shape \(3,\); pass a number"
    ):
        Dense(DENSE).diag_add(jnp.ones(3))


@pytest.mark.parametrize("name", ["CSR", "CSC", "PerPre", "PerPost"])
def test_the_turned_structure_is_built_beside(name):
    matrix = FORMATS[name](DENSE)
    built = matrix.build_weight_indices()
    assert not matrix.buffers
    assert built.buffers.keys() == matrix.precompute_weight_indices().buffers.keys()
    np.testing.assert_array_equal(built.todense(), DENSE)
