# SPDX-License-Identifier: Apache-2.0
"""Functions look at indices that they have not seen: once, as an array of JAX never changes."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brainevent
from brainevent import CSR, BinaryArray
from brainevent.event import structure

INDICES, INDPTR, PERM = jnp.array([0, 2, 1]), jnp.array([0, 2, 3]), jnp.array([2, 0, 1])
ROW, EQUAL = jnp.array([0, 0, 1]), jnp.array([[0, 2], [1, 0]])
COMPRESSED = [f"{b}csr{k}" for b in ("", "binary_") for k in ("mv", "mm")]
# Which function, with what indices before x; the number of one of them that is replaced; where it must be below.
CALLS = [
    *((name, (INDICES, INDPTR), 0, "indices", 3) for name in COMPRESSED),
    *((f"{name}_indexed", (INDICES, INDPTR, PERM), 0, "indices", 3) for name in COMPRESSED),
    *((f"{name}_indexed", (INDICES, INDPTR, PERM), 2, "perm", 3) for name in COMPRESSED),
    *((f"{b}coo{k}", (ROW, INDICES), 0, "row", 2) for b in ("", "binary_") for k in ("mv", "mm")),
    *((f"{b}coo{k}", (ROW, INDICES), 1, "col", 3) for b in ("", "binary_") for k in ("mv", "mm")),
    *((f"{b}fcn{k}", (EQUAL,), 0, "indices", 3) for b in ("", "binary_") for k in ("mv", "mm")),
]
every_function = pytest.mark.parametrize(("name", "arrays", "which", "what", "bound"), CALLS)


def called(name, arrays):
    """Call a function with a matrix of shape (2, 3), from the left."""
    x = jnp.ones((2, 4) if "mm" in name else 2)
    return getattr(brainevent, name)(jnp.ones(1), *arrays, x, shape=(2, 3), transpose=True)


def with_one(arrays, which, number):
    wrong = list(arrays)
    wrong[which] = wrong[which].at[(1,) * wrong[which].ndim].set(number)
    return wrong


@pytest.fixture
def looks(monkeypatch):
    """Count how often values are looked at."""
    found = []
    extremes = structure.extremes
    monkeypatch.setattr(structure, "extremes", lambda x: found.append(x.shape) or extremes(x))
    return found


@every_function
def test_an_index_out_of_range_is_reported(name, arrays, which, what, bound):
    for number, words in (
        (bound, f"holds {bound}, out of range for a size of {bound}"),
        (-1, "holds -1; indices must not"),
    ):
        wrong = with_one(arrays, which, number)
        with pytest.raises(ValueError, match=f"^{name}: {what} {words}"):
            called(name, wrong)
        with pytest.raises(ValueError, match=f"^{name}: {what} {words}"):
            jax.jit(lambda name=name, wrong=wrong: called(name, wrong))()  # here the indices are known
    assert called(name, arrays).shape[0] == 3


@every_function
def test_arrays_of_numpy_are_known_in_a_trace(name, arrays, which, what, bound):
    right = [np.asarray(array) for array in arrays]
    wrong = [np.asarray(array) for array in with_one(arrays, which, bound)]
    np.testing.assert_array_equal(jax.jit(lambda: called(name, right))(), called(name, arrays))
    with pytest.raises(ValueError, match=f"^{name}: {what} holds {bound}"):
        jax.jit(lambda: called(name, wrong))()


def test_some_arrays_may_be_known_and_others_not():
    for known in range(2):
        arrays = [INDICES, INDPTR]

        def call(unknown, known=known, arrays=arrays):
            return called("binary_csrmv", [arrays[i] if i == known else unknown for i in range(2)])

        for run in (jax.jit(call), lambda x, call=call: jax.vmap(call)(x[None])[0]):
            np.testing.assert_array_equal(run(arrays[1 - known]), [1, 1, 1])
    wrong = jnp.array([0, 2, 9])
    with pytest.raises(ValueError, match="indptr goes from 0 to 9"):
        jax.jit(lambda indices: called("binary_csrmv", [indices, wrong]))(INDICES)


@pytest.mark.parametrize("name", [*COMPRESSED, "csr_slice_rows", "csrmv_dt2t", "cscmv_dt2t"])
def test_invalid_row_pointers_are_refused(name):
    def call(indptr):
        if "dt2t" in name:
            shape = (2, 3) if name == "csrmv_dt2t" else (3, 2)
            y = jnp.ones(2 if name == "csrmv_dt2t" else 3)
            return getattr(brainevent, name)(y, jnp.ones(1), INDICES, indptr, shape=shape)
        if name == "csr_slice_rows":
            return brainevent.csr_slice_rows(jnp.ones(1), INDICES, indptr, jnp.array([0]), shape=(2, 3))
        return called(name, (INDICES, indptr))

    for wrong, words in (
        ([0, 4, 3], "indptr decreases from 4 to 3 at position 2"),
        ([0, 2, 9], "indptr goes from 0 to 9; it must begin with 0 and end with 3"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: {words}"):
            call(jnp.array(wrong))
    call(INDPTR)


@every_function
def test_an_array_is_looked_at_once(looks, name, arrays, which, what, bound):
    arrays = [jnp.array(array) for array in arrays]  # which no call has seen
    called(name, arrays)
    seen = len(looks)
    assert seen >= 1
    called(name, arrays)
    called(name.replace("binary_", ""), arrays)
    jax.jit(lambda: called(name, arrays))()
    assert len(looks) == seen
    called(name, with_one(arrays, which, 0))
    assert len(looks) == seen + 1


def test_other_sizes_are_other_facts():
    for _ in range(2):
        brainevent.csrmv(jnp.ones(1), INDICES, INDPTR, jnp.ones(4), shape=(2, 4))
        with pytest.raises(ValueError, match="csrmv: indices holds 2, out of range for a size of 2"):
            brainevent.csrmv(jnp.ones(1), INDICES, INDPTR, jnp.ones(2), shape=(2, 2))


def test_what_is_gone_is_forgotten():
    gc.collect()
    before = len(structure._passed)
    indices = jnp.array([[0, 1], [2, 2]])
    brainevent.fcnmv(jnp.ones(1), indices, jnp.ones(3), shape=(2, 3))
    assert len(structure._passed) == before + 1
    del indices
    gc.collect()
    assert len(structure._passed) == before


def test_a_trace_knows_no_indices(looks):
    run = jax.jit(lambda indices: brainevent.fcnmv(jnp.ones(1), indices, jnp.ones(3), shape=(2, 3)))
    np.testing.assert_array_equal(run(jnp.array([[0, 1], [2, 2]])), [2, 2])
    assert not looks


def test_matrices_check_their_indices_once(looks):
    trusting = CSR(1.0, jnp.array([0, 2, 1]), INDPTR, shape=(2, 3), check_structure=False)
    matrix = CSR(1.0, jnp.array([0, 2, 1]), INDPTR, shape=(2, 3))
    seen = len(looks)
    assert seen == 1
    for one in (trusting, matrix, matrix.T, matrix.tocoo()):
        events = BinaryArray(jnp.ones(one.shape[0], bool))
        np.testing.assert_array_equal(events @ one, one.todense().sum(0))
        np.testing.assert_array_equal(jnp.ones(one.shape[0]) @ one, one.todense().sum(0))
        np.testing.assert_array_equal(one @ jnp.ones(one.shape[1]), one.todense().sum(1))
    np.testing.assert_array_equal(matrix[0], [1, 0, 1])
    assert len(looks) == seen


@given(
    indices=st.lists(st.integers(-2, 6), min_size=1, max_size=8),
    bound=st.integers(1, 6),
)
def test_accepted_indices_give_the_products_of_numpy(indices, bound):
    """What is out of range is refused; the rest is what NumPy says."""
    array = jnp.array([indices], "int32")
    if min(indices) >= 0 and max(indices) < bound:
        found = brainevent.binary_fcnmv(jnp.ones(1), array, jnp.ones(1), shape=(1, bound), transpose=True)
        np.testing.assert_array_equal(found, np.bincount(indices, minlength=bound))
    else:
        with pytest.raises(ValueError, match=r"out of range|must not be negative"):
            brainevent.binary_fcnmv(jnp.ones(1), array, jnp.ones(1), shape=(1, bound), transpose=True)
