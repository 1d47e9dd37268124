# SPDX-License-Identifier: Apache-2.0
"""E-prop in native code: some steps forward, the same steps back neuron by neuron, and then all synapses at once.

In a block of steps, the trace of a synapse is linear in what it was before and in the spikes of its source, with
coefficients that depend on its target alone. These are what the adjoint of the rule returns when the steps of the block
are run back, each neuron by itself. So only their effect on synapses takes work for each synapse: once for a block, and
once for each spike. Gradients are those of traces that are followed step by step, but for rounding, and what is stored
does not depend on how many blocks follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import varying_alike
from ..learner import Learner, Synapses, linear, names_of_floats
from ..plan.pending import in_place_of
from ..plan.plan import Plan, PopulationPlan
from ..reference.components import Component, Given, Ran
from ..reference.outputs import Outputs
from ..reference.passes import Between, Fixed, Passes, fixed_of, parts_of, passes
from ..reference.prepare import checked_keys
from ..reference.products import Product, products
from ..run.recorded import Sample, Wanted
from ..state import NetworkState
from .cells import cells_of
from .change import Change, sent
from .runner import NativeRunner, Stored

__all__ = ["in_blocks", "in_plain_jax"]

Array = Any
Carry = tuple[Between, dict[str, Array], dict[str, Array], dict[str, Array]]
_MOST = 256  # steps of a block
_READ = "read"


def in_plain_jax(learner: Learner, runner: NativeRunner) -> str:
    """Say why a network does not learn in native code; nothing if it does."""
    hidden = {s.plan.target for s in learner.hidden}
    for component in _parts(learner.plan, learner.surrogate):
        if hidden.isdisjoint(p.name for p in component.populations):
            continue
        if why := runner.refusal(component):
            return why
        silent = [cell.population.name for cell in cells_of(component, ()).cells if not cell.adjoint.spiking]  # type: ignore[union-attr]
        if not hidden.isdisjoint(silent):
            return f"spikes of {', '.join(silent)} have no derivative"
    return ""


def _parts(plan: Plan, surrogate: Callable[[Array], Array] | None) -> list[Component]:
    """Return components of which all weights are given, and of which nothing is recorded."""
    of_plan = products(plan, [about.name for about in plan.projections], dict.fromkeys(plan.receptors(), "int32"))
    return parts_of(plan, of_plan, Outputs(plan, Wanted(), 1, np.uint32(0)), surrogate)


def in_blocks(
    learner: Learner, runner: NativeRunner, state: NetworkState, inputs: Mapping[str, Array], steps: int
) -> tuple[Array, dict[str, Array], NetworkState]:
    """Return the loss, the gradients in the shapes of the weights, and the state after some steps."""
    plan, weights = learner.plan, learner.weights
    length = -(-steps // -(-steps // _MOST))
    outputs = Outputs(plan, _wanted(learner), length, jnp.asarray(state.step, np.uint32))
    fixed = Fixed(fixed_of(plan, weights).quanta, {})
    network = passes(
        plan, outputs, learner.params, weights, checked_keys(plan, {}), learner.surrogate, set(plan.receptors()), None,
        runner, fixed,
    )  # fmt: skip
    blocks = _Blocks(learner, runner, network)
    fine = jnp.array([jnp.isfinite(x).all() for x in weights.values()]).all()
    results = blocks.run(state, inputs, steps, length)
    return in_place_of(fine, results) if weights else results


def _wanted(learner: Learner) -> Wanted:
    """Return what is recorded: spikes of all sources of synapses that learn, and what is read."""
    out = learner.readout
    state = names_of_floats(out)[learner.read]
    sources = tuple(dict.fromkeys(s.plan.source for s in learner.learning))
    return Wanted(spikes=sources, samples={_READ: Sample(out.name, state, 1, np.arange(out.size))})


@dataclass(frozen=True, eq=False)
class _Storing:
    """Runs components; what the steps back of populations that learn read is in `stored`, by population."""

    runner: NativeRunner
    learning: Collection[str]
    stored: dict[str, Stored]

    def __call__(self, component: Component, given: Given, steps: int) -> Ran:
        """Run a component."""
        own = [p.name for p in component.populations if p.name in self.learning]
        if not own:
            return self.runner(component, given, steps)
        ran, stored = self.runner.stored(component, given, steps)
        self.stored.update(dict.fromkeys(own, stored))
        return ran


@dataclass(frozen=True, eq=False)
class _Linear:
    """The steps of a block of a rule that is linear, with the same coefficients for all neurons.

    Attributes:
        powers: Of the matrix by which new states depend on states, (steps + 1, states, states).
        by_arriving: How new states depend on what arrives, (states, receptors).
    """

    powers: Array
    by_arriving: Array

    @classmethod
    def of(cls, coefficients: tuple[Array, Array], steps: int) -> _Linear:
        """Return the steps of a block."""
        matrix, by_arriving = coefficients

        def next_one(power: Array, _: None) -> tuple[Array, Array]:
            after = jnp.matmul(matrix, power, precision=jax.lax.Precision.HIGHEST)
            return after, after

        first = jnp.eye(len(matrix), dtype=matrix.dtype)
        _, others = jax.lax.scan(next_one, varying_alike(first, matrix), None, steps)
        return cls(jnp.concatenate([first[None], others]), by_arriving)

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.powers) - 1

    def later(self, receptor: int) -> Array:
        """Return how states after the last step depend on what arrives in each step, (states, steps)."""
        return jnp.flip(self.powers[:-1] @ self.by_arriving[:, receptor], 0).T

    def after(self, terms: Array, receptor: int, came: Array) -> Array:
        """Return states (states, delays, sources) after the block, in which spikes (delays, steps, sources) came."""
        precision = jax.lax.Precision.HIGHEST
        kept = jnp.einsum("kl,ldi->kdi", self.powers[-1], terms, precision=precision)
        return kept + jnp.einsum("kt,dti->kdi", self.later(receptor), came, precision=precision)


@dataclass(frozen=True, eq=False)
class _Errors:
    """The derivatives of the loss by what is read in each step of a block, (steps, neurons), and what follows."""

    of_readout: _Linear
    read: int
    values: Array

    def before(self, first: int) -> Array:
        """Return derivatives by the states before the block, or with `first` 0 by those that its first step makes.

        These are (states, neurons).
        """
        rows = self.of_readout.powers[first : first + self.of_readout.steps, self.read]
        return jnp.matmul(rows.T, self.values, precision=jax.lax.Precision.HIGHEST)

    def arriving(self, receptor: int) -> Array:
        """Return derivatives by what arrives in each step, (steps, neurons)."""
        steps = np.arange(self.of_readout.steps)
        since = steps - steps[:, None]
        answer = self.of_readout.powers[:-1, self.read] @ self.of_readout.by_arriving[:, receptor]
        return jnp.matmul(
            jnp.where(since >= 0, answer[np.maximum(since, 0)], 0), self.values, precision=jax.lax.Precision.HIGHEST
        )


@dataclass(frozen=True, eq=False)
class _Back:
    """What the steps of a block back give for a population that learns.

    Values of its synapses are the gradient; filtered traces, one for each state of the readout; and traces, one for
    each state, unless these are the same for all targets.
    """

    maps: Array
    factors: Array
    rows: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class _Blocks:
    """A network that learns block by block."""

    learner: Learner
    runner: NativeRunner
    network: Passes

    @property
    def plan(self) -> Plan:
        """The network."""
        return self.learner.plan

    def run(
        self, state: NetworkState, inputs: Mapping[str, Array], steps: int, length: int
    ) -> tuple[Array, dict[str, Array], NetworkState]:
        """Run blocks of some length, and then a last one of at most so many steps, after which no trace is needed."""
        learner, before = self.learner, (steps - 1) // length * length
        given = jnp.arange(steps, dtype=np.int32), dict(inputs)
        others = learner.params, learner.weights, learner.feedback, given
        carry = varying_alike(self._start(state), *others)
        total, block = jnp.zeros((), self.plan.dtype), self._block_of(length)
        if before:  # the first one makes traces, which those in the loop replace
            carry, total = block(carry, jax.tree.map(lambda x: x[:length], given))
        if before > length:
            cut = jax.tree.map(lambda x: x[length:before].reshape(-1, length, *x.shape[1:]), given)
            carry, losses = jax.lax.scan(block, carry, cut)
            total += losses.sum()
        last = self._block_of(steps - before, last=True)
        carry, loss = last(carry, jax.tree.map(lambda x: x[before:], given))
        between, _, _, values = carry
        gradients = {s.name: self._gradient(s, values) for s in learner.learning}
        after = self.network.state(between, state, dict.fromkeys(self.plan.receptors(), self.plan.dtype))
        return total + loss, gradients, after

    @cached_property
    def _products(self) -> dict[str, Product]:
        return {one.about.name: one for one, _ in self.network.products}

    @cached_property
    def _learning(self) -> list[Product]:
        return [self._products[s.name] for s in self.learner.learning if s.name in self._products]

    @cached_property
    def _shared(self) -> dict[str, tuple[Array, Array]]:
        """The coefficients of linear rules, by population: their traces are the same for all targets."""
        names = dict.fromkeys(s.plan.target for s in self.learner.learning)
        found = {name: linear(self.plan.population(name), self.learner.params[name]) for name in names}
        return {name: one for name, one in found.items() if one is not None}

    def _states(self, population: str) -> list[str]:
        return names_of_floats(self.plan.population(population))

    def _start(self, state: NetworkState) -> Carry:
        """Return what the first block begins with: the network, spikes before it, and no values of synapses."""
        past, terms, values = dict[str, Array](), dict[str, Array](), dict[str, Array]()
        for one in self._learning:
            name, target, dtype = one.about.name, one.about.target, self.plan.dtype
            depth = max(other.depth for other in self._learning if other.about.source == one.about.source)
            past[one.about.source] = jnp.zeros((depth, one.sources), np.uint8)
            states = len(self._states(target)) if target in self._shared else 0
            terms[name] = jnp.zeros((states, len(one.delays), one.sources), dtype)
            of_each = (len(one.delays), one.sources, one.neurons) if one.dense else (one.about.entries,)
            values[name] = jnp.zeros((0, *of_each), dtype)
        return self.network.start(state, complete=True), past, terms, values

    def _block_of(self, steps: int, *, last: bool = False) -> Callable[[Carry, Any], tuple[Carry, Array]]:
        """Return a block of some steps, as a function of what it begins with and what it is given.

        After the last one there are gradients and no traces.
        """
        rules = {name: _Linear.of(one, steps) for name, one in self._shared.items()}
        out = self.learner.readout.name
        of_readout = rules.get(out) or _Linear.of(
            linear(self.learner.readout, self.learner.params[out]),  # type: ignore[arg-type]
            steps,
        )

        def block(carry: Carry, given: Any) -> tuple[Carry, Array]:
            turns, inputs = given
            between, past, terms, values = carry
            stored = dict[str, Stored]()
            storing = _Storing(self.runner, {one.about.target for one in self._learning} - {out}, stored)
            between, rows = replace(self.network, runner=storing).run(between, inputs, steps)
            losses, slopes = jax.lax.map(lambda both: self.learner.error_of(*both), (turns, rows[_READ]))
            errors = _Errors(of_readout, self.learner.read, slopes)
            back = {name: self._back(name, one, errors, last=last) for name, one in stored.items()}
            spikes = {
                name: jnp.concatenate([before, (rows[f"{name}.spikes"] != 0).astype(np.uint8)])
                for name, before in past.items()
            }
            terms, values = dict(terms), dict(values)
            for one in self._learning:
                name, own = one.about.name, spikes[one.about.source][-one.depth - steps :]
                change = self._change(one, terms[name], len(values[name]), errors, back)
                values[name] = self.runner.engine.as_asked().along_synapses(one, values[name], change, own)
                if one.about.target in rules:
                    came = jnp.stack([sent(own, delay, steps) for delay in one.delays]).astype(self.plan.dtype)
                    terms[name] = rules[one.about.target].after(terms[name], self._receptor(one), came)
            past = {name: rows[-len(past[name]) :] for name, rows in spikes.items()}
            return (between, past, terms, values), losses.sum()

        return block

    def _receptor(self, one: Product) -> int:
        return list(self.plan.population(one.about.target).quanta).index(one.about.receptor)

    def _change(self, one: Product, terms: Array, count: int, errors: _Errors, back: Mapping[str, _Back]) -> Change:
        """Return how the values of synapses change in a block, of which there are some number before."""
        if one.about.target != self.learner.readout.name:
            own = back[one.about.target]
            outer = len(errors.of_readout.by_arriving)
            return Change(own.maps[:, :count], own.factors, terms, own.rows[one.about.receptor], outer)
        maps = jnp.ones((1, count, one.neurons), self.plan.dtype)
        return Change(maps, errors.before(1)[None], terms, errors.arriving(self._receptor(one))[None], 0)

    def _back(self, name: str, stored: Stored, errors: _Errors, *, last: bool) -> _Back:
        """Run the steps of a block back, for each value of the synapses of a population; in the last one, for one."""
        p, states, readout = self.plan.population(name), self._states(name), errors.of_readout
        receptor, dtype = self.learner.receptor_of(name), self.plan.dtype
        # A spike reaches the readout one step later.
        signal = self._signal(p, jnp.pad(errors.arriving(receptor)[1:], ((0, 1), (0, 0))))
        filters = readout.later(receptor)
        outer, own = len(filters), 0 if name in self._shared else len(states)
        count = 1 + outer + own
        of_spikes, of_states = signal[None], dict[str, Array]()
        if not last:
            of_filters = jnp.broadcast_to(filters[..., None], (*filters.shape, p.size))
            of_spikes = jnp.concatenate([of_spikes, of_filters, jnp.zeros((own, *signal.shape), dtype)])
            nothing = jnp.zeros((count, p.size), dtype)
            of_states = {key: nothing.at[1 + outer + k].set(1) for k, key in enumerate(states[:own])}
        arrived, before = jax.vmap(lambda spikes, of: stored.back(name, spikes, of))(of_spikes, of_states)
        first = [before[key] for key in states]
        factors = jnp.stack(first, 1) if states else jnp.zeros((len(of_spikes), 0, p.size), dtype)
        maps = jnp.zeros((count, count, p.size), dtype).at[0, 0].set(1)
        maps = maps.at[0, 1 : 1 + outer].set(self._signal(p, errors.before(0)))
        maps = maps.at[1 : 1 + outer, 1 : 1 + outer].set(readout.powers[-1][..., None])[: len(of_spikes)]
        if own:
            maps, factors = maps.at[:, 1 + outer :].set(factors), factors[:, :0]
        return _Back(maps, factors, arrived)

    def _signal(self, p: PopulationPlan, errors: Array) -> Array:
        """Return learning signals (steps, neurons) by derivatives (steps, neurons of the readout)."""
        how = self.learner.signals[p.name]
        highest = jax.lax.Precision.HIGHEST
        if not isinstance(how, list):
            return jnp.matmul(errors, how, precision=highest)
        total = jnp.zeros((len(errors), p.size), self.plan.dtype)
        for s in how:
            one, weights = self._products.get(s.name), self.learner.weights[s.name]
            if one is not None and one.dense:
                total += jnp.matmul(errors, one.matrix(weights)[0].T, precision=highest)
            elif one is not None:
                each = jnp.broadcast_to(weights, s.targets.shape)
                total += jax.lax.map(
                    lambda e, s=s, each=each: jax.ops.segment_sum(each * e[s.targets], s.sources, p.size), errors
                )
        return total

    def _gradient(self, s: Synapses, values: Mapping[str, Array]) -> Array:
        """Return the gradient of the weights of a projection."""
        if s.name not in values:
            found = jnp.zeros(s.targets.shape, self.plan.dtype)
        else:
            one, found = self._products[s.name], values[s.name][0]
            if one.dense:
                found = found.reshape(-1) if one.all_to_all else found.reshape(-1)[one.elements]
        return found.sum(keepdims=True) if self.learner.weights[s.name].shape == (1,) else found
