# SPDX-License-Identifier: Apache-2.0
"""`Mapped`: values of synapses that a function of the attributes of both neurons gives; and these attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from ...errors import NetworkError
from ...scalar.interpret import interpret
from ...scalar.interval import bounds_of
from ...scalar.pair import SIDES, TracedPair, trace_pair
from ..description.populations import Population
from ..description.values import Values
from .distribution import Distribution
from .drawn_values import array_of

__all__ = ["MAPPED", "Mapped", "attributes_of", "described_population", "inputs_of", "mapped", "range_over"]
__all__ += ["numbers_of", "refuse_pair", "traced", "values_of"]

MAPPED = 5  # a kind of `Distribution`
_BOXES = 4096  # into which attributes are divided, for bounds of a function
_NEAR = 2.0**-20  # of a bound, by which values may be beyond it

Array = Any


@dataclass(frozen=True)
class Mapped(Distribution):
    """Values of a function times a factor, from `a` to `b`, and clipped to `low` and `high`."""

    pair: TracedPair = field(kw_only=True)
    factor: float = 1.0

    def scaled(self, factor: float) -> Mapped:
        """Return the law of values times a positive factor."""
        ends = {name: getattr(self, name) * factor for name in ("a", "b", "low", "high", "factor")}
        return dataclasses.replace(self, **ends)

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which values are."""
        return min(max(self.a, self.low), self.high), min(max(self.b, self.low), self.high)

    def numbers(self, low: float, high: float) -> Array:
        """Return float32 (6,): kind, factor, lowest value that is right, bounds to clip to, highest that is right."""
        low, high = (min(max(x, low), high) for x in (self.low, self.high))
        least, most = self.a - abs(self.a) * _NEAR, self.b + abs(self.b) * _NEAR
        return np.array([self.kind, self.factor, least, low, high, most], np.float32)

    def within(self, least: float, most: float) -> Array:
        """Return the same numbers, for values of which all from `least` to `most` are right, and no others."""
        found = self.numbers(least, most)
        found[2], found[5] = least, most
        return found


def traced(where: str, function: Callable[..., Any], source: Population, target: Population) -> TracedPair:
    """Return a function of the attributes of two populations as a form."""
    groups = {"pre": list(source.at), "post": list(target.at)}
    return trace_pair(where, function, groups, (source.name, target.name))


def mapped(where: str, function: Callable[..., Any], source: Population, target: Population) -> Mapped:
    """Return the values of a function, which must be finite whatever the attributes are in their range."""
    pair = traced(where, function, source, target)
    low, high = range_over(pair, source, target)
    if not np.isfinite([low, high]).all():
        raise NetworkError(
            f"{where}: its values cannot be bounded from the ranges of the attributes; keep it within bounds, such as "
            "jnp.clip(value, low, high), also where it divides by a distance that may be 0"
        )
    return Mapped(MAPPED, low, high, pair=pair)


def range_over(pair: TracedPair, source: Population, target: Population) -> tuple[float, float]:
    """Return between which numbers all values of a function are, for any seed, that do not follow from NaN."""
    ends = dict(zip(SIDES, (source, target), strict=True))
    pieces = max(1, int(_BOXES ** (1 / max(1, len(pair.names))) + 1e-9))
    edges = [np.linspace(*_range_of(ends[side], key), pieces + 1) for side, key in pair.names]
    lows, highs = (np.meshgrid(*(one[which] for one in edges)) for which in (slice(None, -1), slice(1, None)))
    low_ends, high_ends = ([x.reshape(-1) for x in ends] for ends in (lows, highs))
    # A value that is NaN, or follows from one and is beyond the bounds, is refused when it is computed.
    ((low, high),) = bounds_of(pair.form, low_ends, high_ends, without_nan=True)
    return float(low.min()), float(high.max())


