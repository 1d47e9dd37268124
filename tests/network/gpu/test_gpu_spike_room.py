# SPDX-License-Identifier: Apache-2.0
"""Room for the spikes of a run on a GPU: it grows seldom, however much room the next launch could need."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brainevent.network.gpu.spikes import Listing


def run_of(launches, most):
    """Let launches of equal length add spikes as the engine does; return the listing, and how often it grew."""
    listing, grew, arrays = Listing(), 0, None
    for turn, number in enumerate(launches):
        # Those of the launch before are read while the next one runs.
        listing.reserve(2 * most, max(turn - 1, 0) / len(launches))
        grew, arrays = grew + (listing._arrays is not arrays), listing._arrays
        steps, neurons = listing.more(number)
        steps[:], neurons[:] = turn, np.arange(number)
    return listing, grew


RATES = {"even": lambda t: 1, "rising": lambda t: 1 + t, "falling": lambda t: 1 / (1 + t)}


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
def test_an_array_of_spikes_is_copied_a_few_times_in_a_run(rate):
    launches = [int(1000 * rate(turn / 100)) for turn in range(100)]
    _, grew = run_of(launches, 100_000)
    assert grew <= 12  # not at each of the hundred launches


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_all_spikes_are_kept_in_their_order_however_the_array_grew(launches):
    listing, _ = run_of(launches, 50)
    steps, neurons = listing.whole
    assert steps.tolist() == [turn for turn, number in enumerate(launches) for _ in range(number)]
    assert neurons.tolist() == [neuron for number in launches for neuron in range(number)]
