# SPDX-License-Identifier: Apache-2.0
"""Spikes as a list of events answer every question as spikes in bits do, and make no bits for it."""

import pickle
import re

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from brainevent import Spikes
from brainevent.spikes.trains import joined

DENSE = hnp.arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 37)))


def both(dense, dt=0.5, first=0, dtypes=("uint32", "int32")):
    """Return the same spikes as a list and as bits."""
    steps, neurons = np.nonzero(dense)
    events = (steps + first).astype(dtypes[0]), neurons.astype(dtypes[1])
    some = Spikes.from_events(*events, size=dense.shape[1], dt=dt, first=first, n_steps=len(dense))
    bits = Spikes.from_dense(dense, dt)
    return some, Spikes(bits.bits, bits.size, dt, first)


ANSWERS = {
    "times": lambda spikes: spikes.times,
    "neurons": lambda spikes: spikes.neurons,
    "counts": lambda spikes: spikes.counts,
    "members": lambda spikes: spikes.members,
    "steps": lambda spikes: np.array([spikes.steps, spikes.first, spikes.size, spikes.duration]),
    "rates": lambda spikes: spikes.rates(),
    "intervals": lambda spikes: spikes.intervals(),
    "middles": lambda spikes: spikes.population_rate(1.0)[0],
    "population_rate": lambda spikes: spikes.population_rate(1.0)[1],
}


@pytest.mark.parametrize("answer", ANSWERS)
@settings(max_examples=3)
@given(dense=DENSE, first=st.sampled_from([0, 7, 2**32 - 20]), data=st.data())
def test_every_answer_is_that_of_the_bits(answer, dense, first, data):
    some, bits = both(dense, first=first)
    chosen = data.draw(hnp.arrays(bool, dense.shape[1]))
    start = data.draw(st.integers(0, len(dense) - 1))
    stop = data.draw(st.integers(start + 1, len(dense)))
    when = [(first + step) * 0.5 for step in (start, stop)]
    for one, other in (
        (some, bits),
        (some.of(chosen), bits.of(chosen)),
        (some.between(*when), bits.between(*when)),
        (some.between(*when).of(chosen), bits.of(chosen).between(*when)),
    ):
        np.testing.assert_array_equal(ANSWERS[answer](one), ANSWERS[answer](other))
        assert "bits" not in vars(one)


@settings(max_examples=6)
@given(DENSE)
def test_bits_are_made_on_demand(dense):
    some, bits = both(dense)
    np.testing.assert_array_equal(some.bits, bits.bits)
    np.testing.assert_array_equal(some.todense(), dense)
    assert isinstance(some.bits, jax.Array)
    chosen = some.of(slice(0, 3))
    np.testing.assert_array_equal(chosen.todense(), bits.of(slice(0, 3)).todense())


@given(DENSE, st.randoms())
def test_events_come_in_any_order(dense, random):
    steps, neurons = np.nonzero(dense)
    order = list(range(steps.size))
    random.shuffle(order)
    some = Spikes.from_events(steps[order], neurons[order], dense.shape[1], 1.0, n_steps=len(dense))
    np.testing.assert_array_equal(some.times, steps)
    np.testing.assert_array_equal(some.neurons, neurons)


def test_a_list_is_as_long_as_what_happened():
    """A billion steps of a million neurons would be 125 TB of bits."""
    spikes = Spikes.from_events([5, 900_000_000], [999_999, 0], 1_000_000, 0.1, n_steps=1_000_000_000)
    assert repr(spikes) == "Spikes(1000000 neurons, 1000000000 steps of 0.1 ms, 2 spikes)"
    assert repr(spikes.of([0])) == "Spikes(1000000 neurons, 1000000000 steps of 0.1 ms, 1 spike)"
    assert spikes.between(0, 1).neurons.tolist() == [999_999]
    assert spikes.counts.sum() == 2
    with pytest.raises(MemoryError, match=r"Spikes.bits: 1000000000 steps of 1000000 neurons as bits would take"):
        spikes.bits  # noqa: B018


