# SPDX-License-Identifier: Apache-2.0
"""Draw the synapses of a plastic projection: those of any projection, with a float for each weight and state."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ...errors import NetworkError
from ...scalar.primitives import flushed
from ..description.conductances import check_sign
from ..description.units import plain
from ..description.values import Values
from .distribution import Distribution
from .drawing import placed_synapses
from .drawn_values import array_of
from .plan import SynapsePlan
from .plastic import PlasticPlan
from .plasticity import PlasticRules
from .quantum import Bounded
from .wiring import Wiring

__all__ = ["bounded", "check_plastic", "plastic_plan"]

_FINE = 2**29  # parts of the largest weight: of drawn weights, float32 has fewer digits
Array = Any


def bounded(wiring: Wiring, rules: PlasticRules) -> Bounded:
    """Return what is known of the weights of a plastic projection, whatever they become."""
    widest = dataclasses.replace(wiring, weights=np.array([rules.largest]))
    return Bounded(wiring.name, rules.largest, widest.largest_sum if wiring.expected else 0.0, rules.value_range)


def check_plastic(wiring: Wiring, rules: PlasticRules) -> None:
    """Raise if synapses of a matrix share one weight, or weights are not within their bounds."""
    where, (low, high) = f"projection {wiring.name}", rules.bounds
    given = wiring.projection.connect
    if wiring.listed is not None and hasattr(given, "_stored") and np.size(given.data) < wiring.listed.sources.size:
        raise NetworkError(
            f"{where}: plasticity needs a weight for each synapse, but those of this {type(given).__name__} share one; "
            "pass a matrix with an array of weights, or a description such as connect.prob(0.1, weight=0.5)"
        )
    if not wiring.expected:
        return
    target = wiring.projection.target
    check_sign(f"{where}: plasticity: weights", target.rule, target.name, wiring.projection.into, low, high)
    first, last = wiring.weight_bounds
    near = 1e-6 * max(abs(low), abs(high))  # bounds are rounded to float32, the ends of a law are not
    if first < low - near or last > high + near:
        span = f"{first:g}" if first == last else f"from {first:g} to {last:g}"
        drawn = isinstance(wiring.weights, Distribution)
        raise NetworkError(
            f"{where}: weights are {span}, outside of low={low:g} to high={high:g} of its plasticity; pass weights "
            f"within them{', such as normal(..., low=, high=)' if drawn else ''}, or other bounds"
        )


def plastic_plan(wiring: Wiring, rules: PlasticRules, seed: int, parts: int, dtype: str) -> PlasticPlan:
    """Draw the synapses of a plastic projection: the same, but for their order, for any number of parts."""
    synapses, weights, chosen = _placed(wiring, seed, parts)
    projection = wiring.projection
    found = PlasticPlan(
        wiring.name,
        projection.source.name,
        projection.target.name,
        projection.into,
        synapses.starts,
        synapses.targets,
        synapses.delays,
        flushed(np.clip(weights, *rules.bounds).astype(dtype)),
        {},
        rules,
        wiring.shape,
        parts,
        bounded(wiring, rules).largest_sum,
    )
    assert projection.plasticity is not None
    states = {}
    for name, value in projection.plasticity.state.items():
        states[name] = flushed(_state(wiring, found, name, value, chosen, seed, dtype))
    return dataclasses.replace(found, states=states)


def _placed(wiring: Wiring, seed: int, parts: int) -> tuple[SynapsePlan, Array, Array | None]:
    """Return synapses, their weights, float64 or float32, and of a list the place of each in it."""
    if wiring.listed is not None:
        # The drawing sorts whole numbers: those of the list's elements.
        numbered = dataclasses.replace(wiring, weights=np.arange(max(1, wiring.listed.sources.size), dtype=np.float64))
        synapses = _drawn(numbered, np.float64(1), seed, parts)
        chosen = np.broadcast_to(synapses.weights, synapses.targets.shape).astype(np.int64)
        return synapses, np.broadcast_to(wiring.weights, synapses.targets.shape)[chosen], chosen
    if isinstance(wiring.weights, Distribution):
        largest = wiring.largest_weight
        quantum = np.float64(2.0 ** math.ceil(math.log2(largest / _FINE)) if largest else 1.0)
        synapses = _drawn(wiring, quantum, seed, parts)
        return synapses, synapses.weights * quantum, None
    one = dataclasses.replace(wiring, weights=np.ones(1))
    synapses = _drawn(one, np.float64(1), seed, parts)
    return synapses, np.full(synapses.targets.shape, wiring.weights[0]), None


def _drawn(wiring: Wiring, quantum: np.floating[Any], seed: int, parts: int) -> SynapsePlan:
    """Draw synapses with weights in whole numbers of a quantum."""
    synapses = placed_synapses(wiring, quantum, seed, parts).synapses
    assert isinstance(synapses, SynapsePlan)
    return synapses


def _state(
    wiring: Wiring, plan: PlasticPlan, name: str, value: Any, chosen: Array | None, seed: int, dtype: str
) -> Array:
    """Return where a state of each synapse begins, in the order of the plan."""
    where = f"projection {wiring.name}: state {name}"
    if isinstance(value, Values):
        drawn = array_of(where, value, f"state {name} of {wiring.name}", plan.entries, dtype, seed)
        placed = np.empty_like(drawn)
        placed[plan.order] = drawn
        return placed
    given = np.asarray(plain(where, value))
    if given.ndim:
        if chosen is None or wiring.listed is None:
            raise NetworkError(
                f"{where} has the shape {given.shape}, but synapses are drawn; pass a number, or values such as "
                "uniform(0, 1)"
            )
        given = wiring.listed.of_each(where, given)[chosen]
    found = array_of(where, given, "", plan.entries, dtype, seed)
    return np.ascontiguousarray(np.broadcast_to(found, plan.entries))
