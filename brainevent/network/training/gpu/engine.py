# SPDX-License-Identifier: Apache-2.0
"""`GpuKernels`: the steps of a component, and its steps back, as native calls on a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ....scalar.adjoint import Adjoint, adjoint_of
from ....scalar.form import Form, Name
from ...reference.products import late
from ..cells import Cell, Cells, named
from .calls import Kernels, residuals
from .device import Device, gpu
from .layer import Layer
from .runner import Inputs, Outputs, Saved, backward, forward
from .weights import LARGEST

__all__ = ["GpuKernels"]

Array = Any
Arrays = Mapping[str, Array]
Shapes = dict[str, tuple[tuple[int, ...], str]]


@dataclass(frozen=True)
class GpuKernels:
    """Runs all samples of a batch in clusters of blocks; `device` is None for the GPU that programs are made for.

    Forward, weights are rounded to 15 bits: whole numbers of the smallest power of two of which the largest weight is
    at most 16383. So sums are exact, and spikes are those of a network with these weights. Backward, adjoints and
    weights have 11 bits, and sums those of float32; adjoints that are too large for 16 bits become NaN.
    """

    device: Device | None = None

    title = "cuda"
    shares = False
    matrices = True

    def refusal(self, cells: Cells) -> str:
        """Say what the kernels cannot run; nothing if they can run it."""
        if len(cells.cells) > 1:
            names = named([cell.population.name for cell in cells.cells])
            return f"{names} project to each other, and a kernel has one population"
        names = _names(cells)
        if len({one.place for one in cells.products}) > 1:
            return f"{names} arrive at several receptors, and a kernel has one"
        if len({delay for one in cells.products for delay in one.about.delays}) > 1:
            return f"{names} arrive after several delays, and a kernel has one"
        if cells.products:
            kernels = Kernels(_layer(cells, [False] * len(cells.cells[0].params), fed=()), 1, self._device)
            if kernels.fitting("forward") is None or kernels.fitting("backward") is None:
                neurons = cells.cells[0].size
                return (
                    f"the weights of {names}, between {neurons} neurons, are more than a cluster of blocks has room for"
                )
        return ""

    def rounding(self, cells: Cells) -> str:
        """Say how weights are rounded forward, and adjoints backward; nothing if they are not."""
        if not cells.products:
            return "backward, stored margins have 11 bits"
        return (
            f"forward, the weights of {_names(cells)} are rounded to 15 bits of the largest, in two planes of s8, so "
            "that sums are exact; backward, they, adjoints and stored margins have 11 bits"
        )

    @property
    def _device(self) -> Device:
        return gpu() if self.device is None else self.device

    def times(self, spikes: Array, matrix: Array, delay: int = 0) -> Array:
        """Multiply spikes (steps, sources) with a matrix (sources, neurons), in JAX's own precision."""
        return late(jnp.matmul(spikes, matrix), delay)

    def outputs(self, cells: Cells, steps: int) -> Shapes:
        """Return shapes and dtypes of what the steps of a sample return: residuals are those of kernels."""
        found = {label: of for label, of in cells.outputs(steps).items() if label[0] != "r"}
        [cell] = cells.cells
        if cell.adjoint is not None:
            kept, flags = residuals(_layer(cells, [False] * len(cell.params), fed=()), steps)
            found |= {f"r0_{k}": of for k, of in enumerate([*kept, *flags])}
        return found

    def forward(self, cells: Cells, steps: int, size: int, given: Arrays) -> dict[str, Array]:
        """Run all steps of some samples."""

        def run(size: int, given: Arrays) -> dict[str, Array]:
            return self._forward(cells, steps, size, given)

        return _side_by_side(run, size, given)

    def backward(self, cells: Cells, steps: int, size: int, given: Arrays) -> dict[str, Array]:
        """Run all steps back."""

        def run(size: int, given: Arrays) -> dict[str, Array]:
            return self._backward(cells, steps, size, given)

        return _side_by_side(run, size, given)

    def _forward(self, cells: Cells, steps: int, size: int, given: Arrays) -> dict[str, Array]:
        [cell] = cells.cells
        fed = [k for k, key in enumerate(cell.receptors) if f"c0_{key}" in given or f"h0_{key}" in given]
        layer = _layer(cells, _own(cell, given), fed=fed or [0])
        each, keys = _each(size, given), list(cell.receptors)
        currents = [_current(cell, keys[k], given, each) for k in fed]
        currents = currents or [jnp.zeros((size, steps, cell.size), np.float32)]
        states = [each(f"x0_{key}") for key in cell.states]
        weights, quantum = _weights(cells, given)
        inputs = Inputs(currents, weights, states, _params(cell, given), _random(cell, each), quantum)
        outputs, saved = forward(layer, self._device, inputs)
        spikes = outputs.spikes
        found = {"z0": jnp.where(each("fine")[..., None], spikes, jnp.nan) if "fine" in given else spikes}
        found |= {f"s0_{key}": x for key, x in zip(cell.states, outputs.states, strict=True)}
        found |= {f"o0_{key}": x for key, x in zip(cell.sampled, outputs.shown, strict=True)}
        if cell.adjoint is not None:
            found |= {f"r0_{k}": x for k, x in enumerate([*saved.kept, *saved.flags])}
        return found

    def _backward(self, cells: Cells, steps: int, size: int, given: Arrays) -> dict[str, Array]:
        [cell] = cells.cells
        shown = [key for key in cell.sampled if f"do0_{key}" in given]
        fed = range(len(cell.receptors))
        layer = _layer(cells, _own(cell, given), fed=fed, shown=shown, answered="dz0" in given)
        each, count = _each(size, given), len(layer.kept)
        stored = [each(f"r0_{k}") for k in range(count + len(layer.flags))]
        weights, quantum = _weights(cells, given)
        saved = Saved(stored[:count], stored[count:], weights, _params(cell, given), _random(cell, each), quantum)
        nothing = jnp.zeros((size, cell.size), np.float32)
        cotangents = Outputs(
            each("dz0") if layer.answered else None,
            [each(f"do0_{key}") for key in shown],
            [each(f"ds0_{key}") if f"ds0_{key}" in given else nothing for key in cell.states],
        )
        found = backward(layer, self._device, saved, cotangents, steps)
        result = {f"dc0_{key}": x for key, x in zip(cell.receptors, found.currents, strict=True)}
        result |= {f"dx0_{key}": x for key, x in zip(cell.states, found.states, strict=True) if x is not None}
        return result | {f"dq0_{key}": x for key, x in zip(cell.params, found.params, strict=True) if x is not None}


