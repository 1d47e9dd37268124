# SPDX-License-Identifier: Apache-2.0
"""Couplings on a device: their synapses as words, and memory for the states that they read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import NetworkError
from ..plan.couplings import CouplingPlan
from ..plan.plan import Plan
from .device import Device, Memory, held
from .partition import Partition
from .structs import CARRIED

__all__ = ["CouplingRoom", "coupled_structure", "coupling_words", "shown_words"]

_MOST = 2**32  # words

Array = Any


def shown_words(plan: Plan) -> tuple[int, ...]:
    """Return the words of neurons that couplings read, in some population."""
    words = {list(p.state).index(state) for p in plan.populations for state in plan.shown(p.name)}
    return tuple(sorted(words))


def coupled_structure(plan: Plan) -> dict[str, Any]:
    """Return what the text of a kernel depends on."""
    return {"couplings": len(plan.couplings), "shown": shown_words(plan)}


def coupling_words(plan: Plan, partition: Partition) -> Array:
    """Return all couplings and their synapses as words, with slots in place of neurons."""
    table, parts = np.zeros(len(plan.couplings), CARRIED), list[Array]()
    end, ranks = table.nbytes // 4, shown_words(plan)
    names = [p.name for p in plan.populations]
    for row, one in zip(table, plan.couplings, strict=True):
        target, of = plan.population(one.target), list(plan.population(one.source).state).index(one.state)
        row["population"], row["receptor"] = names.index(one.target), list(target.quanta).index(one.receptor)
        row["rank"], row["difference"] = ranks.index(of), one.difference
        row["rank_of_own"] = ranks.index(list(target.state).index(one.state)) if one.difference else 0
        row["one_weight"] = one.weights.size == 1
        for name, words in zip(("starts", "sources", "weights"), _by_slot(plan, partition, one), strict=True):
            row[name] = end % _MOST
            parts.append(words)
            end += words.size
    if end >= _MOST:
        raise NetworkError(
            f"build: the synapses of couplings take {end} words, and a GPU has room for {_MOST}; pass fewer synapses, "
            'or build the network with backend="numba"'
        )
    return np.concatenate([table.view(np.uint32), *parts])


def _by_slot(plan: Plan, partition: Partition, one: CouplingPlan) -> tuple[Array, Array, Array]:
    """Return where the synapses of each slot begin, slots of sources, and weights, as words."""
    starts, sources, weights = one.by_target
    slots = np.repeat(partition.slots(one.target, one.neurons), np.diff(starts))
    order = np.argsort(slots, kind="stable")
    begins = np.zeros(partition.blocks * partition.per + 1, np.uint32)
    begins[1:] = np.cumsum(np.bincount(slots, minlength=begins.size - 1))
    of = partition.slots(one.source, plan.population(one.source).size).astype(np.uint32)
    own = weights if weights.size == 1 else weights[order]
    return begins, of[sources[order]], own.astype(np.float32).view(np.uint32)


class CouplingRoom:
    """Memory of one network for states that couplings read, and for the launches that its blocks have begun."""

    def __init__(self, device: Device, plan: Plan, partition: Partition):
        slots = partition.blocks * partition.per
        self.shown: Memory = held(device, np.zeros(2 * len(shown_words(plan)) * slots, np.uint32), "states for others")
        self.met: Memory = held(device, np.zeros(partition.blocks, np.uint32), "launches of blocks")
