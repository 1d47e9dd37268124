# SPDX-License-Identifier: Apache-2.0
"""What `simulate` records: rows that every step gives, and arrays that steps fill, all of fixed shapes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..plan.plan import Plan
from ..run.recorded import Sample, Wanted

__all__ = ["Outputs"]

Array = Any
Tree = Mapping[str, Mapping[str, Array]]


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of `steps` steps from step `first` on, which may be traced."""

    plan: Plan
    wanted: Wanted
    steps: int
    first: Array

    def start(self) -> dict[str, Array]:
        """Return the arrays that steps fill: counts, and samples of every k-th step."""
        counts = {f"{name}.counts": jnp.zeros(self.plan.population(name).size) for name in self.wanted.counts}
        sparse = {label: sample for label, sample in self.wanted.samples.items() if sample.every > 1}
        return counts | {label: self._empty(sample) for label, sample in sparse.items()}

    def _empty(self, sample: Sample) -> Array:
        return jnp.zeros((-(-self.steps // sample.every), sample.neurons.size), sample.dtype(self.plan))

    def filled(self, filled: Mapping[str, Array], step: Array, neurons: Tree, spikes: Any) -> dict[str, Array]:
        """Return these arrays after a step."""
        counts = {f"{name}.counts": filled[f"{name}.counts"] + spikes[name] for name in self.wanted.counts}
        samples = {}
        for label, sample in self.wanted.samples.items():
            if sample.every > 1:
                row = _row(self.first, step, sample.every, len(filled[label]))
                values = neurons[sample.population][sample.state][sample.neurons]
                samples[label] = filled[label].at[row].set(values, mode="drop")
        return counts | samples

    def row(self, neurons: Tree, spikes: Mapping[str, Array]) -> dict[str, Array]:
        """Return what one step gives: spikes, how many there are, and samples of every step."""
        samples = {
            label: neurons[sample.population][sample.state][sample.neurons]
            for label, sample in self.wanted.samples.items()
            if sample.every == 1
        }
        return {
            **{f"{name}.spikes": spikes[name] for name in self.wanted.spikes},
            **{f"{name}.rate": spikes[name].sum() for name in self.wanted.rates},
            **samples,
        }

    def of(self, populations: Collection[str]) -> Outputs:
        """Return the outputs of some populations."""
        w = self.wanted
        spikes, counts, rates = (tuple(x for x in names if x in populations) for names in (w.spikes, w.counts, w.rates))
        samples = {label: sample for label, sample in w.samples.items() if sample.population in populations}
        return replace(self, wanted=Wanted(spikes, counts, rates, samples))

    def whole(
        self, filled: Mapping[str, Array], step: Array, neurons: Tree, spikes: Mapping[str, Array]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the rows of several steps, and the arrays that they filled.

        Args:
            filled: The arrays before these steps.
            step: The number of the first of them.
            neurons: The states after each step that are sampled, (steps, neurons).
            spikes: The spikes in each step, (steps, neurons).
        """
        rows = {f"{name}.spikes": spikes[name] for name in self.wanted.spikes}
        rows |= {f"{name}.rate": spikes[name].sum(1) for name in self.wanted.rates}
        after = {f"{name}.counts": filled[f"{name}.counts"] + spikes[name].sum(0) for name in self.wanted.counts}
        for label, sample in self.wanted.samples.items():
            values = neurons[sample.population][sample.state][:, sample.neurons]
            if sample.every == 1:
                rows[label] = values
            else:
                steps = jnp.asarray(step, np.uint32) + jnp.arange(len(values), dtype=np.uint32)
                places = _row(self.first, steps, sample.every, len(filled[label]))
                after[label] = filled[label].at[places].set(values, mode="drop")
        return rows, after


def _row(first: Array, step: Array, every: int, rows: int) -> Array:
    """Return the row of the sample after a step, and `rows`, which is none, after the steps between samples."""
    k = np.uint32(every)
    before = first // k + (first % k > 0)
    return jnp.where(step % k == 0, step // k - before, np.uint32(rows)).astype(np.int32)
