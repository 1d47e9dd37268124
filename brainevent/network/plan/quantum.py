# SPDX-License-Identifier: Apache-2.0
"""Choose quanta: weights are whole numbers of a quantum, so that sums do not depend on their order."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...errors import NetworkError, did_you_mean
from ..description.checks import is_number
from ..description.exact import refuse_rounded
from ..description.populations import whole_name
from ..description.units import array_in
from .distribution import INTEGERS, Distribution
from .graded import finer_quantum, largest_value

__all__ = [
    "LARGEST_SUM",
    "ROUNDED",
    "SMALLEST",
    "Bounded",
    "RoundedWeightsWarning",
    "Weighted",
    "check_given_quantum",
    "choose_quantum",
    "given_quanta",
    "in_quanta",
    "largest_rounding",
    "rounding_of_bounds",
    "weight_dtype",
]

LARGEST_SUM = 2**31 - 1  # quanta into a neuron
ROUNDED = 2.0**-9  # relative change of a weight by rounding, at most
_EXACT = 1e-6  # relative difference, at most, of a weight from a multiple of the quantum that it stands for
_FINEST = 256  # quanta of the smallest weight: then no weight changes by more than 2^-9 of its value
_MOST_PARTS = 1024  # into which the smallest weight is divided to find what all are multiples of
_LARGEST_16, _LARGEST_32 = 2**15 - 1, 2**30
_SOME = 64  # weights that are checked before all others
SMALLEST = float(np.finfo(np.float32).tiny)

Array = Any
Receptor = tuple[str, str]  # population and name


class Weighted(Protocol):
    """The weights of a projection: a `Wiring`, as far as quanta depend on it."""

    @property
    def name(self) -> str:
        """Of the projection."""

    @property
    def weights(self) -> Any:
        """Float64 numbers, or a law."""

    @property
    def largest_weight(self) -> float:
        """The largest |weight| that there may be."""

    @property
    def largest_sum(self) -> float:
        """The largest sum of |weight| into a neuron."""

    @property
    def value_range(self) -> tuple[float, float] | None:
        """Between which the values of spikes are; None if they have none."""


@dataclass(frozen=True)
class Bounded:
    """Weights of a plastic projection, of which only bounds are known: as in `Weighted`.

    `first` is the largest |weight| at the beginning, infinite if that is not known.
    """

    name: str
    largest_weight: float
    largest_sum: float
    value_range: tuple[float, float] | None = None
    first: float = np.inf


class RoundedWeightsWarning(UserWarning):
    """Some weights were rounded by more than 2^-9 of their value."""


def given_quanta(
    quantum: Any, groups: Mapping[Receptor, Sequence[Weighted | Bounded]], dtype: str
) -> dict[Receptor, np.floating[Any]]:
    """Return the quanta that a user gives, of all receptors or by "population.receptor"; raise if they do not fit."""
    if quantum is None:
        return {}
    labels = {".".join(receptor): receptor for receptor in groups}
    numbers = quantum if isinstance(quantum, Mapping) else dict.fromkeys(labels, quantum)
    found = {}
    for key, given in numbers.items():
        label = key
        if isinstance(key, tuple) and len(key) == 2:  # a population itself, and a receptor
            label = f"{whole_name('build: quantum', key[0], 'a quantum is that')}.{key[1]}"
        if label not in labels:
            raise NetworkError(
                f"build: quantum: there is no receptor {label!r}{did_you_mean(str(label), labels)}; "
                f"receptors: {', '.join(labels) or 'none'}"
            )
        number = _given_quantum(f"build: quantum of {label}", given, groups[labels[label]], dtype)
        found[labels[label]] = np.dtype(dtype).type(number)
    return found


def _given_quantum(where: str, given: Any, wirings: Sequence[Weighted | Bounded], dtype: str) -> float:
    number = array_in(where, given)[()]
    if not is_number(number) or not SMALLEST <= number <= np.finfo(np.float32).max:
        raise NetworkError(f"{where} is {given!r}; pass a positive number: weights become multiples of it")
    refuse_rounded(where, np.asarray(number), dtype)
    check_given_quantum(where, number, wirings)
    return float(number)


def check_given_quantum(where: str, number: float, wirings: Sequence[Weighted | Bounded]) -> None:
    """Raise unless a quantum that a user gave suits weights."""
    for wiring in wirings:
        largest = wiring.largest_weight
        if (most := largest_value(wiring.value_range)) != 1 and 0 < largest * most <= number / 2:
            raise NetworkError(
                f"{where} is {number:g}, which rounds all that {wiring.name} delivers to 0: weights of at most "
                f"{largest:g} times values of at most {most:g}; pass a smaller number"
            )
        if 0 < largest <= number / 2:
            raise NetworkError(
                f"{where} is {number:g}, which rounds all weights of {wiring.name} to 0: they are at most {largest:g}; "
                "pass a smaller number"
            )
        if largest / number > _LARGEST_32:
            raise NetworkError(
                f"{where} is {number:g}, but weights of {wiring.name} are up to {largest:g}, more than 2**30 times as "
                f"large; pass at least {largest / _LARGEST_32:.2g}"
            )


def choose_quantum(
    wirings: Sequence[Weighted], dtype: str = "float32", plastic: Sequence[Bounded] = ()
) -> np.floating[Any]:
    """Return the quantum of the weights of all projections into one receptor.

    It is the largest number of which all are multiples, if that is at least a 1024th of the smallest weight. Else it
    is a 256th of the smallest weight, if the largest then fits 16 bits. Else weights have 32 bits, and the quantum is
    as small as the sums allow, or a 256th of the smallest weight. It is never denormal.

    In float64 weights are the same numbers of quanta, and a quantum of which all are multiples has all its digits.

    If some spikes have values, it is divided by a power of two, so that products of weights and values are rounded as
    little as 32 bits allow. With plastic projections, it is as small as the sums allow: a power of two, or else the
    largest number of which all others are multiples divided by a power of two.
    """
    largest_sum = sum(w.largest_sum * largest_value(w.value_range) for w in wirings)
    largest = max((w.largest_weight for w in wirings), default=0.0)
    if plastic:
        return _fine_quantum(
            wirings, largest_sum + sum(one.largest_sum * largest_value(one.value_range) for one in plastic), dtype
        )
    quantum = _of_weights(wirings, largest, largest_sum, dtype)
    if largest_sum == 0 or all(w.value_range is None for w in wirings):
        return quantum
    quantum = finer_quantum(quantum, largest, largest_sum)
    if largest < _FINEST * float(quantum):
        name = max(wirings, key=lambda w: w.largest_sum * largest_value(w.value_range)).name
        raise NetworkError(
            f"projection {name}: weights times the largest values of spikes may add up to {largest_sum:g} in a neuron, "
            f"{largest_sum / largest:.3g} times the largest weight, {largest:g}; sums have 32 bits, which then leave "
            f"fewer than 8 for a weight; pass a value_range that is {_FINEST * float(quantum) / largest:.2g} times as "
            "narrow, and larger weights for it, or fewer synapses"
        )
    return quantum


def _given_and_drawn(wirings: Sequence[Weighted]) -> tuple[Array, list[Distribution]]:
    """Return |weights| that are given, and laws of those that are drawn."""
    numbers = [np.abs(w.weights[w.weights != 0]) for w in wirings if not isinstance(w.weights, Distribution)]
    given = np.concatenate([np.zeros(0), *numbers])
    return given, [w.weights for w in wirings if isinstance(w.weights, Distribution)]


def _of_weights(wirings: Sequence[Weighted], largest: float, largest_sum: float, dtype: str) -> np.floating[Any]:
    """Return a quantum of weights alone."""
    given, laws = _given_and_drawn(wirings)
    if largest_sum == 0:
        return np.dtype(dtype).type(1)
    if not laws and (exact := _common_divisor(given)) and largest_sum / exact <= LARGEST_SUM:
        return np.dtype(dtype).type(max(exact, SMALLEST))
    smallest = min([*map(_smallest, laws), *([float(given.min())] if given.size else [])])
    finest = _below(smallest / _FINEST)
    if smallest > 0 and largest / finest <= _LARGEST_16:
        return np.dtype(dtype).type(max(finest, SMALLEST))
    return np.dtype(dtype).type(np.float32(max(finest, largest_sum / 2**30, SMALLEST)))


def _fine_quantum(wirings: Sequence[Weighted], largest_sum: float, dtype: str) -> np.floating[Any]:
    """Return 1, or what all weights are multiples of, times the power of two with which sums have about 30 bits."""
    if largest_sum == 0:
        return np.dtype(dtype).type(1)
    given, laws = _given_and_drawn(wirings)
    divisor = 1.0 if laws else _common_divisor(given) or 1.0
    quantum = divisor * 2.0 ** math.ceil(math.log2(largest_sum / 2**30 / divisor))
    with np.errstate(over="ignore"):  # sums of an infinite quantum are refused later
        return np.dtype(dtype).type(quantum if quantum >= SMALLEST else SMALLEST)


def in_quanta(weights: Array, quantum: np.floating[Any]) -> tuple[Array, int]:
    """Return weights as int32 numbers of quanta, and how many are rounded by more than 2^-9 of their value."""
    scaled = weights / np.float64(quantum)
    whole = np.rint(scaled)
    return whole.astype(np.int32), int((np.abs(scaled - whole) > np.abs(scaled) * ROUNDED).sum())


def largest_rounding(weights: Array | Distribution, quantum: np.floating[Any]) -> float:
    """Return by how much a weight is rounded at most: by nothing if all are meant to be multiples of the quantum."""
    if isinstance(weights, Distribution):
        exact = weights.kind == INTEGERS and _are_multiples(np.abs([weights.a, weights.b]), float(quantum)).all()
        return 0.0 if exact else float(quantum) / 2
    rounded = weights[~_are_multiples(np.abs(weights), float(quantum))]
    return float(np.abs(rounded - np.rint(rounded / float(quantum)) * float(quantum)).max(initial=0))


def rounding_of_bounds(
    where: str, plastic: Bounded, quantum: np.floating[Any], place: Receptor, given: Container[Receptor]
) -> str | None:
    """Return a warning if plastic weights are rounded by more than 2^-9 of themselves: the first ones, or all.

    None if they are not, or if the user gave the quantum of the receptor, which is then in `given`.
    """
    most, receptor = largest_value(plastic.value_range), ".".join(place)
    finest, largest, first = _FINEST * float(quantum), plastic.largest_weight * most, plastic.first * most
    if not plastic.largest_sum or place in given or not first or min(largest, first) >= finest:
        return None
    accepted = f"accept the rounding with build(quantum={{'{receptor}': {quantum:g}}})"
    delivered = (
        f"{where}: what plastic synapses of {plastic.name} deliver is rounded to multiples of {quantum:g}, by more "
    )
    if largest >= finest:
        return (
            f"{delivered}than 2**-9 of their weights at the beginning, which are up to {plastic.first:g}, since bounds "
            f"of {plastic.largest_weight:g} and what else arrives by {receptor} let sums become large; pass bounds "
            f"(high=, low=) that are no larger than weights become, or {accepted}"
        )
    return (
        f"{delivered}than 2**-9 of their largest weight, {largest:g}: sums into {receptor} are too large for finer "
        f"ones; pass weights that differ less, use another receptor, or {accepted}"
    )


def weight_dtype(wiring: Weighted, quantum: np.floating[Any]) -> type:
    """Return int16 if it holds all weights, else int32."""
    return np.int16 if round(wiring.largest_weight / np.float64(quantum)) <= _LARGEST_16 else np.int32


def _below(x: float) -> float:
    """Return the float32 number at or below a number that is not negative."""
    near = np.float32(x)
    return float(near if near <= x else np.nextafter(near, np.float32(0)))


def _smallest(law: Distribution) -> float:
    """Return the smallest |value| but 0 of a law; 0 if there are values on both sides of 0, or beside it."""
    first, last = law.bounds
    return 0.0 if first <= 0 <= last else min(abs(first), abs(last))


def _common_divisor(numbers: Array) -> float:
    """Return the largest number, at least a 1024th of the smallest, of which all are multiples; 0 if there is none."""
    if not numbers.size:
        return 0.0
    divisors = numbers.min() / np.arange(1, _MOST_PARTS + 1)
    looked_at = np.unique(numbers[:: max(1, numbers.size // _SOME)])
    while (fit := _are_multiples(looked_at, divisors[:, None]).all(1)).any():
        divisor = divisors[fit.argmax()]
        wrong = ~_are_multiples(numbers, divisor)
        if not wrong.any():
            return float(divisor)
        looked_at = np.append(looked_at, numbers[wrong][:_SOME])
    return 0.0


def _are_multiples(numbers: Array, divisor: float) -> Array:
    multiples = numbers / divisor
    return np.abs(multiples - np.rint(multiples)) <= _EXACT * multiples
