# SPDX-License-Identifier: Apache-2.0
"""On the CPU: products of more elements than 32 bits count. Of their zeros memory holds one page, and the last row."""

import mmap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent

pytestmark = pytest.mark.thorough
ROWS, EACH = 2**16 + 2, 2**15  # which is 2**31 elements, and two rows more
LAST = np.arange(EACH) % 300


@pytest.fixture(scope="module")
def indices():
    """Return zeros, of which the operating system keeps one page, and the last row, which is on pages of its own."""
    memory = mmap.mmap(-1, 4 * ROWS * EACH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    array = np.frombuffer(memory, np.int32).reshape(ROWS, EACH)
    array[-1] = np.sort(LAST)
    return jax.device_put(array)  # which takes what begins with a page as it is


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


def one_hot(size, at):
    return jnp.zeros(size, bool).at[at].set(True)


@pytest.mark.parametrize("name", ["CSR", "FixedNumPerPre"])
def test_the_last_row_is_found(indices, name):
    weight = jnp.ones(1, "float32")
    if name == "CSR":
        indptr = np.arange(ROWS + 1, dtype=np.int64) * EACH
        assert indptr[-1] > 2**31 + EACH
        matrix = brainevent.CSR((weight, indices.reshape(-1), indptr), shape=(ROWS, 300))
        assert matrix.indptr.dtype == "int64"
    else:
        matrix = brainevent.FixedNumPerPre((weight, indices), shape=(ROWS, 300))
    assert matrix.indices_sorted
    counts = np.bincount(LAST, minlength=300)
    np.testing.assert_array_equal(one_hot(ROWS, -1) @ matrix, counts)
    np.testing.assert_array_equal(one_hot(ROWS, -1).astype("float32") * 0.5 @ matrix, 0.5 * counts)
    np.testing.assert_array_equal(one_hot(ROWS, ROWS - 3) @ matrix, EACH * (np.arange(300) == 0))
    of_last = np.where(np.arange(ROWS) == ROWS - 1, counts[7], 0)
    np.testing.assert_array_equal(matrix @ one_hot(300, 7), of_last)
    np.testing.assert_array_equal(matrix @ (one_hot(300, 7) * jnp.float32(0.5)), 0.5 * of_last)
    np.testing.assert_array_equal(matrix[[ROWS - 1]], counts[None])
