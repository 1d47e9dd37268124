# SPDX-License-Identifier: Apache-2.0
"""`Population` and `Projection`: the parts of a network, as a user writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ...errors import NetworkError
from .checks import check_key, check_numbers, is_integer
from .connect import Connect
from .plasticity import Plasticity
from .units import check_declared, unit_of
from .values import Values, in_unit

__all__ = ["Population", "Projection", "Value"]

_NAME = re.compile(r"[^\s.#>]+")

Value = Any  # a number, an array (neurons,), a quantity of one, or Values


@dataclass(frozen=True, eq=False)
class Population:
    """Neurons that follow one rule.

    Args:
        name: Its name, without spaces and the characters . # >
        size: How many neurons.
        rule: The rule of one neuron: `rule(s, arriving, p)` or `rule(s, arriving, p, random)` returns its new state,
            and whether it spikes. It is written in `jax.numpy`, once for all engines.
        state: Where each state begins: a number, an array (size,), or values that are drawn, such as `uniform(-60,
            -50)`. A quantity of `brainunit` becomes a number: in the unit that `units` declares, else in ms, mV, pA, nS
            or pF.
        params: Parameters of the rule, likewise. `p.dt` is the time step of the network: it needs no parameter.
        units: Units of states, parameters and receptors by name, such as `{"v": "mV", "syn": "pA"}`: a quantity of
            another dimension raises, also as the weight of a projection, in `Simulation.set`, and in `inputs=`. A unit
            is "ms", "mV", "pA", "nS", "pF", "Hz", "kHz", "1" for none, or a unit of `brainunit`.

    Raises:
        NetworkError: A name or the size is none, a state or parameter is neither numbers nor values that are drawn, or
            a quantity has another unit than the declared one.

    Examples:
        >>> import jax.numpy as jnp
        >>> from brainevent.network.description.network import Population
        >>> def leaky(s, arriving, p):
        ...     v = s.v * p.decay + arriving.syn
        ...     spike = v >= 1
        ...     return s.replace(v=jnp.where(spike, 0.0, v)), spike
        >>> Population("exc", 800, leaky, state=dict(v=0.0), params=dict(decay=0.9))
        Population('exc', 800, leaky)
    """

    name: str
    size: int
    rule: Callable[..., Any]
    state: Mapping[str, Value] = field(default_factory=dict)
    params: Mapping[str, Value] = field(default_factory=dict)
    units: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        _check_name("Population", self.name)
        if not is_integer(self.size) or not 0 < self.size < 2**31:
            raise NetworkError(f"population {self.name}: size is {self.size!r}; pass a positive integer below 2**31")
        if not callable(self.rule):
            raise NetworkError(f"population {self.name}: rule is {self.rule!r}; pass a function of one neuron")
        object.__setattr__(self, "size", int(self.size))
        for what in ("units", "state", "params"):
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
        for values in (self.params, self.state):
            for key, value in values.items() if self.units else ():
                unit = unit_of(self.name, self.units, key)
                values[key] = in_unit(f"population {self.name}: {key}", value, unit)  # type: ignore[index]

    def __repr__(self) -> str:
        rule = getattr(self.rule, "__name__", type(self.rule).__name__)
        return f"Population({self.name!r}, {self.size}, {rule})"

    def __getitem__(self, neurons: Any) -> NoReturn:
        """Raise: some neurons of a population are no population."""
        raise NetworkError(
            f"population {self.name}: has no parts to take by [...]; to record some neurons, pass "
            f"every(1, '{self.name}.v', neurons=...); to connect some, pass a matrix whose other rows or columns have "
            "no synapses, or make two populations of one rule"
        )


@dataclass(frozen=True, eq=False)
class Projection:
    """Synapses from one population to another, or to itself.

    Args:
        source: Population whose spikes they carry.
        target: Population that receives them.
        connect: Which neurons they connect, and with which weights: a description such as `connect.prob(0.02,
            weight=1.6)`; or a matrix (sources, targets) of ours or of SciPy, or a dense array, whose zeros are not
            synapses.
        into: What the weights add to: the name that the target's rule reads in `arriving`.
        delay: From a spike to its arrival, in ms: a number, values that are drawn, such as `normal(1.5, 0.75)`, or for
            a matrix an array with one delay for each stored element, in their order. None is one step. Delays that are
            drawn are rounded to whole steps, at least one.
        name: Its name; without one it is "source->target.into", with "#2" for the second of that name.
        plasticity: How the synapses change; None if they do not.

    Raises:
        NetworkError: The source or target is not a population, a name is not valid, `connect` or `delay` is neither
            numbers nor a description, or `plasticity` is no `Plasticity`.

    Examples:
        >>> import brainevent.network.description.connect as connect
        >>> from brainevent.network.description.network import Population, Projection
        >>> cells = Population("cells", 100, lambda s, arriving, p: (s, arriving.syn > 1))
        >>> Projection(cells, cells, connect.prob(0.1, weight=0.5), into="syn", delay=1.5)
        Projection('cells->cells.syn', prob(0.1, weight=0.5))
    """

    source: Population
    target: Population
    connect: Any
    into: str
    delay: Any = None
    name: str | None = None
    plasticity: Plasticity | None = None

    def __post_init__(self) -> None:
        for what in ("source", "target"):
            found = getattr(self, what)
            if not isinstance(found, Population):
                raise NetworkError(f"Projection: {what} is {found!r}; pass a Population")
        if not _is_word(self.into) or not self.into.isidentifier():
            raise NetworkError(
                f"projection {self.source.name}->{self.target.name}: into is {self.into!r}; pass the name that the "
                "target's rule reads in `arriving`"
            )
        if self.name is not None and not _is_word(self.name):
            raise NetworkError(f"Projection: name is {self.name!r}; pass a string that is not empty, or None")
        where = f"projection {self.usual_name}"
        if not isinstance(self.connect, Connect) and not hasattr(self.connect, "todense"):
            check_numbers(f"{where}: connect", self.connect, "a description such as connect.prob(0.1), or a matrix")
        if self.delay is not None and not isinstance(self.delay, Values):
            check_numbers(f"{where}: delay", self.delay, "ms: a number, values such as normal(1.5, 0.75), or an array")
        if self.plasticity is not None and not isinstance(self.plasticity, Plasticity):
            raise NetworkError(f"{where}: plasticity is {self.plasticity!r}; pass Plasticity(on_pre=..., on_post=...)")

    @property
    def usual_name(self) -> str:
        """The name, or its default."""
        return self.name or f"{self.source.name}->{self.target.name}.{self.into}"

    def __repr__(self) -> str:
        how = self.connect if isinstance(self.connect, Connect) else type(self.connect).__name__
        return f"Projection({self.usual_name!r}, {how})"


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _check_name(what: str, name: Any) -> None:
    if not _is_word(name) or not _NAME.fullmatch(name):
        raise NetworkError(f"{what}: name is {name!r}; pass a string without spaces and the characters . # >")
