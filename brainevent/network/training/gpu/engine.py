# SPDX-License-Identifier: Apache-2.0
"""`GpuKernels`: the steps of a component, and its steps back, as native calls on a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...._compat import directly
from ....scalar.adjoint import Adjoint
from ....scalar.form import Form, Name
from ...reference.products import Product
from ..adjoints import adjoint_in
from ..cells import Cell, Cells, named
from ..change import Change, changed
from ..times import all_digits
from .calls import Kernels, residuals
from .device import Device, gpu
from .halves import times
from .layer import Layer, Layers, Link
from .runner import Given, Outputs, Saved, Weights, backward, forward
from .weights import bits_of, largest_of

__all__ = ["GpuKernels"]

Array = Any
Arrays = Mapping[str, Array]
Shapes = dict[str, tuple[tuple[int, ...], str]]


@dataclass(frozen=True)
class GpuKernels:
    """Runs all samples of a batch in clusters of blocks; `device` is None for the GPU that programs are made for.

    Forward, weights are rounded to 15 bits: whole numbers of the smallest power of two of which the largest weight is
    at most 16383. So sums are exact, and spikes are those of a network with these weights. Backward, adjoints and
    weights have 11 bits, and sums those of float32; adjoints that are too large for 16 bits become NaN. If the engine
    is `precise`, weights have 23 bits forward; backward both have 16 bits and the range of float32, and what the way
    back reads is not rounded.
    """

    device: Device | None = None
    precise: bool = False

    title = "cuda"
    shares = False
    matrices = True

    def refusal(self, cells: Cells, *, drawn: bool = True) -> str:
        """Say what the kernels cannot run; nothing if they can run it."""
        if not cells.products:
            return ""
        made = [self._largest(cells, cell) for cell in cells.cells]
        if self._has_room(self._layers(cells, made, drawn=False)):
            return ""
        if drawn and self._has_room(self._layers(cells, made)):
            return ""
        neurons = named([f"{cell.size} neurons of {cell.population.name}" for cell in cells.cells])
        why = f"the weights of {_names(cells)}, for {neurons}{_delays(cells)}, are more than a cluster of blocks holds"
        fit = self.precise and not replace(self, precise=False).refusal(cells, drawn=drawn)
        return why + (' with jax.default_matmul_precision("highest")' if fit else "")

    def _has_room(self, layers: Layers) -> bool:
        kernels = Kernels(layers, 1, self._device)
        return kernels.fitting("forward") is not None and kernels.fitting("backward") is not None

    def rounding(self, cells: Cells) -> str:
        """Say how weights are rounded forward, and adjoints backward; nothing if they are not."""
        if not cells.products:
            return "" if self.precise else "backward, stored margins have 11 bits"
        bits, planes = (1 + bits_of(3), "three") if self.precise else (1 + bits_of(2), "two")
        weights = f"the weights of {_names(cells)} are rounded to {bits} bits of the largest"
        forward = f"forward, {weights}, in {planes} planes of s8"
        back = "they and adjoints have 16 bits" if self.precise else "they, adjoints and stored margins have 11 bits"
        return f"{forward}, so that sums are exact; backward, {back}"

    def as_asked(self) -> GpuKernels:
        """Return the engine in the precision of products that JAX is asked for."""
        return replace(self, precise=all_digits())

    @property
    def _device(self) -> Device:
        return gpu() if self.device is None else self.device

    def times(self, spikes: Array, matrix: Array, delay: int = 0) -> Array:
        """Multiply spikes (steps, sources) with a matrix (sources, neurons), with as many digits as JAX keeps."""
        return times(spikes, matrix, delay)

    def along_synapses(self, one: Product, values: Array, change: Change, spikes: Array) -> Array:
        """Return values of the synapses of a projection after some steps: XLA multiplies, with all bits of float32."""
        return changed(one, values, change, spikes)

    def outputs(self, cells: Cells, steps: int) -> Shapes:
        """Return shapes and dtypes of what the steps of a sample return: residuals are those of kernels."""
        found = {label: of for label, of in cells.outputs(steps).items() if label[0] != "r"}
        for cell in cells.cells:
            if cell.adjoint is not None:
                kept, flags = residuals(self._layer(cells, cell, [False] * len(cell.params), fed=()), steps)
                found |= {f"r{cell.place}_{k}": of for k, of in enumerate([*kept, *flags])}
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

    def sent(self, cells: Cells, place: int, results: Arrays, fine: Array | None) -> Array:
        """Return the spikes of a population, from the bits that are stored: a program need not keep them as floats."""
        cell = cells.cells[place]
        bits = results[f"r{place}_{len(self._layer(cells, cell, [False] * len(cell.params), fed=()).kept)}"]
        return _of_bits(bits, cell.size, fine)

    def _forward(self, cells: Cells, steps: int, size: int, given: Arrays) -> dict[str, Array]:
        each, made, inputs = _each(size, given), list[Layer](), list[Given]()
        fine = each("fine").reshape(size) if "fine" in given else None
        for cell in cells.cells:
            p, keys = cell.place, list(cell.receptors)
            fed = [k for k, key in enumerate(keys) if {f"c{p}_{key}", f"h{p}_{key}"} & given.keys()]
            currents = [_current(cell, keys[k], given, each) for k in fed]
            currents = currents or [jnp.zeros((size, steps, cell.size), np.float32)]
            states = [each(f"x{p}_{key}") for key in cell.states]
            made.append(self._layer(cells, cell, _own(cell, given), fed=fed or [0]))
            inputs.append(Given(currents, states, _params(cell, given), _random(cell, each), fine))
        layers = replace(self._layers(cells, made), doubted=fine is not None)
        outputs, saved = forward(layers, self._device, inputs, _weights(cells, layers, given))
        found: dict[str, Array] = {}
        for cell, out, stored in zip(cells.cells, outputs, saved, strict=True):
            p = cell.place
            found[f"z{p}"] = jax.lax.optimization_barrier(out.spikes)
            found |= {f"s{p}_{key}": x for key, x in zip(cell.states, out.states, strict=True)}
            found |= {f"o{p}_{key}": x for key, x in zip(cell.sampled, out.shown, strict=True)}
            if cell.adjoint is not None:
                found |= {f"r{p}_{k}": x for k, x in enumerate([*stored.kept, *stored.flags])}
        return found

    def _backward(self, cells: Cells, steps: int, size: int, given: Arrays) -> dict[str, Array]:
        each, made = _each(size, given), list[Layer]()
        saved, cotangents = list[Saved](), list[Outputs]()
        for cell in cells.cells:
            p = cell.place
            shown = [key for key in cell.sampled if f"do{p}_{key}" in given]
            fed = range(len(cell.receptors))
            layer = self._layer(cells, cell, _own(cell, given), fed=fed, shown=shown, answered=f"dz{p}" in given)
            count = len(layer.kept)
            stored = [each(f"r{p}_{k}") for k in range(count + len(layer.flags))]
            nothing = jnp.zeros((size, cell.size), np.float32)
            spikes = each(f"dz{p}") if layer.answered else None
            of_states = [each(f"ds{p}_{key}") if f"ds{p}_{key}" in given else nothing for key in cell.states]
            made.append(layer)
            saved.append(Saved(stored[:count], stored[count:], _params(cell, given), _random(cell, each)))
            cotangents.append(Outputs(spikes, [each(f"do{p}_{key}") for key in shown], of_states))
        layers = self._layers(cells, made)
        found = backward(layers, self._device, saved, _weights(cells, layers, given), cotangents, steps)
        result: dict[str, Array] = {}
        for cell, one in zip(cells.cells, found, strict=True):
            for name, keys, arrays in (
                ("c", cell.receptors, one.currents), ("x", cell.states, one.states), ("q", cell.params, one.params)
            ):  # fmt: skip
                pairs = zip(keys, arrays, strict=True)
                result |= {f"d{name}{cell.place}_{key}": x for key, x in pairs if x is not None}
        return result

    def _layers(self, cells: Cells, layers: Sequence[Layer], *, drawn: bool = True) -> Layers:
        """Return the populations of a component; unless synapses are drawn, with all links that they may have."""
        links = (
            _link(cells, one, delay)
            for one in cells.products
            for delay in (one.delays if drawn or one.delayed_alike else range(one.about.delays[0], one.depth + 1))
        )
        return Layers(tuple(layers), tuple(dict.fromkeys(links)), self.precise)

    def _layer(
        self,
        cells: Cells,
        cell: Cell,
        own: Collection[bool],
        *,
        fed: Collection[int],
        shown: Collection[str] | None = None,
        answered: bool = True,
        adjoint: Adjoint | None = None,
    ) -> Layer:
        """Return a population of a component; its adjoint is that of the cell if none is given."""
        states = list(cell.states)
        arrived = {one.place for one in cells.products}
        return Layer(
            cell.population.rule,
            self._adjoint(cell, cells) if adjoint is None else adjoint,
            cell.size,
            tuple(fed),
            tuple(k for k, key in enumerate(cell.receptors) if (cell.population.name, key) in arrived),
            tuple(states.index(key) for key in (cell.sampled if shown is None else shown)),
            tuple(own),
            answered,
            rounded=not self.precise,
        )

    def _largest(self, cells: Cells, cell: Cell) -> Layer:
        """Return a population for which kernels need most room: all is fed, differentiated and recorded."""
        adjoint = self._adjoint_of(cell, cells, None)
        own = [True] * len(cell.params)
        return self._layer(cells, cell, own, fed=range(len(cell.receptors)), shown=cell.states, adjoint=adjoint)

    def _adjoint(self, cell: Cell, cells: Cells) -> Adjoint:
        """Return the forms of a cell for what is stored; without residuals if nothing is differentiated."""
        if cell.adjoint is None:
            nothing = Form(f"p{cell.place}_backward", (), (), ())
            return Adjoint(cell.forward, nothing, (), Name("spike", "bool"), (), (), None, spiking=False)
        return self._adjoint_of(cell, cells, cell.trained)

    def _adjoint_of(self, cell: Cell, cells: Cells, trained: Collection[str] | None) -> Adjoint:
        return adjoint_in(cells.component, cell.place, cell.population, trained, rounded=not self.precise)


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


@directly
def _of_bits(words: Array, count: int, fine: Array | None) -> Array:
    """Return a number of bits of words as floats: 0 and 1, or NaN where they are not `fine` (..., 1)."""
    every = (words[..., None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    bits = every.reshape(*words.shape[:-1], -1)[..., :count].astype(np.float32)
    return bits if fine is None else jnp.where(fine[..., None], bits, np.nan)


def _each(size: int, given: Arrays) -> Callable[[str], Array]:
    """Return a function that returns an array with a row for each sample."""

    def each(label: str) -> Array:
        x = given[label]
        return x if len(x) == size else jnp.broadcast_to(x, (size, *x.shape[1:]))

    return each


def _current(cell: Cell, key: str, given: Arrays, each: Callable[[str], Array]) -> Array:
    """Return all that arrives at a receptor from outside: floats, and whole numbers of quanta."""
    floats, whole = f"c{cell.place}_{key}", f"h{cell.place}_{key}"
    parts = [each(whole).astype(np.float32) * cell.population.quanta[key]] if whole in given else []
    return functools.reduce(jnp.add, [*parts, *([each(floats)] if floats in given else [])])


def _names(cells: Cells) -> str:
    return named([one.about.name for one in cells.products])


def _weights(cells: Cells, layers: Layers, given: Arrays) -> Weights:
    """Return the sums of all weights of each link: as floats, or as whole numbers of a quantum that is known.

    Those of the plan are whole numbers of its quantum, whose sums are exact unless they are too large or others into
    the same receptor are given.
    """
    floats, whole = ([list[Array]() for _ in layers.links] for _ in range(2))
    for j, one in enumerate(cells.products):
        weights = given[f"w{j}"][0] if one.given else one.synapses.weights.astype(np.int64)
        for matrix, delay in zip(one.matrix(weights), one.delays, strict=True):
            k = layers.links.index(_link(cells, one, delay))
            (floats if one.given else whole)[k].append(matrix)
    of_plan = [functools.reduce(np.add, some) if some else None for some in whole]
    places = [(link.target, link.into) for link in layers.links]
    mixed = {place for place, some in zip(places, floats, strict=True) if some}
    most = largest_of(layers.planes)
    mixed |= {p for p, x in zip(places, of_plan, strict=True) if x is not None and np.abs(x).max() > most}
    quanta = [_quantum(cells, place) for place in places]
    units = [quantum if p in mixed else np.float32(1) for p, quantum in zip(places, quanta, strict=True)]
    matrices = [
        functools.reduce(jnp.add, some if x is None else [*some, jnp.asarray(x.astype(np.float32) * unit)])
        for some, x, unit in zip(floats, of_plan, units, strict=True)
    ]
    return Weights(matrices, [None if p in mixed else jnp.asarray(q) for p, q in zip(places, quanta, strict=True)])


def _quantum(cells: Cells, place: tuple[int, int]) -> Any:
    """Return the quantum of a receptor in the plan."""
    cell = cells.cells[place[0]]
    return cell.population.quanta[list(cell.receptors)[place[1]]].astype(np.float32)


def _link(cells: Cells, one: Product, delay: int) -> Link:
    """Return the link of the synapses of a projection with some delay."""
    target, receptor = one.place
    at = cells.place(target)
    into = list(cells.cells[at].receptors).index(receptor)
    return Link(cells.place(one.about.source), at, into, delay)


def _delays(cells: Cells) -> str:
    """Return in words which delays the synapses of a component have, if there are several."""
    first, last = (pick(one.about.delays[k] for one in cells.products) for k, pick in ((0, min), (1, max)))
    return "" if first == last else f", with delays of {first} to {last} steps"


def _params(cell: Cell, given: Arrays) -> list[Array]:
    """Return parameters: those that all neurons share have no axis."""
    found = [given[f"q{cell.place}_{key}"] for key in cell.params]
    return [x[0] if x.shape[-1] > 1 else x.reshape(()) for x in found]


def _own(cell: Cell, given: Arrays) -> tuple[bool, ...]:
    """Say of each parameter whether each neuron has its own."""
    return tuple(given[f"q{cell.place}_{key}"].shape[-1] > 1 for key in cell.params)


def _random(cell: Cell, each: Callable[[str], Array]) -> Array | None:
    """Return the first step and the keys of each sample, (size, 3), if the rule draws random numbers."""
    if not cell.population.rule.random:
        return None
    return jnp.concatenate([each("begin"), each(f"key{cell.place}")], -1)
