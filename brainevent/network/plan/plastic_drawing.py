# SPDX-License-Identifier: Apache-2.0
"""Draw the synapses of a plastic projection: those of any projection, with a float for each weight and state."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._pieces import pieces
from ...errors import NetworkError
from ...scalar.primitives import flushed
from ..description.conductances import check_sign
from ..description.units import plain
from ..description.values import Values
from .distribution import Distribution
from .drawing import Description, drawn_on_host
from .drawn_values import array_of
from .keys import key_of
from .plan import SynapsePlan
from .plastic import MadePlastic, PlasticPlan, PlasticSynapses
from .plasticity import PlasticRules
from .quantum import Bounded
from .wiring import Wiring

__all__ = [
    "HostDrawn",
    "Law",
    "as_bits",
    "bounded",
    "check_plastic",
    "drawn_plastic",
    "plan_with",
    "plastic_plan",
    "state_label",
]

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
    target = wiring.projection.populations[1]
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
    synapses = drawn_plastic(wiring, rules, seed, parts, dtype)
    return plan_with(wiring, rules, synapses.distinct, synapses.degrees, synapses, parts, dtype)


def plan_with(
    wiring: Wiring,
    rules: PlasticRules,
    distinct: Array,
    degrees: Array,
    of: PlasticSynapses | MadePlastic,
    parts: int,
    dtype: str,
) -> PlasticPlan:
    """Return the plan of a projection with these delays, numbers of synapses by target, and synapses."""
    source, target = wiring.projection.populations
    ends = wiring.name, source.name, target.name, wiring.projection.into
    largest_sum, entries = bounded(wiring, rules).largest_sum, int(degrees.sum())
    return PlasticPlan(*ends, rules, wiring.whole_shape, parts, largest_sum, entries, distinct, degrees, dtype, of)


def drawn_plastic(wiring: Wiring, rules: PlasticRules, seed: int, parts: int, dtype: str) -> PlasticSynapses:
    """Draw the synapses of a plastic projection on the host."""
    synapses, weights, chosen = _placed(wiring, rules, seed, parts)
    found = PlasticSynapses(
        synapses.starts,
        synapses.targets,
        synapses.delays,
        _within(weights, rules.bounds, np.dtype(dtype)),
        {},
        wiring.whole_shape,
        parts,
    )
    assert wiring.projection.plasticity is not None
    states = {
        name: flushed(_state(wiring, found, name, value, chosen, seed, dtype))
        for name, value in wiring.projection.plasticity.state.items()
    }
    return dataclasses.replace(found, states=states)


def as_bits(wiring: Wiring, rules: PlasticRules) -> Wiring:
    """Return the wiring of which weights are drawn as bits of float32, within the bounds of rules."""
    low, high = rules.bounds
    law = wiring.weights
    within = dataclasses.replace(law, low=min(max(law.low, low), high), high=min(max(law.high, low), high))
    return dataclasses.replace(wiring, weights=within)


def _placed(wiring: Wiring, rules: PlasticRules, seed: int, parts: int) -> tuple[SynapsePlan, Array, Array | None]:
    """Return synapses, their weights, float64 or float32, and of a list the place of each in it."""
    if wiring.listed is not None:
        # The drawing sorts whole numbers: those of the list's elements.
        numbered = dataclasses.replace(wiring, weights=np.arange(max(1, wiring.listed.sources.size), dtype=np.float64))
        synapses = _drawn(numbered, np.float64(1), seed, parts)
        chosen = np.broadcast_to(synapses.weights, synapses.targets.shape)
        return synapses, _chosen_of(wiring.weights, chosen), chosen
    if isinstance(wiring.weights, Distribution):
        synapses = _drawn(as_bits(wiring, rules), None, seed, parts)
        return synapses, synapses.weights.view(np.float32), None
    one = dataclasses.replace(wiring, weights=np.ones(1))
    synapses = _drawn(one, np.float64(1), seed, parts)
    return synapses, np.broadcast_to(wiring.weights, synapses.targets.shape), None


def _drawn(wiring: Wiring, quantum: np.floating[Any] | None, seed: int, parts: int) -> SynapsePlan:
    """Draw synapses with weights in whole numbers of a quantum, or as bits of float32."""
    return drawn_on_host(Description(wiring, quantum, seed, parts))


def _chosen_of(values: Array, chosen: Array) -> Array:
    """Return the values of chosen elements, of which there may be one for all."""
    return np.broadcast_to(values, chosen.shape) if values.size == 1 else values[chosen]


def _within(weights: Array, bounds: tuple[float, float], dtype: np.dtype[Any]) -> Array:
    """Return weights within their bounds as they are computed with; float32 numbers that suit are changed in place."""
    there = weights if weights.dtype == dtype and weights.flags.writeable else np.empty(weights.shape, dtype)
    for piece in pieces(weights.size):
        there[piece] = flushed(np.clip(weights[piece], *bounds).astype(dtype))
    return there


def _state(
    wiring: Wiring, synapses: PlasticSynapses, name: str, value: Any, chosen: Array | None, seed: int, dtype: str
) -> Array:
    """Return where a state of each synapse begins, in the order of the plan."""
    where, entries = f"projection {wiring.name}: state {name}", synapses.entries
    if isinstance(value, Values):
        drawn = array_of(where, value, state_label(wiring, name), entries, dtype, seed)
        if isinstance(synapses.order, slice):
            return drawn
        placed = np.empty_like(drawn)
        placed[synapses.order] = drawn
        return placed
    given = np.asarray(plain(where, value))
    if given.ndim:
        if chosen is None or wiring.listed is None:
            raise NetworkError(
                f"{where} has the shape {given.shape}, but synapses are drawn; pass a number, or values such as "
                "uniform(0, 1)"
            )
        given = wiring.listed.of_each(where, given)[chosen]
    found = array_of(where, given, "", entries, dtype, seed)
    return np.ascontiguousarray(np.broadcast_to(found, entries))


def state_label(wiring: Wiring, name: str) -> str:
    """Return the name that decides which values of a state are drawn."""
    return f"state {name} of {wiring.name}"


class Law(NamedTuple):
    """How a number is drawn for each synapse: `Distribution.numbers`, and the words of a key."""

    numbers: Array
    key: tuple[int, int]


class HostDrawn:
    """The synapses of a device, drawn on the host when they are asked for, and kept only by those who asked."""

    def __init__(self, wiring: Wiring, rules: PlasticRules, seed: int):
        self.wiring, self.rules, self.seed = wiring, rules, seed
        self._last: Callable[[], PlasticSynapses | None] = lambda: None

    @property
    def description(self) -> Description:
        """What determines the synapses; weights are bits of float32 if they are drawn, else 1."""
        if isinstance(self.wiring.weights, Distribution):
            return Description(as_bits(self.wiring, self.rules), None, self.seed, 1)
        return Description(dataclasses.replace(self.wiring, weights=np.ones(1)), np.float64(1), self.seed, 1)

    @property
    def initial(self) -> dict[str, Any]:
        """What weights, as "w", and states begin with: one float32 for all, or a `Law`; but for weights with a law."""
        assert self.wiring.projection.plasticity is not None
        found: dict[str, Any] = {}
        if not isinstance(self.wiring.weights, Distribution):
            found["w"] = _within(self.wiring.weights[:1], self.rules.bounds, np.dtype(np.float32))[0]
        for name, value in self.wiring.projection.plasticity.state.items():
            where = f"projection {self.wiring.name}: state {name}"
            if isinstance(value, Values):
                array_of(where, value, "", 0, "float32", 0)  # raises if values do not fit
                key = key_of(self.seed, state_label(self.wiring, name))
                found[name] = Law(value.law.numbers(-np.inf, np.inf), key)
            else:
                found[name] = flushed(array_of(where, value, "", 1, "float32", 0).reshape(1))[0]
        return found

    def made(self) -> PlasticSynapses:
        """Draw the synapses, unless someone holds them already."""
        found = self._last()
        if found is None:
            found = drawn_plastic(self.wiring, self.rules, self.seed, 1, "float32")
            self._last = weakref.ref(found)
        return found
