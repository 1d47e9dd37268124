# SPDX-License-Identifier: Apache-2.0
"""`CpuLoops`: the steps of a component, and its steps back, as native calls on the CPU."""

from __future__ import annotations

import functools
import importlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ...._compat import ShapedArray
from ....event.room import check_host_room, in_bytes
from ....ffi.call import NativeTarget, native_call
from ....scalar.form import Form
from ....scalar.numba_text import numba_text
from ...placed import OnCpu
from ...reference.products import Product, late
from ..cells import Cells, named
from ..change import Change
from ..times import all_digits
from .changes import changed
from .events import times
from .text import backward_text, forward_text, unread

__all__ = ["CpuLoops"]

Array = Any
Shapes = Mapping[str, tuple[tuple[int, ...], str]]


@dataclass(frozen=True)
class CpuLoops:
    """Runs all samples of a batch in generated loops, in threads.

    If it is `precise`, weights within a component are summed in float64 forward, and sums are rounded once.
    """

    precise: bool = False

    title = "numba"
    shares = True
    matrices = False

    def as_asked(self) -> CpuLoops:
        """Return the engine in the precision of products that JAX is asked for."""
        return replace(self, precise=all_digits())

    def refusal(self, cells: Cells, *, drawn: bool = True) -> str:
        """Say what these loops cannot run: nothing."""
        return ""

    def rounding(self, cells: Cells) -> str:
        """Say how sums are rounded, if it is not as usual; weights are not."""
        names = named([one.about.name for one in cells.products])
        return f"forward, the weights of {names} are summed in float64" if names and self.precise else ""

    def times(self, spikes: Array, matrix: Array, delay: int = 0) -> Array:
        """Multiply spikes (steps, sources) with a matrix (sources, neurons): in float32 only spikes are visited."""
        if matrix.dtype != np.float32:
            return late(jnp.matmul(spikes, matrix, precision=jax.lax.Precision.HIGHEST), delay)
        return times(spikes, matrix, delay)

    def along_synapses(self, one: Product, values: Array, change: Change, spikes: Array) -> Array:
        """Return values of the synapses of a projection after some steps."""
        return changed(one, values, change, spikes)

    def outputs(self, cells: Cells, steps: int) -> Shapes:
        """Return shapes and dtypes of what the steps of a sample return."""
        return cells.outputs(steps)

    def forward(self, cells: Cells, steps: int, size: int, given: Mapping[str, Array]) -> dict[str, Array]:
        """Run all steps of some samples, if what they return fits in memory."""
        _check_room(cells, steps, size)
        operands = _operands(cells, given)
        sums = "float64" if self.precise else "float32"
        text = forward_text(cells, list(operands), _scalars(cells, operands), sums)
        forms = tuple(cell.forward for cell in cells.cells)
        return _called("train_forward", text, forms, operands, cells.outputs(steps), size)

    def backward(self, cells: Cells, steps: int, size: int, given: Mapping[str, Array]) -> dict[str, Array]:
        """Run all steps back."""
        wide = importlib.import_module("....backends.numba.vectors", __package__).WIDE
        operands = _operands(cells, {k: x for k, x in given.items() if k not in unread(cells) and k[0] != "u"})
        for j, one in enumerate(cells.products):
            if not one.given:
                weights = operands[f"w{j}"].astype(np.float32)
                quantum = given[cells.quantum(one)].reshape(-1, *[1] * (weights.ndim - 1))
                operands[f"w{j}"] = weights * quantum
            if one.dense:
                operands[f"w{j}"] = _panels(operands[f"w{j}"], wide)
        text = backward_text(cells, list(operands), _scalars(cells, operands), wide)
        forms = tuple(cell.backward for cell in cells.cells)
        return _called("train_backward", text, forms, operands, cells.cotangents(steps), size, _in_place(cells))

    def sent(self, cells: Cells, place: int, results: Mapping[str, Array], fine: Array | None) -> Array:
        """Return the spikes of a population, which are NaN already where they are to be."""
        return results[f"z{place}"]


