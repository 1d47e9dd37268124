# SPDX-License-Identifier: Apache-2.0
"""Values by population and by part of one: whose they are, and what all neurons of a population have with them.

Values of a whole population count first, and those of its parts replace them, in any order of the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer
from ...errors import NetworkError
from ..description.parts import Part
from ..description.populations import Population
from ..plan.plan import Plan
from .neurons import Label, Neurons, found_neurons, names_part

__all__ = ["PartValues", "names_neurons", "parted", "refuse_one_for_all", "replaced_at", "shown_owner"]

Array = Any
Given = Mapping[Label, Any]  # by name of a population, projection or coupling, or by population or part itself


@dataclass(frozen=True, eq=False)
class PartValues:
    """What is given for some neurons: values by name; `label` is how the part is written."""

    neurons: Neurons
    label: str
    values: Mapping[str, Any]

    @property
    def population(self) -> str:
        """The name of the population."""
        return self.neurons.population.name

    @property
    def numbers(self) -> Array:
        """The numbers of the neurons."""
        return self.neurons.numbers


def names_neurons(plan: Plan, key: Any) -> bool:
    """Say whether a key is a population or part itself, or the name of a part; not one of synapses between parts."""
    if isinstance(key, (Part, Population)):
        return True
    links = (*plan.projection_names, *(coupling.name for coupling in plan.couplings), *plan.plastic_by_name)
    return key not in links and names_part(plan, key)


def shown_owner(key: Any) -> str:
    """Return a key as it is written: the name of a population, part or projection."""
    return key.name if isinstance(key, (Part, Population)) else str(key)


def parted(plan: Plan, where: str, given: Given) -> tuple[dict[str, Any], list[PartValues]]:
    """Return what is given by name, and what is given for parts; raise if two give the same neuron the same value."""
    whole: dict[str, Any] = {}
    parts: list[PartValues] = []
    for key, values in given.items():
        if not names_neurons(plan, key):
            _put(where, whole, key, values)
            continue
        neurons = found_neurons(plan, where, key)
        if neurons.numbers is None:
            _put(where, whole, neurons.population.name, values)
            continue
        label = shown_owner(key)
        if not isinstance(values, Mapping):
            raise NetworkError(
                f"{where}[{label!r}] is {type(values).__name__}; pass values by name: a dictionary, such as "
                "{'threshold': -52.0}"
            )
        parts.append(PartValues(neurons, label, values))
    _check_apart(where, parts)
    return whole, parts


def _put(where: str, whole: dict[str, Any], name: Any, values: Any) -> None:
    if name in whole:
        raise NetworkError(f"{where} has {name!r} twice, by its name and as the population itself; pass one of them")
    whole[name] = values


def _check_apart(where: str, parts: list[PartValues]) -> None:
    """Raise if two parts have a neuron in common for which both give the same parameter or state."""
    taken: dict[tuple[str, str], tuple[Array, list[PartValues]]] = {}
    for part in parts:
        size, numbers = part.neurons.population.size, part.numbers
        for name in part.values:
            owner, before = taken.setdefault((part.population, name), (np.full(size, -1), []))
            if (twice := np.flatnonzero(owner[numbers] >= 0)).size:
                neuron = int(numbers[twice[0]])
                raise NetworkError(
                    f"{where}: {before[owner[neuron]].label} and {part.label} both give {name} of neuron {neuron}; "
                    "pass parts without common neurons"
                )
            owner[numbers] = len(before)
            before.append(part)


def refuse_one_for_all(where: str, name: str, neurons: Neurons) -> None:
    """Raise since a parameter is one number, of which no neuron has its own."""
    population = neurons.population
    raise NetworkError(
        f"{where}: {name} was built as one number for all neurons of {population.name}; set it for {population.name}, "
        f"or build the network with an array ({population.size},)"
    )


def replaced_at(array: Array, numbers: Array, values: Array) -> Array:
    """Return a copy of an array (neurons,) in which some neurons have other values: () or one for each of them."""
    if isinstance(array, Tracer) or isinstance(values, Tracer):
        return jnp.asarray(array).at[numbers].set(values)
    found = np.array(array)
    found[numbers] = values
    return found
