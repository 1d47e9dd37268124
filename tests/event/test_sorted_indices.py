# SPDX-License-Identifier: Apache-2.0
"""Matrices know whether the indices of each row ascend, and tell it to the operators, whose kernels may use it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent
from brainevent import COO, CSC, CSR, BinaryArray, FixedNumPerPost, FixedNumPerPre
from brainevent.event import structure

DENSE = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 0.0], [4.0, 0.0, 5.0]], np.float32)
UNSORTED = (np.ones(3, np.float32), np.array([2, 0, 1]), np.array([0, 2, 2, 3]))
SORTED = (np.ones(3, np.float32), np.array([0, 2, 1]), np.array([0, 2, 2, 3]))
RANDOM = {"weights": 1.0, "seed": 3}


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=5), st.sampled_from([1, 2, 3, 100]))
def test_each_slice_is_looked_at_by_itself(rows, chunk):
    indices, indptr = np.array([*itertools.chain(*rows)], np.int32), np.cumsum([0, *map(len, rows)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "_CHUNK", chunk)
        found = [structure.are_sorted(make(indices), make(indptr)) for make in (np.asarray, jnp.asarray)]
    assert found == 2 * [all(row == sorted(row) for row in rows)]


@settings(max_examples=20)
@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=5))
def test_equally_long_slices(rows):
    assert structure.are_sorted(np.array(rows)) == all(row == sorted(row) for row in rows)


def test_structure_on_another_device_is_looked_at_there(monkeypatch):
    monkeypatch.setattr(structure, "_on_host", lambda x: False)
    assert CSR(tuple(map(jnp.asarray, SORTED)), shape=(3, 3)).indices_sorted
    assert not CSR(tuple(map(jnp.asarray, UNSORTED)), shape=(3, 3)).indices_sorted


@pytest.mark.parametrize(
    "make",
    [
        lambda: CSR(SORTED, shape=(3, 3)),
        lambda: CSR.fromdense(DENSE),
        lambda: CSC.fromdense(DENSE),
        lambda: CSR(scipy.sparse.csr_array(DENSE)),
        lambda: COO.fromdense(DENSE).tocsr(),
        lambda: COO.fromdense(DENSE).tocsc(),
        lambda: CSR(UNSORTED, shape=(3, 3)).tocsc(),  # elements are sorted on the way
        lambda: CSR.fromdense(DENSE).T,
        lambda: CSR.fromdense(DENSE).with_data(2.0) * 3,
        lambda: CSR.fromdense(DENSE).slice_rows([2, 0]),
        lambda: CSR.random((40, 50), prob=0.3, **RANDOM),
        lambda: CSR.random((40, 50), num_per_row=9, **RANDOM),
        lambda: CSC.random((40, 50), num_per_row=9, **RANDOM),
        lambda: FixedNumPerPre.random((40, 50), 9, **RANDOM),
        lambda: FixedNumPerPost.random((40, 50), 9, **RANDOM).T,
        lambda: FixedNumPerPre.random((40, 50), 9, **RANDOM).tocsr(),
        lambda: FixedNumPerPre.fromsparse(CSR.random((40, 50), num_per_row=9, **RANDOM)),
        lambda: FixedNumPerPre((1.0, np.array([[0, 0], [1, 2]])), shape=(2, 3)),
    ],
)
def test_matrices_that_know_that_theirs_are_sorted(make):
    matrix = make()
    assert matrix.indices_sorted
    indices = np.asarray(matrix.indices)
    rows = np.split(indices, np.asarray(matrix.indptr)[1:-1]) if hasattr(matrix, "indptr") else indices
    assert all((np.diff(row) >= 0).all() for row in rows)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CSR(UNSORTED, shape=(3, 3)),
        lambda: CSR(SORTED, shape=(3, 3), check_structure=False),  # nothing was looked at
        lambda: CSR(UNSORTED, shape=(3, 3)).T,
        lambda: COO((1.0, np.array([1, 0, 0]), np.array([0, 2, 1])), shape=(2, 3)).tocsr(),
        lambda: FixedNumPerPre((1.0, np.array([[1, 0], [1, 2]])), shape=(2, 3)),
        lambda: FixedNumPerPre.fromdense(DENSE, num_conn=2),  # filled up with what is nowhere in order
    ],
)
def test_matrices_that_know_nothing_of_the_kind(make):
    assert make().indices_sorted is False


def test_in_a_trace_sortedness_is_what_the_caller_promises():
    make = lambda promise: jax.jit(lambda *parts: CSR(parts, shape=(3, 3), indices_sorted=promise))
    assert make(None)(*SORTED).indices_sorted is False
    assert make(True)(*SORTED).indices_sorted is True


@pytest.mark.parametrize("name", ["csr", "csc", "per_pre", "turned"])
@pytest.mark.parametrize("columns", [None, 2])
def test_operators_receive_whether_indices_are_sorted(name, columns):
    matrix = {
        "csr": lambda: CSR.fromdense(DENSE),
        "csc": lambda: CSC.fromdense(DENSE).T,
        "per_pre": lambda: FixedNumPerPre.random((3, 3), 2, **RANDOM),
        "turned": lambda: CSC(UNSORTED, shape=(3, 3)).precompute_weight_indices(),
    }[name]()
    x = np.array([True, False, True])
    x = x if columns is None else np.stack([x] * columns)
    assert "('indices_sorted', True)" in told(matrix, x) or "indices_sorted=True" in told(matrix, x)
    if name == "csr":
        assert "indices_sorted" not in told(CSR(UNSORTED, shape=(3, 3)), x)


def told(matrix, x):
    return str(jax.make_jaxpr(lambda x: BinaryArray(x) @ matrix)(x))


def test_one_function_takes_both():
    call = jax.jit(lambda matrix: BinaryArray(np.array([True, True, True])) @ matrix)
    for parts in (SORTED, UNSORTED):
        np.testing.assert_array_equal(call(CSR(parts, shape=(3, 3))), [1, 1, 1])


def test_products_derivatives_and_batches_of_sorted_rows_are_those_of_any():
    x, indices, indptr = jnp.array([1.0, 0.0, 1.0]), *map(jnp.asarray, SORTED[1:])
    for function in (brainevent.binary_csrmv, brainevent.csrmv):
        run = lambda promise, function=function: jax.vmap(
            jax.value_and_grad(
                lambda data: function(
                    data, indices, indptr, x, shape=(3, 3), transpose=True, indices_sorted=promise
                )[0]
            )
        )(jnp.arange(6.0).reshape(2, 3))  # fmt: skip
        jax.tree.map(np.testing.assert_array_equal, run(True), run(False))
