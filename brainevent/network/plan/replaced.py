# SPDX-License-Identifier: Apache-2.0
"""`Weights`: the weights that a network has now, and the plan that a build with them would make."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._warned import warn_each_time
from ..description.conductances import check_sign
from .connections import one_weight_of, order_of, weights_of
from .distribution import Distribution
from .drawing import Description, Placed, placed_synapses
from .graded import delivered_at_most
from .pending import divided, held_in, plastic_into
from .plan import Plan, Source, SynapsePlan
from .projections import ProjectionPlan, finer, finer_about, projection_of
from .quantum import (
    Bounded,
    RoundedWeightsWarning,
    check_given_quantum,
    choose_quantum,
    in_quanta,
    largest_rounding,
    rounding_of_bounds,
    weight_dtype,
)
from .wiring import Wiring, check_weights

__all__ = ["Weights", "weights_as_built"]

Array = Any
Receptor = tuple[str, str]  # population and name
Arriving = Mapping[str, Mapping[str, Array]]


@dataclass(frozen=True, eq=False)
class _Given:
    """Weights of a projection that no description has: float64 (1,) or (entries,), in the order of `order_of`."""

    name: str
    weights: Array
    largest_sum: float
    value_range: tuple[float, float] | None = None

    @property
    def largest_weight(self) -> float:
        """The largest |weight|."""
        return float(np.abs(self.weights).max(initial=0))


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of a network that runs.

    Attributes:
        built: The plan of the build.
        wirings: Returns what the build drew synapses from; None if that is not known.
        replaced: Weights that were given since, by projection or coupling: float64 (1,) or (entries,), in the order of
            `order_of`, or of the coupling.
        base: The plan that a build with these weights makes.
        parts: By receptor, into how many parts the quantum of `base` is divided, so that it holds pending input.
        plan: `base` in these quanta, with which the engine runs. With powers of two, it does the same to the last bit.
        rounded: Warnings of the weights that were replaced last: those of which some were rounded.
    """

    built: Plan
    wirings: Callable[[], Sequence[Wiring]] | None
    replaced: Mapping[str, Array]
    base: Plan
    parts: Mapping[Receptor, int]
    plan: Plan
    rounded: tuple[str, ...] = ()
    _loads: dict[str, Array] = field(default_factory=dict)  # of `base`, by projection, as far as they are known

    @property
    def said(self) -> str | None:
        """Which weights were replaced, and which quanta changed with them, in words."""
        if not self.replaced:
            return None
        built = {(name, receptor): quantum for name, receptor, quantum in self.built.quanta}
        quanta = [
            f"{name}.{receptor} {quantum:g} ({built[name, receptor]:g} in the build)"
            for name, receptor, quantum in self.plan.quanta
            if quantum != built[name, receptor]
        ]
        changed = f"; new quanta: {', '.join(quanta)}" if quanta else ""
        return f"replaced weights: {', '.join(self.replaced)}{changed}"

    def as_built(self) -> Weights:
        """Return the weights of the build."""
        return dataclasses.replace(self, replaced={}, base=self.built, parts={}, plan=self.built, rounded=(), _loads={})

    def warn(self) -> None:
        """Warn, each time, of the weights that were replaced last, if some of them were rounded."""
        for text in self.rounded:
            warn_each_time(text, RoundedWeightsWarning)

    def has(self, name: str, weights: Array) -> bool:
        """Say whether a projection or coupling has exactly these weights, () or (entries,), as `weights_of` returns."""
        if (coupling := self.plan.coupling(name)) is not None:
            own = coupling.weights.reshape(()) if coupling.weights.size == 1 and not weights.ndim else coupling.weights
            return np.array_equal(own, weights)
        place = self.plan.place(name)
        if not weights.ndim:
            return one_weight_of(self.plan, self.plan.projections[place]) == float(weights)
        return np.array_equal(weights_of(self.plan, self.plan.synapses[place]), weights)

    def with_(
        self, weights: Mapping[str, Array], arriving: Arriving, quanta: Any, what: str, *, same: bool
    ) -> tuple[Weights, Arriving]:
        """Return other weights, by projection or coupling, and pending input, in quanta of the plan with them.

        Weights are float64 () or (entries,), in the order of `order_of`. With `same`, quanta stay those of what is on
        its way if they can; else they become as large as they can. Errors begin with `what`.
        """
        coupled = {name: one for name, one in weights.items() if self.plan.coupling(name) is not None}
        if coupled:
            rest = {name: one for name, one in weights.items() if name not in coupled}
            return self._coupled(coupled, what).with_(rest, arriving, quanta, what, same=same)
        if not weights:
            return self._holding(arriving, quanta, {}, what, same=same)
        replaced = {**self.replaced, **{name: one.reshape(-1) for name, one in weights.items()}}
        ends = {(p.target, p.receptor): None for p in self.built.projections if p.name in weights}
        made: dict[int, Placed] = {}
        chosen, rounded = {}, list[str]()
        for end in ends:
            chosen[end], fresh, said = self._of_receptor(end, replaced, weights, what)
            made |= fresh
            rounded += said
        base = self.base.replaced({place: (one.synapses, one.about) for place, one in made.items()}, chosen)
        alike = (tuple(name for name in group if name not in replaced) for group in self.built.repeats)
        base = dataclasses.replace(base, repeats=tuple(group for group in alike if len(group) > 1))
        loads = self._loads | {base.projections[place].name: one.loads for place, one in made.items()}
        parts = {end: one for end, one in self.parts.items() if end not in ends}
        found = dataclasses.replace(
            self, replaced=replaced, base=base, _loads=loads, parts=parts, rounded=tuple(rounded)
        )
        return found._holding(arriving, quanta, ends, what, same=same)

    def _coupled(self, weights: Mapping[str, Array], what: str) -> Weights:
        """Return other weights of couplings: floats, of which no quantum depends."""
        for name, one in weights.items():
            check_weights(f"{what}: weights of {name}", one)
        kept = self.base.couplings
        couplings = tuple(one.with_weights(weights[one.name]) if one.name in weights else one for one in kept)
        base, plan = (dataclasses.replace(of, couplings=couplings) for of in (self.base, self.plan))
        replaced = {**self.replaced, **{name: one.reshape(-1) for name, one in weights.items()}}
        return dataclasses.replace(self, replaced=replaced, base=base, plan=plan, rounded=())

    def _holding(
        self, arriving: Arriving, quanta: Any, changed: Mapping[Receptor, Any], what: str, *, same: bool
    ) -> tuple[Weights, Arriving]:
        """Return the weights in quanta that hold pending input, and this input, given in other quanta, in them.

        `changed` are receptors whose synapses are not those of the plan.
        """
        before, loads = {(name, receptor): quantum for name, receptor, quantum in quanta}, dict[Receptor, int]()
        parts, sums = dict(self.parts), {name: dict(receptors) for name, receptors in arriving.items()}
        for end, quantum in before.items():
            base = self.base.population(end[0]).quanta[end[1]]
            if end in changed or quantum != float(divided(base, parts.get(end, 1))):
                own, place = sums[end[0]], ".".join(end)
                load = self._load(end)
                found = held_in(what, place, own[end[1]], quantum, base, load, same=same)
                parts[end], own[end[1]] = found.parts, found.sums
                loads[end] = int(load.max(initial=0)) * found.parts
        parts = {end: one for end, one in parts.items() if one > 1}
        if not changed and parts == self.parts:
            return self, sums
        plan = _divided_plan(self.base, parts)
        plan.loads.update(loads)
        return dataclasses.replace(self, parts=parts, plan=plan), sums

    def _of_receptor(
        self, end: Receptor, replaced: Mapping[str, Array], changed: Mapping[str, Array], what: str
    ) -> tuple[np.floating[Any], dict[int, Placed], list[str]]:
        """Return the quantum of a receptor, the synapses of its projections that change with it, and warnings."""
        places = [k for k, p in enumerate(self.built.projections) if (p.target, p.receptor) == end]
        asked = {place: self._asked(place, replaced, what) for place in places}
        before = self.base.population(end[0]).quanta[end[1]]
        plastic = [
            Bounded(p.name, p.largest_weight, p.largest_sum, p.rules.value_range)
            for p in plastic_into(self.built, *end)
        ]
        if end in self.built.given:
            quantum = before
            check_given_quantum(
                f"{what}: quantum of {'.'.join(end)}, which build was given,", float(quantum), list(asked.values())
            )
        else:
            quantum = choose_quantum(list(asked.values()), self.built.dtype, plastic)
        made = {
            place: self._made(place, one, quantum)
            for place, one in asked.items()
            if quantum != before or one.name in changed
        }
        found = [self._warning(place, asked[place], one, quantum, what) for place, one in made.items()]
        found += [rounding_of_bounds(what, one, quantum, end, self.built.given) for one in plastic]
        return quantum, made, [text for text in found if text]

    def _asked(self, place: int, replaced: Mapping[str, Array], what: str) -> Wiring | _Given:
        """Return the weights of a projection before they are rounded."""
        about = self.built.projections[place]
        where = f"{what}: weights of {about.name}"
        wiring = None if self.wirings is None else next(w for w in self.wirings() if w.name == about.name)
        weights = replaced.get(about.name)
        if weights is None and wiring is not None:
            return wiring
        if weights is None:
            synapses = self.built.synapses[place]
            numbers = (
                synapses.weights if synapses.weights.size == 1 else synapses.weights[order_of(self.built, synapses)]
            )
            weights = numbers * np.float64(self.built.population(about.target).quanta[about.receptor])
        check_weights(where, weights.reshape(()) if weights.size == 1 else weights)
        if wiring is not None:
            ends = float(weights.min(initial=np.inf)), float(weights.max(initial=-np.inf))
            rule = wiring.projection.populations[1].rule
            if about.entries:
                check_sign(where, rule, about.target, about.receptor, *ends)
            if weights.size == 1:
                return dataclasses.replace(wiring, weights=weights)
        synapses = self.base.synapses[place]
        size = self.built.population(about.target).size
        sums = _loads(synapses, np.abs(_in_place(self.built, synapses, weights)), size)
        source = self.built.population(about.source)
        return _Given(about.name, weights, float(sums.max(initial=0)), source.rule.value_range)

    def _made(self, place: int, asked: Wiring | _Given, quantum: np.floating[Any]) -> Placed:
        """Return the synapses of a projection as a build with these weights makes them."""
        seed, parts = self.built.seed, self.built.parts
        if isinstance(asked, Wiring) and isinstance(self.built.synapses.sources[place], Description):
            return self._measured(Description(asked, quantum, seed, parts))
        if isinstance(asked, Wiring) and (isinstance(asked.weights, Distribution) or asked.weights.size > 1):
            return placed_synapses(asked, quantum, seed, parts)
        synapses = self.base.synapses[place]
        numbers, rounded = in_quanta(asked.weights, quantum)
        weights = _in_place(self.built, synapses, numbers.astype(weight_dtype(asked, quantum)))
        made = dataclasses.replace(synapses, weights=weights, rounding=largest_rounding(asked.weights, quantum))
        size = self.built.population(synapses.target).size
        loads = _loads(made, np.abs(weights.astype(np.int64)), size).astype(np.int64)
        return Placed(made, projection_of(made), loads, rounded)

    def _measured(self, description: Description) -> Placed:
        """Let the device that drew the synapses of the build measure those of another description."""
        measure = self.built.synapses.measure
        found: Placed = measure(description)
        measure.done()
        return found

    def _warning(
        self, place: int, asked: Wiring | _Given, made: Placed, quantum: np.floating[Any], what: str
    ) -> str | None:
        """Return a warning if weights were rounded too much; None if not, or if the user chose the quantum."""
        about = self.built.projections[place]
        if not made.rounded or not about.entries or (about.target, about.receptor) in self.built.given:
            return None
        one = not isinstance(asked.weights, Distribution) and asked.weights.size == 1
        name = f"{about.target}.{about.receptor}"
        return (
            f"{what}: weights of {about.name}: {about.entries if one else made.rounded} of {about.entries} were "
            f"rounded by more than 2**-9 of their value, to multiples of {quantum:g}: weights into {name} differ too "
            "much in size; pass weights that differ less, use another receptor, or accept the rounding with "
            f"build(quantum={{'{name}': {quantum:g}}})"
        )

    def _load(self, end: Receptor) -> Array:
        """Return sums of what is delivered to each neuron of a receptor at most, in quanta of `base`."""
        size = self.built.population(end[0]).size
        total = np.zeros(size, np.int64)
        for place, about in enumerate(self.base.projections):
            if (about.target, about.receptor) != end or not about.entries:
                continue
            if about.name not in self._loads:
                self._loads[about.name] = self._found_load(place, size)
            factor = self.base.reach(about.source, about.least)
            total = total + delivered_at_most(self._loads[about.name], factor)
        for plastic in plastic_into(self.base, *end):
            total = total + plastic.loads(self.base.population(end[0]).quanta[end[1]])
        return total

    def _found_load(self, place: int, size: int) -> Array:
        source = self.base.synapses.sources[place]
        if isinstance(source, Description):
            return self._measured(source).loads
        synapses = self.base.synapses[place]
        return _loads(synapses, np.abs(synapses.weights.astype(np.int64)), size).astype(np.int64)


