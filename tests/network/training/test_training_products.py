# SPDX-License-Identifier: Apache-2.0
"""Products of all spikes with a matrix, as GPUs compute them: in floats of 16 bits, beside JAX in all digits."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ptx import ptx_of

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


def rescaled(spikes, matrix, delay, **_):
    """Do as the product on a GPU, whose kernel multiplies sums in their place."""
    sums, unit = halves.multiplied(spikes, matrix, delay)
    return sums * unit[..., None]


@given(st.integers(0, 99), st.sampled_from([1e-20, 1e-12, 1.0, 1e15]))
def test_numbers_have_the_digits_that_jax_keeps(seed, unit):
    """Those that arrived have them by neuron, weights by matrix."""
    spikes, matrix, arrived = drawn(seed, unit)
    for ours, theirs, other in ((rescaled, plain_times, matrix), (halves._outer, plain_outer, arrived)):
        found, expected = (np.asarray(run(spikes, other, **SETTINGS)) for run in (ours, theirs))
        columns = np.abs(other).reshape(-1, 7).max(0)
        room = np.maximum(columns * 2.0**-11, 2.0**-28 * columns.max() * (other is matrix))
        assert (np.abs(found - expected) <= (20 if other is matrix else 33) * room).all()
        assert not np.array_equal(found, np.zeros_like(found))


@pytest.mark.parametrize(
    ("unit", "once"), [(2.0**-11, False), (2.0**-9, True), (1.0, True), (2.0**29, True), (2.0**31, False)]
)
def test_sums_are_rescaled_where_a_spike_cannot_be_a_number_of_16_bits(unit, once):
    spikes, matrix = np.ones((1, 1, 1, 3), np.float32), np.full((1, 3, 2), 0.75 * unit, np.float32)
    sums, factor = halves.multiplied(spikes, matrix, 0)
    assert (factor.item() == 1) == once
    assert (sums * factor).ravel().tolist() == [2.25 * unit] * 2


def test_networks_have_units_of_their_own():
    spikes, matrix, _ = drawn(3, 1.0)
    both = np.concatenate([matrix, matrix * np.float32(2.0**-60)])
    found = np.asarray(rescaled(np.concatenate([spikes] * 2), both, 1))
    np.testing.assert_array_equal(found[1], found[0] * np.float32(2.0**-60))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_make_sums_nan(value):
    spikes, matrix, arrived = drawn(0, 1.0)
    before = np.asarray(halves._outer(spikes, arrived, **SETTINGS))
    matrix[0, 3, 4] = arrived[0, 1, 3, 4] = value
    assert np.isnan(rescaled(spikes, matrix, 2)).all()
    after = np.asarray(halves._outer(spikes, arrived, **SETTINGS))
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


def test_the_kernel_that_rescales_compiles_for_gpus():
    assert "rescale" in ptx_of(halves._RESCALE)


def test_spikes_of_later_steps_do_not_arrive():
    spikes = jnp.ones((3, 1))
    for delay in (0, 1, 3, 9):
        found = np.asarray(times(spikes, jnp.full((1, 1), 2.0), delay))[:, 0]
        assert found.tolist() == [0.0] * min(delay, 3) + [2.0] * (3 - min(delay, 3))


def test_products_with_the_same_cotangents_are_not_merged():
    """XLA sees a factor of each, behind a barrier of its own: merged products would need copies of all spikes."""

    def sums(first, second, few, many):
        return times(few, first, 1) + times(many, second, 1) + times(many, second, 2)

    def slopes(few, many, cotangents):
        return jax.vjp(lambda a, b: sums(a, b, few, many), jnp.ones((3, 4)), jnp.ones((5, 4)))[1](cotangents)

    arguments = jnp.ones((6, 3)), jnp.ones((6, 5)), jnp.ones((6, 4))
    text = jax.jit(slopes).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text().split("func.func")[1]
    numbers = dict(re.findall(r"(%\S+) = stablehlo.constant dense<(\d+)> : tensor<i32>", text))
    barriers = re.findall(r"optimization_barrier %\S+, (%\S+) : tensor<\S+xf16>", text)
    assert (len(barriers), len({numbers[name] for name in barriers})) == (3, 3)
