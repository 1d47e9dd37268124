# SPDX-License-Identifier: Apache-2.0
"""`Cells`: a component as native runners take it: the forms of its populations, and the names of all arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...errors import RuleError
from ...scalar.adjoint import Adjoint
from ...scalar.form import Form, Name
from ..plan.plan import PopulationPlan
from ..reference.components import Component
from ..reference.products import Product
from .adjoints import adjoint_in

__all__ = ["Cell", "Cells", "cells_of", "named", "refusal"]

Array = Any
_NAMES = 4  # in a sentence


def named(names: Sequence[str]) -> str:
    """Return names in a sentence: the first ones, and how many more there are."""
    more = len(names) - _NAMES
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_NAMES])} and {more} more"


def refusal(component: Component) -> str:
    """Say why no native runner has a component; nothing if one may have it."""
    if component.dtype != "float32":
        return f"floats are {component.dtype}, and native code trains in float32"
    if component.couplings:
        return f"the coupling {component.couplings[0].plan.name} carries a state in every step"
    try:
        for place, population in enumerate(component.populations):
            adjoint_in(component, place, population)
    except RuleError as error:
        return str(error)
    return ""


@dataclass(frozen=True, eq=False)
class Cell:
    """A population of a component.

    Attributes:
        place: Its number among the populations of the component.
        population: The population.
        adjoint: The forms of its step and of its step back; None if nothing is differentiated.
        sampled: The states that are returned after each step.
    """

    place: int
    population: PopulationPlan
    adjoint: Adjoint | None
    sampled: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many neurons there are."""
        return self.population.size

    @property
    def forward(self) -> Form:
        """The step: its outputs are states, the spike and the residuals."""
        if self.adjoint is None:
            return replace(self.population.rule.step, name=f"p{self.place}_forward")
        return self.adjoint.forward

    @property
    def backward(self) -> Form:
        """The step back."""
        assert self.adjoint is not None
        return self.adjoint.backward

    @property
    def residuals(self) -> tuple[Name, ...]:
        """What the step stores for the step back, besides the spike."""
        return () if self.adjoint is None else self.adjoint.residuals

    @cached_property
    def states(self) -> dict[str, Name]:
        """The states by name."""
        return dict(zip(self.population.state, self.population.rule.states, strict=True))

    @cached_property
    def receptors(self) -> dict[str, Name]:
        """What arrives by name."""
        return dict(zip(self.population.quanta, self.population.rule.arriving, strict=True))

    @cached_property
    def params(self) -> dict[str, Name]:
        """The parameters by name."""
        return dict(zip(self.population.params, self.population.rule.params, strict=True))

    @property
    def float_states(self) -> list[str]:
        """The names of states that have derivatives."""
        return [key for key, name in self.states.items() if name.dtype == "float32"]

    @property
    def trained(self) -> list[str]:
        """The names of parameters with respect to which the step is differentiated."""
        made = () if self.adjoint is None else self.adjoint.params
        return [key for key, name in self.params.items() if name in made]


@dataclass(frozen=True, eq=False)
class Cells:
    """A component with its forms. Arrays have labels, of which `{p}` is the place of a population, `{j}` of a product.

    Given to the step: "begin" uint32 (1,), "key{p}" uint32 (2,), currents "c{p}_{receptor}" (steps, neurons), states
    "x{p}_{state}" (neurons,), parameters "q{p}_{param}" (1,) or (neurons,), weights "w{j}" (1,) or (entries,): those
    that are given, or whole numbers of quanta "u{p}_{receptor}" (1,), in the dtype of their sums; perhaps
    "h{p}_{receptor}" (steps, neurons), whole numbers of quanta, which are added to the sums of these; perhaps "fine"
    bool (1,): unless it holds, spikes are NaN. Returned by it: spikes "z{p}" (steps, neurons), states "s{p}_{state}"
    after the last step, "o{p}_{state}" after each step, residuals "r{p}_{k}" (steps, neurons).

    The step back is given spikes and residuals, all that the step is given but currents and states, and cotangents
    "dz{p}", "ds{p}_{state}" and "do{p}_{state}"; it returns those of currents "dc{p}_{receptor}" (steps, neurons), of
    states before the first step "dx{p}_{state}", and of parameters "dq{p}_{param}" (neurons,).
    """

    component: Component
    cells: tuple[Cell, ...]

    @property
    def products(self) -> tuple[Product, ...]:
        """The projections within the component."""
        return self.component.products

    def place(self, population: str) -> int:
        """Return the place of a population."""
        return next(cell.place for cell in self.cells if cell.population.name == population)

    def arriving(self, j: int) -> str:
        """Return the label of the currents that a product adds to."""
        population, receptor = self.products[j].place
        return f"c{self.place(population)}_{receptor}"

    def quantum(self, one: Product) -> str:
        """Return the label of the quantum of the receptor of a product whose weights are whole numbers."""
        population, receptor = one.place
        return f"u{self.place(population)}_{receptor}"

    def into(self, cell: Cell, receptor: str, *, given: bool) -> list[int]:
        """Return the places of the products into a receptor whose weights are given, or are those of the plan."""
        place = cell.population.name, receptor
        return [j for j, one in enumerate(self.products) if one.place == place and one.given == given]

    def outputs(self, steps: int) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return shapes and dtypes of what the steps return, by label."""
        found: dict[str, tuple[tuple[int, ...], str]] = {}
        for cell in self.cells:
            p, n = cell.place, cell.size
            found[f"z{p}"] = (steps, n), "float32"
            found |= {f"s{p}_{key}": ((n,), name.dtype) for key, name in cell.states.items()}
            found |= {f"o{p}_{key}": ((steps, n), cell.states[key].dtype) for key in cell.sampled}
            found |= {f"r{p}_{k}": ((steps, n), name.dtype) for k, name in enumerate(cell.residuals)}
        return found

    def cotangents(self, steps: int) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return shapes and dtypes of what the steps back return, by label."""
        found: dict[str, tuple[tuple[int, ...], str]] = {}
        for cell in self.cells:
            p, n = cell.place, cell.size
            found |= {f"dc{p}_{key}": ((steps, n), "float32") for key in cell.receptors}
            found |= {f"dx{p}_{key}": ((n,), "float32") for key in cell.float_states}
            found |= {f"dq{p}_{key}": ((n,), "float32") for key in cell.trained}
        return found


def cells_of(component: Component, trained: Collection[tuple[str, str]] | None) -> Cells:
    """Return a component with its forms: differentiated with respect to some parameters, or not at all."""
    wanted = component.outputs.wanted.samples.values()
    cells = []
    for place, p in enumerate(component.populations):
        own = None if trained is None else [name for population, name in trained if population == p.name]
        adjoint = None if own is None else adjoint_in(component, place, p, own)
        sampled = dict.fromkeys(sample.state for sample in wanted if sample.population == p.name)
        cells.append(Cell(place, p, adjoint, tuple(sampled)))
    return Cells(component, tuple(cells))
