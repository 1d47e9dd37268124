# SPDX-License-Identifier: Apache-2.0
"""`CpuLoops`: the steps of a component, and its steps back, as native calls on the CPU."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ...._compat import ShapedArray
from ....ffi.call import NativeTarget, native_call
from ....scalar.form import Form
from ....scalar.numba_text import numba_text
from ...placed import OnCpu
from ..cells import Cells
from .events import times
from .text import GROUP, backward_text, forward_text

__all__ = ["CpuLoops"]

Array = Any
Shapes = Mapping[str, tuple[tuple[int, ...], str]]


class CpuLoops:
    """Runs all samples of a batch in generated loops, in threads."""

    title = "numba"

    def refusal(self, cells: Cells) -> str:
        """Say what these loops cannot run: nothing."""
        return ""

    def rounding(self, cells: Cells) -> str:
        """Say how weights are rounded: not at all."""
        return ""

    def times(self, spikes: Array, matrix: Array) -> Array:
        """Multiply spikes (rows, sources) with a matrix (sources, neurons): only spikes are visited."""
        return times(spikes, matrix)

    def outputs(self, cells: Cells, steps: int) -> Shapes:
        """Return shapes and dtypes of what the steps of a sample return."""
        return cells.outputs(steps)

    def forward(self, cells: Cells, steps: int, size: int, given: Mapping[str, Array]) -> dict[str, Array]:
        """Run all steps of some samples."""
        operands = _operands(cells, given)
        text = forward_text(cells, list(operands), _scalars(cells, operands))
        forms = tuple(cell.forward for cell in cells.cells)
        return _called("train_forward", text, forms, operands, cells.outputs(steps), size, "1")

    def backward(self, cells: Cells, steps: int, size: int, given: Mapping[str, Array]) -> dict[str, Array]:
        """Run all steps back."""
        operands = _operands(cells, given)
        text = backward_text(cells, list(operands), _scalars(cells, operands))
        forms = tuple(cell.backward for cell in cells.cells)
        own = [f"w{j}.shape[0] > 1" for j in range(len(cells.products))]
        many = f"1 if {' or '.join(own)} else {GROUP}" if own else str(GROUP)
        return _called("train_backward", text, forms, operands, cells.cotangents(steps), size, many)


def _operands(cells: Cells, given: Mapping[str, Array]) -> dict[str, Array]:
    """Return all operands: weights of dense products as matrices, and the structures of others."""
    found = dict(given)
    for j, one in enumerate(cells.products):
        if one.dense:
            found[f"w{j}"] = jax.vmap(one.matrix)(given[f"w{j}"])
        else:
            found |= {f"b{j}": one.starts, f"i{j}": one.synapses.targets.astype(np.int32), f"k{j}": one.which}
    return found


def _scalars(cells: Cells, operands: Mapping[str, Array]) -> list[str]:
    """Return the labels of parameters that all neurons share."""
    labels = [f"q{cell.place}_{key}" for cell in cells.cells for key in cell.params]
    return [label for label in labels if operands[label].shape[1] == 1]


def _called(
    name: str, text: str, forms: tuple[Form, ...], operands: Mapping[str, Array], shapes: Shapes, size: int, many: str
) -> dict[str, Array]:
    arrays = [jnp.asarray(x) for x in operands.values()]
    outs = [ShapedArray((size, *shape), np.dtype(dtype)) for shape, dtype in shapes.values()]
    types = tuple((str(x.dtype), x.ndim) for x in arrays), tuple((str(x.dtype), x.ndim) for x in outs)
    target = LoopTarget(name, text, numba_text(forms), (*operands, *shapes), many, types, forms)
    return dict(zip(shapes, native_call(target, arrays, outs), strict=True))


@dataclass(frozen=True)
class LoopTarget(OnCpu):
    """Loops that are compiled when a program that runs them is."""

    title: str
    text: str
    functions: str
    arguments: tuple[str, ...]
    many: str
    types: tuple[tuple[tuple[str, int], ...], ...]
    forms: tuple[Form, ...] = field(compare=False, repr=False)

    platforms: ClassVar[tuple[str, ...]] = ("cpu",)

    def on(self, platform: str) -> NativeTarget:
        """Return the target."""
        return _compiled(self)


@functools.cache
def _compiled(target: LoopTarget) -> NativeTarget:
    from ....backends.numba import target_of

    make = importlib.import_module(f"{__package__}.on_kernels").kernel_of
    arguments = dict(zip(target.arguments, (*target.types[0], *target.types[1]), strict=True))
    kernel = make(target.title, target.text, target.forms, arguments, target.many)
    operands, outs = ([ShapedArray((1,) * ndim, np.dtype(dtype)) for dtype, ndim in types] for types in target.types)
    return target_of(kernel, operands, outs)
