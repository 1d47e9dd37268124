# SPDX-License-Identifier: Apache-2.0
"""`CpuLoops`: the steps of a component, and its steps back, as native calls on the CPU."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ....scalar.numba_text import numba_text
from ..cells import Cells
from .text import GROUP, backward_text, forward_text

__all__ = ["CpuLoops"]

Array = Any


class CpuLoops:
    """Runs all samples of a batch in generated loops, in threads."""

    title = "numba"

    def refusal(self, cells: Cells) -> str:
        """Say what these loops cannot run; nothing if they can run it."""
        return ""

    def forward(
        self, cells: Cells, steps: int, size: int, given: Mapping[str, Array], batched: Collection[str]
    ) -> dict[str, Array]:
        """Run all steps of a batch of `size` samples; arrays in `batched` have samples as their first axis."""
        operands = {**given, **_structures(cells)}
        text = forward_text(cells, list(operands), batched, _scalars(cells, given, batched))
        forms = [cell.forward for cell in cells.cells]
        return _called("train_forward", text, forms, operands, _outs(cells.outputs(steps), size), 0)

    def backward(
        self, cells: Cells, steps: int, size: int, given: Mapping[str, Array], batched: Collection[str]
    ) -> dict[str, Array]:
        """Run all steps back."""
        operands = {**given, **_structures(cells)}
        text = backward_text(cells, list(operands), batched, _scalars(cells, given, batched))
        forms = [cell.backward for cell in cells.cells]
        group = 1 if any(f"w{j}" in batched for j in range(len(cells.products))) else GROUP
        return _called("train_backward", text, forms, operands, _outs(cells.cotangents(steps), size), group)


def _structures(cells: Cells) -> dict[str, Array]:
    """Return the structures of sparse products: where rows begin, targets, and the places of delays."""
    found = {}
    for j, one in enumerate(cells.products):
        if not one.dense:
            found |= {f"b{j}": one.starts.astype(np.int32), f"i{j}": one.synapses.targets.astype(np.int32)}
            found[f"k{j}"] = one.which.astype(np.int32)
    return found


def _scalars(cells: Cells, given: Mapping[str, Array], batched: Collection[str]) -> list[str]:
    """Return the labels of parameters that all neurons share."""
    labels = [(f"q{cell.place}_{key}", cell.size) for cell in cells.cells for key in cell.params]
    return [label for label, _ in labels if given[label].shape[label in batched :] == (1,)]


def _outs(shapes: Mapping[str, tuple[tuple[int, ...], str]], size: int) -> dict[str, Any]:
    return {label: jax.ShapeDtypeStruct((size, *shape), dtype) for label, (shape, dtype) in shapes.items()}


def _called(
    name: str, text: str, forms: Any, operands: Mapping[str, Array], outs: Mapping[str, Any], group: int
) -> dict[str, Array]:
    from ....backends.numba import numba_kernel

    size = next(iter(outs.values())).shape[0]
    make = importlib.import_module(f"{__package__}.on_kernels").kernel_of
    first = next(iter(outs))
    arguments = [*operands, *outs]
    full = f"# {numba_text(forms)}\n".replace("\n", "\n# ") + "\n" + text
    kernel = make(name, full, forms, arguments, first, group=group, threads=size > max(1, group))
    results = numba_kernel(kernel, outs=list(outs.values()))(*(jnp.asarray(x) for x in operands.values()))
    return dict(zip(outs, results, strict=True))
