# SPDX-License-Identifier: Apache-2.0
"""Smoothed rates, CV, Fano factors and correlations are those that NumPy finds in dense arrays."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from brainevent import Spikes

DENSE = hnp.arrays(bool, st.tuples(st.integers(4, 30), st.integers(1, 9)))
RUN = Spikes.from_dense(np.random.default_rng(0).random((200, 12)) < 0.2, 0.5)


def listed(dense, dt=1.0, first=3):
    """Return spikes as a list of events, as networks record them, whose first step is not 0."""
    steps, neurons = np.nonzero(dense)
    events = (steps + first).astype("uint32"), neurons.astype("int32")
    return Spikes.from_events(*events, dense.shape[1], dt, first=first, n_steps=len(dense))


def counts_in(dense, wide):
    """Return spikes in whole bins: (bins, steps, n) -> (bins, n)."""
    bins = len(dense) // wide
    return dense[: bins * wide].reshape(bins, wide, dense.shape[1]).sum(axis=1)


@settings(max_examples=20)
@given(DENSE, st.integers(1, 2), st.data())
def test_statistics_are_those_of_a_dense_array(dense, wide, data):
    chosen = data.draw(hnp.arrays(bool, dense.shape[1]))
    for spikes in (listed(dense), Spikes.from_dense(dense, 1.0)):
        some, part, counts = spikes.of(chosen), dense[:, chosen], counts_in(dense[:, chosen], wide)
        gaps = [np.diff(np.flatnonzero(train)) for train in part.T]
        cv = [np.std(found) / np.mean(found) if found.size > 1 else np.nan for found in gaps]
        np.testing.assert_allclose(some.cv(), cv)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(some.fano_factors(wide), counts.var(0) / counts.mean(0), atol=1e-12)
        varies = np.ptp(counts, axis=0) > 0
        found = some.correlations(wide)
        assert found.shape == (chosen.sum(), chosen.sum())
        assert np.isnan(found[~varies]).all()
        if varies.any():
            expected = np.atleast_2d(np.corrcoef(counts[:, varies].T))
            np.testing.assert_allclose(found[np.ix_(varies, varies)], expected, atol=1e-5)


@pytest.mark.parametrize("smooth", [0.2, 1.0, 7.0, 1000.0])
def test_a_smoothed_rate_is_a_weighted_mean_of_the_rate(smooth):
    dense = np.random.default_rng(1).random((23, 5)) < 0.3
    middle, rate = listed(dense).population_rate(2)
    at, found = listed(dense).population_rate(2, smooth=smooth)
    np.testing.assert_array_equal(at, middle)
    grid = np.exp(-0.5 * (2 * (np.arange(12)[:, None] - np.arange(12)) / smooth) ** 2) * np.array([2] * 11 + [1])
    expected = grid @ rate / grid.sum(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_smoothing_keeps_a_constant_rate_to_the_ends():
    _, rate = Spikes.from_dense(np.ones((50, 3)), 1.0).population_rate(smooth=5)
    np.testing.assert_allclose(rate, 1000)


def test_populations_are_stacked():
    one, two = (np.random.default_rng(seed).random((9, n)) < 0.4 for seed, n in ((0, 5), (1, 3)))
    spikes, groups = Spikes.stack({"one": listed(one), "two": listed(two).of([0, 2])})
    np.testing.assert_array_equal(spikes.of(slice(0, 5)).todense()[:, :5], one)
    np.testing.assert_array_equal(spikes.todense()[:, [5, 7]], two[:, [0, 2]])
    assert {name: list(part) for name, part in groups.items()} == {"one": [0, 1, 2, 3, 4], "two": [5, 7]}
    assert (spikes.members.tolist(), spikes.first, spikes.steps) == ([0, 1, 2, 3, 4, 5, 7], 3, 9)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: RUN.population_rate(smooth=0), ValueError, "smooth is 0; pass milliseconds above zero, or None"),
        (lambda: RUN.population_rate(smooth="2"), ValueError, "Spikes.population_rate: smooth is '2'; pass milli"),
        (lambda: RUN.fano_factors(60), ValueError, "window is 60 ms, and the run has 100 ms; pass at most half"),
        (lambda: RUN.fano_factors(0.7), ValueError, "Spikes.fano_factors: window is 0.7 ms; pass a multiple of dt"),
        (lambda: RUN.correlations("5"), TypeError, "Spikes.correlations: bin is '5'; pass a number of milliseconds"),
        (
            lambda: Spikes.from_events([], [], 10**7, 1.0, n_steps=1000).correlations(),
            MemoryError,
            "Spikes.correlations: correlations of 10000000 neurons in 200 bins would take",
        ),
        (lambda: Spikes.stack({}), ValueError, "Spikes.stack: there are no spikes"),
        (lambda: Spikes.stack({"a": 7}), TypeError, "Spikes.stack: pass a mapping from names to Spikes"),
        (
            lambda: Spikes.stack({"a": RUN, "b": RUN.between(0, 50)}),
            ValueError,
            "'a' has 200 steps of 0.5 ms from step 0, and 'b' 100 of 0.5 ms from step 0; pass spikes of the same steps",
        ),
    ],
)
def test_what_cannot_be_found_is_refused_with_a_reason(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()