def weights_as_built(plan: Plan, wirings: Callable[[], Sequence[Wiring]] | None) -> Weights:
    """Return the weights of a plan that was just built; `wirings` returns what its synapses were drawn from."""
    return Weights(plan, wirings, {}, plan, {}, plan)


def _divided_plan(base: Plan, parts: Mapping[Receptor, int]) -> Plan:
    """Return a plan with quanta that are divided into parts, and weights of so many more of them."""
    if not parts:
        return base
    synapses: dict[int, SynapsePlan | tuple[Source, ProjectionPlan]] = {}
    for place, (about, source) in enumerate(zip(base.projections, base.synapses.sources, strict=True)):
        times = parts.get((about.target, about.receptor), 1)
        if times > 1 and isinstance(source, Description):
            synapses[place] = dataclasses.replace(source, times=times), finer_about(about, times)
        elif times > 1:
            synapses[place] = finer(base.synapses[place], times)
    quanta = {end: divided(base.population(end[0]).quanta[end[1]], times) for end, times in parts.items()}
    return base.replaced(synapses, quanta)


def _loads(synapses: SynapsePlan, sizes: Array, neurons: int) -> Array:
    """Return sums of sizes of weights, (1,) or (entries,), into each target."""
    if sizes.size == 1:
        return np.bincount(synapses.targets, minlength=neurons) * sizes[0]
    return np.bincount(synapses.targets, sizes, neurons)


def _in_place(plan: Plan, synapses: SynapsePlan, ordered: Array) -> Array:
    """Return one element, or those of each synapse in the order of the plan, of those in the order of `order_of`."""
    if ordered.size == 1:
        return ordered
    placed = np.empty_like(ordered)
    placed[order_of(plan, synapses)] = ordered
    return placed
