# SPDX-License-Identifier: Apache-2.0
"""Products of all spikes with a matrix, as GPUs compute them: in floats of 16 bits, beside JAX in all digits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brainevent.network.training.gpu import halves
from brainevent.network.training.times import plain_outer, plain_times, times

SETTINGS = {"delay": 2, "exact": False}


def drawn(seed, unit):
    """Return spikes (1, 3, 11, 20), a matrix (1, 20, 7) and what arrived (1, 3, 11, 7) with columns of any size."""
    random = np.random.default_rng(seed)
    spikes = (random.random((1, 3, 11, 20)) < 0.4).astype(np.float32)
    sizes = unit * 10.0 ** random.integers(-3, 4, 7)
    matrix, arrived = (random.normal(size=shape) * sizes for shape in ((1, 20, 7), (1, 3, 11, 7)))
    return spikes, matrix.astype(np.float32), arrived.astype(np.float32)


@given(st.integers(0, 99), st.sampled_from([1e-20, 1e-12, 1.0, 1e15]))
def test_each_column_has_the_digits_of_its_largest_number(seed, unit):
    spikes, matrix, arrived = drawn(seed, unit)
    for ours, theirs, other in ((halves._times, plain_times, matrix), (halves._outer, plain_outer, arrived)):
        found, expected = (np.asarray(run(spikes, other, **SETTINGS)) for run in (ours, theirs))
        room = np.abs(other).reshape(-1, 7).max(0) * 2.0**-11
        terms = 20 if other is matrix else 33
        assert (np.abs(found - expected) <= terms * room).all()
        assert not np.array_equal(found, np.zeros_like(found))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_make_their_column_nan(value):
    spikes, matrix, arrived = drawn(0, 1.0)
    for run, other in ((halves._times, matrix), (halves._outer, arrived)):
        before = np.asarray(run(spikes, other, **SETTINGS))
        other.reshape(-1, 7)[3, 4] = value
        after = np.asarray(run(spikes, other, **SETTINGS))
        assert np.isnan(after[..., 4]).all()
        np.testing.assert_array_equal(np.delete(after, 4, -1), np.delete(before, 4, -1))


def test_all_digits_are_kept_where_jax_is_asked_to():
    spikes, matrix, _ = drawn(1, 1.0)
    with jax.default_matmul_precision("highest"):
        exact = [e.params["exact"] for e in jax.make_jaxpr(times)(spikes[0, 0], matrix[0]).eqns if "exact" in e.params]
    fewer = [e.params["exact"] for e in jax.make_jaxpr(times)(spikes[0, 0], matrix[0]).eqns if "exact" in e.params]
    assert (exact, fewer) == ([True], [False])
    whole = [run(spikes, matrix, delay=0, exact=True) for run in (halves._times, plain_times)]
    np.testing.assert_array_equal(*whole)


def test_spikes_of_later_steps_do_not_arrive():
    spikes = jnp.ones((3, 1))
    for delay in (0, 1, 3, 9):
        found = np.asarray(times(spikes, jnp.full((1, 1), 2.0), delay))[:, 0]
        assert found.tolist() == [0.0] * min(delay, 3) + [2.0] * (3 - min(delay, 3))
