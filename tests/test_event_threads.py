# SPDX-License-Identifier: Apache-2.0
"""Products with large matrices, which several threads share on a CPU: NumPy is the oracle."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from sparse_products import close

import brainevent
from brainevent.backends import numba as numba_backend
from brainevent.backends.numba.without_gil import is_parallel
from brainevent.event.on_cpu_threads import add_up, are_worth_it, of_rows, threads_for, threads_for_events


def drawn(rows, columns, connections, homogeneous):
    random = np.random.default_rng(0)
    indices = np.sort(random.integers(0, columns, (rows, connections), dtype=np.int32))
    weights = np.ones(1) if homogeneous else random.integers(1, 5, indices.shape)
    return brainevent.FixedNumPerPre((jnp.asarray(weights, "float32"), jnp.asarray(indices)), shape=(rows, columns))


@pytest.mark.parametrize(
    ("name", "left", "event", "homogeneous", "columns"),
    [("csr", True, True, False, None), ("fixed", True, False, True, 3), ("fixed", False, True, False, None)],
)
def test_threads_share_the_rows(name, left, event, homogeneous, columns):
    brainevent.config.set_numba_parallel()
    matrix = drawn(301, 700, 2000, homogeneous)
    matrix = matrix.tocsr() if name == "csr" else matrix
    dense, random = np.asarray(matrix.todense(), np.float64), np.random.default_rng(1)
    product = jax.jit(lambda x, matrix: x @ matrix if left else matrix @ x)
    of = [301 if left else 700] + [columns] * (columns is not None)
    kernels = set(numba_backend._libraries)
    for active in (0.9, 0.001, 0.0):  # several threads add the first, and one the others
        x = random.random(of) < active
        x = x.T if left else x
        operand = brainevent.BinaryArray(jnp.asarray(x)) if event else jnp.asarray(x, "float32")
        close(product(operand, matrix), x @ dense if left else dense @ x)
    new = [numba_backend._libraries[kernel] for kernel in set(numba_backend._libraries) - kernels]
    assert [library for library in new if is_parallel(library)]


def test_how_many_threads_share_a_product():
    every = numba.get_num_threads()
    assert threads_for(2**40, 1000) == every
    assert [threads_for(n, 50_000) for n in (199_999, 200_000)] == [0, min(1, every)]
    x = np.ones(10_000, bool)
    assert threads_for_events(2**40, x, 1000) == every
    assert threads_for_events(2**40, ~x, 1000) == 0
    assert threads_for_events(0, x[:0], 0) == 0
    x[5000:] = False
    assert [threads_for_events(n, x, 50_000) for n in (390_000, 410_000)] == [0, min(1, every)]
    assert threads_for_events(410_000, np.stack([x, x], 1), 50_000) == min(2, every)


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