def _range_of(population: Population, key: str) -> tuple[float, float]:
    """Return numbers of float32 between which an attribute is, for any seed."""
    value = population.at[key]
    if isinstance(value, Values):
        low, high = (float(np.float32(end)) for end in value.law.bounds)
        slack = max(abs(low), abs(high)) * _NEAR
        return low - slack, high + slack
    numbers = np.asarray(value, np.float32)
    return float(numbers.min()), float(numbers.max())


def attributes_of(population: Population, seed: int) -> dict[str, Array]:
    """Return the attributes of a population, float32 (neurons,), by name."""
    found = {}
    for key, value in population.at.items():
        where, label = f"population {population.name}: at {key}", f"at {population.name}.{key}"
        one = array_of(where, value, label, population.size, "float32", seed)
        found[key] = np.ascontiguousarray(np.broadcast_to(one, population.size))
    return found


def described_population(network: Any, name: str) -> Population:
    """Return the population of a name, which is there, in a description; raise if there is no description."""
    if network is None:
        raise NetworkError("at: this simulation has no description; build it by Network.build")
    found: Population = next(population for population in network.populations if population.name == name)
    return found


def inputs_of(pair: TracedPair, wiring: Any, seed: int) -> tuple[Array, Array]:
    """Return what a function reads of sources and of targets of a `Wiring`: float32 (attributes, neurons) of both.

    Of parts of populations, these are the neurons between which synapses are drawn, in their order.
    """
    both = []
    numbers = numbers_of(wiring)
    for side, population, own_numbers in zip(SIDES, wiring.projection.populations, numbers, strict=True):
        rows = _stacked(population, tuple(key for where, key in pair.names if where == side), seed)
        both.append(rows if own_numbers is None else np.ascontiguousarray(rows[:, own_numbers]))
    return both[0], both[1]


_kept: WeakKeyDictionary[Population, dict[tuple[str, ...], tuple[int, Array]]] = WeakKeyDictionary()  # of the last seed


def _stacked(population: Population, names: tuple[str, ...], seed: int) -> Array:
    """Return some attributes of a population, float32 (attributes, neurons): the same array for all that read them."""
    kept = _kept.setdefault(population, {})
    if names not in kept or kept[names][0] != seed:
        known = attributes_of(population, seed) if names else {}
        rows = np.stack([known[key] for key in names]) if names else np.zeros((0, population.size), np.float32)
        kept[names] = seed, rows
    return kept[names][1]


def numbers_of(wiring: Any) -> tuple[Array | None, Array | None]:
    """Return the numbers of the neurons between which synapses are drawn; None for those of a whole population."""
    return (None, None) if wiring.ends is None else (wiring.ends.sources, wiring.ends.targets)


def values_of(pair: TracedPair, inputs: tuple[Array, Array], sources: Array, targets: Array) -> Array:
    """Return the values of a function for pairs of neurons, float32, by the interpreter."""
    arguments = [*inputs[0][:, sources], *inputs[1][:, targets]]
    found = interpret(pair.form, arguments)[0]
    return np.broadcast_to(found, np.shape(targets))


def refuse_pair(
    where: str,
    pair: TracedPair,
    inputs: tuple[Array, Array],
    row: int,
    targets: Array,
    right: Any,
    hint: str,
    numbers: tuple[Array | None, Array | None] = (None, None),
) -> NoReturn:
    """Raise for the first target of a source for which a value is not right; `right` says which values are.

    `numbers` are those of the neurons in their populations.
    """
    targets = np.sort(targets)
    values = values_of(pair, inputs, np.full(targets.shape, row), targets)
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(~right(values))
    target, value = int(targets[wrong[0]]), values[wrong[0]]
    rows = {"pre": iter(inputs[0][:, row]), "post": iter(inputs[1][:, target])}
    known = ", ".join(f"{side}.{key}={next(rows[side]):g}" for side, key in pair.names)
    row, target = (one if of is None else int(of[one]) for one, of in zip((row, target), numbers, strict=True))
    raise NetworkError(
        f"{where} from neuron {row} to neuron {target} is {value:g}{f', with {known}' if known else ''}; {hint}"
    )
