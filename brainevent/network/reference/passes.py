# SPDX-License-Identifier: Apache-2.0
"""`Passes`: the components of a network, one after another, each over all steps; and the products between them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer
from ...errors import NetworkError
from ..plan.plan import Plan
from ..state import NetworkState
from ..surrogate import SpikeTimes
from .carried import carriers
from .components import Component, Given, Runner, components
from .loop import in_unit
from .outputs import Outputs
from .products import Numbers, Operand, Product, Sums, added, products
from .quanta import Receptor, dtypes_of_sums
from .spike_times import at_first

__all__ = ["Between", "Fixed", "Passes", "fixed_of", "parts_of", "passes"]

Array = Any
_MOST = 2**26  # spikes and currents that are in memory at a time
Tree = Mapping[str, Mapping[str, Array]]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Fixed:
    """What a network has besides what is given in a call, and what other weights change: operands of a program.

    Attributes:
        quanta: By population and receptor, a number.
        numbers: By projection whose weights are not given, those of the plan.
    """

    quanta: Mapping[Receptor, Array]
    numbers: Mapping[str, Numbers]


def fixed_of(plan: Plan, given: Collection[str]) -> Fixed:
    """Return what a network has, of which the weights of some projections are given."""
    of_plan = products(plan, given, dtypes_of_sums(plan))
    quanta = {(p.name, receptor): quantum for p in plan.populations for receptor, quantum in p.quanta.items()}
    return Fixed(quanta, {one.about.name: one.numbers() for one in of_plan if not one.given})


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Between:
    """What some steps pass to the next ones.

    Pending input is in quanta, (rows, neurons), in order of arrival: row k arrives k steps after the next one. It has
    two parts that add up, whole numbers and floats; a receptor that is missing has none.
    """

    step: Array
    neurons: Tree
    whole: Mapping[Receptor, Array]
    floats: Mapping[Receptor, Array]
    filled: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Passes:
    """A network with the parameters of its neurons, the weights that are given, and those of all couplings.

    `products` are all projections, with their weights; `quanta` are those of all receptors; `sums` are dtypes in which
    sums of whole numbers are exact. Sums in the states of the receptors in `fractional` need not be whole numbers.
    """

    plan: Plan
    components: Sequence[Component]
    products: Sequence[tuple[Product, Operand]]
    outputs: Outputs
    params: Tree
    weights: Mapping[str, Array]
    keys: Mapping[str, Array]
    quanta: Mapping[Receptor, Array]
    sums: Mapping[Receptor, str]
    fractional: Collection[Receptor]
    fine: Array | None
    runner: Runner
    surrogate: Callable[[Array], Array] | None

    @property
    def longest(self) -> int:
        """Of how many steps the spikes between components fit in memory; more steps run in chunks."""
        senders = {name: c.size(name) for c in self.components for name in c.sends}
        inner = {one.about.name for c in self.components for one in c.products}
        outer = [(one.place, one.neurons) for one, _ in self.products if one.about.name not in inner]
        return max(1, _MOST // max(1, sum(senders.values()) + sum(dict(outer).values())))

    def start(self, state: NetworkState, *, complete: bool) -> Between:
        """Return what the first step begins with; if `complete`, with all pending input that later steps may have."""
        neurons = {
            p.name: {key: jnp.asarray(state.neurons[p.name][key], p.state[key].dtype) for key in p.state}
            | at_first(p, self.surrogate)
            for p in self.plan.populations
        }
        whole, floats = dict[Receptor, Array](), dict[Receptor, Array]()
        for place in self.plan.receptors():
            sums = state.arriving[place[0]][place[1]]
            if complete or isinstance(sums, Tracer) or np.any(sums):
                found, dtype = (floats, self.plan.dtype) if place in self.fractional else (whole, self.sums[place])
                found[place] = jnp.asarray(sums).astype(dtype)
        for one, _ in self.products if complete else ():
            shape = self.plan.rows(*one.place), one.neurons
            if not one.given:
                whole.setdefault(one.place, jnp.zeros(shape, one.whole))
            if one.given or one.graded or one.whole == "int32":
                floats.setdefault(one.place, jnp.zeros(shape, self.plan.dtype))
        return Between(jnp.asarray(state.step, np.uint32), neurons, whole, floats, self.outputs.start())

    def run(self, before: Between, inputs: Mapping[str, Array], steps: int) -> tuple[Between, dict[str, Array]]:
        """Run some steps, given the inputs of receptors, (steps, neurons) or (steps, 1), as any numbers."""
        inputs = {label: jnp.asarray(x, self.plan.dtype) for label, x in inputs.items()}
        spikes, last, filled, rows = (dict[str, Array]() for _ in range(4))
        neurons = dict[str, Mapping[str, Array]]()
        for component in self.components:
            ran = self.runner(component, self._given(component, before, inputs, spikes, steps), steps)
            spikes |= ran.spikes
            last |= ran.last
            neurons |= ran.states
            filled |= ran.filled
            rows |= ran.rows
        for name, all_ in spikes.items():
            last[name] = _ending(all_, max(one.depth for one, _ in self.products if one.about.source == name))
        after = {place: self._pending(place, before, last, steps) for place in self.plan.receptors()}
        whole = {place: sums.whole for place, sums in after.items() if sums.whole is not None}
        floats = {place: sums.floats for place, sums in after.items() if sums.floats is not None}
        return Between(before.step + np.uint32(steps), neurons, whole, floats, filled), rows

    def _given(
        self,
        component: Component,
        before: Between,
        inputs: Mapping[str, Array],
        spikes: Mapping[str, Array],
        steps: int,
    ) -> Given:
        """Return what a component runs with, after all those whose spikes it receives."""
        currents, whole = dict[Receptor, Array](), dict[Receptor, Array]()
        for p in component.populations:
            for receptor in p.quanta:
                place, label = (p.name, receptor), f"{p.name}.{receptor}"
                quantum = self.quanta[place]
                sums = [_arriving(before, place, quantum, steps), self._from_others(component, place, spikes)]
                found = added(sums)
                if any(one.place == place and not one.given for one in component.products):
                    whole |= {} if found.whole is None else {place: found.whole}
                    found = Sums(None, found.floats)
                parts = [in_unit(found, quantum)] if jax.tree.leaves(found) else []
                parts += [inputs[label]] if label in inputs else []
                currents |= {place: functools.reduce(jnp.add, parts)} if parts else {}
        names = [p.name for p in component.populations]
        params, states = ({name: tree[name] for name in names} for tree in (self.params, before.neurons))
        keys = {name: self.keys[name] for name in names}
        inner = {one.about.name for one in component.products}
        weights = {name: weights for name, weights in self.weights.items() if name in inner}
        filled = {label: before.filled[label] for label in component.outputs.start()}
        coupled = {one.plan.name: self.weights[one.plan.name] for one in component.couplings}
        numbers = {one.about.name: own for one, own in self.products if isinstance(own, Numbers)}
        numbers = {name: own for name, own in numbers.items() if name in inner}
        quanta = {place: quantum for place, quantum in self.quanta.items() if place[0] in names}
        own = currents, whole, weights, params, states, keys, before.step, filled, self.fine
        return Given(*own, quanta, numbers, coupled)

    def _from_others(self, component: Component, place: Receptor, spikes: Mapping[str, Array]) -> Sums:
        """Return what arrives at a receptor because of spikes of other components."""
        inner = {p.name for p in component.populations}
        outer = [(one, w) for one, w in self.products if one.place == place and one.about.source not in inner]
        return added(one.arriving(spikes[one.about.source], operand) for one, operand in outer)

    def _pending(self, place: Receptor, before: Between, last: Mapping[str, Array], steps: int) -> Sums:
        """Return the pending input of a receptor after some steps, in quanta; `last` are the last spikes."""
        rows = self.plan.rows(*place)
        kept = _shifted(Sums(before.whole.get(place), before.floats.get(place)), steps)
        sent = added(
            one.pending(_last(last[one.about.source], one.depth), operand, rows)
            for one, operand in self.products
            if one.place == place
        )
        floats = None if sent.floats is None else sent.floats / self.quanta[place]
        return added([kept, Sums(sent.whole, floats)])

    def state(self, after: Between, like: NetworkState, dtypes: Mapping[Receptor, Any]) -> NetworkState:
        """Return the state after some steps, in the quanta of another, with sums in some dtypes."""
        arriving: dict[str, dict[str, Array]] = {p.name: {} for p in self.plan.populations}
        for place in self.plan.receptors():
            name, receptor = place
            shape, dtype = (self.plan.rows(*place), self.plan.population(name).size), dtypes[place]
            parts = [jnp.zeros(shape, dtype)]
            parts += [after.whole[place].astype(dtype)] if place in after.whole else []
            if place in after.floats and dtype != np.int32:  # those of integers are zeros that have derivatives
                parts.append(after.floats[place].astype(dtype))
            arriving[name][receptor] = functools.reduce(jnp.add, parts[1:] or parts)
        neurons = {p.name: {key: after.neurons[p.name][key] for key in p.state} for p in self.plan.populations}
        return NetworkState(after.step, neurons, arriving, like.quanta)


def _arriving(before: Between, place: Receptor, quantum: Array, steps: int) -> Sums:
    """Return what arrives in some steps of the pending input before them."""
    whole, floats = before.whole.get(place), before.floats.get(place)
    waiting = Sums(whole, None if floats is None else floats * quantum)
    return jax.tree.map(lambda x: jnp.pad(x[:steps], ((0, max(0, steps - len(x))), (0, 0))), waiting)


def _ending(spikes: Array, depth: int) -> Array:
    """Return the spikes of the last steps, (depth, neurons), with zeros before the first step."""
    if len(spikes) < depth:
        spikes = jnp.pad(spikes, ((depth - len(spikes), 0), (0, 0)))
    return _last(spikes, depth)


def _last(rows: Array, count: int) -> Array:
    return rows if len(rows) == count else rows[len(rows) - count :]


def _shifted(pending: Sums, steps: int) -> Sums:
    """Return pending input after some steps, on the devices on which it was."""

    def shifted(x: Array) -> Array:
        rows = np.arange(len(x))
        return jnp.where((rows < len(x) - steps)[:, None], x[(rows + steps) % len(x)], 0)

    return jax.tree.map(shifted, pending)


def passes(
    plan: Plan,
    outputs: Outputs,
    params: Tree,
    weights: Mapping[str, Array],
    keys: Mapping[str, Array],
    surrogate: Callable[[Array], Array] | None,
    fractional: Collection[Receptor],
    fine: Array | None,
    runner: Runner,
    fixed: Fixed,
) -> Passes:
    """Return a network with the parameters of its neurons, its weights, and what runs its components.

    The weights of all couplings are among those that are given.
    """
    graded = [p.name for p in plan.populations if p.rule.value]
    if graded and isinstance(surrogate, SpikeTimes):
        raise NetworkError(
            f"simulate: spikes of {', '.join(graded)} have values, which spike_times() does not differentiate; pass "
            "another surrogate, such as fast_sigmoid(25)"
        )
    sums = dtypes_of_sums(plan)
    of_plan = products(plan, weights, sums, getattr(runner, "times", None))
    names = ((one, one.about.name) for one in of_plan)
    found = [(one, one.operand(weights[name]) if one.given else fixed.numbers[name]) for one, name in names]
    own = parts_of(plan, of_plan, outputs, surrogate), found, outputs, params, weights, keys, fixed.quanta
    return Passes(plan, *own, sums, fractional, fine, runner, surrogate)


def parts_of(
    plan: Plan, of_plan: Sequence[Product], outputs: Outputs, surrogate: Callable[[Array], Array] | None
) -> list[Component]:
    """Return the components of a network, in the order in which they run."""
    parts, carried = [], carriers(plan)
    for names in components(plan):
        ends = [(one, one.about.source in names, one.about.target in names) for one in of_plan]
        inner = tuple(one for one, begins, ends_here in ends if begins and ends_here)
        sends = {one.about.source for one, begins, ends_here in ends if begins and not ends_here}
        populations = tuple(plan.population(name) for name in names)
        of_these = tuple(name for name in names if name in sends)
        own = tuple(one for one in carried if one.plan.source in names)
        parts.append(Component(populations, inner, outputs.of(names), of_these, surrogate, plan.dtype, own))
    return parts
