# SPDX-License-Identifier: Apache-2.0
"""`Elements`: the runs of a sweep, each with its values, weights, seed and inputs, made when they are needed."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.parts import Part
from ..description.populations import Population
from ..plan.build import redrawn_plan, reseeded_plan
from ..plan.plan import Plan, PopulationPlan
from ..plan.replaced import Weights, weights_as_built
from ..plan.wiring import is_drawn
from ..state import NetworkState, initial_state
from .checked import checked_inputs, given_weights, going_on, split_plastic, split_values, values_of_part
from .neurons import Label, shown_label
from .of_parts import PartValues, parted, replaced_at, shown_owner

__all__ = ["Element", "Elements", "Now", "Swept"]

Array = Any
Params = Mapping[str, Mapping[str, Array]]
_KEPT = 4  # of the weights of elements that were made last


@dataclass(frozen=True, eq=False)
class Element:
    """One run of a sweep.

    Attributes:
        plan: The network, with its weights, and with the keys of its random numbers.
        params: All parameters, by population.
        state: The state before the first step, in the quanta of the plan.
        inputs: By population and receptor, (steps, neurons) or (steps, 1).
    """

    plan: Plan
    params: Params
    state: NetworkState
    inputs: Mapping[tuple[str, str], Array]


@dataclass(frozen=True, eq=False)
class Now:
    """A simulation at the beginning of a sweep; `built` are the parameters of its build."""

    weights: Weights
    params: Params
    built: Params
    state: NetworkState
    network: Any


@dataclass(frozen=True, eq=False)
class Swept:
    """What differs between elements, as it was given: arrays whose first axis is over elements, or has one for all."""

    values: Mapping[Label, Mapping[str, Any]]
    inputs: Mapping[Label, Any]
    seeds: Sequence[int] | None
    redraw: bool

    @classmethod
    def of(cls, values: Any, inputs: Any, seeds: Any, redraw: Any) -> Swept:
        """Return what was given, as far as it has the right form; else raise."""
        for what, given in (("values", values), ("inputs", inputs)):
            if given is not None and not isinstance(given, Mapping):
                raise NetworkError(f"sweep: {what} is {type(given).__name__}; pass a dictionary of arrays by name")
        for name, own in (values or {}).items():
            if not isinstance(name, (str, Part, Population)):
                raise NetworkError(
                    f"sweep: values has {name!r}; pass names of populations and projections, or parts of populations "
                    "such as exc[:100]"
                )
            if not isinstance(own, Mapping):
                raise NetworkError(
                    f"sweep: values[{shown_owner(name)!r}] is {type(own).__name__}; pass a dictionary, such as "
                    "{'threshold': [-52.0, -50.0]}, or {'weights': [0.1, 0.2]} of a projection"
                )
        if not isinstance(redraw, bool):
            raise NetworkError(f"sweep: redraw is {redraw!r}; pass True or False")
        by_name = {
            name: {key: _with_axis(f"{key} of {shown_owner(name)}", value) for key, value in own.items()}
            for name, own in (values or {}).items()
        }
        given = {label: _with_axis(f"inputs {shown_label(label)!r}", value) for label, value in (inputs or {}).items()}
        return cls(by_name, given, None if seeds is None else _seeds(seeds), redraw)

    @property
    def lengths(self) -> dict[str, int]:
        """How many elements each array has, by what it is."""
        found = {
            f"{key} of {shown_owner(name)}": len(value)
            for name, own in self.values.items()
            for key, value in own.items()
        }
        found |= {f"inputs {shown_label(label)!r}": len(value) for label, value in self.inputs.items()}
        return found if self.seeds is None else found | {"seeds": len(self.seeds)}

    @property
    def count(self) -> int:
        """How many elements there are; raise if arrays differ in it."""
        lengths = self.lengths
        if not lengths:
            raise NetworkError("sweep: nothing differs between elements; pass values=, seeds= or inputs=")
        longest = max(lengths, key=lambda what: lengths[what])
        for what, length in lengths.items():
            if not length:
                raise NetworkError(f"sweep: {what} has 0 elements; pass at least one")
            if length not in (1, lengths[longest]) or (what == "seeds" and length != lengths[longest]):
                raise NetworkError(
                    f"sweep: {what} has {_elements(length)}, but {longest} has {_elements(lengths[longest])}; pass "
                    "arrays whose first axis is over the elements, or has length 1 for all of them"
                )
        return lengths[longest]


def _elements(length: int) -> str:
    return f"{length} element{'' if length == 1 else 's'}"


def _with_axis(what: str, value: Any) -> Any:
    """Return a value that has an axis over elements."""
    array = value if hasattr(value, "shape") else np.asarray(value)
    if not len(array.shape):
        raise NetworkError(
            f"sweep: {what} is {value!r}; pass an array whose first axis is over elements, or [{value!r}]"
        )
    return array


def _seeds(seeds: Any) -> list[int]:
    array = np.asarray(seeds, object)
    if array.ndim != 1:
        raise NetworkError(f"sweep: seeds is {seeds!r}; pass a list of integers, or range(10)")
    return list(array)


def _of_element(value: Any, k: int) -> Any:
    return value[0 if len(value) == 1 else k]


class Elements:
    """All elements of a sweep of so many steps, each made when it is asked for; several threads may ask.

    Values and inputs are checked at once; whether sums of weights fit into 32 bits is known when an element is made.
    """

    def __init__(self, now: Now, swept: Swept, steps: int):
        self.now, self.swept, self._count = now, swept, swept.count
        self._lock, self._kept = threading.Lock(), OrderedDict[bytes, tuple[Weights, Any]]()
        plan = now.weights.plan
        self._names, self._plastic = {p.name for p in plan.populations}, {*plan.plastic_by_name}
        self._values, self._parts = parted(plan, "sweep: values", swept.values)
        if swept.seeds is not None and now.network is None:
            raise NetworkError("sweep: seeds need the description of the network; build it by Network.build")
        self.redraws = swept.seeds is not None and swept.redraw and any(map(is_drawn, _links(now.network)))
        self._split = [self._split_of(k) for k in range(self._count)]
        self._split_parts = [self._parts_of(k) for k in range(self._count)]
        self._given = [
            checked_inputs(plan, {label: _of_element(x, k) for label, x in swept.inputs.items()}, steps)
            for k in range(self._count)
        ]

    @property
    def first(self) -> int:
        """The number of the first step of all elements."""
        return int(self.now.state.step) if self.swept.seeds is None else 0

    @property
    def sweeps_weights(self) -> bool:
        """Whether weights differ between elements, or synapses."""
        return self.redraws or any(name not in self._names | self._plastic for name in self._values)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, k: int) -> Element:
        """Return an element."""
        what = f"sweep: element {k}"
        weights, populations, state = self._begun(k, what)
        replaced = dict[str, Array]()
        for name, own in self._values.items():
            if name not in self._names and name not in self._plastic:
                values = {key: _of_element(value, k) for key, value in own.items()}
                replaced |= given_weights(weights, name, values, what)
        if replaced:
            weights, arriving = self._replaced(weights, state, replaced, what)
            state = dataclasses.replace(state, arriving=arriving, quanta=weights.plan.quanta)
        params, neurons, synapses = self._params(populations), dict(state.neurons), dict(state.synapses)
        split = self._split[k] | (self._split_plastic(weights.plan, k) if self.redraws else {})
        for name, (own_params, own_states) in split.items():
            params[name] = {**params[name], **own_params}
            states = synapses if name in self._plastic else neurons
            states[name] = {**states[name], **own_states}
        for part, given in self._split_parts[k]:
            for tree in (params, neurons):
                own = tree[part.population]
                numbers = part.numbers
                some = {key: replaced_at(own[key], numbers, x) for key, x in given.items() if key in own}
                tree[part.population] = {**own, **some}
        plan = weights.plan
        if self.swept.seeds is not None:
            both = zip(plan.populations, populations, strict=True)
            keyed = tuple(dataclasses.replace(p, key=other.key) for p, other in both)
            plan = dataclasses.replace(plan, populations=keyed)
        return Element(plan, params, dataclasses.replace(state, neurons=neurons, synapses=synapses), self._given[k])

    def _split_of(self, k: int) -> dict[str, tuple[dict[str, Array], dict[str, Array]]]:
        """Return parameters and states of an element, by population, checked; weights are looked at, too."""
        found, plan = {}, self.now.weights.plan
        for name, own in self._values.items():
            values = {key: _of_element(value, k) for key, value in own.items()}
            if name in self._names:
                found[name] = split_values(plan.population(name), values, f"sweep: element {k}")
            elif not self.redraws and name not in self._plastic:  # else their number is not known yet
                given_weights(self.now.weights, name, values, f"sweep: element {k}")
        return found if self.redraws else found | self._split_plastic(plan, k)

    def _parts_of(self, k: int) -> list[tuple[PartValues, dict[str, Array]]]:
        """Return the values of parts in an element, checked."""
        found = []
        for part in self._parts:
            own = {key: _of_element(value, k) for key, value in part.values.items()}
            found.append((part, values_of_part(dataclasses.replace(part, values=own), f"sweep: element {k}")))
        return found

    def _split_plastic(self, plan: Plan, k: int) -> dict[str, tuple[dict[str, Array], dict[str, Array]]]:
        """Return parameters, weights and states of an element, by plastic projection, checked."""
        return {
            name: split_plastic(
                plan, name, {key: _of_element(value, k) for key, value in own.items()}, f"sweep: element {k}"
            )
            for name, own in self._values.items()
            if name in self._plastic
        }

    def _wirings(self) -> list[Any]:
        make = self.now.weights.wirings
        assert make is not None
        return list(make())

    def _begun(self, k: int, what: str) -> tuple[Weights, Sequence[PopulationPlan], NetworkState]:
        """Return the weights, populations and state of an element before its own values."""
        now, seeds = self.now, self.swept.seeds
        if seeds is None:
            return now.weights, now.weights.built.populations, now.state
        if not self.redraws:
            plan = reseeded_plan(now.weights.plan, now.network, seeds[k])
            return now.weights, plan.populations, initial_state(plan)
        wirings = self._wirings()
        plan = redrawn_plan(now.weights.built, now.network, wirings, seeds[k])
        weights, state = weights_as_built(plan, lambda: wirings), initial_state(plan)
        if now.weights.replaced:
            set_before = {name: one.reshape(()) if one.size == 1 else one for name, one in now.weights.replaced.items()}
            found = {name: given_weights(weights, name, {"weights": one}, what) for name, one in set_before.items()}
            replaced = {name: one for own in found.values() for name, one in own.items()}
            weights, state = going_on(what, weights, state, plan.quanta, replaced, setting=True)
        return weights, plan.populations, state

    def _params(self, populations: Sequence[PopulationPlan]) -> dict[str, Any]:
        """Return all parameters, of which those that were set since the build stay."""
        now, built = self.now.params, self.now.built
        if self.swept.seeds is None:
            return dict(now)
        own = {
            p.name: {
                key: x if now[p.name][key] is built[p.name][key] else now[p.name][key] for key, x in p.params.items()
            }
            for p in populations
        }
        return own | {name: now[name] for name in self._plastic}

    def _replaced(
        self, weights: Weights, state: NetworkState, replaced: Mapping[str, Array], what: str
    ) -> tuple[Weights, Any]:
        """Return weights of which some are replaced, and pending input in their quanta: once for equal ones."""
        if self.redraws:
            found, after = going_on(what, weights, state, weights.plan.quanta, replaced, setting=True)
            return found, after.arriving
        key = _content(replaced)
        with self._lock:
            if key not in self._kept:
                found, after = going_on(what, weights, state, weights.plan.quanta, replaced, setting=True)
                self._kept[key] = found, after.arriving
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]


def _links(network: Any) -> list[Any]:
    return [*network.projections, *network.couplings]


def _content(weights: Mapping[str, Array]) -> bytes:
    """Return a hash of weights by projection."""
    found = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name], np.float64)
        found.update(f"{name!r} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.digest()
