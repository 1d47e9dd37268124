# SPDX-License-Identifier: Apache-2.0
"""Promises about vmap: of one operand, of all, nested, and of size 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..compare import Skipped, assert_close, during
from .subject import ELEMENTS, Subject

__all__ = ["check_vmap_all", "check_vmap_each", "check_vmap_nested", "check_vmap_sizes", "note_on_samples"]


def check_vmap_each(subject: Subject) -> str:
    """Map each operand alone, along its first, second and last axis."""
    _need_operands(subject)
    for i, samples in enumerate(subject.samples):
        for axis in sorted({0, min(1, samples[0].ndim), samples[0].ndim}):
            axes = [axis if k == i else None for k in range(subject.count)]
            _check(subject, axes, ELEMENTS, f"operand {i} mapped along axis {axis}")
    return note_on_samples(subject)


def check_vmap_all(subject: Subject) -> str:
    """Map all operands: along their first axes, eagerly and jitted, and along different axes."""
    _need_operands(subject)
    first = [0] * subject.count
    _check(subject, first, ELEMENTS, "all operands mapped, not jitted", jitted=False)
    _check(subject, first, ELEMENTS, "all operands mapped")
    mixed = [samples[0].ndim if i % 2 == 0 else 0 for i, samples in enumerate(subject.samples)]
    _check(subject, mixed, ELEMENTS, f"all operands mapped, along the axes {mixed}")
    return note_on_samples(subject)


def check_vmap_sizes(subject: Subject) -> None:
    """Map over no element, and over one."""
    _need_operands(subject)
    for size in (0, 1):
        _check(subject, [0] * subject.count, size, f"all operands mapped, a batch of {size}")
        if subject.count > 1:
            alone = [0] + [None] * (subject.count - 1)
            _check(subject, alone, size, f"operand 0 mapped, a batch of {size}")


def check_vmap_nested(subject: Subject) -> str:
    """Map all operands, and one of them within; and the other way round."""
    _need_operands(subject)
    every: list[int | None] = [0] * subject.count
    for i in range(subject.count):
        alone = [0 if k == i else None for k in range(subject.count)]
        _check_nested(subject, alone, every, f"operand {i} mapped within a map of all")
        if subject.count > 1:
            _check_nested(subject, every, alone, f"all operands mapped within a map of operand {i}")
    return note_on_samples(subject)


def note_on_samples(subject: Subject) -> str:
    """Return a note on operands that are repeated in a batch."""
    same = [str(i) for i in range(subject.count) if not subject.varies(i)]
    return f"batches repeat operand {', '.join(same)} (to vary it pass samples=)" if same else ""


def _need_operands(subject: Subject) -> None:
    if not subject.count:
        raise Skipped("it has no operands")


def _check(subject: Subject, axes: Sequence[int | None], size: int, where: str, jitted: bool = True) -> None:
    mapped = [i for i, axis in enumerate(axes) if axis is not None]
    wanted = subject.expected_batch([subject.choice(b, mapped) for b in range(size)])
    with during(where):
        function = jax.vmap(subject.call, in_axes=tuple(axes), axis_size=size)
        found = (jax.jit(function) if jitted else function)(*subject.stacked(size, axes))
        assert_close(found, wanted, subject.tolerance)


def _check_nested(subject: Subject, inner: Sequence[int | None], outer: Sequence[int | None], where: str) -> None:
    """Give operand i, in element [a, b], its sample number a + b, counting only the levels that map it."""
    sizes = (2, ELEMENTS)
    rows = []
    for a in range(sizes[0]):
        counted = [(a if o is not None else 0, n is not None) for n, o in zip(inner, outer, strict=True)]
        choices = [tuple((k + b * within) % ELEMENTS for k, within in counted) for b in range(sizes[1])]
        rows.append(subject.expected_batch(choices))
    wanted = [np.stack(parts) for parts in zip(*rows, strict=True)]
    with during(where):
        function = jax.vmap(jax.vmap(subject.call, in_axes=tuple(inner)), in_axes=tuple(outer))
        found = jax.jit(function)(*(_nested(subject, i, inner[i], outer[i], sizes) for i in range(subject.count)))
        assert_close(found, wanted, subject.tolerance)


def _nested(subject: Subject, i: int, inner: int | None, outer: int | None, sizes: tuple[int, int]) -> Any:
    if inner is None:
        axes = [0 if k == i and outer is not None else None for k in range(subject.count)]
        return subject.stacked(sizes[0], axes)[i]
    axes = [0 if k == i else None for k in range(subject.count)]
    if outer is None:
        return subject.stacked(sizes[1], axes)[i]
    return jax.numpy.stack([subject.stacked(sizes[1], axes, first=a)[i] for a in range(sizes[0])])
