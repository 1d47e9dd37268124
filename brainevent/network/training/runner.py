# SPDX-License-Identifier: Apache-2.0
"""`NativeRunner`: runs components forward and backward as two native calls, where an engine supports them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..plan.pending import in_place_of
from ..reference.components import Component, Given, Ran
from ..reference.loop import run_component
from ..surrogate import SpikeTimes
from .call import Engine, run_back, run_steps
from .cells import Cells, cells_of, refusal

__all__ = ["NativeRunner", "Stored"]

Array = Any
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class NativeRunner:
    """A runner of components; those that the engine does not support run in plain JAX."""

    engine: Engine

    def times(self, spikes: Array, matrix: Array, delay: int = 0) -> Array:
        """Multiply spikes (steps, sources) with a matrix (sources, neurons); sums are those of `delay` steps before."""
        return self.engine.times(spikes, matrix, delay)

    def __call__(self, component: Component, given: Given, steps: int) -> Ran:
        """Run a component over some steps."""
        if component.timeless or self.refusal(component):
            return run_component(component, given, steps)
        cells = cells_of(component, None)
        return _ran(cells, given, run_steps(self.engine.as_asked(), cells, steps, _operands(cells, given, steps)))

    def stored(self, component: Component, given: Given, steps: int) -> tuple[Ran, Stored]:
        """Run a component that is not refused over some steps, and store what its steps back read."""
        cells, engine = cells_of(component, ()), self.engine.as_asked()
        operands = _operands(cells, given, steps)
        results = run_steps(engine, cells, steps, operands)
        known = {label: x for label, x in operands.items() if label[0] not in "chxfuw"}
        known |= {label: x for label, x in results.items() if label[0] in "zr"}
        return _ran(cells, given, results), Stored(engine, cells, steps, known)

    def refusal(self, component: Component, *, drawn: bool = True) -> str:
        """Say why a component runs in plain JAX; nothing if it runs natively. See `Engine.refusal` for `drawn`."""
        if isinstance(component.surrogate, SpikeTimes):
            return "derivatives by the times of spikes are computed in plain JAX"
        return refusal(component) or self.engine.as_asked().refusal(cells_of(component, None), drawn=drawn)


@dataclass(frozen=True, eq=False)
class Stored:
    """What the steps back of a component read: arrays by label, see `Cells`."""

    engine: Engine
    cells: Cells
    steps: int
    arrays: Arrays

    def back(self, population: str, spikes: Array, states: Mapping[str, Array]) -> tuple[Arrays, Arrays]:
        """Run the steps of a population back as if its spikes reached no other neuron.

        Args:
            population: Its name.
            spikes: The cotangents of its spikes, (steps, neurons).
            states: The cotangents of states after the last step, (neurons,), by name; others are zero.

        Returns:
            By receptor the cotangents of what arrives, (steps, neurons), and by state those before the first step.
        """
        cell = self.cells.cells[self.cells.place(population)]
        p = cell.place
        alone = replace(self.cells.component, populations=(cell.population,), products=())
        own = {"begin", f"key{p}", f"z{p}"}
        given = {k: x for k, x in self.arrays.items() if k in own or k.startswith((f"r{p}_", f"q{p}_"))}
        given |= {f"dz{p}": spikes} | {f"ds{p}_{key}": x for key, x in states.items()}
        found = run_back(self.engine, replace(self.cells, component=alone, cells=(cell,)), self.steps, given)
        arrived = {key: found[f"dc{p}_{key}"] for key in cell.receptors}
        return arrived, {key: found[f"dx{p}_{key}"] for key in cell.float_states}


def _operands(cells: Cells, given: Given, steps: int) -> dict[str, Array]:
    """Return all arrays by label."""
    found: dict[str, Array] = {"begin": jnp.asarray(given.step, np.uint32).reshape(1)}
    if given.fine is not None:
        found["fine"] = given.fine.reshape(1)
    for cell in cells.cells:
        p, name = cell.place, cell.population.name
        found[f"key{p}"] = jnp.asarray(given.keys[name], np.uint32)
        for key in cell.receptors:
            if cells.into(cell, key, given=False):
                found[f"u{p}_{key}"] = jnp.asarray(given.quanta[name, key], np.float32).reshape(1)
            if (currents := given.currents.get((name, key))) is not None:
                found[f"c{p}_{key}"] = jnp.broadcast_to(jnp.asarray(currents, np.float32), (steps, cell.size))
            if (whole := given.whole.get((name, key))) is not None:
                found[f"h{p}_{key}"] = jnp.broadcast_to(whole, (steps, cell.size))
        for key, of in cell.params.items():
            found[f"q{p}_{key}"] = jnp.asarray(given.params[name][key], of.dtype).reshape(-1)
        for key, of in cell.states.items():
            found[f"x{p}_{key}"] = jnp.asarray(given.states[name][key], of.dtype)
    for j, one in enumerate(cells.products):
        name = one.about.name
        found[f"w{j}"] = given.weights[name] if one.given else jnp.asarray(given.numbers[name].weights, one.whole)
    return found


def _ran(cells: Cells, given: Given, results: Arrays) -> Ran:
    """Return what a runner returns."""
    component = cells.component
    spikes, sampled, states = {}, {}, {}
    for cell in cells.cells:
        p, name = cell.place, cell.population.name
        spikes[name] = results[f"z{p}"]
        sampled[name] = {key: results[f"o{p}_{key}"] for key in cell.sampled}
        states[name] = {key: results[f"s{p}_{key}"] for key in cell.states}
    last = {name: _ending(all_, component.depth(name)) for name, all_ in spikes.items() if component.depth(name)}
    if given.fine is not None:  # spikes are so already
        sampled = in_place_of(given.fine, sampled)
    rows, filled = component.outputs.whole(given.filled, given.step, sampled, spikes)
    return Ran({name: spikes[name] for name in component.sends}, last, rows, filled, states)


def _ending(spikes: Array, depth: int) -> Array:
    """Return the spikes of the last steps, (depth, neurons), with zeros before the first step."""
    if len(spikes) < depth:
        spikes = jnp.pad(spikes, ((depth - len(spikes), 0), (0, 0)))
    return spikes[len(spikes) - depth :]