def _check_room(cells: Cells, steps: int, size: int) -> None:
    """Raise `MemoryError` if the steps of all samples return more than fits: above all what the steps back read."""
    of_each = {cell.population.name: 0 for cell in cells.cells}
    for label, (shape, dtype) in cells.outputs(steps).items():
        place = int(re.findall(r"\d+", label)[0])
        of_each[cells.cells[place].population.name] += math.prod(shape) * np.dtype(dtype).itemsize
    own, times = sum(of_each.values()), f" of {size} elements" if size > 1 else ""
    parts = ", ".join(f"{name} {in_bytes(size * one)}" for name, one in of_each.items())
    differentiated = any(cell.adjoint is not None for cell in cells.cells)
    advice = "fewer steps, or fewer elements, at a time" + ", or with checkpoint_every=" * differentiated
    kept = "store for the gradient" if differentiated else "compute"
    each = own if size > 1 else 0
    what = f"what {steps} steps{times} {kept} ({parts})"
    check_host_room("simulate", what, size * own, f"call it for {advice}", each)


def _in_place(cells: Cells) -> dict[str, str]:
    """Return which results may have the memory of operands: cotangents of spikes are read before they are replaced."""
    firsts = {cell.place: next(iter(cell.receptors), None) for cell in cells.cells}
    return {f"dz{p}": f"dc{p}_{first}" for p, first in firsts.items() if first is not None}


def _panels(matrices: Array, wide: int) -> Array:
    """Return matrices (..., sources, neurons) as (..., panels, neurons, wide): some sources each, with zeros."""
    *others, sources, neurons = matrices.shape
    padded = jnp.pad(matrices, ((0, 0), (0, 0), (0, -sources % wide), (0, 0)))
    return jnp.moveaxis(padded.reshape(*others, -1, wide, neurons), -1, -2)


def _operands(cells: Cells, given: Mapping[str, Array]) -> dict[str, Array]:
    """Return all operands: dense weights as matrices, and the structures of others."""
    found = dict(given)
    for j, one in enumerate(cells.products):
        if one.dense:
            found[f"w{j}"] = jax.vmap(one.matrix)(given[f"w{j}"])
            continue
        found |= {f"b{j}": one.starts, f"i{j}": one.synapses.targets.astype(np.int32), f"k{j}": one.which}
    return found


def _scalars(cells: Cells, operands: Mapping[str, Array]) -> list[str]:
    """Return the labels of parameters that all neurons share."""
    labels = [f"q{cell.place}_{key}" for cell in cells.cells for key in cell.params]
    return [label for label in labels if operands[label].shape[1] == 1]


def _called(
    name: str,
    text: str,
    forms: tuple[Form, ...],
    operands: Mapping[str, Array],
    shapes: Shapes,
    size: int,
    in_place: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Array]:
    arrays = [jnp.asarray(x) for x in operands.values()]
    outs = [ShapedArray((size, *shape), np.dtype(dtype)) for shape, dtype in shapes.values()]
    types = tuple((str(x.dtype), x.ndim) for x in arrays), tuple((str(x.dtype), x.ndim) for x in outs)
    target = LoopTarget(name, text, numba_text(forms), (*operands, *shapes), types, forms)
    labels, results = list(operands), list(shapes)
    aliases = [
        (labels.index(given), results.index(made))
        for given, made in in_place.items()
        if given in labels and len(operands[given]) == size
    ]
    return dict(zip(shapes, native_call(target, arrays, outs, aliases), strict=True))


@dataclass(frozen=True)
class LoopTarget(OnCpu):
    """Loops that are compiled when a program that runs them is."""

    title: str
    text: str
    functions: str
    arguments: tuple[str, ...]
    types: tuple[tuple[tuple[str, int], ...], ...]
    forms: tuple[Form, ...] = field(compare=False, repr=False)

    platforms: ClassVar[tuple[str, ...]] = ("cpu",)

    def on(self, platform: str) -> NativeTarget:
        """Return the target."""
        return _compiled(self)


@functools.cache
def _compiled(target: LoopTarget) -> NativeTarget:
    from ....backends.numba.kernel import target_of

    make = importlib.import_module(f"{__package__}.on_kernels").kernel_of
    arguments = dict(zip(target.arguments, (*target.types[0], *target.types[1]), strict=True))
    kernel = make(target.title, target.text, target.forms, arguments)
    operands, outs = ([ShapedArray((1,) * ndim, np.dtype(dtype)) for dtype, ndim in types] for types in target.types)
    return target_of(kernel, operands, outs)
