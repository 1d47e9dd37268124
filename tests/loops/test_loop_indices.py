# SPDX-License-Identifier: Apache-2.0
"""Indices of all types in a loop: those that the type of the array's size does not hold, too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpreted_loops import interpreted_scan
from jax import lax

STEPS = 4
NUMBERS = np.arange(300, dtype=np.float32)


def found_in_a_loop(function, *arrays):
    """Return what `function(step, *arrays)` returns in each step of a loop, from its text."""

    def run(arrays):
        return lax.scan(lambda k, _: (k + 1, function(k, *arrays)), jnp.int32(0), None, length=STEPS)

    closed = jax.make_jaxpr(run)(arrays)
    eqn = closed.jaxpr.eqns[-1]
    known = dict(zip(closed.jaxpr.invars, arrays, strict=True))
    known.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    operands = [np.asarray(a.val, a.aval.dtype) if hasattr(a, "val") else known[a] for a in eqn.invars]
    return interpreted_scan(eqn.params, operands)[0][1:]


@pytest.mark.parametrize("mode", ["clip", "drop"])
@pytest.mark.parametrize(("dtype", "place"), [("uint8", 200), ("int8", 100), ("uint8", 5)])
def test_one_row_at_a_place_of_few_bits(dtype, place, mode):
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    places = np.array([place], dtype)  # JAX itself wraps 299, the largest place, to 43, and writes nowhere

    def update(k, x, places):
        return lax.scatter(x, places, k - 7.0, numbers, mode=mode)

    (found,) = found_in_a_loop(update, NUMBERS, places)
    wanted = NUMBERS.copy()
    wanted[place] = -7
    np.testing.assert_array_equal(found[0], wanted)


def test_places_of_64_bits_without_a_sign():
    with jax.enable_x64(True):
        places = np.array([[2**64 - 1], [2**63], [2**63 - 1], [3]], np.uint64)
        of_reads = lax.GatherDimensionNumbers((), (0,), (0,))
        of_writes = lax.ScatterDimensionNumbers((), (0,), (0,))

        def read_and_write(k, x, places):
            read = [lax.gather(x, places, of_reads, (1,), mode=mode, fill_value=-1) for mode in ("clip", "fill")]
            added = [lax.scatter_add(x, places, x[:4] * 0 + 1, of_writes, mode=mode) for mode in ("clip", "drop")]
            return *read, *added

        found = found_in_a_loop(read_and_write, NUMBERS, places)
    read, filled, clipped, dropped = (each[0] for each in found)
    assert read.tolist() == [299, 299, 299, 3]
    assert filled.tolist() == [-1, -1, -1, 3]
    assert (clipped - NUMBERS)[[0, 3, 299]].tolist() == [0, 1, 3]
    assert (dropped - NUMBERS)[[0, 3, 299]].tolist() == [0, 1, 0]


@pytest.mark.parametrize("fill", [-np.inf, np.inf, np.nan, -0.0, 0.1])
def test_any_number_fills_what_is_out_of_range(fill):
    (found,) = found_in_a_loop(lambda k, x, i: x.at[i].get(mode="fill", fill_value=fill), NUMBERS, np.array([300, 5]))
    np.testing.assert_array_equal(found, np.tile(np.float32([fill, 5]), (STEPS, 1)))
    assert np.signbit(found[0, 0]) == np.signbit(fill)
