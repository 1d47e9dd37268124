# SPDX-License-Identifier: Apache-2.0
"""`Neurons`: a population of a plan or a part of it, found by what a user names it with; and records of a part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from ...spikes.trains import ListedSpikes
from ..description.parts import Part, neurons_at
from ..description.populations import Population
from ..plan.plan import Plan, PopulationPlan
from .recorded import Recorded

__all__ = ["Label", "Neurons", "are_of", "found_neurons", "found_population", "is_pair", "rate_of", "shown_label"]
__all__ += ["names_part", "spikes_of", "split_label"]

Array = Any
Label = Any  # "exc.spikes", "exc[:100].spikes", or a pair of a part and a name such as (exc[mask], "spikes")

_SLICED = re.compile(r"(?P<name>[^\[\]]+)\[(?P<index>[^\[\]]*|\[[^\[\]]*\])\]")
_SLICE = re.compile(r"\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(?::\s*(-?\d+)?\s*)?")


@dataclass(frozen=True, eq=False)
class Neurons:
    """Neurons of a population: those of `numbers`, int64, in this order; None for all."""

    population: PopulationPlan
    numbers: Array | None = None

    @property
    def size(self) -> int:
        """How many there are."""
        return self.population.size if self.numbers is None else int(self.numbers.size)

    @property
    def mask(self) -> Array:
        """Which neurons of the population these are, as booleans."""
        mask = np.zeros(self.population.size, bool)
        mask[slice(None) if self.numbers is None else self.numbers] = True
        return mask


def is_pair(label: Any) -> bool:
    """Say whether a label is a part or population and a name."""
    return isinstance(label, tuple) and len(label) == 2 and isinstance(label[0], (Part, Population))


def split_label(label: Label) -> tuple[Any, str]:
    """Return whose neurons a label names, and what of them; nothing for the first if it names none."""
    if is_pair(label):
        return label[0], str(label[1])
    name, _, what = str(label).rpartition(".")
    return name, what


def shown_label(label: Label) -> str:
    """Return a label as a string."""
    return f"{label[0].name}.{label[1]}" if is_pair(label) else str(label)


def found_population(plan: Plan, where: str, name: str, others: Sequence[str] = ()) -> PopulationPlan:
    """Return the population of a name, or raise; `others` are plastic projections that might be meant."""
    names = [population.name for population in plan.populations]
    if name not in names:
        also = f"; plastic projections: {', '.join(others)}" if others else ""
        raise NetworkError(
            f"{where}: there is no population {name!r}{did_you_mean(name, [*names, *others])}; populations: "
            f"{', '.join(names)}{also}"
        )
    return plan.population(name)


def found_neurons(plan: Plan, where: str, owner: Any, others: Sequence[str] = ()) -> Neurons:
    """Return the neurons that a name such as "exc" or "exc[:100]" or a part means, or raise."""
    if isinstance(owner, (Part, Population)):
        whole = owner.population if isinstance(owner, Part) else owner
        population = found_population(plan, where, whole.name)
        if population.size != whole.size:
            raise NetworkError(
                f"{where}: {owner.name} is of a population of {whole.size} neurons, but {whole.name} has "
                f"{population.size} here; pass a part of the population of this network"
            )
        return Neurons(population, owner.numbers if isinstance(owner, Part) else None)
    sliced = _SLICED.fullmatch(str(owner))
    if sliced is None or not names_part(plan, owner) or owner in [population.name for population in plan.populations]:
        return Neurons(found_population(plan, where, owner, others))
    name, index = sliced["name"], _SLICE.fullmatch(sliced["index"])
    if index is None:
        raise NetworkError(
            f"{where}: [{sliced['index']}] is no slice; pass one, such as '{name}[:10]', or the part itself instead of "
            f"its name: {name}[[0, 7]], and with a name after it as a pair, such as ({name}[[0, 7]], 'v')"
        )
    population = plan.population(name)
    try:
        chosen = slice(*(None if one is None else int(one) for one in index.groups()))
        return Neurons(population, neurons_at(population, chosen))
    except NetworkError as error:
        raise NetworkError(f"{where}: {error}") from None


def names_part(plan: Plan, name: Any) -> bool:
    """Say whether a name, such as "exc[:100]", is that of a part of a population, or meant to be."""
    sliced = _SLICED.fullmatch(str(name))
    return sliced is not None and sliced["name"] in [population.name for population in plan.populations]


def are_of(plan: Plan, where: str, given: Any, population: PopulationPlan) -> None:
    """Raise if chosen neurons are a part of another population."""
    if isinstance(given, Part) and found_neurons(plan, where, given).population.name != population.name:
        raise NetworkError(f"{where} are {given}, a part of another population; pass neurons of {population.name}")


# ---- what is recorded of them


def spikes_of(neurons: Neurons, part: Recorded, dt: float) -> ListedSpikes:
    """Return the spikes of neurons, which keep their numbers."""
    population, (steps, who) = neurons.population, part.spikes[neurons.population.name]
    if neurons.numbers is None:
        return ListedSpikes((steps, who), part.steps, population.size, dt, part.first)
    mask = neurons.mask
    here, bits = mask[who], np.packbits(mask, bitorder="little")
    return ListedSpikes((steps[here], who[here]), part.steps, population.size, dt, part.first, bits)


def rate_of(neurons: Neurons, part: Recorded) -> Array:
    """Return how many of some neurons spiked in each step, int32 (steps,)."""
    steps, who = part.spikes[neurons.population.name]
    here = steps[neurons.mask[who]].astype(np.int64) - part.first
    return np.bincount(here, minlength=part.steps).astype(np.int32)
