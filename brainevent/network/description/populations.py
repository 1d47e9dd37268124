# SPDX-License-Identifier: Apache-2.0
"""`Population` and `Projection`: the parts of a network, as a user writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import NetworkError
from .checks import check_key, check_numbers, is_integer, is_number, is_word, takes_two
from .connect import Connect
from .exact import refuse_rounded
from .parts import Named, Part, neurons_at
from .plasticity import Plasticity
from .units import array_in, check_declared, in_float64, unit_of
from .values import Values, in_unit

__all__ = ["Population", "Projection", "Value", "check_end", "population_of", "whole_name"]

_NAME = re.compile(r"[^\s.#>]+")

Value = Any  # a number, an array (neurons,), a quantity of one, or Values


@dataclass(frozen=True, eq=False)
class Population(Named):
    """Neurons that follow one rule.

    Args:
        name: Its name, without spaces and the characters . # >
        size: How many neurons.
        rule: The rule of one neuron: `rule(s, arriving, p)` or `rule(s, arriving, p, random)` returns its new state,
            and whether it spikes: a bool, or a mapping with "spike", a bool, and "value", a float that travels with
            the spike. It is written in `jax.numpy`, once for all engines.
        state: Where each state begins: a number, an array (size,), or values that are drawn, such as `uniform(-60,
            -50)`. A quantity of `brainunit` becomes a number: in the unit that `units` declares, else in ms, mV, pA, nS
            or pF.
        params: Parameters of the rule, likewise. `p.dt` is the time step of the network: it needs no parameter.
        units: Units of states, parameters, receptors and attributes by name, such as `{"v": "mV", "syn": "pA"}`: a
            quantity of another dimension raises, also as the weight of a projection, in `Simulation.set`, and in
            `inputs=`. A unit is "ms", "mV", "pA", "nS", "pF", "Hz", "kHz", "mm", "um", "1" for none, or a unit of
            `brainunit`.
        value_range: The smallest and the largest value of a spike, if the rule returns values: its synapses deliver
            weight times value. A spike with a value that is not within them, such as NaN, delivers nothing and makes
            the float states of its neuron NaN, for which `Simulation.run` raises.
        at: Attributes of neurons, such as where they are: `{"x": uniform(0, 1), "y": uniform(0, 1)}`. Each is a number,
            an array (size,), or values that are drawn; float32. An integer that float32 does not hold raises.
            Quantities become numbers in the unit that `units` declares, such as `units={"x": "mm"}`. Functions in
            `connect.prob`, weights and delays read these numbers, and `Simulation.at` returns them.

    Raises:
        NetworkError: A name or the size is none, a state or parameter is neither numbers nor values that are drawn,
            a quantity has another unit than the declared one, or `value_range` is not two rising finite numbers.

    Examples:
        >>> import jax.numpy as jnp
        >>> import brainevent as be
        >>> def leaky(s, arriving, p):
        ...     v = s.v * p.decay + arriving.syn
        ...     spike = v >= 1
        ...     return s.replace(v=jnp.where(spike, 0.0, v)), spike
        >>> be.Population("exc", 800, leaky, state=dict(v=0.0), params=dict(decay=0.9))
        Population('exc', 800, leaky)
    """

    name: str
    size: int
    rule: Callable[..., Any]
    state: Mapping[str, Value] = field(default_factory=dict)
    params: Mapping[str, Value] = field(default_factory=dict)
    units: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    value_range: tuple[float, float] | None = field(default=None, kw_only=True)
    at: Mapping[str, Value] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        _check_name("Population", self.name)
        if not is_integer(self.size) or not 0 < self.size < 2**31:
            raise NetworkError(f"population {self.name}: size is {self.size!r}; pass a positive integer below 2**31")
        if not callable(self.rule):
            raise NetworkError(f"population {self.name}: rule is {self.rule!r}; pass a function of one neuron")
        object.__setattr__(self, "size", int(self.size))
        for what in ("units", "state", "params", "at"):
            given = getattr(self, what)
            if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
                raise NetworkError(f"population {self.name}: {what} is {given!r}; pass dict(name=value)")
            for key in given:
                check_key(f"population {self.name}: {what} {key!r}", key)
            for key, value in given.items() if what != "units" else ():
                if not isinstance(value, Values):
                    where = f"population {self.name}: {what} {key}"
                    check_numbers(
                        where,
                        value,
                        f"a number, values such as uniform(0, 1), or an array ({self.size},)",
                        booleans=True,
                    )
            object.__setattr__(self, what, dict(given))
        for key, unit in self.units.items():
            check_declared(f"population {self.name}: the unit of {key}", unit)
        object.__setattr__(self, "at", _attributes(self.name, self.at, self.size, self.units))
        for what in ("params", "state"):
            object.__setattr__(self, what, _in_units(self.name, getattr(self, what), self.units))
        if self.value_range is not None:
            object.__setattr__(self, "value_range", _checked_range(self.name, self.value_range))

    def __repr__(self) -> str:
        rule = getattr(self.rule, "__name__", type(self.rule).__name__)
        return f"Population({self.name!r}, {self.size}, {rule})"

    def __getitem__(self, neurons: Any) -> Part:
        """Return some neurons: a slice, an array of different integers, or a mask of booleans, (size,)."""
        return Part(self, neurons_at(self, neurons))


@dataclass(frozen=True, eq=False)
class Projection:
    """Synapses from one population to another, or to itself; or between parts of populations.

    Between parts, such as `exc[:100]`, a description means the neurons of the parts: `in_degree(5)` draws five sources
    among those of the source part for each target of the target part. Random synapses do not depend on the order of the
    neurons in a part; `one_to_one` and arrays follow it.

    Args:
        source: Population whose spikes they carry, or a part of it.
        target: Population that receives them, or a part of it.
        connect: Which neurons they connect, and with which weights: a description such as `connect.prob(0.02,
            weight=1.6)`; or a matrix (sources, targets) of ours or of SciPy, or a dense array, whose zeros are not
            synapses: with `connect.all_to_all(weight=array)`, they are.
        into: What the weights add to: the name that the target's rule reads in `arriving`.
        delay: From a spike to its arrival, in ms: a number, values that are drawn, such as `normal(1.5, 0.75)`, or for
            a matrix an array with one delay for each stored element, in their order. None is one step. Delays that are
            drawn are rounded to whole steps, at least one; none may be more than 65535. A function of the attributes of
            both neurons, in `jax.numpy`, gives ms that are rounded likewise: `lambda pre, post: 1 + abs(pre.x - post.x)
            / 0.3`.
        name: Its name; without one it is "source->target.into", with "#2" for the second of that name.
        plasticity: How the synapses change; None if they do not.

    Raises:
        NetworkError: The source or target is no population or part, a name is not valid, `connect` or `delay` is
            neither numbers nor a description, or `plasticity` is no `Plasticity`.

    Examples:
        >>> import brainevent as be
        >>> cells = be.Population("cells", 100, lambda s, arriving, p: (s, arriving.syn > 1))
        >>> be.Projection(cells, cells, be.connect.prob(0.1, weight=0.5), into="syn", delay=1.5)
        Projection('cells->cells.syn', prob(0.1, weight=0.5))
    """

    source: Population | Part
    target: Population | Part
    connect: Any
    into: str
    delay: Any = None
    name: str | None = None
    plasticity: Plasticity | None = None

    def __post_init__(self) -> None:
        for what in ("source", "target"):
            check_end(f"Projection: {what}", getattr(self, what))
        if not is_word(self.into) or not self.into.isidentifier():
            raise NetworkError(
                f"projection {self.source.name}->{self.target.name}: into is {self.into!r}; pass the name that the "
                "target's rule reads in `arriving`"
            )
        if self.name is not None and not is_word(self.name):
            raise NetworkError(f"Projection: name is {self.name!r}; pass a string that is not empty, or None")
        where = f"projection {self.usual_name}"
        if not isinstance(self.connect, Connect) and not hasattr(self.connect, "todense"):
            check_numbers(f"{where}: connect", self.connect, "a description such as connect.prob(0.1), or a matrix")
        if self.delay is not None and not isinstance(self.delay, Values) and not takes_two(self.delay):
            check_numbers(f"{where}: delay", self.delay, "ms: a number, values such as normal(1.5, 0.75), or an array")
        if self.plasticity is not None and not isinstance(self.plasticity, Plasticity):
            raise NetworkError(f"{where}: plasticity is {self.plasticity!r}; pass Plasticity(on_pre=..., on_post=...)")

    @property
    def populations(self) -> tuple[Population, Population]:
        """The populations of source and target, also where these are parts."""
        return population_of(self.source), population_of(self.target)

    @property
    def usual_name(self) -> str:
        """The name, or its default."""
        return self.name or f"{self.source.name}->{self.target.name}.{self.into}"

    def __repr__(self) -> str:
        how = self.connect if isinstance(self.connect, Connect) else type(self.connect).__name__
        return f"Projection({self.usual_name!r}, {how})"


def population_of(end: Population | Part) -> Population:
    """Return the population of a part; a population itself."""
    found: Population = end.population if isinstance(end, Part) else end
    return found


def whole_name(where: str, key: Any, what: str) -> Any:
    """Return a name, also of a population that is given itself; raise for a part: `what` is said of all neurons."""
    if isinstance(key, Part):
        name = key.population.name
        raise NetworkError(f"{where}: {key} is a part, but {what} of all neurons of a population; pass {name!r}")
    return key.name if isinstance(key, Population) else key


def check_end(where: str, end: Any) -> None:
    """Raise unless an end of synapses is a population or a part of one."""
    if not isinstance(end, (Population, Part)):
        raise NetworkError(f"{where} is {end!r}; pass a Population, or a part of one such as exc[:100]")


def _in_units(name: str, given: Mapping[str, Value], units: Mapping[str, Any]) -> dict[str, Value]:
    """Return states or parameters in the numbers of their units; where none are declared, those that are drawn."""
    return {
        key: in_unit(
            f"population {name}: {key}",
            value,
            unit_of(name, units, key),
            f", or declare its unit, such as units={{{key!r}: 'Hz'}}",
        )
        if units or isinstance(value, Values)
        else value
        for key, value in given.items()
    }


def _attributes(name: str, given: Mapping[str, Value], size: int, units: Mapping[str, Any]) -> dict[str, Value]:
    """Return attributes in the numbers of their units, of which those that are not drawn are arrays of their own."""
    found = {}
    for key, value in given.items():
        where, unit = f"population {name}: at {key}", unit_of(name, units, key)
        numbers = in_unit(where, in_float64(value), unit, f", or declare its unit, such as units={{{key!r}: 'mm'}}")
        found[key] = numbers if isinstance(value, Values) else _attribute(where, numbers, size)
    return found


def _attribute(where: str, value: Any, size: int) -> Any:
    """Return a copy of an attribute as float32 () or (size,): it is part of the description from now on."""
    numbers = array_in(where, value)
    if numbers.shape not in ((), (size,)):
        raise NetworkError(f"{where}: has the shape {numbers.shape}; pass a number, or an array ({size},)")
    with np.errstate(over="ignore", invalid="ignore"):
        found = numbers.astype(np.float32)
    if (wrong := ~np.isfinite(found)).any():
        first = int(np.flatnonzero(wrong)[0])
        place = f" at neuron {first}" if found.ndim else ""
        raise NetworkError(f"{where}: is {numbers.reshape(-1)[first]}{place}; pass finite numbers that fit in float32")
    refuse_rounded(where, numbers, np.float32, "neuron", ", such as those of numpy.unique(..., return_inverse=True)")
    found.flags.writeable = False
    return found


def _checked_range(population: str, given: Any) -> tuple[float, float]:
    """Return the smallest and the largest value of spikes."""
    where = f"population {population}: value_range is {given!r}"
    ends = list(given) if isinstance(given, (tuple, list, np.ndarray)) else []
    if len(ends) != 2 or not all(is_number(end) for end in ends):
        raise NetworkError(f"{where}; pass the smallest and the largest value of a spike, such as (0.0, 1.0)")
    for end in ends:
        refuse_rounded(where, np.asarray(end), np.float32)
    low, high = (float(end) for end in ends)
    if not max(abs(low), abs(high)) <= float(np.finfo(np.float32).max):
        raise NetworkError(f"{where}; pass finite numbers that fit in float32")
    if not np.float32(low) < np.float32(high):
        hint = "the same number twice" if low == high else "reversed" if low > high else "the same in float32"
        raise NetworkError(f"{where}, which is {hint}; pass the smaller number first, such as (0.0, 1.0)")
    return low, high


def _check_name(what: str, name: Any) -> None:
    if not is_word(name) or not _NAME.fullmatch(name):
        raise NetworkError(f"{what}: name is {name!r}; pass a string without spaces and the characters . # >")
