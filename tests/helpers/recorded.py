# SPDX-License-Identifier: Apache-2.0
"""A simulation of the small network, and all that its results hold, as arrays to compare."""

import jax
import numpy as np
import small_plans

from brainevent import Spikes
from brainevent.network.engines import ENGINES
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.requests import every
from brainevent.network.run.simulation import Simulation

PLAN = small_plans.plan()
ON_CPU = [name for name in ENGINES if name != "cuda"]
ALL = ["a.spikes", "b.spikes", "a.counts", "b.rate", "a.pause", every(7, "b.v", neurons=[3, 0, 3])]


def simulation(plan=PLAN, engine=Interpreted):
    return Simulation(plan, engine(plan))


def values(result):
    """Return all that a result holds as arrays, by label."""
    arrays = {}
    for label, value in result.items():
        if isinstance(value, Spikes):
            arrays |= {f"{label} times": value.times, f"{label} neurons": value.neurons, f"{label} end": value.duration}
        else:
            arrays[label] = value
    return arrays


def equal(one, other):
    assert list(one) == list(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)