Run = Callable[[int, Arrays], dict[str, Array]]


def _side_by_side(run: Run, size: int, given: Arrays) -> dict[str, Array]:
    """Run samples that share weights and parameters together; others one after another."""
    if all(len(x) == 1 for label, x in given.items() if label[0] in "wq"):
        return run(size, given)
    own = {label: x for label, x in given.items() if len(x) > 1}
    shared = {label: x for label, x in given.items() if len(x) == 1}

    def one(sample: dict[str, Array]) -> dict[str, Array]:
        results = run(1, shared | {label: x[None] for label, x in sample.items()})
        return {label: x[0] for label, x in results.items()}

    return dict(jax.lax.map(one, own))


def _each(size: int, given: Arrays) -> Callable[[str], Array]:
    """Return a function that returns an array with a row for each sample."""

    def each(label: str) -> Array:
        x = given[label]
        return x if len(x) == size else jnp.broadcast_to(x, (size, *x.shape[1:]))

    return each


def _current(cell: Cell, key: str, given: Arrays, each: Callable[[str], Array]) -> Array:
    """Return all that arrives at a receptor from outside: floats, and whole numbers of quanta."""
    floats = [each(f"c0_{key}")] if f"c0_{key}" in given else []
    whole = [each(f"h0_{key}").astype(np.float32) * cell.population.quanta[key]] if f"h0_{key}" in given else []
    return functools.reduce(jnp.add, [*whole, *floats])


def _names(cells: Cells) -> str:
    return named([one.about.name for one in cells.products])


def _weights(cells: Cells, given: Arrays) -> tuple[Array | None, Array | None]:
    """Return the sum of all weights as a matrix (sources, neurons), and what they are whole numbers of, if known.

    Those of the plan are whole numbers of its quantum, whose sums are exact unless they are too large or others, which
    are given, are added to them.
    """
    if not cells.products:
        return None, None
    given_ones = [one.matrix(given[f"w{j}"][0])[0] for j, one in enumerate(cells.products) if one.given]
    of_plan = [one.matrix(one.synapses.weights.astype(np.int64))[0] for one in cells.products if not one.given]
    if not of_plan:
        return functools.reduce(jnp.add, given_ones), None
    quantum = next(one.quantum for one in cells.products if not one.given)
    whole = functools.reduce(np.add, of_plan)
    matrix = jnp.asarray(whole.astype(np.float32) * quantum)
    if not given_ones and np.abs(whole).max() <= LARGEST:
        return matrix, jnp.asarray(quantum)
    return functools.reduce(jnp.add, given_ones, matrix), None


def _params(cell: Cell, given: Arrays) -> list[Array]:
    """Return parameters: those that all neurons share have no axis."""
    found = [given[f"q0_{key}"][0] for key in cell.params]
    return [x if x.size > 1 else x.reshape(()) for x in found]


def _own(cell: Cell, given: Arrays) -> tuple[bool, ...]:
    """Say of each parameter whether each neuron has its own."""
    return tuple(given[f"q0_{key}"].shape[-1] > 1 for key in cell.params)


def _random(cell: Cell, each: Callable[[str], Array]) -> Array | None:
    """Return the first step and the keys of each sample, (size, 3), if the rule draws random numbers."""
    if not cell.population.rule.random:
        return None
    return jnp.concatenate([each("begin"), each("key0")], -1)


def _layer(
    cells: Cells,
    own: Collection[bool],
    *,
    fed: Collection[int],
    shown: Collection[str] | None = None,
    answered: bool = True,
) -> Layer:
    """Return the population of a component, with its projection to itself."""
    [cell] = cells.cells
    states, receptors = list(cell.states), list(cell.receptors)
    products = cells.products
    return Layer(
        cell.population.rule,
        _adjoint(cell, cells),
        cell.size,
        tuple(fed),
        receptors.index(products[0].place[1]) if products else None,
        products[0].delays[0] if products else 1,
        tuple(states.index(key) for key in (cell.sampled if shown is None else shown)),
        tuple(own),
        answered,
        rounded=True,
    )


def _adjoint(cell: Cell, cells: Cells) -> Adjoint:
    """Return the forms of a cell for residuals that are rounded; without residuals if nothing is differentiated."""
    if cell.adjoint is None:
        nothing = Form("rule_backward", (), (), ())
        return Adjoint(cell.forward, nothing, (), Name("spike", "bool"), (), (), None, spiking=False)
    return adjoint_of(cell.population.rule, cells.component.surrogate, cell.trained, rounded=True)
