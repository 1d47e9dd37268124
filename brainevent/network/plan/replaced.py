# SPDX-License-Identifier: Apache-2.0
"""Replace the weights of a projection that is built, with the checks of a build."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from ...errors import NetworkError
from .connections import order_of
from .plan import Plan, SynapsePlan
from .quantum import LARGEST_SUM, RoundedWeightsWarning, in_quanta, largest_rounding

__all__ = ["in_order", "of_order", "with_weights"]

Array = Any


def with_weights(plan: Plan, synapses: SynapsePlan, weights: Array, on_its_way: Array) -> SynapsePlan:
    """Return synapses with other weights: float64 () or (entries,), in the order of `order_of`.

    `on_its_way` is the largest |sum| in quanta that waits for each target neuron. One weight for all stays one, or
    becomes one for each synapse; the dtype stays where it can.
    """
    entries, quantum = synapses.targets.size, plan.population(synapses.target).quanta[synapses.receptor]
    if not entries:
        return synapses
    weights = _in_place(plan, synapses, weights.reshape(-1))
    weights = weights if synapses.weights.size == 1 else np.broadcast_to(weights, entries)
    wide = np.rint(weights / float(quantum))  # may be beyond integers
    sums = _loads(plan, synapses, wide) + on_its_way
    if not sums.max() <= LARGEST_SUM:
        raise NetworkError(
            f"set: weights of {synapses.name}: weights into neuron {int(sums.argmax())} of {synapses.target} by "
            f"{synapses.receptor} add up to {sums.max():.0f} times their quantum, {quantum:g}, but sums have 32 bits, "
            f"up to {LARGEST_SUM}; pass smaller weights, or build the network with them"
        )
    numbers, rounded = in_quanta(weights, quantum)
    if rounded:
        warnings.warn(
            f"set: weights of {synapses.name}: {rounded} of {weights.size} were rounded by more than 2**-9 of "
            f"their value, to multiples of {quantum:g}, which build chose; build the network with the new weights",
            RoundedWeightsWarning,
            stacklevel=4,
        )
    narrow = synapses.weights.dtype
    held = narrow if np.abs(numbers).max() <= np.iinfo(narrow).max else np.dtype(np.int32)
    return dataclasses.replace(synapses, weights=numbers.astype(held), rounding=largest_rounding(weights, quantum))


def _loads(plan: Plan, synapses: SynapsePlan, weights: Array) -> Array:
    """Return the sums of |weight| into each neuron of a receptor, in quanta, if a projection has these weights."""
    size, end = plan.population(synapses.target).size, (synapses.target, synapses.receptor)
    others = (k for k, p in enumerate(plan.projections) if (p.target, p.receptor) == end and p.name != synapses.name)
    sums = _load(synapses, weights, size)
    for place in others:
        one = plan.synapses[place]
        sums += _load(one, one.weights, size)
    return sums


def _load(synapses: SynapsePlan, weights: Array, size: int) -> Array:
    each = np.broadcast_to(np.abs(weights.astype(np.float64)), synapses.targets.shape)
    return np.bincount(synapses.targets, each, size)


def in_order(plan: Plan, synapses: SynapsePlan) -> Array:
    """Return weights in quanta, one or one for each synapse, in an order that does not depend on parts."""
    return synapses.weights if synapses.weights.size == 1 else synapses.weights[order_of(plan, synapses)]


def of_order(plan: Plan, synapses: SynapsePlan, weights: Array, rounding: float) -> SynapsePlan:
    """Return synapses with the weights that `in_order` returned, and by how much they were rounded."""
    return dataclasses.replace(synapses, weights=_in_place(plan, synapses, weights), rounding=rounding)


def _in_place(plan: Plan, synapses: SynapsePlan, ordered: Array) -> Array:
    """Return one element, or those of each synapse in the order of the plan, of those in the order of `order_of`."""
    if ordered.size == 1:
        return ordered
    placed = np.empty_like(ordered)
    placed[order_of(plan, synapses)] = ordered
    return placed
