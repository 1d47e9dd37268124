# SPDX-License-Identifier: Apache-2.0
"""`NativeRunner`: runs components forward and backward as two native calls, where an engine supports them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from ..plan.pending import in_place_of
from ..reference.components import Component, Given, Ran
from ..reference.loop import run_component
from ..reference.products import Product
from .call import Engine, batched_call
from .cells import Cells, cells_of, refusal

__all__ = ["NativeRunner"]

Array = Any
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class NativeRunner:
    """A runner of components; those that the engine does not support run in plain JAX."""

    engine: Engine

    def __call__(self, component: Component, given: Given, steps: int) -> Ran:
        """Run a component over some steps."""
        if component.timeless or self.refusal(component):
            return run_component(component, given, steps)
        run = _Run(self.engine, component, steps)
        operands = run.operands(given)
        results = _called(replace(run, labels=tuple(operands)), operands)
        return run.ran(given, results)

    def refusal(self, component: Component) -> str:
        """Say why a component runs in plain JAX; nothing if it runs natively."""
        return refusal(component) or self.engine.refusal(cells_of(component, None))


@dataclass(frozen=True, eq=False)
class _Run:
    """A call for one component: static."""

    engine: Engine
    component: Component
    steps: int
    labels: tuple[str, ...] = ()

    @cached_property
    def plain(self) -> Cells:
        """The component without derivatives."""
        return cells_of(self.component, None)

    def operands(self, given: Given) -> dict[str, Array]:
        """Return all arrays by label, floats as they are differentiated."""
        found: dict[str, Array] = {"first": jnp.asarray(given.step, np.uint32).reshape(1)}
        for cell in self.plain.cells:
            p, name = cell.place, cell.population.name
            found[f"key{p}"] = jnp.asarray(given.keys[name], np.uint32)
            for key in cell.receptors:
                if (currents := given.currents.get((name, key))) is not None:
                    shape = self.steps, cell.size
                    found[f"c{p}_{key}"] = jnp.broadcast_to(jnp.asarray(currents, np.float32), shape)
            for key, one in cell.params.items():
                found[f"q{p}_{key}"] = jnp.asarray(given.params[name][key], one.dtype).reshape(-1)
            for key, one in cell.states.items():
                found[f"x{p}_{key}"] = jnp.asarray(given.states[name][key], one.dtype)
        for j, product in enumerate(self.component.products):
            found[f"w{j}"] = given.weights[product.synapses.name]
        return found

    def arrived(self, j: int) -> str:
        """Return the label of the cotangents of what arrives through a product."""
        target, receptor = self.component.products[j].place
        return f"dc{self.plain.place(target)}_{receptor}"

    def native_weights(self, given: Arrays) -> dict[str, Array]:
        """Return weights as native code takes them."""
        products = enumerate(self.component.products)
        return {f"w{j}": one.matrix(given[f"w{j}"]) if one.dense else given[f"w{j}"] for j, one in products}

    def forward(self, cells: Cells, given: Arrays) -> dict[str, Array]:
        """Run all steps."""

        def native(size: int, arrays: Arrays, batched: Collection[str]) -> dict[str, Array]:
            return self.engine.forward(cells, self.steps, size, arrays, batched)

        return batched_call(native, (), {**given, **self.native_weights(given)})

    def backward(self, cells: Cells, given: Arrays, kept: Arrays, cotangents: Arrays) -> dict[str, Array]:
        """Run all steps back; return cotangents of operands, by label."""

        def native(size: int, arrays: Arrays, batched: Collection[str]) -> dict[str, Array]:
            return self.engine.backward(cells, self.steps, size, arrays, batched)

        alone = [*kept, *cotangents]
        arrays = {**given, **self.native_weights(given), **kept, **cotangents}
        return batched_call(native, alone, arrays)

    def ran(self, given: Given, results: Arrays) -> Ran:
        """Return what a runner returns."""
        component = self.component
        spikes, sampled, states = {}, {}, {}
        for cell in self.plain.cells:
            p, name = cell.place, cell.population.name
            spikes[name] = results[f"z{p}"]
            sampled[name] = {key: results[f"o{p}_{key}"] for key in cell.sampled}
            states[name] = {key: results[f"s{p}_{key}"] for key in cell.states}
        last = {name: _ending(all_, component.depth(name)) for name, all_ in spikes.items() if component.depth(name)}
        if given.fine is not None:
            spikes, sampled = in_place_of(given.fine, (spikes, sampled))
        rows, filled = component.outputs.whole(given.filled, given.step, sampled, spikes)
        return Ran({name: spikes[name] for name in component.sends}, last, rows, filled, states)


def _ending(spikes: Array, depth: int) -> Array:
    """Return the spikes of the last steps, (depth, neurons), with zeros before the first step."""
    return jnp.pad(spikes, ((max(0, depth - len(spikes)), 0), (0, 0)))[-depth:]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _called(run: _Run, given: dict[str, Array]) -> dict[str, Array]:
    return run.forward(run.plain, given)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class _Kept:
    """What the steps keep for the steps back: operands, spikes and residuals; and which operands are differentiated."""

    given: dict[str, Array]
    made: dict[str, Array]
    cells: Cells = field(metadata={"static": True})
    moving: frozenset[str] = field(metadata={"static": True})


def _forward(run: _Run, given: dict[str, Any]) -> tuple[dict[str, Array], _Kept]:
    """Run all steps, and keep what the steps back read."""
    moving = frozenset(label for label, one in given.items() if one.perturbed)
    values = {label: one.value for label, one in given.items()}
    trained = [
        (cell.population.name, key)
        for cell in run.plain.cells
        for key in cell.params
        if f"q{cell.place}_{key}" in moving
    ]
    cells = cells_of(run.component, trained)
    results = run.forward(cells, values)
    known = {label: x for label, x in values.items() if label[0] not in "cx"}
    made = {label: x for label, x in results.items() if label[0] in "zr"}
    outputs = run.plain.outputs(run.steps)
    return {label: results[label] for label in outputs}, _Kept(known, made, cells, moving)


def _backward(run: _Run, kept: _Kept, cotangents: dict[str, Any]) -> tuple[dict[str, Array | None]]:
    """Run all steps back, and return the cotangents of operands."""
    of_floats = {
        f"d{label}": x
        for label, x in cotangents.items()
        if run.plain.outputs(run.steps)[label][1] == "float32" and not isinstance(x, SymbolicZero)
    }
    found = run.backward(kept.cells, kept.given, kept.made, of_floats)
    result: dict[str, Array | None] = {}
    for label in run.labels:
        result[label] = found.get(f"d{label}") if label in kept.moving else None
        if label in kept.moving and label[0] == "q" and kept.given[label].size == 1:
            result[label] = found[f"d{label}"].sum(keepdims=True)
    for j, one in enumerate(run.component.products):
        if f"w{j}" in kept.moving:
            spikes, arrived = kept.made[f"z{kept.cells.place(one.synapses.source)}"], found[run.arrived(j)]
            result[f"w{j}"] = _of_weights(one, spikes, arrived, kept.given[f"w{j}"])
    return (result,)


def _of_weights(product: Product, spikes: Array, arrived: Array, weights: Array) -> Array:
    """Return the cotangents of weights: one product of all spikes and the cotangents of what arrived."""

    def sums(weights: Array) -> Array:
        found = product.arriving(spikes, product.operand(weights)).floats
        return jnp.zeros_like(arrived) if found is None else found

    return jax.vjp(sums, weights)[1](arrived)[0]


_called.defvjp(_forward, _backward, symbolic_zeros=True)