def test_pictures_are_those_of_the_bits():
    pytest.importorskip("matplotlib")
    some, bits = both(np.random.default_rng(0).random((200, 40)) < 0.1)
    for draw in ("raster", "plot_rate", "plot_intervals"):
        (one,), (other,) = getattr(some, draw)().axes, getattr(bits, draw)().axes
        assert len(one.lines) == len(other.lines)
        for line, expected in zip(one.lines, other.lines, strict=True):
            np.testing.assert_array_equal(line.get_xydata(), expected.get_xydata())
    assert "bits" not in vars(some)


def test_a_pickled_copy_holds_a_list_and_no_bits():
    some, bits = both(np.eye(5) > 0)
    again = pickle.loads(pickle.dumps(some))
    np.testing.assert_array_equal(again.times, bits.times)
    assert "bits" not in vars(again)


def test_bits_stay_a_tree_of_jax():
    some, bits = both(np.eye(5) > 0)
    assert len(jax.tree.leaves(bits)) == 1
    np.testing.assert_array_equal(jax.jit(lambda spikes: spikes)(bits).times, some.times)


def test_runs_are_joined():
    dense = np.random.default_rng(0).random((30, 9)) < 0.3
    whole, _ = both(dense)
    parts = [both(dense[start:stop], first=start)[0] for start, stop in ((0, 4), (4, 5), (5, 30))]
    one = joined(parts)
    assert (one.first, one.steps) == (0, 30)
    np.testing.assert_array_equal(one.times, whole.times)
    np.testing.assert_array_equal(one.neurons, whole.neurons)


def test_silence_and_no_steps():
    spikes = Spikes.from_events([], [], 3, 1.0, n_steps=0)
    assert (spikes.times.size, spikes.counts.tolist(), spikes.intervals().size) == (0, [0, 0, 0], 0)
    with pytest.raises(ValueError, match=r"Spikes.rates: the run has no steps, so there is no rate"):
        spikes.rates()


def made(steps, neurons, size=3, dt=1.0, first=0, n_steps=10):
    return lambda: Spikes.from_events(steps, neurons, size, dt, first=first, n_steps=n_steps)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (made([1, 2], [0]), ValueError, "Spikes.from_events: 2 steps but 1 neurons; pass one of each for every spike"),
        (made([10], [0]), ValueError, "Spikes.from_events: step 10 is out of range; pass 0 to 9"),
        (made([4], [0], first=5), ValueError, "step 4 is out of range; pass 5 to 14"),
        (made([1], [3]), ValueError, "Spikes.from_events: neuron 3 is out of range; pass 0 to 2"),
        (made([1], [-1]), ValueError, "neuron -1 is out of range; pass 0 to 2"),
        (made([1, 2, 1], [0, 1, 0]), ValueError, "neuron 0 spikes twice in step 1; pass each spike once"),
        (made([0.5], [0]), TypeError, "steps is an array of float64 of shape (1,); pass a vector of integers"),
        (made([1], [[0]]), TypeError, "neurons is an array of int64 of shape (1, 1); pass a vector"),
        (made([], [], size=-1), ValueError, "Spikes.from_events: size is -1; pass at least 0"),
        (made([], [], n_steps=1.5), TypeError, "Spikes.from_events: n_steps is 1.5; pass an integer"),
        (made([], [], dt=0), ValueError, "Spikes.from_events: dt is 0; pass the length of a step"),
        (lambda: both(np.eye(3))[0][0], TypeError, "this is one run, not a batch; take neurons by of(...)"),
        (lambda: both(np.eye(3))[0].of([7]), IndexError, "there are 3 neurons"),
        (lambda: both(np.eye(3))[0].between(9, 12), ValueError, "no step is between 9 and 12 ms"),
    ],
)
def test_what_is_no_list_of_spikes_is_refused_with_a_reason(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()
