# SPDX-License-Identifier: Apache-2.0
"""`CouplingPlan`: the synapses of a coupling as arrays; what one of them adds to a sum, as a form for every engine."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...scalar.form import Form
from ...scalar.lower import form_of
from ...scalar.primitives import flushed

__all__ = ["CouplingPlan", "added_form"]

Array = Any


@dataclass(frozen=True, eq=False)
class CouplingPlan:
    """The synapses of one coupling, by source neuron, then target, then as they were drawn or given.

    In each step, target j gets the sum over its synapses of weight times the `state` of the source before the step, or
    times source minus own state if it is a `difference`: floats, added up in the order of `by_target`.

    `sources` and `targets` are int32 (entries,), `weights` floats of the plan, (1,) or (entries,).
    """

    name: str
    source: str
    target: str
    receptor: str
    state: str
    difference: bool
    sources: Array
    targets: Array
    weights: Array
    neurons: int

    @property
    def entries(self) -> int:
        """How many synapses there are."""
        return int(self.targets.size)

    @property
    def place(self) -> tuple[str, str]:
        """The population and receptor where the sums arrive."""
        return self.target, self.receptor

    @property
    def nbytes(self) -> int:
        """How much memory native code needs for the synapses."""
        starts, sources, weights = self.by_target
        return int(starts.nbytes + sources.nbytes + weights.nbytes)

    @cached_property
    def order(self) -> Array:
        """The places of synapses by target, then source, then as they were drawn or given: int64 (entries,)."""
        return np.argsort(self.targets, kind="stable")

    @cached_property
    def by_target(self) -> tuple[Array, Array, Array]:
        """Where the synapses of each target begin, int64 (neurons + 1,); sources, and weights, in this order.

        Denormal weights are zeros, as in rules.
        """
        starts = np.zeros(self.neurons + 1, np.int64)
        np.cumsum(np.bincount(self.targets, minlength=self.neurons), out=starts[1:])
        weights = self.weights if self.weights.size == 1 else self.weights[self.order]
        return starts, np.ascontiguousarray(self.sources[self.order]), np.ascontiguousarray(flushed(weights))

    def with_weights(self, weights: Array) -> CouplingPlan:
        """Return the same synapses with weights () or (entries,)."""
        return replace(self, weights=np.array(weights, self.weights.dtype).reshape(-1))


@functools.cache
def added_form(dtype: str, *, difference: bool, name: str = "coupled") -> Form:
    """Return the form of the sum after one more synapse: of the sum, the weight, the source's and the own state."""

    def added(total: Any, weight: Any, source: Any, own: Any) -> Any:
        return total + weight * (source - own if difference else source)

    return form_of(name, added, (dtype,) * 4)
