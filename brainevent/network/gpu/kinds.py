# SPDX-License-Identifier: Apache-2.0
"""Kinds of populations: those of one kind share a text, and what is known of all kinds together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...scalar.form import Form
from ...scalar.poisson_table import PoissonDraw, split
from ..plan.plan import Plan, PopulationPlan
from .structs import Extents

__all__ = ["Kind", "are_graded", "extents_of", "fractions_of", "is_whole", "kinds_of", "words_of"]


@dataclass(frozen=True)
class Kind:
    """What populations of one text share: the rule without the Poisson numbers that are counted in tables, and those.

    `scalars` says of each parameter whether it is one for all neurons; `events`, whether the form returns all events,
    for plastic synapses.
    """

    population: PopulationPlan
    form: Form
    drawn: tuple[PoissonDraw, ...]
    scalars: tuple[bool, ...]
    events: bool

    @property
    def receptors(self) -> int:
        """How many receptors there are."""
        return len(self.population.quanta)

    def is_of(self, other: Kind) -> bool:
        """Say whether both have the same text."""
        ours, theirs = (
            (kind.form, [one.uniform for one in kind.drawn], kind.scalars, kind.population.rule.form)
            for kind in (self, other)
        )
        return ours == theirs


def kind_of(population: PopulationPlan, params: Mapping[str, Any], *, events: bool = False) -> Kind:
    """Return the kind of a population for the parameters that it has now, perhaps with all its events."""
    names = [name.text for name in population.rule.params]
    values = [np.asarray(value) for value in params.values()]
    whole = population.rule.form if events else population.rule.step
    form, drawn = split(whole, {n: v for n, v in zip(names, values, strict=True) if v.ndim == 0})
    return Kind(population, form, drawn, tuple(value.ndim == 0 for value in values), events)


def kinds_of(plan: Plan, params: Mapping[str, Mapping[str, Any]]) -> tuple[list[Kind], dict[str, int], list[Kind]]:
    """Return all kinds, those with more receptors first; the kind of each population by name; and its own `Kind`."""
    own = [kind_of(population, params[population.name], events=bool(plan.plastic)) for population in plan.populations]
    kinds: list[Kind] = []
    for kind in sorted(own, key=lambda kind: -kind.receptors):
        if not any(kind.is_of(known) for known in kinds):
            kinds.append(kind)
    numbers = {
        kind.population.name: next(number for number, known in enumerate(kinds) if kind.is_of(known)) for kind in own
    }
    return kinds, numbers, own


def extents_of(kinds: Sequence[Kind]) -> Extents:
    """Return how many receptors, parameters and counted draws a population has at most."""
    receptors, params = max(kind.receptors for kind in kinds), max(len(kind.scalars) for kind in kinds)
    return Extents(receptors, params, max(len(kind.drawn) for kind in kinds))


def are_graded(kinds: Sequence[Kind]) -> bool:
    """Say whether some spikes have values."""
    return any(kind.population.rule.value for kind in kinds)


def words_of(kinds: Sequence[Kind]) -> int:
    """Return how many words a neuron has: the largest number of states."""
    return max(len(kind.population.rule.states) for kind in kinds)


def fractions_of(kinds: Sequence[Kind]) -> int:
    """Return how many words of states may be numbers with a fraction."""
    return sum(not is_whole(kinds, word) for word in range(words_of(kinds)))


def is_whole(kinds: Sequence[Kind], word: int) -> bool:
    """Say whether a word of states is an integer or a boolean in all kinds that have it."""
    return all(
        dtype != "float32"
        for kind in kinds
        for dtype in [n.dtype for n in kind.population.rule.states][word : word + 1]
    )
