# SPDX-License-Identifier: Apache-2.0
"""What an engine shall record, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..plan.plan import Plan
from ..state import NetworkState

__all__ = ["Recorded", "RecordedStep", "Sample", "Wanted"]

Array = Any


@dataclass(frozen=True, eq=False)
class Sample:
    """A state of chosen neurons, after each step whose number is a multiple of `every`; or of plastic synapses.

    Of synapses, `population` is the projection, `state` is "w" or a state of theirs, and `neurons` are their numbers,
    by source, delay and target.
    """

    population: str
    state: str
    every: int
    neurons: Array  # int64, (chosen,)
    of_synapses: bool = False

    def of(self, state: NetworkState) -> Array:
        """Return the values in a state."""
        groups = state.synapses if self.of_synapses else state.neurons
        return groups[self.population][self.state][self.neurons]

    def dtype(self, plan: Plan) -> np.dtype[Any]:
        """Return the dtype of the values."""
        if self.of_synapses:
            return np.dtype(plan.dtype)
        return np.dtype(plan.population(self.population).state[self.state].dtype)

    def before(self, step: int) -> int:
        """Return how many steps before one are sampled: the multiples of `every`, 0 included."""
        return -(-step // self.every)

    def rows(self, first: int, end: int) -> int:
        """Return how many steps from `first` on and before `end` are sampled."""
        return self.before(end) - self.before(first)


@dataclass(frozen=True, eq=False)
class Wanted:
    """What to record of a run.

    Attributes:
        spikes: Populations of which every spike is listed.
        counts: Populations of which the spikes of each neuron are counted.
        rates: Populations of which the spikes in each step are counted.
        samples: States to sample, by label.
    """

    spikes: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    samples: Mapping[str, Sample] = field(default_factory=dict)

    @property
    def key(self) -> Any:
        """What is recorded, as a key of programs that record it."""
        of = [(label, s.population, s.state, s.every, s.neurons.tobytes()) for label, s in self.samples.items()]
        return self.spikes, self.counts, self.rates, tuple(of)


@dataclass(frozen=True, eq=False)
class Recorded:
    """What an engine recorded in `steps` steps from step `first` on.

    Attributes:
        first: Number of the first step.
        steps: How many steps ran.
        spikes: By population, steps (uint32) and neurons (int32) of all spikes, by step and then by neuron.
        counts: By population, int32 (neurons,).
        rates: By population, int32 (steps,).
        samples: By label, an array (samples, chosen) of the state's dtype.
        full: Why the run ended before its last step, if memory was full; else nothing.
    """

    first: int
    steps: int
    spikes: Mapping[str, tuple[Array, Array]]
    counts: Mapping[str, Array]
    rates: Mapping[str, Array]
    samples: Mapping[str, Array]
    full: str = ""

    def of_one_step(self) -> RecordedStep:
        """Return the same of a run of one step that samples each step."""
        return RecordedStep(
            {name: neurons for name, (_, neurons) in self.spikes.items()},
            self.counts,
            {name: int(rate[0]) for name, rate in self.rates.items()},
            {label: rows[0] for label, rows in self.samples.items()},
        )


class RecordedStep(NamedTuple):
    """What an engine recorded in one step.

    Attributes:
        spikes: By population, the neurons that spiked: int32, rising.
        counts: By population, 1 for each neuron that spiked, else 0: int32 (neurons,).
        rates: By population, how many spiked.
        samples: By label, an array (chosen,) of the state's dtype.
    """

    spikes: Mapping[str, Array]
    counts: Mapping[str, Array]
    rates: Mapping[str, int]
    samples: Mapping[str, Array]
