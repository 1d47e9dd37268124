# SPDX-License-Identifier: Apache-2.0
"""`Carried`: a coupling in JAX: states times weights, as a product with a matrix or visiting each synapse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..plan.couplings import CouplingPlan
from ..plan.plan import Plan
from .quanta import Receptor

__all__ = ["Carried", "brought", "carriers", "coupling_weights", "operands_of"]

Array = Any
Tree = Mapping[str, Mapping[str, Array]]
_DENSE = 8  # a matrix has at most so many elements for each synapse
_HIGHEST = jax.lax.Precision.HIGHEST


@dataclass(frozen=True, eq=False)
class Carried:
    """The synapses of one coupling, static; `sources` is how many neurons send.

    Its sums differ from those of native code by rounding: XLA chooses their order. Where weights are a matrix, a state
    that is not finite reaches all targets.
    """

    plan: CouplingPlan
    sources: int

    @cached_property
    def dense(self) -> bool:
        """Whether weights are a matrix (sources, targets); else each synapse is visited."""
        return self.sources * self.plan.neurons <= _DENSE * self.plan.entries

    @cached_property
    def _is_whole(self) -> bool:
        """Whether there is one synapse from each source to each target."""
        places = self.plan.sources.astype(np.int64) * self.plan.neurons + self.plan.targets
        return np.array_equal(places, np.arange(self.sources * self.plan.neurons))

    def operand(self, weights: Array) -> Array:
        """Return weights (1,) or (entries,) as sums take them."""
        if not self.dense:
            return weights[self.plan.order] if weights.size > 1 else weights
        shape = self.sources, self.plan.neurons
        each = jnp.broadcast_to(weights, self.plan.targets.shape)
        if self._is_whole:
            return each.reshape(shape)
        return jnp.zeros(shape, each.dtype).at[self.plan.sources, self.plan.targets].add(each)

    def sums(self, neurons: Tree, operand: Array) -> Array:
        """Return what arrives, (targets,), given the states before a step."""
        plan = self.plan
        values = neurons[plan.source][plan.state]
        if self.dense and plan.difference:  # each difference before it is multiplied: potentials are large beside them
            return (operand * (values[:, None] - neurons[plan.target][plan.state])).sum(0)
        if self.dense:
            return jnp.matmul(values, operand, precision=_HIGHEST)
        _, sources, _ = plan.by_target
        targets = plan.targets[plan.order]
        values = values[sources]
        if plan.difference:
            values = values - neurons[plan.target][plan.state][targets]
        return jax.ops.segment_sum(operand * values, targets, plan.neurons, indices_are_sorted=True)


def carriers(plan: Plan) -> list[Carried]:
    """Return all couplings that have synapses."""
    return [Carried(one, plan.population(one.source).size) for one in plan.couplings if one.entries]


def operands_of(plan: Plan, weights: Mapping[str, Array]) -> list[tuple[Carried, Array]]:
    """Return all couplings that have synapses, with their weights as sums take them."""
    return [(one, one.operand(weights[one.plan.name])) for one in carriers(plan)]


def coupling_weights(plan: Plan, given: Mapping[str, Array]) -> dict[str, Array]:
    """Return the weights of all couplings: those that are given, and those of the plan."""
    return {one.name: given.get(one.name, one.weights) for one in plan.couplings}


def brought(operands: Sequence[tuple[Carried, Array]], neurons: Tree) -> dict[Receptor, Array]:
    """Return what couplings bring to receptors, (neurons,), given the states before a step."""
    found: dict[Receptor, Array] = {}
    for one, operand in operands:
        sums, place = one.sums(neurons, operand), one.plan.place
        found[place] = found[place] + sums if place in found else sums
    return found
