# SPDX-License-Identifier: Apache-2.0
"""Products with large matrices, which several threads share on a CPU: NumPy is the oracle."""

import itertools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_products import close

import brainevent
from brainevent.backends.numba import kept
from brainevent.event.on_cpu import products, terms, threads, visits
from brainevent.event.on_cpu.threads import are_long, are_worth_it

# Of a function that compiled code alone calls, one that Python may call.
cut_rows = numba.njit(visits.cut_rows.py_func)
add_up = numba.njit(products.merging(terms.product("float32", event=True, homogeneous=True)).py_func)
of_events, of_rows, threads_for, threads_for_columns = (
    numba.njit(getattr(threads, name).py_func)
    for name in ("of_events", "of_rows", "threads_for", "threads_for_columns")
)


def drawn(rows, columns, connections, homogeneous):
    random = np.random.default_rng(0)
    indices = np.sort(random.integers(0, columns, (rows, connections), dtype=np.int32))
    weights = np.ones(1) if homogeneous else random.integers(1, 5, indices.shape)
    return brainevent.FixedNumPerPre((jnp.asarray(weights, "float32"), jnp.asarray(indices)), shape=(rows, columns))


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(
    ("name", "left", "event", "homogeneous", "columns"),
    [("csr", True, True, False, None), ("fixed", True, False, True, 3), ("fixed", False, True, False, None)],
)
@pytest.mark.thorough
def test_threads_share_the_rows(name, left, event, homogeneous, columns, monkeypatch):
    brainevent.config.set_numba_parallel()
    matrix = drawn(301, 700, 2000, homogeneous)
    matrix = matrix.tocsr() if name == "csr" else matrix
    dense, random = np.asarray(matrix.todense(), np.float64), np.random.default_rng(1)
    product = jax.jit(lambda x, matrix: x @ matrix if left else matrix @ x)
    of = [301 if left else 700] + [columns] * (columns is not None)
    gates, prepare = [], kept.runtime.prepare_parallel
    monkeypatch.setattr(kept.runtime, "prepare_parallel", lambda: gates.append(prepare()))
    for active in (0.9, 0.001, 0.0):  # several threads add the first, and one the others
        x = random.random(of) < active
        x = x.T if left else x
        operand = brainevent.BinaryArray(jnp.asarray(x)) if event else jnp.asarray(x, "float32")
        close(product(operand, matrix), x @ dense if left else dense @ x)
    assert gates  # only parallel code passes it


def test_how_many_threads_share_a_product():
    every = numba.get_num_threads()
    assert threads_for(2**40, 1000) == every
    assert [threads_for(n, 50_000) for n in (199_999, 200_000)] == [0, min(1, every)]
    assert [threads_for_columns(n, 50_000, 1000) for n in (99_999, 100_000, 300_000)] == [0, 1, min(3, every)]
    for row, more in ((10**6, 16), (512, 16), (511, 15), (80, 2)):  # elements for each sum
        assert threads_for_columns(more * 10**6 * every - 1, 10**6, row) == every
        assert threads_for_columns(more * 10**6 * every, 10**6, row) == 0  # far more elements than sums


def test_how_many_elements_are_added():
    x = np.ones(10_000, bool)
    assert (of_events(2**20, x), of_events(2**20, ~x), of_events(0, x[:0])) == (2**20, 0, 0)
    x[5000:] = False
    assert abs(of_events(400_000, x) - 200_000) < 5000
    assert abs(of_events(400_000, np.stack([x, x], 1)) - 400_000) < 10_000
    assert [of_events(1000, np.ones(n, bool)) for n in (1, 63, 64, 65, 4095, 4097)] == [1000] * 6


@pytest.mark.parametrize(
    ("elements", "in_order", "long"), [(6400, True, True), (6400, False, False), (6399, True, False)]
)
def test_which_rows_threads_may_share(elements, in_order, long):
    assert are_long(100, elements, in_order=in_order) == long
    assert not are_long(0, 0, in_order=False)


@settings(max_examples=5)
@given(seed=st.integers(0, 999), columns=st.integers(1, 300), index=st.sampled_from(["int32", "int64"]))
def test_columns_are_cut_out_of_rows(seed, columns, index):
    """Each element of each row is in one part, that of its column, also where columns come again or name nothing."""
    random = np.random.default_rng(seed)
    rows = [np.sort(random.integers(-2, columns + 2, random.integers(0, 90))) for _ in range(6)]
    stored = np.concatenate(rows).astype(index)
    ends = np.cumsum([row.size for row in rows])
    bounds = [0, *np.sort(random.integers(0, columns + 1, 3)).tolist(), columns]
    parts = []
    for first, last in itertools.pairwise(bounds):
        here, end = ends - [row.size for row in rows], ends.copy()
        cut_rows(stored, here, end, len(rows), first, last, columns)
        for begin, stop in zip(here, end, strict=True):
            inside = stored[begin:stop]
            assert ((inside >= first) | (first == 0)).all()
            assert ((inside < last) | (last == columns)).all()
        parts.append(np.stack([here, end]))
    if 0 not in bounds[1:-1] and columns not in bounds[1:-1]:
        for before, after in itertools.pairwise(parts):
            np.testing.assert_array_equal(before[1], after[0])
        np.testing.assert_array_equal(parts[-1][1], ends)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("name", ["csr", "fixed"])
@pytest.mark.parametrize(
    ("homogeneous", "rows", "connections"),
    [(False, 900, 700), *(pytest.param(*x, marks=pytest.mark.thorough) for x in ((True, 900, 700), (False, 4000, 80)))],
)
def test_threads_share_the_columns(name, homogeneous, rows, connections, monkeypatch):
    """Where there are few elements for each sum; in other programs a thread adds them all, or threads share rows."""
    monkeypatch.setattr(threads, "_MANY", 0)
    columns = 60_000
    matrix = drawn(rows, columns, connections, homogeneous)
    matrix = matrix.tocsr() if name == "csr" else matrix
    of_row = np.repeat(np.arange(rows), connections)
    product = jax.jit(lambda x, matrix: brainevent.BinaryArray(x) @ matrix)
    for active in (1.0, 0.6, 0.01, 0.0):
        x = np.random.default_rng(1).random(rows) < active
        each = np.broadcast_to(np.asarray(matrix.data).reshape(-1), of_row.shape) * x[of_row]
        wanted = np.bincount(np.asarray(matrix.indices).reshape(-1), each, minlength=columns)
        np.testing.assert_array_equal(product(jnp.asarray(x), matrix), wanted)


@pytest.mark.parametrize("parallel", [False, True])
def test_large_products_are_compiled_for_threads(parallel):
    brainevent.config.set_numba_parallel(parallel)
    assert are_worth_it(2**26)
    assert are_worth_it(2**18) == parallel
    assert not are_worth_it(2**17)


def test_threads_have_all_rows_and_columns():
    for rows in (0, 1, 7, 1000):
        bounds = [of_rows(rows, thread, 3) for thread in range(3)]
        assert [first for first, _ in bounds] == [0, *(last for _, last in bounds[:-1])]
        assert bounds[-1][1] == rows
    sums, out = np.random.default_rng(0).integers(0, 9, (3, 1000)).astype("float32"), np.empty(1000, "float32")
    add_up(sums, out)
    np.testing.assert_array_equal(out, sums.sum(0))
