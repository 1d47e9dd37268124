# SPDX-License-Identifier: Apache-2.0
"""The plain runner: a component as a loop of JAX over steps, and gradients of its weights as one product after it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from ..._compat import varying_alike
from ..plan.pending import in_place_of
from .carried import Carried, brought
from .components import Component, Given, Ran
from .outputs import Outputs
from .products import Operand, Product, Sums, added
from .quanta import Receptor
from .update import Updated, updated

__all__ = ["run_component"]

Array = Any
_UNROLLED = 8  # turns of a loop on a GPU
Tree = Mapping[str, Mapping[str, Array]]
State = tuple[Tree, Array, Mapping[str, Array]]  # of neurons; the number of the step; what steps fill
Rows = tuple[dict[str, Array], dict[str, Array]]  # what populations send, and what is recorded


def run_component(component: Component, given: Given, steps: int) -> Ran:
    """Run a component over some steps, in plain JAX: the runner of all components that no other one supports."""
    return _at_once(component, given, steps) if component.timeless else _run(component, steps, given)


def _at_once(component: Component, given: Given, steps: int) -> Ran:
    """Run populations of which no step depends on another one."""
    spikes = {}
    for p in component.populations:
        arriving = {r: _currents(component, given, (p.name, r), steps) for r in p.quanta}
        of_step = _of_arriving(component, p.name, given, given.step)
        spikes[p.name] = jax.vmap(of_step, axis_size=steps)({}, arriving).spikes
    if given.fine is not None:
        spikes = in_place_of(given.fine, spikes)
    rows, filled = component.outputs.whole(given.filled, given.step, {}, spikes)
    return Ran({name: spikes[name] for name in component.sends}, {}, rows, filled, given.states)


def _of_arriving(component: Component, name: str, given: Given, step: Array) -> Callable[..., Updated]:
    """Return a step of a population as a function of its states, and of what arrives."""
    p = next(p for p in component.populations if p.name == name)

    def of(states: Mapping[str, Array], arriving: Mapping[str, Array]) -> Updated:
        return updated(p, states, arriving, given.params[name], step, given.keys[name], component.surrogate)

    return of


def _currents(component: Component, given: Given, place: Receptor, steps: int) -> Array:
    """Return the currents of a receptor, (steps, neurons)."""
    shape = steps, component.size(place[0])
    found = given.currents.get(place)
    return jnp.zeros(shape, component.dtype) if found is None else jnp.broadcast_to(found, shape)


# ---- derivatives


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _run(component: Component, steps: int, given: Given) -> Ran:
    return _Loop(component, given, component.sends).run(steps)


@functools.partial(_run.defjvp, symbolic_zeros=True)
def _run_jvp(component: Component, steps: int, primals: tuple[Given], tangents: tuple[Given]) -> tuple[Ran, Ran]:
    """Differentiate the loop with its weights held fixed: what they add to currents is one product over all steps."""
    (given,), (rates,) = primals, tangents
    trained = [one for one in component.products if one.given and not _is_zero(rates.weights[one.about.name])]
    whole = {one.place: _currents(component, given, one.place, steps) for one in trained}
    nothing = {place: SymbolicZero(jax.typeof(x)) for place, x in whole.items()}
    moved = {place: _currents(component, rates, place, steps) for place in whole if _moves(rates.currents.get(place))}
    given = replace(given, currents={**given.currents, **whole})
    rates = replace(rates, currents={**rates.currents, **nothing, **moved})

    leaves, tree = jax.tree.flatten(given)
    number = jax.tree.unflatten(tree, range(len(leaves)))
    all_rates = jax.tree.leaves(rates)
    still = {k for k, rate in enumerate(all_rates) if _is_zero(rate)} | {*number.weights.values()}
    moving = sorted({*range(len(leaves))} - still | {number.currents[place] for place in whole})
    listed = {*component.sends, *(one.about.source for one in trained)}

    def of_moving(*values: Array) -> tuple[Ran, Mapping[str, Array]]:
        changed = dict(zip(moving, values, strict=True))
        with_values = jax.tree.unflatten(tree, [changed.get(k, leaf) for k, leaf in enumerate(leaves)])
        ran = _Loop(component, with_values, listed).run(steps)
        return replace(ran, spikes={name: ran.spikes[name] for name in component.sends}), ran.spikes

    ran, along, spikes = jax.linearize(of_moving, *(leaves[k] for k in moving), has_aux=True)
    for one in trained:
        k, weights = number.currents[one.place], one.operand(rates.weights[one.about.name])
        sums = one.arriving(spikes[one.about.source], weights).floats
        if sums is not None:
            all_rates[k] = all_rates[k] + sums if _moves(all_rates[k]) else sums
    return ran, along(*(_array(all_rates[k]) for k in moving))


def _is_zero(rate: Any) -> bool:
    return isinstance(rate, SymbolicZero)


def _moves(rate: Any) -> bool:
    return rate is not None and not _is_zero(rate)


def _array(rate: Any) -> Array:
    return jnp.zeros(rate.aval.shape, rate.aval.dtype) if _is_zero(rate) else rate


# ---- the loop


@dataclass(frozen=True, eq=False)
class _Loop:
    """The loop of a component, over blocks of steps. What populations in `listed` send is returned.

    A block has as many steps as the smallest delay, or fewer: all that arrives in it is then one product.
    """

    component: Component
    given: Given
    listed: Collection[str]

    def run(self, steps: int) -> Ran:
        """Run steps."""
        c, given = self.component, self.given
        most = min((one.delays[0] for one in c.products), default=1)
        block = next(k for k in range(min(most, steps), 0, -1) if steps % k == 0)
        rows = given.currents, given.whole
        body = self._turn
        if block > 1:
            rows = jax.tree.map(lambda x: x.reshape(-1, block, *x.shape[1:]), rows)
            body = functools.partial(self._block, block)
        past = {p.name: jnp.zeros((c.depth(p.name), p.size), c.dtype) for p in c.populations if c.depth(p.name)}
        if block == 1:  # XLA copies a row that is not a vector
            past = {name: rows[0] if len(rows) == 1 else rows for name, rows in past.items()}
        start = past, (given.states, jnp.asarray(given.step, np.uint32), given.filled)
        turns, start = steps // block, varying_alike(start, given)
        (last, (states, _, filled)), found = jax.lax.scan(body, start, rows, turns, unroll=_unroll(turns))
        if block > 1:
            found = jax.tree.map(lambda x: x.reshape(steps, *x.shape[2:]), found)
        last = {name: rows.reshape(-1, c.size(name)) for name, rows in last.items()}
        spikes, recorded = found
        recorded |= {f"{name}.spikes": spikes[name] for name in c.outputs.wanted.spikes if name not in c.graded}
        return Ran({name: spikes[name] for name in self.listed}, last, recorded, filled, states)

    @cached_property
    def _operands(self) -> list[tuple[Product, Operand]]:
        given = {one.about.name: one.operand(self.given.weights[one.about.name]) for one in self._with_weights}
        return [(one, ({**self.given.numbers, **given})[one.about.name]) for one in self.component.products]

    @property
    def _with_weights(self) -> list[Product]:
        return [one for one in self.component.products if one.given]

    @cached_property
    def _carried(self) -> list[tuple[Carried, Array]]:
        return [(one, one.operand(self.given.coupled[one.plan.name])) for one in self.component.couplings]

    def _turn(self, carry: Any, given: Any) -> tuple[Any, Rows]:
        """Run one step, given what arrives in it from elsewhere, (neurons,)."""
        past, state = carry
        arriving = self._arriving(past, jax.tree.map(lambda x: x[None], given), 1)
        state, (spikes, recorded) = self._step(state, jax.tree.map(lambda x: x[0], arriving))
        past = {n: spikes[n] if rows.ndim == 1 else _ending(rows, spikes[n][None]) for n, rows in past.items()}
        return (past, state), self._returned(spikes, recorded)

    def _block(self, count: int, carry: Any, given: Any) -> tuple[Any, Rows]:
        """Run the steps of a block, given what arrives in it from elsewhere, (count, neurons)."""
        past, state = carry
        arriving = self._arriving(past, given, count)
        state, (spikes, recorded) = jax.lax.scan(self._step, state, arriving, unroll=_unroll(count))
        past = {name: _ending(rows, spikes[name]) for name, rows in past.items()}
        return (past, state), self._returned(spikes, recorded)

    def _arriving(self, past: Mapping[str, Array], given: Any, count: int) -> dict[Receptor, Sums]:
        """Return all that arrives in some steps, (count, neurons): from elsewhere, and because of earlier spikes."""
        parts = [(place, Sums(None, x)) for place, x in given[0].items()]
        parts += [(place, Sums(x, None)) for place, x in given[1].items()]
        for one, operand in self._operands:
            spikes = past[one.about.source].reshape(-1, one.sources)
            parts.append((one.place, one.within(spikes, operand, count)))
        return {place: added(sums for other, sums in parts if other == place) for place, _ in parts}

    def _step(self, state: State, arriving: Mapping[Receptor, Sums]) -> tuple[State, Rows]:
        """Run a step: states, what is sent, and what is recorded."""
        before, step, filled = state
        c, neurons, spikes, sent = self.component, {}, {}, {}
        carried = brought(self._carried, before)
        for p in c.populations:
            sums = {r: arriving.get((p.name, r), Sums()) for r in p.quanta}
            own = {r: jnp.broadcast_to(in_unit(sums[r], self.given.quanta[p.name, r]), p.size) for r in p.quanta}
            own |= {r: own[r] + carried[p.name, r] for r in own if (p.name, r) in carried}
            neurons[p.name], spikes[p.name], sent[p.name] = _of_arriving(c, p.name, self.given, step)(
                before[p.name], own
            )
        filled = c.outputs.filled(filled, step, neurons, spikes)
        return (neurons, step + np.uint32(1), filled), (sent, self._outputs.row(neurons, spikes))

    @cached_property
    def _outputs(self) -> Outputs:
        """The outputs without spikes that have no values, which are returned only once."""
        outputs = self.component.outputs
        graded = tuple(name for name in outputs.wanted.spikes if name in self.component.graded)
        return replace(outputs, wanted=replace(outputs.wanted, spikes=graded))

    def _returned(self, spikes: Mapping[str, Array], recorded: Mapping[str, Array]) -> Rows:
        """Return what is sent, of those whose rows the loop returns for all steps, and what is recorded."""
        names = {*self.listed, *(n for n in self.component.outputs.wanted.spikes if n not in self.component.graded)}
        rows = {name: rows for name, rows in spikes.items() if name in names}, dict(recorded)
        return rows if self.given.fine is None else in_place_of(self.given.fine, rows)


def _ending(before: Array, after: Array) -> Array:
    """Return the last rows of two arrays of which one follows the other, as many as the first one has."""
    rows = len(before)
    return after[-rows:] if len(after) >= rows else jnp.concatenate([before[len(after) :], after])


def _unroll(length: int) -> int:
    """Return how many turns of a loop XLA gets as one: on a GPU it launches each one, which costs time."""
    most = _UNROLLED if jax.default_backend() == "gpu" else 1
    return next(k for k in range(most, 0, -1) if length % k == 0)


def in_unit(sums: Sums, quantum: Array) -> Array:
    """Return what arrives at a receptor in its unit."""
    if sums.whole is None:
        return quantum.dtype.type(0) if sums.floats is None else sums.floats
    whole = sums.whole.astype(quantum.dtype) * quantum
    return whole if sums.floats is None else whole + sums.floats
