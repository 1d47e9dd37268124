# SPDX-License-Identifier: Apache-2.0
"""`Wiring`: a projection or coupling with numbers instead of quantities, steps instead of ms, and checked shapes.

Matrices of ours, of SciPy, and dense arrays of shape (sources, targets) become lists of synapses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..._units import is_quantity
from ...errors import NetworkError
from ...event.matrices.base import DataRepresentation
from ...event.matrices.dense import Dense
from ...event.operands import is_scipy
from ...scalar.pair import TracedPair
from ..description.conductances import check_sign
from ..description.connect import Connect
from ..description.coupling import Coupling
from ..description.exact import refuse_rounded
from ..description.populations import Population, Projection
from ..description.units import array_in, unit_of, weights_unit
from ..description.values import Values, in_unit
from .delays import LARGEST_DELAY, steps_of
from .distribution import Distribution
from .ends import Ends, check_neurons, ends_of, parts_of
from .grouped import Grouped, grouped_of
from .mapped import Mapped, mapped, range_over, traced

__all__ = [
    "Listed",
    "Wiring",
    "carrying",
    "check_weights",
    "check_whole",
    "is_drawn",
    "is_matrix",
    "listed",
    "wiring_of",
]

_GIVEN = ("all_to_all", "one_to_one")  # descriptions of which no synapse is drawn
_LARGEST = float(np.finfo(np.float32).max)
Array = Any


@dataclass(frozen=True, eq=False)
class Wiring:
    """Synapses of one projection, or of a coupling, before they are drawn.

    `kind` is a name of `connect.py`, where `prob` is without multapses, or "listed"; `number` belongs to it. `weights`
    is float64 (1,) or (synapses,), or the law by which they are drawn; `steps` is int64 () or (synapses,), or a law.
    `skip` says that neurons do not connect to themselves, though source and target are one population. `chance` is the
    probability of each pair, if that is a function of both neurons: then `kind` is "pairs", and `number` is the largest
    that it may be. Of synapses that are drawn between groups of neurons, `grouped` says how many there are, and
    `number` is the largest number into a neuron. `ends` are the neurons between which synapses are drawn, where these
    are parts of populations; synapses of a list have the numbers of the populations.
    """

    name: str
    projection: Projection | Coupling
    kind: str
    number: float
    replace: bool
    skip: bool
    weights: Any
    steps: Any
    listed: Listed | None = None
    ends: Ends | None = field(default=None, compare=False)
    chance: TracedPair | None = field(default=None, compare=False)  # `fingerprint.py` adds it where there is one
    grouped: Grouped | None = field(default=None, compare=False)  # likewise

    @property
    def shape(self) -> tuple[int, int]:
        """How many sources and targets there are, between which synapses are drawn."""
        return self.whole_shape if self.ends is None else self.ends.drawn_shape

    @property
    def whole_shape(self) -> tuple[int, int]:
        """How many neurons the populations of source and target have."""
        source, target = self.projection.populations
        return source.size, target.size

    @property
    def own(self) -> Array | None:
        """Which end each row leaves out, if that is not the one of its number."""
        return None if self.ends is None else self.ends.own

    @property
    def value_range(self) -> tuple[float, float] | None:
        """Between which the values of spikes are; None if they have none."""
        return self.projection.populations[0].value_range

    @property
    def expected(self) -> float:
        """How many synapses there are; of those that are drawn with a probability, the mean."""
        if self.grouped is not None:
            return float(self.grouped.total)
        sources, targets = self.shape
        pairs = sources * targets - (sources * self.skip if self.ends is None or self.own is None else self.ends.shared)
        kinds = {"in_degree": targets * self.number, "out_degree": sources * self.number, "prob": pairs * self.number}
        kinds |= {"pairs": pairs * self.number}
        kinds |= {"all_to_all": pairs, "one_to_one": sources}
        return kinds.get(self.kind, self.number)

    @property
    def weight_bounds(self) -> tuple[float, float]:
        """Between which all weights are."""
        if isinstance(self.weights, Distribution):
            return self.weights.bounds
        return (float(self.weights.min()), float(self.weights.max())) if self.weights.size else (0.0, 0.0)

    @property
    def largest_weight(self) -> float:
        """The largest |weight| that there may be."""
        return max(map(abs, self.weight_bounds))

    @property
    def largest_sum(self) -> float:
        """The largest sum of |weight| into a neuron; of drawn synapses, a bound that is hardly ever exceeded."""
        if self.listed is not None:
            weights = np.broadcast_to(np.abs(self.weights), self.listed.targets.shape)
            return float(np.bincount(self.listed.targets, weights, minlength=1).max())
        sources, targets = self.shape
        number = float(self.number)
        mean = {
            "total": number / targets,
            "prob": number * sources,
            "pairs": number * sources,
            "out_degree": number * sources / targets,
        }.get(self.kind)
        if mean is None:
            return self.largest_weight * {"in_degree": number, "all_to_all": sources, "one_to_one": 1}[self.kind]
        return self.largest_weight * (mean + 10 * math.sqrt(mean) + 20)


def is_matrix(wiring: Wiring) -> bool:
    """Say whether synapses are listed, one from each source to each target, in the order of a matrix."""
    found, (sources, targets) = wiring.listed, wiring.whole_shape
    if found is None or found.sources.size != sources * targets:
        return False
    rows, columns = (x.reshape(sources, targets) for x in (found.sources, found.targets))
    return bool((rows == np.arange(sources)[:, None]).all() and (columns == np.arange(targets)).all())


def is_drawn(projection: Projection | Coupling) -> bool:
    """Say whether which synapses there are, their weights, delays or states are drawn at random."""
    connect = projection.connect
    states = {} if projection.plasticity is None else projection.plasticity.state
    if any(isinstance(value, Values) for population in projection.populations for value in population.at.values()):
        return True
    if isinstance(projection.delay, Values) or any(isinstance(value, Values) for value in states.values()):
        return True
    return isinstance(connect, Connect) and (connect.kind not in _GIVEN or isinstance(connect.weight, Values))


def wiring_of(name: str, projection: Projection, dt: float, *, round_delays: bool = False) -> Wiring:
    """Return the wiring of a projection."""
    target = projection.populations[1]
    unit = unit_of(target.name, target.units, projection.into)
    wiring = _wiring_of(f"projection {name}", name, projection, dt, unit, round_delays)
    if wiring.expected:
        low, high = wiring.weight_bounds
        check_sign(f"projection {name}: weight", target.rule, target.name, projection.into, low, high)
    return wiring


def carrying(name: str, coupling: Coupling, dt: float) -> Wiring:
    """Return the wiring of a coupling, all of whose synapses have a delay of one step."""
    ends = zip(coupling.populations, (coupling.of, coupling.into), strict=True)
    unit = weights_unit(*(unit_of(population.name, population.units, key) for population, key in ends))
    return _wiring_of(f"coupling {name}", name, coupling, dt, unit, round_delays=False)


def _wiring_of(
    where: str, name: str, projection: Projection | Coupling, dt: float, unit: Any, round_delays: bool
) -> Wiring:
    populations = projection.populations
    if callable(projection.delay):
        steps: Any = _delays(f"{where}: delay", projection.delay, populations, dt)
    else:
        steps = steps_of(f"{where}: delay", projection.delay, dt, round_delays=round_delays)
    connect, shape = projection.connect, (projection.source.size, projection.target.size)
    if not isinstance(connect, Connect):
        return _listed(where, name, projection, listed(f"{where}: matrix", connect, shape, unit), steps)
    if not check_neurons(where, projection, connect):
        return _listed(where, name, projection, _none(shape), steps)
    ends, skip = ends_of(where, projection, connect)
    grouped = None if connect.by is None else grouped_of(where, connect, populations, ends)
    if grouped is None:
        _check_connect(where, connect, shape, skip, ends)
    if connect.kind in ("all_to_all", "one_to_one") and not _by_law(connect.weight):
        array = array_in(f"{where}: weight", connect.weight, unit)
        if array.ndim or np.ndim(steps) or _has_arrays(projection):
            return _listed(where, name, projection, _written_out(where, connect, array, shape, projection), steps)
    if np.ndim(steps):
        raise NetworkError(
            f"{where}: delay has the shape {np.shape(steps)}, but synapses are drawn; pass one delay, or values such "
            "as normal(1.5, 0.75)"
        )
    kind, number, chance = connect.kind, connect.number if grouped is None else grouped.most, None
    if callable(number):
        chance = traced(f"{where}: the probability", number, *populations)
        low, high = range_over(chance, *populations)
        kind, number = "pairs", high if low >= 0 and high <= 1 else 1.0
    if kind == "prob" and connect.replace:
        kind, number = "total", _multapses(number, shape[0] * (shape[1] - skip))
    weights = _drawn_weights(where, connect.weight, populations, unit)
    return Wiring(name, projection, kind, number, connect.replace, skip, weights, steps, None, ends, chance, grouped)


def _drawn_weights(where: str, weight: Any, ends: tuple[Population, Population], unit: Any) -> Any:
    """Return the weights of synapses that are drawn: numbers, values that are drawn, or the law of a function."""
    if not callable(weight):
        return _weights(where, weight, unit)
    law = mapped(f"{where}: weight", weight, *ends)
    _check_law(where, law)
    return law


def _delays(where: str, function: Any, ends: tuple[Population, Population], dt: float) -> Mapped:
    """Return the law of delays that a function gives in ms, in steps; each is checked when it is computed."""
    law = mapped(where, function, *ends)
    if law.b < 0 or law.a > LARGEST_DELAY * dt:
        raise NetworkError(
            f"{where}: values are from {law.a:g} to {law.b:g} ms; pass values from 0 to {LARGEST_DELAY * dt:g} ms, "
            f"which are up to {LARGEST_DELAY} steps"
        )
    return law.scaled(1 / dt)


def _by_law(value: Any) -> bool:
    """Say whether values are drawn, or those of a function."""
    return isinstance(value, Values) or callable(value)


def _has_arrays(projection: Projection | Coupling) -> bool:
    """Say whether states of synapses are given one by one."""
    given = {} if projection.plasticity is None else projection.plasticity.state
    return any(not isinstance(value, Values) and np.ndim(value) for value in given.values())


def _listed(where: str, name: str, projection: Projection | Coupling, found: Listed, steps: Any) -> Wiring:
    check_weights(f"{where}: weight", found.weights)
    if np.ndim(steps):
        steps = found.of_each(f"{where}: delay", steps)
    if (parts := parts_of(projection)) is not None:
        found = found.between(*parts)
    return Wiring(name, projection, "listed", found.sources.size, False, False, found.weights, steps, found)


def _weights(where: str, weight: Any, unit: Any) -> Array | Distribution:
    weight = in_unit(f"{where}: weight", weight, unit)
    if isinstance(weight, Values):
        _check_law(where, weight.law)
        return weight.law
    number = array_in(f"{where}: weight", weight)
    if number.ndim:
        raise NetworkError(
            f"{where}: weight has the shape {number.shape}, but synapses are drawn; pass a number, or values such as "
            "normal(1.0, 0.1); arrays are for matrices, all_to_all and one_to_one"
        )
    check_weights(f"{where}: weight", number)
    return number.astype(np.float64).reshape(1)


def _check_law(where: str, law: Distribution) -> None:
    if max(map(abs, law.bounds)) > _LARGEST:
        raise NetworkError(f"{where}: weight: values may not fit in float32; pass smaller ones, or high=")


def check_weights(where: str, weights: Array) -> None:
    """Raise unless all weights are finite, and fit in float32."""
    wrong = ~(np.abs(weights) <= _LARGEST)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        element = f"element {place} is " if np.ndim(weights) else "is "
        raise NetworkError(f"{where}: {element}{np.ravel(weights)[place]}; pass finite numbers that fit in float32")


def check_whole(where: str, projection: Projection | Coupling, dtype: str) -> None:
    """Raise if weights are integers that a dtype of floats rounds."""
    found = projection.connect
    if isinstance(found, Connect):
        found = found.weight
    elif isinstance(found, DataRepresentation) or is_scipy(found):
        found = found.data
    if not (_by_law(found) or is_quantity(found)):
        refuse_rounded(f"{where}: weight", np.asarray(found), dtype)


def _check_connect(where: str, connect: Connect, shape: tuple[int, int], skip: bool, ends: Ends | None) -> None:
    """Raise if there are too few different neurons, or none that synapses could connect."""
    others = {"in_degree": shape[0], "out_degree": shape[1]}
    if connect.kind in others and connect.number:
        available = others[connect.kind] - skip
        if not connect.replace and connect.number > available:
            raise NetworkError(
                f"{where}: {connect.kind}({connect.number}) needs {connect.number} different neurons, and there are "
                f"{available}; pass at most {available}, or replace=True"
            )
    if connect.kind == "one_to_one" and shape[0] != shape[1]:
        raise NetworkError(
            f"{where}: one_to_one, but there are {shape[0]} sources and {shape[1]} targets; "
            f"pass populations of one size{', or parts' if ends is not None else ''}"
        )
    alone = shape[0] if ends is None or ends.own is None else ends.own_size
    if skip and alone == 1 and connect.replace and connect.number:
        raise NetworkError(f"{where}: one neuron can only connect to itself; pass self_connections=True")


def _multapses(p: float, pairs: int) -> int:
    """Return of how many synapses p is the probability that two neurons have at least one."""
    if pairs <= 1:
        return 0 if p == 0 else 1
    return round(math.log1p(-p) / math.log1p(-1 / pairs))


def _written_out(where: str, connect: Connect, weight: Array, shape: tuple[int, int], projection: Any) -> Listed:
    """Return synapses of which weights or delays are given one by one."""
    one = connect.kind == "one_to_one"
    stored = (shape[0],) if one else shape
    if weight.ndim and weight.shape != stored:
        raise NetworkError(f"{where}: weight has the shape {weight.shape}; pass a number, or an array {stored}")
    weights = weight.astype(np.float64)
    if one:
        everyone = np.arange(shape[0], dtype=np.int32)
        return Listed(everyone, everyone, weights.reshape(-1), stored, ...)
    chosen = np.ones(shape, bool)
    if not connect.self_connections and projection.populations[0] is projection.populations[1]:
        parts = parts_of(projection) or (None, None)
        rows, columns = (np.arange(n) if one is None else one for n, one in zip(shape, parts, strict=True))
        chosen = rows[:, None] != columns
    places = np.nonzero(chosen)
    sources, targets = (place.astype(np.int32) for place in places)
    return Listed(sources, targets, weights[places] if weights.ndim else weights.reshape(1), stored, places)


@dataclass(frozen=True, eq=False)
class Listed:
    """Synapses one by one.

    `sources` and `targets` are int32 (n,), `weights` is float64 (n,), or (1,) if it is the same for all. `stored` is
    the shape of one delay for each stored element; `chosen` says where in such an array those of the synapses are.
    """

    sources: Array
    targets: Array
    weights: Array
    stored: tuple[int, ...]
    chosen: Any

    def between(self, sources: Array | None, targets: Array | None) -> Listed:
        """Return synapses between the neurons of parts with the numbers of the populations."""
        ends = ((self.sources, sources), (self.targets, targets))
        first, second = (one if numbers is None else numbers[one].astype(np.int32) for one, numbers in ends)
        return replace(self, sources=first, targets=second)

    def of_each(self, where: str, values: Array) -> Array:
        """Return the values of the synapses, such as delays, of those of all stored elements."""
        if np.shape(values) == self.stored:
            return np.ascontiguousarray(values[self.chosen].reshape(-1))
        raise NetworkError(
            f"{where}: has the shape {np.shape(values)}; pass one number, or one for each stored element: {self.stored}"
        )


def _none(shape: tuple[int, int]) -> Listed:
    """Return no synapses."""
    nobody = np.empty(0, np.int32)
    return Listed(nobody, nobody, np.empty(0), shape, (nobody, nobody))


def listed(where: str, matrix: Any, shape: tuple[int, int], unit: Any = None) -> Listed:
    """Return the synapses of a matrix; `unit` is that of its weights, if they have one."""
    if isinstance(matrix, DataRepresentation) and not isinstance(matrix, Dense):
        found = _sparse(where, matrix, shape, unit)
    elif is_scipy(matrix):
        found = _scipy(where, matrix, shape, unit)
    else:
        found = _dense(where, matrix.todense() if isinstance(matrix, Dense) else matrix, shape, unit)
    for what, places, size in (("row", found.sources, shape[0]), ("column", found.targets, shape[1])):
        if places.size and not (places.min() >= 0 and places.max() < size):
            wrong = int(np.flatnonzero((places < 0) | (places >= size))[0])
            raise NetworkError(f"{where}: element {wrong} is in {what} {places[wrong]}; pass 0 to {size - 1}")
    return found


def _check_shape(where: str, found: tuple[int, ...], shape: tuple[int, int]) -> None:
    if tuple(found) != shape:
        turned = " (it is that of the transposed matrix: pass matrix.T)" if tuple(found) == shape[::-1] else ""
        raise NetworkError(f"{where}: has the shape {tuple(found)}{turned}; pass (sources, targets), which is {shape}")


def _numbers(where: str, data: Any, unit: Any) -> Array:
    numbers = array_in(where, data, unit)
    if numbers.dtype == object:
        raise NetworkError(f"{where} is of type {type(data).__name__}; pass one of brainevent or SciPy, or an array")
    if numbers.dtype.kind not in "biuf" and numbers.dtype.name != "bfloat16":
        raise NetworkError(f"{where}: holds {numbers.dtype}; pass real numbers")
    return numbers.astype(np.float64)


def _sparse(where: str, matrix: Any, shape: tuple[int, int], unit: Any) -> Listed:
    _check_shape(where, matrix.shape, shape)
    try:
        places = matrix._coordinates()
    except NotImplementedError:
        raise NetworkError(
            f"{where}: {type(matrix).__name__} draws its synapses again in each product; pass a description such as "
            "connect.prob(0.1, weight=normal(1.0, 0.1)), or a matrix that stores them"
        ) from None
    sources, targets = (np.ascontiguousarray(np.asarray(x).reshape(-1), np.int32) for x in places)
    weights = _numbers(where, matrix.data, unit).reshape(-1)
    return Listed(sources, targets, weights, tuple(matrix._stored), ...)


def _scipy(where: str, matrix: Any, shape: tuple[int, int], unit: Any) -> Listed:
    _check_shape(where, matrix.shape, shape)
    found = matrix.tocoo()
    sources, targets = (np.ascontiguousarray(x, np.int32) for x in (found.row, found.col))
    return Listed(sources, targets, _numbers(where, found.data, unit), (sources.size,), ...)


def _dense(where: str, matrix: Any, shape: tuple[int, int], unit: Any) -> Listed:
    numbers = _numbers(where, matrix, unit)
    _check_shape(where, numbers.shape, shape)
    places = np.nonzero(numbers)
    sources, targets = (place.astype(np.int32) for place in places)
    return Listed(sources, targets, numbers[places], shape, places)
